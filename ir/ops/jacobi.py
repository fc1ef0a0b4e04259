"""Eigenvalues of symmetric matrices and singular values, by plane rotations.

Golub and Van Loan, Matrix Computations, 8.5 (Jacobi) and 8.6.3 (one-sided Jacobi).  In f64, in which no square of an
f32 overflows.  A vector's sign is open; here its largest component, the first of them, is positive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dims import Dim
from ..loops import Expr
from ..op import Array, Array1, InferContext, KernelBuilder, KernelOp, Refused, Sample
from ..scalar import add, apply, both, cast, const, index, mul, select, sub
from ..types import DType, TensorType, tensor
from ._common import arrays, operand, uniform
from ._matrix import (
    FAMILY,
    SQUARES,
    WIDE,
    Matrix,
    greater_place,
    matrix,
    smaller,
    stacks,
    summed,
    vector_at,
    want_matrices,
)

F64 = DType.f64
SWEEPS = 40
"""Times that all pairs are gone through at most; convergence is quadratic, and takes about ten."""
NEGLIGIBLE = 1e-15
"""What is left off a diagonal, relative to what is on it."""
VANISHING = 1e-13
"""A singular value that counts as 0, relative to the largest: its vector is noise."""

NONE, SOME = const(0, DType.i64), const(1, DType.i64)


def sweeps(k: KernelBuilder, size: Dim, rotate: Callable[[Expr, Expr, Expr], None]) -> None:
    """Calls `rotate(p, q, going)` for every pair p < q, again as long as it assigns to `going`."""
    going, count = k.local(SOME), k.local(NONE)

    def sweep() -> None:
        k.assign(going, NONE)
        k.assign(count, add(count, SOME))

        def row(p: Expr) -> None:
            k.loop("q", add(p, index(1)), index(size), lambda q: rotate(p, q, going))

        k.loop("p", index(0), index(size), row)

    k.while_(lambda: both(apply("ne", going, NONE), apply("lt", count, const(SWEEPS, DType.i64))), sweep)


def angle(k: KernelBuilder, gap: Expr, off: Expr) -> tuple[Expr, Expr]:
    """Cosine and sine of the smaller rotation that takes `off` away; `gap` is between the two on the diagonal."""
    one = const(1.0, F64)
    theta = k.let(apply("div", gap, mul(const(2.0, F64), off)))
    length = add(apply("abs", theta), apply("sqrt", add(mul(theta, theta), one)))
    t = k.let(apply("div", select(apply("lt", theta, const(0.0, F64)), const(-1.0, F64), one), length))
    c = k.let(apply("div", one, apply("sqrt", add(mul(t, t), one))))
    return c, k.let(mul(t, c))


def turned(k: KernelBuilder, a: Matrix, p: Expr, q: Expr, c: Expr, s: Expr) -> None:
    """Rotates two rows."""

    def one(j: Expr) -> None:
        x, y = k.let(a.get(p, j)), k.let(a.get(q, j))
        a.put(p, j, sub(mul(c, x), mul(s, y)))
        a.put(q, j, add(mul(s, x), mul(c, y)))

    k.loop("j", index(0), index(a.columns), one, "vector")


def scratch(k: KernelBuilder, rows: Dim, columns: Dim, value: Callable[[Expr, Expr], Expr]) -> Matrix:
    """A matrix in f64 of this thread's own."""
    made = Matrix(k, k.alloc(F64, rows * columns), F64, index(0), columns)

    def row(i: Expr) -> None:
        k.loop("j", index(0), index(columns), lambda j: made.put(i, j, value(i, j)))

    k.loop("i", index(0), index(rows), row)
    return made


def identity(i: Expr, j: Expr) -> Expr:
    return select(apply("eq", i, j), const(1.0, F64), const(0.0, F64))


def sign_of(k: KernelBuilder, a: Matrix, i: Expr) -> Expr:
    """The sign of a row's largest component."""
    place = k.let(greater_place(k, index(0), index(a.columns), lambda j: apply("abs", a.get(i, j)), F64))
    return k.let(select(apply("lt", a.get(i, place), const(0.0, F64)), const(-1.0, F64), const(1.0, F64)))


def rank_of(k: KernelBuilder, values: str, i: Expr, size: Dim, descending: bool) -> Expr:
    """The place of values[i] in order; of equal ones the earlier comes first."""
    mine = k.let(k.load(values, i, F64))
    rank = k.local(NONE)

    def count(j: Expr) -> None:
        other = k.let(k.load(values, j, F64))
        before = apply("gt" if descending else "lt", other, mine)
        tie = both(apply("logical_not", apply("ne", other, mine)), apply("lt", j, i))
        k.assign(rank, add(rank, cast(apply("logical_or", before, tie), DType.i64)))

    k.loop("j", index(0), index(size), count)
    # With NaN among them several may claim one place, but none outside.
    return k.let(rank)


def upright(vectors: Array) -> Array:
    """The signs of columns by which the first largest component of each is positive."""
    if not vectors.size:
        return np.ones((*vectors.shape[:-2], 1, vectors.shape[-1]))
    places = np.abs(vectors).argmax(-2, keepdims=True)
    return np.where(np.take_along_axis(vectors, places, -2) < 0, -1.0, 1.0)


def apart(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Matrices whose eigenvalues and singular values are far from one another: vectors are then well determined."""
    rows, columns = shape[-2:]
    x = np.zeros(shape)
    x[..., : min(rows, columns), : min(rows, columns)] = np.diag(2.0 * np.arange(1, min(rows, columns) + 1))
    return np.asarray(x + rng.uniform(-0.3, 0.3, shape))


@dataclass(frozen=True)
class Eigh(KernelOp):
    """Eigenvalues of symmetric matrices, in rising order, and their vectors in columns.

    Only the lower triangle is read.  Of equal eigenvalues the vectors are any orthonormal ones.
    """

    name: ClassVar[str] = "eigh"
    family: ClassVar[str] = FAMILY
    results: ClassVar[int] = 2

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> tuple[TensorType, ...]:
        x = operand(operands, 0)
        want_matrices(ctx, 0, x, square=True)
        return TensorType(x.dtype, x.dims[:-1]), x

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (values, vectors), x = outputs, operand(inputs, 0)
        size, dtype = x.type.dims[-1], x.type.dtype

        def one(p: Expr, kind: str) -> None:
            given = matrix(k, x, p)

            def low(i: Expr, j: Expr) -> Expr:
                upper = apply("lt", i, j)
                return cast(given.get(k.let(select(upper, j, i)), k.let(select(upper, i, j))), F64)

            a = scratch(k, size, size, low)
            v = scratch(k, size, size, identity)
            total = summed(k, index(0), index(size * size), lambda i: apply("square", k.load(a.buffer, i, F64)), F64)
            least = k.let(mul(const(NEGLIGIBLE, F64), apply("sqrt", total)))
            sweeps(k, size, lambda i, j, going: _diagonalise(k, a, v, i, j, least, going))
            found = k.alloc(F64, size)
            k.loop("i", index(0), index(size), lambda i: k.store(found, i, a.get(i, i)))

            def give(i: Expr) -> None:
                to = rank_of(k, found, i, size, descending=False)
                sign = sign_of(k, v, i)
                k.store(values.buffer, vector_at(values, p, to), cast(k.load(found, i, F64), dtype))
                out = matrix(k, vectors, p)
                k.loop("j", index(0), index(size), lambda j: out.put(j, to, cast(mul(sign, v.get(i, j)), dtype)))

            k.loop("i", index(0), index(size), give)

        stacks(k, x.type, one)

    def reference(self, *operands: Array | None) -> tuple[Array, ...]:
        x = operand(operands, 0)
        values, vectors = np.linalg.eigh(np.asarray(x, np.float64))
        return values.astype(x.dtype), (vectors * upright(vectors)).astype(x.dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in WIDE:
            for t in (tensor(dtype, "n", "n"), tensor(dtype, "m", 2, "n", "n")):
                yield Sample(cls(), (t,), SQUARES, make=arrays(apart, types=(t,)), rtol=1e-4, atol=1e-5)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(), (tensor("f32", "n", "m"),), "the rows and columns of `eigh` do not match: n against m")
        yield Refused(cls(), (tensor("bf16", 2, 2),), "`eigh` takes f32 or f64; x is bf16[2, 2]")


def _diagonalise(k: KernelBuilder, a: Matrix, v: Matrix, p: Expr, q: Expr, least: Expr, going: Expr) -> None:
    """Takes the element at (p, q) of a symmetric matrix away, and turns the vectors (rows of v) with it."""
    off = k.let(a.get(p, q))

    def rotate() -> None:
        k.assign(going, SOME)
        c, s = angle(k, sub(a.get(q, q), a.get(p, p)), off)
        turned(k, a, p, q, c, s)

        def column(i: Expr) -> None:
            x, y = k.let(a.get(i, p)), k.let(a.get(i, q))
            a.put(i, p, sub(mul(c, x), mul(s, y)))
            a.put(i, q, add(mul(s, x), mul(c, y)))

        k.loop("i", index(0), index(a.columns), column)
        turned(k, v, p, q, c, s)

    k.branch(apply("gt", apply("abs", off), least), rotate)


@dataclass(frozen=True)
class Svd(KernelOp):
    """Singular values, in falling order, and their vectors: (u, values, v), with x = u @ diag(values) @ v.

    Vectors on the longer side whose value is 0 are 0.  Of equal values the vectors are any orthonormal ones.
    """

    name: ClassVar[str] = "svd"
    family: ClassVar[str] = FAMILY
    results: ClassVar[int] = 3

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> tuple[TensorType, ...]:
        x = operand(operands, 0)
        want_matrices(ctx, 0, x)
        *batch, rows, columns = x.dims
        count = smaller(rows, columns)
        return tuple(TensorType(x.dtype, (*batch, *dims)) for dims in ((rows, count), (count,), (count, columns)))

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (u, values, vh), x = outputs, operand(inputs, 0)
        rows, columns = x.type.dims[-2:]
        count, longer = smaller(rows, columns), rows if rows == columns else Dim.max(rows, columns)
        dtype, tall = x.type.dtype, apply("ge", index(rows), index(columns))

        def one(p: Expr, kind: str) -> None:
            # The rows of w are the columns of x or, where x is wide, its rows: as few and as long as can be.
            given = matrix(k, x, p)
            flip = k.let(tall)

            def start(i: Expr, j: Expr) -> Expr:
                return cast(given.get(k.let(select(flip, j, i)), k.let(select(flip, i, j))), F64)

            w = scratch(k, count, longer, start)
            v = scratch(k, count, count, identity)
            sweeps(k, count, lambda i, j, going: _orthogonalise(k, w, v, i, j, going))
            found, top = k.alloc(F64, count), k.local(const(0.0, F64))

            def measure(i: Expr) -> None:
                squares = summed(k, index(0), index(longer), lambda j: apply("square", w.get(i, j)), F64)
                length = k.let(apply("sqrt", squares))
                k.store(found, i, length)
                k.assign(top, apply("maximum", top, length))

            k.loop("i", index(0), index(count), measure)

            def give(i: Expr) -> None:
                to = rank_of(k, found, i, count, descending=True)
                length = k.let(k.load(found, i, F64))
                k.store(values.buffer, vector_at(values, p, to), cast(length, dtype))
                kept = apply("gt", length, mul(const(VANISHING, F64), top))
                share = k.let(select(kept, apply("div", const(1.0, F64), length), const(0.0, F64)))
                left, right = matrix(k, u, p), matrix(k, vh, p)

                def store(first: Matrix, second: Matrix) -> None:
                    """One of the two long and not yet of length 1; the sign is that of the first."""
                    sign = sign_of(k, first, i)
                    long = k.let(mul(sign, share))
                    a, b = (long, sign) if first is w else (sign, long)
                    k.loop("j", index(0), index(rows), lambda j: left.put(j, to, cast(mul(a, first.get(i, j)), dtype)))
                    k.loop(
                        "j", index(0), index(columns), lambda j: right.put(to, j, cast(mul(b, second.get(i, j)), dtype))
                    )

                k.branch(flip, lambda: store(w, v), lambda: store(v, w))

            k.loop("i", index(0), index(count), give)

        stacks(k, x.type, one)

    def reference(self, *operands: Array | None) -> tuple[Array, ...]:
        x = operand(operands, 0)
        wide = np.asarray(x, np.float64)
        u, values, vh = np.linalg.svd(wide, full_matrices=False)
        sign = upright(u)
        return tuple(a.astype(x.dtype) for a in (u * sign, values, vh * np.swapaxes(sign, -1, -2)))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in WIDE:
            for t in (tensor(dtype, "n", "n"), tensor(dtype, "n", "m"), tensor(dtype, "m", 2, 3, "n")):
                yield Sample(cls(), (t,), SQUARES, make=arrays(apart, types=(t,)), rtol=1e-4, atol=1e-5)
        t = tensor("f32", "n", 1)
        yield Sample(cls(), (t,), SQUARES, make=arrays(uniform(1e-25, 1e-24), types=(t,)), rtol=1e-4, atol=1e-30)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(), (tensor("f32", "n"),), "`svd` takes matrices; x is f32[n]")
        yield Refused(cls(), (tensor("f16", 2, 2),), "`svd` takes f32 or f64; x is f16[2, 2]")


def _orthogonalise(k: KernelBuilder, w: Matrix, v: Matrix, p: Expr, q: Expr, going: Expr) -> None:
    """Turns two rows of w until they are orthogonal, and those of v with them."""

    def product(i: Expr, j: Expr) -> Expr:
        return k.let(summed(k, index(0), index(w.columns), lambda s: mul(w.get(i, s), w.get(j, s)), F64))

    first, second, off = product(p, p), product(q, q), product(p, q)

    def rotate() -> None:
        k.assign(going, SOME)
        c, s = angle(k, sub(second, first), off)
        turned(k, w, p, q, c, s)
        turned(k, v, p, q, c, s)

    least = mul(const(NEGLIGIBLE, F64), apply("sqrt", mul(first, second)))
    k.branch(apply("gt", apply("abs", off), least), rotate)
