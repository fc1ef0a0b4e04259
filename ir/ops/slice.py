"""Operators that take part of a tensor, or its elements in another order, by index arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..build import Builder
from ..dims import Dim
from ..facts import Compare, Facts, InRange
from ..graph import Operand
from ..loops import Expr
from ..op import Array, CompositeOp, ElementContext, ElementOp, InferContext, Input, Refused, Sample
from ..scalar import add, apply, index, mul, select, sub
from ..types import TensorType, tensor
from ._common import SIZES, operand
from ._shape import ONE, Size, clamped, ones, require_fact, require_size, whole
from .create import span_size
from .shape import DTYPES

Bound = Dim | int | None


@dataclass(frozen=True)
class Cut:
    """The positions start, start + step, ... along one axis, `size` of them."""

    start: Dim
    step: int
    size: Dim


def cut(facts: Facts, size: Dim, start: Bound, stop: Bound, step: int) -> Cut:
    """What `start:stop:step` means on an axis of `size` elements (numpy's rule; None is the end it starts from)."""
    low, high = (Dim.of(0), size) if step > 0 else (Dim.of(-1), size - 1)
    default = (low, high) if step > 0 else (high, low)
    begin, end = (
        d if b is None else clamped(facts, _from_start(facts, Dim.of(b), size), low, high)
        for b, d in zip((start, stop), default, strict=True)
    )
    count = span_size(facts, begin, end, Dim.of(step))
    assert count is not None, "a step of 0"
    return Cut(begin, step, facts.simplify(count))


def _from_start(facts: Facts, bound: Dim, size: Dim) -> Dim:
    """A bound that counts from the end if it is negative, as one that counts from the start."""
    if facts.prove_le(0, bound):
        return bound
    if facts.prove_le(bound, -1):
        return bound + size
    # The type rule asks for a known sign; a rule that runs under fewer facts must mean the same all the same.
    return bound + size * Dim.max(0, Dim.min(1, -bound))


def require_sign(ctx: InferContext, bound: Bound, what: str) -> None:
    """Refuses a bound of which it is not known whether it counts from the start or from the end."""
    if bound is None or ctx.facts.prove_le(0, bound) or ctx.facts.prove_le(bound, -1):
        return
    message = f"{what} of `{ctx.op_name}` is {bound}, which may be negative and would then count from the end"
    require_fact(ctx, Compare("<=", 0, bound), message, f"limit it: `max({bound}, 0)`")


@dataclass(frozen=True)
class Slice(ElementOp):
    """x[start:stop:step] along `axis` (or several): numpy's rule, bounds beyond the ends limited to them.

    Bounds may be sizes; those that are negative count from the end. `none` is the end that the step starts from or
    goes to.
    """

    name: ClassVar[str] = "slice"
    family: ClassVar[str] = "slice"
    index_map: ClassVar[bool] = True

    axis: int | tuple[int, ...]
    start: int | Dim | tuple[int | Dim | None, ...] | None = None
    stop: int | Dim | tuple[int | Dim | None, ...] | None = None
    step: int | tuple[int, ...] = 1

    def _along(self, rank: int) -> dict[int, tuple[Bound, Bound, int]]:
        """(start, stop, step) of every axis that is cut."""
        axes = ones(self.axis)
        columns = [_column(value, len(axes)) for value in (self.start, self.stop)]
        steps = ones(self.step) * (len(axes) if isinstance(self.step, int) else 1)
        return {a % rank: parts for a, *parts in zip(axes, *columns, steps, strict=True)}  # type: ignore[misc]

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        axes = ones(self.axis)
        ctx.axes(axes, x.rank)
        for name in ("start", "stop", "step"):
            value = getattr(self, name)
            given = len(value) if isinstance(value, tuple) else len(axes)
            ctx.require(given == len(axes), f"`{name}` of `slice` has {given} entries for {len(axes)} axes")
        dims = list(x.dims)
        for axis, (start, stop, step) in self._along(x.rank).items():
            ctx.require(step != 0, "the step of `slice` may not be 0")
            require_sign(ctx, start, "the start")
            require_sign(ctx, stop, "the stop")
            dims[axis] = cut(ctx.facts, x.dims[axis], start, stop, step).size
        return TensorType(x.dtype, tuple(dims))

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        x = operand(inputs, 0)
        position = list(at)
        for axis, (start, stop, step) in self._along(x.type.rank).items():
            part = cut(ctx.facts, x.type.dims[axis], start, stop, step)
            position[axis] = add(index(part.start), mul(at[axis], index(step)))
        return x(*position)

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        along = {
            axis: slice(*(None if b is None else whole(b) for b in bounds))
            for axis, bounds in self._along(x.ndim).items()
        }
        return np.array(x[tuple(along.get(i, slice(None)) for i in range(x.ndim))])

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        n, m = Dim.of("n"), Dim.of("m")
        for dtype in DTYPES:
            yield Sample(cls(1, 1, 3), (tensor(dtype, "n", 5),), SIZES)
        x = tensor("f32", "n", "m")
        bounds: list[tuple[Bound, Bound, int]] = [
            (None, None, 1), (2, None, 1), (None, 3, 1), (-2, None, 1), (None, -1, 1), (1, -1, 1), (4, 2, 1),
            (None, None, 2), (1, None, 3), (None, None, -1), (None, None, -2), (3, 0, -1), (-2, None, -3), (-1, 1, -1),
            (100, 200, 1), (-100, 100, 7), (100, -100, -1), (0, n, 1), (m, n, 1), (n // 2, None, 1), (0, n, 3),
        ]  # fmt: skip
        for start, stop, step in bounds:
            yield Sample(cls(0, start, stop, step), (x,), SIZES)
        yield Sample(cls(-1, -5, None), (x,), SIZES)
        yield Sample(cls((0, 2), (1, -3), (None, -1), (2, 1)), (tensor("f32", "n", 3, "m"),), SIZES)
        yield Sample(cls((0, 1), None, 2), (x,), SIZES)
        part = (Compare("<=", "m", "n"),)
        sizes = ({"n": 0, "m": 0}, {"n": 1, "m": 1}, {"n": 9, "m": 4})
        yield Sample(cls(0, m, n), (tensor("f32", "n", 3),), sizes, part)
        yield Sample(cls(0, n - m, None), (tensor("f32", "n"),), sizes, part)
        yield Sample(cls(0, -m, None), (tensor("f32", "n"),), ({"n": 1, "m": 1}, {"n": 0, "m": 3}), (InRange("m", 1),))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        n, x = Dim.of("n"), tensor("f32", "n", 4)
        yield Refused(cls(2), (x,), "axis 2 of `slice` is out of range for rank 2")
        yield Refused(cls((0, 0)), (x,), "an axis of `slice` is listed twice")
        yield Refused(cls(0, step=0), (x,), "the step of `slice` may not be 0")
        yield Refused(cls((0, 1), (1,)), (x,), "`start` of `slice` has 1 entries for 2 axes")
        yield Refused(cls(0, n - 4), (x,), "the start of `slice` is n - 4, which may be negative and would then count")


def _column(value: Bound | tuple[Bound, ...], count: int) -> Sequence[Bound]:
    return value if isinstance(value, tuple) else (value,) * count


@dataclass(frozen=True)
class Flip(ElementOp):
    """The order of elements along some axes reversed; by default along all."""

    name: ClassVar[str] = "flip"
    family: ClassVar[str] = "slice"
    index_map: ClassVar[bool] = True

    axis: int | tuple[int, ...] | None = None

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        ctx.axes(self.axis, x.rank)
        return x

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        rank = len(at)
        axes = range(rank) if self.axis is None else {a % rank for a in ones(self.axis)}
        return operand(inputs, 0)(*(sub(index(out.dims[i] - 1), p) if i in axes else p for i, p in enumerate(at)))

    def reference(self, *operands: Array | None) -> Array:
        return np.array(np.flip(operand(operands, 0), self.axis))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in DTYPES:
            yield Sample(cls(0), (tensor(dtype, "n", 3),), SIZES)
        for axis in (None, 0, -1, (0, 2), ()):
            yield Sample(cls(axis), (tensor("f32", "n", 3, "m"),), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(1), (tensor("f32", "n"),), "axis 1 of `flip` is out of range for rank 1")
        yield Refused(cls((0, -1)), (tensor("f32", "n"),), "an axis of `flip` is listed twice")


@dataclass(frozen=True)
class Roll(ElementOp):
    """Elements moved `shift` places towards higher positions along an axis, those beyond the end put at its start."""

    name: ClassVar[str] = "roll"
    family: ClassVar[str] = "slice"
    index_map: ClassVar[bool] = True

    shift: Dim | int | tuple[Dim | int, ...]
    axis: int | tuple[int, ...]

    def _along(self, rank: int) -> dict[int, Size]:
        shifts = self.shift if isinstance(self.shift, tuple) else (self.shift,)
        return dict(zip((a % rank for a in ones(self.axis)), shifts, strict=True))

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        shifts = len(self.shift) if isinstance(self.shift, tuple) else 1
        axes = ctx.axes(self.axis, x.rank)
        ctx.require(shifts == len(axes), f"`shift` of `roll` has {shifts} entries for {len(axes)} axes")
        return x

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        x = operand(inputs, 0)
        return self._rolled(x, at, list(self._along(len(at)).items()))

    def _rolled(self, x: Input, at: tuple[Expr, ...], along: list[tuple[int, Size]]) -> Expr:
        if not along:
            return x(*at)
        (axis, shift), *rest = along
        size = x.type.dims[axis]
        # Of an axis of size 0 no element is asked for; the sizes must have a value all the same.
        moved = Dim.of(shift) % Dim.max(size, 1)
        ahead, behind = list(at), list(at)
        ahead[axis] = sub(at[axis], index(moved))
        behind[axis] = add(at[axis], index(size - moved))
        if moved == Dim.of(0):
            return self._rolled(x, at, rest)
        wrapped = apply("lt", at[axis], index(moved))
        return select(wrapped, self._rolled(x, tuple(behind), rest), self._rolled(x, tuple(ahead), rest))

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        along = self._along(x.ndim)
        return np.array(np.roll(x, tuple(whole(s) for s in along.values()), tuple(along)))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        n, m = Dim.of("n"), Dim.of("m")
        for dtype in DTYPES[:4]:
            yield Sample(cls(1, 0), (tensor(dtype, "n", 3),), SIZES)
        for shift in (0, 2, -1, 50, m, n - m):
            yield Sample(cls(shift, 0), (tensor("f32", "n", "m"),), SIZES)
        yield Sample(cls((1, -2), (2, 0)), (tensor("f32", "n", 3, "m"),), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(1, 2), (tensor("f32", "n", "m"),), "axis 2 of `roll` is out of range for rank 2")
        yield Refused(cls((1, 2), 0), (tensor("f32", "n", "m"),), "`shift` of `roll` has 2 entries for 1 axes")


@dataclass(frozen=True)
class Repeat(CompositeOp):
    """The whole tensor repeated along each axis `repeats` times; more repeats than axes make new leading axes."""

    name: ClassVar[str] = "repeat"
    family: ClassVar[str] = "slice"

    repeats: tuple[Dim | int, ...]

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        new = len(self.repeats) - x.rank
        ctx.require(new >= 0, f"`{self.name}` needs a number for each axis: {len(self.repeats)} for rank {x.rank}")
        for r in self.repeats:
            require_size(ctx, Dim.of(r), f"a number of repeats of `{self.name}`")
        old = (*(ONE for _ in range(new)), *x.dims)
        return TensorType(x.dtype, tuple(d * r for d, r in zip(old, self.repeats, strict=True)))

    def decompose(self, b: Builder, *operands: Operand) -> Operand:
        """Every axis [d] that is repeated is an axis [r, d] of which the first is broadcast: no division of indices."""
        x = b.type(operands[0])
        repeats = tuple(map(Dim.of, self.repeats))
        old = (*(ONE for _ in range(len(repeats) - x.rank)), *x.dims)
        apart: list[Dim] = []
        wide: list[Dim] = []
        for d, r in zip(old, repeats, strict=True):
            two = ONE not in (d, r)
            apart += [ONE, d] if two else [d]
            wide += [r, d] if two else [d * r]
        spread: Operand = b.expand(_reshaped(b, operands[0], tuple(apart)), shape=tuple(wide))
        return _reshaped(b, spread, tuple(d * r for d, r in zip(old, repeats, strict=True)))

    def reference(self, *operands: Array | None) -> Array:
        return np.array(np.tile(operand(operands, 0), [whole(r) for r in self.repeats]))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        n, m = Dim.of("n"), Dim.of("m")
        for dtype in DTYPES:
            yield Sample(cls((2, 3)), (tensor(dtype, "n", 5),), SIZES)
        yield Sample(cls((2, 1, m)), (tensor("f32", "n", 3),), SIZES)
        yield Sample(cls((n, m)), (tensor("f32", 1, 4),), SIZES)
        yield Sample(cls((0, 2)), (tensor("f32", "n", "m"),), SIZES)
        yield Sample(cls((3,)), (tensor("f32"),))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n", 4)
        yield Refused(cls((2,)), (x,), f"`{cls.name}` needs a number for each axis: 1 for rank 2")
        yield Refused(cls((2, -1)), (x,), f"a number of repeats of `{cls.name}` may be negative: -1")


def _reshaped(b: Builder, x: Operand, shape: tuple[Dim, ...]) -> Operand:
    return x if b.type(x).dims == shape else b.reshape(x, shape=shape)


@dataclass(frozen=True)
class Tile(Repeat):
    """`repeat` by the array API's name."""

    name: ClassVar[str] = "tile"
