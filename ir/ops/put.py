"""Operators that write rows or a slice into a copy of a tensor (or into the tensor itself, where nobody reads the old).

Indices that are data count from the end when negative; when one is out of range the call fails and nothing is written.
Writes to one place happen in the order of the indices, so that the last one stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dims import Dim
from ..facts import Compare
from ..loops import Expr
from ..op import Array, Array1, InferContext, KernelBuilder, KernelOp, Refused, Sample
from ..scalar import add, index, mul
from ..types import DType, TensorType, tensor
from ._checked import Guard, Indices, check_first
from ._common import SIZES, operand, rtol, want_int, want_number
from ._shape import (
    LANES,
    ONE,
    collapsed,
    copy_array,
    nest,
    offset,
    pairs,
    require_fact,
    require_sizes,
    tiles,
    whole,
)
from .index import require_range
from .scatter import Maker, same_as_first, stored, stored_array
from .shape import DTYPES


@dataclass(frozen=True)
class IndexPut(KernelOp):
    """x with `values` written at x[indices[0], indices[1], ...]: the indices broadcast and stand for the leading axes.

    `values` broadcasts to the shape of the indices followed by the other axes of x.  `accumulate` adds instead.
    """

    name: ClassVar[str] = "index_put"
    family: ClassVar[str] = "scatter"
    signature: ClassVar[tuple[str, ...]] = ("x", "values", "index", "indices*")
    fallible: ClassVar[bool] = True
    in_place: ClassVar[int | None] = 0

    accumulate: bool = False

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, values, *indices = (operand(operands, i) for i in range(len(operands)))
        for i, t in enumerate(indices):
            want_int(ctx, i + 2, t)
        ctx.require(
            len(indices) <= x.rank, f"`index_put` has {len(indices)} indices for the {x.rank} axes of {ctx.name(0)}"
        )
        if self.accumulate:
            want_number(ctx, 0, x)
        same_as_first(ctx, x, values, 1)
        shape = (*ctx.broadcast(*(t.dims for t in indices)), *x.dims[len(indices) :])
        require_sizes(ctx, values, shape, 1)
        return x

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (out,), (x, values) = outputs, (operand(inputs, i) for i in range(2))
        given = enumerate(operand(inputs, i) for i in range(2, len(inputs)))
        indices = tuple(Indices(array, axis, x.type.dims[axis]) for axis, array in given)
        guard = check_first(k, self.name, indices)
        copy_array(k, x, out, guard)
        _Puts(k, out, values, indices, self.accumulate).run(guard)

    def reference(self, *operands: Array | None) -> Array:
        x, values, *indices = (operand(operands, i) for i in range(len(operands)))
        for axis, i in enumerate(indices):
            require_range(i, -x.shape[axis], x.shape[axis], "`index_put`")
        out, rows = np.array(x), np.broadcast_arrays(*(i.astype(np.int64) for i in indices))
        spread = np.broadcast_to(values, (*rows[0].shape, *x.shape[len(indices) :]))
        for at in np.ndindex(*rows[0].shape):
            to = tuple(int(r[at]) for r in rows)
            out[to] = stored_array(out[to], spread[at], "add" if self.accumulate else None)
        return out

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in DTYPES:
            types: tuple[TensorType, ...] = (tensor(dtype, 5, "m"), tensor(dtype, "n", "m"), tensor("i64", "n"))
            yield Sample(cls(), types, SIZES, make=_put(types))
        for dtype in (DType.f32, DType.f16, DType.i64):
            types = (tensor(dtype, 5, "m"), tensor(dtype, "n", "m"), tensor("i64", "n"))
            yield Sample(cls(True), types, SIZES, make=_put(types), rtol=rtol(dtype))
        x = tensor("f32", 4, 3, "m", 2)
        cases: list[tuple[TensorType, ...]] = [
            (x, tensor("f32", "n", "m", 2), tensor("i64", "n"), tensor("i32", "n")),
            (x, tensor("f32", "n", 5, "m", 2), tensor("i64", "n", 1), tensor("i64", 5)),
            (x, tensor("f32", "m", 1), tensor("i64", "n"), tensor("i64", "n")),
            (x, tensor("f32"), tensor("i64", "n")),
            (tensor("f32", 4, 3), tensor("f32", "n"), tensor("i64", "n"), tensor("i64", "n")),
            (tensor("f32", 4, 3), tensor("f32", "n", "m"), tensor("i64", "n", 1), tensor("i16", "m")),
            (tensor("f32", 4), tensor("f32", 1), tensor("i64", "n", 1)),
            (tensor("f32", 4, "m"), tensor("f32", "m"), tensor("i64")),
        ]
        for types in cases:
            yield Sample(cls(), types, SIZES, make=_put(types))
            yield Sample(cls(True), types, SIZES, make=_put(types), atol=1e-5)
        beyond = (tensor("f32", "n", 2), tensor("f32", "m", 2), tensor("i64", "m"))
        yield Sample(cls(), beyond, SIZES, make=_put(beyond, 1))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x, i = tensor("f32", "n", 4), tensor("i64", "m")
        yield Refused(
            cls(), (x, tensor("f32", "m", 3), i), "the values of `index_put` do not fit: [m, 3] against [m, 4]"
        )
        yield Refused(
            cls(), (x, tensor("f32", 1, "m", 4), i), "the values of `index_put` do not fit: [1, m, 4] against"
        )
        yield Refused(cls(), (x, tensor("f64"), i), "the dtypes of `index_put` do not match: f32 against f64")
        yield Refused(cls(), (x, tensor("f32"), i, i, i), "`index_put` has 3 indices for the 2 axes of x")
        yield Refused(cls(), (x, tensor("f32"), x), "`index_put` takes integer tensors; z is f32[n, 4]")
        yield Refused(
            cls(), (x, tensor("f32"), i, tensor("i64", "n")), "the sizes of `index_put` do not match: m against"
        )
        flags = tensor("bool", "n")
        yield Refused(cls(True), (flags, tensor("bool"), i), "`index_put` takes numbers; x is bool[n]")


def _put(types: Sequence[TensorType], beyond: int = 0) -> Maker:
    def make(rng: np.random.Generator, binding: dict[str, int]) -> tuple[Array | None, ...]:
        shapes = [tuple(d.evaluate(binding) for d in t.dims) for t in types]
        out: list[Array | None] = []
        for i, (t, shape) in enumerate(zip(types, shapes, strict=True)):
            size = shapes[0][i - 2] + beyond if i >= 2 else 0
            low, high = (-size, max(size, 1)) if i >= 2 else (0, 2 if t.dtype.is_bool else 9)
            out.append(rng.integers(low, high, shape).astype(t.dtype.numpy))
        return tuple(out)

    return make


@dataclass(frozen=True)
class _Puts:
    """The writes of an index_put: over the rows that the indices name, serially, and along each row."""

    k: KernelBuilder
    out: Array1
    values: Array1
    indices: tuple[Indices, ...]
    accumulate: bool

    def run(self, guard: Guard) -> None:
        rest = self.out.type.dims[len(self.indices) :]
        if not rest:
            guard(lambda: self._all(lambda write: write(())))
            return

        def columns(start: Expr, stop: Expr) -> None:
            def row(write: Callable[[tuple[Expr, ...]], None]) -> None:
                def lanes(inner: tuple[Expr, ...]) -> None:
                    self.k.loop("c", start, stop, lambda c: write((*inner, c)), "vector")

                nest(self.k, rest[:-1], ["serial"] * (len(rest) - 1), lanes)

            guard(lambda: self._all(row))

        tiles(self.k, rest[-1], LANES, columns)

    def _all(self, row: Callable[[Callable[[tuple[Expr, ...]], None]], None]) -> None:
        """Calls `row` for every row with the function that writes at a position in it."""
        k, x = self.k, self.out.type
        shape = self._rows()

        def one(position: tuple[Expr, ...]) -> None:
            to = [i.place(k, spread_offset(i.array.type.dims, position)) for i in self.indices]

            def write(inner: tuple[Expr, ...]) -> None:
                at = k.let(offset(x.dims, (*to, *inner)))
                new = k.load(self.values.buffer, spread_offset(self.values.type.dims, (*position, *inner)), x.dtype)
                old = k.load(self.out.buffer, at, x.dtype)
                k.store(self.out.buffer, at, stored(old, new, "add" if self.accumulate else None))

            row(write)

        nest(k, shape, ["serial"] * len(shape), one)

    def _rows(self) -> tuple[Dim, ...]:
        """The shape that the indices broadcast to."""
        types = [i.array.type for i in self.indices]
        rank = max(t.rank for t in types)
        shape = [ONE] * rank
        for t in types:
            for d, size in enumerate(t.dims, rank - t.rank):
                shape[d] = size if shape[d] == ONE else shape[d]
        return tuple(shape)


def spread_offset(dims: Sequence[Dim], position: Sequence[Expr]) -> Expr:
    """The offset of the element that stands at a position of a shape that `dims` broadcasts to."""
    tail = position[len(position) - len(dims) :]
    return offset(dims, [index(0) if d == ONE else p for d, p in zip(dims, tail, strict=True)])


@dataclass(frozen=True)
class SliceScatter(KernelOp):
    """x with y written over the positions start, start + step, ... along `axis` (as many as y has)."""

    name: ClassVar[str] = "slice_scatter"
    family: ClassVar[str] = "scatter"
    signature: ClassVar[tuple[str, ...]] = ("x", "y")
    in_place: ClassVar[int | None] = 0

    axis: int
    start: Dim | int = 0
    step: int = 1

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, y = operand(operands, 0), operand(operands, 1)
        ctx.same_dtype(x, y)
        axis = ctx.axis(self.axis, x.rank)
        ctx.require(
            y.rank == x.rank, f"the ranks of `slice_scatter` do not match: {ctx.name(0)} is {x}, {ctx.name(1)} is {y}"
        )
        ctx.require(self.step > 0, f"the step of `slice_scatter` is {self.step}; it must be above 0")
        start, count = Dim.of(self.start), y.dims[axis]
        require_fact(ctx, Compare("<=", 0, start), f"the start of `slice_scatter` is {start}, which may be negative")
        end = start + (count - 1) * self.step + 1
        fits = Compare("<=", end, x.dims[axis])
        message = f"`slice_scatter` writes up to position {end} of axis {axis}, which has size {x.dims[axis]}"
        require_fact(ctx, fits, message)
        for d, (a, b) in enumerate(zip(x.dims, y.dims, strict=True)):
            if d != axis:
                ctx.require_equal(a, b, f"the sizes of axis {d} of `slice_scatter`")
        return x

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (out,), (x, y) = outputs, (operand(inputs, i) for i in range(2))
        copy_array(k, x, out)
        axis, dtype = self.axis % x.type.rank, x.type.dtype
        outer, size, inner = collapsed(x.type, axis)
        count = y.type.dims[axis]

        def put(o: Expr, i: Expr, c: Expr) -> None:
            row = add(mul(o, index(size)), add(index(Dim.of(self.start)), mul(i, index(self.step))))
            source = add(mul(add(mul(o, index(count)), i), index(inner)), c)
            k.store(out.buffer, add(mul(row, index(inner)), c), k.load(y.buffer, source, dtype))

        if inner == ONE:
            nest(k, (outer, count), ("parallel", "vector"), lambda p: put(p[0], p[1], index(0)))
        else:
            pairs(k, outer, count, lambda o, i: k.loop("c", index(0), index(inner), lambda c: put(o, i, c), "vector"))

    def reference(self, *operands: Array | None) -> Array:
        x, y = operand(operands, 0), operand(operands, 1)
        out, axis, start = np.array(x), self.axis % x.ndim, whole(self.start)
        places = slice(start, start + y.shape[axis] * self.step, self.step)
        out[(slice(None),) * axis + (places,)] = y
        return out

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        n, m = Dim.of("n"), Dim.of("m")
        sizes = SIZES
        for dtype in DTYPES:
            yield Sample(cls(0, n), (tensor(dtype, n + m, "m"), tensor(dtype, "m", "m")), sizes)
        yield Sample(cls(1, 2), (tensor("f32", "n", m + 4), tensor("f32", "n", "m")), sizes)
        yield Sample(cls(-2, n), (tensor("f32", 2, n + m, "m"), tensor("f32", 2, "m", "m")), sizes)
        yield Sample(cls(0, 1, 3), (tensor("f32", 3 * n + 1, "m"), tensor("f32", "n", "m")), sizes)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        n, x = Dim.of("n"), tensor("f32", "n", 4)
        yield Refused(cls(0, 1), (x, x), "`slice_scatter` writes up to position n + 1 of axis 0, which has size n")
        yield Refused(cls(1, n - 1), (x, x), "the start of `slice_scatter` is n - 1, which may be negative")
        yield Refused(
            cls(0), (x, tensor("f32", "n", 3)), "the sizes of axis 1 of `slice_scatter` do not match: 4 against"
        )
        yield Refused(
            cls(0), (x, tensor("f32", "n")), "the ranks of `slice_scatter` do not match: x is f32[n, 4], y is"
        )
        yield Refused(cls(0), (x, tensor("f16", "n", 4)), "the dtypes of `slice_scatter` do not match: f32 against f16")
        yield Refused(cls(0, step=0), (x, x), "the step of `slice_scatter` is 0; it must be above 0")
        yield Refused(cls(2), (x, x), "axis 2 of `slice_scatter` is out of range for rank 2")
