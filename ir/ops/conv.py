"""Convolution over 1 to 3 spatial axes.

`conv` is the product `conv_core` (or `conv_depthwise`, where every group has one input channel) plus the bias.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..build import Builder
from ..dims import Dim
from ..facts import Compare, InRange
from ..graph import Operand
from ..loops import Expr
from ..op import (
    Array,
    CompositeOp,
    Contraction,
    ContractOp,
    ElementContext,
    ElementOp,
    InferContext,
    Input,
    Refused,
    Sample,
)
from ..scalar import add, apply, both, cast, const, index, mul, select
from ..types import DType, TensorType, tensor
from ._common import FLOATS, SIZES, exact, given, one, operand, optional, rounded, rtol, want_float
from ._window import (
    Padding,
    PerAxis,
    Window,
    pads,
    per_axis,
    want_not_negative,
    want_pads,
    want_per_axis,
    want_spatial,
)


@dataclass(frozen=True)
class ConvAttributes:
    """What all forms of convolution have in common."""

    stride: PerAxis = 1
    padding: Padding = 0
    dilation: PerAxis = 1
    groups: int = 1

    def windows(self, x: TensorType, w: TensorType) -> tuple[Window, ...]:
        """The spatial axes."""
        rank = x.rank - 2
        strides, dilations = per_axis(self.stride, rank), per_axis(self.dilation, rank)
        return tuple(
            Window(size, kernel, s, d, *p)
            for size, kernel, s, d, p in zip(
                x.dims[2:], w.dims[2:], strides, dilations, pads(self.padding, rank), strict=True
            )
        )

    def checked(self, ctx: InferContext, x: TensorType, w: TensorType) -> tuple[Window, ...]:
        """The spatial axes, once the attributes and the ranks are known to be right."""
        want_float(ctx, 0, x)
        ctx.same_dtype(x, w)
        rank = want_spatial(ctx, x)
        ctx.require(
            w.rank == x.rank,
            f"the weight of `{ctx.op_name}` must have as many axes as its input; {ctx.name(0)} is {x}, "
            f"{ctx.name(1)} is {w}",
        )
        want_per_axis(ctx, "stride", self.stride, rank, 1)
        want_per_axis(ctx, "dilation", self.dilation, rank, 1)
        want_pads(ctx, self.padding, rank)
        ctx.require(self.groups > 0, f"`groups` of `{ctx.op_name}` must be positive, not {self.groups}")
        for axis, size in enumerate(w.dims[2:]):
            if not ctx.holds(Compare("<", 0, size)):
                raise ctx.fail(
                    f"the kernel of `{ctx.op_name}` may be empty: axis {axis + 2} of {ctx.name(1)} has size {size}",
                    help=ctx.advice(InRange(size, 1)),
                    symbols=size.symbols,
                    wanted=(InRange(size, 1),),
                )
        return self.windows(x, w)


def want_groups(ctx: InferContext, channels: Dim, groups: int, which: str) -> None:
    """Refuses channels that are not known to be a multiple of `groups`."""
    if not (ctx.trusted or ctx.facts.prove_divisible(channels, groups)):
        raise ctx.fail(
            f"`{ctx.op_name}` cannot divide {channels} {which} channels into {groups} equal groups",
            help=ctx.advice(Compare("==", channels % groups, 0)),
            symbols=channels.symbols,
            wanted=(Compare("==", channels % groups, 0),),
        )


def conv_shape(ctx: InferContext, attributes: ConvAttributes, x: TensorType, w: TensorType) -> tuple[Dim, ...]:
    """[batch, output channels, spatial...], all checked."""
    windows = attributes.checked(ctx, x, w)
    want_groups(ctx, w.dims[0], attributes.groups, "output")
    ctx.require_equal(x.dims[1], w.dims[1] * attributes.groups, f"the input channels of `{ctx.op_name}`")
    for i, window in enumerate(windows):
        want_not_negative(ctx, i + 2, window.output, window.steps, window.stride, f"for a kernel of {window.kernel}")
    return (x.dims[0], w.dims[0], *(window.output for window in windows))


def conv_array(attributes: ConvAttributes, x: Array, w: Array) -> Array:
    """The convolution in numpy: one product a tap, of the input shifted to it."""
    rank, groups = x.ndim - 2, attributes.groups
    strides, dilations = per_axis(attributes.stride, rank), per_axis(attributes.dilation, rank)
    padded = np.pad(x, ((0, 0), (0, 0), *pads(attributes.padding, rank)))
    sizes = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(padded.shape[2:], w.shape[2:], strides, dilations, strict=True)
    ]
    out = np.zeros((x.shape[0], groups, w.shape[0] // groups, *sizes), x.dtype)
    weight = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    channels = padded.reshape(x.shape[0], groups, w.shape[1], *padded.shape[2:])
    for taps in np.ndindex(*w.shape[2:]):
        cut = [slice(k * d, k * d + (n - 1) * s + 1, s) if n else slice(0, 0)
               for k, d, s, n in zip(taps, dilations, strides, sizes, strict=True)]  # fmt: skip
        shifted = channels[(slice(None), slice(None), slice(None), *cut)]
        out += np.einsum("goc,ngc...->ngo...", weight[(..., *taps)], shifted)
    return out.reshape(x.shape[0], w.shape[0], *sizes)


@dataclass(frozen=True)
class ConvCore(ConvAttributes, ContractOp):
    """`conv` without bias; its result is [batch, groups, output channels of a group, spatial...] when there are groups.

    Rows are output channels, columns the positions of the last spatial axis, and the product is repeated for every
    image, group and outer position; where the kernel is a single element that visits every input element, or the last
    axis is known to be short, columns are all positions.
    """

    name: ClassVar[str] = "conv_core"
    family: ClassVar[str] = "conv"
    signature: ClassVar[tuple[str, ...]] = ("x", "weight")

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, w = operand(operands, 0), operand(operands, 1)
        n, o, *spatial = conv_shape(ctx, self, x, w)
        channels = (o,) if self.groups == 1 else (Dim.of(self.groups), o // self.groups)
        return TensorType(x.dtype, (n, *channels, *spatial))

    def contraction(self, out: TensorType, *operands: TensorType) -> Contraction:
        x, w = operands
        spatial = len(self.windows(x, w))
        outer = self._outer(x, w)
        first = out.rank - spatial
        batch = (0, *((1,) if self.groups > 1 else ()), *range(first, first + outer))
        rows, cols = (first - 1,), tuple(range(first + outer, out.rank))
        order = (*batch, *rows, *cols)
        return Contraction(
            batch=tuple(out.dims[i] for i in batch),
            rows=tuple(out.dims[i] for i in rows),
            cols=tuple(out.dims[i] for i in cols),
            inner=w.dims[1:],
            out_order=tuple(order.index(i) for i in range(out.rank)),
            accumulator=out.dtype.compute,
        )

    def _outer(self, x: TensorType, w: TensorType) -> int:
        """How many of the spatial axes are batch axes."""
        windows = self.windows(x, w)
        plain = all(v.kernel == 1 and v.stride == 1 and not v.before and not v.after for v in windows)
        last = windows[-1].output
        return 0 if plain or (last.is_const and last.value < 32) else len(windows) - 1

    def lhs(
        self, ctx: ElementContext, b: tuple[Expr, ...], m: tuple[Expr, ...], k: tuple[Expr, ...], *inputs: Input
    ) -> Expr:
        return inputs[1](self._channel(b, m[0], inputs[1].type.dims[0]), *k)

    def _channel(self, b: tuple[Expr, ...], within: Expr, channels: Dim) -> Expr:
        return within if self.groups == 1 else add(mul(b[1], index(channels // self.groups)), within)

    def rhs(
        self, ctx: ElementContext, b: tuple[Expr, ...], k: tuple[Expr, ...], n: tuple[Expr, ...], *inputs: Input
    ) -> Expr:
        x, w = inputs
        at = (*b[1 if self.groups == 1 else 2 :], *n)
        return tap_value(x, self.windows(x.type, w.type), b[0], self._channel(b, k[0], x.type.dims[1]), at, k[1:])

    def reference(self, *operands: Array | None) -> Array:
        x, w = operand(operands, 0), operand(operands, 1)
        with np.errstate(all="ignore"):
            out = conv_array(self, exact(x), exact(w))
        if self.groups > 1:
            out = out.reshape(out.shape[0], self.groups, -1 if out.size else w.shape[0] // self.groups, *out.shape[2:])
        return rounded(out, DType.of(x.dtype))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for attributes, x, w in CASES:
            yield Sample(cls(**attributes), (tensor("f32", *x), tensor("f32", *w)), SIZES, atol=1e-4)  # type: ignore[arg-type]

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield from refusals(cls)


def tap_value(
    x: Input, windows: Sequence[Window], n: Expr, channel: Expr, at: Sequence[Expr], taps: Sequence[Expr]
) -> Expr:
    """The input element under a tap, 0 in the padding."""
    positions = [window.tap(i, k) for window, i, k in zip(windows, at, taps, strict=True)]
    inside = [window.inside(p) for window, p in zip(windows, positions, strict=True)]
    return select(both(*inside), x(n, channel, *positions), const(0, x.type.dtype))


@dataclass(frozen=True)
class ConvDepthwise(ConvAttributes, ElementOp):
    """`conv` without bias of groups of one input channel each: a sum over the window of one channel."""

    name: ClassVar[str] = "conv_depthwise"
    family: ClassVar[str] = "conv"
    signature: ClassVar[tuple[str, ...]] = ("x", "weight")

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, w = operand(operands, 0), operand(operands, 1)
        shape = conv_shape(ctx, self, x, w)
        ctx.require(w.dims[1] == 1, f"`conv_depthwise` takes one input channel a group; {ctx.name(1)} is {w}")
        return TensorType(x.dtype, shape)

    def element(self, ctx: ElementContext, out: TensorType, index_: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        x, w = operand(inputs, 0), operand(inputs, 1)
        n, o, *at = index_
        windows, compute = self.windows(x.type, w.type), out.dtype.compute
        each = out.dims[1] // self.groups
        channel = o if each == 1 else apply("floordiv", o, index(each))

        def product(*taps: Expr) -> Expr:
            value = tap_value(x, windows, n, channel, at, taps)
            return apply("mul", cast(value, compute), cast(w(o, index(0), *taps), compute))

        ranges = [(index(0), index(window.kernel)) for window in windows]
        return cast(ctx.reduce("add", ranges, product, const(0, compute)), out.dtype)

    def reference(self, *operands: Array | None) -> Array:
        x, w = operand(operands, 0), operand(operands, 1)
        with np.errstate(all="ignore"):
            return rounded(conv_array(self, exact(x), exact(w)), DType.of(x.dtype))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in FLOATS:
            x, w = tensor(dtype, "m", 4, "n", 6), tensor(dtype, 4, 1, 3, 3)
            yield Sample(cls(padding=1, groups=4), (x, w), SIZES, rtol=rtol(dtype), atol=1e-4)
        x, w = tensor("f32", 1, 3, 9, "n"), tensor("f32", 6, 1, 2, 3)
        yield Sample(cls(stride=2, padding=2, dilation=2, groups=3), (x, w), SIZES, atol=1e-4)
        yield Sample(cls(groups=3, padding=((1, 2),)), (tensor("f32", "m", 3, "n"), tensor("f32", 3, 1, 4)), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x, w = tensor("f32", 2, 4, 8), tensor("f32", 4, 2, 3)
        yield Refused(cls(groups=2), (x, w), "`conv_depthwise` takes one input channel a group; y is f32[4, 2, 3]")


def with_bias(b: Builder, x: Operand, bias: Operand | None, dims: Sequence[Dim]) -> Operand:
    """Adds one number a channel, in the shape `dims`."""
    out = b.reshape(x, shape=tuple(dims)) if b.type(x).rank != len(dims) else x
    if bias is None:
        return out
    return one(b.add(out, b.reshape(bias, shape=(dims[1], *(Dim.of(1) for _ in dims[2:])))))


def want_bias(ctx: InferContext, bias: TensorType | None, x: TensorType, channels: Dim) -> None:
    """Refuses a bias that is not one number a channel."""
    if bias is not None:
        ctx.same_dtype(x, x, bias)
        ctx.require(bias.rank == 1, f"`{ctx.op_name}` takes a bias of shape [{channels}]; {ctx.name(2)} is {bias}")
        ctx.require_equal(bias.dims[0], channels, f"the sizes of the bias and the output channels of `{ctx.op_name}`")


@dataclass(frozen=True)
class Conv(ConvAttributes, CompositeOp):
    """Convolution (as in torch: cross-correlation) over 1 to 3 spatial axes.

    x: [batch, channels, spatial...], weight: [out, channels / groups, kernel...], bias: [out] give
    [batch, out, (size + padding - dilation * (kernel - 1) - 1) // stride + 1 ...].  `stride` and `dilation` are one
    number or one an axis; `padding` with zeros likewise, or pairs (before, after).
    """

    name: ClassVar[str] = "conv"
    family: ClassVar[str] = "conv"
    signature: ClassVar[tuple[str, ...]] = ("x", "weight", "bias?")

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, w = operand(operands, 0), operand(operands, 1)
        shape = conv_shape(ctx, self, x, w)
        want_bias(ctx, optional(operands, 2), x, w.dims[0])
        return TensorType(x.dtype, shape)

    def decompose(self, b: Builder, *operands: Operand) -> Operand:
        x, w = operands[:2]
        attributes = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}
        if self.groups > 1 and b.type(w).dims[1] == 1:
            out = b.conv_depthwise(x, w, **attributes)
        else:
            out = b.conv_core(x, w, **attributes)
        spatial = [window.output for window in self.windows(b.type(x), b.type(w))]
        return with_bias(b, out, given(operands, 2), (b.type(x).dims[0], b.type(w).dims[0], *spatial))

    def reference(self, *operands: Array | None) -> Array:
        x, w, bias = operand(operands, 0), operand(operands, 1), optional(operands, 2)
        with np.errstate(all="ignore"):
            out = conv_array(self, exact(x), exact(w))
            if bias is not None:
                out = out + exact(bias).reshape(-1, *([1] * (x.ndim - 2)))
            return rounded(out, DType.of(x.dtype))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for attributes, x, w in CASES:
            types = (tensor("f32", *x), tensor("f32", *w), tensor("f32", w[0]))
            yield Sample(cls(**attributes), types, SIZES, atol=1e-4)  # type: ignore[arg-type]
        for dtype in FLOATS:
            types = (tensor(dtype, "m", 3, "n"), tensor(dtype, 5, 3, 3), tensor(dtype, 5))
            # f16: the product is rounded before the bias is added.
            yield Sample(cls(padding=1), types, SIZES, rtol=2 * rtol(dtype), atol=1e-4 if rtol(dtype) < 1e-4 else 0.05)
            yield Sample(cls(padding=1), types[:2], SIZES, rtol=rtol(dtype), atol=1e-4)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield from refusals(cls)
        x, w = tensor("f32", 2, 4, 8), tensor("f32", 6, 4, 3)
        yield Refused(cls(), (x, w, tensor("f32", 5)), "the sizes of the bias and the output channels of `conv` do not")
        yield Refused(cls(), (x, w, tensor("f32", 6, 1)), "`conv` takes a bias of shape [6]; z is f32[6, 1]")


CASES: tuple[tuple[dict[str, object], tuple[str | int, ...], tuple[str | int, ...]], ...] = (
    ({"padding": 1}, ("m", 3, "n", 8), (4, 3, 3, 3)),
    ({"padding": 1}, (2, 3, 5, "n"), (8, 3, 3, 3)),
    ({}, ("m", 5, "n", 40), (7, 5, 1, 1)),
    ({"stride": 2, "padding": (3, 2)}, (1, 2, "n", 37), (6, 2, 7, 5)),
    ({"stride": (1, 3), "padding": ((0, 2), (2, 1)), "dilation": (1, 2)}, ("m", 2, 7, "n"), (3, 2, 3, 2)),
    ({"groups": 2, "padding": 2}, ("m", 4, 6, "n"), (6, 2, 5, 3)),
    ({"groups": 4, "padding": 1}, ("m", 4, "n", 6), (8, 1, 3, 3)),
    ({"padding": 1, "stride": 2}, ("m", 3, "n"), (4, 3, 3)),
    ({"padding": 1}, (1, 2, 3, "n", 4), (3, 2, 3, 2, 3)),
    ({}, ("m", "m", "n"), (5, "m", 1)),
)


def refusals(cls: type[ConvCore] | type[Conv]) -> Iterable[Refused]:
    """What no form of convolution takes."""
    name = f"`{cls.name}`"
    x, w = tensor("f32", 2, 4, 8, 8), tensor("f32", 6, 4, 3, 3)
    yield Refused(cls(), (tensor("i32", 2, 4, 8, 8), w), f"{name} takes floating-point tensors; x is i32")
    yield Refused(cls(), (x, tensor("f64", 6, 4, 3, 3)), f"the dtypes of {name} do not match: f32 against f64")
    yield Refused(cls(), (x, tensor("f32", 6, 3, 3, 3)), f"the input channels of {name} do not match: 4 against 3")
    yield Refused(cls(), (x, tensor("f32", 6, 4, 3)), f"the weight of {name} must have as many axes as its input")
    yield Refused(cls(groups=4), (x, tensor("f32", 6, 1, 3, 3)), f"{name} cannot divide 6 output channels into 4 equal")
    yield Refused(cls(stride=0), (x, w), f"`stride` of {name} must be at least 1, not 0")
    yield Refused(cls(stride=(1, 1, 1)), (x, w), f"`stride` of {name} has 3 entries for 2 spatial axes")
    yield Refused(cls(padding=-1), (x, w), f"`padding` of {name} must not be negative, but has -1")
    yield Refused(cls(), (tensor("f32", 2, 4), tensor("f32", 6, 4)), f"{name} takes tensors [batch, channels, spatial")
    short = (tensor("f32", 2, 4, "n"), tensor("f32", 6, 4, 3))
    yield Refused(cls(), short, f"the output of {name} may have a negative size along axis 2: n - 2")
    yield Refused(
        cls(), (tensor("f32", 2, 4, 1), short[1]), f"the output of {name} may have a negative size along axis"
    )
    yield Refused(
        cls(), (short[0], tensor("f32", 6, 4, "k")), f"the kernel of {name} may be empty: axis 2 of y has size k"
    )
