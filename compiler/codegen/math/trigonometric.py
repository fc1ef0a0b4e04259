"""sin, cos, tan: reduction to |r| <= pi/4 (see reduction.py), then minimax polynomials in r^2 and a choice by
quadrant.
"""

from __future__ import annotations

import math

from .emitter import WIDTHS, Builder, Value
from .reduction import reduce

# (sin(r)/r - 1) / r^2 in r^2: 2^-32 and 2^-63.
SIN_TAIL = {
    "float": (
        -0.1666666716337204,
        0.008333379402756691,
        -0.00019853060075547546,
        2.8324461709416937e-06,
    ),
    "double": (
        -0.16666666666666666,
        0.008333333333333042,
        -0.00019841269840962573,
        2.7557319074100545e-06,
        -2.5052070970649016e-08,
        1.605431975480918e-10,
        -7.389967298037659e-13,
    ),
}
# (cos(r) - 1 + r^2/2) / r^4 in r^2: 2^-33 and 2^-68.
COS_TAIL = {
    "float": (0.04166664555668831, -0.0013887308305129409, 2.4432101781712845e-05),
    "double": (
        0.041666666666666664,
        -0.001388888888888839,
        2.48015873011843e-05,
        -2.755731906274614e-07,
        2.087672258374798e-09,
        -1.1466937939627905e-11,
        4.596554638269208e-14,
    ),
}
# (tan(r)/r - 1) / r^2 in r^2: 2^-29 and 2^-58.
TAN_TAIL = {
    "float": (
        0.33333349227905273,
        0.1333266943693161,
        0.05405997484922409,
        0.02127937041223049,
        0.010847815312445164,
        6.971677794354036e-05,
        0.004387894179672003,
    ),
    "double": (
        0.3333333333333338,
        0.1333333333332533,
        0.05396825397291568,
        0.02186948839878604,
        0.008863237934147066,
        0.0035921007238886925,
        0.0014560469190671962,
        0.0005888563895048185,
        0.00024378536318941287,
        8.345803791082861e-05,
        6.742914366422003e-05,
        -2.5924581361991934e-05,
        4.8901426242799836e-05,
        -2.4416003452167847e-05,
        9.832846066044507e-06,
    ),
}


def sin_reduced(b: Builder, r: Value, low: Value) -> Value:
    z = r * r
    tail = b.poly(z, SIN_TAIL[r.type])
    return r + b.fma(tail, z * r, b.fma(z * -0.5, low, low))


def cos_reduced(b: Builder, r: Value, low: Value) -> Value:
    """1 - z/2 loses up to half an ulp that is regained from the difference."""
    z = r * r
    half = z * 0.5
    leading = 1.0 - half
    correction = (1.0 - leading) - half
    tail = b.fma(z * z, b.poly(z, COS_TAIL[r.type]), correction)
    return leading + b.fma(r, -low, tail)


def flip_sign(value: Value, sign_bit: Value) -> Value:
    """`value` negated where the topmost bit of the integer is set."""
    return (value.bits() ^ sign_bit).as_float()


def finite_only(b: Builder, x: Value, result: Value) -> Value:
    return b.select(b.abs(x) < math.inf, result, b.const(x.type, math.nan))


def sin_or_cos(b: Builder, x: Value, shift: int) -> Value:
    """The sine of |x| + shift quadrants, without sign bit of x."""
    quadrant, r, low = reduce(b, b.abs(x))
    quadrant = quadrant + shift
    odd = (quadrant & 1).ne(0)
    value = b.select(odd, cos_reduced(b, r, low), sin_reduced(b, r, low))
    return flip_sign(value, (quadrant & 2) << (WIDTHS[x.type] - 2))


def sign_bit(x: Value) -> Value:
    return x.bits() & (1 << (WIDTHS[x.type] - 1))


def sin(b: Builder, x: Value) -> Value:
    return finite_only(b, x, flip_sign(sin_or_cos(b, x, 0), sign_bit(x)))


def cos(b: Builder, x: Value) -> Value:
    return finite_only(b, x, sin_or_cos(b, x, 1))


def tan(b: Builder, x: Value) -> Value:
    """tan(r), or -1/tan(r) in odd quadrants."""
    quadrant, r, low = reduce(b, b.abs(x))
    z = r * r
    tail = b.poly(z, TAN_TAIL[r.type])
    t = r + b.fma(tail, z * r, b.fma(z, low, low))
    value = b.select((quadrant & 1).ne(0), -1.0 / t, t)
    return finite_only(b, x, flip_sign(value, sign_bit(x)))
