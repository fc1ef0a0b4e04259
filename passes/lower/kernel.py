"""What the three kinds of kernel emission share: buffers, reading, naming, closing a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.dims import Dim
from ...ir.facts import Fact, Facts
from ...ir.loops import (
    Buffer,
    Contract,
    Expr,
    For,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    expressions,
    walk_expr,
    walk_stmts,
)
from ...ir.scalar import cast
from ...ir.types import DType
from ..loops.packing import packed_size
from .emit import Emitter, free_symbols, linear_index
from .fuse import Fusion, Group
from .nodes import Dataflow, Node


@dataclass
class Scope:
    """Everything an emission needs of the function being lowered."""

    flow: Dataflow
    fusion: Fusion
    facts: Facts
    kernel_facts: tuple[Fact, ...]
    taken: frozenset[str]
    vector_bytes: int | None  # of the target; None where weights are not packed
    packs: dict[str, Pack] = field(default_factory=dict)

    def buffer(self, name: str) -> str:
        """The buffer name of a value: that of its root; globals get a prefix no value can have."""
        root = self.flow.root(name)
        return f"weight.{root[1:]}" if root.startswith("@") else root

    def load(self, name: str, position: tuple[Expr, ...]) -> Expr:
        """An element of a stored value."""
        type_ = self.flow.types[name]
        return Load(self.buffer(name), linear_index(type_.dims, position), type_.dtype)


@dataclass(frozen=True)
class Pack:
    """A weight [inner, cols] ([cols, inner] when `transposed`) to be packed at load into buffer `name`, as `dtype`."""

    name: str
    weight: str
    inner: Dim
    cols: Dim
    transposed: bool
    dtype: DType
    width: int

    @property
    def size(self) -> Dim:
        """Elements of the packed buffer."""
        return packed_size(self.inner, self.cols, self.width)


def origin(members: list[Node]) -> str:
    """Which ops a kernel came from, for people."""
    return ", ".join(n.op.name for n in members)


def store(emitter: Emitter, scope: Scope, name: str, position: tuple[Expr, ...], value: Expr) -> None:
    """Stores an element of a value that has a buffer."""
    type_ = scope.flow.types[name]
    emitter.store(scope.buffer(name), linear_index(type_.dims, position), cast(value, type_.dtype))


def close(scope: Scope, emitter: Emitter, name: str, group: Group) -> Kernel:
    """The kernel with its buffers and sizes found from what the body uses."""
    body = emitter.body
    loaded, written = _used_buffers(body)
    buffers: list[Buffer] = []
    roots = {scope.buffer(n): n for n in (*scope.flow.types,)}
    sizes: set[str] = set()
    for buffer in sorted(loaded | written):
        if buffer in roots:
            root = scope.flow.root(roots[buffer])
            type_ = scope.flow.types[root]
            size, dtype = type_.size, type_.dtype
        elif buffer in scope.packs:
            pack = scope.packs[buffer]
            size, dtype = pack.size, pack.dtype
        else:
            continue  # an Alloc
        mode = "in" if buffer not in written else "inout" if buffer in loaded else "out"
        buffers.append(Buffer(buffer, dtype, size, mode))
        sizes |= size.symbols
    buffers.sort(key=lambda b: b.mode != "in")
    sizes |= free_symbols(body) - defined_names(body)
    return Kernel(
        name,
        tuple(buffers),
        tuple(sorted(sizes)),
        body,
        tuple(f for f in scope.kernel_facts if fact_symbols(f) <= sizes),
        tuple(emitter.checks),
        origin(group.members),
    )


def fact_symbols(fact: Fact) -> frozenset[str]:
    """Symbols of a fact."""
    return fact.symbols


def _used_buffers(body: tuple[Stmt, ...]) -> tuple[set[str], set[str]]:
    loaded: set[str] = set()
    written: set[str] = set()
    for s in walk_stmts(body):
        if isinstance(s, Store):
            written.add(s.buffer)
        for e in expressions(s):
            loaded.update(x.buffer for x in walk_expr(e) if isinstance(x, Load))
    return loaded, written


def defined_names(body: tuple[Stmt, ...]) -> frozenset[str]:
    """Loop variables, lets, locals and contraction names of a body."""
    names: set[str] = set()
    for s in walk_stmts(body):
        if isinstance(s, (Let, Local)):
            names.add(s.name)
        elif isinstance(s, For):
            names.add(s.var)
        elif isinstance(s, Contract):
            names |= {s.m, s.n, s.k, s.acc}
    return frozenset(names)
