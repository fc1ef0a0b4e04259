"""A product of few rows and a right operand whose rows are contiguous: those rows are read in order, and once.

One tile holds all rows, so that panels of B would be used once: packing them would read and write B for nothing, and a
panel read in place touches every page of B for two vectors.  Here k runs in strips of a few rows of B, with the columns
inside, and the product is accumulated in memory that stays in the first cache:

    task     a block of columns of one matrix of the batch; parallel
    strip    at least `STRIP` rows of B; more where the block is narrow, so that a strip has one size
    panel    `width` columns: a micro-kernel over the strip

A right operand that has to be computed (a conversion, say) is computed strip by strip.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir.dims import Dim
from ...ir.loops import Alloc, Apply, Cast, Const, Expr, For, If, Index, Let, Load, Micro, Stmt, Store
from ...ir.types import DType
from .contiguity import contiguous
from .nest import PAD, Blocking, Nest, micro
from .operand import Strided, strided

STRIP = 8
"""Rows of B that are read side by side: as many streams as hardware prefetchers follow with ease."""


def few_rows_loops(nest: Nest, blocking: Blocking) -> tuple[Stmt, ...]:
    """The statements in place of a nest whose contraction has at most `blocking.rows` rows."""
    return _Builder(nest, blocking).tasks()


@dataclass(frozen=True)
class _Builder:
    nest: Nest
    b: Blocking

    def _name(self, name: str) -> str:
        return self.nest.name(name)

    def _dim(self, name: str) -> Dim:
        return Dim.of(self._name(name))

    @property
    def panels(self) -> int:
        """Panels of a block: twice as many as where B is packed, as longer runs of a row are read faster."""
        return 2 * self.b.panels

    @property
    def width(self) -> int:
        """Columns of a block at the most: the row stride of the block of C."""
        return self.panels * self.b.width

    @property
    def left(self) -> Strided:
        c, name = self.nest.contract, self._name("a")
        plain = strided(c.lhs, c, c.m, c.k)
        return plain if plain is not None else Strided(name, Dim.of(0), c.inner + PAD, Dim.of(1))

    @property
    def right(self) -> Strided | None:
        """The right operand in place; None: computed here."""
        c = self.nest.contract
        plain = strided(c.rhs, c, c.k, c.n)
        return plain if plain is not None and plain.col == 1 else None

    @property
    def all_full(self) -> bool:
        """Whether no panel is short of columns, whatever the sizes."""
        cols = self.nest.contract.cols
        return cols.is_const and cols.value % self.b.width == 0

    # -- tasks

    def tasks(self) -> tuple[Stmt, ...]:
        c = self.nest.contract
        total = Dim.ceildiv(c.cols, self.b.width)
        blocks = Dim.ceildiv(total, self.panels)
        task, cb = self._dim("task"), self._dim("cb")
        body = [
            self.nest.let("cb", task % blocks),
            *self.nest.decode(task // blocks),
            *self.nest.lets,
            self.nest.let("p0", total * cb // blocks),
            self.nest.let("p1", total * (cb + 1) // blocks),
            self.nest.let("cols", (self._dim("p1") - self._dim("p0")) * self.b.width),
            *self._allocations(),
            *self._compute_left(),
            *self._strips(),
            *self._epilogue(),
        ]
        count = self.nest.count * blocks * Dim.min(c.rows, 1)
        return (For(self._name("task"), _index(0), Index(count), tuple(body), "parallel"),)

    def _allocations(self) -> list[Stmt]:
        c = self.nest.contract
        rows = c.rows.value if c.rows.is_const else self.b.rows
        found: list[Stmt] = []
        if self.nest.output is None or not self.all_full:
            found.append(Alloc(self._name("c"), c.dtype, Dim.of(rows * self.width)))
        if self.left.buffer == self._name("a"):
            found.append(Alloc(self._name("a"), c.dtype, (c.inner + PAD) * rows))
        if self.right is None or not self.all_full:
            found.append(Alloc(self._name("b"), c.dtype, Dim.of(STRIP * self.width)))
        return found

    def _compute_left(self) -> list[Stmt]:
        """All of a left operand that cannot be read in place."""
        c, a = self.nest.contract, self.left
        if a.buffer != self._name("a"):
            return []
        store = Store(a.buffer, Index(Dim.of(c.m) * a.row + Dim.of(c.k)), _as(c.lhs, c.dtype))
        kind = "vector" if contiguous(c.lhs, c.k) else "serial"
        return [For(c.m, _index(0), Index(c.rows), (For(c.k, _index(0), Index(c.inner), (store,), kind),))]

    # -- strips of k

    def _strips(self) -> list[Stmt]:
        inner, step, strip = self.nest.contract.inner, self._dim("step"), self._dim("strip")
        # A product over nothing is one empty strip, that stores zeros.
        count = Dim.max(1, Dim.ceildiv(inner, step))
        body: tuple[Stmt, ...] = (
            self.nest.let("k0", step * strip),
            self.nest.let("length", Dim.min(inner - self._dim("k0"), step)),
            *self._compute_right(),
            For(self._name("p"), Index(self._dim("p0")), Index(self._dim("p1")), tuple(self._panel())),
        )
        strips = For(self._name("strip"), _index(0), Index(count), body)
        return [self.nest.let("step", Dim.of(STRIP * self.width) // self._dim("cols")), strips]

    def _compute_right(self) -> list[Stmt]:
        """The strip of a right operand that cannot be read in place, or of the last panel, with zeros behind it."""
        c, cols = self.nest.contract, self._dim("cols")
        if self.right is None:
            return [self._copy(self._dim("p0") * self.b.width, cols)]
        if self.all_full:
            return []
        last = (self._dim("p1") - 1) * self.b.width
        ragged = _compare("gt", self._dim("p1") * self.b.width, c.cols)
        return [If(ragged, (self._copy(last, Dim.of(self.b.width)),))]

    def _copy(self, first: Dim, columns: Dim) -> For:
        """Rows of the strip, `columns` of them from column `first` on, into rows as long."""
        c, k, j = self.nest.contract, self._dim("k"), self._dim("j")
        there = columns if self.all_full else Dim.min(c.cols - first, columns)

        def part(start: Dim, stop: Dim, value: Expr, kind: str) -> For:
            store = Store(self._name("b"), Index(k * columns + j), value)
            return For(self._name("j"), Index(start), Index(stop), (Let(c.n, Index(first + j)), store), kind)

        parts = [part(Dim.of(0), there, _as(c.rhs, c.dtype), "vector")]
        if not self.all_full:
            parts.append(part(there, columns, _zero(c.dtype), "vector"))
        row: tuple[Stmt, ...] = (Let(c.k, Index(self._dim("k0") + k)), *parts)
        return For(self._name("k"), _index(0), Index(self._dim("length")), row)

    def _panel(self) -> list[Stmt]:
        """The panel's product over one strip."""
        right, output = self.right, self.nest.output
        offset = (self._dim("p") - self._dim("p0")) * self.b.width
        column = self._dim("p") * self.b.width
        block = Strided(self._name("c"), offset, Dim.of(self.width), Dim.of(1))
        there = block if output is None else replace(output, base=output.base + column)
        if right is None:
            here = Strided(self._name("b"), offset, self._dim("cols"), Dim.of(1))
            full, ragged = self._micro(there, here), self._micro(block, here)
        else:
            copied = Strided(self._name("b"), Dim.of(0), Dim.of(self.b.width), Dim.of(1))
            full = self._micro(there, replace(right, base=right.base + self._dim("k0") * right.row + column))
            ragged = self._micro(block, copied)
        if self.all_full or full == ragged:
            return [full]
        return [If(_compare("le", column + self.b.width, self.nest.contract.cols), (full,), (ragged,))]

    def _micro(self, out: Strided, panel: Strided) -> Micro:
        c, later = self.nest.contract, _compare("gt", self._dim("strip"), Dim.of(0))
        left = replace(self.left, base=self.left.base + self._dim("k0") * self.left.col)
        return micro(c.rows, self._dim("length"), left, panel, out, width=self.b.width, accumulate=later, c=c)

    # -- the end

    def _epilogue(self) -> list[Stmt]:
        """The user's statements for what is in the block of C: all of it, or the last panel if it is a short one."""
        c, output, start = self.nest.contract, self.nest.output, self._dim("p0") * self.b.width
        stop = self._dim("p1") * self.b.width
        if output is not None and self.all_full:
            return []
        j = Dim.of(c.n) - start
        element = Load(self._name("c"), Index(Dim.of(c.m) * self.width + j), c.dtype)
        body: tuple[Stmt, ...] = (Let(c.acc, element), *c.epilogue)
        end = stop if self.all_full else Dim.min(c.cols, stop)
        first = start if output is None else end // self.b.width * self.b.width
        columns = For(c.n, Index(first), Index(end), body, "vector")
        return [For(c.m, _index(0), Index(c.rows), (columns,))]


def _as(e: Expr, dtype: DType) -> Expr:
    return e if e.dtype is dtype else Cast(e, dtype)


def _zero(dtype: DType) -> Expr:
    return Const(0 if dtype.is_int else 0.0, dtype)


def _compare(fn: str, a: Dim, b: Dim) -> Expr:
    return Apply(fn, (Index(a), Index(b)), DType.bool)


def _index(value: int) -> Index:
    return Index(Dim.of(value))
