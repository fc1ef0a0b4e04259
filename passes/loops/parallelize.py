"""Parallel loops that have enough iterations: nests of independent loops become one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ...ir.dims import Dim
from ...ir.loops import For, Index, Kernel, Let, Local, Stmt, walk_stmts
from .rewrite import assigned, extent, is_innermost, map_bodies, zero


@dataclass(frozen=True)
class Parallelize:
    """Fuses an outer parallel loop with the independent loop right inside it, where the outer one may be short.

    Only loops that the lowering marked independent are touched.  An innermost loop is cut into blocks of `block`
    iterations, so that it still runs over adjacent elements; any other loop gives each of its iterations.  An outer
    loop of at least `enough` iterations is left alone.
    """

    name: ClassVar[str] = "parallelize"
    least: ClassVar[int] = 1  # of the numbers below

    enough: int = 64
    block: int = 4096
    short: int = 32

    def run(self, kernel: Kernel) -> Kernel:
        return replace(kernel, body=tuple(self._stmt(s) for s in kernel.body))

    def _stmt(self, stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.kind != "parallel":
            return map_bodies(stmt, lambda body: tuple(self._stmt(s) for s in body))
        fused = self._fuse(stmt)
        return stmt if fused is None else self._stmt(fused)

    def _fuse(self, outer: For) -> For | None:
        *before, last = outer.body
        if not (isinstance(last, For) and all(isinstance(s, Let) for s in before)):
            return None
        count, size = extent(outer), extent(last)
        if count is None or size is None or outer.start != zero() or last.start != zero():
            return None
        bound = {outer.var} | {s.name for s in before if isinstance(s, Let)}
        if bound & size.symbols or (count.is_const and count.value >= self.enough):
            return None
        if is_innermost(last):
            independent = last.kind == "parallel" or (last.kind == "vector" and not _reduces(last))
            short = size.is_const and size.value <= self.short
            return self._blocks(outer, last, before, count, size) if independent and not short else None
        return self._iterations(outer, last, before, count, size) if last.kind == "parallel" else None

    def _iterations(self, outer: For, inner: For, before: list[Stmt], count: Dim, size: Dim) -> For:
        """One loop over pairs of iterations."""
        both = Dim.of(f"{outer.var}.{inner.var}")
        decode = (Let(outer.var, Index(both // size)), Let(inner.var, Index(both % size)))
        return For(f"{outer.var}.{inner.var}", zero(), Index(count * size), (*decode, *before, *inner.body), "parallel")

    def _blocks(self, outer: For, inner: For, before: list[Stmt], count: Dim, size: Dim) -> For:
        """One loop over blocks of the inner loop."""
        task = f"{outer.var}.{inner.var}"
        blocks, first = Dim.ceildiv(size, self.block), f"{inner.var}.first"
        decode = (
            Let(outer.var, Index(Dim.of(task) // blocks)),
            Let(first, Index((Dim.of(task) % blocks) * self.block)),
        )
        stop = Dim.min(size, Dim.of(first) + self.block)
        part = For(inner.var, Index(Dim.of(first)), Index(stop), inner.body, "vector")
        return For(task, zero(), Index(count * blocks), (*decode, *before, part), "parallel")


def _reduces(loop: For) -> bool:
    """Whether the loop assigns to a local from outside it."""
    own = {s.name for s in walk_stmts(loop.body) if isinstance(s, Local)}
    return bool(assigned(loop.body) - own)
