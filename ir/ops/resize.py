"""Resampling: an image in another size, and an image read at places that data give.

Positions are computed in torch's arithmetic, operation by operation: a place that rounding puts on the other side of a
whole number is another pixel.  (Source: the definitions of `torch.nn.functional.interpolate` and `grid_sample`.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np

from ..dims import Dim
from ..facts import InRange
from ..loops import Apply, Expr
from ..op import Array, ElementContext, ElementOp, InferContext, Input, Refused, Sample
from ..scalar import add, apply, both, cast, const, index, mul, select, sub
from ..types import DType, TensorType, tensor
from ._common import FLOATS, arrays, exact, operand, rounded, rtol, uniform, want_float
from ._shape import Size, dims_of, guarded, require_fact, require_size, whole
from ._window import want_spatial

Taps = list[tuple[Expr, Expr]]
"""Places along one axis that a result reads, with their shares."""

CUBIC = -0.75
"""The free coefficient of the cubic kernel (torch's; Keys, 1981, has -0.5)."""


def _floor(value: Expr) -> Expr:
    return apply("floor", value)


def _minimum(a: Expr, b: Expr) -> Expr:
    return Apply("minimum", (a, b), a.dtype)


def _maximum(a: Expr, b: Expr) -> Expr:
    return Apply("maximum", (a, b), a.dtype)


def cubic_shares(t: Expr) -> list[Expr]:
    """The shares of the four neighbours of a place that lies `t` of the way from the second to the third."""

    def near(d: Expr) -> Expr:
        inner = sub(mul(const(CUBIC + 2, d.dtype), d), const(CUBIC + 3, d.dtype))
        return add(mul(mul(inner, d), d), const(1, d.dtype))

    def far(d: Expr) -> Expr:
        inner = sub(mul(const(CUBIC, d.dtype), d), const(5 * CUBIC, d.dtype))
        return sub(mul(add(mul(inner, d), const(8 * CUBIC, d.dtype)), d), const(4 * CUBIC, d.dtype))

    one = const(1, t.dtype)
    rest = sub(one, t)
    return [far(add(t, one)), near(t), near(rest), far(add(rest, one))]


def cubic_weights(t: np.ndarray) -> list[np.ndarray]:
    """`cubic_shares` in numpy."""

    def near(d: np.ndarray) -> np.ndarray:
        return np.asarray(((CUBIC + 2) * d - (CUBIC + 3)) * d * d + 1)

    def far(d: np.ndarray) -> np.ndarray:
        return np.asarray(((CUBIC * d - 5 * CUBIC) * d + 8 * CUBIC) * d - 4 * CUBIC)

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def weighted(ctx: ElementContext, taps: Sequence[Taps], read: Callable[..., Expr]) -> Expr:
    """The sum over all combinations of taps of what is read there times their shares."""
    total: Expr | None = None
    for chosen in product(*taps):
        share = chosen[0][1]
        for _, other in chosen[1:]:
            share = mul(share, other)
        term = mul(share, read(*(place for place, _ in chosen)))
        total = term if total is None else add(total, term)
    assert total is not None
    return total


# ------------------------------------------------------------------------------------------------------ resize


@dataclass(frozen=True)
class Resize(ElementOp):
    """The spatial axes of x: [batch, channels, spatial...] in the sizes `size`, resampled.

    `nearest` takes the element at floor(i * in / out), `nearest-exact` the one at floor((i + 0.5) * in / out), `linear`
    and `cubic` (one or two spatial axes) interpolate between the centres of elements, or with `align_corners` between
    first and last elements that stay where they are.  `scales` gives the factors that places are computed with instead
    of out / in, for each spatial axis (torch's `scale_factor`, of which the size is floor(in * scale)).
    """

    name: ClassVar[str] = "resize"
    family: ClassVar[str] = "pool"

    size: tuple[Size, ...]
    mode: Literal["nearest", "nearest-exact", "linear", "cubic"] = "nearest"
    align_corners: bool = False
    scales: tuple[float, ...] | None = None

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        if not self.mode.startswith("nearest"):
            want_float(ctx, 0, x)
        rank = want_spatial(ctx, x, (1, 2) if self.mode == "cubic" else (1, 2, 3))
        ctx.require(len(self.size) == rank, f"`size` of `resize` has {len(self.size)} entries for {rank} spatial axes")
        if self.scales is not None:
            fitting = len(self.scales) == rank and min(self.scales) > 0
            ctx.require(fitting, f"`scales` of `resize` are {rank} positive numbers, one a spatial axis")
        ctx.require(
            not (self.align_corners and self.mode.startswith("nearest")),
            "`align_corners` of `resize` means something only for `linear` and `cubic`",
            help='say `mode="linear"`, or leave it out',
        )
        for axis, (size, out) in enumerate(zip(x.dims[2:], dims_of(self.size), strict=True), 2):
            require_size(ctx, out, f"axis {axis} of the result of `resize`")
            if size.name is None or out.subs({size.name: 0}) != 0:
                what = f"`resize` has nothing to read along axis {axis}, of size {size}, which may be 0"
                require_fact(ctx, InRange(size, 1), what)
        return TensorType(x.dtype, (*x.dims[:2], *dims_of(self.size)))

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        x = operand(inputs, 0)
        lead, places = at[:2], at[2:]
        sizes = list(zip(x.type.dims[2:], out.dims[2:], places, strict=True))
        if self.mode.startswith("nearest"):
            return x(*lead, *(ctx.let(self._nearest(a, *s)) for a, s in enumerate(sizes)))
        compute = x.type.dtype.compute
        taps = [self._taps(ctx, a, *s, compute) for a, s in enumerate(sizes)]
        return cast(weighted(ctx, taps, lambda *p: cast(x(*lead, *p), compute)), out.dtype)

    def _ratio(self, axis: int, size: Dim, out: Dim, dtype: DType) -> Expr:
        """How many elements of the operand one of the result stands for."""
        if self.scales is not None:
            return const(1.0 / self.scales[axis], dtype)
        return apply("div", cast(index(size), dtype), cast(index(out), dtype))

    def _nearest(self, axis: int, size: Dim, out: Dim, i: Expr) -> Expr:
        half = 0.5 if self.mode == "nearest-exact" else 0.0
        place = add(cast(i, DType.f32), const(half, DType.f32)) if half else cast(i, DType.f32)
        found = cast(_floor(mul(place, self._ratio(axis, size, out, DType.f32))), DType.i64)
        last = _minimum(found, index(size - 1))
        if half or (self.scales is not None and len(self.size) != 2):
            return last
        # Exact where rounding might not be, and whatever the scales: torch has it so for two spatial axes, and for
        # one or three only without scales.
        if out == size:
            return i
        same = select(apply("eq", index(out), index(size)), i, last)
        return select(apply("eq", index(out), index(2 * size)), apply("floordiv", i, index(2)), same)

    def _taps(self, ctx: ElementContext, axis: int, size: Dim, out: Dim, i: Expr, dtype: DType) -> Taps:
        position = cast(i, dtype)
        if self.align_corners:
            gaps = apply("div", cast(index(size - 1), dtype), cast(index(Dim.max(out - 1, 1)), dtype))
            place = mul(position, gaps)
        else:
            half = const(0.5, dtype)
            place = sub(mul(self._ratio(axis, size, out, dtype), add(position, half)), half)
            place = place if self.mode == "cubic" else _maximum(place, const(0, dtype))
        place = ctx.let(place)
        low = ctx.let(_minimum(_floor(place), cast(index(size - 1), dtype)))
        part = ctx.let(_minimum(_maximum(sub(place, low), const(0, dtype)), const(1, dtype)))
        first = ctx.let(cast(low, DType.i64))
        if self.mode == "linear":
            second = _minimum(add(first, index(1)), index(size - 1))
            return [(first, sub(const(1, dtype), part)), (ctx.let(second), part)]
        shares = cubic_shares(part)
        steps = (ctx.let(_inside(add(first, index(k - 1)), size)) for k in range(4))
        return [(step, ctx.let(share)) for step, share in zip(steps, shares, strict=True)]

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        sizes = [whole(s) for s in self.size]
        value = x if self.mode.startswith("nearest") else exact(x)
        for axis, out in enumerate(sizes):
            size, scale = x.shape[axis + 2], None if self.scales is None else self.scales[axis]
            if out == 0 or size == 0:
                shape = list(value.shape)
                shape[axis + 2] = out
                value = np.zeros(shape, value.dtype)
            elif self.mode.startswith("nearest"):
                apart = scale is None or len(sizes) == 2
                value = np.take(value, _nearest_places(self.mode, size, out, scale, apart), axis + 2)
            else:
                shares = self._matrix(size, out, scale, DType.of(x.dtype).compute.numpy)
                value = np.moveaxis(np.moveaxis(value, axis + 2, -1) @ shares.T, -1, axis + 2)
        return rounded(value, DType.of(x.dtype))

    def _matrix(self, size: int, out: int, scale: float | None, kind: np.dtype) -> np.ndarray:
        """[out, in]: the shares of every element."""
        one = kind.type
        i = np.arange(out).astype(kind)
        if self.align_corners:
            place = i * one((one(size - 1) / one(out - 1)) if out > 1 else 0)
        else:
            ratio = one(size) / one(out) if scale is None else one(1.0 / scale)
            place = ratio * (i + one(0.5)) - one(0.5)
            place = place if self.mode == "cubic" else np.maximum(place, one(0))
        low = np.minimum(np.floor(place), size - 1)
        part = np.clip(place - low, 0, 1).astype(np.float64)
        taps = [(0, 1 - part), (1, part)]
        if self.mode == "cubic":
            taps = list(zip(range(-1, 3), cubic_weights(part), strict=True))
        matrix = np.zeros((out, size))
        for step, share in taps:
            np.add.at(matrix, (np.arange(out), np.clip(low.astype(int) + step, 0, size - 1)), share)
        return matrix

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        sizes = ({"n": 1, "m": 1}, {"n": 2, "m": 3}, {"n": 5, "m": 4}, {"n": 9, "m": 1})
        h, k = Dim.of("n"), Dim.of("m")
        for dtype in FLOATS:
            yield Sample(cls((2 * h, 7), "linear"), (tensor(dtype, "m", 2, "n", 4),), sizes, rtol=rtol(dtype))
        for dtype in (DType.f32, DType.f64, DType.i32, DType.u8, DType.bool):
            yield Sample(cls((k, 2 * h)), (tensor(dtype, "m", 2, 3, "n"),), ({"n": 0, "m": 2}, *sizes))
            yield Sample(cls((k, 5), "nearest-exact"), (tensor(dtype, 2, 1, 7, 3),), sizes)
        yield Sample(cls((k,), "linear", True), (tensor("f32", 2, 3, "n"),), sizes, _positive("n"))
        yield Sample(cls((k,), "cubic"), (tensor("f32", 2, 3, "n"),), sizes, _positive("n"), atol=1e-5)
        yield Sample(cls((5, k), "cubic", True), (tensor("f32", 1, 2, 3, "n"),), sizes, _positive("n"), atol=1e-5)
        yield Sample(cls((3, k, 2 * h), "linear"), (tensor("f32", 1, 2, 4, 3, "n"),), sizes, atol=1e-5)
        yield Sample(cls((3, 4, k)), (tensor("f32", 1, 2, 4, 3, "n"),), sizes, _positive("n"))
        scaled = (3 * h // 2, 4)
        yield Sample(cls(scaled, "linear", scales=(1.5, 1.9)), (tensor("f32", 1, "m", "n", 2),), sizes, atol=1e-5)
        yield Sample(cls(scaled, "nearest", scales=(1.5, 1.9)), (tensor("f32", 1, "m", "n", 2),), sizes)
        yield Sample(cls((h,), "nearest", scales=(1.1,)), (tensor("f32", 1, "m", "n"),), sizes)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", 1, 2, "n", 4)
        yield Refused(cls((4, 4)), (x,), "`resize` has nothing to read along axis 2, of size n, which may be 0")
        yield Refused(cls((Dim.of("n") - 1, 4)), (x,), "axis 2 of the result of `resize` may be negative: n - 1")
        yield Refused(cls((4,)), (x,), "`size` of `resize` has 1 entries for 2 spatial axes")
        yield Refused(cls((Dim.of("n"), 4), scales=(1.0,)), (x,), "`scales` of `resize` are 2 positive numbers")
        yield Refused(
            cls((Dim.of("n"), 4), align_corners=True), (x,), "`align_corners` of `resize` means something only"
        )
        yield Refused(
            cls((4, 4, 4), "cubic"), (tensor("f32", 1, 2, 3, 3, 3),), "`resize` takes tensors [batch, channels"
        )
        yield Refused(cls((4,), "linear"), (tensor("i32", 1, 2, 3),), "`resize` takes floating-point tensors")


def _positive(name: str) -> tuple[InRange, ...]:
    return (InRange(name, 1),)


def _inside(place: Expr, size: Dim) -> Expr:
    return _minimum(_maximum(place, index(0)), index(size - 1))


def _nearest_places(mode: str, size: int, out: int, scale: float | None, apart: bool) -> np.ndarray:
    """`apart`: whether the same size, and twice the size, are cases of their own."""
    i = np.arange(out)
    if apart and mode == "nearest" and out in (size, 2 * size):
        return i // (out // size)
    ratio = np.float32(size) / np.float32(out) if scale is None else np.float32(1.0 / scale)
    half = np.float32(0.5 if mode == "nearest-exact" else 0.0)
    return np.asarray(np.minimum(np.floor((i.astype(np.float32) + half) * ratio).astype(int), size - 1))


# ------------------------------------------------------------------------------------------------- grid_sample


@dataclass(frozen=True)
class GridSample(ElementOp):
    """x: [batch, channels, height, width] read at the places grid: [batch, h, w, 2] names, as (x, y) in -1..1.

    With a depth: x [batch, channels, depth, height, width], grid [batch, d, h, w, 3].  -1 and 1 are the outer edges of
    the first and last elements, with `align_corners` their centres.  `padding_mode` says what stands outside: zeros,
    the border's elements, or what is inside, reflected.  `cubic` is for two spatial axes.
    """

    name: ClassVar[str] = "grid_sample"
    family: ClassVar[str] = "pool"
    signature: ClassVar[tuple[str, ...]] = ("x", "grid")

    mode: Literal["linear", "nearest", "cubic"] = "linear"
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros"
    align_corners: bool = False

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, grid = operand(operands, 0), operand(operands, 1)
        want_float(ctx, 0, x)
        ctx.same_dtype(x, grid)
        rank = want_spatial(ctx, x, (2,) if self.mode == "cubic" else (2, 3))
        ctx.require(
            grid.rank == rank + 2 and grid.dims[-1] == rank,
            f"the grid of `grid_sample` is [batch, {'d, ' if rank == 3 else ''}h, w, {rank}]; {ctx.name(1)} is {grid}",
        )
        ctx.require_equal(x.dims[0], grid.dims[0], "the batch sizes of `grid_sample`")
        return TensorType(x.dtype, (*x.dims[:2], *grid.dims[1:-1]))

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        x, grid = operand(inputs, 0), operand(inputs, 1)
        batch, channel, *where = at
        sizes, dtype = x.type.dims[2:], x.type.dtype.compute
        given = [cast(grid(batch, *where, index(len(sizes) - 1 - a)), dtype) for a in range(len(sizes))]
        places = [ctx.let(self._place(g, size)) for g, size in zip(given, sizes, strict=True)]

        def read(*at: Expr) -> Expr:
            ok, found = [], []
            for place, size in zip(at, sizes, strict=True):
                if self.mode == "cubic":
                    place = ctx.let(self._padded(ctx, place, size))
                last = cast(index(size - 1), dtype)
                ok += [apply("ge", place, const(0, dtype)), apply("le", place, last)]
                # In the range of the axis before it becomes an index, and after: NaN is no index.
                near = _minimum(_maximum(place, const(-1, dtype)), cast(index(size), dtype))
                found.append(ctx.let(_inside(cast(near, DType.i64), size)))
            value: Expr = cast(x(batch, channel, *found), dtype)
            for size in sizes:
                value = guarded(ctx.facts, size, value, const(0, dtype))
            return select(both(*ok), value, const(0, dtype))

        if self.mode != "cubic":
            places = [ctx.let(self._padded(ctx, p, size)) for p, size in zip(places, sizes, strict=True)]
        if self.mode == "nearest":
            return cast(read(*(ctx.let(apply("round", p)) for p in places)), out.dtype)
        return cast(weighted(ctx, [self._taps(ctx, p) for p in places], read), out.dtype)

    def _place(self, given: Expr, size: Dim) -> Expr:
        """The position along an axis of a coordinate in -1..1."""
        one, half = const(1, given.dtype), const(0.5, given.dtype)
        if self.align_corners:
            return mul(mul(add(given, one), half), cast(index(size - 1), given.dtype))
        return mul(sub(mul(add(given, one), cast(index(size), given.dtype)), one), half)

    def _padded(self, ctx: ElementContext, place: Expr, size: Dim) -> Expr:
        """Where a position outside is read instead."""
        if self.padding_mode == "zeros":
            return place
        dtype = place.dtype
        if self.padding_mode == "reflection":
            span = cast(index(size - 1 if self.align_corners else size), dtype)
            start = const(0 if self.align_corners else -0.5, dtype)
            way = ctx.let(apply("abs", sub(place, start)))
            extra = ctx.let(apply("fmod", way, span))
            back = apply("eq", apply("mod", _floor(apply("div", way, span)), const(2, dtype)), const(0, dtype))
            turned = select(back, add(extra, start), add(sub(span, extra), start))
            place = select(apply("eq", span, const(0, dtype)), const(0, dtype), turned)
        return _minimum(_maximum(place, const(0, dtype)), cast(index(size - 1), dtype))

    def _taps(self, ctx: ElementContext, place: Expr) -> Taps:
        """Positions (floats) with their shares."""
        low = ctx.let(_floor(place))
        part = ctx.let(sub(place, low))
        one = const(1, place.dtype)
        if self.mode == "linear":
            return [(low, sub(one, part)), (ctx.let(add(low, one)), part)]
        steps = [add(low, const(k - 1, place.dtype)) for k in range(4)]
        return [(ctx.let(s), ctx.let(w)) for s, w in zip(steps, cubic_shares(part), strict=True)]

    def reference(self, *operands: Array | None) -> Array:
        x, grid = operand(operands, 0), operand(operands, 1)
        kind = DType.of(x.dtype).compute.numpy
        sizes, rank = x.shape[2:], x.ndim - 2
        given = [grid[..., rank - 1 - a].astype(kind) for a in range(rank)]
        one = kind.type
        with np.errstate(all="ignore"):
            places = [self._numpy_place(g, one(s), one) for g, s in zip(given, sizes, strict=True)]
            out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
            if 0 in sizes:
                return rounded(out, DType.of(x.dtype))
            taps = [self._numpy_taps(p, s) for p, s in zip(places, sizes, strict=True)]
            for chosen in product(*taps):
                out += self._numpy_read(exact(x), chosen)
        return rounded(out, DType.of(x.dtype))

    def _numpy_place(self, given: np.ndarray, size: Any, one: Any) -> np.ndarray:
        if self.align_corners:
            return np.asarray((given + one(1)) * one(0.5) * (size - one(1)))
        return np.asarray(((given + one(1)) * size - one(1)) * one(0.5))

    def _numpy_taps(self, place: np.ndarray, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
        if self.mode == "cubic":
            low = np.floor(place)
            shares = cubic_weights((place - low).astype(np.float64))
            return [(self._numpy_padded(low + k - 1, size), s) for k, s in enumerate(shares)]
        place = self._numpy_padded(place, size)
        if self.mode == "nearest":
            return [(np.round(place), np.ones(place.shape))]
        low = np.floor(place)
        part = (place - low).astype(np.float64)
        return [(low, 1 - part), (low + 1, part)]

    def _numpy_padded(self, place: np.ndarray, size: int) -> np.ndarray:
        if self.padding_mode == "zeros":
            return place
        if self.padding_mode == "reflection":
            span, start = (size - 1, 0.0) if self.align_corners else (size, -0.5)
            if span == 0:
                return np.zeros_like(place)
            way = np.abs(place - place.dtype.type(start))
            extra, turns = np.fmod(way, place.dtype.type(span)), np.floor(way / place.dtype.type(span))
            place = np.where(turns % 2 == 0, extra + start, span - extra + start).astype(place.dtype)
        return np.asarray(np.clip(place, 0, size - 1))

    @staticmethod
    def _numpy_read(x: np.ndarray, chosen: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        ok = np.all([(p >= 0) & (p <= s - 1) for (p, _), s in zip(chosen, x.shape[2:], strict=True)], axis=0)
        found = [np.clip(np.nan_to_num(p), 0, s - 1).astype(int) for (p, _), s in zip(chosen, x.shape[2:], strict=True)]
        batch = np.arange(x.shape[0]).reshape(-1, *(1,) * (found[0].ndim - 1))
        values = np.moveaxis(x[(batch, slice(None), *found)], -1, 1)
        share = np.prod([w for _, w in chosen], axis=0)
        return np.asarray(share[:, None] * np.where(ok[:, None], values, 0.0))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        sizes = ({"n": 0, "m": 3}, {"n": 1, "m": 1}, {"n": 5, "m": 2}, {"n": 4, "m": 7})

        def sample(op: GridSample, x: TensorType, grid: TensorType) -> Sample:
            make = arrays(uniform(-1, 1), uniform(-1.6, 1.6), types=(x, grid))
            return Sample(op, (x, grid), sizes, make=make, rtol=10 * rtol(x.dtype), atol=20 * rtol(x.dtype))

        for dtype in (DType.f32, DType.f64):
            for mode, padding, align in product(("linear", "cubic"), ("zeros", "border", "reflection"), (False, True)):
                x, grid = tensor(dtype, 2, 3, "n", 6), tensor(dtype, 2, "m", 4, 2)
                yield sample(cls(mode, padding, align), x, grid)  # type: ignore[arg-type]
        for padding in ("zeros", "border", "reflection"):
            deep = tensor("f32", "m", 2, 3, "n", 5), tensor("f32", "m", 2, 1, 7, 3)
            yield sample(cls("linear", padding), *deep)  # type: ignore[arg-type]
            yield sample(cls("nearest", padding), *deep)  # type: ignore[arg-type]
        for dtype in (DType.f16, DType.bf16):
            yield sample(cls(), tensor(dtype, 1, 2, "n", 3), tensor(dtype, 1, 5, "m", 2))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x, grid = tensor("f32", 2, 3, "n", 6), tensor("f32", 2, "m", 4, 2)
        yield Refused(cls(), (x, tensor("f32", 2, "m", 4, 3)), "the grid of `grid_sample` is [batch, h, w, 2]; y is")
        yield Refused(
            cls(), (x, tensor("f32", 1, "m", 4, 2)), "the batch sizes of `grid_sample` do not match: 2 against 1"
        )
        yield Refused(
            cls(), (x, tensor("f64", 2, "m", 4, 2)), "the dtypes of `grid_sample` do not match: f32 against f64"
        )
        yield Refused(cls(), (tensor("i32", 2, 3, 4, 4), grid), "`grid_sample` takes floating-point tensors")
        deep = tensor("f32", 2, 3, 4, 4, 4), tensor("f32", 2, 1, 2, 3, 3)
        yield Refused(cls("cubic"), deep, "`grid_sample` takes tensors [batch, channels, spatial...] of rank 4 to 4")
