"""softmax and log_softmax, in the form that does not overflow; f16 and bf16 in f32, rounded once at the end."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..build import Builder
from ..graph import Operand
from ..op import Array, CompositeOp, InferContext, Refused, Sample
from ..types import DType, TensorType, tensor
from ._common import (
    FLOATS,
    SIZES,
    arrays,
    cycled,
    exact,
    lowered,
    lowest,
    one,
    operand,
    raised,
    rounded,
    rtol,
    want_float,
)


@dataclass(frozen=True)
class SoftmaxBase(CompositeOp):
    """`axis` and what the two have in common: the distance to the largest element, and the sum of exponentials."""

    family: ClassVar[str] = "softmax"

    axis: int = -1

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        want_float(ctx, 0, x)
        ctx.axis(self.axis, x.rank)
        return x

    def decompose(self, b: Builder, *operands: Operand) -> Operand:
        x, dtype = raised(b, operands[0])
        # With an `initial`, rows may be empty.  A row of -inf keeps -inf as its distances, sums to 0, and gives NaN.
        top = b.max(x, axis=self.axis, keepdims=True, initial=lowest(dtype))
        return lowered(b, self.build(b, b.sub(x, top)), dtype)

    def build(self, b: Builder, distance: Operand) -> Operand:
        """The result from x - max(x)."""
        raise NotImplementedError

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        wide = exact(x)
        with np.errstate(all="ignore"):
            top = np.max(wide, axis=self.axis, keepdims=True, initial=np.finfo(np.float64).min)
            return rounded(self.exact(wide - top), DType.of(x.dtype))

    def exact(self, distance: Array) -> Array:
        raise NotImplementedError

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in FLOATS:
            yield Sample(cls(), (tensor(dtype, "n", "m"),), SIZES, rtol=rtol(dtype))
        yield Sample(cls(axis=0), (tensor("f32", "n", "m"),), SIZES)
        yield Sample(cls(axis=1), (tensor("f32", 2, "n", "m"),), SIZES)
        yield Sample(cls(), (tensor("f32", "n"),), SIZES)
        yield Sample(cls(), (tensor("f32", "m", 100),), SIZES)
        t = tensor("f32", "n", 3)
        inf = math.inf
        special = cycled(-inf, -inf, -inf, 1e30, -1e30, 0.0, -inf, 1.0, 2.0, math.nan, 0.0, 1.0, inf, 0.0, 1.0)
        yield Sample(cls(), (t,), SIZES, make=arrays(special, types=(t,)))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(axis=2), (tensor("f32", "n", 4),), f"axis 2 of `{cls.name}` is out of range for rank 2")
        yield Refused(cls(), (tensor("f32"),), f"axis -1 of `{cls.name}` is out of range for rank 0")
        yield Refused(cls(), (tensor("i32", "n"),), f"`{cls.name}` takes floating-point tensors; x is i32[n]")


@dataclass(frozen=True)
class Softmax(SoftmaxBase):
    """exp(x) divided by its sum along `axis`; NaN where a whole row is -inf, as in torch."""

    name: ClassVar[str] = "softmax"

    def build(self, b: Builder, distance: Operand) -> Operand:
        e = b.exp(distance)
        return one(b.div(e, b.sum(e, axis=self.axis, keepdims=True)))

    def exact(self, distance: Array) -> Array:
        e = np.exp(distance)
        return np.asarray(e / np.sum(e, axis=self.axis, keepdims=True))


@dataclass(frozen=True)
class LogSoftmax(SoftmaxBase):
    """log(softmax(x)), accurate where softmax is close to 0."""

    name: ClassVar[str] = "log_softmax"

    def build(self, b: Builder, distance: Operand) -> Operand:
        return one(b.sub(distance, b.log(b.sum(b.exp(distance), axis=self.axis, keepdims=True))))

    def exact(self, distance: Array) -> Array:
        return np.asarray(distance - np.log(np.sum(np.exp(distance), axis=self.axis, keepdims=True)))
