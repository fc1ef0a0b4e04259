"""Pointwise operators of one operand: arithmetic, elementary functions and predicates.

A class gives `formula` (the scalar expression; default: the code generator's function of the op's name) and
`exact` (numpy's).  f16 and bf16 operands are computed in f32 throughout and rounded once at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..loops import Expr
from ..op import Array, ElementContext, InferContext, Refused, Sample
from ..scalar import apply, const
from ..types import DType, TensorType, tensor
from ._common import INTS, SIZES, arrays, integers, shapes, want_bool, want_int
from ._pointwise import NumberUnary, Unary

# ----------------------------------------------------------------------------------------- sign and rounding


class Abs(NumberUnary):
    """The absolute value; that of the smallest integer is itself."""

    name = "abs"


class Neg(NumberUnary):
    """The negative."""

    name = "neg"

    def exact(self, x: Array) -> object:
        return np.negative(x)


class Sign(NumberUnary):
    """-1, 0 or 1; 0.0 for either zero, and NaN stays NaN."""

    name = "sign"


class Square(NumberUnary):
    """x * x."""

    name = "square"

    def formula(self, ctx: ElementContext, x: Expr) -> Expr:
        x = ctx.let(x)
        return apply("mul", x, x)


class Floor(Unary):
    """The largest whole number not above x."""

    name = "floor"


class Ceil(Unary):
    """The smallest whole number not below x."""

    name = "ceil"


class Round(Unary):
    """The nearest whole number, ties to even."""

    name = "round"


class Trunc(Unary):
    """The whole part, towards zero."""

    name = "trunc"


# ------------------------------------------------------------------------- exponentials, logarithms and roots


class Exp(Unary):
    """e to the power x."""

    name = "exp"


class Exp2(Unary):
    """2 to the power x."""

    name = "exp2"


class Expm1(Unary):
    """exp(x) - 1, accurate near 0."""

    name = "expm1"


class Log(Unary):
    """The natural logarithm."""

    name = "log"
    domain = (0.01, 20.0)


class Log2(Unary):
    """The logarithm to base 2."""

    name = "log2"
    domain = (0.01, 20.0)


class Log10(Unary):
    """The logarithm to base 10."""

    name = "log10"
    domain = (0.01, 20.0)


class Log1p(Unary):
    """log(1 + x), accurate near 0."""

    name = "log1p"
    domain = (-0.9, 9.0)


class Sqrt(Unary):
    """The square root; NaN for negative numbers."""

    name = "sqrt"
    domain = (0.0, 20.0)


class Rsqrt(Unary):
    """1 / sqrt(x)."""

    name = "rsqrt"
    domain = (0.01, 20.0)

    def formula(self, ctx: ElementContext, x: Expr) -> Expr:
        return apply("div", const(1.0, x.dtype), apply("sqrt", x))

    def exact(self, x: Array) -> object:
        return np.reciprocal(np.sqrt(x))


class Reciprocal(Unary):
    """1 / x."""

    name = "reciprocal"

    def formula(self, ctx: ElementContext, x: Expr) -> Expr:
        return apply("div", const(1.0, x.dtype), x)


# --------------------------------------------------------------------------------------------- trigonometry


class Sin(Unary):
    """The sine of x in radians."""

    name = "sin"


class Cos(Unary):
    """The cosine of x in radians."""

    name = "cos"


class Tan(Unary):
    """The tangent of x in radians."""

    name = "tan"
    domain = (-1.4, 1.4)


class Asin(Unary):
    """The inverse sine, in radians."""

    name = "asin"
    domain = (-1.0, 1.0)

    def exact(self, x: Array) -> object:
        return np.arcsin(x)


class Acos(Unary):
    """The inverse cosine, in radians."""

    name = "acos"
    domain = (-1.0, 1.0)

    def exact(self, x: Array) -> object:
        return np.arccos(x)


class Atan(Unary):
    """The inverse tangent, in radians."""

    name = "atan"

    def exact(self, x: Array) -> object:
        return np.arctan(x)


class Sinh(Unary):
    """The hyperbolic sine."""

    name = "sinh"


class Cosh(Unary):
    """The hyperbolic cosine."""

    name = "cosh"


class Tanh(Unary):
    """The hyperbolic tangent."""

    name = "tanh"


class Asinh(Unary):
    """The inverse hyperbolic sine."""

    name = "asinh"

    def exact(self, x: Array) -> object:
        return np.arcsinh(x)


class Acosh(Unary):
    """The inverse hyperbolic cosine."""

    name = "acosh"
    domain = (1.0, 9.0)

    def exact(self, x: Array) -> object:
        return np.arccosh(x)


class Atanh(Unary):
    """The inverse hyperbolic tangent."""

    name = "atanh"
    domain = (-0.95, 0.95)

    def exact(self, x: Array) -> object:
        return np.arctanh(x)


def erf_array(x: Array) -> Array:
    """The error function in f64, element by element, rounded to the dtype of x."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64)), dtype=x.dtype)


class Erf(Unary):
    """The error function."""

    name = "erf"

    def exact(self, x: Array) -> object:
        return erf_array(x)


# ----------------------------------------------------------------------------------------------- predicates


@dataclass(frozen=True)
class Predicate(Unary):
    """A bool for every element."""

    def result(self, x: DType) -> DType:
        return DType.bool


class Isnan(Predicate):
    """Is it not a number?"""

    name = "isnan"


class Isinf(Predicate):
    """Is it an infinity, of either sign?"""

    name = "isinf"


class Isfinite(Predicate):
    """Is it neither an infinity nor NaN?"""

    name = "isfinite"


class LogicalNot(Predicate):
    """True where x is false."""

    name = "logical_not"
    sampled = (DType.bool,)

    def check(self, ctx: InferContext, x: TensorType) -> None:
        want_bool(ctx, 0, x)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for t in shapes(DType.bool):
            yield Sample(cls(), (t,), SIZES, make=arrays(integers(0, 2), types=(t,)))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(), (tensor("f32", "n"),), "`logical_not` takes bool tensors; ")


class BitwiseNot(Unary):
    """All bits inverted; `logical_not` for bool."""

    name = "bitwise_not"

    def check(self, ctx: InferContext, x: TensorType) -> None:
        want_int(ctx, 0, x, or_bool=True)

    def formula(self, ctx: ElementContext, x: Expr) -> Expr:
        return apply("logical_not" if x.dtype.is_bool else "bitwise_not", x)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in (*INTS, DType.bool):
            t = tensor(dtype, "n", 7)
            draw = integers(0, 2) if dtype.is_bool else integers(-9, 9)
            yield Sample(cls(), (t,), SIZES, make=arrays(draw, types=(t,)))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(), (tensor("f32", "n"),), "`bitwise_not` takes integer or bool tensors; ")
