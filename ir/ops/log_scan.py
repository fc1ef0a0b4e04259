"""Running totals of numbers that are given by their logarithms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..loops import Expr
from ..op import Array, InferContext, KernelBuilder, Refused, Sample
from ..scalar import add, apply, const, select, sub
from ..types import DType, TensorType, tensor
from ._common import FLOATS, SIZES, arrays, cycled, operand, rtol, uniform, want_float
from .scan import Scan


@dataclass(frozen=True)
class Logcumsumexp(Scan):
    """log(exp(x[0]) + ... + exp(x[i])) along an axis, without overflow; from the end when `reverse`."""

    name: ClassVar[str] = "logcumsumexp"
    combiner: ClassVar[str] = "logaddexp"

    def initial(self, dtype: DType) -> bool | int | float:
        return -float("inf")

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        want_float(ctx, 0, operand(operands, 0))
        return super().infer(ctx, *operands)

    def combine(self, k: KernelBuilder, total: Expr, value: Expr) -> Expr:
        """The larger one, and what the smaller adds; two equal infinities have no difference."""
        larger = k.let(apply("maximum", total, value))
        gap = sub(apply("minimum", total, value), larger)
        apart = apply("ne", total, value)
        return select(
            apply("logical_or", apart, apply("isfinite", larger)),
            add(larger, apply("log1p", apply("exp", select(apart, gap, const(0.0, larger.dtype))))),
            larger,
        )

    def accumulated(self, x: Array) -> Array:
        return np.logaddexp.accumulate(x, self.axis)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in FLOATS:
            t = tensor(dtype, "n", "m")
            for axis in (0, 1):
                yield Sample(cls(axis), (t,), SIZES, make=arrays(uniform(-3, 3), types=(t,)), rtol=rtol(dtype))
        for op in cls.variants():
            t = tensor("f32", "n", 3, "m")
            yield Sample(op, (t,), SIZES, make=arrays(uniform(-90, 90), types=(t,)), atol=1e-5)
        inf = float("inf")
        for values in ((-inf, -inf, 1.0, 200.0, -inf, inf, 3.0, inf, -inf), (1.0, inf, -inf, float("nan"), 2.0)):
            special = tensor("f32", len(values))
            yield Sample(cls(0), (special,), make=arrays(cycled(*values), types=(special,)))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(1), (tensor("f32", "n"),), "axis 1 of `logcumsumexp` is out of range for rank 1")
        yield Refused(cls(0), (tensor("i32", "n"),), "`logcumsumexp` takes")
