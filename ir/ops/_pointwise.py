"""The bases of the pointwise operators: what one or two operands of one dtype have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..loops import Expr
from ..op import Array, ElementContext, InferContext, Pointwise, Refused, Sample
from ..scalar import apply, cast
from ..types import DType, TensorType, tensor
from ._common import (
    FLOATS,
    INTS,
    SIZES,
    arrays,
    cycled,
    integers,
    operand,
    rounded,
    rtol,
    shapes,
    uniform,
    want_float,
    want_number,
    widened,
)


@dataclass(frozen=True)
class Unary(Pointwise):
    """One operand, one result of its shape; `domain` is where samples are drawn from, beside the special values."""

    family: ClassVar[str] = "unary"
    domain: ClassVar[tuple[float, float]] = (-4.0, 4.0)
    special: ClassVar[tuple[float, ...]] = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5)
    sampled: ClassVar[tuple[DType, ...]] = FLOATS

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        self.check(ctx, x)
        return TensorType(self.result(x.dtype), x.dims)

    def check(self, ctx: InferContext, x: TensorType) -> None:
        """Refuses dtypes the function is not defined on."""
        want_float(ctx, 0, x)

    def result(self, x: DType) -> DType:
        return x

    def scalar(self, ctx: ElementContext, *args: Expr) -> Expr:
        (x,) = args
        return cast(self.formula(ctx, cast(x, x.dtype.compute)), self.result(x.dtype))

    def formula(self, ctx: ElementContext, x: Expr) -> Expr:
        """The function in the compute type of x."""
        return apply(self.name, x)

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        with np.errstate(all="ignore"):
            return rounded(self.exact(widened(x)), self.result(DType.of(x.dtype)))

    def exact(self, x: Array) -> object:
        """The function in numpy; by default numpy's of the op's name."""
        fn: Callable[[Array], object] = getattr(np, self.name)
        return fn(x)

    @classmethod
    def variants(cls) -> Iterable[Unary]:
        """The attribute values that samples use."""
        yield cls()

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for op in cls.variants():
            for dtype in cls.sampled:
                for t in list(shapes(dtype)) if dtype is DType.f32 else [tensor(dtype, "n", 7)]:
                    draw = integers(-9, 9) if dtype.is_int else uniform(*cls.domain)
                    yield Sample(op, (t,), SIZES, make=arrays(draw, types=(t,)), rtol=rtol(dtype))
                if dtype in (DType.f32, DType.f64):
                    t = tensor(dtype, "n")
                    make = arrays(cycled(*cls.special), types=(t,))
                    yield Sample(op, (t,), SIZES, make=make, rtol=rtol(dtype))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(), (tensor("i32", "n"),), f"`{cls.name}` takes floating-point tensors; ")
        yield Refused(cls(), (tensor("bool", "n"),), f"`{cls.name}` takes floating-point tensors; ")


@dataclass(frozen=True)
class NumberUnary(Unary):
    """A function of integers too, of which the result wraps around."""

    sampled: ClassVar[tuple[DType, ...]] = FLOATS + INTS

    def check(self, ctx: InferContext, x: TensorType) -> None:
        want_number(ctx, 0, x)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(), (tensor("bool", "n"),), f"`{cls.name}` takes numbers; ")


@dataclass(frozen=True)
class Binary(Pointwise):
    """Two operands of one dtype; `formula` and `exact` are the function in the compute type and in numpy."""

    family: ClassVar[str] = "binary"
    signature: ClassVar[tuple[str, ...]] = ("x", "y")
    sampled: ClassVar[tuple[DType, ...]] = FLOATS + INTS
    numpy: ClassVar[str] = ""  # numpy's name where it is another one
    low: ClassVar[float] = -4.0
    divides: ClassVar[bool] = False
    takes: ClassVar[str] = "numbers"  # as the refusal says it; empty: any dtype

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, y = operand(operands, 0), operand(operands, 1)
        self.check(ctx, 0, x)
        self.check(ctx, 1, y)
        return TensorType(self.result(ctx.same_dtype(x, y)), ctx.broadcast(x.dims, y.dims))

    def check(self, ctx: InferContext, position: int, t: TensorType) -> None:
        """Refuses dtypes the function is not defined on."""
        want_number(ctx, position, t)

    def result(self, x: DType) -> DType:
        return x

    def scalar(self, ctx: ElementContext, *args: Expr) -> Expr:
        x, y = (cast(a, a.dtype.compute) for a in args)
        return cast(self.formula(ctx, x, y), self.result(args[0].dtype))

    def formula(self, ctx: ElementContext, x: Expr, y: Expr) -> Expr:
        """The function in the compute type."""
        return apply(self.name, x, y)

    def reference(self, *operands: Array | None) -> Array:
        x, y = operand(operands, 0), operand(operands, 1)
        with np.errstate(all="ignore"):
            return rounded(self.exact(widened(x), widened(y)), self.result(DType.of(x.dtype)))

    def exact(self, x: Array, y: Array) -> Array:
        """The function in numpy; by default numpy's of the op's name."""
        fn: Callable[[Array, Array], Array] = getattr(np, self.numpy or self.name)
        return fn(x, y)

    @classmethod
    def draws(cls, dtype: DType, second: bool) -> Callable[[np.random.Generator, tuple[int, ...]], object]:
        """How samples of an operand are drawn."""
        if dtype.is_bool:
            return integers(0, 2)
        if dtype.is_int:
            return integers(-9, 9, nonzero=second and cls.divides)
        return uniform(cls.low, 4.0)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in cls.sampled:
            pairs = _PAIRS if dtype is cls.sampled[0] else _PAIRS[:1]
            for dims_x, dims_y in pairs:
                x, y = tensor(dtype, *dims_x), tensor(dtype, *dims_y)
                make = arrays(cls.draws(dtype, False), cls.draws(dtype, True), types=(x, y))
                yield Sample(cls(), (x, y), SIZES, make=make, rtol=rtol(dtype))
            if dtype in (DType.f32, DType.f64):
                x, y = tensor(dtype, 8, 1), tensor(dtype, 9)
                make = arrays(cycled(*_SPECIAL[:8]), cycled(*_SPECIAL), types=(x, y))
                yield Sample(cls(), (x, y), make=make, rtol=rtol(dtype))
        yield from cls.with_literals()

    @classmethod
    def with_literals(cls) -> Iterable[Sample]:
        dtype = cls.sampled[0]
        t = tensor(dtype, "n", 3)
        two = True if dtype.is_bool else 2
        draw = cls.draws(dtype, cls.divides)
        yield Sample(cls(), (t, two), SIZES, make=arrays(draw, None, types=(t, None)), rtol=rtol(dtype))
        yield Sample(cls(), (two, t), SIZES, make=arrays(None, draw, types=(None, t)), rtol=rtol(dtype))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        dtype, sizes = cls.sampled[0], f"the sizes of `{cls.name}` do not match: "
        yield Refused(cls(), (tensor(dtype, "n"), tensor(dtype, "m")), sizes + "n against m")
        yield Refused(cls(), (tensor(dtype, "n", 3), tensor(dtype, "n", 4)), sizes + "3 against 4")
        if not dtype.is_bool:
            other = "i16" if dtype.is_int else "f64"
            dtypes = f"the dtypes of `{cls.name}` do not match: {dtype} against {other}"
            yield Refused(cls(), (tensor(dtype, "n"), tensor(other, "n")), dtypes)
        if cls.takes:
            wrong = "bool" if dtype.is_float else "f32"
            yield Refused(cls(), (tensor(wrong, "n"), tensor(wrong, "n")), f"`{cls.name}` takes {cls.takes}; x")


_PAIRS: tuple[tuple[tuple[str | int, ...], tuple[str | int, ...]], ...] = (
    (("n", 7), (7,)),
    (("n", "m"), ("n", "m")),
    (("n", 1), ("m",)),
    ((), ()),
    (("n",), ()),
    (("n", "m"), (1, "m")),
    (("m", 1, 3), ("n", 1)),
    ((), ("m", 2, "n")),
)
_SPECIAL = (0.0, -0.0, 1.0, -2.5, float("inf"), -float("inf"), float("nan"), 3.0, -1.0)
