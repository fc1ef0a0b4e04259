"""pow with C's special cases.

|x|^y = exp(y log|x|): the logarithm needs as many bits more as the result has in its exponent. f32 computes it in
f64; f64 carries it in two parts.
"""

from __future__ import annotations

import math

from .emitter import MANTISSA_BITS, Builder, Value
from .exponential import EXP_MAX, exp_precise, vanish_below
from .logarithm import LN2_HIGH, LN2_LOW, log_tail_short, split_any, split_exponent

LOG2_E = 1.4426950408889634
# (2^r - 1) / r on |r| <= 1/2, in f64 for results rounded to f32: 2^-28.
EXP2_SHORT = (
    0.6931472028558472,
    0.24022637756804904,
    0.05550329846283357,
    0.009619805786719083,
    0.001340013255860897,
    0.00014949878988236652,
)
# 2/3 in two parts, and (2 atanh(s)/s - 2 - 2/3 s^2) / s^4 in s^2: 2^-66 of the logarithm.
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
LOG_REST = (
    0.4000000000000228,
    0.28571428570087826,
    0.2222222252219702,
    0.18181784154334588,
    0.15386767708781385,
    0.13256563838268606,
    0.1319879020196117,
)


def power_f32(b: Builder, size: Value, y: Value) -> Value:
    """size^y for a positive finite f32, as f32."""
    wide = size.extend()
    exponent, m = split_exponent(b, wide)
    f = m - 1.0
    log2 = b.fma(f + log_tail_short(b, f), LOG2_E, b.small_to_float(exponent))
    product = special_log(b, wide, log2) * y.extend()
    bounded = b.clamp_below(b.clamp_above(product, 200.0), -200.0)
    n, integer = b.nearest(bounded)
    r = bounded - n
    return (b.fma(b.poly(r, EXP2_SHORT), r, 1.0) * b.pow2(integer, "double")).truncate()


def special_log(b: Builder, size: Value, log: Value) -> Value:
    """`log`, or -inf at zero, inf at inf, NaN at NaN."""
    return b.select(size < math.inf, b.select(size.eq(0.0), -math.inf, log), size)


def log_in_two_parts(b: Builder, size: Value) -> tuple[Value, Value]:
    """log of a positive f64 as a sum, to about 2^-64. With s = f / (2 + f): 2s + s^3 (2/3 + ...)."""
    e, m = split_any(b, size)
    f = m - 1.0
    divisor, divisor_low = b.fast_two_sum(2.0, f)
    s = f / divisor
    product, product_low = b.two_product(s, divisor)
    s_low = ((f - product) - product_low - s * divisor_low) / divisor
    z, z_low = b.two_product(s, s)
    z_low = b.fma(s * 2.0, s_low, z_low)
    factor, factor_low = b.fast_two_sum(TWO_THIRDS[0], z * b.poly(z, LOG_REST))
    factor_low = factor_low + TWO_THIRDS[1]
    cube, cube_low = b.two_product(s, z)
    cube_low = b.fma(s, z_low, b.fma(s_low, z, cube_low))
    tail, tail_low = b.two_product(cube, factor)
    tail_low = b.fma(cube, factor_low, b.fma(cube_low, factor, tail_low))
    small, small_low = b.fast_two_sum(s * 2.0, tail)
    total, total_low = b.two_sum(e * LN2_HIGH["double"], small)
    low = total_low + (small_low + b.fma(s_low, 2.0, tail_low)) + e * LN2_LOW["double"]
    return b.fast_two_sum(total, low)


def power_f64(b: Builder, size: Value, y: Value) -> Value:
    """size^y for a positive f64 or zero, inf, NaN."""
    log, log_low = log_in_two_parts(b, size)
    log = special_log(b, size, log)
    product, product_low = b.two_product(y, log)
    low = b.fma(y, log_low, product_low)
    bounded = vanish_below(b, b.clamp_above(product, EXP_MAX["double"]))
    # Where the product was cut (or is infinite, its low part then NaN) the low part means nothing.
    return exp_precise(b, bounded, b.select(bounded.eq(product), low, 0.0))


def parity(b: Builder, y: Value) -> tuple[Value, Value]:
    """Whether y is an integer (infinities are, NaN is not) and whether it is odd."""
    mantissa = MANTISSA_BITS[y.type]
    size = b.abs(y)
    unit = 2.0**mantissa
    fractional = size < unit
    shifted = b.select(fractional, size + unit, size)
    is_integer = b.select(fractional, shifted - unit, size).eq(size)
    odd = ((shifted.bits() & 1).ne(0)) & is_integer & (size < 2.0 * unit)
    return is_integer, odd


def power(b: Builder, x: Value, y: Value) -> Value:
    size = b.abs(x)
    magnitude = power_f32(b, size, y) if x.type == "float" else power_f64(b, size, y)
    is_integer, odd = parity(b, y)
    signed = b.select(odd, b.copysign(magnitude, x), magnitude)
    imaginary = (x < 0.0) & (size < math.inf) & ~is_integer
    result = b.select(imaginary, math.nan, signed)
    one = x.eq(1.0) | y.eq(0.0) | (size.eq(1.0) & b.abs(y).eq(math.inf))
    return b.select(one, 1.0, result)
