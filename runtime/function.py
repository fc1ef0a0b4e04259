"""A function of an executable: what happens at a call.

The way of most calls is short: the addresses of the arguments go into a frame, native code reads and checks them,
results are allocated, native code runs. Whatever is unusual makes native code refuse (an argument that is no numpy
array, too little memory, a wrong size) and takes the long way, which converts what can be converted, or explains.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import arrays
from .arguments import Arguments
from .arrays import Array, Export, Parameter
from .codec import Tree
from .contract import Function as Signature
from .contract import Kernel
from .dtypes import numpy_dtype
from .errors import ArgumentError, LayoutError, SizeError
from .frames import Frame, FramePool
from .layout import WORD, Failure, Slot
from .messages import Explainer
from .numpy_abi import Lookalike, arrays_are_readable

# Failures that another array of the same values may not have.
_FITTING = (Failure.DTYPE, Failure.LAYOUT, Failure.READ_ONLY)
Native = Callable[[int], int]
Allocate = Callable[[tuple[int, ...], np.dtype[Any]], Array]
# `prepare` reads Python objects and is short: it keeps the interpreter lock. `run` gives it up.
_PREPARE = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_size_t)
_RUN = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_size_t)


@dataclass(frozen=True)
class Entry:
    """Native code of a function, and what keeps it and all that it points to alive."""

    prepare: int
    run: int
    owner: object


@dataclass(frozen=True)
class _Output:
    """Name, element type and how to read the sizes from a frame."""

    name: str
    what: str
    dtype: np.dtype[Any]
    read: Callable[..., tuple[Any, ...]]
    offset: int

    def shape(self, frame: Frame) -> tuple[int, ...]:
        return self.read(frame.buffer, self.offset)


def _refuse(address: int) -> int:
    return int(Failure.NOT_ARRAY)


class Function:
    """Callable with arrays, by position or by parameter name; `out` takes buffers for the results.

    Where a parameter is itself called `out`, the word is the parameter's, and buffers can be given in calls that give
    every argument by position. Arrays have the element types and shapes of the declaration (`repr`); what does not fit
    raises a `CallError`.

    Any number of threads may call it at once.
    """

    __slots__ = (
        "_arguments",
        "_count",
        "_entry",
        "_explain",
        "_fast_prepare",
        "_first",
        "_frames",
        "_free",
        "_given",
        "_named",
        "_outputs",
        "_params",
        "_pick",
        "_prepare",
        "_readable",
        "_results_at",
        "_run",
        "_store",
        "_store_outputs",
        "signature",
    )

    def __init__(
        self,
        signature: Signature,
        kernels: tuple[Kernel, ...],
        entry: Entry,
        fixed: Mapping[int, int],
        load: Signature | None = None,
    ) -> None:
        """`fixed` are the values of frame slots that do not change: addresses of weights, symbols bound at load.

        `load` is the load program, which bound those symbols.
        """
        self.signature = signature
        self._entry = entry
        self._explain = Explainer(signature, kernels, load)
        self._params = tuple(
            Parameter(self._explain.argument(t.name), str(t), numpy_dtype(t.dtype), len(t.dims), t.inout, t.name)
            for t in signature.params
        )
        self._outputs = _outputs(signature)
        self._first = self._outputs[0] if len(self._outputs) == 1 and isinstance(signature.tree, str) else None
        self._pick = _picker(signature)
        self._count = len(signature.params)
        self._named = Arguments.of(signature.name, signature.params)
        # Where there are tuples every call is bound by name: no call has -1 arguments.
        self._given = -1 if self._named.has_tuples else self._count
        frame = signature.frame
        self._arguments = frame.arguments * WORD
        self._results_at = frame.outputs * WORD
        self._store = struct.Struct(f"@{self._count}n").pack_into
        self._store_outputs = struct.Struct(f"@{len(self._outputs)}n").pack_into
        self._readable = arrays_are_readable()
        self._prepare: Native = _PREPARE(entry.prepare)
        self._fast_prepare: Native = self._prepare if self._readable else _refuse
        self._run: Native = _RUN(entry.run)
        self._frames = FramePool(_template(signature, self._params, fixed), signature.arena.isdigit(), signature.in_use)
        self._free = self._frames.free

    @property
    def name(self) -> str:
        return self.signature.name

    def __repr__(self) -> str:
        """The declaration, `@main(x: f32[n, 4]) -> (f32[n, 4])`."""
        outputs = ", ".join(map(str, self.signature.outputs))
        return f"@{self.name}({self._named.declaration(self.signature.params)}) -> ({outputs})"

    def __call__(self, /, *args: Any, out: Any = None, **named: Any) -> Any:
        if named or len(args) != self._given:
            if out is not None and self._named.has("out") and len(args) < self._count:
                named, out = {**named, "out": out}, None
            args = self._named.bind(args, named)
        if out is not None:
            return self._long_way(self._take(), args, out)
        try:
            frame = self._free.pop()
        except IndexError:
            frame = self._frames.make()
        buffer, address = frame.buffer, frame.address
        if self._count == 1:
            self._store(buffer, self._arguments, id(args[0]))
        else:
            self._store(buffer, self._arguments, *map(id, args))
        if self._fast_prepare(address):
            return self._long_way(frame, args, None)
        first = self._first
        try:
            if first is not None:
                results: Any = np.empty(first.read(buffer, first.offset), first.dtype)
                self._store_outputs(buffer, self._results_at, id(results))
            else:
                made = [np.empty(o.read(buffer, o.offset), o.dtype) for o in self._outputs]
                self._store_outputs(buffer, self._results_at, *map(id, made))
                results = self._pick(made)
        except MemoryError as error:
            raise self._no_memory(error) from error
        record = self._run(address)
        if record:
            raise self._kernel_failure(frame, record)
        self._free.append(frame)
        return results

    def run_load(self, inputs: list[Array], allocate: Allocate) -> tuple[list[Array], dict[str, int]]:
        """Runs a load program: its results, and the symbols that it bound."""
        frame = self._take()
        try:
            self._prepare_with(frame, inputs)
            made = [allocate(o.shape(frame), o.dtype) for o in self._outputs]
            self._run_with(frame, made)
            return made, {name: frame.get(slot) for name, slot in self.signature.frame.symbols.items()}
        finally:
            self._free.append(frame)

    # -- the long way

    def _take(self) -> Frame:
        try:
            return self._free.pop()
        except IndexError:
            return self._frames.make()

    def _no_memory(self, error: MemoryError) -> SizeError:
        return SizeError(f"@{self.name}: there is no memory for the result: {error}")

    def _kernel_failure(self, frame: Frame, record: int) -> Exception:
        error = self._explain.failed_check(frame, record)
        self._free.append(frame)
        return error

    def _long_way(self, frame: Frame, args: tuple[Any, ...], out: Any) -> Any:
        try:
            export: Export | None = None
            inputs: list[Array] = []
            for param, value in zip(self._params, args, strict=True):
                if type(value) is not np.ndarray:
                    value, exporter = arrays.as_array(param, value)
                    export = export or exporter
                inputs.append(value)
            self._prepare_with(frame, inputs)
            made, given = self._results(frame, inputs, out)
            self._run_with(frame, made)
            if given is not None:
                return self._pick(given)
            return self._pick(made if export is None else [export(a) for a in made])
        finally:
            self._free.append(frame)

    def _write(self, frame: Frame, store: Callable[..., None], at: int, items: list[Array]) -> object:
        """Puts the addresses of arrays into the frame, and returns what must live until they have been read."""
        if self._readable:
            store(frame.buffer, at, *map(id, items))
            return None
        structs = [Lookalike.of(a) for a in items]
        store(frame.buffer, at, *(s.address for s in structs))
        return structs

    def _prepare_with(self, frame: Frame, inputs: list[Array]) -> None:
        """Runs `prepare`, giving it what it asks for; raises what it refuses.

        Large arguments that must be copied are looked at first, and copied when their sizes are found to be allowed.
        """
        later: dict[int, Array] = {}
        while True:
            pins = self._write(frame, self._store, self._arguments, inputs)
            failure = self._prepare(frame.address)
            del pins
            if failure == 0 and not later:
                return
            if failure == 0:
                for index, array in later.items():
                    inputs[index] = arrays.fit(self._params[index], array)
                later = {}
                continue
            if failure == Failure.GROW:
                frame.grow(frame.get(Slot.GOT))
            elif failure == Failure.OVERLAP:
                self._part(frame, inputs)
            elif failure in _FITTING:
                self._fit(frame.get(Slot.INDEX), inputs, later)
            else:
                raise self._explain.refusal(frame)

    def _run_with(self, frame: Frame, made: list[Array]) -> None:
        pins = self._write(frame, self._store_outputs, self._results_at, made)
        record = self._run(frame.address)
        del pins
        if record:
            raise self._explain.failed_check(frame, record)

    def _fit(self, index: int, inputs: list[Array], later: dict[int, Array]) -> None:
        """Converts an argument that native code cannot read as it is, where that is allowed, or puts it off."""
        param, array = self._params[index], inputs[index]
        if arrays.is_large_copy(param, array):
            later[index], inputs[index] = array, arrays.stand_in(array)
            return
        inputs[index] = arrays.fit(param, array)
        if inputs[index] is array:
            raise LayoutError(f"{param.what} cannot be read: {array.dtype}, {array.flags}")

    def _part(self, frame: Frame, inputs: list[Array]) -> None:
        """Copies an argument that shares memory with one that is written; LayoutError when both are written."""
        written, other = frame.get(Slot.INDEX), frame.get(Slot.DIM)
        if self._params[other].inout:
            first, second = self._params[written].what, self._params[other].what
            raise LayoutError(f"{first} and {second} are both written to, and share memory")
        inputs[other] = inputs[other].copy()

    def _results(self, frame: Frame, inputs: list[Array], out: Any) -> tuple[list[Array], list[Any] | None]:
        """Arrays to write to, and the caller's buffers that they stand for, if there are any."""
        shapes = [o.shape(frame) for o in self._outputs]
        if out is None:
            try:
                return [np.empty(s, o.dtype) for s, o in zip(shapes, self._outputs, strict=True)], None
            except MemoryError as error:
                raise self._no_memory(error) from error
        given = self._given_buffers(out)
        made = [
            arrays.output_buffer(o.what, value, o.dtype, shape)
            for o, value, shape in zip(self._outputs, given, shapes, strict=True)
        ]
        shared = arrays.overlapping(
            [(o.what, a) for o, a in zip(self._outputs, made, strict=True)],
            [(p.what, a) for p, a in zip(self._params, inputs, strict=True)],
        )
        if shared is not None:
            raise shared
        return made, given

    def _given_buffers(self, out: Any) -> list[Any]:
        tree = self.signature.tree
        found: dict[str, Any] = {}
        if not _match(tree, out, found):
            raise ArgumentError(f"@{self.name}: `out` must be {_describe(tree)}, as the results are")
        return [found[o.name] for o in self._outputs]


def _outputs(signature: Signature) -> tuple[_Output, ...]:
    outputs, position = [], signature.frame.shapes
    for tensor in signature.outputs:
        read = struct.Struct(f"@{len(tensor.dims)}n").unpack_from
        what = f"the buffer for result `{tensor.name}` of @{signature.name}"
        outputs.append(_Output(tensor.name, what, numpy_dtype(tensor.dtype), read, position * WORD))
        position += len(tensor.dims)
    return tuple(outputs)


def _template(signature: Signature, params: tuple[Parameter, ...], fixed: Mapping[int, int]) -> bytes:
    words = [0] * signature.frame.slots
    words[Slot.ARRAY_TYPE] = id(np.ndarray)
    for index, param in enumerate(params):
        words[signature.frame.descriptors + index] = id(param.dtype)
    for slot, value in fixed.items():
        words[slot] = value
    return struct.pack(f"@{len(words)}q", *words)


def _picker(signature: Signature) -> Callable[[list[Any]], Any]:
    """Makes the result of a call from its outputs; None where there are none."""
    positions = {t.name: i for i, t in enumerate(signature.outputs)}
    whole = signature.tree

    def pick(tree: Tree, values: list[Any]) -> Any:
        if isinstance(tree, str):
            return values[positions[tree]]
        return tuple(pick(item, values) for item in tree)

    return lambda values: pick(whole, values) if whole != () else None


def _match(tree: Tree, value: Any, found: dict[str, Any]) -> bool:
    """Whether `value` has the form of the tree; fills in the buffer for each output."""
    if isinstance(tree, str):
        found[tree] = value
        return not isinstance(value, (tuple, list))
    if not isinstance(value, (tuple, list)) or len(value) != len(tree):
        return False
    return all(_match(t, v, found) for t, v in zip(tree, value, strict=True))


def _describe(tree: Tree) -> str:
    if isinstance(tree, str):
        return "an array"
    return f"a tuple of {len(tree)} ({', '.join(map(_describe, tree))})"
