"""Operators that make tensors of nothing: constants, ranges, identities, and sizes as values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dims import Dim
from ..facts import Compare, Facts, InRange
from ..loops import Expr
from ..op import Array, ElementContext, ElementOp, InferContext, Input, Refused, Sample
from ..scalar import add, apply, cast, const, index, mul
from ..types import DType, TensorType, tensor
from ._common import SIZES, operand, rounded
from ._shape import dims_of, require_size, whole


def _default_dtype(value: bool | int | float | Dim) -> DType:
    """The dtype a value has by itself, as that of a literal."""
    if isinstance(value, bool):
        return DType.bool
    return DType.f32 if isinstance(value, float) else DType.i64


def span_size(facts: Facts, start: Dim, stop: Dim, step: Dim) -> Dim | None:
    """How many of start, start + step, ... come before stop; None where the sign of the step is not known."""
    if facts.prove_le(1, step):
        length = stop - start
    elif facts.prove_le(step, -1):
        length, step = start - stop, -step
    else:
        return None
    if facts.prove_le(length, 0):
        return Dim.of(0)
    return Dim.ceildiv(length if facts.prove_le(0, length) else Dim.max(length, 0), step)


@dataclass(frozen=True)
class Generator(ElementOp):
    """Reads nothing, so that it is computed where it is used."""

    family: ClassVar[str] = "create"
    signature: ClassVar[tuple[str, ...]] = ()

    def shaped(self, ctx: InferContext, shape: tuple[Dim | int, ...], dtype: DType) -> TensorType:
        """The result's type, of sizes that cannot be negative."""
        for d in dims_of(shape):
            require_size(ctx, d, f"a size of `{self.name}`")
        return TensorType(dtype, dims_of(shape))


@dataclass(frozen=True)
class Arange(Generator):
    """start, start + step, ... up to but not including stop."""

    name: ClassVar[str] = "arange"

    stop: Dim | int
    start: Dim | int = 0
    step: Dim | int = 1
    dtype: DType = DType.i64

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        ctx.require(not self.dtype.is_bool, "`arange` counts in numbers, not in bool")
        start, stop, step = dims_of((self.start, self.stop, self.step))
        size = span_size(ctx.facts, start, stop, step)
        if size is None:
            raise ctx.fail(
                f"the step of `arange` must be known to be above or below 0; it is {step}",
                help=ctx.advice(Compare(">=", step, 1)),
                symbols=step.symbols,
                wanted=(Compare(">=", step, 1),),
            )
        return TensorType(self.dtype, (size,))

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        return cast(add(index(Dim.of(self.start)), mul(at[0], index(Dim.of(self.step)))), self.dtype)

    def size_values(self, out: TensorType, types: Sequence[TensorType | None]) -> Iterable[tuple[Dim, DType]]:
        start, step = dims_of((self.start, self.step))
        return ((start, self.dtype), (start + Dim.max(out.dims[0] - 1, 0) * step, self.dtype))

    def reference(self, *operands: Array | None) -> Array:
        return rounded(np.arange(whole(self.start), whole(self.stop), whole(self.step)), self.dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        n, m = Dim.of("n"), Dim.of("m")
        for dtype in (DType.i64, DType.i32, DType.f32, DType.f64, DType.f16, DType.bf16):
            yield Sample(cls(n, dtype=dtype), (), SIZES)
        for op in (cls(7), cls(3 * n + m, m), cls(n, m), cls(n, 2, 3), cls(-1, n, -2), cls(n, 0, m)):
            facts = (InRange("m", 1),) if isinstance(op.step, Dim) else ()
            yield Sample(op, (), SIZES, facts)
        yield Sample(cls(0, 5), ())

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        n = Dim.of("n")
        yield Refused(cls(n, step=0), (), "the step of `arange` must be known to be above or below 0; it is 0")
        yield Refused(cls(9, step=n), (), "the step of `arange` must be known to be above or below 0; it is n")
        yield Refused(cls(n, dtype=DType.bool), (), "`arange` counts in numbers, not in bool")


@dataclass(frozen=True)
class Full(Generator):
    """One value everywhere: a number or a size; its own dtype (f32, i64 or bool) unless `dtype` says another."""

    name: ClassVar[str] = "full"

    shape: tuple[Dim | int, ...]
    value: bool | int | float | Dim
    dtype: DType | None = None

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        own = _default_dtype(self.value)
        dtype = self.dtype or own
        ctx.require(
            not (own.is_float and dtype.is_int),
            f"the value {self.value} of `full` is not {dtype.with_article}",
            help="write a whole number, or another dtype",
        )
        same_kind = own.is_bool == dtype.is_bool
        ctx.require(same_kind, f"the value {_shown(self.value)} of `full` is not {dtype.with_article}")
        if not isinstance(self.value, Dim) and dtype.is_int:
            info = np.iinfo(dtype.numpy.name)
            ctx.require(info.min <= self.value <= info.max, f"the value {self.value} of `full` does not fit {dtype}")
        return self.shaped(ctx, self.shape, dtype)

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        return cast(index(self.value), out.dtype) if isinstance(self.value, Dim) else const(self.value, out.dtype)

    def size_values(self, out: TensorType, types: Sequence[TensorType | None]) -> Iterable[tuple[Dim, DType]]:
        return ((self.value, out.dtype),) if isinstance(self.value, Dim) else ()

    def reference(self, *operands: Array | None) -> Array:
        dtype = self.dtype or _default_dtype(self.value)
        value = whole(self.value) if isinstance(self.value, Dim) else self.value
        return rounded(np.full([whole(d) for d in self.shape], value), dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        n, m = Dim.of("n"), Dim.of("m")
        for dtype in (DType.f32, DType.f64, DType.f16, DType.bf16, DType.i64, DType.i32, DType.u8):
            yield Sample(cls((n, m), 3, dtype), (), SIZES)
        for value in (True, 1.5, 7, float("-inf"), n + 1):
            yield Sample(cls((n, 2 * m), value), (), SIZES)
        yield Sample(cls((n,), n, DType.f32), (), SIZES)
        yield Sample(cls((), 0.5), ())

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        n = Dim.of("n")
        yield Refused(cls((n,), 1.5, DType.i32), (), "the value 1.5 of `full` is not an i32")
        yield Refused(cls((n,), True, DType.f32), (), "the value true of `full` is not an f32")
        yield Refused(cls((n,), 2, DType.bool), (), "the value 2 of `full` is not a bool")
        yield Refused(cls((n,), 300, DType.u8), (), "the value 300 of `full` does not fit u8")
        yield Refused(cls((n - 1,), 0.0), (), "a size of `full` may be negative: n - 1")


def _shown(value: bool | int | float | Dim) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Same(Generator):
    """One number everywhere that every dtype has."""

    value: ClassVar[int]

    shape: tuple[Dim | int, ...]
    dtype: DType = DType.f32

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        return self.shaped(ctx, self.shape, self.dtype)

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        return const(self.value, self.dtype)

    def reference(self, *operands: Array | None) -> Array:
        return rounded(np.full([whole(d) for d in self.shape], self.value), self.dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        n, m = Dim.of("n"), Dim.of("m")
        for dtype in DType:
            yield Sample(cls((n, m), dtype), (), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls((Dim.of("n") - 1,)), (), f"a size of `{cls.name}` may be negative: n - 1")


@dataclass(frozen=True)
class Zeros(Same):
    """0 (false) everywhere."""

    name: ClassVar[str] = "zeros"
    value: ClassVar[int] = 0


@dataclass(frozen=True)
class Ones(Same):
    """1 (true) everywhere."""

    name: ClassVar[str] = "ones"
    value: ClassVar[int] = 1


@dataclass(frozen=True)
class Iota(Generator):
    """The position along `axis`: 0, 1, 2, ..."""

    name: ClassVar[str] = "iota"

    shape: tuple[Dim | int, ...]
    axis: int = 0
    dtype: DType = DType.i64

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        ctx.require(not self.dtype.is_bool, "`iota` counts in numbers, not in bool")
        ctx.axis(self.axis, len(self.shape))
        return self.shaped(ctx, self.shape, self.dtype)

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        return cast(at[self.axis], self.dtype)

    def reference(self, *operands: Array | None) -> Array:
        shape = [whole(d) for d in self.shape]
        along = [shape[self.axis] if i == self.axis % len(shape) else 1 for i in range(len(shape))]
        return rounded(np.broadcast_to(np.arange(shape[self.axis]).reshape(along), shape), self.dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        n, m = Dim.of("n"), Dim.of("m")
        for axis in (0, 1, -1):
            yield Sample(cls((n, 3, m), axis), (), SIZES)
        for dtype in (DType.f32, DType.f16, DType.i32):
            yield Sample(cls((n, m), 1, dtype), (), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls((Dim.of("n"),), 1), (), "axis 1 of `iota` is out of range for rank 1")
        yield Refused(cls((), 0), (), "axis 0 of `iota` is out of range for rank 0")
        yield Refused(cls((4,), 0, DType.bool), (), "`iota` counts in numbers, not in bool")


@dataclass(frozen=True)
class Eye(Generator):
    """1 where the column is the row plus `diagonal`, else 0; square unless `m` gives the number of columns."""

    name: ClassVar[str] = "eye"

    n: Dim | int
    m: Dim | int | None = None
    diagonal: int = 0
    dtype: DType = DType.f32

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        return self.shaped(ctx, (self.n, self.n if self.m is None else self.m), self.dtype)

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        row, column = at
        return cast(apply("eq", column, add(row, index(self.diagonal))), self.dtype)

    def reference(self, *operands: Array | None) -> Array:
        return rounded(np.eye(whole(self.n), None if self.m is None else whole(self.m), self.diagonal), self.dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        n, m = Dim.of("n"), Dim.of("m")
        for dtype in (DType.f32, DType.f16, DType.i64, DType.bool):
            yield Sample(cls(n, dtype=dtype), (), SIZES)
        for diagonal in (0, 2, -1):
            yield Sample(cls(n, m, diagonal), (), SIZES)
        yield Sample(cls(3, 4), ())

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(Dim.of("n") - 1), (), "a size of `eye` may be negative: n - 1")


@dataclass(frozen=True)
class DimOp(ElementOp):
    """The size of an axis as an i64 value."""

    name: ClassVar[str] = "dim"
    family: ClassVar[str] = "create"
    index_map: ClassVar[bool] = True  # it needs no element of the operand, and costs nothing wherever it is read

    axis: int

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        ctx.axis(self.axis, operand(operands, 0).rank)
        return TensorType(DType.i64, ())

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        return index(operand(inputs, 0).type.dims[self.axis])

    def size_values(self, out: TensorType, types: Sequence[TensorType | None]) -> Iterable[tuple[Dim, DType]]:
        return ((operand(types, 0).dims[self.axis], DType.i64),)

    def reference(self, *operands: Array | None) -> Array:
        return np.asarray(operand(operands, 0).shape[self.axis], dtype=np.int64)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for axis in (0, 1, -1):
            yield Sample(cls(axis), (tensor("f32", "n", "m"),), SIZES)
        yield Sample(cls(0), (tensor("bool", Dim.of("n") * 2),), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(1), (tensor("f32", "n"),), "axis 1 of `dim` is out of range for rank 1")
