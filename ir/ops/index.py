"""Operators that read at indices which are data.

Negative indices count from the end; one that is out of range fails the call, and the reference raises IndexError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dims import Dim
from ..facts import Compare, InRange
from ..loops import Expr
from ..op import Array, ElementContext, ElementOp, InferContext, Input, Refused, Sample
from ..scalar import apply, both, cast, const, index
from ..types import DType, TensorType, tensor
from ._common import SIZES, operand, rounded, want_int
from ._shape import checked_index, guarded, require_fact, require_size, size_value, whole
from .shape import DTYPES

INDICES = (DType.i64, DType.i32, DType.i16, DType.i8, DType.u8)


def drawn(
    x: TensorType, indices: TensorType, axis: int, negative: bool = True
) -> Callable[[np.random.Generator, dict[str, int]], tuple[Array | None, ...]]:
    """A `Sample.make`: x at random, indices in range for its axis (0 where nothing is in range)."""

    def make(rng: np.random.Generator, binding: dict[str, int]) -> tuple[Array | None, ...]:
        shape, where = ([d.evaluate(binding) for d in t.dims] for t in (x, indices))
        size = shape[axis]
        low = -size if negative and indices.dtype.is_signed else 0
        at = rng.integers(low, size, where) if size else np.zeros(where)
        return (
            rng.integers(0, 2 if x.dtype.is_bool else 90, shape).astype(x.dtype.numpy),
            at.astype(indices.dtype.numpy),
        )

    return make


def require_range(indices: Array, low: int, high: int, what: str) -> None:
    """IndexError for an index that is not in low..high-1."""
    wide = indices.astype(np.int64)
    bad = wide[(wide < low) | (wide >= high)]
    if bad.size:
        raise IndexError(f"index {bad.flat[0]} of {what} is out of range {low}..{high - 1}")


@dataclass(frozen=True)
class Take(ElementOp):
    """The slices of x along `axis` that the indices name, in their order and shape: `axis` gives way to their axes."""

    name: ClassVar[str] = "take"
    family: ClassVar[str] = "index"
    signature: ClassVar[tuple[str, ...]] = ("x", "indices")
    fallible: ClassVar[bool] = True
    several: ClassVar[bool] = True  # may the indices have any rank?

    axis: int = 0

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, indices = operand(operands, 0), operand(operands, 1)
        want_int(ctx, 1, indices)
        axis = ctx.axis(self.axis, x.rank)
        return TensorType(x.dtype, (*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :]))

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        x, indices = operand(inputs, 0), operand(inputs, 1)
        axis, rank = self.axis % x.type.rank, indices.type.rank
        size = x.type.dims[axis]
        i = checked_index(ctx, indices(*at[axis : axis + rank]), size, axis, self.name)
        value = x(*at[:axis], i, *at[axis + rank :])
        return guarded(ctx.facts, size, value, const(0, x.type.dtype))

    def reference(self, *operands: Array | None) -> Array:
        x, indices = operand(operands, 0), operand(operands, 1)
        size, axis = x.shape[self.axis], self.axis % x.ndim
        shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
        if 0 in shape:  # of a result of no elements there is none that an index could be wrong for
            return np.zeros(shape, x.dtype)
        require_range(indices, -size, size, f"`{self.name}`")
        return np.array(np.take(x, indices.astype(np.int64), axis=self.axis))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        def sample(x: TensorType, indices: TensorType, axis: int, **more: object) -> Sample:
            return Sample(cls(axis), (x, indices), SIZES, make=drawn(x, indices, axis), **more)  # type: ignore[arg-type]

        for dtype in DTYPES:
            yield sample(tensor(dtype, 6, 3), tensor("i64", "n"), 0)
        for dtype in INDICES:
            yield sample(tensor("f32", 4, "m"), tensor(dtype, "n"), 0)
        for axis in (0, 1, -1):
            yield sample(tensor("f32", "n", 5, "n"), tensor("i32", "n"), axis)
        yield sample(tensor("f32", "m", 7, 2), tensor("i64", "n", 3) if cls.several else tensor("i64", "n"), 1)
        yield sample(tensor("f32", "n"), tensor("i64", "m"), 0, facts=(InRange("n", 0),))  # some are out of range
        if cls.several:
            yield sample(tensor("f32", 7, "m"), tensor("i64"), 0)
        x, bad = tensor("f32", "n", 2), tensor("i64", 3)
        yield Sample(cls(0), (x, bad), SIZES, make=_one_beyond)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x, i = tensor("f32", "n", 4), tensor("i64", "m")
        yield Refused(cls(2), (x, i), f"axis 2 of `{cls.name}` is out of range for rank 2")
        yield Refused(cls(0), (tensor("f32"), i), f"axis 0 of `{cls.name}` is out of range for rank 0")
        yield Refused(cls(0), (x, tensor("f32", "m")), f"`{cls.name}` takes integer tensors; y is f32[m]")


def _one_beyond(rng: np.random.Generator, binding: dict[str, int]) -> tuple[Array | None, ...]:
    n = binding["n"]
    return np.ones((n, 2), np.float32), np.array([0, n, -1])


@dataclass(frozen=True)
class IndexSelect(Take):
    """`take` with indices of rank 1, by torch's name."""

    name: ClassVar[str] = "index_select"
    several: ClassVar[bool] = False

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        indices = operand(operands, 1)
        ctx.require(
            indices.rank == 1,
            f"`index_select` takes indices of rank 1; {ctx.name(1)} is {indices}",
            help="use `take` for any rank",
        )
        return super().infer(ctx, *operands)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield from super().refused()
        operands = (tensor("f32", "n", 4), tensor("i64", "m", 2))
        yield Refused(cls(0), operands, "`index_select` takes indices of rank 1; y is i64[m, 2]")


@dataclass(frozen=True)
class Embedding(ElementOp):
    """The rows of a table [rows, features] that the indices name: [indices..., features]."""

    name: ClassVar[str] = "embedding"
    family: ClassVar[str] = "index"
    signature: ClassVar[tuple[str, ...]] = ("table", "indices")
    fallible: ClassVar[bool] = True

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        table, indices = operand(operands, 0), operand(operands, 1)
        if table.dtype.is_int and not indices.dtype.is_int:
            swapped = f"`embedding({ctx.name(1)}, {ctx.name(0)})`"
            raise ctx.fail("the table of `embedding` comes before the indices", help=f"write {swapped}")
        ctx.require(table.rank == 2, f"`embedding` looks up the rows of a table of rank 2; {ctx.name(0)} is {table}")
        want_int(ctx, 1, indices)
        return TensorType(table.dtype, (*indices.dims, table.dims[1]))

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        table, indices = operand(inputs, 0), operand(inputs, 1)
        rows = table.type.dims[0]
        i = checked_index(ctx, indices(*at[:-1]), rows, 0, "embedding")
        return guarded(ctx.facts, rows, table(i, at[-1]), const(0, table.type.dtype))

    def reference(self, *operands: Array | None) -> Array:
        return Take(0).reference(*operands)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in (DType.f32, DType.f16, DType.bf16):
            table, indices = tensor(dtype, 9, "m"), tensor("i64", "n")
            yield Sample(cls(), (table, indices), SIZES, make=drawn(table, indices, 0))
        table, indices = tensor("f32", 30, 8), tensor("i32", "m", "n")
        yield Sample(cls(), (table, indices), SIZES, make=drawn(table, indices, 0))
        table, indices = tensor("f32", "n", 8), tensor("i64", "m", "n")
        yield Sample(cls(), (table, indices), SIZES, make=drawn(table, indices, 0))
        table, one = tensor("f32", 30, "n"), tensor("i64")
        yield Sample(cls(), (table, one), SIZES, make=drawn(table, one, 0))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        i = tensor("i64", "m")
        yield Refused(cls(), (tensor("f32", "n"), i), "`embedding` looks up the rows of a table of rank 2; x is f32[n]")
        yield Refused(cls(), (tensor("f32", "n", 4), tensor("f32", "m")), "`embedding` takes integer tensors; y is")


@dataclass(frozen=True)
class Gather(ElementOp):
    """x at the position of each index, but with the index for the coordinate along `axis`: the shape of the indices.

    Along the other axes the indices may be shorter than x (torch.gather).
    """

    name: ClassVar[str] = "gather"
    family: ClassVar[str] = "index"
    signature: ClassVar[tuple[str, ...]] = ("x", "indices")
    fallible: ClassVar[bool] = True

    axis: int = 0

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, indices = operand(operands, 0), operand(operands, 1)
        want_int(ctx, 1, indices)
        axis = ctx.axis(self.axis, x.rank)
        check_inside(ctx, x, indices, axis)
        return TensorType(x.dtype, indices.dims)

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        x, indices = operand(inputs, 0), operand(inputs, 1)
        axis = self.axis % x.type.rank
        size = x.type.dims[axis]
        i = checked_index(ctx, indices(*at), size, axis, "gather")
        return guarded(ctx.facts, size, x(*at[:axis], i, *at[axis + 1 :]), const(0, x.type.dtype))

    def reference(self, *operands: Array | None) -> Array:
        x, indices = operand(operands, 0), operand(operands, 1)
        size, axis = x.shape[self.axis], self.axis % x.ndim
        require_range(indices, -size, size, "`gather`")
        if indices.size == 0:
            return np.zeros(indices.shape, x.dtype)
        near = x[tuple(slice(None) if d == axis else slice(n) for d, n in enumerate(indices.shape))]
        wide = indices.astype(np.int64)
        return np.take_along_axis(near, np.where(wide < 0, wide + size, wide), axis)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        def sample(x: TensorType, indices: TensorType, axis: int) -> Sample:
            return Sample(cls(axis), (x, indices), SIZES, make=drawn(x, indices, axis))

        for dtype in DTYPES:
            yield sample(tensor(dtype, 6, "m"), tensor("i64", "n", "m"), 0)
        for axis in (0, 1, -1):
            yield sample(tensor("f32", 5, 6, 7), tensor("i32", 3, 4, 5), axis)
        yield sample(tensor("f32", "n", 6, "m"), tensor("i64", "n", "n", "m"), 1)
        yield sample(tensor("f32", "n", "n"), tensor("i64", "n", "m"), 1)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n", 4)
        yield Refused(cls(2), (x, tensor("i64", "n", 4)), "axis 2 of `gather` is out of range for rank 2")
        yield Refused(cls(), (x, tensor("i64", "n")), "the ranks of `gather` do not match: x is f32[n, 4], y is i64[n]")
        longer = "the indices of `gather` reach beyond axis 1: 5 against 4"
        yield Refused(cls(), (x, tensor("i64", "n", 5)), longer)
        yield Refused(cls(1), (x, tensor("i64", "m", 4)), "the indices of `gather` reach beyond axis 0: m against n")
        yield Refused(cls(1), (x, tensor("bool", "n", 4)), "`gather` takes integer tensors; y is bool[n, 4]")


def check_inside(ctx: InferContext, x: TensorType, indices: TensorType, axis: int) -> None:
    """Refuses indices that are longer than x along another axis than `axis`."""
    shown = f"{ctx.name(0)} is {x}, {ctx.name(1)} is {indices}"
    ctx.require(x.rank == indices.rank, f"the ranks of `{ctx.op_name}` do not match: {shown}")
    for d, (have, want) in enumerate(zip(x.dims, indices.dims, strict=True)):
        if d != axis:
            message = f"the indices of `{ctx.op_name}` reach beyond axis {d}: {want} against {have}"
            require_fact(ctx, Compare("<=", want, have), message)


@dataclass(frozen=True)
class OneHot(ElementOp):
    """1 at the position along a new last axis of `num_classes` that each index names, else 0; none may be negative."""

    name: ClassVar[str] = "one_hot"
    family: ClassVar[str] = "index"
    signature: ClassVar[tuple[str, ...]] = ("indices",)
    fallible: ClassVar[bool] = True

    num_classes: Dim | int
    dtype: DType = DType.i64

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        indices = operand(operands, 0)
        want_int(ctx, 0, indices)
        size = Dim.of(self.num_classes)
        require_size(ctx, size, "`num_classes` of `one_hot`")
        return TensorType(self.dtype, (*indices.dims, size))

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        size = Dim.of(self.num_classes)
        i = ctx.let(cast(operand(inputs, 0)(*at[:-1]), DType.i64))
        ok = both(apply("ge", i, index(0)), apply("lt", i, index(size)))
        ctx.require(ok, f"an index of `one_hot` is {{value}}, not in 0..{size_value(size - 1)}", i)
        return cast(apply("eq", i, at[-1]), self.dtype)

    def reference(self, *operands: Array | None) -> Array:
        indices, size = operand(operands, 0), whole(self.num_classes)
        if size:  # of no classes there is no element that could be wrong
            require_range(indices, 0, size, "`one_hot`")
        return rounded(indices.astype(np.int64)[..., None] == np.arange(size), self.dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        def draw(t: TensorType) -> Callable[[np.random.Generator, dict[str, int]], tuple[Array | None, ...]]:
            return lambda rng, b: (rng.integers(0, 2, [d.evaluate(b) for d in t.dims]).astype(t.dtype.numpy),)

        for dtype in (DType.i64, DType.f32, DType.f16, DType.bool):
            t = tensor("i64", "n", "m")
            yield Sample(cls(5, dtype), (t,), SIZES, make=draw(t))
        for dtype in INDICES:
            t = tensor(dtype, "n")
            yield Sample(cls(Dim.of("m") + 1), (t,), SIZES, make=draw(t))
        bad = tensor("i64", 2)
        yield Sample(cls(Dim.of("n")), (bad,), SIZES, make=lambda rng, b: (np.array([0, b["n"]]),))
        yield Sample(cls(3), (bad,), make=lambda rng, b: (np.array([0, -1]),))
        yield Sample(cls(4), (tensor("i64"),), make=lambda rng, b: (np.array(2),))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(5), (tensor("f32", "n"),), "`one_hot` takes integer tensors; x is f32[n]")
        yield Refused(cls(Dim.of("n") - 1), (tensor("i64", "n"),), "`num_classes` of `one_hot` may be negative: n - 1")
