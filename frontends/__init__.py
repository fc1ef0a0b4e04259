"""Importers from other frameworks; each depends on pliant.ir only and is loaded by name."""
