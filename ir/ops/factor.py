"""Factors of matrices: Cholesky and LU, and the order of rows that pivots make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dims import Dim
from ..loops import Expr
from ..op import Array, Array1, InferContext, KernelBuilder, KernelOp, Refused, Sample
from ..scalar import add, apply, cast, const, index, mul, select, sub
from ..types import DType, TensorType, tensor
from ._common import arrays, operand, rtol, uniform
from ._matrix import (
    FAMILY,
    SQUARES,
    WIDE,
    Matrix,
    greater_place,
    matrix,
    positive,
    regular,
    smaller,
    stacked,
    stacks,
    summed,
    vector_at,
    want_matrices,
)
from ._shape import Size, copy_array, whole

ZERO = const(0, DType.i32)


def _failed(number: Expr, step: Expr) -> Expr:
    """The first step that failed, counted from 1, of which 0 is none."""
    return select(apply("eq", number, ZERO), cast(add(step, index(1)), DType.i32), number)


@dataclass(frozen=True)
class Cholesky(KernelOp):
    """The lower triangular factor L of L times its transpose, of symmetric positive-definite matrices.

    Also the number of the first leading block that is not positive-definite, 0 where all are; with `check` the call
    fails there instead.  Only the lower triangle is read.
    """

    name: ClassVar[str] = "cholesky"
    family: ClassVar[str] = FAMILY
    fallible: ClassVar[bool] = True
    results: ClassVar[int] = 2

    check: bool = False

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> tuple[TensorType, ...]:
        x = operand(operands, 0)
        want_matrices(ctx, 0, x, square=True)
        return x, TensorType(DType.i32, x.dims[:-2])

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (out, info), x = outputs, operand(inputs, 0)
        size, dtype = x.type.dims[-1], x.type.dtype

        def one(p: Expr, kind: str) -> None:
            given, made = matrix(k, x, p), matrix(k, out, p)
            bad = k.local(ZERO)

            def row(i: Expr) -> None:
                # Row i from the rows before it: all that is read runs through memory.
                def column(j: Expr) -> None:
                    products = summed(k, index(0), j, lambda s: mul(made.get(i, s), made.get(j, s)), dtype)
                    made.put(i, j, apply("div", sub(given.get(i, j), products), made.get(j, j)))

                k.loop("j", index(0), i, column)
                squares = summed(k, index(0), i, lambda s: mul(made.get(i, s), made.get(i, s)), dtype)
                rest = k.let(sub(given.get(i, i), squares))
                k.assign(bad, select(apply("gt", rest, const(0.0, dtype)), bad, _failed(bad, i)))
                made.put(i, i, apply("sqrt", rest))
                k.loop("j", add(i, index(1)), index(size), lambda j: made.put(i, j, const(0.0, dtype)), "vector")

            k.loop("i", index(0), index(size), row)
            if self.check:
                say = "a matrix of `cholesky` is not positive-definite: its leading block of order {value} is not"
                k.require(apply("eq", bad, ZERO), say, cast(bad, DType.i64))
            k.store(info.buffer, p, bad)

        stacks(k, x.type, one)

    def reference(self, *operands: Array | None) -> tuple[Array, ...]:
        x = operand(operands, 0)
        out, info = stacked(x), np.zeros(x.shape[:-2], np.int32)
        for p in range(out.shape[0]):
            low = np.tril(out[p])
            for order in range(1, x.shape[-1] + 1):
                block = low[:order, :order]
                if np.linalg.eigvalsh(block).min() <= 0:
                    info.reshape(-1)[p] = order
                    break
            out[p] = np.linalg.cholesky(low) if not info.reshape(-1)[p] else np.nan
        return out.reshape(x.shape).astype(x.dtype), info

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in WIDE:
            for t in (tensor(dtype, "n", "n"), tensor(dtype, "m", 2, "n", "n")):
                for check in (False, True):
                    make = arrays(positive, types=(t,))
                    yield Sample(cls(check), (t,), SQUARES, make=make, rtol=10 * rtol(dtype), atol=1e-5)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(), (tensor("f32", "n", "m"),), "the rows and columns of `cholesky` do not match: n against m")
        yield Refused(cls(), (tensor("f32", "n"),), "`cholesky` takes matrices; x is f32[n]")
        yield Refused(cls(), (tensor("f16", "n", "n"),), "`cholesky` takes f32 or f64; x is f16[n, n]")


@dataclass(frozen=True)
class Lu(KernelOp):
    """The factors of matrices with their rows exchanged: L below the diagonal (which is 1), U on and above it.

    Also the row that each step exchanged its own with, and the number of the first step with no pivot but 0 (0 where
    there is none); with `check` the call fails there instead.  Step by step, the largest pivot first.
    """

    name: ClassVar[str] = "lu"
    family: ClassVar[str] = FAMILY
    fallible: ClassVar[bool] = True
    results: ClassVar[int] = 3

    check: bool = False

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> tuple[TensorType, ...]:
        x = operand(operands, 0)
        want_matrices(ctx, 0, x)
        steps = smaller(*x.dims[-2:])
        return x, TensorType(DType.i32, (*x.dims[:-2], steps)), TensorType(DType.i32, x.dims[:-2])

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (out, pivots, info), x = outputs, operand(inputs, 0)
        copy_array(k, x, out)

        def one(p: Expr, kind: str) -> None:
            bad = k.local(ZERO)

            def step(s: Expr) -> None:
                place = self._exchange(k, matrix(k, out, p), s, x.type)
                k.store(pivots.buffer, vector_at(pivots, p, s), cast(place, DType.i32))
                self._eliminate(k, matrix(k, out, p), s, x.type, bad, kind)

            k.loop("s", index(0), index(pivots.type.dims[-1]), step)
            if self.check:
                say = "a matrix of `lu` is singular: it has no pivot at step {value}"
                k.require(apply("eq", bad, ZERO), say, cast(bad, DType.i64))
            k.store(info.buffer, p, bad)

        stacks(k, x.type, one)

    def _exchange(self, k: KernelBuilder, a: Matrix, s: Expr, t: TensorType) -> Expr:
        rows, columns = t.dims[-2:]
        found = greater_place(k, s, index(rows), lambda i: apply("abs", a.get(i, s)), t.dtype)
        place = k.let(found)

        def swap(j: Expr) -> None:
            upper, lower = k.let(a.get(s, j)), k.let(a.get(place, j))
            a.put(s, j, lower)
            a.put(place, j, upper)

        k.branch(apply("ne", place, s), lambda: k.loop("j", index(0), index(columns), swap))
        return place

    def _eliminate(self, k: KernelBuilder, a: Matrix, s: Expr, t: TensorType, bad: Expr, kind: str) -> None:
        rows, columns = t.dims[-2:]
        pivot = k.let(a.get(s, s))
        after = add(s, index(1))

        def row(i: Expr) -> None:
            factor = k.let(apply("div", a.get(i, s), pivot))
            a.put(i, s, factor)

            def column(j: Expr) -> None:
                a.put(i, j, sub(a.get(i, j), mul(factor, a.get(s, j))))

            k.loop("j", after, index(columns), column, "vector")

        k.branch(
            apply("ne", pivot, const(0.0, t.dtype)),
            lambda: k.loop("i", after, index(rows), row, kind),
            lambda: k.assign(bad, _failed(bad, s)),
        )

    def reference(self, *operands: Array | None) -> tuple[Array, ...]:
        x = operand(operands, 0)
        out, steps = stacked(x), min(x.shape[-2:])
        pivots = np.zeros((len(out), steps), np.int32)
        info = np.zeros(len(out), np.int32)
        for p, a in enumerate(out):
            for s in range(steps):
                place = s + int(np.argmax(np.abs(a[s:, s])))
                pivots[p, s] = place
                a[[s, place]] = a[[place, s]]
                if a[s, s] == 0:
                    info[p] = info[p] or s + 1
                    continue
                a[s + 1 :, s] /= a[s, s]
                a[s + 1 :, s + 1 :] -= np.outer(a[s + 1 :, s], a[s, s + 1 :])
        batch = x.shape[:-2]
        return out.reshape(x.shape).astype(x.dtype), pivots.reshape(*batch, steps), info.reshape(batch)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in WIDE:
            for t in (tensor(dtype, "n", "n"), tensor(dtype, "n", "m"), tensor(dtype, "m", 2, 3, "n")):
                make = arrays(uniform(-1, 1), types=(t,))
                yield Sample(cls(), (t,), SQUARES, make=make, rtol=100 * rtol(dtype), atol=1e-4)
            t = tensor(dtype, "m", "n", "n")
            checked = arrays(regular, types=(t,))
            yield Sample(cls(True), (t,), SQUARES, make=checked, rtol=100 * rtol(dtype), atol=1e-4)
        singular = tensor("f32", 2, "n", "n")
        yield Sample(cls(), (singular,), SQUARES, make=arrays(lambda rng, shape: np.ones(shape), types=(singular,)))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(), (tensor("f32", "n"),), "`lu` takes matrices; x is f32[n]")
        yield Refused(cls(), (tensor("i32", "n", "n"),), "`lu` takes floating-point tensors; x is i32[n, n]")


@dataclass(frozen=True)
class PivotOrder(KernelOp):
    """The order of `rows` rows after each has been exchanged with the one that `pivots` says, first to last.

    `inverse` gives where each row went.
    """

    name: ClassVar[str] = "pivot_order"
    family: ClassVar[str] = FAMILY
    signature: ClassVar[tuple[str, ...]] = ("pivots",)
    fallible: ClassVar[bool] = True

    rows: Size
    inverse: bool = False

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        pivots = operand(operands, 0)
        ctx.require(
            pivots.dtype is DType.i32 and pivots.rank > 0,
            f"`{ctx.op_name}` takes pivots of type i32 in the last axis; {ctx.name(0)} is {pivots}",
        )
        return TensorType(DType.i64, (*pivots.dims[:-1], Dim.of(self.rows)))

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (out,), pivots = outputs, operand(inputs, 0)
        rows, steps = Dim.of(self.rows), pivots.type.dims[-1]

        def one(p: Expr) -> None:
            def at(i: Expr) -> Expr:
                return vector_at(out, p, i)

            k.loop("i", index(0), index(rows), lambda i: k.store(out.buffer, at(i), i), "vector")

            def exchange(step: Expr) -> None:
                s = k.let(sub(index(steps - 1), step) if self.inverse else step)
                place = k.let(cast(k.load(pivots.buffer, vector_at(pivots, p, s), DType.i32), DType.i64))
                inside = apply("logical_and", apply("ge", place, index(0)), apply("lt", place, index(rows)))
                k.require(inside, "a pivot of `pivot_order` is {value}, which is no row", place)
                mine = k.let(k.load(out.buffer, at(s), DType.i64))

                def swap() -> None:
                    other = k.let(k.load(out.buffer, at(place), DType.i64))
                    k.store(out.buffer, at(s), other)
                    k.store(out.buffer, at(place), mine)

                k.branch(inside, swap)

            k.loop("s", index(0), index(steps), exchange)

        k.loop("p", index(0), index(Dim.product(pivots.type.dims[:-1])), one, "parallel")

    def reference(self, *operands: Array | None) -> Array:
        pivots = operand(operands, 0)
        count = int(np.prod(pivots.shape[:-1]))
        out = np.tile(np.arange(whole(self.rows)), (count, 1))
        flat = pivots.reshape(count, pivots.shape[-1])
        if flat.size and not ((flat >= 0) & (flat < whole(self.rows))).all():
            raise IndexError("a pivot is no row")
        for order, places in zip(out, flat, strict=True):
            for s, place in enumerate(places):
                order[[s, place]] = order[[place, s]]
        if self.inverse:
            out = np.argsort(out, axis=-1)
        return out.reshape(*pivots.shape[:-1], whole(self.rows))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        def later(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
            return np.asarray(rng.integers(np.broadcast_to(np.arange(shape[-1]), shape), shape[-1] + 2))

        for inverse in (False, True):
            for t in (tensor("i32", "n"), tensor("i32", "m", 2, "n")):
                yield Sample(cls(Dim.of("n") + 2, inverse), (t,), SQUARES, make=arrays(later, types=(t,)))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(Dim.of("n")), (tensor("i64", "n"),), "`pivot_order` takes pivots of type i32")
