"""What an artifact says of itself: all that a caller, a loader and an error message must know, as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .codec import Tree
from .layout import HEADER_SLOTS

FORMAT = 1
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

    kind: `bind` (symbol == value / divisor), `equal` (value == expected) or `fact` (value is its text).
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
    """One function. `inherited` are the symbols bound at load; `arena` and `scratch` are bytes as expressions."""

    name: str
    params: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    results: tuple[Tree, ...]
    single: bool
    inherited: tuple[str, ...]
    steps: tuple[Step, ...]
    arena: str
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
        parts = [(start, len(self.params)) for start in (frame.arguments, frame.descriptors, frame.data)]
        parts += [(frame.outputs, len(self.outputs)), (frame.shapes, sum(len(t.dims) for t in self.outputs))]
        parts += [(slot, 1) for *_, slot in frame.tables] + [(slot, 1) for slot in frame.symbols.values()]
        if not HEADER_SLOTS <= frame.slots <= _MAX_SLOTS:
            yield f"a frame has {frame.slots} slots"
        elif any(start < HEADER_SLOTS or start + size > frame.slots for start, size in parts):
            yield "a part of the frame lies outside it"
        bound = {s.symbol for s in self.steps if s.kind == "bind"}
        if {*self.inherited, *bound} != set(frame.symbols):
            yield "symbols and their slots differ"
        for step in self.steps:
            if not set(step.symbols) <= set(frame.symbols):
                yield f"a check is of symbols that are not bound: {', '.join(step.symbols)}"


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
