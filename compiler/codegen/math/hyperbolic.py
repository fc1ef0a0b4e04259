"""sinh, cosh and the inverses asinh, acosh, atanh. (tanh stands with the exponentials.)

The inverses are logarithms whose argument must be known more precisely than the result's type holds: f32 computes
them in f64, f64 by log1p.
"""

from __future__ import annotations

import math

from .emitter import Builder, Value
from .exponential import EXP_MAX, exp_parts
from .logarithm import log1p_parts, log_tail_short, natural, split_any, with_specials

SINH_CUT = 1.0
# (sinh(x)/x - 1) / x^2 in x^2 for |x| <= 1: 2^-31 and 2^-61.
SINH_TAIL = {
    "float": (0.1666666716337204, 0.00833331048488617, 0.00019842895562760532, 2.782211822704994e-06),
    "double": (
        0.16666666666666669,
        0.008333333333332912,
        0.00019841269841593413,
        2.7557319106754652e-06,
        2.5052130998986694e-08,
        1.6056659169825252e-10,
        7.776598806312175e-13,
    ),
}
# Below this asinh(x) and atanh(x) are x to the precision of f32.
LINEAR_BELOW_F32 = 2.0**-12


def half_exp(b: Builder, x: Value) -> Value:
    """exp(x) / 2 for x >= 0: finite a little beyond where exp overflows."""
    y, n = exp_parts(b, b.clamp_above(x, EXP_MAX[x.type] + 1.0))
    return b.scale(y, n - 1)


def cosh(b: Builder, x: Value) -> Value:
    half = half_exp(b, b.abs(x))
    return half + 0.25 / half


def sinh(b: Builder, x: Value) -> Value:
    square = x * x
    near = b.fma(b.poly(square, SINH_TAIL[x.type]), square * x, x)
    half = half_exp(b, b.abs(x))
    return b.select(b.abs(x) < SINH_CUT, near, b.copysign(half - 0.25 / half, x))


def log_for_f32(b: Builder, wide: Value) -> Value:
    """log of an f64, good enough to be rounded to f32."""
    e, m = split_any(b, wide)
    f = m - 1.0
    return with_specials(b, natural(b, e, f, log_tail_short(b, f)), wide)


def asinh(b: Builder, x: Value) -> Value:
    """log(t + sqrt(t^2 + 1)) in f32; in f64 log1p(t + t^2 / (1 + sqrt(1 + t^2))), or log(2t) where t^2 dwarfs the 1."""
    size = b.abs(x)
    if x.type == "float":
        wide = size.extend()
        result = log_for_f32(b, wide + b.sqrt(b.fma(wide, wide, 1.0))).truncate()
        return b.select(size < LINEAR_BELOW_F32, x, b.copysign(result, x))
    square = size * size
    result = log1p_or_log_twice(b, size, size + square / (b.sqrt(square + 1.0) + 1.0))
    return b.select(size < 2.0**-28, x, b.copysign(result, x))


def log1p_or_log_twice(b: Builder, size: Value, argument: Value) -> Value:
    """log1p(argument), or log(2 size) for a size above 2^28."""
    big = size > 2.0**28
    total, error = b.two_sum(argument, b.const(size.type, 1.0))
    result = log1p_parts(b, b.select(big, size, total), b.select(big, 0.0, error), b.select(big, b.const("i64", 1), 0))
    return b.select(size < math.inf, result, size)


def acosh(b: Builder, x: Value) -> Value:
    """log(x + sqrt(x^2 - 1)) in f32; in f64 log1p(d + sqrt(d (d + 2))) with d = x - 1."""
    if x.type == "float":
        wide = b.select(x < 1.0, math.nan, x.extend())
        return log_for_f32(b, wide + b.sqrt(b.fma(wide, wide, -1.0))).truncate()
    d = x - 1.0
    return log1p_or_log_twice(b, b.select(x < 1.0, math.nan, x), d + b.sqrt(d * (d + 2.0)))


def atanh(b: Builder, x: Value) -> Value:
    """log((1 + t) / (1 - t)) / 2 in f32; in f64 log1p(2t / (1 - t)) / 2."""
    size = b.abs(x)
    if x.type == "float":
        wide = size.extend()
        result = (log_for_f32(b, (wide + 1.0) / (1.0 - wide)) * 0.5).truncate()
        small = size < LINEAR_BELOW_F32
    else:
        total, error = b.two_sum((size * 2.0) / (1.0 - size), b.const(x.type, 1.0))
        result = log1p_parts(b, total, error) * 0.5
        result = b.select(size < 1.0, result, b.select(size.eq(1.0), math.inf, b.const(x.type, math.nan)))
        small = size < 2.0**-28
    return b.select(small, x, b.copysign(result, x))
