"""Transposed convolution over 1 to 3 spatial axes: the gradient of a convolution with respect to its input."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..build import Builder
from ..dims import Dim
from ..graph import Operand
from ..loops import Expr
from ..op import Array, CompositeOp, Contraction, ContractOp, ElementContext, InferContext, Input, Refused, Sample
from ..scalar import add, apply, both, const, index, mul, select, sub
from ..types import DType, TensorType, tensor
from ._common import FLOATS, SIZES, exact, given, operand, optional, rounded, rtol
from ._window import PerAxis, Window, pads, per_axis, want_not_negative, want_per_axis
from .conv import ConvAttributes, want_bias, want_groups, with_bias


@dataclass(frozen=True)
class TransposeAttributes(ConvAttributes):
    """`output_padding` more elements at the end of each axis, which tell apart the sizes a stride maps to one."""

    output_padding: PerAxis = 0

    def output(self, window: Window, more: int) -> Dim:
        """The output size along an axis."""
        return (window.size - 1) * window.stride - window.before - window.after + window.extent + more

    def shape(self, ctx: InferContext, x: TensorType, w: TensorType) -> tuple[Dim, ...]:
        """[batch, output channels, spatial...], all checked."""
        windows = self.checked(ctx, x, w)
        more = want_per_axis(ctx, "output_padding", self.output_padding, len(windows), 0)
        want_groups(ctx, x.dims[1], self.groups, "input")
        ctx.require_equal(x.dims[1], w.dims[0], f"the input channels of `{ctx.op_name}`")
        sizes = []
        for i, (window, extra) in enumerate(zip(windows, more, strict=True)):
            ctx.require(
                extra < max(window.stride, window.dilation),
                f"`output_padding` of `{ctx.op_name}` must be smaller than the stride or the dilation, not {extra}",
            )
            size = self.output(window, extra)
            want_not_negative(ctx, i + 2, size, size - 1, 1, f"for an input of {window.size}")
            sizes.append(size)
        return (x.dims[0], w.dims[1] * self.groups, *sizes)


def transpose_array(attributes: TransposeAttributes, x: Array, w: Array) -> Array:
    """The transposed convolution in numpy: one product a tap, added where the tap puts it."""
    rank, groups = x.ndim - 2, attributes.groups
    strides, dilations = per_axis(attributes.stride, rank), per_axis(attributes.dilation, rank)
    extra, padding = per_axis(attributes.output_padding, rank), pads(attributes.padding, rank)
    axes = list(zip(x.shape[2:], w.shape[2:], strides, dilations, extra, padding, strict=True))
    # All of it first, the padding cut off afterwards; an empty input adds nothing anywhere.
    sizes = [max((n - 1) * s + d * (k - 1) + 1 + e, sum(p)) for n, k, s, d, e, p in axes]
    full = np.zeros((x.shape[0], groups, w.shape[1], *sizes), x.dtype)
    channels = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    weight = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    for taps in np.ndindex(*w.shape[2:]):
        if not x.size:
            break
        at: list[Any] = [
            slice(k * d, k * d + (n - 1) * s + 1, s) for k, (n, _, s, d, _, _) in zip(taps, axes, strict=True)
        ]
        full[(..., *at)] += np.einsum("gco,ngc...->ngo...", weight[(..., *taps)], channels)
    cut: list[Any] = [slice(p[0], size - p[1]) for size, (*_, p) in zip(sizes, axes, strict=True)]
    return full[(..., *cut)].reshape(x.shape[0], groups * w.shape[1], *(c.stop - c.start for c in cut))


@dataclass(frozen=True)
class ConvTransposeCore(TransposeAttributes, ContractOp):
    """`conv_transpose` without bias; its result is [batch, groups, output channels of a group, spatial...] when there
    are groups.  An output position sums the taps whose input position is a whole number of strides away."""

    name: ClassVar[str] = "conv_transpose_core"
    family: ClassVar[str] = "conv"
    signature: ClassVar[tuple[str, ...]] = ("x", "weight")

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, w = operand(operands, 0), operand(operands, 1)
        n, _, *spatial = self.shape(ctx, x, w)
        channels = (w.dims[1],) if self.groups == 1 else (Dim.of(self.groups), w.dims[1])
        return TensorType(x.dtype, (n, *channels, *spatial))

    def contraction(self, out: TensorType, *operands: TensorType) -> Contraction:
        x, w = operands
        first = out.rank - (x.rank - 2)
        batch = (0, *((1,) if self.groups > 1 else ()), *range(first, out.rank - 1))
        order = (*batch, first - 1, out.rank - 1)
        return Contraction(
            batch=tuple(out.dims[i] for i in batch),
            rows=(out.dims[first - 1],),
            cols=(out.dims[-1],),
            inner=(x.dims[1] // self.groups, *w.dims[2:]),
            out_order=tuple(order.index(i) for i in range(out.rank)),
            accumulator=out.dtype.compute,
        )

    def _channel(self, b: tuple[Expr, ...], within: Expr, channels: Dim) -> Expr:
        return within if self.groups == 1 else add(mul(b[1], index(channels // self.groups)), within)

    def lhs(
        self, ctx: ElementContext, b: tuple[Expr, ...], m: tuple[Expr, ...], k: tuple[Expr, ...], *inputs: Input
    ) -> Expr:
        w = inputs[1]
        return w(self._channel(b, k[0], w.type.dims[0]), m[0], *k[1:])

    def rhs(
        self, ctx: ElementContext, b: tuple[Expr, ...], k: tuple[Expr, ...], n: tuple[Expr, ...], *inputs: Input
    ) -> Expr:
        x, w = inputs
        at = (*b[1 if self.groups == 1 else 2 :], *n)
        positions, conditions = [], []
        for window, out, tap in zip(self.windows(x.type, w.type), at, k[1:], strict=True):
            reached = sub(add(out, index(window.before)), mul(tap, index(window.dilation)))
            position = reached
            if window.stride > 1:
                position = apply("floordiv", reached, index(window.stride))
                conditions.append(apply("eq", mul(position, index(window.stride)), reached))
            conditions += [apply("ge", reached, index(0)), apply("lt", position, index(window.size))]
            positions.append(position)
        channel = self._channel(b, k[0], x.type.dims[1])
        return select(both(*conditions), x(b[0], channel, *positions), const(0, x.type.dtype))

    def reference(self, *operands: Array | None) -> Array:
        x, w = operand(operands, 0), operand(operands, 1)
        with np.errstate(all="ignore"):
            out = transpose_array(self, exact(x), exact(w))
        if self.groups > 1:
            out = out.reshape(out.shape[0], self.groups, w.shape[1], *out.shape[2:])
        return rounded(out, DType.of(x.dtype))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for attributes, x, w in CASES:
            types = (tensor("f32", *x), tensor("f32", *w))
            yield Sample(cls(**attributes), types, _SIZES, atol=1e-4)  # type: ignore[arg-type]

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield from refusals(cls)


@dataclass(frozen=True)
class ConvTranspose(TransposeAttributes, CompositeOp):
    """Transposed convolution over 1 to 3 spatial axes.

    x: [batch, channels, spatial...], weight: [channels, out / groups, kernel...], bias: [out] give [batch, out,
    (size - 1) * stride - padding + dilation * (kernel - 1) + 1 + output_padding ...]; attributes as of `conv`.
    """

    name: ClassVar[str] = "conv_transpose"
    family: ClassVar[str] = "conv"
    signature: ClassVar[tuple[str, ...]] = ("x", "weight", "bias?")

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, w = operand(operands, 0), operand(operands, 1)
        shape = self.shape(ctx, x, w)
        want_bias(ctx, optional(operands, 2), x, shape[1])
        return TensorType(x.dtype, shape)

    def decompose(self, b: Builder, *operands: Operand) -> Operand:
        x, w = operands[:2]
        out = b.conv_transpose_core(
            x,
            w,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
            output_padding=self.output_padding,
        )
        first = b.type(out).rank - (b.type(x).rank - 2)
        channels = b.type(w).dims[1] * self.groups
        dims = (b.type(x).dims[0], channels, *b.type(out).dims[first:])
        return with_bias(b, out, given(operands, 2), dims)

    def reference(self, *operands: Array | None) -> Array:
        x, w, bias = operand(operands, 0), operand(operands, 1), optional(operands, 2)
        with np.errstate(all="ignore"):
            out = transpose_array(self, exact(x), exact(w))
            if bias is not None:
                out = out + exact(bias).reshape(-1, *([1] * (x.ndim - 2)))
            return rounded(out, DType.of(x.dtype))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for attributes, x, w in CASES:
            op = cls(**attributes)  # type: ignore[arg-type]
            types = (tensor("f32", *x), tensor("f32", *w), tensor("f32", Dim.of(w[1]) * op.groups))
            yield Sample(op, types, _SIZES, atol=1e-4)
        for dtype in FLOATS:
            pair = (tensor(dtype, "m", 3, "n"), tensor(dtype, 3, 5, 3))
            yield Sample(cls(stride=2), pair, SIZES, rtol=rtol(dtype), atol=1e-4)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield from refusals(cls)
        x, w = tensor("f32", 2, 4, 8), tensor("f32", 4, 6, 3)
        message = "the sizes of the bias and the output channels of `conv_transpose` do not match: 5 against 6"
        yield Refused(cls(), (x, w, tensor("f32", 5)), message)


_SIZES = ({"n": 0, "m": 1}, {"n": 1, "m": 0}, {"n": 4, "m": 2}, {"n": 11, "m": 1})
CASES: tuple[tuple[dict[str, object], tuple[str | int, ...], tuple[str | int, ...]], ...] = (
    ({}, ("m", 3, "n", 5), (3, 4, 3, 3)),
    ({"stride": 2, "output_padding": 1, "padding": 1}, ("m", 2, 6, "n"), (2, 5, 3, 4)),
    ({"stride": (3, 1), "padding": ((0, 1), (1, 0)), "dilation": (1, 2)}, (1, 2, "n", 7), (2, 3, 4, 2)),
    ({"groups": 2, "stride": 2}, ("m", 4, "n", 3), (4, 3, 2, 3)),
    ({"stride": 4, "padding": 1}, ("m", 3, "n"), (3, 4, 6)),
    ({"stride": 2}, (1, 2, 2, "n", 3), (2, 3, 2, 2, 3)),
)


def refusals(cls: type[ConvTransposeCore] | type[ConvTranspose]) -> Iterable[Refused]:
    """What no form of transposed convolution takes."""
    name = f"`{cls.name}`"
    x, w = tensor("f32", 2, 4, 8), tensor("f32", 4, 6, 3)
    yield Refused(cls(), (x, tensor("f32", 3, 6, 3)), f"the input channels of {name} do not match: 4 against 3")
    yield Refused(cls(groups=3), (x, w), f"{name} cannot divide 4 input channels into 3 equal groups")
    yield Refused(cls(output_padding=1), (x, w), f"`output_padding` of {name} must be smaller than the stride")
    yield Refused(cls(stride=0), (x, w), f"`stride` of {name} must be at least 1, not 0")
    yield Refused(cls(), (tensor("i32", 2, 4, 8), tensor("i32", 4, 6, 3)), f"{name} takes floating-point tensors; x is")
    long = (tensor("f32", 2, 4, "n"), tensor("f32", 4, 6, 1))
    yield Refused(cls(stride=2), long, f"the output of {name} may have a negative size along axis 2: 2*n - 1")
