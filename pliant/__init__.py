"""pliant: a compiler for tensor programs whose sizes move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .runtime import Executable, PliantError, get_num_threads, load, set_num_threads

if TYPE_CHECKING:
    from .compiler.driver import compile
    from .compiler.torch_program import from_torch
    from .ir.diagnostics import CompileError
    from .ir.parser import parse_module as parse

__version__ = "0.1.0"

__all__ = [
    "CompileError",
    "Executable",
    "PliantError",
    "__version__",
    "compile",
    "from_torch",
    "get_num_threads",
    "load",
    "parse",
    "set_num_threads",
]

_LAZY = {
    "CompileError": ("ir.diagnostics", "CompileError"),
    "compile": ("compiler.driver", "compile"),
    "from_torch": ("compiler.torch_program", "from_torch"),
    "parse": ("ir.parser", "parse_module"),
}


def __getattr__(name: str) -> Any:
    # An artifact runs without the compiler and what it needs (lark, sympy, llvmlite): they are imported when asked for.
    if name in _LAZY:
        import importlib

        module, attribute = _LAZY[name]
        return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
