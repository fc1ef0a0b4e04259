"""Maps that read along one dimension of memory and write along another: transposes, by square blocks.

Read with a stride, every element is on a cache line, and soon on a page, of its own.  Here the nest is cut into blocks
of the dimension that is contiguous where it is read and of the one that is contiguous where it is written; a block is
turned on its side in vector registers (`Transpose`) into an array in the first cache, where the map finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from ...ir.dims import Dim, linear
from ...ir.loops import (
    Alloc,
    Apply,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Select,
    Stmt,
    Store,
    Transpose,
    map_stmt,
    walk_expr,
)
from ...ir.types import DType
from .contiguity import contiguous
from .rewrite import all_expressions, extent, map_bodies, zero

SHORT = 8
"""A dimension of fewer elements is not worth a block: LLVM shuffles such strides itself."""


@dataclass(frozen=True)
class Turn:
    """Rewrites nests of parallel loops; a block is `length` by two vectors of 32-bit elements."""

    name: ClassVar[str] = "turn"
    least: ClassVar[int] = 1  # of the numbers below

    vector_bytes: int = 32
    length: int = 64

    def run(self, kernel: Kernel) -> Kernel:
        return replace(kernel, body=tuple(self._stmt(s, kernel) for s in kernel.body))

    def _stmt(self, stmt: Stmt, kernel: Kernel) -> Stmt:
        nest, width = _Nest.of(stmt, kernel), 2 * self.vector_bytes // 4
        if nest is not None and not nest.is_narrow(width):
            return nest.turned(width, self.length)
        if isinstance(stmt, For) and stmt.kind == "parallel":
            return stmt
        return map_bodies(stmt, lambda body: tuple(self._stmt(s, kernel) for s in body))


@dataclass(frozen=True)
class _Nest:
    """Parallel loops around a map, the last of them over `along`; `across` is the one that loads are contiguous in."""

    loops: tuple[For, ...]
    body: tuple[Stmt, ...]
    across: str
    loads: tuple[Load, ...]

    @staticmethod
    def of(stmt: Stmt, kernel: Kernel) -> _Nest | None:
        loops: list[For] = []
        while isinstance(stmt, For) and stmt.kind in ("parallel", "vector") and stmt.start == zero():
            loops.append(stmt)
            if len(stmt.body) != 1:
                break
            (stmt,) = stmt.body
        sizes = [extent(loop) for loop in loops]
        variables = {loop.var for loop in loops}
        if len(loops) < 2 or any(size is None or variables & size.symbols for size in sizes):
            return None
        body = loops[-1].body
        if not all(isinstance(s, (Let, Store)) for s in body):
            return None
        return _Nest._turnable(tuple(loops), body, kernel)

    @staticmethod
    def _turnable(loops: tuple[For, ...], body: tuple[Stmt, ...], kernel: Kernel) -> _Nest | None:
        along, written = loops[-1].var, {s.buffer for s in body if isinstance(s, Store)}
        for s in body:
            if isinstance(s, Store) and not contiguous(Load(s.buffer, s.index, DType.f32), along):
                return None
        nodes = [e for root in all_expressions(body) for e in walk_expr(root)]
        strided = {e for e in nodes if isinstance(e, Load) and not contiguous(e, along)}
        if not strided or any(isinstance(e, Select) for e in nodes):
            return None
        shared = {b.name for b in kernel.buffers if b.may_alias} | {b.may_alias for b in kernel.buffers}
        if any(e.buffer in shared | written for e in strided):
            return None
        for loop in loops[:-1]:
            if all(_turns(e, loop.var, along) for e in strided):
                return _Nest(loops, body, loop.var, tuple(sorted(strided, key=str)))
        return None

    def _extent(self, var: str) -> Dim:
        (size,) = (extent(loop) for loop in self.loops if loop.var == var)
        assert size is not None
        return size

    def is_narrow(self, width: int) -> bool:
        """Whether no block would be full, or each a few elements long."""
        tall, wide = self._extent(self.across), self._extent(self.loops[-1].var)
        return (tall.is_const and tall.value < SHORT) or (wide.is_const and wide.value < width)

    def turned(self, width: int, length: int) -> For:
        """The nest in blocks of `length` by `width`; the last columns, too few for a block, as they were."""
        *others, last = (loop for loop in self.loops if loop.var != self.across)
        (across,) = (loop for loop in self.loops if loop.var == self.across)
        tall, wide = self._extent(across.var), self._extent(last.var)
        first, left = Dim.of(f"{across.var}.first"), Dim.of(f"{last.var}.first")
        top = Dim.min(first + length, tall)
        turned: list[Stmt] = []
        body = self.body
        for number, e in enumerate(self.loads):
            name = f"{last.var}.turned{number}"
            turned += self._block(e, name, width, length, first, left, top)
            at = Index((Dim.of(across.var) - first) * width + Dim.of(last.var) - left)
            body = tuple(map_stmt(s, _replacing(e, Load(name, at, e.dtype))) for s in body)

        def block(stop: Dim, stmts: tuple[Stmt, ...]) -> For:
            inside = For(last.var, Index(left), Index(stop), stmts, "vector")
            return For(across.var, Index(first), Index(top), (inside,))

        full = Apply("le", (Index(left + width), Index(wide)), DType.bool)
        choice = If(full, (*turned, block(left + width, body)), (block(wide, self.body),))
        rows = Dim.ceildiv(tall, length)
        columns = Dim.ceildiv(wide, width)
        task = Dim.of(f"{across.var}.{last.var}")
        decode = (
            Let(f"{across.var}.first", Index(task // columns * length)),
            Let(f"{last.var}.first", Index(task % columns * width)),
        )
        result = For(f"{across.var}.{last.var}", zero(), Index(rows * columns), (*decode, choice), "parallel")
        for loop in reversed(others):
            result = replace(loop, body=(result,), kind="parallel")
        return result

    def _block(self, e: Load, name: str, width: int, length: int, first: Dim, left: Dim, top: Dim) -> list[Stmt]:
        assert isinstance(e.index, Index)
        along = self.loops[-1].var
        row = linear(e.index.dim, along)
        assert row is not None
        start = e.index.dim.subs({self.across: first, along: left})
        alloc = Alloc(name, e.dtype, Dim.of(length * width))
        turn = Transpose(width, Index(top - first), e.buffer, Index(start), Index(row[0]), name, zero(), e.dtype)
        return [alloc, turn]


def _replacing(old: Load, new: Load) -> Callable[[Expr], Expr | None]:
    return lambda e: new if e == old else None


def _turns(e: Load, across: str, along: str) -> bool:
    """Whether the load is contiguous in one variable and strided in the other."""
    by_along = linear(e.index.dim, along) if isinstance(e.index, Index) else None
    by_across = linear(by_along[1], across) if by_along is not None else None
    if by_along is None or by_across is None:
        return False
    return by_across[0] == 1 and not {across, along} & by_along[0].symbols
