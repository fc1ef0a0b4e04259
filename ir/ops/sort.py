"""Sorting along an axis: sort and argsort by merging, topk by a heap.

All are stable: of equal elements the one with the lower index comes first.  NaN counts as larger than any number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dims import Dim
from ..facts import Compare, InRange
from ..loops import Apply, Expr
from ..op import Array, Array1, InferContext, KernelBuilder, KernelOp, Refused, Sample
from ..scalar import add, apply, both, cast, const, index, mul, select, sub
from ..types import DType, TensorType, tensor
from ._common import FLOATS, INTS, SIZES, arrays, cycled, integers, operand, want_number
from ._shape import collapsed, pairs, require_fact, require_size, whole

RUN = 16
"""Elements that are sorted by insertion before runs are merged: a run stays in registers and L1."""

TRUE, FALSE = const(True, DType.bool), const(False, DType.bool)


def comes_before(a: Expr, b: Expr, descending: bool) -> Expr:
    """Does `a` stand before `b`, whatever their indices?"""
    if descending:
        a, b = b, a
    less = apply("lt", a, b)
    if not a.dtype.is_float:
        return less
    return apply("logical_or", less, both(apply("isnan", b), apply("logical_not", apply("isnan", a))))


def sorted_indices(x: Array, axis: int, descending: bool) -> Array:
    """The positions of the elements in order, by numpy's stable sort (which also puts NaN last)."""
    wide = x.astype(DType.of(x.dtype).compute.numpy)
    if not descending:
        return np.argsort(wide, axis=axis, kind="stable")
    back = np.flip(np.argsort(np.flip(wide, axis), axis=axis, kind="stable"), axis)
    return np.asarray(x.shape[axis] - 1 - back)


# ------------------------------------------------------------------------------------------------------ sorting


@dataclass(frozen=True)
class _Keys:
    """Keys in the compute type and where they came from, in scratch memory."""

    k: KernelBuilder
    keys: str
    places: str
    dtype: DType

    @staticmethod
    def alloc(k: KernelBuilder, dtype: DType, size: Dim) -> _Keys:
        return _Keys(k, k.alloc(dtype, size), k.alloc(DType.i64, size), dtype)

    def key(self, i: Expr) -> Expr:
        return self.k.load(self.keys, i, self.dtype)

    def place(self, i: Expr) -> Expr:
        return self.k.load(self.places, i, DType.i64)

    def put(self, i: Expr, key: Expr, place: Expr) -> None:
        self.k.store(self.keys, i, key)
        self.k.store(self.places, i, place)


def merge_sort(k: KernelBuilder, data: _Keys, size: Dim, descending: bool) -> None:
    """Sorts `data`: runs by insertion, then merged in twos, back and forth between two arrays.  O(n log n)."""
    other = _Keys.alloc(k, data.dtype, size)
    n = index(size)
    k.loop("run", index(0), index(Dim.ceildiv(size, RUN)), lambda r: _insertion_sort(k, data, r, size, descending))
    width = k.local(const(RUN, DType.i64))

    def both_ways() -> None:
        _merge_pass(k, data, other, width, n, descending)
        _merge_pass(k, other, data, mul(width, index(2)), n, descending)
        k.assign(width, mul(width, index(4)))

    k.while_(lambda: apply("lt", width, n), both_ways)


def _insertion_sort(k: KernelBuilder, data: _Keys, run: Expr, size: Dim, descending: bool) -> None:
    start = k.let(mul(run, index(RUN)))
    stop = k.let(Apply("minimum", (add(start, index(RUN)), index(size)), DType.i64))

    def insert(i: Expr) -> None:
        key, place = k.let(data.key(i)), k.let(data.place(i))
        hole = k.local(i)

        def greater() -> Expr:
            left = data.key(sub(hole, index(1)))
            return select(apply("gt", hole, start), comes_before(key, left, descending), FALSE)

        def shift() -> None:
            left = k.let(sub(hole, index(1)))
            data.put(hole, data.key(left), data.place(left))
            k.assign(hole, left)

        k.while_(greater, shift)
        data.put(hole, key, place)

    k.loop("i", start, stop, insert)


def _merge_pass(k: KernelBuilder, source: _Keys, target: _Keys, width: Expr, n: Expr, descending: bool) -> None:
    """Merges every two neighbouring runs of `width`."""
    low = k.local(const(0, DType.i64))

    def pair() -> None:
        middle = k.let(Apply("minimum", (add(low, width), n), DType.i64))
        high = k.let(Apply("minimum", (add(middle, width), n), DType.i64))
        left, right = k.local(low), k.local(middle)

        def step(to: Expr) -> None:
            wins = select(
                apply("lt", left, middle), comes_before(source.key(right), source.key(left), descending), TRUE
            )
            take = k.let(select(apply("lt", right, high), wins, FALSE))
            origin = k.let(select(take, right, left))
            target.put(to, source.key(origin), source.place(origin))
            one = k.let(cast(take, DType.i64))
            k.assign(right, add(right, one))
            k.assign(left, add(left, sub(index(1), one)))

        k.loop("to", low, high, step)
        k.assign(low, high)

    k.while_(lambda: apply("lt", low, n), pair)


@dataclass(frozen=True)
class Ordering(KernelOp):
    """What sort and argsort share; both are stable."""

    family: ClassVar[str] = "sort"

    axis: int = -1
    descending: bool = False

    def check(self, ctx: InferContext, x: TensorType) -> None:
        want_number(ctx, 0, x, f"convert it: `cast({ctx.name(0)}, dtype=u8)`")
        ctx.axis(self.axis, x.rank)

    def write(self, k: KernelBuilder, x: Array1, values: Array1 | None, indices: Array1) -> None:
        outer, size, inner = collapsed(x.type, self.axis % x.type.rank)
        dtype = x.type.dtype

        def row(o: Expr, c: Expr) -> None:
            data = _Keys.alloc(k, dtype.compute, size)

            def at(i: Expr) -> Expr:
                return add(mul(add(mul(o, index(size)), i), index(inner)), c)

            def fetch(i: Expr) -> None:
                data.put(i, cast(k.load(x.buffer, at(i), dtype), dtype.compute), i)

            def give(i: Expr) -> None:
                if values is not None:
                    k.store(values.buffer, at(i), cast(data.key(i), dtype))
                k.store(indices.buffer, at(i), data.place(i))

            k.loop("i", index(0), index(size), fetch, "vector")
            merge_sort(k, data, size, self.descending)
            k.loop("i", index(0), index(size), give, "vector")

        pairs(k, outer, inner, row)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        sizes = (*SIZES, {"n": 200, "m": 3}, {"n": 64, "m": 1})
        for dtype in (*FLOATS, *INTS):
            t = tensor(dtype, "n")
            few = arrays(integers(0 if dtype is DType.u8 else -5, 20), types=(t,))
            for descending in (False, True):
                yield Sample(cls(0, descending), (t,), sizes, make=few)
        for axis in (0, 1, -1):
            yield Sample(cls(axis), (tensor("f32", "n", 5, "m"),), sizes)
        special = tensor("f32", 4, "n")
        values = cycled(1.0, float("nan"), 0.0, -0.0, float("inf"), float("nan"), -float("inf"), 2.0, 1.0)
        for descending in (False, True):
            yield Sample(cls(-1, descending), (special,), sizes, make=arrays(values, types=(special,)))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(1), (tensor("f32", "n"),), f"axis 1 of `{cls.name}` is out of range for rank 1")
        yield Refused(cls(), (tensor("bool", "n"),), f"`{cls.name}` takes numbers; x is bool[n]")


@dataclass(frozen=True)
class Sort(Ordering):
    """The elements along an axis in order, and where each came from: (values, indices)."""

    name: ClassVar[str] = "sort"
    results: ClassVar[int] = 2

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> tuple[TensorType, ...]:
        x = operand(operands, 0)
        self.check(ctx, x)
        return x, TensorType(DType.i64, x.dims)

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        values, indices = outputs
        self.write(k, operand(inputs, 0), values, indices)

    def reference(self, *operands: Array | None) -> tuple[Array, ...]:
        x = operand(operands, 0)
        order = sorted_indices(x, self.axis, self.descending)
        return np.take_along_axis(x, order, self.axis), order


@dataclass(frozen=True)
class Argsort(Ordering):
    """Where the elements along an axis stand in order: the indices that sort it."""

    name: ClassVar[str] = "argsort"

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        self.check(ctx, x)
        return TensorType(DType.i64, x.dims)

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        self.write(k, operand(inputs, 0), None, outputs[0])

    def reference(self, *operands: Array | None) -> Array:
        return sorted_indices(operand(operands, 0), self.axis, self.descending)


# -------------------------------------------------------------------------------------------------- the k largest


@dataclass(frozen=True)
class _Heap:
    """The best elements so far, the worst of them at the root."""

    k: KernelBuilder
    data: _Keys
    largest: bool

    def before(self, a: tuple[Expr, Expr], b: tuple[Expr, Expr]) -> Expr:
        """Is a (key, place) better than b?  Of equal keys the lower place is."""
        better = comes_before(a[0], b[0], self.largest)
        worse = comes_before(b[0], a[0], self.largest)
        tie = both(apply("logical_not", worse), apply("lt", a[1], b[1]))
        return apply("logical_or", better, tie)

    def entry(self, i: Expr) -> tuple[Expr, Expr]:
        return self.data.key(i), self.data.place(i)

    def sift(self, start: Expr, entry: tuple[Expr, Expr], size: Expr) -> None:
        """Puts `entry` where it belongs below `start`, in a heap of `size` (Floyd 1964)."""
        k = self.k
        hole = k.local(start)
        going = k.local(const(1, DType.i64))

        def descend() -> None:
            first = k.let(add(mul(hole, index(2)), index(1)))
            second = k.let(add(first, index(1)))
            other = select(
                apply("lt", second, size),
                select(self.before(self.entry(first), self.entry(second)), second, first),
                first,
            )
            child = k.let(other)
            down = select(apply("lt", first, size), self.before(entry, self.entry(child)), FALSE)

            def move() -> None:
                self.data.put(hole, *self.entry(child))
                k.assign(hole, child)

            k.branch(down, move, lambda: k.assign(going, const(0, DType.i64)))

        k.while_(lambda: apply("ne", going, const(0, DType.i64)), descend)
        self.data.put(hole, *entry)

    def named(self, i: Expr) -> tuple[Expr, Expr]:
        """An entry, kept while its place is written to."""
        key, place = self.entry(i)
        return self.k.let(key), self.k.let(place)


@dataclass(frozen=True)
class Topk(KernelOp):
    """The k largest (or smallest) elements along an axis, the best first, and where they stood: (values, indices).

    O(n log k).  `sorted=false` would leave their order open; they are sorted all the same.
    """

    name: ClassVar[str] = "topk"
    family: ClassVar[str] = "sort"
    results: ClassVar[int] = 2

    k: Dim | int
    axis: int = -1
    largest: bool = True
    sorted: bool = True

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> tuple[TensorType, ...]:
        x = operand(operands, 0)
        want_number(ctx, 0, x, f"convert it: `cast({ctx.name(0)}, dtype=u8)`")
        axis, count = ctx.axis(self.axis, x.rank), Dim.of(self.k)
        require_size(ctx, count, "`k` of `topk`")
        message = f"`topk` takes {count} of the elements of axis {axis}, which has size {x.dims[axis]}"
        require_fact(ctx, Compare("<=", count, x.dims[axis]), message)
        dims = (*x.dims[:axis], count, *x.dims[axis + 1 :])
        return TensorType(x.dtype, dims), TensorType(DType.i64, dims)

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        x = operand(inputs, 0)
        outer, size, inner = collapsed(x.type, self.axis % x.type.rank)
        count = Dim.of(self.k)

        def row(o: Expr, c: Expr) -> None:
            heap = _Heap(k, _Keys.alloc(k, x.type.dtype.compute, count), self.largest)

            def read(i: Expr) -> Expr:
                at = add(mul(add(mul(o, index(size)), i), index(inner)), c)
                return cast(k.load(x.buffer, at, x.type.dtype), x.type.dtype.compute)

            def fill() -> None:
                self._select(k, heap, read, size)
                self._in_order(k, heap)

            if k.facts.prove_le(1, count):
                fill()
            else:
                k.branch(apply("gt", index(count), index(0)), fill)
            self._give(k, heap, outputs, lambda i: add(mul(add(mul(o, index(count)), i), index(inner)), c))

        pairs(k, outer, inner, row)

    def _select(self, k: KernelBuilder, heap: _Heap, read: Callable[[Expr], Expr], size: Dim) -> None:
        """The first k elements as a heap, then every better one in place of the worst."""
        count = index(Dim.of(self.k))
        half = Dim.of(self.k) // 2
        k.loop("i", index(0), count, lambda i: heap.data.put(i, read(i), i), "vector")

        def heapify(i: Expr) -> None:
            start = sub(index(half - 1), i)
            heap.sift(start, heap.named(start), count)

        k.loop("i", index(0), index(half), heapify)

        def offer(i: Expr) -> None:
            key = k.let(read(i))
            better = comes_before(key, heap.data.key(index(0)), self.largest)
            k.branch(better, lambda: heap.sift(index(0), (key, i), count))

        k.loop("i", count, index(size), offer)

    def _in_order(self, k: KernelBuilder, heap: _Heap) -> None:
        """Takes the worst off the heap, again and again, to the place behind it."""
        last = Dim.of(self.k) - 1

        def take(i: Expr) -> None:
            end = k.let(sub(index(last), i))
            entry = heap.named(end)
            heap.data.put(end, *heap.entry(index(0)))
            heap.sift(index(0), entry, end)

        k.loop("i", index(0), index(Dim.max(last, 0)), take)

    def _give(self, k: KernelBuilder, heap: _Heap, outputs: tuple[Array1, ...], at: Callable[[Expr], Expr]) -> None:
        values, indices = outputs

        def give(i: Expr) -> None:
            k.store(values.buffer, at(i), cast(heap.data.key(i), values.type.dtype))
            k.store(indices.buffer, at(i), heap.data.place(i))

        k.loop("i", index(0), index(Dim.of(self.k)), give, "vector")

    def reference(self, *operands: Array | None) -> tuple[Array, ...]:
        x = operand(operands, 0)
        order = sorted_indices(x, self.axis, self.largest)
        order = np.take(order, range(whole(self.k)), self.axis)
        return np.take_along_axis(x, order, self.axis), order

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        n, m = Dim.of("n"), Dim.of("m")
        facts = (InRange("n", 3), Compare("<=", "m", "n"))
        sizes = ({"n": 3, "m": 0}, {"n": 3, "m": 1}, {"n": 40, "m": 40}, {"n": 200, "m": 17})
        for dtype in (*FLOATS, *INTS):
            t = tensor(dtype, "n")
            few = arrays(integers(0 if dtype is DType.u8 else -5, 20), types=(t,))
            for largest in (False, True):
                yield Sample(cls(3, 0, largest), (t,), sizes, facts, few)
                yield Sample(cls(m, 0, largest), (t,), sizes, facts, few)
        for axis in (0, 1, 2):
            yield Sample(cls((m, 1, 2)[axis], axis), (tensor("f32", "n", 1, 3),), sizes, facts)
        yield Sample(cls(0, 0), (tensor("f32", "n"),), ({"n": 0}, {"n": 1}, {"n": 8}))
        yield Sample(cls(n), (tensor("f32", 2, "n"),), SIZES)
        special = tensor("f32", 3, "n")
        values = cycled(1.0, float("nan"), 0.0, -0.0, float("inf"), float("nan"), -float("inf"), 2.0, 1.0)
        for largest in (False, True):
            yield Sample(cls(m, -1, largest), (special,), sizes, facts, arrays(values, types=(special,)))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n", 4)
        yield Refused(cls(5), (x,), "`topk` takes 5 of the elements of axis 1, which has size 4")
        yield Refused(cls(1, 0), (x,), "`topk` takes 1 of the elements of axis 0, which has size n")
        yield Refused(cls(-1), (x,), "`k` of `topk` may be negative: -1")
        yield Refused(cls(1, 2), (x,), "axis 2 of `topk` is out of range for rank 2")
        yield Refused(cls(1), (tensor("bool", 4),), "`topk` takes numbers; x is bool[4]")
