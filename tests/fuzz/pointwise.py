"""Arithmetic, functions, comparisons, logic, conversions of elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import special

from pliant.ir.dims import Dim
from pliant.ir.types import DType

from .drawing import Drawing, Fails, Sizes, Value, broadcasts
from .numbers import Array, Number, Numpy, Unwanted, certain, same, stored, sure

Function = Callable[..., Any]


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _hard(x: Array) -> Array:
    return np.clip(x / 6 + 0.5, 0, 1)


def _gelu(x: Array) -> Array:
    return np.where(np.isneginf(x), 0.0, x * 0.5 * special.erfc(-x * np.sqrt(0.5)))


def _gelu_tanh(x: Array) -> Array:
    return np.where(np.isneginf(x), 0.0, x * _sigmoid(np.sqrt(8 / np.pi) * (x + 0.044715 * x**3)))


SMOOTH: Mapping[str, Function] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "erf": special.erf, "sigmoid": _sigmoid, "silu": lambda x: x * _sigmoid(x), "gelu": _gelu,
    "gelu_tanh": _gelu_tanh, "hardsigmoid": _hard, "hardswish": lambda x: x * _hard(x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip
ONCE: Mapping[str, Function] = {
    "neg": np.negative, "abs": np.abs, "relu": lambda x: np.where(x < 0, 0.0, x), "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "round": np.rint, "sign": lambda x: np.where(x == 0, 0.0, np.sign(x)), "sqrt": np.sqrt,
    "square": lambda x: x * x, "reciprocal": lambda x: 1 / x,
}  # fmt: skip
STEPS = ("floor", "ceil", "trunc", "round", "sign")
INTEGER: Mapping[str, Function] = {
    "neg": lambda x: -x, "abs": np.abs, "bitwise_not": lambda x: ~x, "sign": np.sign, "square": lambda x: x * x,
    "relu": lambda x: np.maximum(x, 0),
}  # fmt: skip
ARITHMETIC: Mapping[str, Function] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
COMPARED: Mapping[str, Function] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def extremum(x: Array, y: Array, largest: bool) -> Array:
    """IEEE 754 (2019): NaN of any NaN, -0.0 below 0.0."""
    x, y = np.broadcast_arrays(x, y)
    above = (x > y) | ((x == y) & ~np.signbit(x)) if x.dtype.kind == "f" else x > y
    picked = np.where(above == largest, x, y)
    return np.where(x != x, x, np.where(y != y, y, picked))


def limited(x: Array, low: Array | None, high: Array | None) -> Array:
    if low is not None:
        x = np.where((x < low) | (low != low), low, x)
    if high is not None:
        x = np.where((x > high) | (high != high), high, x)
    return x


# ----------------------------------------------------------------------------------------------------- operands


def partner(d: Drawing, x: Value, literal: bool = True) -> Any:
    """What x is combined with: a value that broadcasts, a literal (any digits: it is rounded), a size."""
    if literal and d.chance(0.3):
        if x.dtype.is_bool:
            return d.chance(0.5)
        if x.dtype.is_float:
            return d.one([0.5, 2.0, -1.0, 1.0, 0.25, 3, 1, 0, 0.3, -1.1, 0.7, 1e-3, 1.7, -0.0])
        return d.one([0, 1, 2, 3, 100, 127] if x.dtype is DType.u8 else [0, 1, 2, 3, -1, -3, 7, 100, -128])
    if literal and d.chance(0.08) and x.dtype in (DType.f32, DType.f64, DType.i64, DType.i32):
        return d.offset()
    return d.pick(lambda v: v.dtype is x.dtype and broadcasts(v, x), recent=False)


def either_order(d: Drawing, x: Any, y: Any) -> tuple[Any, Any]:
    return (x, y) if d.chance(0.7) else (y, x)


def filled(operand: Any, dtype: DType, sizes: Sizes) -> Number:
    """An operand as a number: literals and sizes are rounded to the dtype."""
    if isinstance(operand, Number):
        return operand
    return sure(operand.evaluate(sizes) if isinstance(operand, Dim) else operand, dtype)


def pair(d: Drawing, op: str, x: Value, y: Any, function: Function, how: str = "once", to: DType | None = None) -> None:
    """An operator of two operands whose meaning is a function of their wide elements."""
    dtype = x.dtype
    a, b = either_order(d, x, y)

    def meaning(n: Numpy, sizes: Sizes, p: Any, q: Any) -> Number:
        left, right = filled(p, dtype, sizes), filled(q, dtype, sizes)
        made = function(n.wide(left), n.wide(right))
        return n.about(to or dtype, made) if how == "about" else n.once(to or dtype, made, left, right)

    d.apply(op, [a, b], meaning)


# ---------------------------------------------------------------------------------------------------- statements


def unary(d: Drawing) -> None:
    x = d.real()
    op = d.one([*SMOOTH, *ONCE, *ONCE])
    if op in SMOOTH:
        d.apply(op, [x], lambda n, s, a: n.about(x.dtype, SMOOTH[op](n.wide(a))))
    elif op in STEPS:
        d.apply(op, [x], lambda n, s, a: n.once(x.dtype, ONCE[op](n.wide(certain(a))), a))
    else:
        d.apply(op, [x], lambda n, s, a: n.once(x.dtype, ONCE[op](n.wide(a)), a))


def activation(d: Drawing) -> None:
    x = d.real()
    k = d.one([0.01, 0.5, 1.0, 2.0])
    op, name = d.one([("elu", "alpha"), ("leaky_relu", "negative_slope"), ("softplus", "beta")])
    functions: dict[str, Function] = {
        "elu": lambda v: np.where(v > 0, v, k * np.expm1(np.minimum(v, 0))),
        "leaky_relu": lambda v: np.where(v > 0, v, k * v),
        "softplus": lambda v: np.logaddexp(0, k * v) / k,
    }
    if d.chance(0.3):
        d.apply(
            "hardtanh", [x], lambda n, s, a: n.once(x.dtype, limited(n.wide(a), np.array(-2.0), np.array(1.5)), a),
            min_val=-2.0, max_val=1.5,
        )  # fmt: skip
    else:
        d.apply(op, [x], lambda n, s, a: n.about(x.dtype, functions[op](n.wide(a))), **{name: k})


def predicate(d: Drawing) -> None:
    op: str = d.one(["isnan", "isinf", "isfinite"])
    d.apply(op, [d.real()], lambda n, s, a: sure(getattr(np, op)(n.wide(a)), DType.bool))


def integer_unary(d: Drawing) -> None:
    x = d.integer()
    op = d.one(list(INTEGER))
    if x.dtype is DType.u8 and op in ("neg", "abs", "sign", "relu"):
        op = "bitwise_not"
    d.apply(op, [x], lambda n, s, a: sure(INTEGER[op](a.array), x.dtype))


def negation(d: Drawing) -> None:
    d.apply(d.one(["logical_not", "bitwise_not"]), [d.truth()], lambda n, s, a: sure(~a.array, DType.bool))


def arithmetic(d: Drawing) -> None:
    x = d.number()
    op = d.one([*ARITHMETIC, *ARITHMETIC, "maximum", "minimum"])
    function = ARITHMETIC.get(op, lambda a, b: extremum(a, b, op == "maximum"))
    pair(d, op, x, partner(d, x), function)


def division(d: Drawing) -> None:
    x = d.real()
    op = d.one(["div", "div", "atan2", "pow"])
    y = partner(d, x)

    def power(a: Array, b: Array) -> Any:
        if np.any(a < 0):
            raise Unwanted
        return np.power(a, b)

    function: Function = {"div": np.divide, "atan2": np.arctan2, "pow": power}[op]
    pair(d, op, x, y, function, "once" if op == "div" else "about")


def whole_division(d: Drawing) -> None:
    """Quotients and remainders; of floats only where they are exact, since they jump."""
    x = d.number()
    op = d.one(["floordiv", "mod", "fmod"])
    numpy: Function = {"floordiv": np.floor_divide, "mod": np.mod, "fmod": np.fmod}[op]

    def function(a: Array, b: Array) -> Any:
        a, b = np.broadcast_arrays(a, b)
        if a.size and np.any(b == 0):
            raise Unwanted if x.dtype.is_float else Fails("divides by zero")
        if x.dtype.is_float and not (np.all(a * 16 == np.floor(a * 16)) and np.all(b * 16 == np.floor(b * 16))):
            raise Unwanted
        return numpy(a, b)

    pair(d, op, x, partner(d, x), function)


def integer_power(d: Drawing) -> None:
    x = d.integer()

    def function(a: Array, b: Array) -> Array:
        base, exponent = (np.array(v) for v in np.broadcast_arrays(a, b))
        if np.any(exponent < 0):
            raise Fails("negative exponent")
        result, left = np.ones_like(base), exponent.astype(np.int64)
        while left.any():
            result = np.where(left & 1, result * base, result).astype(base.dtype)
            base, left = (base * base).astype(base.dtype), left >> 1
        return result

    d.apply("pow", [x, partner(d, x)], lambda n, s, p, q: sure(
        function(filled(p, x.dtype, s).array, filled(q, x.dtype, s).array), x.dtype))  # fmt: skip


def comparison(d: Drawing) -> None:
    x = d.pick()
    op = d.one(list(COMPARED))
    a, b = either_order(d, x, partner(d, x))

    def meaning(n: Numpy, sizes: Sizes, p: Any, q: Any) -> Number:
        left, right = filled(p, x.dtype, sizes), filled(q, x.dtype, sizes)
        if not (left.known and right.known):
            u, v = left.array.astype(np.float64), right.array.astype(np.float64)
            if np.any(np.abs(u - v) <= 0.01 * (np.abs(u) + np.abs(v))):
                raise Unwanted  # nearly equal: it depends on a rounding
        return sure(COMPARED[op](left.array, right.array), DType.bool)

    d.apply(op, [a, b], meaning)


def bits(d: Drawing) -> None:
    x = d.pick(lambda v: v.dtype.is_int or v.dtype.is_bool)
    op: str = d.one(["and", "or", "xor"])
    kind = d.one(["bitwise", "logical"]) if x.dtype.is_bool else "bitwise"
    pair(d, f"{kind}_{op}", x, partner(d, x), getattr(np, f"bitwise_{op}"))


def shift(d: Drawing) -> None:
    x = d.integer()
    left = d.chance(0.5)

    def meaning(n: Numpy, sizes: Sizes, p: Any, q: Any) -> Number:
        u, v = np.broadcast_arrays(filled(p, x.dtype, sizes).array, filled(q, x.dtype, sizes).array)
        inside = (v >= 0) & (v.astype(np.int64) < x.dtype.bits)
        by = np.where(inside, v, 0).astype(np.int64)
        if left:
            return sure(np.where(inside, np.left_shift(u.astype(np.int64), by), 0), x.dtype)
        return sure(np.where(inside, u.astype(np.int64) >> by, np.where(u < 0, -1, 0)), x.dtype)

    d.apply("left_shift" if left else "right_shift", [x, partner(d, x)], meaning)


def choice(d: Drawing) -> None:
    condition = d.truth()
    x = d.pick(lambda v: broadcasts(v, condition), recent=False)
    a, b = either_order(d, x, partner(d, x))

    def meaning(n: Numpy, sizes: Sizes, c: Number, p: Any, q: Any) -> Number:
        left, right = filled(p, x.dtype, sizes), filled(q, x.dtype, sizes)
        return same(np.where(c.array, left.array, right.array), left, right)

    d.apply("where", [condition, a, b], meaning)


def clamp(d: Drawing) -> None:
    x = d.number()
    low = partner(d, x) if d.chance(0.7) else None
    high = partner(d, x) if d.chance(0.7) or low is None else None

    def meaning(n: Numpy, sizes: Sizes, a: Number, *limits: Any) -> Number:
        numbers = [None if v is None else filled(v, x.dtype, sizes) for v in (*limits, None)[:2]]
        arrays = [None if v is None else v.array.astype(n.wide(a).dtype) for v in numbers]
        wide = a.array.astype(np.float64) if x.dtype.is_float else a.array
        return n.once(x.dtype, limited(wide, *arrays), a, *(v for v in numbers if v is not None))

    d.apply("clamp", [x, low, high], meaning)


def fused(d: Drawing) -> None:
    """x * y + z, rounded once: of f64 that takes more digits than numpy has."""
    x = d.pick(lambda v: v.dtype.is_float and v.dtype is not DType.f64)

    def meaning(n: Numpy, sizes: Sizes, *given: Any) -> Number:
        p, q, r = (filled(v, x.dtype, sizes) for v in given)
        value = n.wide(p) * n.wide(q) + n.wide(r)
        return n.about(x.dtype, value)

    d.apply("fma", [x, partner(d, x), partner(d, x)], meaning)


def conversion(d: Drawing) -> None:
    x, to = d.pick(), d.any_dtype()

    def meaning(n: Numpy, sizes: Sizes, a: Number) -> Number:
        if to.is_bool:
            return sure(certain(a).array != 0, to)
        if x.dtype.is_float and to.is_float:
            return n.once(to, a.array.astype(np.float64), a)
        if x.dtype.is_float:
            return sure(_saturated(certain(a).array.astype(np.float64), to), to)
        return sure(a.array, to)

    d.apply("cast", [x], meaning, dtype=to)


def _saturated(wide: Array, to: DType) -> Array:
    bounds = np.iinfo(to.numpy.name)
    whole = np.trunc(np.where(np.isnan(wide), 0, wide))
    low, high = whole <= float(bounds.min), whole >= float(bounds.max)
    inside = np.where(low | high, 0, whole).astype(to.numpy)
    made = np.where(high, bounds.max, np.where(low, bounds.min, inside.astype(np.int64)))
    return stored(made, to)


def checked(d: Drawing) -> None:
    x = d.pick()
    condition = d.pick(lambda v: v.dtype.is_bool and (v.dims == x.dims or v.rank == 0))

    def meaning(n: Numpy, sizes: Sizes, a: Number, c: Number) -> Number:
        if not c.array.all():
            raise Fails("the fuzzer's condition")
        return a

    d.apply("checked", [x, condition], meaning, message="the fuzzer's condition")


FORMS = (
    (unary, 7), (activation, 1), (predicate, 0.5), (integer_unary, 2), (negation, 1), (arithmetic, 10), (division, 3),
    (whole_division, 2), (integer_power, 0.5), (comparison, 3), (bits, 2), (shift, 1), (choice, 4), (clamp, 2),
    (fused, 1), (conversion, 5), (checked, 0.5),
)  # fmt: skip
