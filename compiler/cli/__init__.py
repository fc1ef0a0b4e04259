"""The command line: `pliant` and `python -m pliant`, a file a command."""

from .app import main

__all__ = ["main"]
