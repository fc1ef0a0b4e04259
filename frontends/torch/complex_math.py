"""Functions of complex numbers, built of operators on their parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...ir.graph import Operand
from ...ir.types import DType
from .complexes import Complex
from .context import Context, is_tensor


def parts(t: Context, x: Any, dtype: DType | None = None) -> Complex:
    """The parts of any operand; those of a real one are itself and 0."""
    kind = dtype or t.dtype
    if isinstance(x, Complex):
        return x.each(lambda part: t.to(part, kind))
    if is_tensor(x):
        return Complex(t.to(x, kind), zeros(t, x, kind))
    re, im = (x.real, x.imag) if isinstance(x, complex) else (x, 0.0)
    return Complex(t.tensor(re, kind), t.tensor(im, kind))


def zeros(t: Context, like: Operand, dtype: DType) -> Operand:
    return t.op("zeros", shape=t.type(like).dims, dtype=dtype)


def add(t: Context, x: Complex, y: Complex) -> Complex:
    return Complex(t.op("add", x.re, y.re), t.op("add", x.im, y.im))


def sub(t: Context, x: Complex, y: Complex) -> Complex:
    return Complex(t.op("sub", x.re, y.re), t.op("sub", x.im, y.im))


def mul(t: Context, x: Complex, y: Complex) -> Complex:
    re = t.op("sub", t.op("mul", x.re, y.re), t.op("mul", x.im, y.im))
    return Complex(re, t.op("add", t.op("mul", x.re, y.im), t.op("mul", x.im, y.re)))


def neg(t: Context, x: Complex) -> Complex:
    return x.each(lambda part: t.op("neg", part))


def conj(t: Context, x: Complex) -> Complex:
    return Complex(x.re, t.op("neg", x.im))


def scaled(t: Context, x: Complex, by: Any) -> Complex:
    """Times a real number or tensor."""
    return x.each(lambda part: t.op("mul", part, by))


def div(t: Context, x: Complex, y: Complex) -> Complex:
    """Without overflow: scaled by the larger part of y (Smith, Algorithm 116, 1962)."""
    wide = t.op("ge", t.op("abs", y.re), t.op("abs", y.im))
    large, small = t.op("where", wide, y.re, y.im), t.op("where", wide, y.im, y.re)
    nothing = t.op("eq", large, 0.0)
    ratio = t.op("where", nothing, small, t.op("div", small, large))
    whole = t.op("add", large, t.op("mul", small, ratio))
    re = t.op("where", wide, t.op("add", x.re, t.op("mul", x.im, ratio)), t.op("add", t.op("mul", x.re, ratio), x.im))
    im = t.op("where", wide, t.op("sub", x.im, t.op("mul", x.re, ratio)), t.op("sub", t.op("mul", x.im, ratio), x.re))
    return Complex(t.op("div", re, whole), t.op("div", im, whole))


def magnitude(t: Context, x: Complex) -> Operand:
    """sqrt(re^2 + im^2) without overflow: in f64, or scaled by the larger part."""
    dtype = t.type(x.re).dtype
    infinite = t.op("logical_or", t.op("isinf", x.re), t.op("isinf", x.im))
    if dtype is not DType.f64:
        wide = x.each(lambda part: t.op("square", t.to(part, DType.f64)))
        size = t.to(t.op("sqrt", t.op("add", wide.re, wide.im)), dtype)
    else:
        re, im = t.op("abs", x.re), t.op("abs", x.im)
        large, small = t.op("maximum", re, im), t.op("minimum", re, im)
        ratio = t.op("div", small, t.op("where", t.op("eq", large, 0.0), 1.0, large))
        size = t.op("mul", large, t.op("sqrt", t.op("add", t.op("square", ratio), 1.0)))
    return t.op("where", infinite, math.inf, size)


def phase(t: Context, x: Complex) -> Operand:
    return t.op("atan2", x.im, x.re)


def polar_of(t: Context, size: Operand, angle: Operand) -> Complex:
    return Complex(t.op("mul", size, t.op("cos", angle)), t.op("mul", size, t.op("sin", angle)))


def exp(t: Context, x: Complex) -> Complex:
    return polar_of(t, t.op("exp", x.re), x.im)


def exp2(t: Context, x: Complex) -> Complex:
    return exp(t, scaled(t, x, math.log(2)))


def log(t: Context, x: Complex) -> Complex:
    return Complex(t.op("log", magnitude(t, x)), phase(t, x))


def log1p(t: Context, x: Complex) -> Complex:
    """|1 + x|^2 is 1 + (2 a + a^2 + b^2)."""
    above = t.op("add", t.op("mul", x.re, t.op("add", x.re, 2.0)), t.op("square", x.im))
    size = t.op("mul", t.op("log1p", above), 0.5)
    return Complex(size, t.op("atan2", x.im, t.op("add", x.re, 1.0)))


def sqrt(t: Context, x: Complex) -> Complex:
    """The root with a real part of 0 or more, without cancellation."""
    half = t.op("sqrt", t.op("mul", t.op("add", t.op("abs", x.re), magnitude(t, x)), 0.5))
    nothing = t.op("eq", half, 0.0)
    other = t.op("div", t.op("abs", x.im), t.op("where", nothing, 1.0, t.op("mul", half, 2.0)))
    right = t.op("ge", x.re, 0.0)
    re, im = t.op("where", right, half, other), t.op("where", right, other, half)
    below = t.op("lt", t.op("atan2", x.im, 1.0), 0.0)  # -0 has an angle of its own
    return Complex(re, t.op("where", below, t.op("neg", im), im))


def reciprocal(t: Context, x: Complex) -> Complex:
    one = t.op("ones", shape=t.type(x.re).dims, dtype=t.type(x.re).dtype)
    return div(t, Complex(one, zeros(t, x.re, t.type(x.re).dtype)), x)


def power(t: Context, x: Complex, y: Any) -> Complex:
    """exp(y log x), by products and roots where y is a small number."""
    dtype = t.type(x.re).dtype
    if y == 1:
        return x
    if y == 2:
        return mul(t, x, x)
    if y == 3:
        return mul(t, mul(t, x, x), x)
    if y == 0.5:
        return sqrt(t, x)
    if y in (-0.5, -1, -2):
        return reciprocal(t, power(t, x, -y))
    to = parts(t, y, dtype)
    made = exp(t, mul(t, to, log(t, x)))
    none = t.op("logical_and", t.op("eq", x.re, 0.0), t.op("eq", x.im, 0.0))
    plain = t.op("logical_and", t.op("eq", to.re, 0.0), t.op("eq", to.im, 0.0))
    made = Complex(t.op("where", none, 0.0, made.re), t.op("where", none, 0.0, made.im))
    return Complex(t.op("where", plain, 1.0, made.re), t.op("where", plain, 0.0, made.im))


def sgn(t: Context, x: Complex) -> Complex:
    size = magnitude(t, x)
    by = t.op("where", t.op("eq", size, 0.0), 1.0, size)
    return x.each(lambda part: t.op("div", part, by))


def sinh(t: Context, x: Complex) -> Complex:
    return Complex(
        t.op("mul", t.op("sinh", x.re), t.op("cos", x.im)), t.op("mul", t.op("cosh", x.re), t.op("sin", x.im))
    )


def cosh(t: Context, x: Complex) -> Complex:
    return Complex(
        t.op("mul", t.op("cosh", x.re), t.op("cos", x.im)), t.op("mul", t.op("sinh", x.re), t.op("sin", x.im))
    )


def tanh(t: Context, x: Complex) -> Complex:
    """(sinh 2a + i sin 2b) / (cosh 2a + cos 2b), both multiplied by 2 exp(-2 |a|)."""
    fade = t.op("exp", t.op("mul", t.op("abs", x.re), -2.0))
    twice = t.op("mul", x.im, 2.0)
    whole = t.op("add", t.op("add", t.op("square", fade), 1.0), t.op("mul", t.op("mul", fade, 2.0), t.op("cos", twice)))
    rise = t.op("neg", t.op("expm1", t.op("mul", t.op("abs", x.re), -4.0)))
    re = t.op("where", t.op("lt", x.re, 0.0), t.op("neg", rise), rise)
    im = t.op("mul", t.op("mul", fade, 2.0), t.op("sin", twice))
    return Complex(t.op("div", re, whole), t.op("div", im, whole))


def sigmoid(t: Context, x: Complex) -> Complex:
    """(1 + tanh(x / 2)) / 2."""
    half = scaled(t, tanh(t, scaled(t, x, 0.5)), 0.5)
    return Complex(t.op("add", half.re, 0.5), half.im)


def turned(of: Callable[[Context, Complex], Complex]) -> Callable[[Context, Complex], Complex]:
    """f(x) = -i g(i x): sin of sinh, tan of tanh."""

    def apply(t: Context, x: Complex) -> Complex:
        made = of(t, Complex(t.op("neg", x.im), x.re))
        return Complex(made.im, t.op("neg", made.re))

    return apply


def cos(t: Context, x: Complex) -> Complex:
    return cosh(t, Complex(t.op("neg", x.im), x.re))


def expm1(t: Context, x: Complex) -> Complex:
    """Without cancellation where x is small: cos b - 1 is -2 sin(b / 2)^2."""
    grown = t.op("expm1", x.re)
    sink = t.op("mul", t.op("square", t.op("sin", t.op("mul", x.im, 0.5))), -2.0)
    re = t.op("add", t.op("mul", grown, t.op("cos", x.im)), sink)
    return Complex(re, t.op("mul", t.op("exp", x.re), t.op("sin", x.im)))


def asinh(t: Context, x: Complex) -> Complex:
    """log(x + sqrt(x^2 + 1)) in the right half plane, as log1p(x + x^2 / (1 + sqrt(x^2 + 1))); odd elsewhere."""
    left = t.op("lt", x.re, 0.0)
    right = x.each(lambda part: t.op("where", left, t.op("neg", part), part))
    square = mul(t, right, right)
    root = sqrt(t, Complex(t.op("add", square.re, 1.0), square.im))
    bend = div(t, square, Complex(t.op("add", root.re, 1.0), root.im))
    made = log1p(t, add(t, right, bend))
    return made.each(lambda part: t.op("where", left, t.op("neg", part), part))


def atanh(t: Context, x: Complex) -> Complex:
    return scaled(t, sub(t, log1p(t, x), log1p(t, neg(t, x))), 0.5)


def acosh(t: Context, x: Complex) -> Complex:
    """log(x + sqrt(x + 1) sqrt(x - 1))."""
    up, down = Complex(t.op("add", x.re, 1.0), x.im), Complex(t.op("sub", x.re, 1.0), x.im)
    return log(t, add(t, x, mul(t, sqrt(t, up), sqrt(t, down))))


def acos(t: Context, x: Complex) -> Complex:
    sine = turned(asinh)(t, x)
    return Complex(t.op("sub", math.pi / 2, sine.re), t.op("neg", sine.im))
