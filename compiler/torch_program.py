"""Torch models compiled: callable with torch's own arguments, giving torch's own results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime import Executable
from .driver import compile
from .progress import Progress, Stage

if TYPE_CHECKING:
    from ..frontends.torch import Imported


class TorchProgram:
    """A compiled torch model.

    Called as the model was, with torch tensors or numpy arrays, it gives the model's own structure of results, in the
    caller's kind of array.  Buffers that the model changes live in `state`, which its calls update one after the other.
    """

    def __init__(self, imported: Imported, executable: Executable) -> None:
        self.imported = imported
        self.executable = executable
        self.state = {name: np.array(value) for name, value in imported.state.items()}
        self._lock = Lock()
        self._direct = imported.direct

    @property
    def module(self) -> Any:
        """The program as a module of the language."""
        return self.imported.module

    @property
    def notes(self) -> tuple[str, ...]:
        """What the import decided and its user should know."""
        return self.imported.notes

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == self._direct and not kwargs:
            return self.executable(*args)
        given = self.imported.arguments(args, kwargs)
        if not self.state:
            return self.imported.results(self.executable(**given))
        with self._lock:
            return self.imported.results(self.executable(**self.state, **given))


def from_torch(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    target: str = "cpu",
    progress: Progress | None = None,
) -> TorchProgram:
    """Compiles a `torch.nn.Module` or an `ExportedProgram`, whose sizes may move as `dynamic_shapes` says.

    `args` and `kwargs` are the example arguments of `torch.export.export`; an exported program needs none.  Raises
    CompileError when the model cannot be exported or imported.
    """
    if progress is not None:
        progress(Stage("importing the model"))
    imported = frontend().import_torch(model, args, kwargs, dynamic_shapes)
    return compiled(imported, target, progress)


def compiled(imported: Imported, target: str = "cpu", progress: Progress | None = None) -> TorchProgram:
    """An imported program, compiled with its weights."""
    executable = compile(imported.module, target=target, weights=imported.weights or None, progress=progress)
    return TorchProgram(imported, executable)


def frontend() -> Any:
    """The torch importer; loaded by name, because torch is wanted only here."""
    return import_module("..frontends.torch", __package__)
