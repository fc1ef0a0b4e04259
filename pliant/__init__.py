"""pliant: a compiler for tensor programs whose sizes move."""

__version__ = "0.1.0"

__all__ = ["__version__"]
