"""asin, acos, atan, atan2."""

from __future__ import annotations

import math

from .emitter import Builder, Value

QUARTER_PI = {
    "float": (0.7853981852531433, -2.1855694143368964e-08),
    "double": (0.7853981633974483, 3.061616997868383e-17),
}

# Below ASIN_CUT: (asin(x)/x - 1) / x^2 in x^2, 2^-28 and 2^-59. In f32 the cut keeps pi/2 - asin from losing a bit
# where asin is just above 1/2.
ASIN_CUT = {"float": 0.6, "double": 0.5}
ASIN_TAIL = {
    "float": (
        0.16666573286056519,
        0.0750482827425003,
        0.04382051154971123,
        0.036690931767225266,
        -0.0011134042870253325,
        0.055998336523771286,
    ),
    "double": (
        0.1666666666666676,
        0.07499999999970865,
        0.044642857174563226,
        0.030381942709725926,
        0.02237221494039467,
        0.017351612765271834,
        0.013980812424520128,
        0.011398972916193078,
        0.010779939170998806,
        0.0037075091299954453,
        0.021704944541319677,
        -0.020995734947976772,
        0.03262665992009848,
    ),
}
# Below ATAN_CUT: (atan(x)/x - 1) / x^2 in x^2, 2^-30 and 2^-58. In f32 the cut is where pi/4 + atan has passed 1/2, so
# that the first part's error counts half.
ATAN_CUT = {"float": 0.55, "double": 0.41421356237309503}
ATAN_TAIL = {
    "float": (
        -0.33333316445350647,
        0.19998860359191895,
        -0.1426016092300415,
        0.10844133794307709,
        -0.07630609720945358,
        0.033959876745939255,
    ),
    "double": (
        -0.3333333333333319,
        0.1999999999995218,
        -0.1428571428005345,
        0.11111110776244705,
        -0.09090897548598996,
        0.07692056464580635,
        -0.06663061046929397,
        0.058475734579294905,
        -0.050378671944590746,
        0.03802764912407048,
        -0.017866336473592193,
    ),
}


def asin_parts(b: Builder, x: Value) -> tuple[Value, Value]:
    """Whether |x| > ASIN_CUT, and asin(|x|) or, where it is, asin(sqrt((1 - |x|)/2)) = (pi/2 - asin(|x|)) / 2. NaN
    beyond 1.
    """
    size = b.abs(x)
    big = size > ASIN_CUT[x.type]
    z = b.select(big, 0.5 - size * 0.5, size * size)
    s = b.select(big, b.sqrt(z), size)
    return big, b.fma(b.poly(z, ASIN_TAIL[x.type]), z * s, s)


def asin(b: Builder, x: Value) -> Value:
    big, p = asin_parts(b, x)
    high, low = QUARTER_PI[x.type]
    return b.copysign(b.select(big, high * 2 - (p * 2.0 - low * 2), p), x)


def acos(b: Builder, x: Value) -> Value:
    """pi/2 - asin(x); 2p for large x, pi - 2p for large -x."""
    big, p = asin_parts(b, x)
    high, low = QUARTER_PI[x.type]
    negative = x < 0.0
    signed = b.copysign(p, x)
    middle = high * 2 - (signed - low * 2)
    twice = p * 2.0
    return b.select(big, b.select(negative, high * 4 - (twice - low * 4), twice), middle)


def atan_ratio(b: Builder, small: Value, large: Value) -> tuple[Value, Value]:
    """p and k with atan(small / large) = p + k pi/4, for 0 <= small <= large: about pi/4 where the ratio is above
    ATAN_CUT.
    """
    middle = small > large * ATAN_CUT[small.type]
    t = b.select(middle, small - large, small) / b.select(middle, small + large, large)
    z = t * t
    p = b.fma(b.poly(z, ATAN_TAIL[t.type]), z * t, t)
    return p, b.select(middle, b.const(t.type, 1.0), 0.0)


def add_quarters(b: Builder, p: Value, quarters: Value) -> Value:
    """p + quarters * pi/4, rounded once."""
    high, low = QUARTER_PI[p.type]
    return b.fma(quarters, high, b.fma(quarters, low, p))


def atan(b: Builder, x: Value) -> Value:
    size = b.abs(x)
    swap = size > 1.0
    p, quarters = atan_ratio(b, b.select(swap, 1.0, size), b.select(swap, size, 1.0))
    p, quarters = b.select(swap, -p, p), b.select(swap, 2.0 - quarters, quarters)
    return b.copysign(add_quarters(b, p, quarters), x)


def atan2(b: Builder, y: Value, x: Value) -> Value:
    """The angle of (x, y). Both are scaled away from overflow and from the coarse spacing of subnormals; two zeros or
    two infinities count by sign.
    """
    type_ = x.type
    x_size, y_size = b.abs(x), b.abs(y)
    swap = y_size > x_size
    large, small = b.select(swap, y_size, x_size), b.select(swap, x_size, y_size)
    limit = 2.0**64 if type_ == "float" else 2.0**512
    scale = b.select(large > limit, 1.0 / limit, b.select(large < 1.0 / limit, limit, b.const(type_, 1.0)))
    both_infinite = small.eq(math.inf)
    large = b.select(both_infinite, 1.0, b.select(large.eq(0.0), 1.0, large * scale))
    p, quarters = atan_ratio(b, b.select(both_infinite, 1.0, small * scale), large)
    p, quarters = b.select(swap, -p, p), b.select(swap, 2.0 - quarters, quarters)
    left = b.copysign(1.0, x) < 0.0
    p, quarters = b.select(left, -p, p), b.select(left, 4.0 - quarters, quarters)
    angle = b.copysign(add_quarters(b, p, quarters), y)
    return b.select(x.is_nan(), x, b.select(y.is_nan(), y, angle))
