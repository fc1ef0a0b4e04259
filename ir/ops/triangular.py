"""Equations with a triangular matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dims import Dim
from ..loops import Expr
from ..op import Array, Array1, InferContext, KernelBuilder, KernelOp, Refused, Sample
from ..scalar import add, apply, index, mul, sub
from ..types import TensorType, tensor
from ._common import arrays, operand, rtol, uniform
from ._matrix import FAMILY, SQUARES, WIDE, matrix, regular, same_stack, stacked, want_matrices
from ._shape import LANES, copy_array, pairs, tile


@dataclass(frozen=True)
class SolveTriangular(KernelOp):
    """The x of a @ x = b for triangular matrices, of which the other triangle is not read.

    `unit` takes the diagonal for 1.  A diagonal with 0 on it gives infinities or NaN.
    """

    name: ClassVar[str] = "solve_triangular"
    family: ClassVar[str] = FAMILY
    signature: ClassVar[tuple[str, ...]] = ("a", "b")

    lower: bool = True
    unit: bool = False

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        a, b = operand(operands, 0), operand(operands, 1)
        want_matrices(ctx, 0, a, square=True)
        want_matrices(ctx, 1, b)
        ctx.same_dtype(a, b)
        same_stack(ctx, a.dims[:-2], b.dims[:-2])
        ctx.require_equal(a.dims[-1], b.dims[-2], "the rows of `solve_triangular`")
        return b

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (out,), a, b = outputs, operand(inputs, 0), operand(inputs, 1)
        size, columns = b.type.dims[-2:]
        copy_array(k, b, out)

        def one(p: Expr, t: Expr) -> None:
            """Some columns of one solution, row after row: each takes away what the rows before it add."""
            start, stop = tile(columns, LANES, t)
            given, made = matrix(k, a, p), matrix(k, out, p)

            def row(step: Expr) -> None:
                i = step if self.lower else k.let(sub(index(size - 1), step))

                def take(s: Expr) -> None:
                    factor = k.let(given.get(i, s))
                    k.loop(
                        "j", start, stop, lambda j: made.put(i, j, sub(made.get(i, j), mul(factor, made.get(s, j)))),
                        "vector",
                    )  # fmt: skip

                first, last = (index(0), i) if self.lower else (add(i, index(1)), index(size))
                k.loop("s", first, last, take)
                if not self.unit:
                    pivot = k.let(given.get(i, i))
                    k.loop("j", start, stop, lambda j: made.put(i, j, apply("div", made.get(i, j), pivot)), "vector")

            k.loop("i", index(0), index(size), row)

        pairs(k, Dim.product(b.type.dims[:-2]), Dim.ceildiv(columns, LANES), one)

    def reference(self, *operands: Array | None) -> Array:
        a, b = operand(operands, 0), operand(operands, 1)
        out = stacked(b)
        for x, t in zip(out, stacked(a), strict=True):
            t = np.tril(t) if self.lower else np.triu(t)
            if self.unit:
                np.fill_diagonal(t, 1)
            x[:] = np.linalg.solve(t, x)
        return out.reshape(b.shape).astype(b.dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in WIDE:
            for batch in ((), ("m", 2)):
                a, b = tensor(dtype, *batch, "n", "n"), tensor(dtype, *batch, "n", "m")
                for lower in (False, True):
                    make = arrays(regular, uniform(-1, 1), types=(a, b))
                    yield Sample(cls(lower), (a, b), SQUARES, make=make, rtol=100 * rtol(dtype), atol=1e-4)
        a, b = tensor("f32", "n", "n"), tensor("f32", "n", "m")
        small = arrays(uniform(-0.3, 0.3), uniform(-1, 1), types=(a, b))
        sizes = (*SQUARES, {"n": 3, "m": 150})
        for lower in (False, True):
            yield Sample(cls(lower, True), (a, b), sizes, make=small, rtol=1e-3, atol=1e-4)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        a = tensor("f32", "n", "n")
        yield Refused(cls(), (a, tensor("f32", "m", 2)), "the rows of `solve_triangular` do not match: n against m")
        yield Refused(cls(), (a, tensor("f32", 2, "n", 2)), "the operands of `solve_triangular` differ in rank")
        yield Refused(cls(), (tensor("f32", "n", "m"), a), "the rows and columns of `solve_triangular` do not match")
        yield Refused(cls(), (a, tensor("f64", "n", 2)), "the dtypes of `solve_triangular` do not match: f32")
