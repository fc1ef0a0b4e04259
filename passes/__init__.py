"""Passes: each turns a module into a module that means the same."""
