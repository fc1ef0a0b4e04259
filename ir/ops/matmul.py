"""The matrix product."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dims import Dim
from ..loops import Expr
from ..op import Array, Contraction, ContractOp, ElementContext, InferContext, Input, Refused, Sample
from ..scalar import index
from ..types import DType, TensorType, tensor
from ._common import FLOATS, SIZES, arrays, exact, integers, operand, rounded, rtol, uniform, want_number


def _batch_index(x: TensorType, batch: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The index of an operand's batch axes at an index of the result's."""
    own = x.dims[:-2]
    tail = batch[len(batch) - len(own) :]
    return tuple(index(0) if size == Dim.of(1) else i for size, i in zip(own, tail, strict=True))


@dataclass(frozen=True)
class Matmul(ContractOp):
    """The matrix product over the last two axes; the axes before them broadcast.

    x: [..., m, k] and y: [..., k, n] give [..., m, n]; a rank-1 operand is a row on the left, a column on the right,
    and its axis is not in the result.  `transpose_a` and `transpose_b` swap the last two axes first (rank 2 and more).
    f16 and bf16 are accumulated in f32, integers in their own type, wrapping around.  An inner size of 0 gives zeros.
    """

    name: ClassVar[str] = "matmul"
    family: ClassVar[str] = "matmul"
    signature: ClassVar[tuple[str, ...]] = ("x", "y")

    transpose_a: bool = False
    transpose_b: bool = False

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, y = operand(operands, 0), operand(operands, 1)
        for i, t in enumerate((x, y)):
            want_number(ctx, i, t)
            ctx.require(
                t.rank > 0,
                f"`matmul` takes tensors of rank 1 and more; {ctx.name(i)} is {t}",
                help="`mul` multiplies by a scalar",
            )
            attribute = ("transpose_a", "transpose_b")[i]
            ctx.require(
                t.rank > 1 or not getattr(self, attribute),
                f"`{attribute}` of `matmul` needs a rank of 2 or more; {ctx.name(i)} is {t}",
            )
        dtype = ctx.same_dtype(x, y)
        ctx.require_equal(self._inner(x, True), self._inner(y, False), "the inner sizes of `matmul`")
        return TensorType(dtype, (*ctx.broadcast(x.dims[:-2], y.dims[:-2]), *self._rows(x), *self._cols(y)))

    def _inner(self, t: TensorType, left: bool) -> Dim:
        if t.rank == 1:
            return t.dims[0]
        return t.dims[-1] if left != (self.transpose_a if left else self.transpose_b) else t.dims[-2]

    def _rows(self, x: TensorType) -> tuple[Dim, ...]:
        return () if x.rank == 1 else (x.dims[-1 if self.transpose_a else -2],)

    def _cols(self, y: TensorType) -> tuple[Dim, ...]:
        return () if y.rank == 1 else (y.dims[-2 if self.transpose_b else -1],)

    def contraction(self, out: TensorType, *operands: TensorType) -> Contraction:
        """Batch axes that `y` does not have are rows: one large product instead of many small ones."""
        x, y = operands
        batch_rank = out.rank - len(self._rows(x)) - len(self._cols(y))
        shared = self._batched(batch_rank, y)
        folded = tuple(i for i in range(batch_rank) if i not in shared)
        roles = {axis: i for i, axis in enumerate((*shared, *folded, *range(batch_rank, out.rank)))}
        return Contraction(
            batch=tuple(out.dims[i] for i in shared),
            rows=(*(out.dims[i] for i in folded), *self._rows(x)),
            cols=self._cols(y),
            inner=(self._inner(x, True),),
            out_order=tuple(roles[i] for i in range(out.rank)),
            accumulator=out.dtype.compute,
        )

    def _batched(self, batch_rank: int, y: TensorType) -> tuple[int, ...]:
        """The output's batch axes that `y` varies along."""
        missing = batch_rank - max(y.rank - 2, 0)
        return tuple(i for i in range(missing, batch_rank) if y.dims[i - missing] != Dim.of(1))

    def lhs(
        self, ctx: ElementContext, b: tuple[Expr, ...], m: tuple[Expr, ...], k: tuple[Expr, ...], *inputs: Input
    ) -> Expr:
        x, y = inputs
        if x.type.rank == 1:
            return x(k[0])
        folded, row = m[:-1], m[-1]
        batch_rank = len(b) + len(folded)
        shared = self._batched(batch_rank, y.type)
        remaining_b, remaining_m = iter(b), iter(folded)
        batch = tuple(next(remaining_b if i in shared else remaining_m) for i in range(batch_rank))
        last = (k[0], row) if self.transpose_a else (row, k[0])
        return x(*_batch_index(x.type, batch), *last)

    def rhs(
        self, ctx: ElementContext, b: tuple[Expr, ...], k: tuple[Expr, ...], n: tuple[Expr, ...], *inputs: Input
    ) -> Expr:
        y = inputs[1]
        if y.type.rank == 1:
            return y(k[0])
        remaining = iter(b)
        batch = tuple(index(0) if size == Dim.of(1) else next(remaining) for size in y.type.dims[:-2])
        last = (n[0], k[0]) if self.transpose_b else (k[0], n[0])
        return y(*batch, *last)

    def reference(self, *operands: Array | None) -> Array:
        x, y = operand(operands, 0), operand(operands, 1)
        left = np.swapaxes(exact(x), -1, -2) if self.transpose_a else exact(x)
        right = np.swapaxes(exact(y), -1, -2) if self.transpose_b else exact(y)
        with np.errstate(all="ignore"):
            return rounded(np.matmul(left, right), DType.of(x.dtype))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        sizes = (*SIZES, {"n": 17, "m": 65})
        cases: list[tuple[tuple[str | int, ...], tuple[str | int, ...], bool, bool]] = [
            (("n", "m"), ("m", 24), False, False),
            (("n", 20), (20, "m"), False, False),
            (("m", 16), (16, 40), False, False),
            (("n", "m"), (16, "m"), False, True),
            (("n", 8), ("n", "m"), True, False),
            (("n", 8), ("m", "n"), True, True),
            ((2, "n", 12), (12, "m"), False, False),
            ((2, "n", 12), (2, 12, "m"), False, False),
            ((3, 1, "n", 4), (2, 4, "m"), False, False),
            ((2, "n", 4), (3, 1, 4, 5), False, False),
            (("n", 2, 3, 7), (1, 7, 3), False, False),
            ((7, 3), ("n", 3, "m"), False, False),
            (("n",), ("n", "m"), False, False),
            (("m", "n"), ("n",), False, False),
            ((2, "m", "n"), ("n",), False, False),
            (("n",), (2, "n", "m"), False, False),
            (("n",), ("n",), False, False),
            ((3, "n", 1), (3, "m", 1), False, True),
        ]
        for dtype in (*FLOATS, DType.i64, DType.i32, DType.i8, DType.u8):
            for x, y, ta, tb in cases if dtype is DType.f32 else cases[:2]:
                types = (tensor(dtype, *x), tensor(dtype, *y))
                draw = integers(-9, 9) if dtype.is_int else uniform(-1, 1)
                make = arrays(draw, draw, types=types)
                yield Sample(cls(ta, tb), types, sizes, make=make, rtol=rtol(dtype), atol=2e-5)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        f32, f64 = DType.f32, DType.f64
        inner = "the inner sizes of `matmul` do not match: "
        yield Refused(cls(), (tensor(f32, "n", "m"), tensor(f32, "n", 4)), inner + "m against n")
        yield Refused(cls(transpose_b=True), (tensor(f32, 2, 3), tensor(f32, 3, 4)), inner + "3 against 4")
        yield Refused(
            cls(), (tensor(f32, 2, "n", 3), tensor(f32, 4, 3, 3)), "the sizes of `matmul` do not match: 2 against 4"
        )
        yield Refused(
            cls(), (tensor(f32, 2, 3), tensor(f64, 3, 4)), "the dtypes of `matmul` do not match: f32 against f64"
        )
        yield Refused(cls(), (tensor(f32, 2, 3), tensor(f32)), "`matmul` takes tensors of rank 1 and more; y is f32[]")
        yield Refused(
            cls(transpose_a=True), (tensor(f32, 3), tensor(f32, 3, 4)), "`transpose_a` of `matmul` needs a rank"
        )
        yield Refused(cls(), (tensor("bool", 2, 3), tensor("bool", 3, 4)), "`matmul` takes numbers; x is bool[2, 3]")
