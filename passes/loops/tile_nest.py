"""The loop nest of one tiled contraction; see `tile.py` for its plan."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir.dims import Dim
from ...ir.loops import (
    Alloc,
    Apply,
    Cast,
    Const,
    Contract,
    Expr,
    For,
    If,
    Index,
    Let,
    Load,
    Micro,
    Stmt,
    Store,
    Transpose,
)
from ...ir.scalar import both
from ...ir.types import DType
from .contiguity import contiguous
from .nest import PAD, Blocking, Nest, micro
from .operand import Packed, Strided, packed, strided

STRIP = 8
"""Rows of B that are packed side by side: as many streams as hardware prefetchers follow with ease."""

TASKS = 8
"""Tasks that are made where columns allow: a few for each of a few threads."""

LONG_ROW = 1024
"""Rows of A further apart than this many elements are copied where there are several tiles: each row is on a page of
its own, and rows a power of two apart would evict one another."""


def contraction_loops(nest: Nest, blocking: Blocking) -> tuple[Stmt, ...]:
    """The statements in place of the nest."""
    return _Builder(nest, blocking, nest.contract).tasks()


@dataclass(frozen=True)
class _Builder:
    nest: Nest
    b: Blocking
    c: Contract

    def _name(self, name: str) -> str:
        return self.nest.name(name)

    def _dim(self, name: str) -> Dim:
        return Dim.of(self._name(name))

    def _let(self, name: str, value: Dim) -> Let:
        return self.nest.let(name, value)

    @property
    def panels_total(self) -> Dim:
        return Dim.ceildiv(self.c.cols, self.b.width)

    @property
    def lhs(self) -> Strided | None:
        return strided(self.c.lhs, self.c, self.c.m, self.c.k)

    @property
    def rhs(self) -> Packed | None:
        """Packed panels, or None: to be packed here."""
        return packed(self.c, self.b.width)

    # -- tasks: blocks of rows and columns

    def tasks(self) -> tuple[Stmt, ...]:
        c, b, task = self.c, self.b, self._dim("task")
        row_blocks = Dim.ceildiv(c.rows, b.row_block)
        col_blocks = self._column_blocks(row_blocks)
        units = Dim.ceildiv(c.rows, b.rows)
        rb, cb, after = self._dim("rb"), self._dim("cb"), self._dim("rb") + 1
        # Row blocks run fastest: the panels of B stay in the second cache while A passes by.
        body: list[Stmt] = [
            self._let("rb", task % row_blocks),
            self._let("rest", task // row_blocks),
            self._let("cb", self._dim("rest") % col_blocks),
            *self.nest.decode(self._dim("rest") // col_blocks),
            *self.nest.lets,
            self._let("r0", units * rb // row_blocks * b.rows),
            self._let("r1", Dim.min(c.rows, units * after // row_blocks * b.rows)),
            self._let("p0", self.panels_total * cb // col_blocks),
            self._let("p1", self.panels_total * (cb + 1) // col_blocks),
            *self._allocations(),
            *self._inner_blocks(),
        ]
        total = self.nest.count * row_blocks * col_blocks
        return (For(self._name("task"), _index(0), Index(total), tuple(body), "parallel"),)

    def _column_blocks(self, row_blocks: Dim) -> Dim:
        """Blocks of columns; narrower ones where there would be few tasks, so that threads get equal shares."""
        total, panels = self.panels_total, self.b.panels
        blocks = Dim.ceildiv(total, panels)
        others = Dim.max(1, self.nest.count * row_blocks)
        return Dim.max(blocks, Dim.min(Dim.ceildiv(total, -(-panels // 2)), Dim.ceildiv(TASKS, others)))

    def _allocations(self) -> list[Stmt]:
        c, b = self.c, self.b
        # Few rows take the whole inner extent at once where B is packed.
        longest = Dim.of(b.inner_block + 8)
        if self.rhs is not None:
            longest = Dim.max(c.inner, longest)
        rows = min(b.row_block, c.rows.value) if c.rows.is_const else b.row_block
        found: list[Stmt] = []
        if self.nest.output is None or not self._all_full:
            found.append(Alloc(self._name("c"), c.dtype, Dim.of(b.panels * max(rows, 1) * b.width)))
        if self._copies() is not False:
            blocked = Dim.of(b.row_block * (b.inner_block + 8 + PAD))
            found.append(Alloc(self._name("a"), c.dtype, Dim.max(blocked, (longest + PAD) * b.rows)))
        if self.rhs is None:
            found.append(Alloc(self._name("b"), c.dtype, longest * (b.width * b.panels)))
        return found

    def _many(self) -> Dim:
        """0 where one tile holds all rows, and otherwise more than any number of blocks or panels."""
        return Dim.min(self.c.rows // (self.b.rows + 1), 1) * 2**40

    # -- blocks of the inner extent

    def _inner_blocks(self) -> list[Stmt]:
        c, b, kb = self.c, self.b, self._dim("kb")
        blocks = Dim.ceildiv(c.inner, b.inner_block)
        if self.rhs is not None:
            # One tile holds all rows: each panel is used once, so that it need not stay in a cache.
            blocks = Dim.min(blocks, self._many())
        blocks = Dim.max(1, blocks)
        units = Dim.ceildiv(c.inner, 8)
        count = blocks if blocks.is_const else self._dim("kbs")
        body: list[Stmt] = [
            self._let("k0", Dim.min(c.inner, units * kb // count * 8)),
            self._let("k1", Dim.min(c.inner, units * (kb + 1) // count * 8)),
            self._let("length", self._dim("k1") - self._dim("k0")),
            *self._pack_lhs(),
            *self._pack_rhs(),
            For(self._name("p"), Index(self._dim("p0")), Index(self._dim("p1")), self._panel(count)),
        ]
        return [self._let("kbs", blocks), For(self._name("kb"), _index(0), Index(count), tuple(body))]

    def _copies(self) -> bool | Expr:
        """Whether the left operand goes through packed rows: always, never, or as a condition at run time."""
        lhs, rows = self.lhs, self.c.rows
        if lhs is None:
            return True
        if lhs.col != 1 or (lhs.row.is_const and lhs.row.value < LONG_ROW):
            return False
        if rows.is_const and rows.value <= self.b.rows:
            return False
        conditions = [_compare("gt", rows, Dim.of(self.b.rows))]
        if not lhs.row.is_const:
            conditions.append(_compare("ge", lhs.row, Dim.of(LONG_ROW)))
        return both(*conditions)

    def _pack_lhs(self) -> list[Stmt]:
        """Rows r0..r1 of the left operand, computed into rows of `length` + PAD elements."""
        copies = self._copies()
        if copies is False:
            return []
        i, k = self._dim("i"), self._dim("k")
        store = Store(self._name("a"), Index(i * (self._dim("length") + PAD) + k), self._converted(self.c.lhs))
        inner: tuple[Stmt, ...] = (Let(self.c.k, Index(self._dim("k0") + k)), store)
        row = For(self._name("k"), _index(0), Index(self._dim("length")), inner, _kind(self.c.lhs, self.c.k))
        body: tuple[Stmt, ...] = (Let(self.c.m, Index(self._dim("r0") + i)), row)
        pack = For(self._name("i"), _index(0), Index(self._dim("r1") - self._dim("r0")), body)
        return [pack] if copies is True else [If(copies, (pack,))]

    # -- panels

    def _panel(self, blocks: Dim) -> tuple[Stmt, ...]:
        b = self.b
        rows, t = self._dim("r1") - self._dim("r0"), self._dim("t")
        tiles = self._dim("tiles")
        tile: list[Stmt] = [
            self._let("t0", rows * t // tiles),
            self._let("t1", rows * (t + 1) // tiles),
            *self._tile(blocks),
        ]
        return (
            self._let("n0", self._dim("p") * b.width),
            self._let("tiles", Dim.ceildiv(rows, b.rows)),
            For(self._name("t"), _index(0), Index(tiles), tuple(tile)),
        )

    @property
    def _all_full(self) -> bool:
        """Whether no panel is short of columns, whatever the sizes."""
        return self.c.cols.is_const and self.c.cols.value % self.b.width == 0

    def _full(self) -> Expr:
        """Whether the panel has all of its columns."""
        return _compare("le", self._dim("n0") + self.b.width, self.c.cols)

    def _pack_rhs(self) -> list[Stmt]:
        """The block's panels: rows k0..k1 of the right operand, with zeros beyond the last column.

        A few rows at a time over all panels, since rows are what is contiguous most often.
        """
        if self.rhs is not None:
            return []
        side = strided(self.c.rhs, self.c, self.c.k, self.c.n)
        if side is not None and side.row == 1 and side.col != 1:
            return [self._panels(*self._pack_sideways(side))]
        first, length = self._dim("strip") * STRIP, self._dim("length")
        row: tuple[Stmt, ...] = (Let(self.c.k, Index(self._dim("k0") + self._dim("k"))), *self._pack_row())
        rows = For(self._name("k"), Index(first), Index(Dim.min(first + STRIP, length)), row)
        return [For(self._name("strip"), _index(0), Index(Dim.ceildiv(length, STRIP)), (self._panels(rows),))]

    def _panels(self, *body: Stmt) -> For:
        """A loop over the panels to be packed."""
        inner = (self._let("n0", self._dim("p") * self.b.width), *body)
        return For(self._name("p"), Index(self._dim("p0")), Index(self._dim("p1")), inner)

    def _pack_sideways(self, side: Strided) -> tuple[Stmt, ...]:
        """One panel of an operand whose columns are contiguous in k."""
        turn = Transpose(
            width=self.b.width,
            length=Index(self._dim("length")),
            source=side.buffer,
            source_offset=Index(side.base + self._dim("k0") + self._dim("n0") * side.col),
            source_row=Index(side.col),
            target=self._name("b"),
            target_offset=Index(self._panel_offset()),
            dtype=self.c.dtype,
        )
        if self._all_full:
            return (turn,)
        *_, ragged = self._pack_row()
        assert isinstance(ragged, If)
        row: tuple[Stmt, ...] = (Let(self.c.k, Index(self._dim("k0") + self._dim("k"))), *ragged.otherwise)
        rows = For(self._name("k"), _index(0), Index(self._dim("length")), row)
        return (If(self._full(), (turn,), (rows,)),)

    def _pack_row(self) -> tuple[Stmt, ...]:
        """One row of one panel."""
        c, b, j, n = self.c, self.b, self._dim("j"), self._dim("n0")
        zero = Const(0 if c.dtype.is_int else 0.0, c.dtype)
        offset = self._panel_offset() + self._dim("k") * b.width + j

        def columns(first: Dim, stop: Dim, element: Expr, kind: str) -> Stmt:
            store = Store(self._name("b"), Index(offset), element)
            return For(self._name("j"), Index(first), Index(stop), (Let(c.n, Index(n + j)), store), kind)

        value, kind, width = self._converted(c.rhs), _kind(c.rhs, c.n), Dim.of(b.width)
        full = columns(Dim.of(0), width, value, kind)
        if self._all_full:
            return (full,)
        there = columns(Dim.of(0), c.cols - n, value, kind)
        beyond = columns(c.cols - n, width, zero, "vector")
        return (If(self._full(), (full,), (there, beyond)),)

    def _panel_offset(self) -> Dim:
        """Where the panel is in the block that was packed here."""
        return (self._dim("p") - self._dim("p0")) * self._dim("length") * self.b.width

    # -- tiles

    def _tile(self, blocks: Dim) -> list[Stmt]:
        """The tile's product and, after the last block of k, the epilogue."""
        scratch = Strided(self._name("c"), self._tile_offset(), Dim.of(self.b.width), Dim.of(1))
        last = _compare("eq", self._dim("kb"), blocks - 1)
        finished = [*self._product(scratch), If(last, self._epilogue())]
        output = self.nest.output
        if output is None:
            return finished
        row = self._dim("r0") + self._dim("t0")
        there = replace(output, base=output.base + row * output.row + self._dim("n0"))
        stored = self._product(there)
        return stored if self._all_full else [If(self._full(), tuple(stored), tuple(finished))]

    def _product(self, out: Strided) -> list[Stmt]:
        """The product into `out`, the left operand copied or in place."""
        copies, rhs, width = self._copies(), self.rhs, Dim.of(self.b.width)
        panel = Strided(self._name("b"), self._panel_offset(), width, Dim.of(1))
        if rhs is not None:
            base = rhs.base + self._dim("n0") * self.c.inner + self._dim("k0") * width
            panel = replace(panel, buffer=rhs.buffer, base=base)
        if isinstance(copies, bool):
            return [self._micro(out, copies, panel)]
        return [If(copies, (self._micro(out, True, panel),), (self._micro(out, False, panel),))]

    def _micro(self, out: Strided, copied: bool, panel: Strided) -> Micro:
        lhs, row = self.lhs, self._dim("r0") + self._dim("t0")
        if copied or lhs is None:
            stride = self._dim("length") + PAD
            left = Strided(self._name("a"), self._dim("t0") * stride, stride, Dim.of(1))
        else:
            left = replace(lhs, base=lhs.base + row * lhs.row + self._dim("k0") * lhs.col)
        rows, later = self._dim("t1") - self._dim("t0"), _compare("gt", self._dim("kb"), Dim.of(0))
        return micro(rows, self._dim("length"), left, panel, out, width=self.b.width, accumulate=later, c=self.c)

    def _tile_offset(self) -> Dim:
        """Where the tile is in the block of C: panel by panel, each of adjacent rows."""
        rows = self._dim("r1") - self._dim("r0")
        return ((self._dim("p") - self._dim("p0")) * rows + self._dim("t0")) * self.b.width

    def _epilogue(self) -> tuple[Stmt, ...]:
        """The user's statements for each element of a finished tile."""
        c, b, i, j = self.c, self.b, self._dim("i"), self._dim("j")
        element = Load(self._name("c"), Index(self._tile_offset() + i * b.width + j), c.dtype)
        inner: tuple[Stmt, ...] = (Let(c.n, Index(self._dim("n0") + j)), Let(c.acc, element), *c.epilogue)
        columns = Dim.min(c.cols - self._dim("n0"), Dim.of(b.width))
        if self._all_full:
            columns = Dim.of(b.width)
        row = For(self._name("j"), _index(0), Index(columns), inner, "vector")
        body: tuple[Stmt, ...] = (Let(c.m, Index(self._dim("r0") + self._dim("t0") + i)), row)
        return (For(self._name("i"), _index(0), Index(self._dim("t1") - self._dim("t0")), body),)

    def _converted(self, e: Expr) -> Expr:
        return e if e.dtype is self.c.dtype else Cast(e, self.c.dtype)


def _kind(e: Expr, var: str) -> str:
    """`vector` where all loads of `e` are contiguous in `var` or do not depend on it."""
    return "vector" if contiguous(e, var) else "serial"


def _compare(fn: str, a: Dim, b: Dim) -> Expr:
    return Apply(fn, (Index(a), Index(b)), DType.bool)


def _index(value: int) -> Index:
    return Index(Dim.of(value))
