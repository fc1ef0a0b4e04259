"""Building scalar expressions of the loop IR: the vocabulary that `element` rules and kernels are written in.

Integer arithmetic on indices stays a polynomial (`Index`) as long as both sides are polynomials.
"""

from __future__ import annotations

from collections.abc import Callable

from .build_values import number
from .dims import Dim
from .loops import Apply, Cast, Const, Expr, Index, Select
from .rounding import converted
from .types import DType

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
PREDICATES = frozenset({"isnan", "isinf", "isfinite", "logical_not", "logical_and", "logical_or", "logical_xor"})


def const(value: bool | int | float, dtype: DType) -> Const:
    """A constant of a dtype; a float keeps the digits it was written with, which `held` rounds."""
    if dtype.is_bool:
        return Const(bool(value), dtype)
    return Const(int(value) if dtype.is_int else float(value), dtype)


def held(value: Const) -> bool | int | float:
    """The number that a constant is: rounded to its dtype, integers wrapped around."""
    return number(converted(value.value, value.dtype)[()], value.dtype)


def index(value: Dim | int | str) -> Index:
    """A size or a loop variable (by name) as an i64 value."""
    return Index(Dim.of(value))


def apply(fn: str, *args: Expr) -> Expr:
    """A scalar function; result dtype is that of the first operand, bool for comparisons and predicates."""
    dtype = DType.bool if fn in COMPARISONS or fn in PREDICATES else args[0].dtype
    if all(isinstance(a, Index) for a in args) and fn in _DIM_OPS:
        return Index(_DIM_OPS[fn](*(a.dim for a in args if isinstance(a, Index))))
    return Apply(fn, args, dtype)


def add(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Index) and a.dim == Dim.of(0):
        return b
    if isinstance(b, Index) and b.dim == Dim.of(0):
        return a
    return apply("add", a, b)


def sub(a: Expr, b: Expr) -> Expr:
    return apply("sub", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Index) and a.dim == Dim.of(1):
        return b
    if isinstance(b, Index) and b.dim == Dim.of(1):
        return a
    return apply("mul", a, b)


def cast(value: Expr, dtype: DType) -> Expr:
    """Conversion, left out where it changes nothing."""
    if value.dtype is dtype:
        return value
    if isinstance(value, Const) and not (dtype.is_int and value.dtype.is_float):
        return Const(number(converted(held(value), dtype)[()], dtype), dtype)
    return Cast(value, dtype)


def select(condition: Expr, a: Expr, b: Expr) -> Expr:
    if isinstance(condition, Const):
        return a if condition.value else b
    return Select(condition, a, b)


def both(*conditions: Expr) -> Expr:
    """Logical and of any number of bools; true for none."""
    result: Expr | None = None
    for c in conditions:
        if isinstance(c, Const) and c.value is True:
            continue
        result = c if result is None else Apply("logical_and", (result, c), DType.bool)
    return result if result is not None else Const(True, DType.bool)


_DIM_OPS: dict[str, Callable[..., Dim]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "minimum": lambda a, b: Dim.min(a, b),
    "maximum": lambda a, b: Dim.max(a, b),
}
