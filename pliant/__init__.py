"""pliant: a compiler for tensor programs whose sizes move.

`compile` makes an `Executable` of a program, `from_torch` a `Model` of a torch model; `load` reads either back from a
file. Everything that is refused raises a `PliantError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compiler.codegen.llvm import CompilerFaultWarning
    from .compiler.driver import compile
    from .compiler.torch_program import from_torch
    from .errors import PliantError
    from .ir.diagnostics import CompileError
    from .ir.interpret import InterpretError
    from .ir.parser import parse_module as parse
    from .ir.verify import VerifyError
    from .passes.pass_base import PassError
    from .runtime import (
        ArgumentError,
        Artifact,
        CallError,
        DeviceError,
        DTypeError,
        Executable,
        Function,
        KernelError,
        LayoutError,
        LoadError,
        Model,
        RefusalError,
        SaveError,
        ShapeError,
        SizeError,
        get_num_threads,
        load,
        set_num_threads,
    )

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "Artifact",
    "CallError",
    "CompileError",
    "CompilerFaultWarning",
    "DTypeError",
    "DeviceError",
    "Executable",
    "Function",
    "InterpretError",
    "KernelError",
    "LayoutError",
    "LoadError",
    "Model",
    "PassError",
    "PliantError",
    "RefusalError",
    "SaveError",
    "ShapeError",
    "SizeError",
    "VerifyError",
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
    "CompilerFaultWarning": ("compiler.codegen.llvm", "CompilerFaultWarning"),
    "InterpretError": ("ir.interpret", "InterpretError"),
    "PassError": ("passes.pass_base", "PassError"),
    "VerifyError": ("ir.verify", "VerifyError"),
    "PliantError": ("errors", "PliantError"),
    "ArgumentError": ("runtime", "ArgumentError"),
    "Artifact": ("runtime", "Artifact"),
    "CallError": ("runtime", "CallError"),
    "DTypeError": ("runtime", "DTypeError"),
    "DeviceError": ("runtime", "DeviceError"),
    "Executable": ("runtime", "Executable"),
    "Function": ("runtime", "Function"),
    "KernelError": ("runtime", "KernelError"),
    "LayoutError": ("runtime", "LayoutError"),
    "LoadError": ("runtime", "LoadError"),
    "Model": ("runtime", "Model"),
    "RefusalError": ("runtime", "RefusalError"),
    "SaveError": ("runtime", "SaveError"),
    "ShapeError": ("runtime", "ShapeError"),
    "SizeError": ("runtime", "SizeError"),
    "compile": ("compiler.driver", "compile"),
    "from_torch": ("compiler.torch_program", "from_torch"),
    "get_num_threads": ("runtime", "get_num_threads"),
    "load": ("runtime", "load"),
    "parse": ("ir.parser", "parse_module"),
    "set_num_threads": ("runtime", "set_num_threads"),
}


def __getattr__(name: str) -> Any:
    # An artifact runs without the compiler and what it needs (lark, sympy, llvmlite): they are imported when asked for.
    # So is the runtime with numpy, since the command line must be in charge of the process before it waits for them.
    if name in _LAZY:
        import importlib

        module, attribute = _LAZY[name]
        return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """All that is public, what is imported when it is first used among it."""
    return sorted(__all__)
