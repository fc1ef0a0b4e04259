"""How much work a loop is, as an expression at run time, in tenths of a nanosecond on one core.

The estimate only has to tell microseconds from tens of microseconds: loads, stores and arithmetic are counted,
transcendental functions weigh more, and code that will not be vectorised weighs more still.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    Transpose,
    While,
    bodies,
    expressions,
    walk_expr,
)
from ...ir.types import DType
from ...passes.loops.rewrite import is_innermost
from .kernel_expr import ExprEmitter
from .kernel_index import Int, of_int
from .kernel_scope import Scope

_CHEAP = frozenset(
    {"add", "sub", "mul", "neg", "abs", "maximum", "minimum", "fma", "square", "relu", "sign", "where"}
    | {"clamp_min", "clamp_max"}
    | {"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not"}
    | {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "floor", "ceil", "trunc", "round"}
)
_DIVISIONS = frozenset({"div", "reciprocal", "sqrt", "rsqrt"})
UNKNOWN = 16  # for a size that depends on data
SCALAR = 6  # how much slower code is that is not vectorised
MULTIPLY_ADDS_PER_UNIT = 4
LIMIT = 1 << 30  # a second and more is one thing; keeps products from wrapping into "little work"


def loop_work(expr: ExprEmitter, scope: Scope, stmt: For, start: Int, stop: Int) -> str:
    """Emits the work of the whole loop as an i64 text, in the function that holds the loop."""
    work = _Work(expr)
    trips = work.subtract(stop, start)
    inside = work.middle(stmt.var, start, trips, scope)
    each = work.body(stmt.body, inside, vector=is_innermost(stmt))
    return work.multiply(work.limit(each), work.limit(trips)).text


@dataclass(frozen=True)
class _Work:
    """Computes work by walking the statements once, each loop variable standing at the middle of its range."""

    expr: ExprEmitter

    # -- arithmetic that folds constants

    def add(self, a: Int, b: Int) -> Int:
        if a.constant is not None and b.constant is not None:
            return of_int(a.constant + b.constant)
        return Int(self.expr.f.let(f"add i64 {a.text}, {b.text}", "w"))

    def subtract(self, a: Int, b: Int) -> Int:
        if a.constant is not None and b.constant is not None:
            return of_int(a.constant - b.constant)
        return a if b.constant == 0 else Int(self.expr.f.let(f"sub i64 {a.text}, {b.text}", "w"))

    def multiply(self, a: Int, b: Int) -> Int:
        if a.constant is not None and b.constant is not None:
            return of_int(a.constant * b.constant)
        return Int(self.expr.f.let(f"mul i64 {a.text}, {b.text}", "w"))

    def shift(self, a: Int, by: int) -> Int:
        if a.constant is not None:
            return of_int(a.constant >> by)
        return Int(self.expr.f.let(f"ashr i64 {a.text}, {by}", "w"))

    def limit(self, a: Int) -> Int:
        """Between 0 and LIMIT."""
        if a.constant is not None:
            return of_int(min(max(a.constant, 0), LIMIT))
        positive = self.expr.f.intrinsic("smax.i64", "i64", (f"i64 {a.text}", "i64 0"))
        return Int(self.expr.f.intrinsic("smin.i64", "i64", (f"i64 {positive}", f"i64 {LIMIT}")))

    # -- names

    def middle(self, var: str, start: Int, trips: Int, scope: Scope) -> Scope:
        """The scope inside a loop."""
        inside = scope.inner()
        inside.ints[var] = self.add(start, self.shift(trips, 1))
        inside.values.pop(var, None)
        return inside

    def size(self, e: Expr, scope: Scope) -> Int:
        """An integer that is known outside the loop; a guess where it depends on data."""
        if isinstance(e, Const):
            return of_int(int(e.value))
        if isinstance(e, Index) and e.dim.symbols <= {*scope.ints, *scope.values}:
            return self.expr.integer(e, scope)
        return of_int(UNKNOWN)

    def define(self, stmt: Let, scope: Scope) -> None:
        scope.values.pop(stmt.name, None)
        if stmt.value.dtype is DType.i64:
            scope.ints[stmt.name] = self.size(stmt.value, scope)

    # -- statements

    def body(self, stmts: tuple[Stmt, ...], outer: Scope, vector: bool) -> Int:
        scope, total = outer.inner(), of_int(1)
        for stmt in stmts:
            total = self.add(total, self.stmt(stmt, scope, vector))
            if isinstance(stmt, Let):
                self.define(stmt, scope)
        return total

    def stmt(self, stmt: Stmt, scope: Scope, vector: bool) -> Int:
        if isinstance(stmt, For):
            return self.loop(stmt, scope, vector)
        if isinstance(stmt, While):
            return self.multiply(self.body(stmt.body, scope, vector), of_int(UNKNOWN))
        if isinstance(stmt, If):
            then, otherwise = (self.body(b, scope, vector) for b in bodies(stmt))
            return self.add(then, otherwise)
        if isinstance(stmt, Contract):
            rows, cols, inner = (self.size(Index(d), scope) for d in (stmt.rows, stmt.cols, stmt.inner))
            element = self.add(inner, self.body(stmt.epilogue, scope, vector=True))
            return self.multiply(self.multiply(rows, cols), element)
        if isinstance(stmt, Micro):
            rows, inner = self.size(stmt.rows, scope), self.size(stmt.inner, scope)
            return self.multiply(self.multiply(rows, inner), of_int(stmt.width // MULTIPLY_ADDS_PER_UNIT))
        if isinstance(stmt, Transpose):
            return self.multiply(self.size(stmt.length, scope), of_int(stmt.width))
        if isinstance(stmt, (Let, Local, Assign, Store, Require)):
            cost = sum(_expr(e) for e in expressions(stmt)) + (2 if isinstance(stmt, Store) else 0)
            return of_int(cost if vector else cost * SCALAR)
        return of_int(1)

    def loop(self, stmt: For, scope: Scope, vector: bool) -> Int:
        start, stop = self.size(stmt.start, scope), self.size(stmt.stop, scope)
        trips = self.subtract(stop, start)
        inside = self.middle(stmt.var, start, trips, scope)
        each = self.body(stmt.body, inside, vector or (stmt.kind != "serial" and is_innermost(stmt)))
        return self.multiply(self.limit(trips), each)


def _expr(root: Expr) -> int:
    return sum(_node(e) for e in walk_expr(root))


def _node(e: Expr) -> int:
    if isinstance(e, Load):
        return 2
    if isinstance(e, Apply):
        return 1 if e.fn in _CHEAP else 3 if e.fn in _DIVISIONS else 12
    return 1 if isinstance(e, (Cast, Select)) else 0
