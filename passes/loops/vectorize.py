"""Which loops run in vector registers.

LLVM does the vectorising; this pass arranges loops so that it can: the innermost loop must run over adjacent elements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ...ir.dims import Dim
from ...ir.loops import (
    Alloc,
    Assign,
    Expr,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Name,
    Require,
    Stmt,
    Store,
    map_stmt,
    walk_stmts,
)
from .contiguity import contiguous, depends_on
from .rewrite import all_expressions, assigned, extent, is_innermost, map_bodies, read_names, zero


@dataclass(frozen=True)
class Vectorize:
    """Marks innermost independent loops over adjacent elements, and turns column reductions inside out.

    A reduction that walks down a column while its neighbours are adjacent (a sum over the first axis) becomes a loop
    over rows with `block` accumulators in an array, the loop over columns innermost.
    """

    name: ClassVar[str] = "vectorize"
    least: ClassVar[int] = 1  # of the numbers below

    block: int = 128

    def run(self, kernel: Kernel) -> Kernel:
        return replace(kernel, body=tuple(self._stmt(s, False) for s in kernel.body))

    def _stmt(self, stmt: Stmt, nested: bool) -> Stmt:
        if not isinstance(stmt, For):
            return map_bodies(stmt, lambda body: tuple(self._stmt(s, nested) for s in body))
        if is_innermost(stmt):
            # An outermost parallel loop stays one: it is cut into chunks, each of which is vectorised.
            adjacent = all(contiguous(e, stmt.var) for e in all_expressions(stmt.body))
            return replace(stmt, kind="vector") if stmt.kind == "parallel" and nested and adjacent else stmt
        turned = self._columns(stmt)
        if turned is not None:
            return turned
        inside = nested or stmt.kind == "parallel"
        return replace(stmt, body=tuple(self._stmt(s, inside) for s in stmt.body))

    def _columns(self, loop: For) -> For | None:
        """The loop turned inside out, where it is a column reduction."""
        parts = _Columns.of(loop)
        size = extent(loop)
        if parts is None or size is None or loop.start != zero():
            return None
        return parts.turned(size, self.block)


@dataclass(frozen=True)
class _Columns:
    """A loop over columns of: `Let`s and accumulators, one reduction over rows, and what is done with the result."""

    loop: For
    lets: tuple[Stmt, ...]
    accumulators: tuple[Local, ...]
    rows: For
    after: tuple[Stmt, ...]

    @staticmethod
    def of(loop: For) -> _Columns | None:
        if loop.kind not in ("parallel", "vector"):
            return None
        inner = [i for i, s in enumerate(loop.body) if isinstance(s, For)]
        if len(inner) != 1:
            return None
        head, rows, after = loop.body[: inner[0]], loop.body[inner[0]], loop.body[inner[0] + 1 :]
        assert isinstance(rows, For)
        lets = tuple(s for s in head if isinstance(s, Let))
        accumulators = tuple(s for s in head if isinstance(s, Local))
        if len(lets) + len(accumulators) != len(head) or not accumulators or loop.var in _bounds(rows):
            return None
        if not all(isinstance(s, (Let, Store, Require)) for s in after):
            return None
        if not all(isinstance(s, (Let, Assign, Require)) for s in rows.body):
            return None
        if assigned(rows.body) - {a.name for a in accumulators} or _bounds(rows) & {s.name for s in head_names(head)}:
            return None
        return _Columns(loop, lets, accumulators, rows, after) if _walks_down(rows, loop.var) else None

    def turned(self, size: Dim, block: int) -> For:
        column, first = Dim.of(self.loop.var), f"{self.loop.var}.first"
        stop = Dim.min(size, Dim.of(first) + block)
        at = Index(column - Dim.of(first))

        def columns(body: tuple[Stmt, ...]) -> For:
            return For(self.loop.var, Index(Dim.of(first)), Index(stop), body, "vector")

        stored = {a.name: f"{a.name}.columns" for a in self.accumulators}

        def read(e: Expr) -> Expr | None:
            return Load(stored[e.name], at, e.dtype) if isinstance(e, Name) and e.name in stored else None

        def array(stmt: Stmt) -> Stmt:
            stmt = map_stmt(stmt, read)
            return Store(stored[stmt.name], at, stmt.value) if isinstance(stmt, Assign) else stmt

        allocs = tuple(Alloc(stored[a.name], a.init.dtype, Dim.of(block)) for a in self.accumulators)
        start = tuple(Store(stored[a.name], at, a.init) for a in self.accumulators)
        down = replace(self.rows, kind="serial", body=(columns((*self.lets, *(array(s) for s in self.rows.body))),))
        finish = columns((*self.lets, *(array(s) for s in self.after)))
        begin = Let(first, Index(Dim.of(f"{self.loop.var}.block") * block))
        blocks = Index(Dim.ceildiv(size, block))
        turned: tuple[Stmt, ...] = (begin, *allocs, columns((*self.lets, *start)), down, finish)
        return For(f"{self.loop.var}.block", zero(), blocks, turned, "parallel")


def head_names(stmts: tuple[Stmt, ...]) -> list[Let | Local]:
    return [s for s in stmts if isinstance(s, (Let, Local))]


def _bounds(loop: For) -> set[str]:
    """Names that the loop's bounds depend on."""
    return read_names(loop.start) | read_names(loop.stop)


def _walks_down(rows: For, column: str) -> bool:
    """Whether the reduction's loads are adjacent along the columns, and not all of them along the rows."""
    values = all_expressions(rows.body)
    if not all(contiguous(e, column) for e in values):
        return False
    own = {s.name for s in walk_stmts(rows.body) if isinstance(s, Let)}
    moving = any(depends_on(e, column) for e in values)
    return moving and not own & {column} and not all(contiguous(e, rows.var) for e in values)
