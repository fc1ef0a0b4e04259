"""Operators that give the same elements another shape or another order of axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dims import Dim
from ..facts import Compare, Facts, InRange
from ..loops import Expr
from ..op import AliasOp, Array, ElementContext, ElementOp, InferContext, Input, Refused, Sample, broadcast_element
from ..types import DType, TensorType, tensor
from ._common import SIZES, operand
from ._shape import ONE, dims_of, listed, ones, require_fact, require_size, whole

DTYPES = (DType.f32, DType.f64, DType.f16, DType.bf16, DType.i64, DType.u8, DType.bool)
"""The dtypes that samples of operators take that only move elements."""


# ------------------------------------------------------------------------------------- the same row-major order


def _quotient(facts: Facts, total: Dim, rest: Dim) -> Dim | None:
    """q with q * rest == total, where the facts prove that there is one."""
    if facts.prove_eq(rest, 0):
        return None
    q = facts.simplify(facts.simplify(total) // facts.simplify(rest))
    defined = facts.prove_ne(rest, 0) or set(q.atoms) <= {*total.atoms, *rest.atoms}
    return q if defined and facts.prove_eq(q * rest, total) else None


@dataclass(frozen=True)
class Reshape(AliasOp):
    """The elements in their row-major order, in another shape; one size may be -1: what the others leave."""

    name: ClassVar[str] = "reshape"
    family: ClassVar[str] = "shape"

    shape: tuple[Dim | int, ...]

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        dims = dims_of(self.shape)
        free = [i for i, d in enumerate(dims) if d == -1]
        ctx.require(len(free) < 2, f"`reshape` can compute one size only; {listed(dims)} has {len(free)} of -1")
        for d in dims:
            if d != -1:
                require_size(ctx, d, "a size of `reshape`")
        if free:
            dims = self._filled(ctx, x, dims, free[0])
        if Dim.product(dims) != x.size and not ctx.holds(Compare("==", Dim.product(dims), x.size)):
            raise self._mismatch(ctx, x, dims)
        return TensorType(x.dtype, dims)

    def _filled(self, ctx: InferContext, x: TensorType, dims: tuple[Dim, ...], free: int) -> tuple[Dim, ...]:
        rest = Dim.product((*dims[:free], *dims[free + 1 :]))
        found = _quotient(ctx.facts, x.size, rest)
        if found is None:
            message = f"`reshape` cannot compute the size -1: {ctx.name(0)} is {x} of {x.size} elements, "
            if ctx.facts.prove_eq(rest, 0):
                raise ctx.fail(message + "and the other sizes are of no elements")
            raise ctx.fail(
                message + f"which {rest} may not divide",
                help=self._division_help(ctx, x.size, rest),
                symbols=x.size.symbols | rest.symbols,
                wanted=(Compare("!=", rest, 0), Compare("==", x.size % rest, 0)),
            )
        return (*dims[:free], found, *dims[free + 1 :])

    @staticmethod
    def _division_help(ctx: InferContext, total: Dim, rest: Dim) -> str:
        if not ctx.facts.prove_ne(rest, 0):
            say = ctx.advice(Compare("!=", rest, 0), Compare("==", total % rest, 0))
            return f"{say}, or write the size instead of -1" if say else "write the size instead of -1"
        return ctx.advice(Compare("==", total % rest, 0))

    @staticmethod
    def _mismatch(ctx: InferContext, x: TensorType, dims: tuple[Dim, ...]) -> Exception:
        size = Dim.product(dims)
        goal = Compare("==", x.size, size)
        return ctx.fail(
            f"`reshape` keeps the number of elements: {ctx.name(0)} is {x} of {x.size}, {listed(dims)} has {size}",
            help=ctx.advice(goal),
            symbols=goal.symbols,
            wanted=(goal,),
        )

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        shape = [whole(d) for d in self.shape]
        if -1 in shape and x.size == 0:  # numpy refuses to divide 0 elements by a size that is not 0
            rest = [d for d in shape if d != -1]
            shape[shape.index(-1)] = 0 if 0 not in rest else self._free_size(x, rest)
        return np.array(x).reshape(shape)

    @staticmethod
    def _free_size(x: Array, rest: list[int]) -> int:
        """Of no elements, where another size is 0 too: the sizes that are not 0 are divided."""
        have = int(np.prod([d for d in x.shape if d]))
        wanted = int(np.prod([d for d in rest if d]))
        return have // wanted

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        n, m = Dim.of("n"), Dim.of("m")
        for dtype in DTYPES:
            yield Sample(cls((m, n)), (tensor(dtype, "n", "m"),), SIZES)
        x = tensor("f32", "n", 4, "m")
        yield Sample(cls((n * 4, m)), (x,), SIZES)
        yield Sample(cls((n, 2, 2 * m)), (x,), SIZES)
        yield Sample(cls((n, 4 * m)), (x,), SIZES)
        yield Sample(cls((-1, 2)), (x,), SIZES)
        yield Sample(cls((n, 1, 4, 1, m)), (x,), SIZES)
        yield Sample(cls((1, 1)), (tensor("f32"),))
        yield Sample(cls(()), (tensor("f32", 1),))
        even = (Compare("==", n % 8, 0),)
        sizes = ({"n": 0}, {"n": 8}, {"n": 40}, {"n": 24})
        yield Sample(cls((n // 8, 8)), (tensor("f32", "n"),), sizes, even)
        yield Sample(cls((-1, 4)), (tensor("i32", "n"),), sizes, even)
        equal = (Compare("==", "t", Dim.of("s") + "p"),)
        bindings = ({"t": 0, "s": 0, "p": 0}, {"t": 1, "s": 1, "p": 0}, {"t": 7, "s": 3, "p": 4})
        yield Sample(cls((4 * (Dim.of("s") + "p"),)), (tensor("f32", "t", 4),), bindings, equal)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        n, x = Dim.of("n"), tensor("f32", "n", 4)
        yield Refused(
            cls((n, 5)), (x,), "`reshape` keeps the number of elements: x is f32[n, 4] of 4*n, [n, 5] has 5*n"
        )
        yield Refused(cls((n // 2, 2)), (tensor("f32", "n"),), "`reshape` keeps the number of elements")
        yield Refused(cls((-1, 8)), (x,), "`reshape` cannot compute the size -1: x is f32[n, 4] of 4*n elements, which")
        yield Refused(cls((-1, Dim.of("m"))), (x,), "`reshape` cannot compute the size -1")
        yield Refused(cls((-1, 0)), (x,), "and the other sizes are of no elements")
        yield Refused(cls((-1, -1)), (x,), "`reshape` can compute one size only; [-1, -1] has 2 of -1")
        yield Refused(cls((n - 1, 4)), (x,), "a size of `reshape` may be negative: n - 1")


@dataclass(frozen=True)
class Flatten(AliasOp):
    """Neighbouring axes, from `start_dim` to `end_dim`, made one."""

    name: ClassVar[str] = "flatten"
    family: ClassVar[str] = "shape"

    start_dim: int = 0
    end_dim: int = -1

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        if x.rank == 0:
            ctx.require(
                self.start_dim in (0, -1) and self.end_dim in (0, -1), "`flatten` of a scalar has axes 0 and -1 only"
            )
            return TensorType(x.dtype, (ONE,))
        first, last = ctx.axis(self.start_dim, x.rank), ctx.axis(self.end_dim, x.rank)
        ctx.require(first <= last, f"`flatten` ends at axis {last}, before axis {first} where it starts")
        return TensorType(x.dtype, (*x.dims[:first], Dim.product(x.dims[first : last + 1]), *x.dims[last + 1 :]))

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        if x.ndim == 0:
            return x.reshape(1)
        first, last = self.start_dim % x.ndim, self.end_dim % x.ndim
        size = int(np.prod(x.shape[first : last + 1]))
        return np.array(x).reshape((*x.shape[:first], size, *x.shape[last + 1 :]))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x = tensor("f32", "n", 4, "m")
        for op in (cls(), cls(1), cls(0, 1), cls(-2, -1), cls(1, 1)):
            yield Sample(op, (x,), SIZES)
        yield Sample(cls(), (tensor("f32"),))
        yield Sample(cls(), (tensor("bool", "n", "m"),), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n", 4, "m")
        yield Refused(cls(2, 1), (x,), "`flatten` ends at axis 1, before axis 2 where it starts")
        yield Refused(cls(3), (x,), "axis 3 of `flatten` is out of range for rank 3")


@dataclass(frozen=True)
class Squeeze(AliasOp):
    """Axes of size 1 left out; which must be said, so that a size that happens to be 1 never changes the rank."""

    name: ClassVar[str] = "squeeze"
    family: ClassVar[str] = "shape"

    axis: int | tuple[int, ...]

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        axes = ctx.axes(self.axis, x.rank)
        for a in axes:
            message = (
                f"`squeeze` leaves out axes of size 1; axis {a} of {ctx.name(0)}, which is {x}, has size {x.dims[a]}"
            )
            require_fact(ctx, Compare("==", x.dims[a], 1), message)
        return TensorType(x.dtype, tuple(d for i, d in enumerate(x.dims) if i not in axes))

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        axes = {a % x.ndim for a in ones(self.axis)}
        return np.array(x).reshape([d for i, d in enumerate(x.shape) if i not in axes])

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x = tensor("f32", 1, "n", 1, "m")
        for axis in (0, 2, -2, (0, 2), ()):
            yield Sample(cls(axis), (x,), SIZES)
        yield Sample(cls(0), (tensor("bool", 1),))
        only = (Compare("==", "n", 1),)
        yield Sample(cls(1), (tensor("f16", "m", "n"),), ({"n": 1, "m": 0}, {"n": 1, "m": 1}, {"n": 1, "m": 9}), only)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", 1, "n")
        yield Refused(cls(1), (x,), "`squeeze` leaves out axes of size 1; axis 1 of x, which is f32[1, n], has size n")
        yield Refused(cls(2), (x,), "axis 2 of `squeeze` is out of range for rank 2")
        yield Refused(cls((0, 0)), (x,), "an axis of `squeeze` is listed twice")


@dataclass(frozen=True)
class Unsqueeze(AliasOp):
    """New axes of size 1 at the given places of the result."""

    name: ClassVar[str] = "unsqueeze"
    family: ClassVar[str] = "shape"

    axis: int | tuple[int, ...]

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        rank = x.rank + len(ones(self.axis))
        axes, rest = ctx.axes(self.axis, rank), iter(x.dims)
        return TensorType(x.dtype, tuple(ONE if i in axes else next(rest) for i in range(rank)))

    def reference(self, *operands: Array | None) -> Array:
        return np.array(np.expand_dims(operand(operands, 0), self.axis))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x = tensor("f32", "n", "m")
        for axis in (0, 1, -1, (0, 3), (1, -1), ()):
            yield Sample(cls(axis), (x,), SIZES)
        yield Sample(cls(0), (tensor("i64"),))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(3), (tensor("f32", "n", "m"),), "axis 3 of `unsqueeze` is out of range for rank 3")
        yield Refused(cls((0, 0)), (tensor("f32", "n"),), "an axis of `unsqueeze` is listed twice")


# ------------------------------------------------------------------------------------------ the order of axes


@dataclass(frozen=True)
class AxesOp(ElementOp):
    """The axes in another order; `order` says which axis of the operand each axis of the result is."""

    family: ClassVar[str] = "shape"
    index_map: ClassVar[bool] = True

    def order(self, rank: int) -> Sequence[int]:
        raise NotImplementedError

    def element(self, ctx: ElementContext, out: TensorType, index: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        order = self.order(len(index))
        return operand(inputs, 0)(*(index[order.index(a)] for a in range(len(index))))

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        return np.ascontiguousarray(np.transpose(x, self.order(x.ndim))).reshape(
            [x.shape[a] for a in self.order(x.ndim)]
        )


@dataclass(frozen=True)
class Permute(AxesOp):
    """The axes in the order `axes`: axis i of the result is axis `axes[i]` of the operand."""

    name: ClassVar[str] = "permute"

    axes: tuple[int, ...]

    def order(self, rank: int) -> Sequence[int]:
        return [a % rank for a in self.axes]

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        ctx.require(
            len(self.axes) == x.rank,
            f"`permute` takes each axis once: {listed(self.axes)} has {len(self.axes)} for rank {x.rank}",
        )
        ctx.axes(self.axes, x.rank)
        return TensorType(x.dtype, tuple(x.dims[a] for a in self.axes))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in DTYPES:
            yield Sample(cls((1, 0)), (tensor(dtype, "n", "m"),), SIZES)
        x = tensor("f32", "n", 3, "m")
        for axes in ((2, 0, 1), (0, 2, 1), (2, 1, 0), (0, 1, 2), (-1, -3, -2)):
            yield Sample(cls(axes), (x,), SIZES)
        yield Sample(cls((0, 2, 1, 3)), (tensor("f32", 2, "n", 3, "m"),), SIZES)
        yield Sample(cls((0,)), (tensor("f32", "n"),), SIZES)
        yield Sample(cls(()), (tensor("f32"),))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n", "m")
        yield Refused(cls((0,)), (x,), "`permute` takes each axis once: [0] has 1 for rank 2")
        yield Refused(cls((0, 0)), (x,), "an axis of `permute` is listed twice")
        yield Refused(cls((0, 2)), (x,), "axis 2 of `permute` is out of range for rank 2")


@dataclass(frozen=True)
class Transpose(AxesOp):
    """Two axes exchanged, the last two unless `axis` says others."""

    name: ClassVar[str] = "transpose"

    axis: tuple[int, int] = (-2, -1)

    def order(self, rank: int) -> Sequence[int]:
        order = list(range(rank))
        a, b = self.axis
        order[a], order[b] = order[b], order[a]
        return order

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        for a in self.axis:
            ctx.axis(a, x.rank)
        return TensorType(x.dtype, tuple(x.dims[a] for a in self.order(x.rank)))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x = tensor("f32", "n", 3, "m")
        for op in (cls(), cls((0, 2)), cls((1, 0)), cls((1, 1))):
            yield Sample(op, (x,), SIZES)
        yield Sample(cls(), (tensor("f16", "n", "m"),), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(), (tensor("f32", "n"),), "axis -2 of `transpose` is out of range for rank 1")
        yield Refused(cls((0, 2)), (tensor("f32", "n", "m"),), "axis 2 of `transpose` is out of range for rank 2")


# ------------------------------------------------------------------------------------------------ broadcasting


@dataclass(frozen=True)
class Expand(ElementOp):
    """The operand repeated along new leading axes and along those whose size is written 1; -1 keeps a size."""

    name: ClassVar[str] = "expand"
    family: ClassVar[str] = "shape"
    index_map: ClassVar[bool] = True

    shape: tuple[Dim | int, ...]

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        new = len(self.shape) - x.rank
        ctx.require(new >= 0, f"`{self.name}` cannot drop axes: {listed(self.shape)} has {len(self.shape)} for {x}")
        dims: list[Dim] = []
        for i, wanted in enumerate(dims_of(self.shape)):
            have = x.dims[i - new] if i >= new else None
            if wanted == -1:
                if have is None:
                    raise ctx.fail(f"-1 in {listed(self.shape)} of `{self.name}` stands for a new axis; write its size")
                dims.append(have)
                continue
            require_size(ctx, wanted, f"a size of `{self.name}`")
            if have is not None and have != ONE:
                shown = f"axis {i - new} of {ctx.name(0)} is {have}, not {wanted}"
                message = f"`{self.name}` repeats along axes written 1; {shown}"
                require_fact(ctx, Compare("==", have, wanted), message)
            dims.append(wanted)
        return TensorType(x.dtype, tuple(dims))

    def element(self, ctx: ElementContext, out: TensorType, index: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        return broadcast_element(operand(inputs, 0), index)

    def reference(self, *operands: Array | None) -> Array:
        x: Sequence[int] = operand(operands, 0).shape
        new = len(self.shape) - len(x)
        shape = [x[i - new] if whole(d) == -1 else whole(d) for i, d in enumerate(self.shape)]
        return np.array(np.broadcast_to(operand(operands, 0), shape))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        n, m = Dim.of("n"), Dim.of("m")
        for dtype in DTYPES:
            yield Sample(cls((n, m)), (tensor(dtype, 1, "m"),), SIZES)
        yield Sample(cls((m, n, 3)), (tensor("f32", "n", 1),), SIZES)
        yield Sample(cls((n, m)), (tensor("f32"),), SIZES)
        yield Sample(cls((2, n + m, 3)), (tensor("f32", 1, 3),), SIZES)
        yield Sample(cls((n, m)), (tensor("f32", "n", "m"),), SIZES)
        same = (Compare("==", "n", "m"),)
        yield Sample(cls((4, m)), (tensor("f32", "n"),), ({"n": 0, "m": 0}, {"n": 1, "m": 1}, {"n": 7, "m": 7}), same)
        if cls is Expand:
            yield Sample(cls((m, -1, 3)), (tensor("f32", "n", 1),), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        n, x = Dim.of("n"), tensor("f32", "n", 4)
        of = f"`{cls.name}`"
        yield Refused(cls((n,)), (x,), f"{of} cannot drop axes: [n] has 1 for f32[n, 4]")
        yield Refused(cls((5, 4)), (x,), f"{of} repeats along axes written 1; axis 0 of x is n, not 5")
        yield Refused(cls((n, 1)), (x,), f"{of} repeats along axes written 1; axis 1 of x is 4, not 1")
        yield Refused(cls((-1, n, 4)), (x,), f"-1 in [-1, n, 4] of {of} stands for a new axis")
        yield Refused(cls((n - 2, n, 4)), (x,), f"a size of {of} may be negative: n - 2", (InRange("n", 1),))


@dataclass(frozen=True)
class BroadcastTo(Expand):
    """`expand` by the array API's name."""

    name: ClassVar[str] = "broadcast_to"
