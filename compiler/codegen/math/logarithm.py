"""log, log2, log10, log1p.

x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), and log(1 + f) = f + t(f): in f32 t is a polynomial; in f64,
with s = f / (2 + f), log(1 + f) = 2 atanh(s) converges in half as many terms, worth the division. The parts are added
smallest first.
"""

from __future__ import annotations

import math

from .emitter import EXPONENT_BIAS, MANTISSA_BITS, Builder, Value

LN2_HIGH = {"float": 0.693359375, "double": 0.6931471806019545}
LN2_LOW = {"float": -0.00021219444170128554, "double": -4.2009150726810846e-11}
LOG2_E = {"float": (1.4426950216293335, 1.925963033500011e-08), "double": (1.4426950408889634, 2.0355273740931033e-17)}
LOG10_E = {
    "float": (0.4342944920063019, -1.0103049952192578e-08),
    "double": (0.4342944819032518, 1.098319650216765e-17),
}
LOG10_2 = {"float": (0.301025390625, 4.605039066518657e-06), "double": (0.3010299956640665, -8.532344317057107e-14)}
SQRT_HALF_BITS = {"float": 0x3F3504F3, "double": 0x3FE6A09E667F3BCD}
SMALLEST_NORMAL = {"float": 2.0**-126, "double": 2.0**-1022}

# (log1p(f) - f + f^2/2) / f^3 for f32, 2^-29.
LOG_TAIL_F32 = (
    0.3333331346511841,
    -0.2500017583370209,
    0.20002231001853943,
    -0.1665886789560318,
    0.1420896351337433,
    -0.12557941675186157,
    0.12121693044900894,
    -0.10874225199222565,
    0.05260490998625755,
)
# (2 atanh(s)/s - 2) / s^2 in s^2 for f64, 2^-59.
LOG_TAIL_F64 = (
    0.6666666666666735,
    0.3999999999940911,
    0.2857142874380077,
    0.22222198410947586,
    0.18183573608536588,
    0.15313792623398195,
    0.14798721765252923,
)

LOG_TAIL_SHORT = (0.66666665640362, 0.4000033665452623, 0.28537200050540273, 0.23584464192010243)


def split_exponent(b: Builder, x: Value) -> tuple[Value, Value]:
    """e and m with x = 2^e m, m in [sqrt(1/2), sqrt(2)), for a normal positive x; e is an integer."""
    mantissa, bias = MANTISSA_BITS[x.type], EXPONENT_BIAS[x.type]
    bits = x.bits()
    exponent = ((bits - (SQRT_HALF_BITS[x.type] - (bias << mantissa))) >> mantissa) - bias
    return exponent, (bits - (exponent << mantissa)).as_float()


def split_any(b: Builder, x: Value) -> tuple[Value, Value]:
    """`split_exponent` of any positive x, the exponent as a float."""
    shift = MANTISSA_BITS[x.type]
    small = x < SMALLEST_NORMAL[x.type]
    exponent, m = split_exponent(b, b.select(small, x * 2.0**shift, x))
    float_exponent = b.small_to_float(exponent)
    return b.select(small, float_exponent - float(shift), float_exponent), m


def log1p_tail(b: Builder, f: Value) -> Value:
    """t with log(1 + f) = f + t, for 1 + f in [sqrt(1/2), sqrt(2)]."""
    square = f * f
    if f.type == "float":
        return b.fma(square, -0.5, square * (f * b.poly(f, LOG_TAIL_F32)))
    s = f / (f + 2.0)
    z = s * s
    half_square = square * 0.5
    return s * b.fma(z, b.poly(z, LOG_TAIL_F64), half_square) - half_square


def log_tail_short(b: Builder, f: Value) -> Value:
    """`log1p_tail` of an f64 to 2^-37 of the logarithm, for results that are rounded to f32."""
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    return s * b.fma(z, b.poly(z, LOG_TAIL_SHORT), half_square) - half_square


def natural(b: Builder, e: Value, f: Value, tail: Value) -> Value:
    """e ln 2 + log(1 + f), where log(1 + f) = f + tail."""
    tail = b.fma(e, LN2_LOW[f.type], tail)
    return b.fma(e, LN2_HIGH[f.type], f + tail)


def with_specials(b: Builder, result: Value, x: Value, pole: float = 0.0) -> Value:
    """`result` where pole < x < inf; -inf at the pole, NaN below it, x itself for inf and NaN."""
    at_or_below = b.select(x.eq(pole), -math.inf, b.const(x.type, math.nan))
    return b.select(x < math.inf, b.select(x > pole, result, at_or_below), x)


def log(b: Builder, x: Value) -> Value:
    e, m = split_any(b, x)
    f = m - 1.0
    return with_specials(b, natural(b, e, f, log1p_tail(b, f)), x)


def log2(b: Builder, x: Value) -> Value:
    e, m = split_any(b, x)
    f = m - 1.0
    high, low = LOG2_E[x.type]
    return with_specials(b, b.fma(f, high, b.fma(f, low, log1p_tail(b, f) * high)) + e, x)


def log10(b: Builder, x: Value) -> Value:
    e, m = split_any(b, x)
    f = m - 1.0
    high, low = LOG10_E[x.type]
    e_high, e_low = LOG10_2[x.type]
    tail = b.fma(e, e_low, b.fma(f, low, log1p_tail(b, f) * high))
    return with_specials(b, b.fma(e, e_high, b.fma(f, high, tail)), x)


def log1p_parts(b: Builder, total: Value, error: Value, doublings: Value | int = 0) -> Value:
    """log(2^doublings (total + error)), `total` being the rounded sum of 1 and something: the error of that sum joins
    f, where it counts.

    Where `total` is so large that 2^-e leaves the normal range the error is long below its last place, and is dropped.
    """
    e, m = split_exponent(b, total)
    scaled = b.select(total < 2.0 ** (MANTISSA_BITS[total.type] + 7), error * b.pow2(-e, total.type), 0.0)
    f = (m - 1.0) + scaled
    return natural(b, b.small_to_float(e + doublings), f, log1p_tail(b, f))


def log1p_positive(b: Builder, x: Value) -> Value:
    """log1p for 0 <= x <= 1 (NaN stays)."""
    total, error = b.fast_two_sum(1.0, x)
    return b.select(x.is_nan(), x, log1p_parts(b, total, error))


def log1p(b: Builder, x: Value) -> Value:
    total, error = b.two_sum(x, b.const(x.type, 1.0))
    return b.select(x.eq(0.0), x, with_specials(b, log1p_parts(b, total, error), x, pole=-1.0))
