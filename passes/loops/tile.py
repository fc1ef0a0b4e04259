"""Contractions: from `Contract` to loops."""

from __future__ import annotations

from ...ir.dims import Dim
from ...ir.loops import Apply, Assign, Cast, Const, Contract, Expr, For, Index, Let, Local, Name, Stmt


def plain_loops(c: Contract) -> tuple[Stmt, ...]:
    """The contraction as three plain loops, what it means: rows, columns, and a sum over the inner extent."""
    acc = Name(f"{c.acc}.sum", c.dtype)
    zero = Const(0 if c.dtype.is_int else 0.0, c.dtype)

    def converted(e: Expr) -> Expr:
        return e if e.dtype is c.dtype else Cast(e, c.dtype)

    product = Apply("mul", (converted(c.lhs), converted(c.rhs)), c.dtype)
    inner = For(c.k, _zero(), Index(c.inner), (Assign(acc.name, Apply("add", (acc, product), c.dtype)),), "vector")
    column = (Local(acc.name, zero), inner, Let(c.acc, acc), *c.epilogue)
    columns = For(c.n, _zero(), Index(c.cols), column)
    return (For(c.m, _zero(), Index(c.rows), (columns,)),)


def _zero() -> Expr:
    return Index(Dim.of(0))
