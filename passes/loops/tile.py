"""Contractions on the CPU: from `Contract` to blocks, packed panels and `Micro` tiles.

The loops, from outside (K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication", 2008):

    task     a block of rows and a block of columns of one matrix of the batch; parallel
    kb       a block of the inner extent, so that a panel of B stays in the first cache; one block where rows are few
    panel    `width` columns of B, packed here unless they are packed or can be read in place
    tile     up to `micro_rows` rows; after the last kb the epilogue runs on it while it is in cache

Every extent may be symbolic.  Rows are dealt out evenly over the tiles (7 rows are 4 + 3, not 6 + 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from ...ir.dims import Dim
from ...ir.loops import (
    Apply,
    Assign,
    Cast,
    Const,
    Contract,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Local,
    Name,
    Stmt,
)
from ...ir.types import DType
from .contiguity import contiguous
from .few_rows import few_rows_loops
from .nest import Blocking, Nest
from .operand import packed, plain_output
from .packing import micro_rows, panel_width
from .rewrite import map_bodies
from .tile_nest import contraction_loops

DOT_LIMIT = 3
"""With at most this many rows (or columns), operands that are contiguous in k are multiplied as vectors, not packed."""


@dataclass(frozen=True)
class Tile:
    """Rewrites every `Contract`.  `row_block`, `inner_block` and `col_block` are the blocks of rows, k and columns."""

    name: ClassVar[str] = "tile"
    least: ClassVar[int] = 1  # of the numbers below

    vector_bytes: int = 32
    row_block: int = 96
    inner_block: int = 384
    col_block: int = 256

    def run(self, kernel: Kernel) -> Kernel:
        overlapping = {name for x in kernel.buffers if x.may_alias is not None for name in (x.name, x.may_alias)}
        outputs = {x.name: x.dtype for x in kernel.buffers if x.name not in overlapping}
        return replace(kernel, body=_Rewriter(self, outputs).body(kernel.body, inside_parallel=False))


@dataclass(frozen=True)
class _Rewriter:
    """`outputs` are the buffers that products may be accumulated in: nothing else reads or writes them meanwhile."""

    options: Tile
    outputs: Mapping[str, DType]

    def body(self, stmts: tuple[Stmt, ...], inside_parallel: bool) -> tuple[Stmt, ...]:
        result: list[Stmt] = []
        for stmt in stmts:
            nest = None if inside_parallel else _nest(stmt)
            if nest is None and isinstance(stmt, Contract):
                nest = Nest((), (), stmt)
            result.extend(self._contraction(nest) if nest is not None else (self._inside(stmt, inside_parallel),))
        return tuple(result)

    def _inside(self, stmt: Stmt, inside_parallel: bool) -> Stmt:
        inside_parallel = inside_parallel or (isinstance(stmt, For) and stmt.kind == "parallel")
        return map_bodies(stmt, lambda body: self.body(body, inside_parallel))

    def _contraction(self, nest: Nest) -> tuple[Stmt, ...]:
        c, options = nest.contract, self.options
        width = panel_width(options.vector_bytes, c.dtype)
        rows = micro_rows(options.vector_bytes)
        # Panels packed here are packed again for each block of rows: fewer, larger blocks.
        wanted = options.row_block if packed(c, width) is not None else 2 * options.row_block
        row_block, panels = -(-wanted // rows) * rows, max(1, options.col_block // width)
        blocking = Blocking(width, rows, row_block, -(-options.inner_block // 8) * 8, panels)
        nest = replace(nest, output=plain_output(c, self.outputs))
        if c.cols.is_const and c.cols.value <= DOT_LIMIT and contiguous(c.lhs, c.k):
            return dot_loops(nest, c.m, c.rows, width)
        tiled = contraction_loops(nest, blocking)
        if _dots(c):
            return _few(c.rows, DOT_LIMIT, dot_loops(nest, c.n, c.cols, width), tiled)
        if packed(c, width) is None and contiguous(c.rhs, c.n):
            return _few(c.rows, rows, few_rows_loops(nest, blocking), tiled)
        return tiled


def _few(rows: Dim, limit: int, few: tuple[Stmt, ...], many: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """One of the two, by the number of rows."""
    if rows.is_const:
        return few if rows.value <= limit else many
    return (If(Apply("le", (Index(rows), Index(Dim.of(limit))), DType.bool), few, many),)


def _nest(stmt: Stmt) -> Nest | None:
    """Perfectly nested parallel loops over nothing but one contraction (and `Let`s), with independent extents."""
    loops: list[For] = []
    lets: list[Stmt] = []
    variables: set[str] = set()
    while isinstance(stmt, For) and stmt.kind == "parallel" and stmt.body:
        if not (_is_zero(stmt.start) and isinstance(stmt.stop, Index) and not variables & stmt.stop.dim.symbols):
            return None
        loops.append(stmt)
        variables.add(stmt.var)
        *before, last = stmt.body
        if not all(isinstance(s, Let) for s in before):
            return None
        variables |= {s.name for s in before if isinstance(s, Let)}
        lets.extend(before)
        stmt = last
    if not (loops and isinstance(stmt, Contract)):
        return None
    if variables & (stmt.rows.symbols | stmt.cols.symbols | stmt.inner.symbols):
        return None  # ragged: sizes differ from one matrix to the next
    return Nest(tuple(loops), tuple(lets), stmt)


def _is_zero(e: Expr) -> bool:
    return (isinstance(e, Index) and e.dim == 0) or (isinstance(e, Const) and e.value == 0)


def _dots(c: Contract) -> bool:
    """Whether both operands are contiguous in k, and columns are not contiguous in n."""
    return contiguous(c.lhs, c.k) and contiguous(c.rhs, c.k) and not contiguous(c.rhs, c.n)


def plain_loops(c: Contract) -> tuple[Stmt, ...]:
    """The contraction as three plain loops, what it means: rows, columns, and a sum over the inner extent."""
    columns = For(c.n, _zero(), Index(c.cols), _dot(c))
    return (For(c.m, _zero(), Index(c.rows), (columns,)),)


def dot_loops(nest: Nest, var: str, extent: Dim, block: int) -> tuple[Stmt, ...]:
    """Few rows or few columns: each element is a dot product of contiguous vectors.

    `var` is the long dimension (the contraction's m or n) and `extent` its size; parallel over blocks of it.
    """
    c = nest.contract
    blocks = Dim.ceildiv(extent, block)
    task, number = f"{c.acc}.task", f"{c.acc}.block"
    first = Dim.of(number) * block
    other, count = (c.m, c.rows) if var == c.n else (c.n, c.cols)
    inside = For(other, _zero(), Index(count), _dot(c))
    along = For(var, Index(first), Index(Dim.min(extent, first + block)), (inside,))
    decode = (Let(number, Index(Dim.of(task) % blocks)), *nest.decode(Dim.of(task) // blocks), *nest.lets)
    return (For(task, _zero(), Index(nest.count * blocks), (*decode, along), "parallel"),)


def _dot(c: Contract) -> tuple[Stmt, ...]:
    """One element: the sum over k, then the epilogue."""
    total = Name(f"{c.acc}.sum", c.dtype)
    zero = Const(0 if c.dtype.is_int else 0.0, c.dtype)
    lhs, rhs = (e if e.dtype is c.dtype else Cast(e, c.dtype) for e in (c.lhs, c.rhs))
    step = Assign(total.name, Apply("add", (total, Apply("mul", (lhs, rhs), c.dtype)), c.dtype))
    inner = For(c.k, _zero(), Index(c.inner), (step,), "vector")
    return (Local(total.name, zero), inner, Let(c.acc, total), *c.epilogue)


def _zero() -> Expr:
    return Index(Dim.of(0))
