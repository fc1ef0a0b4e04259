"""Simpler loops that mean the same: fewer, longer, with less in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from ...ir.dims import Dim, linear
from ...ir.facts import Facts
from ...ir.loops import (
    Alloc,
    Contract,
    For,
    Index,
    Kernel,
    Let,
    Local,
    Micro,
    Name,
    Stmt,
    Store,
    Transpose,
    While,
    walk_expr,
    walk_stmts,
)
from .rewrite import (
    all_expressions,
    assigned,
    defined,
    extent,
    has_load,
    is_innermost,
    map_bodies,
    read_names,
    substitute,
    zero,
)


@dataclass(frozen=True)
class Simplify:
    """Drops loops of one iteration and of none, hoists what does not change, and collapses nests into one loop.

    Two loops collapse when every index in the body moves with them as with one: coefficient of the outer variable ==
    extent of the inner loop * coefficient of the inner variable.
    """

    name: ClassVar[str] = "simplify-loops"

    collapse: bool = True
    hoist: bool = True

    def run(self, kernel: Kernel) -> Kernel:
        names = frozenset(kernel.sizes) | {b.name for b in kernel.buffers}
        return _Simplifier(self, kernel).run(names)


class _Simplifier:
    """One kernel at a time: its facts say which extents are never negative."""

    def __init__(self, options: Simplify, kernel: Kernel) -> None:
        self.options = options
        self.kernel = kernel

    def run(self, names: frozenset[str]) -> Kernel:
        return replace(self.kernel, body=self._body(self.kernel.body, names))

    @cached_property
    def facts(self) -> Facts:
        return Facts().add(*self.kernel.facts)

    def _never_negative(self, size: Dim) -> bool:
        plain = all(c > 0 and all(isinstance(a, str) for a in m) for m, c in size.terms)
        return plain or self.facts.prove_le(0, size)

    def _body(self, stmts: tuple[Stmt, ...], outer: frozenset[str]) -> tuple[Stmt, ...]:
        result: list[Stmt] = []
        names = outer
        for stmt in stmts:
            for simpler in self._stmt(stmt, names):
                result.append(simpler)
                names = names | defined((simpler,))
        return tuple(result)

    def _stmt(self, stmt: Stmt, names: frozenset[str]) -> Iterable[Stmt]:
        if isinstance(stmt, Contract) and Dim.of(0) in (stmt.rows, stmt.cols):
            return ()
        inner = names | {stmt.var} if isinstance(stmt, For) else names
        stmt = map_bodies(stmt, lambda body: self._body(body, inner))
        if not isinstance(stmt, For):
            return (stmt,)
        if not stmt.body:
            return ()
        size = extent(stmt)
        if size is not None and size.is_const:
            if size.value <= 0:
                return ()
            # Inlined names must not hide names of the surroundings.
            if size.value == 1 and isinstance(stmt.start, Index) and not defined(stmt.body) & names:
                return substitute(stmt.body, {stmt.var: stmt.start.dim})
        before: tuple[Stmt, ...] = ()
        if self.options.hoist:
            before, stmt = _hoist(stmt, names)
        if self.options.collapse:
            stmt = self._collapse(stmt)
        return (*before, stmt)

    def _collapse(self, outer: For) -> For:
        if len(outer.body) != 1 or not isinstance(outer.body[0], For):
            return outer
        inner = outer.body[0]
        size, count = extent(inner), extent(outer)
        kind = _joint_kind(outer, inner)
        if size is None or count is None or kind is None or outer.start != zero() or inner.start != zero():
            return outer
        if outer.var in size.symbols or not is_innermost(inner):
            return outer
        if not _moves_as_one(inner.body, outer.var, inner.var, size):
            return outer
        # Two extents below zero mean no iteration, but their product is above it.
        if not (self._never_negative(size) or self._never_negative(count)):
            return outer
        body = substitute(inner.body, {outer.var: Dim.of(0)})
        return For(inner.var, zero(), Index(count * size), body, kind)


def _hoist(loop: For, names: frozenset[str]) -> tuple[tuple[Stmt, ...], For]:
    """`Let`s at the head of the body that do not change from one iteration to the next, and the loop without them.

    Loads stay: with no iteration at all they might be out of range.
    """
    changing = {loop.var} | assigned(loop.body)
    before: list[Stmt] = []
    kept: list[Stmt] = []
    for stmt in loop.body:
        if (
            isinstance(stmt, Let)
            and stmt.name not in names
            and not has_load(stmt.value)
            and not read_names(stmt.value) & changing
        ):
            before.append(stmt)
            continue
        changing |= defined((stmt,))
        kept.append(stmt)
    return (tuple(before), replace(loop, body=tuple(kept))) if kept else ((), loop)


def _joint_kind(outer: For, inner: For) -> str | None:
    """The kind of the collapsed loop; None where order would be lost."""
    kinds = (outer.kind, inner.kind)
    if kinds == ("parallel", "vector"):
        return "parallel" if not _reduces(inner) else None
    if kinds in (("parallel", "parallel"), ("vector", "vector"), ("serial", "serial")):
        return outer.kind
    if kinds == ("serial", "vector") and _reduces(inner) and not _stores(inner):
        return "vector"
    return None


def _reduces(loop: For) -> bool:
    """Whether the loop assigns to a local from outside it."""
    own = {s.name for s in walk_stmts(loop.body) if isinstance(s, Local)}
    return bool(assigned(loop.body) - own)


def _stores(loop: For) -> bool:
    return any(isinstance(s, Store) for s in walk_stmts(loop.body))


def _moves_as_one(body: tuple[Stmt, ...], outer: str, inner: str, size: Dim) -> bool:
    for root in all_expressions(body):
        for e in walk_expr(root):
            if isinstance(e, Name) and e.name in (outer, inner):
                return False
            if isinstance(e, Index) and not _joint(e.dim, outer, inner, size):
                return False
    return not any(isinstance(s, (Alloc, Contract, Micro, Transpose, While)) for s in walk_stmts(body))


def _joint(index: Dim, outer: str, inner: str, size: Dim) -> bool:
    if not {outer, inner} & index.symbols:
        return True
    by_outer = linear(index, outer)
    by_inner = linear(by_outer[1], inner) if by_outer is not None else None
    if by_outer is None or by_inner is None or inner in by_outer[0].symbols:
        return False
    return by_outer[0] == by_inner[0] * size
