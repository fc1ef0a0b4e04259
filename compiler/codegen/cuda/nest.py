"""How a kernel's statements are laid on the grid.

A kernel becomes *phases*, launched one after the other, so that what one stores the next may read:

    grid       a nest of independent loops: one task for each point of it, done by a thread or by a block
    contract   such a nest around a contraction: one task for each tile of each result matrix
    block      anything else: one block does it all (loops inside are shared by its threads where that can be)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ....ir.dims import Dim
from ....ir.facts import Facts
from ....ir.loops import Alloc, Contract, For, Index, Kernel, Let, Local, Require, Stmt, expressions, walk_stmts
from ....passes.loops.rewrite import dim_of, extent, map_bodies, read_names, trip_limit
from ....passes.loops.tile import plain_loops
from .hazards import accesses, loads
from .reductions import is_independent, shared_loops

SHORT = 16
"""Loops of at most this many iterations are not worth the threads of a block."""


@dataclass(frozen=True)
class Nest:
    """Independent loops, outer first; at each point of them `prefix`, then `body`.

    All extents but the first are known not to be negative, and none depends on the other loops.
    """

    loops: tuple[For, ...]
    prefix: tuple[Stmt, ...]
    body: tuple[Stmt, ...]

    @property
    def count(self) -> Dim | None:
        """The number of points; None where it depends on data."""
        total = Dim.of(1)
        for loop in self.loops:
            size = extent(loop)
            if size is None:
                return None
            total = total * size
        return total

    @property
    def by_blocks(self) -> bool:
        """Whether a block's threads find something to share in a point."""
        return any((limit := trip_limit(loop)) is None or limit > SHORT for loop in shared_loops(self.body))


@dataclass(frozen=True)
class Phase:
    """One launch: `nest` of a `grid` or `contract`, `stmts` of a `block`; `lets` go before either."""

    lets: tuple[Let, ...]
    nest: Nest | None = None
    contract: Contract | None = None
    stmts: tuple[Stmt, ...] = ()

    @property
    def all(self) -> tuple[Stmt, ...]:
        """Everything in it."""
        if self.nest is None:
            return (*self.lets, *self.stmts)
        return (*self.lets, self.nest.loops[0]) if self.nest.loops else (*self.lets, *self.nest.prefix, *self.nest.body)


def phases(kernel: Kernel, facts: Facts) -> tuple[Phase, ...]:
    """The kernel's phases, in order."""
    mutable = accesses(kernel.body).written
    lets: list[Let] = []
    found: list[Phase] = []
    pending: list[Stmt] = []

    def flush() -> None:
        if pending:
            stmts = tuple(_plain(pending))
            found.append(Phase(_needed(lets, stmts), stmts=stmts))
            pending.clear()

    if any(isinstance(s, Local) or (isinstance(s, Let) and loads(s.value) & mutable) for s in kernel.body):
        return (Phase((), stmts=tuple(_plain(kernel.body))),)
    for s in kernel.body:
        if isinstance(s, Alloc):
            continue
        if isinstance(s, Let):
            lets.append(s)
            continue
        phase = _on_grid(s, lets, mutable, facts)
        if phase is None:
            pending.append(s)
        else:
            flush()
            found.append(phase)
    flush()
    return tuple(found)


def _on_grid(s: Stmt, lets: list[Let], mutable: frozenset[str], facts: Facts) -> Phase | None:
    if isinstance(s, Contract):
        return Phase(_needed(lets, (s,)), Nest((), (), (s,)), s)
    if not isinstance(s, For) or not is_independent(s):
        return None
    nest = _nest(s, mutable, facts)
    inner = [x for x in nest.body if not isinstance(x, Let)]
    if len(inner) == 1 and isinstance(inner[0], Contract) and nest.body[-1] is inner[0]:
        return Phase(_needed(lets, (s,)), replace(nest, prefix=(*nest.prefix, *nest.body[:-1])), inner[0])
    if any(isinstance(x, Contract) for x in walk_stmts(nest.body)):
        (s,) = _plain((s,))
        assert isinstance(s, For)
        nest = _nest(s, mutable, facts)
    return Phase(_needed(lets, (s,)), nest)


def _nest(loop: For, mutable: frozenset[str], facts: Facts) -> Nest:
    """The loop with those inside it that can run on the grid as well."""
    loops, prefix, body = [loop], list[Stmt](), loop.body
    while body:
        *before, last = body
        if not (isinstance(last, For) and is_independent(last) and _rectangular(last, loops, prefix, before, facts)):
            break
        if not all(isinstance(s, (Let, Require)) and not loads(*expressions(s)) & mutable for s in before):
            break
        loops.append(last)
        prefix += before
        body = last.body
    return Nest(tuple(loops), tuple(prefix), body)


def _rectangular(last: For, loops: list[For], prefix: list[Stmt], before: list[Stmt], facts: Facts) -> bool:
    size = extent(last)
    first = extent(loops[0])
    start = dim_of(last.start)
    if size is None or first is None or start is None:
        return False
    bound = {loop.var for loop in loops} | {s.name for s in (*prefix, *before) if isinstance(s, Let)}
    if bound & (size.symbols | start.symbols):
        return False
    # Two negative extents would make a positive number of points.
    return facts.prove_le(0, size) and (len(loops) > 1 or facts.prove_le(0, first))


def _needed(lets: Iterable[Let], stmts: tuple[Stmt, ...]) -> tuple[Let, ...]:
    """Those of the lets that the statements use."""
    names: set[str] = set()
    for s in walk_stmts(stmts):
        names |= {n for e in expressions(s) for n in read_names(e)}
        if isinstance(s, Alloc):
            names |= s.size.symbols
        if isinstance(s, Contract):
            names |= s.rows.symbols | s.cols.symbols | s.inner.symbols
    kept: list[Let] = []
    for let in reversed(list(lets)):
        if let.name in names:
            kept.append(let)
            names |= read_names(let.value)
    return tuple(reversed(kept))


def _plain(stmts: Iterable[Stmt]) -> tuple[Stmt, ...]:
    """The statements with contractions as one loop over the elements of the result."""
    found: list[Stmt] = []
    for s in stmts:
        if isinstance(s, Contract):
            found.append(_by_elements(s))
        else:
            found.append(map_bodies(s, _plain))
    return tuple(found)


def _by_elements(c: Contract) -> For:
    (rows,) = plain_loops(c)
    assert isinstance(rows, For)
    (columns,) = rows.body
    assert isinstance(columns, For)
    element = f"{c.m}.{c.n}"
    at = Dim.of(element)
    decode = (Let(c.m, Index(at // c.cols)), Let(c.n, Index(at % c.cols)))
    return For(element, Index(Dim.of(0)), Index(c.rows * c.cols), (*decode, *columns.body), "parallel")
