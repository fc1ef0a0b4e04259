"""Pointwise activation functions; f16 and bf16 are computed in f32 throughout and rounded once at the end."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..loops import Expr
from ..op import Array, ElementContext
from ..scalar import apply, const, select
from ._common import limited
from ._pointwise import NumberUnary, Unary


def sigmoid_array(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow on either side."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


class Sigmoid(Unary):
    """1 / (1 + exp(-x))."""

    name = "sigmoid"

    def exact(self, x: Array) -> object:
        return sigmoid_array(x)


class Relu(NumberUnary):
    """0 where x is below 0, else x: -0.0 and NaN stay."""

    name = "relu"

    def exact(self, x: Array) -> object:
        return np.where(x < 0, x.dtype.type(0), x)


class Gelu(Unary):
    """x times the normal distribution function: x * (1 + erf(x / sqrt(2))) / 2; 0 at -inf."""

    name = "gelu"

    def exact(self, x: Array) -> object:
        # 1 + erf(-y) is erfc(y), which is exact in the tail, where the sum has no digits left.
        wide = x.astype(np.float64)
        tail = np.vectorize(math.erfc, otypes=[np.float64])(wide * -math.sqrt(0.5))
        return np.where(wide == -np.inf, 0.0, 0.5 * wide * tail)


class GeluTanh(Unary):
    """The tanh approximation of gelu: x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) / 2; 0 at -inf."""

    name = "gelu_tanh"

    def exact(self, x: Array) -> object:
        # (1 + tanh(y)) / 2 is sigmoid(2 y), which is exact in the tail.
        wide = x.astype(np.float64)
        inner = math.sqrt(8 / math.pi) * wide * (1 + 0.044715 * wide * wide)
        return np.where(wide == -np.inf, 0.0, wide * sigmoid_array(inner))


class Silu(Unary):
    """x * sigmoid(x)."""

    name = "silu"

    def formula(self, ctx: ElementContext, x: Expr) -> Expr:
        x = ctx.let(x)
        return apply("mul", x, apply("sigmoid", x))

    def exact(self, x: Array) -> object:
        return x * sigmoid_array(x)


@dataclass(frozen=True)
class Softplus(Unary):
    """log(1 + exp(beta * x)) / beta, without overflow."""

    name: ClassVar[str] = "softplus"
    beta: float = 1.0

    def formula(self, ctx: ElementContext, x: Expr) -> Expr:
        if self.beta == 1.0:
            return apply("softplus", x)
        beta = const(self.beta, x.dtype)
        return apply("div", apply("softplus", apply("mul", x, beta)), beta)

    def exact(self, x: Array) -> object:
        scaled = x * x.dtype.type(self.beta)
        return (np.maximum(scaled, 0) + np.log1p(np.exp(-np.abs(scaled)))) / x.dtype.type(self.beta)

    @classmethod
    def variants(cls) -> Iterable[Unary]:
        yield cls()
        yield cls(beta=2.5)


@dataclass(frozen=True)
class Elu(Unary):
    """x where positive, else alpha * (exp(x) - 1)."""

    name: ClassVar[str] = "elu"
    alpha: float = 1.0

    def formula(self, ctx: ElementContext, x: Expr) -> Expr:
        x = ctx.let(x)
        low = apply("mul", const(self.alpha, x.dtype), apply("expm1", x))
        return select(apply("gt", x, const(0.0, x.dtype)), x, low)

    def exact(self, x: Array) -> object:
        return np.where(x > 0, x, x.dtype.type(self.alpha) * np.expm1(x))

    @classmethod
    def variants(cls) -> Iterable[Unary]:
        yield cls()
        yield cls(alpha=0.7)


@dataclass(frozen=True)
class LeakyRelu(Unary):
    """x where positive, else negative_slope * x."""

    name: ClassVar[str] = "leaky_relu"
    negative_slope: float = 0.01

    def formula(self, ctx: ElementContext, x: Expr) -> Expr:
        x = ctx.let(x)
        low = apply("mul", x, const(self.negative_slope, x.dtype))
        return select(apply("gt", x, const(0.0, x.dtype)), x, low)

    def exact(self, x: Array) -> object:
        return np.where(x > 0, x, x * x.dtype.type(self.negative_slope))

    @classmethod
    def variants(cls) -> Iterable[Unary]:
        yield cls()
        yield cls(negative_slope=0.2)


def _clamped(x: Expr, low: float, high: float) -> Expr:
    return apply("clamp_max", apply("clamp_min", x, const(low, x.dtype)), const(high, x.dtype))


@dataclass(frozen=True)
class Hardtanh(Unary):
    """x limited to [min_val, max_val]; a limit that equals x leaves it (-0.0 stays), and NaN stays NaN."""

    name: ClassVar[str] = "hardtanh"
    min_val: float = -1.0
    max_val: float = 1.0

    def formula(self, ctx: ElementContext, x: Expr) -> Expr:
        return _clamped(x, self.min_val, self.max_val)

    def exact(self, x: Array) -> object:
        return limited(x, self.min_val, self.max_val)

    @classmethod
    def variants(cls) -> Iterable[Unary]:
        yield cls()
        yield cls(min_val=0.0, max_val=6.0)


class Hardsigmoid(Unary):
    """x / 6 + 1/2 limited to [0, 1]."""

    name = "hardsigmoid"

    def formula(self, ctx: ElementContext, x: Expr) -> Expr:
        shifted = apply("add", x, const(3.0, x.dtype))
        return apply("div", _clamped(shifted, 0.0, 6.0), const(6.0, x.dtype))

    def exact(self, x: Array) -> object:
        return limited(x + x.dtype.type(3), 0.0, 6.0) / x.dtype.type(6)


class Hardswish(Unary):
    """x * hardsigmoid(x)."""

    name = "hardswish"

    def formula(self, ctx: ElementContext, x: Expr) -> Expr:
        x = ctx.let(x)
        shifted = apply("add", x, const(3.0, x.dtype))
        return apply("div", apply("mul", x, _clamped(shifted, 0.0, 6.0)), const(6.0, x.dtype))

    def exact(self, x: Array) -> object:
        return x * limited(x + x.dtype.type(3), 0.0, 6.0) / x.dtype.type(6)
