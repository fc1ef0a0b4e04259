"""Pointwise operators of two operands that broadcast against one another.

Both operands have one dtype; nothing is promoted.  f16 and bf16 are computed in f32 and rounded once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..graph import Literal, Operand
from ..loops import Const, Expr
from ..op import Array, ElementContext, InferContext, Refused, Sample
from ..scalar import apply, cast, const, select
from ..types import DType, TensorType, tensor
from ._common import FLOATS, INTS, arrays, cycled, integers, operand, want_bool, want_float, want_int
from ._pointwise import Binary

# ----------------------------------------------------------------------------------------------- arithmetic


class Add(Binary):
    """x + y; integers wrap around."""

    name = "add"


class Sub(Binary):
    """x - y; integers wrap around."""

    name = "sub"
    numpy = "subtract"


class Mul(Binary):
    """x * y; integers wrap around."""

    name = "mul"
    numpy = "multiply"


@dataclass(frozen=True)
class Extremum(Binary):
    """The larger or the smaller operand, as IEEE 754 (2019) has it."""

    def exact(self, x: Array, y: Array) -> Array:
        plain = super().exact(x, y)
        if not np.issubdtype(x.dtype, np.floating):
            return plain
        signs = (np.signbit(x), np.signbit(y))
        negative = np.logical_and(*signs) if self.name == "maximum" else np.logical_or(*signs)
        return np.asarray(np.where((x == 0) & (y == 0), np.where(negative, -0.0, 0.0).astype(x.dtype), plain))


class Maximum(Extremum):
    """The larger of x and y; NaN where either is, and 0.0 is larger than -0.0."""

    name = "maximum"


class Minimum(Extremum):
    """The smaller of x and y; NaN where either is, and -0.0 is smaller than 0.0."""

    name = "minimum"


class Div(Binary):
    """x / y of floating-point numbers."""

    name = "div"
    numpy = "divide"
    sampled = FLOATS
    takes = "floating-point tensors"

    def check(self, ctx: InferContext, position: int, t: TensorType) -> None:
        ctx.require(
            t.dtype.is_float,
            f"`div` takes floating-point tensors; {ctx.name(position)} is {t}",
            help="`floordiv` divides integers; for a true quotient "
            f"convert them: `cast({ctx.name(position)}, dtype=f32)`",
        )

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield from super().refused()
        yield Refused(cls(), (tensor("i32", "n"), tensor("i32", "n")), "`div` takes floating-point tensors; x")


@dataclass(frozen=True)
class Division(Binary):
    """Divisions of which an integer divisor of zero is an error."""

    divides: ClassVar[bool] = True

    def formula(self, ctx: ElementContext, x: Expr, y: Expr) -> Expr:
        if not x.dtype.is_int or (isinstance(y, Const) and y.value not in (0, -1)):
            return apply(self.name, x, y)
        x, y = ctx.let(x), ctx.let(y)
        ctx.require(apply("ne", y, const(0, y.dtype)), f"`{self.name}` divides by zero")
        if not y.dtype.is_signed:
            return apply(self.name, x, apply("maximum", y, const(1, y.dtype)))
        # Division of the smallest integer by -1 overflows, which stops the processor: -1 is a case of its own.
        plain = apply("logical_or", apply("gt", y, const(0, y.dtype)), apply("lt", y, const(-1, y.dtype)))
        plain = ctx.let(plain)
        quotient = apply(self.name, x, select(plain, y, const(1, y.dtype)))
        return select(plain, quotient, self.by_minus_one(x))

    def may_fail(self, operands: Sequence[Operand], types: Sequence[TensorType | None]) -> bool:
        divisor = operands[1]
        return operand(types, 0).dtype.is_int and not (isinstance(divisor, Literal) and divisor.value != 0)

    def by_minus_one(self, x: Expr) -> Expr:
        """The result for the divisor -1."""
        return const(0, x.dtype)

    def exact(self, x: Array, y: Array) -> Array:
        if np.issubdtype(y.dtype, np.integer) and x.size and y.size and not y.all():
            raise ZeroDivisionError(f"`{self.name}` divides by zero")
        return super().exact(x, y)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from super().samples()
        for dtype in (DType.i64, DType.i32, DType.i8):
            least = -(2.0 ** (dtype.bits - 1))
            x, y = tensor(dtype, 4, 1), tensor(dtype, 6)
            yield Sample(
                cls(), (x, y), make=arrays(cycled(least, 7, -7, 0), cycled(-1, 1, 2, -2, 3, least), types=(x, y))
            )


class Floordiv(Division):
    """The quotient rounded down; dividing an integer by zero is an error."""

    name = "floordiv"
    numpy = "floor_divide"

    def by_minus_one(self, x: Expr) -> Expr:
        return apply("neg", x)


class Mod(Division):
    """The remainder with the sign of y: x - y * floordiv(x, y); an integer modulus of zero is an error."""

    name = "mod"


class Fmod(Division):
    """The remainder with the sign of x; an integer modulus of zero is an error."""

    name = "fmod"


class Pow(Binary):
    """x to the power y; a negative exponent of an integer is an error."""

    name = "pow"
    numpy = "power"
    low = 0.1

    def formula(self, ctx: ElementContext, x: Expr, y: Expr) -> Expr:
        if isinstance(y, Const) and y.value == 2:
            x = ctx.let(x)
            return apply("mul", x, x)
        if x.dtype.is_signed and x.dtype.is_int:
            if isinstance(y, Const) and y.value >= 0:
                return apply("pow", x, y)
            y = ctx.let(y)
            fine = apply("ge", y, const(0, y.dtype))
            ctx.require(fine, "`pow` of integers has a negative exponent: {value}", cast(y, DType.i64))
            y = apply("maximum", y, const(0, y.dtype))
        return apply("pow", x, y)

    def may_fail(self, operands: Sequence[Operand], types: Sequence[TensorType | None]) -> bool:
        dtype, exponent = operand(types, 0).dtype, operands[1]
        return dtype.is_int and dtype.is_signed and not (isinstance(exponent, Literal) and exponent.value >= 0)

    def exact(self, x: Array, y: Array) -> Array:
        if np.issubdtype(y.dtype, np.integer) and x.size and (y < 0).any():
            raise ZeroDivisionError("`pow` of integers has a negative exponent")
        return super().exact(x, y)

    @classmethod
    def draws(cls, dtype: DType, second: bool) -> Callable[[np.random.Generator, tuple[int, ...]], object]:
        return integers(0, 6) if dtype.is_int else super().draws(dtype, second)


class Atan2(Binary):
    """The angle of the point (y, x) in radians: the inverse tangent of x / y in the right quadrant."""

    name = "atan2"
    numpy = "arctan2"
    sampled = FLOATS
    takes = "floating-point tensors"

    def check(self, ctx: InferContext, position: int, t: TensorType) -> None:
        want_float(ctx, position, t)


# ---------------------------------------------------------------------------------------------- comparisons


@dataclass(frozen=True)
class Comparison(Binary):
    """A bool; of bool operands, false is less than true."""

    sampled: ClassVar[tuple[DType, ...]] = (*FLOATS, *INTS, DType.bool)
    takes: ClassVar[str] = ""

    def check(self, ctx: InferContext, position: int, t: TensorType) -> None:
        """Every dtype is ordered."""

    def result(self, x: DType) -> DType:
        return DType.bool

    @classmethod
    def draws(cls, dtype: DType, second: bool) -> Callable[[np.random.Generator, tuple[int, ...]], object]:
        return integers(0, 2) if dtype.is_bool else integers(-2, 3)  # so that some are equal


class Eq(Comparison):
    """x == y."""

    name = "eq"
    numpy = "equal"


class Ne(Comparison):
    """x != y; true for NaN."""

    name = "ne"
    numpy = "not_equal"


class Lt(Comparison):
    """x < y."""

    name = "lt"
    numpy = "less"


class Le(Comparison):
    """x <= y."""

    name = "le"
    numpy = "less_equal"


class Gt(Comparison):
    """x > y."""

    name = "gt"
    numpy = "greater"


class Ge(Comparison):
    """x >= y."""

    name = "ge"
    numpy = "greater_equal"


# ------------------------------------------------------------------------------------------- logic and bits


@dataclass(frozen=True)
class Logical(Binary):
    """A function of two bools."""

    sampled: ClassVar[tuple[DType, ...]] = (DType.bool,)
    takes: ClassVar[str] = "bool tensors"

    def check(self, ctx: InferContext, position: int, t: TensorType) -> None:
        want_bool(ctx, position, t)


class LogicalAnd(Logical):
    """Are both true?"""

    name = "logical_and"


class LogicalOr(Logical):
    """Is either true?"""

    name = "logical_or"


class LogicalXor(Logical):
    """Is exactly one true?"""

    name = "logical_xor"


@dataclass(frozen=True)
class Bitwise(Binary):
    """A function of the bits of two integers, or of two bools."""

    sampled: ClassVar[tuple[DType, ...]] = (*INTS, DType.bool)
    takes: ClassVar[str] = "integer or bool tensors"

    def check(self, ctx: InferContext, position: int, t: TensorType) -> None:
        want_int(ctx, position, t, or_bool=True)

    def formula(self, ctx: ElementContext, x: Expr, y: Expr) -> Expr:
        return apply(self.name.replace("bitwise", "logical") if x.dtype.is_bool else self.name, x, y)


class BitwiseAnd(Bitwise):
    """The bits set in both."""

    name = "bitwise_and"


class BitwiseOr(Bitwise):
    """The bits set in either."""

    name = "bitwise_or"


class BitwiseXor(Bitwise):
    """The bits set in exactly one."""

    name = "bitwise_xor"


@dataclass(frozen=True)
class Shift(Binary):
    """A shift of an integer's bits; amounts outside 0..bits-1 (negative ones too) shift every bit out, as in numpy."""

    sampled: ClassVar[tuple[DType, ...]] = INTS
    takes: ClassVar[str] = "integer tensors"

    def check(self, ctx: InferContext, position: int, t: TensorType) -> None:
        want_int(ctx, position, t)

    def formula(self, ctx: ElementContext, x: Expr, y: Expr) -> Expr:
        x, y = ctx.let(x), ctx.let(y)
        inside = apply("lt", y, const(x.dtype.bits, y.dtype))
        if y.dtype.is_signed:
            inside = apply("logical_and", apply("ge", y, const(0, y.dtype)), inside)
        inside = ctx.let(inside)
        return select(inside, apply(self.name, x, select(inside, y, const(0, y.dtype))), self.all_out(x))

    def all_out(self, x: Expr) -> Expr:
        """What is left when every bit is shifted out."""
        return const(0, x.dtype)

    @classmethod
    def draws(cls, dtype: DType, second: bool) -> Callable[[np.random.Generator, tuple[int, ...]], object]:
        return integers(-1, dtype.bits + 2) if second else integers(-9, 9)


class LeftShift(Shift):
    """x * 2^y, wrapping around."""

    name = "left_shift"


class RightShift(Shift):
    """x / 2^y rounded down: the sign is kept."""

    name = "right_shift"

    def all_out(self, x: Expr) -> Expr:
        if not x.dtype.is_signed:
            return const(0, x.dtype)
        return apply("right_shift", x, const(x.dtype.bits - 1, x.dtype))
