"""Pointwise operators that choose, limit, convert or combine: where, clamp, cast, fma."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..loops import Expr
from ..op import Array, ElementContext, InferContext, Input, Pointwise, Refused, Sample, broadcast_element
from ..scalar import apply, cast, select
from ..types import DType, TensorType, tensor
from ._common import (
    FLOATS,
    INTS,
    SIZES,
    arrays,
    cycled,
    integers,
    limited,
    operand,
    optional,
    rounded,
    rtol,
    uniform,
    want_float,
    want_number,
    widened,
)


@dataclass(frozen=True)
class Where(Pointwise):
    """x where the condition is true, else y."""

    name: ClassVar[str] = "where"
    family: ClassVar[str] = "select"
    signature: ClassVar[tuple[str, ...]] = ("condition", "x", "y")

    def literal_dtype(self, operands: Sequence[TensorType | None]) -> DType | None:
        return super().literal_dtype(operands[1:])

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        condition, x, y = (operand(operands, i) for i in range(3))
        ctx.require(
            condition.dtype.is_bool,
            f"the condition of `where` must be bool; {ctx.name(0)} is {condition}",
            help=f"compare it: `ne({ctx.name(0)}, 0)`",
        )
        if x.dtype is not y.dtype:
            raise ctx.fail(
                f"the dtypes of `where` do not match: {x.dtype} against {y.dtype}",
                label=f"{ctx.name(1)} is {x}, {ctx.name(2)} is {y}",
                help=f"convert one of them: `cast({ctx.name(2)}, dtype={x.dtype})`",
            )
        return TensorType(x.dtype, ctx.broadcast(condition.dims, x.dims, y.dims))

    def scalar(self, ctx: ElementContext, *args: Expr) -> Expr:
        condition, x, y = args
        return select(condition, x, y)

    def reference(self, *operands: Array | None) -> Array:
        return np.asarray(np.where(*(operand(operands, i) for i in range(3))))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        c = tensor("bool", "n", "m")
        for dtype in (*FLOATS, *INTS, DType.bool):
            yield Sample(cls(), (c, tensor(dtype, "n", "m"), tensor(dtype, "m")), SIZES)
        yield Sample(cls(), (tensor("bool", "n", 1), tensor("f32", "m"), tensor("f32")), SIZES)
        yield Sample(cls(), (tensor("bool"), tensor("f32", "n"), tensor("f32", "m", 1)), SIZES)
        yield Sample(cls(), (c, tensor("f32", "n", "m"), 0.0), SIZES)
        yield Sample(cls(), (c, float("-inf"), tensor("f16", "n", "m")), SIZES)
        yield Sample(cls(), (c, 1.0, 2.0), SIZES)
        yield Sample(cls(), (c, True, tensor("bool", 1)), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n")
        yield Refused(cls(), (x, x, x), "the condition of `where` must be bool; x is f32[n]")
        mixed = (tensor("bool", "n"), x, tensor("f64", "n"))
        yield Refused(cls(), mixed, "the dtypes of `where` do not match: f32 against f64")
        yield Refused(cls(), (tensor("bool", "m"), x, x), "the sizes of `where` do not match: m against n")


@dataclass(frozen=True)
class Clamp(Pointwise):
    """x limited to [min, max], either of which may be none; max wins where min is above it.

    A limit that equals x leaves x: -0.0 stays -0.0 between 0.0 and 1.0.  NaN where any of the three is.
    """

    name: ClassVar[str] = "clamp"
    family: ClassVar[str] = "select"
    signature: ClassVar[tuple[str, ...]] = ("x", "min?", "max?")

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        given = [t for t in operands if t is not None]
        ctx.require(len(given) > 1, "`clamp` needs a minimum, a maximum or both", help="write `clamp(x, 0.0, none)`")
        for i, t in enumerate(operands):
            if t is not None:
                want_number(ctx, i, t)
        dtype = ctx.same_dtype(*given)
        return TensorType(dtype, ctx.broadcast(*(t.dims for t in given)))

    def element(self, ctx: ElementContext, out: TensorType, index: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        x, low, high = (None if i is None else broadcast_element(i, index) for i in (*inputs, None, None)[:3])
        assert x is not None
        return self.limited(x, low, high)

    def scalar(self, ctx: ElementContext, *args: Expr) -> Expr:
        """With both limits; `element` knows which are absent."""
        return self.limited(*args)

    @staticmethod
    def limited(x: Expr, low: Expr | None = None, high: Expr | None = None) -> Expr:
        dtype = x.dtype
        x = cast(x, dtype.compute)
        if low is not None:
            x = apply("clamp_min", x, cast(low, x.dtype))
        if high is not None:
            x = apply("clamp_max", x, cast(high, x.dtype))
        return cast(x, dtype)

    def reference(self, *operands: Array | None) -> Array:
        x, low, high = operand(operands, 0), optional(operands, 1), optional(operands, 2)
        limits = (None if limit is None else widened(limit) for limit in (low, high))
        return rounded(limited(widened(x), *limits), DType.of(x.dtype))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in (*FLOATS, *INTS):
            t = tensor(dtype, "n", "m")
            draw = integers(0, 9) if dtype.is_int else uniform(-2, 2)
            yield Sample(cls(), (t, 1, 3), SIZES, make=arrays(draw, None, None, types=(t, None, None)))
        x, m = tensor("f32", "n", "m"), tensor("f32", "m")
        yield Sample(cls(), (x, -0.5, 1.5), SIZES)
        yield Sample(cls(), (x, None, 0.25), SIZES)
        yield Sample(cls(), (x, 0.0, None), SIZES)
        yield Sample(cls(), (x, m), SIZES)
        yield Sample(cls(), (m, tensor("f32", "n", 1), m), SIZES)
        t = tensor("f32", "n")
        edges = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0)
        special = arrays(cycled(*edges), None, None, types=(t, None, None))
        yield Sample(cls(), (t, -1.0, 1.0), SIZES, make=special)
        x, limit = tensor("f32", 4, 1), tensor("f32", 5)
        awkward = cycled(float("nan"), 0.0, -0.0, 2.0, -float("inf"))
        yield Sample(cls(), (x, limit, 1.0), make=arrays(awkward, awkward, None, types=(x, limit, None)))
        yield Sample(cls(), (x, None, limit), make=arrays(awkward, None, awkward, types=(x, None, limit)))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n")
        yield Refused(cls(), (x,), "`clamp` needs a minimum, a maximum or both")
        yield Refused(cls(), (x, None, None), "`clamp` needs a minimum, a maximum or both")
        yield Refused(cls(), (tensor("bool", "n"), False), "`clamp` takes numbers; x is bool[n]")
        yield Refused(cls(), (x, tensor("f64")), "the dtypes of `clamp` do not match: f32 against f64")
        yield Refused(cls(), (tensor("i32", "n"), 0.5), "the literal 0.5 is not an i32")


@dataclass(frozen=True)
class Cast(Pointwise):
    """Conversion to another dtype.

    Floats are rounded to nearest even; to an integer they lose their fraction, values outside its range become the
    nearest bound and NaN 0; integers wrap around; to bool is `!= 0`.
    """

    name: ClassVar[str] = "cast"
    family: ClassVar[str] = "select"

    dtype: DType

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        return TensorType(self.dtype, operand(operands, 0).dims)

    def scalar(self, ctx: ElementContext, *args: Expr) -> Expr:
        return cast(args[0], self.dtype)

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        if not (DType.of(x.dtype).is_float and self.dtype.is_int):
            return rounded(x, self.dtype)
        wide, bounds = x.astype(np.float64), np.iinfo(self.dtype.numpy.name)
        # The bound itself may be no float (2^63 - 1): what lies beyond is replaced, not limited.
        inside = np.where((wide > bounds.min) & (wide < bounds.max), wide, 0.0)
        whole, of = rounded(np.trunc(inside), self.dtype), self.dtype.numpy.type
        low = np.where(wide <= bounds.min, of(bounds.min), whole)
        return np.asarray(np.where(wide >= bounds.max, of(bounds.max), low))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        every = (*FLOATS, *INTS, DType.bool)
        for source in every:
            for target in every:
                t = tensor(source, "n")
                if source.is_float:
                    draw = uniform(0.0, 100.0) if target is DType.u8 else uniform(-100.0, 100.0)
                else:
                    draw = integers(0, 2) if source.is_bool else integers(-300, 300)
                yield Sample(cls(target), (t,), SIZES, make=arrays(draw, types=(t,)), rtol=rtol(target))
        yield Sample(cls(DType.f16), (tensor("f32", "n", "m"),), SIZES, rtol=rtol(DType.f16))
        x = tensor("f32", 9)
        special = cycled(float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e10, -1e10, 2.5, -0.5)
        for target in (DType.i32, DType.i64, DType.u8, DType.bool, DType.f64, DType.f16, DType.bf16):
            yield Sample(cls(target), (x,), make=arrays(special, types=(x,)), rtol=rtol(target))


def fma_array(x: Array, y: Array, z: Array) -> Array:
    """x * y + z rounded once.

    f32: the product is exact in f64.  f64: the errors of product and sum are found exactly (Dekker 1971, Knuth) and
    added, so that at most the last bit differs from the true result; where a step overflows the plain formula stands.
    """
    if x.dtype == np.float32:
        wide = x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)
        return wide.astype(np.float32)
    product = x * y
    (x1, x0), (y1, y0) = _split(x), _split(y)
    error = ((x1 * y1 - product) + x1 * y0 + x0 * y1) + x0 * y0
    total = product + z
    part = total - product
    lost = (product - (total - part)) + (z - part)
    careful = total + (lost + error)
    return np.asarray(np.where(np.isfinite(careful), careful, x * y + z))


def _split(x: Array) -> tuple[Array, Array]:
    """x as a sum of two numbers of half the precision (Veltkamp)."""
    scaled = x * (2.0**27 + 1)
    high = scaled - (scaled - x)
    return high, x - high


@dataclass(frozen=True)
class Fma(Pointwise):
    """x * y + z, rounded once (f16 and bf16: computed in f32)."""

    name: ClassVar[str] = "fma"
    family: ClassVar[str] = "select"
    signature: ClassVar[tuple[str, ...]] = ("x", "y", "z")

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        given = [operand(operands, i) for i in range(3)]
        for i, t in enumerate(given):
            want_float(ctx, i, t)
        return TensorType(ctx.same_dtype(*given), ctx.broadcast(*(t.dims for t in given)))

    def scalar(self, ctx: ElementContext, *args: Expr) -> Expr:
        x, y, z = (cast(a, a.dtype.compute) for a in args)
        return cast(apply("fma", x, y, z), args[0].dtype)

    def reference(self, *operands: Array | None) -> Array:
        x, y, z = (widened(operand(operands, i)) for i in range(3))
        with np.errstate(all="ignore"):
            return rounded(fma_array(x, y, z), DType.of(operand(operands, 0).dtype))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in FLOATS:
            x, y, z = tensor(dtype, "n", "m"), tensor(dtype, "m"), tensor(dtype, "n", 1)
            yield Sample(cls(), (x, y, z), SIZES, rtol=rtol(dtype))
        yield Sample(cls(), (tensor("f32", "n"), 2.0, tensor("f32", "n")), SIZES)
        yield Sample(cls(), (2.0, tensor("f32", "n", 3), 0.5), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        i, x = tensor("i32", "n"), tensor("f32", "n")
        yield Refused(cls(), (i, i, i), "`fma` takes floating-point tensors; x is i32[n]")
        yield Refused(cls(), (x, tensor("f16", "n"), x), "the dtypes of `fma` do not match: f32 against f16")
        yield Refused(cls(), (x, x, tensor("f32", "m")), "the sizes of `fma` do not match: n against m")
