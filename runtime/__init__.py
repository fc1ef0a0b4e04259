"""Loading and running artifacts. Imports nothing of ir, passes, compiler or frontends."""

from .artifact import Artifact
from .container import SaveError
from .errors import (
    ArgumentError,
    CallError,
    DeviceError,
    DTypeError,
    KernelError,
    LayoutError,
    LoadError,
    PliantError,
    RefusalError,
    ShapeError,
    SizeError,
)
from .executable import Executable
from .function import Function
from .model import Model, load
from .process import get_num_threads, set_num_threads

__all__ = [
    "ArgumentError",
    "Artifact",
    "CallError",
    "DTypeError",
    "DeviceError",
    "Executable",
    "Function",
    "KernelError",
    "LayoutError",
    "LoadError",
    "Model",
    "PliantError",
    "RefusalError",
    "SaveError",
    "ShapeError",
    "SizeError",
    "get_num_threads",
    "load",
    "set_num_threads",
]
