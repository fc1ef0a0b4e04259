"""Operators that put tensors together, and take them apart again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..build import Builder
from ..dims import Dim
from ..facts import Compare
from ..graph import Operand
from ..loops import Expr
from ..op import Array, CompositeOp, ElementContext, ElementOp, InferContext, Input, Refused, Sample
from ..scalar import apply, index, select, sub
from ..types import DType, TensorType, tensor
from ._common import SIZES, operand
from ._shape import listed, require_fact, require_size, whole
from .shape import DTYPES

MOST_PARTS = 4096
"""Of a `split`: each is a value of the program."""


@dataclass(frozen=True)
class Concat(ElementOp):
    """Tensors one after the other along an axis; their other sizes are equal."""

    name: ClassVar[str] = "concat"
    family: ClassVar[str] = "join"
    signature: ClassVar[tuple[str, ...]] = ("x", "others*")
    index_map: ClassVar[bool] = True

    axis: int = 0

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        given = [operand(operands, i) for i in range(len(operands))]
        dtype, first = ctx.same_dtype(*given), given[0]
        ctx.require(first.rank > 0, "`concat` needs an axis; scalars are put together by `stack`")
        axis = ctx.axis(self.axis, first.rank)
        total = Dim.of(0)
        for i, t in enumerate(given):
            shown = f"{ctx.name(0)} is {first}, {ctx.name(i)} is {t}"
            ctx.require(t.rank == first.rank, f"the ranks of `concat` do not match: {shown}")
            for d, (a, b) in enumerate(zip(first.dims, t.dims, strict=True)):
                if d != axis:
                    ctx.require_equal(a, b, f"the sizes of axis {d} of `concat`")
            total = total + t.dims[axis]
        return TensorType(dtype, (*first.dims[:axis], total, *first.dims[axis + 1 :]))

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        axis = self.axis % len(at)
        parts: list[tuple[Dim, Input]] = []
        end = Dim.of(0)
        for i in range(len(inputs)):
            x = operand(inputs, i)
            if x.type.dims[axis] != 0:
                parts.append((end, x))
                end = end + x.type.dims[axis]
        return _chosen(at, axis, parts or [(Dim.of(0), operand(inputs, 0))])

    def reference(self, *operands: Array | None) -> Array:
        return np.concatenate([operand(operands, i) for i in range(len(operands))], axis=self.axis)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in DTYPES:
            yield Sample(cls(), (tensor(dtype, "n", 3), tensor(dtype, "m", 3)), SIZES)
        x, y = tensor("f32", "n", 2, "m"), tensor("f32", "n", 5, "m")
        for axis in (1, -2):
            yield Sample(cls(axis), (x, y, x), SIZES)
        yield Sample(cls(-1), (tensor("f32", 3, "n"), tensor("f32", 3, "m"), tensor("f32", 3, 1)), SIZES)
        yield Sample(cls(-1), (tensor("f32", 3, "n"), tensor("f32", 3, 0)), SIZES)
        yield Sample(cls(), (tensor("i64", "n"),), SIZES)
        yield Sample(cls(), tuple(tensor("f32", d) for d in ("n", 1, 2, "m", 3)), SIZES)
        same = (Compare("==", "n", "m"),)
        sizes = ({"n": 0, "m": 0}, {"n": 1, "m": 1}, {"n": 6, "m": 6})
        yield Sample(cls(), (tensor("f32", 2, "n"), tensor("f32", 3, "m")), sizes, same)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n", 4)
        yield Refused(cls(), (x, tensor("f32", "n", 5)), "the sizes of axis 1 of `concat` do not match: 4 against 5")
        yield Refused(cls(1), (x, tensor("f32", "m", 4)), "the sizes of axis 0 of `concat` do not match: n against m")
        yield Refused(cls(), (x, tensor("f32", 4)), "the ranks of `concat` do not match: x is f32[n, 4], y is f32[4]")
        yield Refused(cls(), (x, tensor("f64", "n", 4)), "the dtypes of `concat` do not match: f32 against f64")
        yield Refused(cls(2), (x, x), "axis 2 of `concat` is out of range for rank 2")
        yield Refused(cls(), (tensor("f32"),), "`concat` needs an axis; scalars are put together by `stack`")


def _chosen(at: tuple[Expr, ...], axis: int, parts: Sequence[tuple[Dim, Input]]) -> Expr:
    """The element, from the part that holds it: found by halving, so that many parts cost few comparisons."""
    if len(parts) == 1:
        ((start, x),) = parts
        return x(*at[:axis], sub(at[axis], index(start)), *at[axis + 1 :])
    half = len(parts) // 2
    before = apply("lt", at[axis], index(parts[half][0]))
    return select(before, _chosen(at, axis, parts[:half]), _chosen(at, axis, parts[half:]))


@dataclass(frozen=True)
class Stack(CompositeOp):
    """Tensors of one shape along a new axis of the result."""

    name: ClassVar[str] = "stack"
    family: ClassVar[str] = "join"
    signature: ClassVar[tuple[str, ...]] = ("x", "others*")

    axis: int = 0

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        given = [operand(operands, i) for i in range(len(operands))]
        dtype, first = ctx.same_dtype(*given), given[0]
        axis = ctx.axis(self.axis, first.rank + 1)
        for i, t in enumerate(given):
            shown = f"{ctx.name(0)} is {first}, {ctx.name(i)} is {t}"
            ctx.require(t.rank == first.rank, f"the ranks of `stack` do not match: {shown}")
            for d, (a, b) in enumerate(zip(first.dims, t.dims, strict=True)):
                ctx.require_equal(a, b, f"the sizes of axis {d} of `stack`")
        return TensorType(dtype, (*first.dims[:axis], Dim.of(len(given)), *first.dims[axis:]))

    def decompose(self, b: Builder, *operands: Operand) -> Operand:
        axis = self.axis % (b.type(operands[0]).rank + 1)
        parts: list[Operand] = [b.unsqueeze(o, axis=axis) for o in operands]
        joined: Operand = b.concat(*parts, axis=axis)
        return joined

    def reference(self, *operands: Array | None) -> Array:
        return np.stack([operand(operands, i) for i in range(len(operands))], axis=self.axis)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in DTYPES:
            yield Sample(cls(), (tensor(dtype, "n", "m"), tensor(dtype, "n", "m")), SIZES)
        x = tensor("f32", "n", "m")
        for axis in (1, 2, -1):
            yield Sample(cls(axis), (x, x, x), SIZES)
        yield Sample(cls(), (tensor("f32"), tensor("f32")))
        yield Sample(cls(), (x,), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n", 4)
        yield Refused(cls(), (x, tensor("f32", "n", 5)), "the sizes of axis 1 of `stack` do not match: 4 against 5")
        yield Refused(cls(), (x, tensor("f32", 4)), "the ranks of `stack` do not match: x is f32[n, 4], y is f32[4]")
        yield Refused(cls(), (x, tensor("i32", "n", 4)), "the dtypes of `stack` do not match: f32 against i32")
        yield Refused(cls(3), (x, x), "axis 3 of `stack` is out of range for rank 3")


@dataclass(frozen=True)
class Split(CompositeOp):
    """Neighbouring parts of an axis: of the sizes given, or `sections` equal ones.  As many results as parts."""

    name: ClassVar[str] = "split"
    family: ClassVar[str] = "join"
    results: ClassVar[int] = 0

    sizes: tuple[Dim | int, ...] | None = None
    sections: int | None = None
    axis: int = 0

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType | tuple[TensorType, ...]:
        x = operand(operands, 0)
        axis = ctx.axis(self.axis, x.rank)
        ctx.require(
            (self.sizes is None) != (self.sections is None),
            "`split` needs either the `sizes` of the parts or the number of `sections`",
        )
        size = x.dims[axis]
        if self.sections is not None:
            ctx.require(self.sections > 0, f"`split` into {self.sections} sections is not possible")
            ctx.require(
                self.sections <= MOST_PARTS,
                f"`split` makes at most {MOST_PARTS} parts, not {self.sections}",
                help="`reshape` makes a dimension of the sections",
            )
            even = Compare("==", size % self.sections, 0)
            require_fact(ctx, even, f"`split` needs {self.sections} equal sections, but axis {axis} has size {size}")
        else:
            self._check_sizes(ctx, axis, size)
        parts = self._parts(size)
        types = tuple(TensorType(x.dtype, (*x.dims[:axis], p, *x.dims[axis + 1 :])) for p in parts)
        return types if len(types) > 1 else types[0]

    def _check_sizes(self, ctx: InferContext, axis: int, size: Dim) -> None:
        parts = self._parts(size)
        ctx.require(len(parts) > 0, "`split` into no parts is not possible")
        for p in parts:
            require_size(ctx, p, "a size of `split`")
        total = Dim.sum(parts)
        message = f"the parts {listed(parts)} of `split` make {total}, but axis {axis} has size {size}"
        require_fact(ctx, Compare("==", total, size), message)

    def _parts(self, size: Dim) -> tuple[Dim, ...]:
        if self.sections is not None:
            return (size // self.sections,) * self.sections
        assert self.sizes is not None
        return tuple(map(Dim.of, self.sizes))

    def decompose(self, b: Builder, *operands: Operand) -> Operand | tuple[Operand, ...]:
        x = b.type(operands[0])
        axis, start = self.axis % x.rank, Dim.of(0)
        made: list[Operand] = []
        for part in self._parts(x.dims[axis]):
            made.append(b.slice(operands[0], axis=axis, start=start, stop=start + part))
            start = start + part
        return tuple(made) if len(made) > 1 else made[0]

    def reference(self, *operands: Array | None) -> Array | tuple[Array, ...]:
        x = operand(operands, 0)
        ends = np.cumsum([whole(p) for p in self._parts(Dim.of(x.shape[self.axis]))])
        parts = tuple(np.array(p) for p in np.split(x, ends[:-1], axis=self.axis))
        return parts if len(parts) > 1 else parts[0]

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        n, m = Dim.of("n"), Dim.of("m")
        for dtype in (DType.f32, DType.bf16, DType.bool):
            yield Sample(cls(sections=3, axis=1), (tensor(dtype, "n", 6),), SIZES)
        yield Sample(cls((n, 2, m)), (tensor("f32", n + m + 2, "m"),), SIZES)
        yield Sample(cls((n, n), axis=-1), (tensor("f32", "m", 2 * n),), SIZES)
        yield Sample(cls(sections=2, axis=-1), (tensor("f32", "m", 2 * n),), SIZES)
        yield Sample(cls(sections=1), (tensor("f32", "n"),), SIZES)
        even = (Compare("==", n % 4, 0),)
        yield Sample(cls(sections=4), (tensor("f32", "n", 2),), ({"n": 0}, {"n": 4}, {"n": 20}), even)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n", 6)
        yield Refused(cls(), (x,), "`split` needs either the `sizes` of the parts or the number of `sections`")
        yield Refused(cls((1,), 2), (x,), "`split` needs either the `sizes` of the parts or the number of `sections`")
        yield Refused(cls(sections=2), (x,), "`split` needs 2 equal sections, but axis 0 has size n")
        yield Refused(cls(sections=0), (x,), "`split` into 0 sections is not possible")
        many = cls(sections=1_000_000_000)
        yield Refused(many, (x,), "`split` makes at most 4096 parts, not 1000000000")
        yield Refused(cls((2, 3), axis=1), (x,), "the parts [2, 3] of `split` make 5, but axis 1 has size 6")
        yield Refused(cls((2, -2, 6), axis=1), (x,), "a size of `split` may be negative: -2")
        yield Refused(cls((), axis=1), (x,), "`split` into no parts is not possible")
