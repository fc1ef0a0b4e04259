"""Reductions that are made of others: variance, standard deviation, logsumexp and vector norms.

f16 and bf16 are computed in f32 and rounded once at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..build import Builder
from ..dims import Dim
from ..facts import InRange
from ..graph import Literal, Operand
from ..op import Array, CompositeOp, InferContext, Refused, Sample
from ..types import DType, TensorType, tensor
from ._common import (
    FLOATS,
    SIZES,
    arrays,
    count_of,
    cycled,
    exact,
    lowered,
    lowest,
    one,
    operand,
    product_of,
    raised,
    rounded,
    rtol,
    want_float,
)
from .reduce import Axis, normal, reduced, want_elements


@dataclass(frozen=True)
class CompositeReduction(CompositeOp):
    """`axis`, `keepdims` and the shape rule of a reduction of floating-point tensors."""

    family: ClassVar[str] = "reduce"

    axis: Axis = None
    keepdims: bool = False

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        want_float(ctx, 0, x)
        return TensorType(x.dtype, reduced(x.dims, ctx.axes(self.axis, x.rank), self.keepdims))

    def decompose(self, b: Builder, *operands: Operand) -> Operand:
        x, dtype = raised(b, operands[0])
        return lowered(b, self.build(b, x, normal(self.axis, b.type(x).rank)), dtype)

    def build(self, b: Builder, x: Operand, axes: tuple[int, ...]) -> Operand:
        """The reduction of x, f32 or f64, in that type."""
        raise NotImplementedError

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        with np.errstate(all="ignore"):
            return rounded(self.exact(exact(x), normal(self.axis, x.ndim)), DType.of(x.dtype))

    def exact(self, x: Array, axes: tuple[int, ...]) -> object:
        """The reduction in numpy, of f64."""
        raise NotImplementedError

    @classmethod
    def variants(cls) -> Iterable[CompositeReduction]:
        """The attribute values that samples use."""
        yield cls(axis=-1)
        yield cls(axis=(0, 2), keepdims=True)
        yield cls()

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for op in cls.variants():
            yield Sample(op, (tensor("f32", "m", 3, "n"),), SIZES, atol=1e-5)
        first = next(iter(cls.variants()))
        for dtype in FLOATS:
            yield Sample(first, (tensor(dtype, "n", "m"),), SIZES, rtol=rtol(dtype), atol=1e-5)
        t = tensor("f32", "n", 4)
        special = cycled(math.nan, 0.0, 1.0, 2.0, math.inf, 1.0, 0.0, 0.0, -math.inf, 1.0, 2.0, 3.0, -math.inf)
        yield Sample(first, (t,), SIZES, make=arrays(special, types=(t,)))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(), (tensor("i32", "n"),), f"`{cls.name}` takes floating-point tensors; x is i32[n]")
        yield Refused(cls(axis=1), (tensor("f32", "n"),), f"axis 1 of `{cls.name}` is out of range for rank 1")


@dataclass(frozen=True)
class Var(CompositeReduction):
    """The variance: the mean squared distance from the mean, the count lessened by `correction`.

    `correction=1` estimates the variance of what the elements were drawn from (torch's default); of no more elements
    than `correction` the result is NaN or infinite.
    """

    name: ClassVar[str] = "var"

    correction: float = 0.0

    def build(self, b: Builder, x: Operand, axes: tuple[int, ...]) -> Operand:
        distance = b.sub(x, b.mean(x, axis=axes, keepdims=True))
        total = b.sum(b.square(distance), axis=axes, keepdims=self.keepdims)
        count = count_of(b.type(x).dims, axes)
        if self.correction == int(self.correction):
            return one(b.div(total, Dim.max(count - int(self.correction), 0)))
        number = b.sub(b.cast(count, dtype=b.type(x).dtype), self.correction)
        return one(b.div(total, b.maximum(number, 0.0)))

    def exact(self, x: Array, axes: tuple[int, ...]) -> object:
        count = product_of(x.shape[a] for a in axes)
        distance = x - np.sum(x, axis=axes, keepdims=True) / np.float64(count)
        total = np.sum(distance * distance, axis=axes, keepdims=self.keepdims)
        return total / np.float64(max(count - self.correction, 0))

    @classmethod
    def variants(cls) -> Iterable[CompositeReduction]:
        yield from super().variants()
        yield cls(axis=-1, correction=1.0)
        yield cls(axis=0, correction=0.5)


@dataclass(frozen=True)
class Std(Var):
    """The standard deviation: the square root of `var`."""

    name: ClassVar[str] = "std"

    def build(self, b: Builder, x: Operand, axes: tuple[int, ...]) -> Operand:
        return one(b.sqrt(super().build(b, x, axes)))

    def exact(self, x: Array, axes: tuple[int, ...]) -> object:
        return np.sqrt(super().exact(x, axes))  # type: ignore[call-overload]


@dataclass(frozen=True)
class Logsumexp(CompositeReduction):
    """log(sum(exp(x))) without overflow; of no elements -inf."""

    name: ClassVar[str] = "logsumexp"

    def build(self, b: Builder, x: Operand, axes: tuple[int, ...]) -> Operand:
        dtype = b.type(x).dtype
        top = b.max(x, axis=axes, keepdims=True, initial=lowest(dtype))
        # An infinite maximum must not be subtracted: inf - inf is NaN where the answer is inf.
        top = b.where(b.isinf(top), 0.0, top)
        total = b.log(b.sum(b.exp(b.sub(x, top)), axis=axes, keepdims=True))
        result: Operand = b.add(total, top)
        if self.keepdims:
            return result
        return one(b.reshape(result, shape=reduced(b.type(x).dims, axes, False)))

    def exact(self, x: Array, axes: tuple[int, ...]) -> object:
        top = np.max(x, axis=axes, keepdims=True, initial=np.finfo(np.float64).min)
        top = np.where(np.isinf(top), 0.0, top)
        result = np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top
        return result if self.keepdims else np.squeeze(result, axis=axes)


@dataclass(frozen=True)
class Norm(CompositeReduction):
    """The vector norm of order `ord`: the sum of |x|^ord to the power 1/ord.

    inf is the largest |x| (of no elements 0), -inf the smallest, 0 the number of elements that are not 0.
    """

    name: ClassVar[str] = "norm"

    ord: float = 2.0

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        out = super().infer(ctx, *operands)
        x = operand(operands, 0)
        if self.ord == -math.inf:
            want_elements(ctx, x, ctx.axes(self.axis, x.rank))
        return out

    def build(self, b: Builder, x: Operand, axes: tuple[int, ...]) -> Operand:
        where = {"axis": axes, "keepdims": self.keepdims}
        if self.ord == 0:
            return one(b.sum(b.cast(b.ne(x, 0.0), dtype=b.type(x).dtype), **where))
        if self.ord == 2:
            return one(b.sqrt(b.sum(b.square(x), **where)))
        size = b.abs(x)
        if self.ord == 1:
            return one(b.sum(size, **where))
        if self.ord == math.inf:
            return one(b.max(size, initial=0.0, **where))
        if self.ord == -math.inf:
            return one(b.min(size, **where))
        return one(b.pow(b.sum(b.pow(size, Literal(float(self.ord))), **where), Literal(1.0 / self.ord)))

    def exact(self, x: Array, axes: tuple[int, ...]) -> object:
        size = np.abs(x)
        if self.ord == 0:
            return np.sum(x != 0, axis=axes, keepdims=self.keepdims)
        if self.ord == math.inf:
            return np.max(size, axis=axes, keepdims=self.keepdims, initial=0.0)
        if self.ord == -math.inf:
            return np.min(size, axis=axes, keepdims=self.keepdims)
        return np.sum(size**self.ord, axis=axes, keepdims=self.keepdims) ** (1.0 / self.ord)

    @classmethod
    def variants(cls) -> Iterable[CompositeReduction]:
        yield from super().variants()
        for order in (1.0, 2.0, 3.0, 2.5, 0.0, math.inf):
            yield cls(axis=1, ord=order)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from super().samples()
        sizes = tuple(b for b in SIZES if b["n"])
        yield Sample(cls(axis=1, ord=-math.inf), (tensor("f32", "m", "n"),), sizes, (InRange("n", 1),))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield from super().refused()
        yield Refused(
            cls(ord=-math.inf), (tensor("f32", "n"),), "`norm` of no elements has no value: axis 0 has size n"
        )
