"""Pooling over the spatial axes of [batch, channels, spatial...]: largest element or mean of each window."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..dims import Dim
from ..facts import Compare, InRange
from ..loops import Expr
from ..op import Array, ElementContext, ElementOp, InferContext, Input, Refused, Sample
from ..scalar import add, apply, both, cast, const, index, mul, select, sub
from ..types import DType, TensorType, tensor
from ._common import FLOATS, SIZES, exact, operand, product_of, rounded, rtol, want_float
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
class Pool(ElementOp):
    """Windows of `kernel_size`, `stride` apart (none: the kernel size); attributes as of `conv`.

    With `ceil_mode` a last window may hang over the end, if it starts in the input or in the padding before it.
    """

    family: ClassVar[str] = "pool"

    kernel_size: PerAxis
    stride: PerAxis | None = None
    padding: Padding = 0
    ceil_mode: bool = False

    def dilations(self, rank: int) -> tuple[int, ...]:
        return (1,) * rank

    def windows(self, x: TensorType) -> tuple[Window, ...]:
        """The spatial axes."""
        rank = x.rank - 2
        sizes = per_axis(self.kernel_size, rank)
        strides = sizes if self.stride is None else per_axis(self.stride, rank)
        listed = zip(x.dims[2:], sizes, strides, self.dilations(rank), pads(self.padding, rank), strict=True)
        return tuple(Window(size, Dim.of(k), s, d, *p) for size, k, s, d, p in listed)

    def outputs(self, x: TensorType) -> list[Dim]:
        return [w.output_ceil if self.ceil_mode else w.output for w in self.windows(x)]

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        want_float(ctx, 0, x)
        rank = want_spatial(ctx, x)
        sizes = want_per_axis(ctx, "kernel_size", self.kernel_size, rank, 1)
        if self.stride is not None:
            want_per_axis(ctx, "stride", self.stride, rank, 1)
        want_per_axis(ctx, "dilation", self.dilations(rank), rank, 1)
        for kernel, pair in zip(sizes, want_pads(ctx, self.padding, rank), strict=True):
            ctx.require(
                2 * max(pair) <= kernel,
                f"`padding` of `{self.name}` must be at most half the kernel: {max(pair)} of {kernel}",
            )
        outputs = self.outputs(x)
        for i, (window, size) in enumerate(zip(self.windows(x), outputs, strict=True)):
            # With ceil_mode one stride more fits: what matters is that the steps are not below -stride + 1 - stride.
            reach = window.stride - 1 if self.ceil_mode else 0
            what = f"for windows of {window.extent}"
            want_not_negative(ctx, i + 2, size, window.steps + reach, window.stride, what)
        return TensorType(x.dtype, (*x.dims[:2], *outputs))

    def taps(self, ctx: ElementContext, kind: str, x: Input, at: tuple[Expr, ...], outside: float) -> Expr:
        """The window's elements folded in the compute type; positions in the padding count as `outside`."""
        n, c, *out = at
        windows, compute = self.windows(x.type), x.type.dtype.compute

        def element(*taps: Expr) -> Expr:
            positions = [w.tap(o, k) for w, o, k in zip(windows, out, taps, strict=True)]
            inside = both(*(w.inside(p, self.ceil_mode) for w, p in zip(windows, positions, strict=True)))
            return select(inside, cast(x(n, c, *positions), compute), const(outside, compute))

        return ctx.reduce(kind, [(index(0), index(w.kernel)) for w in windows], element, const(outside, compute))

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        t = TensorType(DType.of(x.dtype), tuple(map(Dim.of, x.shape)))
        windows = self.windows(t)
        axes = []
        for w, count in zip(windows, self.outputs(t), strict=True):
            starts = [o * w.stride - w.before for o in range(count.value)]
            axes.append([(w, s, range(s, s + w.extent.value, w.dilation)) for s in starts])
        with np.errstate(all="ignore"):
            return rounded(_pooled(exact(x), axes, self.window_array), t.dtype)

    def window_array(self, values: Array, axes: Sequence[tuple[Window, int, range]]) -> Array:
        """One window's results [batch, channels], from its elements in the input."""
        raise NotImplementedError

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in FLOATS:
            yield Sample(cls(2), (tensor(dtype, "m", 3, "n", 8),), SIZES, rtol=rtol(dtype))
        yield Sample(cls(3, stride=2, padding=1), (tensor("f32", "m", 2, 9, "n"),), SIZES)
        yield Sample(cls(3, stride=2, padding=1, ceil_mode=True), (tensor("f32", "m", 2, 8, "n"),), SIZES)
        yield Sample(cls((2, 4), stride=(3, 1), padding=((0, 1), (2, 0))), (tensor("f32", 1, 2, "n", 7),), SIZES)
        yield Sample(cls(4, stride=3, ceil_mode=True, padding=2), (tensor("f32", "m", 2, "n"),), SIZES)
        yield Sample(cls(2, ceil_mode=True), (tensor("f32", 1, 2, "n", 3, 5),), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        name, x = f"`{cls.name}`", tensor("f32", 2, 3, "n", 8)
        yield Refused(cls(2), (tensor("i32", 2, 3, 8),), f"{name} takes floating-point tensors; x is i32[2, 3, 8]")
        yield Refused(
            cls(2), (tensor("f32", 3, 8),), f"{name} takes tensors [batch, channels, spatial...] of rank 3 to 5"
        )
        yield Refused(cls(0), (x,), f"`kernel_size` of {name} must be at least 1, not 0")
        yield Refused(cls((2, 2, 2)), (x,), f"`kernel_size` of {name} has 3 entries for 2 spatial axes")
        yield Refused(cls(2, stride=0), (x,), f"`stride` of {name} must be at least 1, not 0")
        yield Refused(cls(3, padding=2), (x,), f"`padding` of {name} must be at most half the kernel: 2 of 3")
        yield Refused(cls(3, stride=1), (x,), f"the output of {name} may have a negative size along axis 2: n - 2")


def _pooled(x: Array, axes: Sequence[Sequence[tuple[Window, int, range]]], window: Callable[..., Array]) -> Array:
    """`window` of every combination of windows; x: [batch, channels, spatial...]."""
    out = np.zeros((*x.shape[:2], *map(len, axes)), x.dtype)
    for at in np.ndindex(*out.shape[2:]):
        chosen = [axis[i] for axis, i in zip(axes, at, strict=True)]
        inside = [[p for p in taps if 0 <= p < n] for (_, _, taps), n in zip(chosen, x.shape[2:], strict=True)]
        values = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)]
        out[(..., *at)] = window(values.reshape(*x.shape[:2], product_of(map(len, inside))), chosen)
    return out


@dataclass(frozen=True)
class MaxPool(Pool):
    """The largest element of each window, NaN where there is one; padding never wins.

    x: [batch, channels, spatial...], 1 to 3 spatial axes.  `stride` is the kernel size unless given.  With
    `ceil_mode` a last window may hang over the end.
    """

    name: ClassVar[str] = "max_pool"

    dilation: PerAxis = 1

    def dilations(self, rank: int) -> tuple[int, ...]:
        return per_axis(self.dilation, rank)

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        return cast(self.taps(ctx, "maximum", operand(inputs, 0), at, -math.inf), out.dtype)

    def window_array(self, values: Array, axes: Sequence[tuple[Window, int, range]]) -> Array:
        return np.asarray(np.max(values, axis=2, initial=-math.inf))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from super().samples()
        yield Sample(cls(3, stride=1, padding=1, dilation=2), (tensor("f32", "m", 2, 9, 7),), SIZES)


@dataclass(frozen=True)
class AvgPool(Pool):
    """The mean of each window; `count_include_pad` says whether padding counts as zeros, or not at all.

    x: [batch, channels, spatial...], 1 to 3 spatial axes.  `stride` is the kernel size unless given.  With
    `ceil_mode` a last window may hang over the end; what lies beyond the padding never counts.
    """

    name: ClassVar[str] = "avg_pool"

    count_include_pad: bool = True

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        x = operand(inputs, 0)
        total = self.taps(ctx, "add", x, at, 0.0)
        count = self.count(x.type, at[2:])
        return cast(apply("div", total, cast(count, total.dtype)), out.dtype)

    def count(self, x: TensorType, at: Sequence[Expr]) -> Expr:
        """How many elements the window's sum is divided by, i64."""
        product: Expr = index(1)
        for w, o in zip(self.windows(x), at, strict=True):
            if not self.ceil_mode and (self.count_include_pad or not (w.before or w.after)):
                product = mul(product, index(w.kernel))
                continue
            first = w.tap(o, index(0))
            last = apply("minimum", add(first, index(w.kernel)), index(w.size + w.after))
            if not self.count_include_pad:
                first, last = apply("maximum", first, index(0)), apply("minimum", last, index(w.size))
            product = mul(product, sub(last, first))
        return product

    def window_array(self, values: Array, axes: Sequence[tuple[Window, int, range]]) -> Array:
        count = values.shape[2]
        if self.count_include_pad:
            count = product_of(min(taps.stop, w.size.value + w.after) - start for w, start, taps in axes)
        return np.asarray(np.sum(values, axis=2) / np.float64(count))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from super().samples()
        x = tensor("f32", "m", 2, 9, "n")
        yield Sample(cls(3, stride=2, padding=1, count_include_pad=False), (x,), SIZES)
        yield Sample(cls(4, stride=3, padding=2, ceil_mode=True, count_include_pad=False), (x,), SIZES)


@dataclass(frozen=True)
class AdaptivePool(ElementOp):
    """As many windows as `output_size` says (one size for all spatial axes, or one an axis), equal but for rounding.

    Window o covers the elements from floor(o * size / output) up to ceil((o + 1) * size / output).
    """

    family: ClassVar[str] = "pool"

    output_size: Dim | int | tuple[Dim | int, ...]

    def outputs(self, rank: int) -> tuple[Dim, ...]:
        listed = self.output_size if isinstance(self.output_size, tuple) else (self.output_size,) * rank
        return tuple(map(Dim.of, listed))

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        want_float(ctx, 0, x)
        rank = want_spatial(ctx, x)
        outputs = self.outputs(rank)
        ctx.require(
            len(outputs) == rank, f"`output_size` of `{self.name}` has {len(outputs)} entries for {rank} spatial axes"
        )
        for axis, (size, out) in enumerate(zip(x.dims[2:], outputs, strict=True)):
            ctx.require(ctx.holds(Compare("<=", 0, out)), f"`output_size` of `{self.name}` may be negative: {out}")
            if not ctx.holds(Compare("<", 0, size)):
                raise ctx.fail(
                    f"`{self.name}` of no elements has no value: axis {axis + 2} has size {size}, which may be 0",
                    label=f"{ctx.name(0)} is {x}",
                    help=ctx.advice(InRange(size, 1)),
                    symbols=size.symbols,
                    wanted=(InRange(size, 1),),
                )
        return TensorType(x.dtype, (*x.dims[:2], *outputs))

    def ranges(self, x: TensorType, at: Sequence[Expr]) -> list[tuple[Expr, Expr]]:
        """First and one past the last input position of a window, an axis."""
        found: list[tuple[Expr, Expr]] = []
        for size, out, o in zip(x.dims[2:], self.outputs(x.rank - 2), at, strict=True):
            if size == out:
                found.append((o, add(o, index(1))))
                continue
            first = apply("floordiv", mul(o, index(size)), index(out))
            # ceil(a / b) is floor((a + b - 1) / b).
            reach = add(mul(add(o, index(1)), index(size)), index(out - 1))
            found.append((first, apply("floordiv", reach, index(out))))
        return found

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        outputs = [d.value for d in self.outputs(x.ndim - 2)]
        out = np.zeros((*x.shape[:2], *outputs))
        for at in np.ndindex(*outputs):
            cut: list[Any] = [
                slice(o * n // m, -(-(o + 1) * n // m)) for o, n, m in zip(at, x.shape[2:], outputs, strict=True)
            ]
            out[(..., *at)] = self.window_array(exact(x)[(..., *cut)], tuple(range(2, x.ndim)))
        return rounded(out, DType.of(x.dtype))

    def window_array(self, values: Array, axes: tuple[int, ...]) -> Array:
        """One window's results [batch, channels]."""
        raise NotImplementedError

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        facts = (InRange("n", 1),)
        sizes = ({"n": 1, "m": 0}, {"n": 1, "m": 1}, {"n": 7, "m": 3}, {"n": 30, "m": 2})
        for dtype in FLOATS:
            yield Sample(cls(3), (tensor(dtype, "m", 2, "n"),), sizes, facts, rtol=rtol(dtype))
        yield Sample(cls((1, 1)), (tensor("f32", "m", 3, "n", 5),), sizes, facts)
        yield Sample(cls((5, Dim.of("m"))), (tensor("f32", "m", 3, 13, "n"),), sizes, facts)
        yield Sample(cls((Dim.of("n"), 2)), (tensor("f32", "m", 3, "n", 7),), sizes, facts)
        yield Sample(cls((2, 1, 3)), (tensor("f32", 1, "m", 4, "n", 5),), sizes, facts)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        name, x = f"`{cls.name}`", tensor("f32", 2, 3, "n", 8)
        yield Refused(cls(3), (x,), f"{name} of no elements has no value: axis 2 has size n, which may be 0")
        yield Refused(cls((3, 3, 3)), (x,), f"`output_size` of {name} has 3 entries for 2 spatial axes")
        yield Refused(cls(-1), (tensor("f32", 2, 3, 8),), f"`output_size` of {name} may be negative: -1")
        yield Refused(cls(1), (tensor("i32", 2, 3, 8),), f"{name} takes floating-point tensors; x is i32[2, 3, 8]")


@dataclass(frozen=True)
class AdaptiveMaxPool(AdaptivePool):
    """The largest element of each of `output_size` windows an axis, which divide x: [batch, channels, spatial...]."""

    name: ClassVar[str] = "adaptive_max_pool"

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        x, compute = operand(inputs, 0), out.dtype.compute
        ranges = self.ranges(x.type, at[2:])
        total = ctx.reduce("maximum", ranges, lambda *taps: cast(x(*at[:2], *taps), compute), const(-math.inf, compute))
        return cast(total, out.dtype)

    def window_array(self, values: Array, axes: tuple[int, ...]) -> Array:
        return np.asarray(np.max(values, axis=axes))


@dataclass(frozen=True)
class AdaptiveAvgPool(AdaptivePool):
    """The mean of each of `output_size` windows an axis, which divide x: [batch, channels, spatial...]."""

    name: ClassVar[str] = "adaptive_avg_pool"

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        x, compute = operand(inputs, 0), out.dtype.compute
        ranges = self.ranges(x.type, at[2:])
        total = ctx.reduce("add", ranges, lambda *taps: cast(x(*at[:2], *taps), compute), const(0.0, compute))
        count: Expr = index(1)
        for first, last in ranges:
            count = mul(count, sub(last, first))
        return cast(apply("div", total, cast(count, compute)), out.dtype)

    def window_array(self, values: Array, axes: tuple[int, ...]) -> Array:
        return np.asarray(np.mean(values, axis=axes))
