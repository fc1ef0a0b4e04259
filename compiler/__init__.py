"""Targets, pipelines, the driver, the command line and the code generators."""
