"""Normalisation: layer, RMS, group and (inference) batch norm.

f16 and bf16 are computed in f32 and rounded once at the end.  Scales and shifts are optional and have the dtype of x.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..build import Builder
from ..dims import Dim
from ..facts import Compare
from ..graph import Operand
from ..op import Array, CompositeOp, InferContext, Refused, Sample
from ..types import DType, TensorType, tensor
from ._common import (
    FLOATS,
    SIZES,
    arrays,
    exact,
    given,
    lowered,
    one,
    operand,
    optional,
    raised,
    rounded,
    rtol,
    uniform,
    want_float,
)
from .reduce import normal


@dataclass(frozen=True)
class Normalisation(CompositeOp):
    """What they share: dtype and shape checks of the per-feature operands, and their application."""

    family: ClassVar[str] = "norm"

    def check(self, ctx: InferContext, operands: Sequence[TensorType | None], features: tuple[Dim, ...]) -> TensorType:
        """x, once every other operand is known to have the shape `features`."""
        x = operand(operands, 0)
        want_float(ctx, 0, x)
        ctx.same_dtype(*(t if t is not None else x for t in operands))
        for i, t in enumerate(operands):
            if i and t is not None:
                shown = f"[{', '.join(map(str, features))}]"
                what = f"`{self.name}` takes {self.signature[i].rstrip('?')} of shape {shown}; {ctx.name(i)} is {t}"
                ctx.require(t.rank == len(features), what)
                for a, b in zip(t.dims, features, strict=True):
                    ctx.require_equal(a, b, f"the sizes of {ctx.name(i)} and {ctx.name(0)} in `{self.name}`")
        return x

    def apply(
        self, b: Builder, x: Operand, axes: Sequence[int], weight: Operand | None, bias: Operand | None
    ) -> Operand:
        """x * weight + bias, both laid along `axes` of x."""
        if weight is not None:
            x = b.mul(x, self.along(b, weight, b.type(x), axes))
        if bias is not None:
            x = b.add(x, self.along(b, bias, b.type(x), axes))
        return x

    def along(self, b: Builder, value: Operand, x: TensorType, axes: Sequence[int]) -> Operand:
        """A per-feature operand, shaped to broadcast along `axes` of x, in the type of computation."""
        value, _ = raised(b, value)
        if tuple(axes) == tuple(range(x.rank - len(axes), x.rank)):
            return value
        first = min(axes, default=x.rank)
        shape = tuple(x.dims[i] if i in axes else Dim.of(1) for i in range(first, x.rank))
        return one(b.reshape(value, shape=shape))


def spread(value: Array | None, rank: int, axes: Sequence[int]) -> Array | None:
    """A per-feature array in f64, shaped to broadcast along `axes`."""
    if value is None:
        return None
    sizes = iter(value.shape)
    return exact(value).reshape([next(sizes) if i in axes else 1 for i in range(rank)])


def scaled(x: Array, weight: Array | None, bias: Array | None) -> Array:
    out = x if weight is None else x * weight
    return out if bias is None else out + bias


@dataclass(frozen=True)
class LayerNorm(Normalisation):
    """(x - mean) / sqrt(variance + eps) over `axis`, times weight, plus bias.

    weight and bias have the sizes of x along `axis` (one axis or several), in their order.
    """

    name: ClassVar[str] = "layer_norm"
    signature: ClassVar[tuple[str, ...]] = ("x", "weight?", "bias?")

    axis: tuple[int, ...] | int = -1
    eps: float = 1e-5

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        return self.check(ctx, operands, tuple(x.dims[a] for a in ctx.axes(self.axis, x.rank)))

    def decompose(self, b: Builder, *operands: Operand) -> Operand:
        x, dtype = raised(b, operands[0])
        axes = normal(self.axis, b.type(x).rank)
        out = standardised(b, x, axes, self.eps)
        return lowered(b, self.apply(b, out, axes, given(operands, 1), given(operands, 2)), dtype)

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        axes = normal(self.axis, x.ndim)
        weight, bias = (spread(optional(operands, i), x.ndim, axes) for i in (1, 2))
        with np.errstate(all="ignore"):
            return rounded(scaled(standardised_array(exact(x), axes, self.eps), weight, bias), DType.of(x.dtype))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in FLOATS:
            x, m = tensor(dtype, "n", "m"), tensor(dtype, "m")
            yield Sample(cls(), (x, m, m), SIZES, rtol=rtol(dtype), atol=2e-5)
        x = tensor("f32", "n", 6, "m")
        yield Sample(cls(), (x,), SIZES, atol=2e-5)
        yield Sample(cls(axis=(-2, -1), eps=1e-3), (x, tensor("f32", 6, "m"), None), SIZES, atol=2e-5)
        yield Sample(cls(axis=1), (x, None, tensor("f32", 6)), SIZES, atol=2e-5)
        yield Sample(cls(axis=(0, 2)), (x, tensor("f32", "n", "m")), SIZES, atol=2e-5)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n", 8)
        yield Refused(cls(), (x, tensor("f32", 7)), "the sizes of y and x in `layer_norm` do not match: 7 against 8")
        yield Refused(cls(), (x, tensor("f32", 1, 8)), "`layer_norm` takes weight of shape [8]; y is f32[1, 8]")
        yield Refused(cls(), (x, tensor("f16", 8)), "the dtypes of `layer_norm` do not match: f32 against f16")
        yield Refused(cls(axis=2), (x,), "axis 2 of `layer_norm` is out of range for rank 2")
        yield Refused(cls(), (tensor("i32", "n"),), "`layer_norm` takes floating-point tensors; x is i32[n]")


def standardised(b: Builder, x: Operand, axes: tuple[int, ...], eps: float) -> Operand:
    """(x - mean) / sqrt(variance + eps)."""
    distance = b.sub(x, b.mean(x, axis=axes, keepdims=True))
    variance = b.mean(b.square(distance), axis=axes, keepdims=True)
    return one(b.mul(distance, b.rsqrt(b.add(variance, eps))))


def standardised_array(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    if x.size == 0:
        return x
    distance = x - np.mean(x, axis=axes, keepdims=True)
    return np.asarray(distance / np.sqrt(np.mean(distance * distance, axis=axes, keepdims=True) + eps))


@dataclass(frozen=True)
class RmsNorm(Normalisation):
    """x / sqrt(mean(x^2) + eps) over `axis`, times weight, which has the sizes of x along `axis`."""

    name: ClassVar[str] = "rms_norm"
    signature: ClassVar[tuple[str, ...]] = ("x", "weight?")

    axis: tuple[int, ...] | int = -1
    eps: float = 1e-6

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        return self.check(ctx, operands, tuple(x.dims[a] for a in ctx.axes(self.axis, x.rank)))

    def decompose(self, b: Builder, *operands: Operand) -> Operand:
        x, dtype = raised(b, operands[0])
        axes = normal(self.axis, b.type(x).rank)
        power = b.mean(b.square(x), axis=axes, keepdims=True)
        out = b.mul(x, b.rsqrt(b.add(power, self.eps)))
        return lowered(b, self.apply(b, out, axes, given(operands, 1), None), dtype)

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        axes, wide = normal(self.axis, x.ndim), exact(x)
        with np.errstate(all="ignore"):
            if x.size:
                wide = wide / np.sqrt(np.mean(wide * wide, axis=axes, keepdims=True) + self.eps)
            return rounded(scaled(wide, spread(optional(operands, 1), x.ndim, axes), None), DType.of(x.dtype))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in FLOATS:
            yield Sample(cls(), (tensor(dtype, "n", "m"), tensor(dtype, "m")), SIZES, rtol=rtol(dtype), atol=1e-5)
        x = tensor("f32", "n", 6, "m")
        yield Sample(cls(eps=1e-3), (x,), SIZES, atol=1e-5)
        yield Sample(cls(axis=(1, 2)), (x, tensor("f32", 6, "m")), SIZES, atol=1e-5)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n", 8)
        yield Refused(cls(), (x, tensor("f32", 7)), "the sizes of y and x in `rms_norm` do not match: 7 against 8")
        yield Refused(cls(), (tensor("bool", "n"),), "`rms_norm` takes floating-point tensors; x is bool[n]")


def want_channels(ctx: InferContext, x: TensorType) -> Dim:
    """The size of axis 1, which holds the channels."""
    ctx.require(
        x.rank >= 2, f"`{ctx.op_name}` takes tensors [batch, channels, ...]; {ctx.name(0)} is {x}", help="add an axis"
    )
    return x.dims[1]


@dataclass(frozen=True)
class GroupNorm(Normalisation):
    """Of x [n, channels, ...], each of `groups` equal groups of channels standardised for itself; then weight and bias
    [channels]."""

    name: ClassVar[str] = "group_norm"
    signature: ClassVar[tuple[str, ...]] = ("x", "weight?", "bias?")

    groups: int
    eps: float = 1e-5

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        channels = want_channels(ctx, operand(operands, 0))
        ctx.require(self.groups > 0, f"`groups` of `group_norm` must be positive, not {self.groups}")
        if not (ctx.trusted or ctx.facts.prove_divisible(channels, self.groups)):
            raise ctx.fail(
                f"`group_norm` cannot divide {channels} channels into {self.groups} equal groups",
                help=ctx.advice(Compare("==", channels % self.groups, 0)),
                symbols=channels.symbols,
                wanted=(Compare("==", channels % self.groups, 0),),
            )
        return self.check(ctx, operands, (channels,))

    def decompose(self, b: Builder, *operands: Operand) -> Operand:
        x, dtype = raised(b, operands[0])
        dims = b.type(x).dims
        grouped = b.reshape(x, shape=(dims[0], Dim.of(self.groups), dims[1] // self.groups, *dims[2:]))
        out = standardised(b, grouped, tuple(range(2, len(dims) + 1)), self.eps)
        out = b.reshape(out, shape=dims)
        return lowered(b, self.apply(b, out, (1,), given(operands, 1), given(operands, 2)), dtype)

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        grouped = exact(x).reshape(x.shape[0], self.groups, x.shape[1] // self.groups, *x.shape[2:])
        weight, bias = (spread(optional(operands, i), x.ndim, (1,)) for i in (1, 2))
        with np.errstate(all="ignore"):
            out = standardised_array(grouped, tuple(range(2, grouped.ndim)), self.eps).reshape(x.shape)
            return rounded(scaled(out, weight, bias), DType.of(x.dtype))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in FLOATS:
            c = tensor(dtype, 6)
            yield Sample(cls(3), (tensor(dtype, "n", 6, "m"), c, c), SIZES, rtol=rtol(dtype), atol=2e-5)
        facts = (Compare("==", Dim.of("m") % 2, 0),)
        x, c = tensor("f32", "n", "m", 3, 2), tensor("f32", "m")
        sizes = ({"n": 0, "m": 2}, {"n": 1, "m": 0}, {"n": 3, "m": 4}, {"n": 2, "m": 10})
        yield Sample(cls(2), (x, c, c), sizes, facts, atol=2e-5)
        yield Sample(cls(1), (tensor("f32", "n", "m"),), SIZES, atol=2e-5)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(3), (tensor("f32", "n", 8, 2),), "`group_norm` cannot divide 8 channels into 3 equal groups")
        yield Refused(cls(2), (tensor("f32", "n", "c"),), "`group_norm` cannot divide c channels into 2 equal groups")
        yield Refused(cls(0), (tensor("f32", "n", 8),), "`groups` of `group_norm` must be positive, not 0")
        yield Refused(cls(2), (tensor("f32", 8),), "`group_norm` takes tensors [batch, channels, ...]; x is f32[8]")


@dataclass(frozen=True)
class BatchNorm(Normalisation):
    """Of x [n, channels, ...]: (x - mean) / sqrt(var + eps) * weight + bias, each of them [channels], with the mean and
    variance that training has collected (inference only)."""

    name: ClassVar[str] = "batch_norm"
    signature: ClassVar[tuple[str, ...]] = ("x", "mean", "var", "weight?", "bias?")

    eps: float = 1e-5

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        return self.check(ctx, operands, (want_channels(ctx, operand(operands, 0)),))

    def decompose(self, b: Builder, *operands: Operand) -> Operand:
        x, dtype = raised(b, operands[0])
        mean = self.along(b, operands[1], b.type(x), (1,))
        factor = b.rsqrt(b.add(self.along(b, operands[2], b.type(x), (1,)), self.eps))
        out = b.mul(b.sub(x, mean), factor)
        return lowered(b, self.apply(b, out, (1,), given(operands, 3), given(operands, 4)), dtype)

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        mean, var, weight, bias = (spread(optional(operands, i), x.ndim, (1,)) for i in range(1, 5))
        assert mean is not None
        assert var is not None
        with np.errstate(all="ignore"):
            out = (exact(x) - mean) / np.sqrt(var + self.eps)
            return rounded(scaled(out, weight, bias), DType.of(x.dtype))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in FLOATS:
            c = tensor(dtype, 3)
            types = (tensor(dtype, "n", 3, "m"), c, c, c, c)
            make = arrays(*(uniform(0.5, 2.0),) * 5, types=types)
            yield Sample(cls(), types, SIZES, make=make, rtol=rtol(dtype), atol=1e-5)
        c = tensor("f32", "m")
        short = (tensor("f32", "n", "m"), c, c)
        yield Sample(cls(eps=1e-3), short, SIZES, make=arrays(*(uniform(0.5, 2.0),) * 3, types=short), atol=1e-5)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x, c = tensor("f32", "n", 3), tensor("f32", 3)
        yield Refused(cls(), (x, c), "`batch_norm` takes (x, mean, var, weight?, bias?), 2 operands given")
        yield Refused(cls(), (x, c, tensor("f32", 4)), "the sizes of z and x in `batch_norm` do not match: 4 against 3")
        yield Refused(cls(), (c, c, c), "`batch_norm` takes tensors [batch, channels, ...]; x is f32[3]")
