"""An imported model: called as the framework's own was, with the same trees of arguments and results."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from . import arrays
from .arrays import Array
from .artifact import Artifact, raw_bytes
from .codec import MalformedError, decode, encode
from .dtypes import numpy_dtype
from .errors import LayoutError, LoadError
from .executable import Executable
from .structure import Classes, Leaf, Structure
from .weights import Weights, given_weights

CALL = "call.json"


@dataclass(frozen=True)
class Buffer:
    """A buffer that the model changes: its parameter, and where its value lies in the artifact."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def member(self) -> str:
        return f"state/{self.name}"


@dataclass(frozen=True)
class Call:
    """What an artifact keeps of the model beside the program: how it is called, its state, what the import said."""

    structure: Structure
    state: tuple[Buffer, ...]
    notes: tuple[str, ...]


class Model:
    """A compiled model, called as the model was: by position or name, with defaults, trees of tensors, None.

    Tensors of torch give tensors of torch, numpy arrays give numpy arrays; without any, tensors where torch is
    imported. Buffers that the model changes live in `state`, arrays by name, which its calls update one after the
    other. Any number of threads may use it at once. Wrong arguments raise `ArgumentError`, wrong sizes `ShapeError`, as
    calls of an `Executable` do.
    """

    def __init__(
        self,
        executable: Executable,
        call: Call,
        state: Mapping[str, Array],
        *,
        classes: Classes | None = None,
        imported: Any = None,
    ) -> None:
        """`classes` are those that the trees are made of, where they are at hand; `imported` is what was imported."""
        self.executable = executable
        self.call = call
        self.state = {name: np.array(value) for name, value in state.items()}
        self.imported = imported
        self._classes = classes or Classes()
        self._lock = Lock()
        main = next(f for f in executable.artifact.contract.functions if f.name == "main")
        self._params = tuple(p.name for p in main.params)
        self._dtypes = {p.name: p.dtype for p in main.params}
        self._written = frozenset(p.name for p in main.params if p.inout and p.name not in self.state)
        direct = call.structure.direct
        arrays_only = any(p.dims or p.dtype != "i64" for p in main.params)
        self._direct = len(self._params) if direct == self._params and arrays_only and not self._written else None

    @staticmethod
    def of(artifact: Artifact, weights: Weights | None = None) -> Model:
        """The model that an artifact holds; LoadError when it holds none, or is damaged."""
        try:
            call = decode(Call, json.loads(bytes(artifact.members[CALL])), "call")
        except KeyError:
            raise LoadError(f"{artifact.source} is no imported model: load it with pliant.load") from None
        except (MalformedError, ValueError, RecursionError) as error:
            raise LoadError(f"{artifact.source} is damaged: {CALL}: {error}") from error
        if not any(f.name == "main" for f in artifact.contract.functions):
            raise LoadError(f"{artifact.source} is damaged: a model has a function @main")
        return Model(Executable(artifact, weights), call, {b.name: _stored(artifact, b) for b in call.state})

    @staticmethod
    def load(path: str | os.PathLike[str], weights: Weights | None = None) -> Model:
        """The model that `save` wrote; LoadError when the file holds none. `pliant.load` reads either kind of file."""
        return Model.of(Artifact.open(path), given_weights(weights))

    @property
    def module(self) -> Any:
        """The program as a module of the language; of a model from a file there is its text, `source`."""
        if self.imported is None:
            raise AttributeError("a model from a file has its program as text: pliant.parse(model.source)")
        return self.imported.module

    @property
    def notes(self) -> tuple[str, ...]:
        """What the import decided and its user should know."""
        return self.call.notes

    @property
    def source(self) -> str:
        """The program as text of the language."""
        return self.executable.source

    def __repr__(self) -> str:
        return f"<Model {self.call.structure}: {self.executable['main']}>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if len(args) == self._direct and not kwargs:
            return self.executable(*args)
        leaves = self.call.structure.leaf_values(args, kwargs, self._classes)
        named = zip(self.call.structure.leaves, leaves, strict=True)
        given = {leaf.param: self._given(leaf, value) for leaf, value in named if leaf.param is not None}
        if self._written:
            self._refuse_shared(given)
        if not self.state:
            return self._run(given)
        with self._lock:
            return self._run({**given, **self.state})

    def _given(self, leaf: Leaf, value: Any) -> Any:
        if not leaf.pairs or leaf.param is None:
            return value
        return arrays.as_pairs(leaf.what, value, self._dtypes[leaf.param], leaf.param in self._written)

    def _run(self, given: Mapping[str, Any]) -> Any:
        made = self.executable(*(given[name] for name in self._params))
        results = list(made) if isinstance(made, tuple) else [] if made is None else [made]
        mine = [value for name, value in given.items() if name not in self.state]
        if all(isinstance(value, (bool, int, float)) for value in mine) and "torch" in sys.modules:
            results = [arrays.to_torch(r) for r in results]  # nothing says which kind of array is wanted: the model's
        return self.call.structure.results(results, self._classes)

    def _refuse_shared(self, given: Mapping[str, Any]) -> None:
        """LayoutError for arguments that share memory which the model writes to: it would see the new values."""
        views = {name: view for name, value in given.items() if (view := arrays.view_of(value)) is not None}
        for wrote in self._written & views.keys():
            for other, array in views.items():
                if other != wrote and np.may_share_memory(views[wrote], array):
                    raise LayoutError(
                        f"the arguments `{wrote}` and `{other}` share memory, and the model writes to `{wrote}`: torch "
                        f"would see that through `{other}`, where arguments of a compiled program are separate; "
                        f"pass `{other}` as a copy (x.clone())",
                        argument=other,
                    )

    @property
    def artifact(self) -> Artifact:
        """The artifact with all that makes it a model, and the state as it is now."""
        with self._lock:
            state = {name: np.array(value) for name, value in self.state.items()}
        buffers = tuple(Buffer(name, self._dtypes[name], a.shape) for name, a in state.items())
        members = {b.member: raw_bytes(state[b.name]) for b in buffers}
        members[CALL] = memoryview(json.dumps(encode(replace(self.call, state=buffers)), indent=1).encode())
        artifact = self.executable.artifact
        return replace(artifact, members={**artifact.members, **members})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model with its weights and its state to one file (`.pliant`), all or nothing.

        `pliant.load` gives it back, without torch. SaveError when the file cannot be written.
        """
        self.artifact.save(path)

    def inspect(self) -> dict[str, Any]:
        """The contract, the memory plan, the sizes of the members, and how the model is called, as plain data."""
        return {**self.executable.inspect(), "call": encode(self.call)}

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _unpacked, self.executable.packed(self.artifact)


def _unpacked(packed: Callable[..., Executable], arguments: tuple[Any, ...]) -> Model:
    return Model.of(packed(*arguments).artifact)


def _stored(artifact: Artifact, buffer: Buffer) -> Array:
    try:
        data, dtype = artifact.members[buffer.member], numpy_dtype(buffer.dtype)
        made: Array = np.frombuffer(data, np.uint8).view(dtype).reshape(buffer.shape)
        return made
    except (KeyError, ValueError, OverflowError) as error:
        raise LoadError(f"{artifact.source} is damaged: the buffer `{buffer.name}`: {error}") from error


def load(
    path: str | os.PathLike[str], weights: Weights | None = None, *, verify: bool = True, mmap: bool = True
) -> Executable | Model:
    """Loads an artifact from a file: a `Model` where an imported model was saved, else an `Executable`.

    LoadError when the file is damaged, made for another machine, or lacks weights.

    `weights` is a mapping of names to arrays or the path of a `.safetensors` file; weights in the artifact need not be
    given. `verify=False` leaves out the checksums of code and weights.

    Files are mapped: one that is cut short in place while it is in use ends the process (SIGBUS), as with every mapped
    file; one that is replaced, as everything here writes them, is safe. `mmap=False` reads them into memory instead.
    """
    artifact, given = Artifact.open(path, verify=verify, mmap=mmap), given_weights(weights, mapped=mmap)
    return Model.of(artifact, given) if CALL in artifact.members else Executable(artifact, given)
