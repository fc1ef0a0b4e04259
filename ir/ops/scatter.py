"""Operators that write into a copy of a tensor (or into the tensor itself, where nobody reads the old one).

Indices that are data count from the end when negative; when one is out of range the call fails and nothing is written.
Writes to one place happen in the order of the indices, so that the last one stays.  f16 and bf16 are rounded after
every addition, as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ..dims import Dim
from ..facts import Compare
from ..loops import Expr
from ..op import Array, Array1, InferContext, KernelBuilder, KernelOp, Refused, Sample
from ..scalar import add, apply, cast, const, index, mul
from ..types import DType, TensorType, tensor
from ._checked import Indices, check_first
from ._common import SIZES, operand, rtol, want_int, want_number
from ._shape import LANES, copy_array, nest, offset, require_fact, tiles
from .index import check_inside, require_range
from .shape import DTYPES

Maker = Callable[[np.random.Generator, dict[str, int]], tuple[Array | None, ...]]
_COMBINERS = {"add": "add", "mean": "add", "mul": "mul", "max": "maximum", "min": "minimum"}


def stored(old: Expr, new: Expr, combiner: str | None) -> Expr:
    """What is stored where `new` arrives at `old`; `combiner` None replaces."""
    if combiner is None:
        return new
    wide = old.dtype.compute
    return cast(apply(combiner, cast(old, wide), cast(new, wide)), old.dtype)


def stored_array(old: Array, new: Array, combiner: str | None) -> object:
    if combiner is None:
        return new
    wide = DType.of(old.dtype).compute.numpy
    with np.errstate(all="ignore"):
        function = np.multiply if combiner == "mul" else getattr(np, combiner)
        return function(old.astype(wide), new.astype(wide)).astype(old.dtype)


@dataclass(frozen=True)
class Scatter(KernelOp):
    """x with each of `updates` put at its own position, but with its index for the coordinate along `axis`.

    The inverse of `gather`: the indices may be shorter than x along the other axes, and the updates longer than the
    indices (what is beyond is not read), or one number for all.  `reduce` says what happens to the old value: it is
    replaced, or combined with the updates; `mean` is over it and its updates, towards -inf for integers.
    """

    name: ClassVar[str] = "scatter"
    family: ClassVar[str] = "scatter"
    signature: ClassVar[tuple[str, ...]] = ("x", "indices", "updates")
    fallible: ClassVar[bool] = True
    in_place: ClassVar[int | None] = 0

    axis: int
    reduce: Literal["set", "add", "mul", "max", "min", "mean"] = "set"

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, indices, updates = (operand(operands, i) for i in range(3))
        want_int(ctx, 1, indices)
        axis = ctx.axis(self.axis, x.rank)
        if self.reduce != "set":
            want_number(ctx, 0, x)
        same_as_first(ctx, x, updates, 2)
        check_inside(ctx, x, indices, axis)
        if updates.rank:
            shown = f"{ctx.name(1)} is {indices}, {ctx.name(2)} is {updates}"
            ctx.require(updates.rank == indices.rank, f"the ranks of `scatter` do not match: {shown}")
            for d, (need, have) in enumerate(zip(indices.dims, updates.dims, strict=True)):
                message = f"`scatter` has fewer updates than indices along axis {d}: {have} against {need}"
                require_fact(ctx, Compare("<=", need, have), message)
        return x

    # -- the kernel

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (out,), (x, indices, updates) = outputs, (operand(inputs, i) for i in range(3))
        axis = self.axis % x.type.rank
        dims, along = indices.type.dims, Indices(indices, axis, x.type.dims[axis])
        guard = check_first(k, self.name, [along])
        copy_array(k, x, out, guard)
        body = _Writes(k, out, along, updates, _COMBINERS.get(self.reduce))

        def row(position: tuple[Expr, ...]) -> None:
            k.loop("a", index(0), index(dims[axis]), lambda a: body.write((*position, a)))

        def outer(position: tuple[Expr, ...]) -> None:
            if self.reduce == "mean":
                guard(lambda: body.mean(position))
            elif axis == len(dims) - 1:
                guard(lambda: row(position))
            else:
                tiles(k, dims[-1], LANES, lambda lo, hi: guard(lambda: body.columns(position, lo, hi)))

        nest(k, dims[:axis], ["parallel"] * axis, outer)

    # -- numpy

    def reference(self, *operands: Array | None) -> Array:
        x, indices, updates = (operand(operands, i) for i in range(3))
        axis, size = self.axis % x.ndim, x.shape[self.axis]
        require_range(indices, -size, size, "`scatter`")
        out, count = np.array(x), np.ones(x.shape, np.int64)
        for at in np.ndindex(*indices.shape):
            to = (*at[:axis], int(indices[at]), *at[axis + 1 :])
            out[to] = stored_array(out[to], updates[at] if updates.ndim else updates, _COMBINERS.get(self.reduce))
            count[to] += 1
        if self.reduce != "mean":
            return out
        wide = out.astype(DType.of(x.dtype).compute.numpy)
        divided = wide / count.astype(wide.dtype) if wide.dtype.kind == "f" else wide // count
        return np.asarray(divided).astype(x.dtype)

    # -- samples

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in (*DTYPES, DType.i32):
            kinds = ("set",) if dtype.is_bool else ("set", "add", "mul", "max", "min", "mean")
            for reduce in kinds:
                types: tuple[TensorType, ...] = (
                    tensor(dtype, 4, "m"),
                    tensor("i64", "n", "m"),
                    tensor(dtype, "n", "m"),
                )
                yield Sample(cls(0, reduce), types, SIZES, make=_drawn(types, 0), rtol=rtol(dtype))  # type: ignore[arg-type]
        for axis in (0, 1, -1):
            types = (tensor("f32", "n", 5, 3), tensor("i32", "n", 5, 2), tensor("f32", "n", 6, 3))
            if axis == 0:
                types = (tensor("f32", 4, "n", 3), tensor("i32", "m", "n", 2), tensor("f32", "m", "n", 3))
            yield Sample(cls(axis, "add"), types, SIZES, make=_drawn(types, axis))
            yield Sample(cls(axis), types, SIZES, make=_drawn(types, axis))
        types = (tensor("f32", "n"), tensor("i64", "n"), tensor("f32"))
        yield Sample(cls(0, "add"), types, SIZES, make=_drawn(types, 0))
        beyond = (tensor("f32", "n", 2), tensor("i64", "m", 2), tensor("f32", "m", 2))
        yield Sample(cls(0), beyond, SIZES, make=_drawn(beyond, 0, 1))
        yield Sample(cls(0), (tensor("f32", 3), tensor("u8", 2), 2.5), make=lambda rng, b: (
            np.ones(3, np.float32), np.array([2, 0], np.uint8), np.asarray(2.5, np.float32)))  # fmt: skip

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x, i = tensor("f32", "n", 4), tensor("i64", "n", 4)
        yield Refused(cls(2), (x, i, x), "axis 2 of `scatter` is out of range for rank 2")
        yield Refused(cls(1), (x, x, x), "`scatter` takes integer tensors; y is f32[n, 4]")
        yield Refused(cls(1), (x, i, tensor("f64", "n", 4)), "the dtypes of `scatter` do not match: f32 against f64")
        yield Refused(
            cls(1), (x, tensor("i64", "m", 4), x), "the indices of `scatter` reach beyond axis 0: m against n"
        )
        yield Refused(cls(1), (x, i, tensor("f32", "n", 3)), "`scatter` has fewer updates than indices along axis 1: 3")
        yield Refused(cls(1), (x, i, tensor("f32", "n")), "the ranks of `scatter` do not match: y is i64[n, 4], z is")
        flags = tensor("bool", "n", 4)
        yield Refused(cls(1, "add"), (flags, i, flags), "`scatter` takes numbers; x is bool[n, 4]")


def same_as_first(ctx: InferContext, x: TensorType, other: TensorType, position: int) -> None:
    """Refuses values of another dtype than x has."""
    if x.dtype is not other.dtype:
        raise ctx.fail(
            f"the dtypes of `{ctx.op_name}` do not match: {x.dtype} against {other.dtype}",
            label=f"{ctx.name(0)} is {x}, {ctx.name(position)} is {other}",
            help=f"convert one of them: `cast({ctx.name(position)}, dtype={x.dtype})`",
        )


def _drawn(types: Sequence[TensorType], axis: int, beyond: int = 0) -> Maker:
    """A `Sample.make`: small whole numbers, and indices of the second operand in range (or up to `beyond` past it)."""

    def make(rng: np.random.Generator, binding: dict[str, int]) -> tuple[Array | None, ...]:
        shapes = [tuple(d.evaluate(binding) for d in t.dims) for t in types]
        size = shapes[0][axis] + beyond
        out: list[Array | None] = []
        for i, (t, shape) in enumerate(zip(types, shapes, strict=True)):
            low, high = (
                (-size if t.dtype.is_signed else 0, max(size, 1)) if i == 1 else (0, 2 if t.dtype.is_bool else 9)
            )
            out.append(rng.integers(low, high, shape).astype(t.dtype.numpy))
        return tuple(out)

    return make


@dataclass(frozen=True)
class _Writes:
    """The writes of a scatter, over positions of the indices."""

    k: KernelBuilder
    out: Array1
    indices: Indices
    updates: Array1
    combiner: str | None

    @property
    def axis(self) -> int:
        return self.indices.axis

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The shape of the indices."""
        return self.indices.array.type.dims

    def columns(self, position: tuple[Expr, ...], start: Expr, stop: Expr) -> None:
        """A run of the last axis: whatever the indices, its columns are written apart from one another."""
        k, dims = self.k, self.dims[self.axis : -1]

        def rows(inner: tuple[Expr, ...]) -> None:
            k.loop("c", start, stop, lambda c: self.write((*position, *inner, c)), "vector")

        nest(k, dims, ["serial"] * len(dims), rows)

    def write(self, position: tuple[Expr, ...], counts: str | None = None) -> None:
        """One update; in `counts`, over the axes from the scattered one on, the updates of each place."""
        k, dims, dtype = self.k, self.out.type.dims, self.out.type.dtype
        i = self.indices.place(k, offset(self.dims, position))
        to = (*position[: self.axis], i, *position[self.axis + 1 :])
        at = k.let(offset(dims, to))
        source = offset(self.updates.type.dims, position) if self.updates.type.rank else index(0)
        new = k.load(self.updates.buffer, source, dtype)
        k.store(self.out.buffer, at, stored(k.load(self.out.buffer, at, dtype), new, self.combiner))
        if counts is not None:
            own = k.let(offset(dims[self.axis :], to[self.axis :]))
            k.store(counts, own, add(k.load(counts, own, DType.i64), index(1)))

    def mean(self, position: tuple[Expr, ...]) -> None:
        """All updates of one position of the axes before the scattered one, and the division by their number."""
        k, dims, dtype = self.k, self.out.type.dims, self.out.type.dtype
        size = Dim.product(dims[self.axis :])
        counts = k.alloc(DType.i64, size)
        k.loop("c", index(0), index(size), lambda c: k.store(counts, c, const(1, DType.i64)), "vector")
        inner = self.dims[self.axis :]
        nest(k, inner, ["serial"] * len(inner), lambda p: self.write((*position, *p), counts))
        base = mul(offset(dims[: self.axis], position), index(size))

        def divide(c: Expr) -> None:
            at, wide = add(base, c), dtype.compute
            total = cast(k.load(self.out.buffer, at, dtype), wide)
            function = "div" if dtype.is_float else "floordiv"
            k.store(self.out.buffer, at, cast(apply(function, total, cast(k.load(counts, c, DType.i64), wide)), dtype))

        k.loop("c", index(0), index(size), divide, "vector")
