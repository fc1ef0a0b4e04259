"""Torch models compiled: callable with torch's own arguments, giving torch's own results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ir.diagnostics import error
from ..runtime import Executable, Model
from ..runtime.model import Call
from .driver import compile
from .progress import Progress, Stage
from .torch_call import call_of

if TYPE_CHECKING:
    from ..frontends.torch import Imported


def from_torch(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    target: str = "cpu",
    dims: Mapping[str, int] | None = None,
    opt: int = 2,
    progress: Progress | None = None,
    allow_narrowing: bool = False,
) -> Model:
    """Compiles a `torch.nn.Module`, an `ExportedProgram` or a `.pt2` file; sizes move as `dynamic_shapes` says.

    `args` and `kwargs` are the example arguments of `torch.export.export`; an exported program needs none.  `dims`
    gives symbols a size for good (`{"n": 16}`), `target`, `opt` and `progress` are those of `compile`.  Raises
    CompileError when torch is not there, the model cannot be exported or imported, and when it is right for fewer sizes
    than `dynamic_shapes` allow, unless `allow_narrowing`: then calls are checked, and `notes` say what for.
    """
    torch = frontend()
    if progress is not None:
        progress(Stage("importing the model"))
    if isinstance(model, (str, PathLike)):
        model = torch.load_program(Path(model))
    imported = torch.import_torch(model, args, kwargs, dynamic_shapes, allow_narrowing)
    return compiled(imported, model=model, target=target, dims=dims, opt=opt, progress=progress)


def compiled(
    imported: Imported,
    *,
    model: Any = None,
    target: str = "cpu",
    dims: Mapping[str, int] | None = None,
    opt: int = 2,
    progress: Progress | None = None,
) -> Model:
    """An imported program, compiled with its weights, and called as `model` is, see `called`."""
    weights = imported.weights or None
    executable = compile(imported.module, target=target, weights=weights, dims=dims, opt=opt, progress=progress)
    return called(imported, executable, model)


def called(imported: Imported, executable: Executable, model: Any = None) -> Model:
    """An executable of the imported program, called as the model (a module or an exported program) is.

    Without the model nothing is known of the names of what is given by position.
    """
    structure, classes = call_of(imported, model)
    call = Call(structure, (), tuple(dict.fromkeys(imported.notes)))
    return Model(executable, call, imported.state, classes=classes, imported=imported)


def frontend() -> Any:
    """The torch importer; loaded by name, because torch is wanted only here. CompileError where there is no torch."""
    try:
        return import_module("..frontends.torch", __package__)
    except ModuleNotFoundError as absent:
        if (absent.name or "").partition(".")[0] != "torch":
            raise
        raise error("importing needs torch, which is not installed", helps=("pip install torch",)) from None
