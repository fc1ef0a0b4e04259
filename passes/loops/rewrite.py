"""Helpers that loop passes share: what statements read and define, and substitution of loop variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ...ir.dims import Dim, Extremum, of_atom
from ...ir.loops import (
    Alloc,
    Assign,
    Const,
    Contract,
    Expr,
    For,
    If,
    Index,
    Let,
    Load,
    Local,
    Name,
    Stmt,
    Store,
    While,
    expressions,
    map_expr,
    map_stmt,
    walk_expr,
    walk_stmts,
)

Rewrite = Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]


def zero() -> Expr:
    return Index(Dim.of(0))


def dim_of(e: Expr) -> Dim | None:
    """An expression as a dim, where it is one."""
    if isinstance(e, Index):
        return e.dim
    return Dim.of(int(e.value)) if isinstance(e, Const) and e.dtype.is_int else None


def extent(loop: For) -> Dim | None:
    """Number of iterations (where stop is not below start)."""
    start, stop = dim_of(loop.start), dim_of(loop.stop)
    return None if start is None or stop is None else stop - start


def trip_limit(loop: For) -> int | None:
    """The most iterations the loop can have, where its bounds show it: a constant, or min(constant, ...)."""
    size = extent(loop)
    if size is None or size.is_const:
        return None if size is None else size.value
    limits = []
    for atom in size.atoms:
        if isinstance(atom, Extremum) and atom.kind == "min" and size.coefficient((atom,)) == 1:
            limits += [size - of_atom(atom) + argument for argument in atom.arguments]
    return min((d.value for d in limits if d.is_const), default=None)


def substitute(stmts: Iterable[Stmt], values: Mapping[str, Dim]) -> tuple[Stmt, ...]:
    """Loop variables replaced by dims, in indices, values, and sizes."""

    def expr(e: Expr) -> Expr | None:
        if isinstance(e, Index):
            return Index(e.dim.subs(values))
        return Index(values[e.name]) if isinstance(e, Name) and e.name in values else None

    return tuple(_sizes(map_stmt(s, expr), values) for s in stmts)


def substitute_expr(e: Expr, values: Mapping[str, Dim]) -> Expr:
    """The same for one expression."""
    return map_expr(e, lambda x: Index(x.dim.subs(values)) if isinstance(x, Index) else None)


def _sizes(stmt: Stmt, values: Mapping[str, Dim]) -> Stmt:
    if isinstance(stmt, Alloc):
        return replace(stmt, size=stmt.size.subs(values))
    if isinstance(stmt, Contract):
        rows, cols, inner = (d.subs(values) for d in (stmt.rows, stmt.cols, stmt.inner))
        stmt = replace(stmt, rows=rows, cols=cols, inner=inner)
    return map_bodies(stmt, lambda body: tuple(_sizes(s, values) for s in body))


def map_bodies(stmt: Stmt, rewrite: Rewrite) -> Stmt:
    """The statement with each of its bodies rewritten."""
    if isinstance(stmt, (For, While)):
        return replace(stmt, body=rewrite(stmt.body))
    if isinstance(stmt, If):
        return replace(stmt, then=rewrite(stmt.then), otherwise=rewrite(stmt.otherwise))
    if isinstance(stmt, Contract):
        return replace(stmt, epilogue=rewrite(stmt.epilogue))
    return stmt


def defined(stmts: Iterable[Stmt]) -> set[str]:
    """Names bound by the statements themselves, not in their bodies."""
    found = {s.name for s in stmts if isinstance(s, (Let, Local))}
    return found | {s.buffer for s in stmts if isinstance(s, Alloc)}


def assigned(stmts: tuple[Stmt, ...]) -> set[str]:
    """Locals assigned to anywhere in the statements."""
    return {s.name for s in walk_stmts(stmts) if isinstance(s, Assign)}


def read_names(e: Expr) -> set[str]:
    """Names and symbols of an expression."""
    found: set[str] = set()
    for node in walk_expr(e):
        if isinstance(node, Index):
            found |= node.dim.symbols
        elif isinstance(node, Name):
            found.add(node.name)
    return found


def has_load(e: Expr) -> bool:
    return any(isinstance(node, Load) for node in walk_expr(e))


def all_expressions(stmts: tuple[Stmt, ...]) -> list[Expr]:
    """Every expression in the statements and their bodies (roots only)."""
    return [e for s in walk_stmts(stmts) for e in expressions(s)]


def is_innermost(loop: For) -> bool:
    """Whether it holds no other loop (a contraction or a micro-kernel is one)."""
    plain = (Let, Local, Assign, Store, If)
    return all(isinstance(s, plain) or type(s).__name__ == "Require" for s in walk_stmts(loop.body))
