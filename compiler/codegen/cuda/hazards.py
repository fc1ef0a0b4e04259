"""Which memory a block's threads have touched since the last barrier, and whether one is needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ....ir.dims import Dim
from ....ir.loops import (
    Alloc,
    Expr,
    For,
    Index,
    Load,
    Stmt,
    Store,
    bodies,
    expressions,
    walk_expr,
    walk_stmts,
)
from .reductions import shared_reductions

NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Hazards:
    """Buffers written, and read, since the last barrier."""

    written: frozenset[str] = NONE
    read: frozenset[str] = NONE

    def joined(self, other: Hazards) -> Hazards:
        return Hazards(self.written | other.written, self.read | other.read)

    def only(self, names: frozenset[str]) -> Hazards:
        return Hazards(self.written & names, self.read & names)

    def without(self, names: frozenset[str]) -> Hazards:
        return Hazards(self.written - names, self.read - names)

    def forbid(self, following: Hazards) -> bool:
        """Whether another thread may see the accesses that follow in the wrong order."""
        return bool(following.read & self.written or following.written & (self.written | self.read))


def loads(*values: Expr) -> frozenset[str]:
    """Buffers that expressions read."""
    return frozenset(e.buffer for value in values for e in walk_expr(value) if isinstance(e, Load))


def accesses(stmts: Iterable[Stmt]) -> Hazards:
    """Buffers that statements read and write, those in their bodies too."""
    written: set[str] = set()
    read: set[str] = set()
    for s in walk_stmts(tuple(stmts)):
        if isinstance(s, Store):
            written.add(s.buffer)
        read |= loads(*expressions(s))
    return Hazards(frozenset(written), frozenset(read))


def thread_private(task: tuple[Stmt, ...], sizes: frozenset[str]) -> frozenset[str]:
    """Arrays of which each thread uses its own elements only, so that no barrier is needed for them.

    That is so where every access stands in a shared loop, at a distance from the loop's start that depends on the
    kernel's `sizes` at most: thread t takes the iterations start + t, start + t + block, ... of all of them.
    """
    places: dict[str, set[Dim | None]] = {s.buffer: set() for s in walk_stmts(task) if isinstance(s, Alloc)}
    _distances(task, None, sizes, places)
    return frozenset(name for name, found in places.items() if len(found) == 1 and None not in found)


def _distances(
    stmts: tuple[Stmt, ...], loop: For | None, sizes: frozenset[str], places: dict[str, set[Dim | None]]
) -> None:
    for s in stmts:
        used = [(e.buffer, e.index) for root in expressions(s) for e in walk_expr(root) if isinstance(e, Load)]
        if isinstance(s, Store):
            used.append((s.buffer, s.index))
        for buffer, index in used:
            if buffer in places:
                places[buffer].add(_distance(loop, index, sizes))
        around = s if loop is None and isinstance(s, For) and shared_reductions(s) is not None else loop
        for body in bodies(s):
            _distances(body, around, sizes, places)


def _distance(loop: For | None, index: Expr, sizes: frozenset[str]) -> Dim | None:
    """index - (variable - start) of the shared loop, if it is the same throughout the task."""
    if loop is None or not isinstance(index, Index) or not isinstance(loop.start, Index):
        return None
    rest = index.dim - Dim.of(loop.var) + loop.start.dim
    return rest if rest.symbols <= sizes else None
