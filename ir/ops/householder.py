"""Reflections: the factors of QR, and their product with a matrix.

A reflection is I - tau * v * v', with v 0 before its own place and 1 on it.  Golub and Van Loan, Matrix Computations,
5.1 and 5.2; the signs are LAPACK's (`geqrf`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..facts import Compare
from ..loops import Expr
from ..op import Array, Array1, InferContext, KernelBuilder, KernelOp, Refused, Sample
from ..scalar import add, apply, const, index, mul, select, sub
from ..types import TensorType, tensor
from ._common import arrays, operand, rtol, uniform
from ._matrix import (
    FAMILY,
    SQUARES,
    WIDE,
    Matrix,
    matrix,
    same_stack,
    smaller,
    stacked,
    stacks,
    summed,
    vector_at,
    want_matrices,
)
from ._shape import copy_array


def reflect(k: KernelBuilder, v: Matrix, s: Expr, tau: Expr, x: Matrix, first: Expr, rows: Expr) -> None:
    """Reflection s of those below the diagonal of `v`, on the columns of x from `first` on.

    By rows, as memory runs: w = v' x is collected, then taken off.
    """
    below = add(s, index(1))
    w = k.alloc(x.dtype, x.columns)
    stop = index(x.columns)
    k.loop("j", first, stop, lambda j: k.store(w, j, x.get(s, j)), "vector")

    def sum_of(j: Expr, factor: Expr, i: Expr) -> Expr:
        return add(k.load(w, j, x.dtype), mul(factor, x.get(i, j)))

    def collect(i: Expr) -> None:
        factor = k.let(v.get(i, s))
        k.loop("j", first, stop, lambda j: k.store(w, j, sum_of(j, factor, i)), "vector")

    k.loop("i", below, rows, collect)

    def scale(j: Expr) -> None:
        value = k.let(mul(tau, k.load(w, j, x.dtype)))
        k.store(w, j, value)
        x.put(s, j, sub(x.get(s, j), value))

    k.loop("j", first, stop, scale, "vector")

    def take(i: Expr) -> None:
        factor = k.let(v.get(i, s))
        k.loop("j", first, stop, lambda j: x.put(i, j, sub(x.get(i, j), mul(factor, k.load(w, j, x.dtype)))), "vector")

    k.loop("i", below, rows, take)


@dataclass(frozen=True)
class HouseholderQr(KernelOp):
    """R on and above the diagonal, below it the reflections whose product is Q, and their factors tau."""

    name: ClassVar[str] = "householder_qr"
    family: ClassVar[str] = FAMILY
    results: ClassVar[int] = 2

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> tuple[TensorType, ...]:
        x = operand(operands, 0)
        want_matrices(ctx, 0, x)
        return x, TensorType(x.dtype, (*x.dims[:-2], smaller(*x.dims[-2:])))

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (out, taus), x = outputs, operand(inputs, 0)
        rows, dtype = index(x.type.dims[-2]), x.type.dtype
        zero = const(0.0, dtype)
        copy_array(k, x, out)

        def one(p: Expr, kind: str) -> None:
            a = matrix(k, out, p)

            def step(s: Expr) -> None:
                below = add(s, index(1))
                # Scaled by the largest, so that no square overflows.
                top = k.local(zero)

                def larger(i: Expr) -> None:
                    k.assign(top, apply("maximum", top, apply("abs", a.get(i, s))))

                k.loop("i", s, rows, larger, "vector")
                scale = k.let(select(apply("gt", top, zero), top, const(1.0, dtype)))
                squares = summed(k, below, rows, lambda i: apply("square", apply("div", a.get(i, s), scale)), dtype)
                head = k.let(a.get(s, s))
                own = k.let(apply("div", head, scale))
                length = mul(scale, apply("sqrt", add(squares, mul(own, own))))
                beta = k.let(select(apply("gt", head, zero), apply("neg", length), length))
                flat = k.let(apply("eq", squares, zero))
                tau = k.let(select(flat, zero, apply("div", sub(beta, head), beta)))
                k.store(taus.buffer, vector_at(taus, p, s), tau)

                def turn() -> None:
                    apart = k.let(sub(head, beta))
                    k.loop("i", below, rows, lambda i: a.put(i, s, apply("div", a.get(i, s), apart)))
                    a.put(s, s, beta)
                    reflect(k, a, s, tau, a, below, rows)

                k.branch(apply("logical_not", flat), turn)

            k.loop("s", index(0), index(taus.type.dims[-1]), step)

        stacks(k, x.type, one)

    def reference(self, *operands: Array | None) -> tuple[Array, ...]:
        x = operand(operands, 0)
        steps = min(x.shape[-2:])
        out, taus = stacked(x), np.zeros((int(np.prod(x.shape[:-2])), steps))
        for a, tau in zip(out, taus, strict=True):
            if a.size:
                packed, tau[:] = np.linalg.qr(a, mode="raw")
                a[:] = packed.T
        return out.reshape(x.shape).astype(x.dtype), taus.reshape(*x.shape[:-2], steps).astype(x.dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in WIDE:
            for t in (tensor(dtype, "n", "m"), tensor(dtype, "m", "n"), tensor(dtype, 2, "m", "n", "n")):
                make = arrays(uniform(-1, 1), types=(t,))
                yield Sample(cls(), (t,), SQUARES, make=make, rtol=100 * rtol(dtype), atol=1e-4)
        t = tensor("f32", "n", 4)
        large = arrays(uniform(-1e30, 1e30), types=(t,))
        yield Sample(cls(), (t,), SQUARES, make=large, rtol=1e-3, atol=1e26)
        nothing = arrays(lambda rng, shape: np.eye(shape[0], shape[1]), types=(t,))
        yield Sample(cls(), (t,), SQUARES, make=nothing)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(), (tensor("f32", "n"),), "`householder_qr` takes matrices; x is f32[n]")
        yield Refused(cls(), (tensor("f16", "n", 2),), "`householder_qr` takes f32 or f64; x is f16[n, 2]")


@dataclass(frozen=True)
class Reflect(KernelOp):
    """Q @ x, with Q the product of the reflections below the diagonal of `v` with factors `tau`, first times last.

    `transpose` multiplies with the transpose of Q instead.
    """

    name: ClassVar[str] = "reflect"
    family: ClassVar[str] = FAMILY
    signature: ClassVar[tuple[str, ...]] = ("v", "tau", "x")

    transpose: bool = False

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        v, tau, x = (operand(operands, i) for i in range(3))
        want_matrices(ctx, 0, v)
        want_matrices(ctx, 2, x)
        ctx.same_dtype(v, tau, x)
        ctx.require(tau.rank == v.rank - 1, f"`reflect` takes one factor a reflection; {ctx.name(1)} is {tau}")
        same_stack(ctx, v.dims[:-2], tau.dims[:-1])
        same_stack(ctx, v.dims[:-2], x.dims[:-2])
        ctx.require_equal(v.dims[-2], x.dims[-2], "the rows of `reflect`")
        for size, what in ((v.dims[-1], "columns"), (v.dims[-2], "rows")):
            ctx.require(
                ctx.holds(Compare("<=", tau.dims[-1], size)),
                f"`reflect` has {tau.dims[-1]} factors, and {size} {what} of reflections",
            )
        return x

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (out,), (v, taus, x) = outputs, (operand(inputs, i) for i in range(3))
        copy_array(k, x, out)
        count = taus.type.dims[-1]

        def one(p: Expr, kind: str) -> None:
            given, made = matrix(k, v, p), matrix(k, out, p)

            def step(number: Expr) -> None:
                s = number if self.transpose else k.let(sub(index(count - 1), number))
                tau = k.let(k.load(taus.buffer, vector_at(taus, p, s), x.type.dtype))
                reflect(k, given, s, tau, made, index(0), index(x.type.dims[-2]))

            k.loop("s", index(0), index(count), step)

        stacks(k, x.type, one)

    def reference(self, *operands: Array | None) -> Array:
        v, tau, x = (operand(operands, i) for i in range(3))
        out = stacked(x)
        factors = np.array(tau, np.float64).reshape(len(out), tau.shape[-1])
        for p, a in enumerate(stacked(v)):
            steps = range(tau.shape[-1])
            for s in steps if self.transpose else reversed(steps):
                column = np.concatenate([np.zeros(s), [1.0], a[s + 1 :, s]])
                out[p] -= factors[p, s] * np.outer(column, column @ out[p])
        return out.reshape(x.shape).astype(x.dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in WIDE:
            for batch in ((), ("m", 2)):
                v, tau = tensor(dtype, *batch, "n", "n"), tensor(dtype, *batch, "n")
                x = tensor(dtype, *batch, "n", "m")
                make = arrays(uniform(-1, 1), uniform(0, 1), uniform(-1, 1), types=(v, tau, x))
                for transpose in (False, True):
                    yield Sample(cls(transpose), (v, tau, x), SQUARES, make=make, rtol=1e-3, atol=1e-2)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        v, tau, x = tensor("f32", "n", 2), tensor("f32", 2), tensor("f32", "n", 3)
        yield Refused(cls(), (v, tensor("f32", 3), x), "`reflect` has 3 factors, and 2 columns of reflections")
        yield Refused(cls(), (v, tensor("f32", 1, 2), x), "`reflect` takes one factor a reflection")
        yield Refused(cls(), (v, tau, tensor("f32", 4, 3)), "the rows of `reflect` do not match: n against 4")
