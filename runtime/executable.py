"""An artifact that is loaded: its code in memory, its weights checked and packed, its functions callable."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import Array
from .artifact import Artifact
from .codec import decode, encode
from .contract import Contract
from .contract import Function as Signature
from .errors import ArgumentError, CallError, LoadError
from .function import Entry, Function
from .layout import SERIAL_RUN_SYMBOL, Slot
from .link import Image, link
from .process import PROCESS
from .weights import Weights, given_weights

_MAIN = "main"
_SHOWN = 3  # functions in a repr
SOURCE = "ir/source.ir"
_ALIGNMENT = 64


@dataclass(frozen=True, eq=False)
class _State:
    """What functions point to: the code, and arrays by space (weight, const, packed) and name."""

    image: Image
    arrays: Mapping[tuple[str, str], Array]
    symbols: Mapping[str, int]


class Executable:
    """The functions of an artifact by name. Calling it calls @main, or the only function there is.

    Any number of threads may use it at once. Without the weights that it needs it can be saved and inspected; calling
    it is refused. Weights are not copied where their memory can be used as it is: do not change them afterwards.

    Arrays are given by position or by the parameters' names, of the element types and shapes that the declaration says
    (`print(exe)`); results come as numpy arrays, or as the caller's kind of tensor. Calls raise a `CallError`:
    `ArgumentError`, `DTypeError`, `ShapeError`, `LayoutError`, `DeviceError`, `SizeError`, `KernelError`.

    It is copied and pickled by its artifact, with its weights: another process gets one of its own.
    """

    def __init__(self, artifact: Artifact, weights: Weights | None = None, *, lazy: bool = False) -> None:
        """Loads the code and runs the load program. LoadError when something is missing or wrong.

        `lazy` puts off the weights: if some are missing, that is said at the first call.
        """
        self.artifact = artifact
        self._functions: dict[str, Function] = {}
        self._lacking: LoadError | None = None
        self._weights: Mapping[str, Array] = {}
        artifact.require_machine()
        try:
            arrays = artifact.weights(weights)
        except LoadError as error:
            if not lazy or weights is not None:
                raise
            self._lacking = error
        else:
            self._functions, self._weights = _load(artifact, arrays), arrays
        self._main = self._find_main()

    def _find_main(self) -> Function | None:
        if _MAIN in self._functions:
            return self._functions[_MAIN]
        return next(iter(self._functions.values())) if len(self._functions) == 1 else None

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        main = self._main
        if main is None:
            raise self._no_main()
        return main(*args, **named)

    def _no_main(self) -> Exception:
        if self._lacking is not None:
            return self._lacking
        return ArgumentError(f'there is no @main; call exe["name"](...) with one of: {self._names()}')

    def __getitem__(self, name: str) -> Function:
        """The function of that name; ArgumentError if there is none, LoadError while weights are lacking."""
        if not isinstance(name, str):
            raise ArgumentError(f"a function is known by its name, not by a {type(name).__name__}: {self._names()}")
        if self._lacking is not None:
            raise self._lacking
        function = self._functions.get(name.removeprefix("@"))
        if function is None:
            raise ArgumentError(f"there is no function @{name.removeprefix('@')}; there are: {self._names()}")
        return function

    def __repr__(self) -> str:
        """The declarations of a few functions, and where the artifact came from."""
        shown = [repr(f) for f in list(self._functions.values())[:_SHOWN]]
        shown += [f"and {len(self._functions) - _SHOWN} more"] * (len(self._functions) > _SHOWN)
        if self._lacking is not None:
            shown = [", ".join(f"@{name}" for name in self), "its weights are not given"]
        return f"<Executable of {self.artifact.source}: {', '.join(shown)}>"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.packed(self.artifact)

    def packed(self, artifact: Artifact) -> tuple[Any, tuple[Any, ...]]:
        """What makes an executable of the artifact, with these weights, in another process; for pickle."""
        if self._weights:
            artifact = artifact.with_weights(self._weights)
        members = {name: bytes(data) for name, data in artifact.members.items()}
        return _restored, (encode(artifact.contract), members, artifact.source)

    @property
    def source(self) -> str:
        """The program as text of the language; empty where the artifact does not hold it."""
        return bytes(self.artifact.members.get(SOURCE, b"")).decode()

    def _names(self) -> str:
        return ", ".join(f"@{name}" for name in self._functions) or "none"

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.removeprefix("@") in list(self)

    def __iter__(self) -> Iterator[str]:
        return (f.name for f in self.artifact.contract.functions)

    def __len__(self) -> int:
        return len(self.artifact.contract.functions)

    def with_weights(self, weights: Weights) -> Executable:
        """The same code with other weights."""
        return Executable(self.artifact, weights)

    @staticmethod
    def load(path: str | os.PathLike[str], weights: Weights | None = None) -> Executable:
        """The executable of an artifact's file, as `pliant.load` reads it; that of a model too."""
        return Executable(Artifact.open(path), given_weights(weights))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the artifact to a file (`.pliant`), all or nothing."""
        self.artifact.save(path)

    def inspect(self) -> dict[str, Any]:
        """The contract as plain data, the memory plan if the artifact has one, and the sizes of its members."""
        return self.artifact.inspect()


def _restored(contract: Any, members: Mapping[str, bytes], source: str) -> Executable:
    """An executable from what it was pickled as."""
    return Executable(Artifact(decode(Contract, contract), members, source), lazy=True)


def _load(artifact: Artifact, weights: dict[str, Array]) -> dict[str, Function]:
    contract = artifact.contract
    image = link({name: artifact.members[name] for name in contract.objects})
    if contract.seal not in image.symbols:
        raise LoadError(f"{artifact.source} is damaged: its contract is not the one that its code was made with")
    arrays: dict[tuple[str, str], Array] = {("weight", name): array for name, array in weights.items()}
    for tensor in contract.consts:
        stored = artifact.tensor(tensor)
        if stored is None:
            raise LoadError(f"{artifact.source} is damaged: the constant `{tensor.name}` is missing")
        arrays["const", tensor.name] = stored
    state = _State(image, arrays, {})
    if contract.load is not None:
        state = _run_load(artifact, contract.load, state, weights)
    return {f.name: _function(artifact, f, state) for f in contract.functions}


def _run_load(artifact: Artifact, signature: Signature, state: _State, weights: dict[str, Array]) -> _State:
    """Checks the weights, binds their symbols and makes the packed buffers."""
    function = _function(artifact, signature, state)
    try:
        packed, symbols = function.run_load([weights[t.name] for t in signature.params], _aligned)
    except CallError as error:
        raise LoadError(f"{artifact.source}: {error}", **error.fields()) from error
    arrays = {**state.arrays, **{("packed", t.name): a for t, a in zip(signature.outputs, packed, strict=True)}}
    return _State(state.image, arrays, symbols)


def _function(artifact: Artifact, signature: Signature, state: _State) -> Function:
    fixed: dict[int, int] = {}
    try:
        for space, name, slot in signature.frame.tables:
            fixed[slot] = state.arrays[space, name].ctypes.data
        for name in signature.inherited:
            fixed[signature.frame.symbols[name]] = state.symbols[name]
    except KeyError as error:
        raise LoadError(f"{artifact.source} is damaged: @{signature.name} needs {error}, which is not there") from error
    pool = artifact.contract.pool
    if pool is None:
        fixed[Slot.POOL_RUN] = state.image.address(SERIAL_RUN_SYMBOL)
    else:
        shared = PROCESS.pool(artifact.members[pool])
        fixed[Slot.POOL_RUN], fixed[Slot.HANDLE] = shared.run, shared.control
    entry = Entry(state.image.address(signature.prepare), state.image.address(signature.run), state)
    return Function(signature, artifact.contract.kernels, entry, fixed, artifact.contract.load)


def _aligned(shape: tuple[int, ...], kind: np.dtype[Any]) -> Array:
    """An array that starts at a multiple of 64 bytes, for packed weights."""
    count = int(np.prod(shape, dtype=object))
    raw = np.empty(count * kind.itemsize + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + count * kind.itemsize].view(kind).reshape(shape)
