"""How much work a loop is, as an expression at run time, in tenths of a nanosecond on one core.

The estimate only has to tell microseconds from tens of microseconds: loads, stores and arithmetic are counted,
transcendental functions weigh more, and code that will not be vectorised weighs more still.
"""

from __future__ import annotations

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
    Let,
    Load,
    Local,
    Micro,
    Require,
    Select,
    Stmt,
    Store,
    While,
    bodies,
    expressions,
    walk_expr,
)
from .kernel_expr import ExprEmitter
from .kernel_index import Int
from .kernel_scope import Scope

_CHEAP = frozenset(
    {"add", "sub", "mul", "neg", "abs", "maximum", "minimum", "fma", "square", "relu", "clamp", "sign", "where"}
    | {"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not"}
    | {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "floor", "ceil", "trunc", "round"}
)
_DIVISIONS = frozenset({"div", "reciprocal", "sqrt", "rsqrt"})
UNKNOWN_TRIPS = 16  # for a loop whose bounds depend on data
SCALAR = 6  # how much slower code is that is not vectorised
MULTIPLY_ADDS_PER_UNIT = 4


def loop_work(expr: ExprEmitter, scope: Scope, stmt: For, start: Int, stop: Int) -> str:
    """Emits the work of the whole loop as an i64 text."""
    known = set(scope.ints) | set(scope.values)
    one = _body(stmt.body, {stmt.var: _upper(stmt, {})}, vector=stmt.kind == "vector")
    one = _drop_unknown(one, known)
    f = expr.f
    each = expr.integer(Index(one), scope)
    trips = f.let(f"sub i64 {stop.text}, {start.text}")
    # Sizes near 2**63 must not wrap into "little work".
    limited = [f.intrinsic("umin.i64", "i64", (f"i64 {x}", "i64 1073741824")) for x in (each.text, trips)]
    return f.let(f"mul i64 {limited[0]}, {limited[1]}")


def _drop_unknown(work: Dim, known: set[str]) -> Dim:
    """Symbols bound inside the loop (data) replaced by a guess."""
    return work.subs({name: UNKNOWN_TRIPS for name in work.symbols if name not in known})


def _upper(loop: For, outer: dict[str, Dim]) -> Dim:
    if isinstance(loop.stop, Index):
        return loop.stop.dim.subs(outer)
    return Dim.of(int(loop.stop.value)) if isinstance(loop.stop, Const) else Dim.of(UNKNOWN_TRIPS)


def _trips(loop: For, outer: dict[str, Dim]) -> Dim:
    stop = _upper(loop, outer)
    if isinstance(loop.start, Index):
        start = loop.start.dim.subs(outer)
        return stop if not start.is_const else stop - start if start.value else stop
    return stop


def _body(stmts: tuple[Stmt, ...], outer: dict[str, Dim], vector: bool) -> Dim:
    total = Dim.of(1)
    for stmt in stmts:
        total = total + _stmt(stmt, outer, vector)
    return total


def _stmt(stmt: Stmt, outer: dict[str, Dim], vector: bool) -> Dim:
    scale = 1 if vector else SCALAR
    if isinstance(stmt, For):
        innermost = not any(isinstance(s, (For, While)) for s in stmt.body)
        vector = vector or (innermost and stmt.kind == "vector")
        inner = _body(stmt.body, {**outer, stmt.var: _upper(stmt, outer)}, vector)
        return _trips(stmt, outer) * inner
    if isinstance(stmt, While):
        return _body(stmt.body, outer, vector) * UNKNOWN_TRIPS
    if isinstance(stmt, If):
        return sum((_body(b, outer, vector) for b in bodies(stmt)), Dim.of(1))
    if isinstance(stmt, Contract):
        size = stmt.rows * stmt.cols
        return (stmt.inner * size) // MULTIPLY_ADDS_PER_UNIT + size * _body(stmt.epilogue, outer, True)
    if isinstance(stmt, Micro):
        inner = stmt.inner.dim.subs(outer) if isinstance(stmt.inner, Index) else Dim.of(256)
        rows = stmt.rows.dim.subs(outer) if isinstance(stmt.rows, Index) else Dim.of(6)
        return (inner * rows * stmt.width) // MULTIPLY_ADDS_PER_UNIT
    if isinstance(stmt, (Let, Local, Assign, Store, Require)):
        cost = sum(_expr(e) for e in expressions(stmt)) + (2 if isinstance(stmt, Store) else 0)
        return Dim.of(cost * scale)
    return Dim.of(1)


def _expr(root: Expr) -> int:
    return sum(_node(e) for e in walk_expr(root))


def _node(e: Expr) -> int:
    if isinstance(e, Load):
        return 2
    if isinstance(e, Apply):
        return 1 if e.fn in _CHEAP else 3 if e.fn in _DIVISIONS else 12
    return 1 if isinstance(e, (Cast, Select)) else 0
