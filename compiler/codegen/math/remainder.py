"""fmod (C's, with the sign of x) and mod (Python's, with the sign of y), exact like the definitions.

With |x| = a 2^k, |y| = m and a, m in [1, 2): the remainder of a 2^k by m is found some bits of k at a time: r 2^s -
round(r 2^s / m) m is exact when the quotient's bits and m's fit together, and small again. f32 computes in f64, where
a step takes nearly all bits: the steps for the largest k, six, are written out and the surplus ones undone by
selects. f64 would need 44, each waiting for the last, of which usual arguments need one: it has a loop (and so has
f32 without fma), and loops over it are not vectorised. Written out it was measured to be 6 to 18 times slower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .emitter import EXPONENT_BIAS, MANTISSA_BITS, Builder, Value

MOST_WRITTEN_OUT = 8
SMALLEST_NORMAL = 2.0**-1022


@dataclass(frozen=True)
class Steps:
    """How the division proceeds: bits a step, and full steps that the largest ratio needs."""

    bits: int
    count: int


def steps_for(type_: str, fma: bool) -> Steps:
    """A fused step may take nearly all of f64's bits, since only the rest is rounded; otherwise quotient times (half
    of) m must fit.
    """
    bits = 48 if fma else 26
    largest = 2 * EXPONENT_BIAS[type_] + MANTISSA_BITS[type_]
    return Steps(bits, largest // bits)


def normalise(b: Builder, x: Value) -> tuple[Value, Value]:
    """The exponent (i64) and the mantissa in [1, 2) of a positive f64."""
    small = x < SMALLEST_NORMAL
    bits = b.select(small, x * 2.0**52, x).bits()
    exponent = bits >> 52
    mantissa = ((bits & ((1 << 52) - 1)) | (1023 << 52)).as_float()
    return exponent - b.select(small, b.const("i64", 1023 + 52), 1023), mantissa


def reduce_once(b: Builder, r: Value, scale: Value | float, m: Value, inverse: Value) -> Value:
    """r * scale minus the nearest multiple of m."""
    scaled = r * scale
    quotient, _ = b.nearest(scaled * inverse)
    if b.fma_available:
        return b.fma(quotient, -m, scaled)
    high, low = b.split(m)
    return (scaled - quotient * high) - quotient * low


def remainder_f64(b: Builder, x: Value, y: Value, steps: Steps) -> Value:
    """The remainder of two positive f64 with x >= y."""
    x_exponent, r = normalise(b, x)
    y_exponent, m = normalise(b, y)
    distance = b.small_to_float(x_exponent - y_exponent)
    # floor(distance / bits): the nearest integer to a value that is never half way between two.
    full, _ = b.nearest((distance - (steps.bits - 1) / 2) * (1.0 / steps.bits))
    _, odd_bits = b.nearest(distance - full * float(steps.bits))
    inverse = 1.0 / m
    r = reduce_once(b, r, b.pow2(odd_bits, "double"), m, inverse)

    def step(rest: Value) -> Value:
        return reduce_once(b, rest, 2.0**steps.bits, m, inverse)

    if steps.count > MOST_WRITTEN_OUT:
        r = b.countdown(full, r, step)
    else:
        for done in range(steps.count):
            r = b.select(full > float(done), step(r), r)
    r = b.select(r < 0.0, r + m, r)
    return b.scale(r, y_exponent)


def fmod(b: Builder, x: Value, y: Value) -> Value:
    size, divisor = b.abs(x), b.abs(y)
    steps = steps_for(x.type, b.fma_available)
    if x.type == "float":
        result = remainder_f64(b, size.extend(), divisor.extend(), steps).truncate()
    else:
        result = remainder_f64(b, size, divisor, steps)
    result = b.copysign(b.select(size < divisor, size, result), x)
    defined = (size < math.inf) & (divisor > 0.0)
    return b.select(defined, result, b.const(x.type, math.nan))


def mod(b: Builder, x: Value, y: Value) -> Value:
    """fmod, plus y where the signs differ; a zero has y's sign."""
    rest = fmod(b, x, y)
    differs = (rest < 0.0) ^ (y < 0.0)
    moved = b.select(differs, rest + y, rest)
    return b.select(rest.eq(0.0), b.copysign(rest, y), moved)
