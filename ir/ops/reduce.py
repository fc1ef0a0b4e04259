"""Reductions over axes.  f16 and bf16 are accumulated in f32; integers in their own type, wrapping around.

`axis` is one axis, several, or none for all; negative axes count from the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dims import Dim
from ..facts import Compare, InRange
from ..loops import Expr
from ..op import Array, ElementContext, InferContext, ReduceOp, Refused, Sample
from ..scalar import apply, cast, const, index
from ..types import DType, TensorType, tensor
from ._common import (
    INTS,
    SIZES,
    arrays,
    cycled,
    exact,
    integers,
    operand,
    product_of,
    rounded,
    rtol,
    uniform,
    want_float,
    want_number,
)

Axis = tuple[int, ...] | int | None


def normal(axis: Axis, rank: int) -> tuple[int, ...]:
    """Sorted non-negative axes of an attribute that `infer` has accepted."""
    if axis is None:
        return tuple(range(rank))
    return tuple(sorted(a % rank for a in ((axis,) if isinstance(axis, int) else axis)))


def reduced(dims: Sequence[Dim], axes: Sequence[int], keepdims: bool) -> tuple[Dim, ...]:
    """The shape after a reduction."""
    one = Dim.of(1)
    return tuple(one if i in axes else d for i, d in enumerate(dims) if keepdims or i not in axes)


def want_elements(ctx: InferContext, x: TensorType, axes: Iterable[int], way_out: str = "") -> None:
    """Refuses axes that may be empty, of which the reduction has no value."""
    for a in axes:
        size = x.dims[a]
        if not ctx.holds(Compare("<", 0, size)):
            fact = ctx.advice(InRange(size, 1)) or "give it an element"
            raise ctx.fail(
                f"`{ctx.op_name}` of no elements has no value: axis {a} has size {size}, which may be 0",
                label=f"{ctx.name(0)} is {x}",
                help=f"{fact}{way_out}",
                symbols=size.symbols,
                wanted=(InRange(size, 1),),
            )


@dataclass(frozen=True)
class Reduction(ReduceOp):
    """`axis`, `keepdims`, and the shape rule; the sampled dtypes and the fact samples need are the class's."""

    family: ClassVar[str] = "reduce"
    sampled: ClassVar[tuple[DType, ...]] = (DType.f32, DType.f64, DType.f16, DType.bf16, *INTS)
    nonempty: ClassVar[bool] = False

    axis: Axis = None
    keepdims: bool = False

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        self.check(ctx, x)
        axes = ctx.axes(self.axis, x.rank)
        if self.nonempty:
            want_elements(ctx, x, axes)
        return TensorType(self.result(x.dtype), reduced(x.dims, axes, self.keepdims))

    def check(self, ctx: InferContext, x: TensorType) -> None:
        """Refuses dtypes."""
        want_number(ctx, 0, x)

    def result(self, x: DType) -> DType:
        return x

    def reduced_axes(self, rank: int) -> tuple[int, ...]:
        return normal(self.axis, rank)

    @property
    def keeps_dims(self) -> bool:
        return self.keepdims

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        dtype = self.result(DType.of(x.dtype))
        with np.errstate(all="ignore"):
            return rounded(self.exact(x, normal(self.axis, x.ndim)), dtype)

    def exact(self, x: Array, axes: tuple[int, ...]) -> object:
        """The reduction in numpy, of the original array."""
        raise NotImplementedError

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        facts = (InRange("n", 1), InRange("m", 1)) if cls.nonempty else ()
        sizes = tuple(b for b in SIZES if not cls.nonempty or b["n"])
        for dtype in cls.sampled:
            cases = _CASES if dtype is cls.sampled[0] else _CASES[:2]
            for dims, axis, keepdims in cases:
                t = tensor(dtype, *dims)
                draw = integers(0, 2) if dtype.is_bool else integers(-3, 4) if dtype.is_int else uniform(-2, 2)
                op = cls(axis=axis, keepdims=keepdims)
                yield Sample(op, (t,), sizes, facts, arrays(draw, types=(t,)), rtol=rtol(dtype), atol=1e-5)
            if dtype is DType.f32:
                t = tensor(dtype, 4, "n")
                make = arrays(cycled(1.0, math.nan, -math.inf, 2.0, math.inf, 0.0, 3.0), types=(t,))
                yield Sample(cls(axis=1), (t,), sizes, facts, make)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        t = tensor(cls.sampled[0], 3, 4)
        yield Refused(cls(axis=2), (t,), f"axis 2 of `{cls.name}` is out of range for rank 2")
        yield Refused(cls(axis=-3), (t,), f"axis -3 of `{cls.name}` is out of range for rank 2")
        if cls.nonempty:
            yield Refused(cls(axis=0), (tensor("f32", "n", 4),), "axis 0 has size n, which may be 0")
            yield Refused(cls(axis=0), (tensor("f32", 0, 4),), "axis 0 has size 0, which may be 0")


_CASES: tuple[tuple[tuple[str | int, ...], Axis, bool], ...] = (
    (("n", "m"), -1, False),
    (("n", "m"), 0, True),
    (("n", "m", 5), (0, -1), False),
    (("m", "n", 3), (1,), True),
    (("n", "m"), None, False),
    (("n",), 0, False),
    ((), None, False),
    (("n", 20), 1, False),
)


@dataclass(frozen=True)
class Numeric(Reduction):
    """A reduction of numbers; `instead` is what to do with bools."""

    instead: ClassVar[str] = ""

    def check(self, ctx: InferContext, x: TensorType) -> None:
        want_number(ctx, 0, x, self.instead.format(ctx.name(0)))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield from super().refused()
        if cls.sampled[-1].is_int:
            yield Refused(cls(axis=(0, 0)), (tensor("f32", 3, 4),), f"an axis of `{cls.name}` is listed twice")
            yield Refused(cls(axis=1), (tensor("bool", 3, 4),), f"`{cls.name}` takes numbers; x is bool[3, 4]")


@dataclass(frozen=True)
class Sum(Numeric):
    """The sum; of no elements 0.  The result has the operand's dtype, so that integers wrap around."""

    name: ClassVar[str] = "sum"
    combiner: ClassVar[str] = "add"
    instead: ClassVar[str] = "to count, convert it: `cast({}, dtype=i64)`"

    def exact(self, x: Array, axes: tuple[int, ...]) -> object:
        return np.sum(exact(x), axis=axes, keepdims=self.keepdims, dtype=exact(x).dtype)


@dataclass(frozen=True)
class Prod(Numeric):
    """The product; of no elements 1.  The result has the operand's dtype, so that integers wrap around."""

    name: ClassVar[str] = "prod"
    combiner: ClassVar[str] = "mul"
    instead: ClassVar[str] = "`all` is the product of bools"

    def exact(self, x: Array, axes: tuple[int, ...]) -> object:
        return np.prod(exact(x), axis=axes, keepdims=self.keepdims, dtype=exact(x).dtype)


@dataclass(frozen=True)
class Mean(Reduction):
    """The arithmetic mean; of no elements NaN."""

    name: ClassVar[str] = "mean"
    combiner: ClassVar[str] = "add"
    sampled: ClassVar[tuple[DType, ...]] = (DType.f32, DType.f64, DType.f16, DType.bf16)

    def check(self, ctx: InferContext, x: TensorType) -> None:
        want_float(ctx, 0, x)

    def after(self, ctx: ElementContext, total: Expr, count: Dim, out: DType) -> Expr:
        return cast(apply("div", total, cast(index(count), total.dtype)), out)

    def exact(self, x: Array, axes: tuple[int, ...]) -> object:
        total = np.sum(exact(x), axis=axes, keepdims=self.keepdims)
        return np.divide(total, product_of(x.shape[a] for a in axes))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield from super().refused()
        yield Refused(cls(), (tensor("i32", "n"),), "`mean` takes floating-point tensors; x is i32[n]")


@dataclass(frozen=True)
class Extreme(Numeric):
    """The largest or smallest element, NaN where there is one.

    Without `initial` the axes may not be empty; with it, `initial` takes part, and is the result of no elements.
    """

    initial: float | int | None = None

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        self.check(ctx, x)
        axes = ctx.axes(self.axis, x.rank)
        if self.initial is None:
            want_elements(ctx, x, axes, ", or give `initial`, the result of no elements")
        elif x.dtype.is_int:
            ctx.require(
                isinstance(self.initial, int),
                f"`initial` of `{self.name}` is {self.initial}, which is not {x.dtype.with_article}",
                help="write a whole number",
            )
        return TensorType(x.dtype, reduced(x.dims, axes, self.keepdims))

    def after(self, ctx: ElementContext, total: Expr, count: Dim, out: DType) -> Expr:
        if self.initial is not None:
            total = apply(self.combiner, total, const(self.initial, total.dtype))
        return cast(total, out)

    def exact(self, x: Array, axes: tuple[int, ...]) -> object:
        function = np.max if self.combiner == "maximum" else np.min
        wide = exact(x)
        if self.initial is None:
            return function(wide, axis=axes, keepdims=self.keepdims)
        return function(wide, axis=axes, keepdims=self.keepdims, initial=wide.dtype.type(self.initial))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from super().samples()
        t = tensor("f32", "m", "n")
        yield Sample(cls(axis=1, initial=0.5), (t,), SIZES)
        yield Sample(cls(axis=None, initial=-3), (tensor("i32", "m", "n"),), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield from super().refused()
        yield Refused(cls(axis=0), (tensor("f32", "n", 4),), "axis 0 has size n, which may be 0")
        yield Refused(cls(axis=0, initial=0.5), (tensor("i32", "n"),), f"`initial` of `{cls.name}` is 0.5")


@dataclass(frozen=True)
class Max(Extreme):
    """The largest element, NaN where there is one; of axes that may be empty only with `initial`."""

    name: ClassVar[str] = "max"
    combiner: ClassVar[str] = "maximum"
    nonempty: ClassVar[bool] = True
    instead: ClassVar[str] = "`any` is the maximum of bools"


@dataclass(frozen=True)
class Min(Extreme):
    """The smallest element, NaN where there is one; of axes that may be empty only with `initial`."""

    name: ClassVar[str] = "min"
    combiner: ClassVar[str] = "minimum"
    nonempty: ClassVar[bool] = True
    instead: ClassVar[str] = "`all` is the minimum of bools"


@dataclass(frozen=True)
class Logical(Reduction):
    """Of bools, or of numbers, which count as true where they are not 0 (NaN is not)."""

    sampled: ClassVar[tuple[DType, ...]] = (DType.bool, DType.f32, DType.i32)

    def check(self, ctx: InferContext, x: TensorType) -> None:
        """Every dtype has a zero."""

    def result(self, x: DType) -> DType:
        return DType.bool

    def accumulator(self, x: DType) -> DType:
        return DType.bool

    def before(self, ctx: ElementContext, x: Expr) -> Expr:
        return cast(x, DType.bool)

    def exact(self, x: Array, axes: tuple[int, ...]) -> object:
        function = np.any if self.combiner == "logical_or" else np.all
        return function(x != 0, axis=axes, keepdims=self.keepdims)


@dataclass(frozen=True)
class Any(Logical):
    """Is any element true?  Of no elements false."""

    name: ClassVar[str] = "any"
    combiner: ClassVar[str] = "logical_or"


@dataclass(frozen=True)
class All(Logical):
    """Are all elements true?  Of no elements true."""

    name: ClassVar[str] = "all"
    combiner: ClassVar[str] = "logical_and"


@dataclass(frozen=True)
class Position(Reduction):
    """Where the extreme element stands, i64: the first of equal ones, and the first NaN if there is one."""

    nonempty: ClassVar[bool] = True

    axis: int | None = None

    def result(self, x: DType) -> DType:
        return DType.i64

    def check(self, ctx: InferContext, x: TensorType) -> None:
        want_number(ctx, 0, x)
        ctx.require(
            self.axis is None or isinstance(self.axis, int),
            f"`{self.name}` takes one axis, or none for the position in the flattened tensor",
        )

    def exact(self, x: Array, axes: tuple[int, ...]) -> object:
        function = np.argmax if self.combiner == "argmax" else np.argmin
        return function(exact(x), axis=self.axis, keepdims=self.keepdims)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        return (s for s in super().samples() if not isinstance(getattr(s.op, "axis", None), tuple))


@dataclass(frozen=True)
class Argmax(Position):
    """The position of the largest element (the first of equal ones; NaN counts as largest), i64.

    Without `axis` it is the position in the flattened tensor.
    """

    name: ClassVar[str] = "argmax"
    combiner: ClassVar[str] = "argmax"


@dataclass(frozen=True)
class Argmin(Position):
    """The position of the smallest element (the first of equal ones; NaN counts as smallest), i64.

    Without `axis` it is the position in the flattened tensor.
    """

    name: ClassVar[str] = "argmin"
    combiner: ClassVar[str] = "argmin"
