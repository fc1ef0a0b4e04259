"""What an artifact says of itself: all that a caller, a loader and an error message must know, as plain data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from .codec import Tree, encode
from .dtypes import is_dtype
from .layout import HEADER_SLOTS, SEAL_PREFIX

FORMAT = 1
STEP_KINDS = ("bind", "equal", "fact")
_MAX_SLOTS = 1 << 24


@dataclass(frozen=True)
class Tensor:
    """A parameter, result, weight or constant. `dims` are expressions as text; `member` holds its data, if any does."""

    name: str
    dtype: str
    dims: tuple[str, ...]
    inout: bool = False
    member: str | None = None

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(self.dims)}]"


@dataclass(frozen=True)
class Step:
    """A symbol that is bound, or a check, in the order in which host code does them.

    kind: `bind` (symbol == value / divisor), `equal` (value == expected) or `fact` (value is its text, and expected
    says what it allows a size that is computed with its symbol).
    `slots` are the (argument, dimension) pairs and `symbols` the symbols that it depends on.
    `origin` is the declaration that asked for it and `at` its place in the source.
    """

    kind: str
    symbol: str
    value: str
    divisor: str
    expected: str
    slots: tuple[tuple[str, int], ...]
    symbols: tuple[str, ...]
    origin: str
    at: str


@dataclass(frozen=True)
class Frame:
    """Numbers of the slots of a call's frame, see `layout`. `tables` are (space, name, slot)."""

    slots: int
    arguments: int
    outputs: int
    descriptors: int
    data: int
    tables: tuple[tuple[str, str, int], ...]
    symbols: dict[str, int]
    shapes: int


@dataclass(frozen=True)
class Function:
    """One function. `inherited` are the symbols bound at load; `arena` and `scratch` are bytes as expressions.

    `in_use`: a call that cannot have the arena can do with what its own sizes take.
    """

    name: str
    params: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    results: tuple[Tree, ...]
    single: bool
    inherited: tuple[str, ...]
    steps: tuple[Step, ...]
    arena: str
    in_use: bool
    scratch: str
    launches: tuple[str, ...]
    prepare: str
    run: str
    frame: Frame

    @property
    def tree(self) -> Tree:
        """How the result of a call is made of outputs."""
        return self.results[0] if self.single and self.results else self.results

    def faults(self) -> Iterator[str]:
        """What does not fit together in it."""
        frame, known = self.frame, {t.name for t in self.outputs}
        yield from (f"there is no result `{name}`" for name in _leaves(self.tree) if name not in known)
        if len(known) < len(self.outputs) or len({t.name for t in self.params}) < len(self.params):
            yield "two of its tensors have one name"
        if self.prepare == self.run:
            yield "`prepare` and `run` are one symbol"
        yield from self._frame_faults()
        bound = {s.symbol for s in self.steps if s.kind == "bind"}
        if {*self.inherited, *bound} != set(frame.symbols):
            yield "symbols and their slots differ"
        ranks = {t.name: len(t.dims) or 1 for t in self.params}
        for step in self.steps:
            if step.kind not in STEP_KINDS:
                yield f"there is no check of the kind `{step.kind}`"
            if not set(step.symbols) <= set(frame.symbols):
                yield f"a check is of symbols that are not bound: {', '.join(step.symbols)}"
            if not all(0 <= dim < ranks.get(name, 0) for name, dim in step.slots):
                yield "a check is of an argument that there is not"

    def _frame_faults(self) -> Iterator[str]:
        frame = self.frame
        parts = [(start, len(self.params)) for start in (frame.arguments, frame.descriptors, frame.data)]
        parts += [(frame.outputs, len(self.outputs)), (frame.shapes, sum(len(t.dims) for t in self.outputs))]
        parts += [(slot, 1) for *_, slot in frame.tables] + [(slot, 1) for slot in frame.symbols.values()]
        if not HEADER_SLOTS <= frame.slots <= _MAX_SLOTS:
            yield f"a frame has {frame.slots} slots"
        end = HEADER_SLOTS
        for start, size in sorted(part for part in parts if part[1]):
            if start < end:
                yield "parts of the frame overlap"
            end = max(end, start + size)
        if end > frame.slots or any(start < HEADER_SLOTS for start, _ in parts):
            yield "a part of the frame lies outside it"


def _leaves(tree: Tree) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    else:
        for item in tree:
            yield from _leaves(item)


@dataclass(frozen=True)
class Check:
    """What to say when a check on data fails; `{n}` in the message stands for the value of the symbol n."""

    message: str
    op: str
    at: str


@dataclass(frozen=True)
class Kernel:
    name: str
    origin: str
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Machine:
    """What the code was made for; `features` by LLVM's names."""

    triple: str
    cpu: str
    features: tuple[str, ...]

    @property
    def arch(self) -> str:
        return self.triple.partition("-")[0]


@dataclass(frozen=True)
class Contract:
    """`producer` is the version of pliant; `objects` are the members with code, `pool` the one with the thread pool.

    `shapes` are the sizes of the weights and constants that are in the artifact, by member.
    """

    producer: str
    frame_abi: int
    machine: Machine
    weights: tuple[Tensor, ...]
    consts: tuple[Tensor, ...]
    kernels: tuple[Kernel, ...]
    load: Function | None
    functions: tuple[Function, ...]
    objects: tuple[str, ...]
    pool: str | None
    shapes: dict[str, tuple[int, ...]]

    @property
    def seal(self) -> str:
        """The symbol that the host code defines if it was made with this contract.

        Its name holds the SHA-256 of all that code and contract must agree in: everything but which members of the file
        hold code and weights, and what sizes those weights have, which is checked by the code.
        """
        bare = tuple(replace(t, member=None) for t in self.weights)
        shared = replace(self, producer="", weights=bare, objects=(), pool=None, shapes={})
        text = json.dumps(encode(shared), sort_keys=True, separators=(",", ":"))
        return SEAL_PREFIX + hashlib.sha256(text.encode()).hexdigest()

    def faults(self) -> Iterator[str]:
        """What does not fit together in it."""
        functions = [*self.functions, *([self.load] if self.load is not None else [])]
        for function in functions:
            yield from (f"@{function.name}: {fault}" for fault in function.faults())
        if len({f.name for f in self.functions}) < len(self.functions):
            yield "two functions have one name"
        packed = self.load.outputs if self.load is not None else ()
        there = {("weight", t.name) for t in self.weights} | {("const", t.name) for t in self.consts}
        there |= {("packed", t.name) for t in packed}
        bound = set(self.load.frame.symbols) if self.load is not None else set[str]()
        for function in functions:
            lacking = [f"{space} `{name}`" for space, name, _ in function.frame.tables if (space, name) not in there]
            lacking += [f"symbol `{name}`" for name in function.inherited if name not in bound]
            yield from (f"@{function.name} needs {what}, which is not there" for what in lacking)
        if self.load is not None:
            names = {t.name for t in self.weights}
            yield from (f"there is no weight `{t.name}`" for t in self.load.params if t.name not in names)
        tensors = (*self.weights, *self.consts, *(t for f in functions for t in (*f.params, *f.outputs)))
        yield from (f"`{t.name}` has the unknown element type {t.dtype}" for t in tensors if not is_dtype(t.dtype))
        for tensor in (*self.weights, *self.consts):
            yield from (f"`{tensor.name}` {fault}" for fault in self._stored_faults(tensor))

    def _stored_faults(self, tensor: Tensor) -> Iterator[str]:
        """What is wrong with the shape of a tensor that is in the artifact; where a size is a number it must be it."""
        if tensor.member is None:
            return
        if tensor.member not in (f"weights/{tensor.name}", f"consts/{tensor.name}"):
            yield f"is kept under another name, {tensor.member}"
        shape = self.shapes.get(tensor.member)
        if shape is None or len(shape) != len(tensor.dims) or min(shape, default=0) < 0:
            yield "has no shape, or one of another rank"
        elif any(dim.isdecimal() and dim != str(size) for dim, size in zip(tensor.dims, shape, strict=True)):
            yield f"is {tensor}, but its shape is {list(shape)}"
