"""What the operators of linear algebra share: matrices in the last two axes, whole, in flat buffers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..dims import Dim
from ..loops import Expr
from ..op import Array, Array1, InferContext, KernelBuilder
from ..scalar import add, apply, const, index, mul, select
from ..types import DType, TensorType
from ._common import want_float
from ._shape import ONE

FAMILY = "linalg"
WIDE = (DType.f32, DType.f64)
"""Factorisations lose too much in f16 and bf16."""
SQUARES: tuple[dict[str, int], ...] = ({"n": 0, "m": 2}, {"n": 1, "m": 1}, {"n": 5, "m": 3}, {"n": 18, "m": 7})
"""Bindings of samples: empty, one, and sizes that no vector width divides."""


def want_matrices(ctx: InferContext, position: int, t: TensorType, square: bool = False) -> None:
    """Refuses what is no stack of f32 or f64 matrices."""
    want_float(ctx, position, t)
    ctx.require(
        t.dtype in WIDE,
        f"`{ctx.op_name}` takes f32 or f64; {ctx.name(position)} is {t}",
        help=f"convert it: `cast({ctx.name(position)}, dtype=f32)`",
    )
    ctx.require(t.rank >= 2, f"`{ctx.op_name}` takes matrices; {ctx.name(position)} is {t}")
    if square:
        ctx.require_equal(t.dims[-2], t.dims[-1], f"the rows and columns of `{ctx.op_name}`")


def same_stack(ctx: InferContext, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> None:
    """Refuses two operands with other axes before the last ones."""
    ctx.require(len(a) == len(b), f"the operands of `{ctx.op_name}` differ in rank")
    for x, y in zip(a, b, strict=True):
        ctx.require_equal(x, y, f"the sizes before the last axes of `{ctx.op_name}`")


@dataclass(frozen=True)
class Matrix:
    """One matrix of a stack inside a kernel: elements by row and column."""

    k: KernelBuilder
    buffer: str
    dtype: DType
    start: Expr
    columns: Dim

    def at(self, i: Expr, j: Expr) -> Expr:
        return add(self.start, add(mul(i, index(self.columns)), j))

    def get(self, i: Expr, j: Expr) -> Expr:
        return self.k.load(self.buffer, self.at(i, j), self.dtype)

    def put(self, i: Expr, j: Expr, value: Expr) -> None:
        self.k.store(self.buffer, self.at(i, j), value)


def matrix(k: KernelBuilder, x: Array1, number: Expr) -> Matrix:
    """A matrix of a stack by its number."""
    rows, columns = x.type.dims[-2:]
    return Matrix(k, x.buffer, x.type.dtype, mul(number, index(rows * columns)), columns)


def vector_at(x: Array1, number: Expr, i: Expr) -> Expr:
    """The offset of element i of a vector of a stack."""
    return add(mul(number, index(x.type.dims[-1])), i)


def stacks(k: KernelBuilder, x: TensorType, body: Callable[[Expr, str], None]) -> None:
    """Calls `body` with the number of every matrix, and the kind of its own independent loops.

    Several matrices are shared out among the threads; of one, its rows are.
    """
    count = Dim.product(x.dims[:-2])
    if count == ONE:
        body(index(0), "parallel")
    else:
        k.loop("p", index(0), index(count), lambda p: body(p, "serial"), "parallel")


def summed(
    k: KernelBuilder, start: Expr, stop: Expr, term: Callable[[Expr], Expr], dtype: DType, first: Expr | None = None
) -> Expr:
    """first + term(start) + ... + term(stop - 1)."""
    total = k.local(const(0.0, dtype) if first is None else first)
    k.loop("s", start, stop, lambda i: k.assign(total, add(total, term(i))), "vector")
    return total


def smaller(a: Dim, b: Dim) -> Dim:
    return a if a == b else Dim.min(a, b)


def greater_place(k: KernelBuilder, start: Expr, stop: Expr, value: Callable[[Expr], Expr], dtype: DType) -> Expr:
    """The first place in a range where `value` is largest; the start of the range where all are NaN."""
    best, place = k.local(const(-1.0, dtype)), k.local(start)

    def step(i: Expr) -> None:
        v = k.let(value(i))
        more = k.let(apply("gt", v, best))
        k.assign(place, select(more, i, place))
        k.assign(best, select(more, v, best))

    k.loop("i", start, stop, step)
    return place


# -------------------------------------------------------------------------------------------------- samples


def regular(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Well-conditioned matrices: noise on a diagonal."""
    rows, columns = shape[-2:]
    return np.asarray(rng.uniform(-1, 1, shape) + 3 * np.eye(rows, columns))


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Symmetric positive-definite matrices."""
    x = rng.uniform(-1, 1, shape)
    return np.asarray(x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1]))


def stacked(x: Array) -> Array:
    """Matrices as f64 in one axis, to go through in a reference."""
    count = int(np.prod(x.shape[:-2]))  # reshape finds no -1 where there is nothing
    return np.array(x, np.float64).reshape(count, *x.shape[-2:])
