"""Running totals along an axis: cumulative sums, products and extrema."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dims import Dim
from ..loops import Expr
from ..op import Array, Array1, InferContext, KernelBuilder, KernelOp, Refused, Sample
from ..scalar import add, apply, cast, const, index, mul, sub
from ..types import DType, TensorType, tensor
from ._common import FLOATS, INTS, SIZES, arrays, cycled, exact, integers, operand, rounded, rtol, uniform, want_number
from ._shape import LANES, ONE, collapsed, pairs, tile


@dataclass(frozen=True)
class Scan(KernelOp):
    """Of x[0], ..., x[i] along `axis` for each i; `reverse` goes from the end.  f16 and bf16 accumulate in f32.

    The result has the operand's dtype, so that integers wrap around.
    """

    family: ClassVar[str] = "scan"
    in_place: ClassVar[int | None] = 0
    combiner: ClassVar[str]

    axis: int
    reverse: bool = False

    @property
    def leaves_out(self) -> bool:
        """Is x[i] itself left out?"""
        return False

    def initial(self, dtype: DType) -> bool | int | float:
        """The total of nothing."""
        raise NotImplementedError

    def combine(self, k: KernelBuilder, total: Expr, value: Expr) -> Expr:
        """The total with one more element."""
        return apply(self.combiner, total, value)

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        want_number(ctx, 0, x, f"convert it: `cast({ctx.name(0)}, dtype=i64)`")
        ctx.axis(self.axis, x.rank)
        return x

    # -- the kernel

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (out,), x = outputs, operand(inputs, 0)
        outer, size, inner = collapsed(x.type, self.axis % x.type.rank)

        if inner == ONE:
            pairs(k, outer, ONE, lambda o, _: self._row(k, out, x, o, size))
            return

        def columns(o: Expr, t: Expr) -> None:
            self._columns(k, out, x, o, size, inner, *tile(inner, LANES, t))

        pairs(k, outer, Dim.ceildiv(inner, LANES), columns)

    def _at(self, i: Expr, size: Dim) -> Expr:
        return sub(index(size - 1), i) if self.reverse else i

    def _row(self, k: KernelBuilder, out: Array1, x: Array1, o: Expr, size: Dim) -> None:
        dtype = x.type.dtype
        total = k.local(const(self.initial(dtype), dtype.compute))

        def step(i: Expr) -> None:
            at = add(mul(o, index(size)), self._at(i, size))
            value = k.let(cast(k.load(x.buffer, at, dtype), dtype.compute))
            if self.leaves_out:
                k.store(out.buffer, at, cast(total, dtype))
            k.assign(total, self.combine(k, total, value))
            if not self.leaves_out:
                k.store(out.buffer, at, cast(total, dtype))

        k.loop("i", index(0), index(size), step)

    def _columns(
        self, k: KernelBuilder, out: Array1, x: Array1, o: Expr, size: Dim, inner: Dim, start: Expr, stop: Expr
    ) -> None:
        """Neighbouring columns together, their totals in an array."""
        dtype = x.type.dtype
        totals = k.alloc(dtype.compute, Dim.of(LANES))
        none = const(self.initial(dtype), dtype.compute)
        k.loop("c", start, stop, lambda c: k.store(totals, sub(c, start), none), "vector")

        def step(i: Expr) -> None:
            row = mul(add(mul(o, index(size)), self._at(i, size)), index(inner))

            def lane(c: Expr) -> None:
                at, own = add(row, c), sub(c, start)
                value = k.let(cast(k.load(x.buffer, at, dtype), dtype.compute))
                before = k.let(k.load(totals, own, dtype.compute))
                after = k.let(self.combine(k, before, value))
                k.store(totals, own, after)
                k.store(out.buffer, at, cast(before if self.leaves_out else after, dtype))

            k.loop("c", start, stop, lane, "vector")

        k.loop("i", index(0), index(size), step)

    # -- numpy

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        dtype = DType.of(x.dtype)
        wide = exact(np.flip(x, self.axis) if self.reverse else x)
        with np.errstate(all="ignore"):
            out = self.accumulated(wide)
        if self.leaves_out:
            first = np.full_like(np.take(out, range(min(1, out.shape[self.axis])), self.axis), self.initial(dtype))
            out = np.concatenate(
                [first, np.delete(out, out.shape[self.axis] - 1, self.axis)] if first.size else [out], self.axis
            )
        return rounded(np.flip(out, self.axis) if self.reverse else out, dtype)

    def accumulated(self, x: Array) -> Array:
        """All totals, from the start, x[i] included."""
        raise NotImplementedError

    # -- samples

    @classmethod
    def variants(cls) -> Iterable[Scan]:
        for axis in (0, 1, -1):
            yield cls(axis)
        yield cls(1, True)
        yield cls(0, True)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        first = next(iter(cls.variants()))
        for dtype in (*FLOATS, *INTS):
            t = tensor(dtype, "n", "m")
            draw = integers(0 if dtype is DType.u8 else -3, 4) if dtype.is_int else uniform(0.5, 1.5)
            for op in (first, type(first)(1)):
                yield Sample(op, (t,), SIZES, make=arrays(draw, types=(t,)), rtol=rtol(dtype))
        for op in cls.variants():
            t = tensor("f32", "n", 3, "m")
            yield Sample(op, (t,), SIZES, make=arrays(uniform(-1.5, 1.5), types=(t,)), atol=1e-5)
        yield Sample(cls(0), (tensor("f32", "n"),), SIZES, atol=1e-5)
        special = tensor("f32", 9)
        yield Sample(
            cls(0), (special,), make=arrays(cycled(1.0, 0.0, float("inf"), -2.0, float("nan")), types=(special,))
        )

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(1), (tensor("f32", "n"),), f"axis 1 of `{cls.name}` is out of range for rank 1")
        yield Refused(cls(0), (tensor("bool", "n"),), f"`{cls.name}` takes numbers; x is bool[n]")


@dataclass(frozen=True)
class Total(Scan):
    """With `exclusive` of x[0], ..., x[i - 1]: x[i] itself is left out."""

    exclusive: bool = False

    @property
    def leaves_out(self) -> bool:
        return self.exclusive

    @classmethod
    def variants(cls) -> Iterable[Scan]:
        yield from super().variants()
        for axis in (0, 2):
            yield cls(axis, exclusive=True)
            yield cls(axis, True, True)


@dataclass(frozen=True)
class Cumsum(Total):
    """Running sums along an axis: of x[0..i], or without x[i] when `exclusive`; from the end when `reverse`."""

    name: ClassVar[str] = "cumsum"
    combiner: ClassVar[str] = "add"

    def initial(self, dtype: DType) -> bool | int | float:
        return 0

    def accumulated(self, x: Array) -> Array:
        return np.cumsum(x, self.axis, dtype=x.dtype)


@dataclass(frozen=True)
class Cumprod(Total):
    """Running products along an axis: of x[0..i], or without x[i] when `exclusive`; from the end when `reverse`."""

    name: ClassVar[str] = "cumprod"
    combiner: ClassVar[str] = "mul"

    def initial(self, dtype: DType) -> bool | int | float:
        return 1

    def accumulated(self, x: Array) -> Array:
        return np.cumprod(x, self.axis, dtype=x.dtype)


@dataclass(frozen=True)
class Cummax(Scan):
    """The largest element so far along an axis, NaN once there was one; from the end when `reverse`."""

    name: ClassVar[str] = "cummax"
    combiner: ClassVar[str] = "maximum"

    def initial(self, dtype: DType) -> bool | int | float:
        return -float("inf") if dtype.is_float else int(np.iinfo(dtype.numpy.name).min)

    def accumulated(self, x: Array) -> Array:
        return np.maximum.accumulate(x, self.axis)


@dataclass(frozen=True)
class Cummin(Scan):
    """The smallest element so far along an axis, NaN once there was one; from the end when `reverse`."""

    name: ClassVar[str] = "cummin"
    combiner: ClassVar[str] = "minimum"

    def initial(self, dtype: DType) -> bool | int | float:
        return float("inf") if dtype.is_float else int(np.iinfo(dtype.numpy.name).max)

    def accumulated(self, x: Array) -> Array:
        return np.minimum.accumulate(x, self.axis)
