"""Where the scratch arrays of a kernel live.

    of one thread:   a local array where it is small, else global scratch of the thread
    of one block:    shared memory where its size has a bound that fits, else global scratch of the block
    of the kernel:   global scratch that all blocks and launches share

Global scratch is laid out as: the kernel's arrays; then for every block of the grid its own arrays, and those of its
threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ....ir.diagnostics import error
from ....ir.dims import Dim
from ....ir.facts import Facts
from ....ir.loops import Alloc, Const, Expr, For, Index, Kernel, Stmt, bodies

LOCAL_BYTES = 1024
"""The largest array a thread has of its own: more would not stay in registers and L1."""

SHARED_BYTES = 40 * 1024
"""For the arrays of a block: 48 KiB need no permission, and reductions and tiles want some."""

ALIGNMENT = 64
ZERO = Dim.of(0)


@dataclass(frozen=True)
class Place:
    """`base` is local | thread | shared | block | kernel, and `offset` where the array starts there, in bytes."""

    base: str
    offset: Dim


@dataclass
class Arena:
    """Arrays placed one behind the other; an array that is placed again keeps its place."""

    bytes: Dim = ZERO
    places: dict[Alloc, Dim] = field(default_factory=dict)

    def place(self, alloc: Alloc, bytes_: Dim) -> Dim:
        if alloc not in self.places:
            self.places[alloc] = self.bytes
            self.bytes = self.bytes + Dim.ceildiv(bytes_, ALIGNMENT) * ALIGNMENT
        return self.places[alloc]


@dataclass
class Storage:
    """The arrays of one function; `kernel` is shared with the kernel's other functions."""

    sizes: Mapping[Alloc, Dim]
    facts: Facts
    kernel: Arena
    thread: Arena = field(default_factory=Arena)
    block: Arena = field(default_factory=Arena)
    shared: Arena = field(default_factory=Arena)

    def of_thread(self, alloc: Alloc) -> Place:
        bytes_ = self.sizes[alloc] * alloc.dtype.bytes
        if bytes_.is_const and bytes_.value <= LOCAL_BYTES:
            return Place("local", ZERO)
        return Place("thread", self.thread.place(alloc, bytes_))

    def of_block(self, alloc: Alloc) -> Place:
        bytes_ = self.sizes[alloc] * alloc.dtype.bytes
        if alloc in self.shared.places or (alloc not in self.block.places and self._fits(bytes_)):
            return Place("shared", self.shared.place(alloc, bytes_))
        return Place("block", self.block.place(alloc, bytes_))

    def of_kernel(self, alloc: Alloc) -> Place:
        return Place("kernel", self.kernel.place(alloc, self.sizes[alloc] * alloc.dtype.bytes))

    def _fits(self, bytes_: Dim) -> bool:
        limit = self.facts.bounds(self.shared.bytes + bytes_)[1]
        return limit is not None and limit + ALIGNMENT <= SHARED_BYTES

    @property
    def uses_scratch(self) -> bool:
        return any(a.places for a in (self.kernel, self.thread, self.block))

    def block_scratch(self, threads: int) -> Dim:
        """Bytes of global scratch that each block needs."""
        return self.block.bytes + self.thread.bytes * threads


def allocation_sizes(kernel: Kernel) -> dict[Alloc, Dim]:
    """Elements of each scratch array, as the most that it needs in any iteration of the loops around it."""
    found: dict[Alloc, Dim] = {}
    _collect(kernel.body, (), found)
    for alloc, size in found.items():
        if not size.symbols <= set(kernel.sizes):
            raise error(f"kernel `{kernel.name}`: the size of a scratch array depends on data: {alloc.size}")
    return found


def _collect(stmts: tuple[Stmt, ...], loops: tuple[For, ...], found: dict[Alloc, Dim]) -> None:
    for s in stmts:
        if isinstance(s, Alloc):
            size = s.size
            for loop in reversed(loops):
                size = _largest(size, loop)
            found[s] = Dim.max(found[s], size) if s in found else size
        for body in bodies(s):
            _collect(body, (*loops, s) if isinstance(s, For) else loops, found)


def _largest(size: Dim, loop: For) -> Dim:
    """Sizes are monotone in loop variables: one of the ends is the largest."""
    if loop.var not in size.symbols:
        return size
    start, stop = _dim(loop.start), _dim(loop.stop)
    if start is None or stop is None:
        return size
    return Dim.max(size.subs({loop.var: start}), size.subs({loop.var: stop - 1}))


def _dim(e: Expr) -> Dim | None:
    if isinstance(e, Index):
        return e.dim
    return Dim.of(int(e.value)) if isinstance(e, Const) else None
