"""Operators that put constants, or copies of what is near, around or into a tensor: pad, tril, triu."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ..dims import Dim
from ..facts import Compare, InRange
from ..loops import Expr
from ..op import Array, ElementContext, ElementOp, InferContext, Input, Refused, Sample
from ..scalar import add, apply, both, const, index, select, sub
from ..types import DType, TensorType, tensor
from ._common import SIZES, operand
from ._shape import require_fact, require_size, whole
from .shape import DTYPES


@dataclass(frozen=True)
class Pad(ElementOp):
    """x with `pads` = (before, after) more elements on each axis; negative numbers leave elements out.

    `constant` puts `value` there, `reflect` mirrors x without repeating its edge, `replicate` repeats the edge.
    """

    name: ClassVar[str] = "pad"
    family: ClassVar[str] = "pad"
    index_map: ClassVar[bool] = True

    pads: tuple[tuple[Dim | int, Dim | int], ...]
    mode: Literal["constant", "reflect", "replicate"] = "constant"
    value: bool | int | float = 0

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        ctx.require(
            len(self.pads) == x.rank,
            f"`pad` needs a pair for each axis: {len(self.pads)} pairs for rank {x.rank}",
            help="how many before and after, from the first axis on; `[0, 0]` for an axis that stays",
        )
        self._check_value(ctx, x.dtype)
        dims = []
        for axis, (size, (before, after)) in enumerate(zip(x.dims, self.pads, strict=True)):
            dims.append(size + before + after)
            require_size(ctx, dims[-1], f"the size of axis {axis} that `pad` leaves")
            if self.mode != "constant":
                self._check_source(ctx, axis, size, (Dim.of(before), Dim.of(after)))
        return TensorType(x.dtype, tuple(dims))

    def _check_value(self, ctx: InferContext, dtype: DType) -> None:
        shown = str(self.value).lower() if isinstance(self.value, bool) else self.value
        whole_number = not (isinstance(self.value, float) and not dtype.is_float)
        same_kind = not isinstance(self.value, bool) or dtype.is_bool
        ctx.require(whole_number and same_kind, f"the value {shown} of `pad` is not {dtype.with_article}")
        if dtype.is_int:
            info = np.iinfo(dtype.numpy.name)
            ctx.require(info.min <= self.value <= info.max, f"the value {shown} of `pad` does not fit {dtype}")
        if dtype.is_bool:
            ctx.require(self.value in (0, 1), f"the value {shown} of `pad` is not a bool")

    def _check_source(self, ctx: InferContext, axis: int, size: Dim, pads: tuple[Dim, Dim]) -> None:
        """Refuses to mirror or repeat what may not be there."""
        for pad in pads:
            if ctx.facts.prove_le(pad, 0):
                continue
            if self.mode == "reflect":
                message = f"`pad` reflects fewer elements than axis {axis} has: {pad} against its size {size}"
                require_fact(ctx, Compare("<", pad, size), message)
            else:
                message = f"`pad` has nothing to replicate where axis {axis}, of size {size}, is empty"
                require_fact(ctx, Compare("<=", 1, size), message)

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        x = operand(inputs, 0)
        position: list[Expr] = []
        inside: list[Expr] = []
        for i, size, (before, after) in zip(at, x.type.dims, self.pads, strict=True):
            source = sub(i, index(Dim.of(before)))
            low, high = not ctx.facts.prove_le(before, 0), not ctx.facts.prove_le(after, 0)
            if self.mode == "constant":
                inside += [apply("ge", source, index(0))] if low else []
                inside += [apply("lt", source, index(size))] if high else []
                position.append(source)
            elif self.mode == "replicate":
                source = apply("maximum", source, index(0)) if low else source
                position.append(apply("minimum", source, index(size - 1)) if high else source)
            else:
                position.append(_mirrored(source, size, low, high))
        return select(both(*inside), x(*position), const(self.value, out.dtype))

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        for axis, (before, after) in enumerate((whole(a), whole(b)) for a, b in self.pads):
            # Elements are left out last: where there are too few of them, what was added goes too.
            x = self._padded(x, axis, max(before, 0), max(after, 0))
            x = x[(slice(None),) * axis + (slice(max(-before, 0), x.shape[axis] - max(-after, 0)),)]
        return np.array(x)

    def _padded(self, x: Array, axis: int, before: int, after: int) -> Array:
        width = [(before, after) if d == axis else (0, 0) for d in range(x.ndim)]
        if self.mode == "constant":
            return np.pad(x, width, constant_values=x.dtype.type(self.value))
        if not before and not after:
            return x
        return np.pad(x, width, mode="reflect" if self.mode == "reflect" else "edge")

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        n, m = Dim.of("n"), Dim.of("m")
        for dtype in DTYPES:
            yield Sample(cls(((1, 2), (0, 1)), value=1), (tensor(dtype, "n", "m"),), SIZES)
        x = tensor("f32", "n", "m")
        yield Sample(cls(((0, 0), (3, 0)), value=float("-inf")), (x,), SIZES)
        yield Sample(cls(((-1, 1), (3, -2)), value=4), (x,), SIZES)
        yield Sample(cls(((0, n), (m, 0)), value=0.5), (x,), SIZES)
        yield Sample(cls(((0, 0), (m, n), (2, 0))), (tensor("f32", 2, "n", 3),), SIZES)
        yield Sample(cls(()), (tensor("f32"),))
        full = (InRange("n", 4), InRange("m", 1))
        sizes = ({"n": 4, "m": 1}, {"n": 4, "m": 0}, {"n": 9, "m": 5}, {"n": 33, "m": 7})
        yield Sample(cls(((-1, -2), (0, 3))), (x,), sizes[:1] + sizes[2:], full)
        yield Sample(cls(((-2, 5), (-1, 2)), value=7), (tensor("i32", "n", "m"),), sizes[:1] + sizes[2:], full)
        four = (InRange("n", 4),)
        for dtype in (DType.f32, DType.f16, DType.i64):
            yield Sample(cls(((3, 2), (0, 0)), "reflect"), (tensor(dtype, "n", "m"),), sizes, four)
            yield Sample(cls(((3, 6), (0, 0)), "replicate"), (tensor(dtype, "n", "m"),), sizes, four)
        yield Sample(cls(((0, 0), (n - 1, 1)), "reflect"), (tensor("f32", "m", "n"),), sizes, four)
        yield Sample(cls(((-1, 3), (2, -2)), "reflect"), (tensor("f32", "n", "n"),), sizes, four)
        yield Sample(cls(((m, -1), (2, m)), "replicate"), (tensor("f32", "n", "n"),), sizes, four)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x, none = tensor("f32", "n", 4), (0, 0)
        yield Refused(cls((none,)), (x,), "`pad` needs a pair for each axis: 1 pairs for rank 2")
        yield Refused(cls(((-1, 0), none)), (x,), "the size of axis 0 that `pad` leaves may be negative: n - 1")
        yield Refused(cls((none, (4, 0)), "reflect"), (x,), "`pad` reflects fewer elements than axis 1 has: 4 against")
        yield Refused(cls(((1, 0), none), "replicate"), (x,), "`pad` has nothing to replicate where axis 0, of size n")
        yield Refused(cls((none,), value=0.5), (tensor("i32", 4),), "the value 0.5 of `pad` is not an i32")
        yield Refused(cls((none,), value=True), (tensor("f32", 4),), "the value true of `pad` is not an f32")
        yield Refused(cls((none,), value=300), (tensor("u8", 4),), "the value 300 of `pad` does not fit u8")
        yield Refused(cls((none,), value=2), (tensor("bool", 4),), "the value 2 of `pad` is not a bool")


def _mirrored(source: Expr, size: Dim, low: bool, high: bool) -> Expr:
    """The position that a reflection at the ends takes: |i|, then the distance from the last element likewise."""
    if low:
        source = apply("maximum", source, sub(index(0), source))
    if high:
        last = index(size - 1)
        source = sub(last, apply("maximum", sub(last, source), sub(source, last)))
    return source


@dataclass(frozen=True)
class Triangle(ElementOp):
    """Of the matrices in the last two axes, the part on one side of a diagonal; 0 on the other side."""

    family: ClassVar[str] = "pad"
    index_map: ClassVar[bool] = True
    keeps: ClassVar[str]  # the comparison of column and row + diagonal

    diagonal: int | Dim = 0

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        ctx.require(x.rank >= 2, f"`{self.name}` takes matrices, of rank 2 or more; {ctx.name(0)} is {x}")
        return x

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        keep = apply(self.keeps, at[-1], add(at[-2], index(Dim.of(self.diagonal))))
        return select(keep, operand(inputs, 0)(*at), const(0, out.dtype))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in DTYPES:
            yield Sample(cls(), (tensor(dtype, "n", "m"),), SIZES)
        for diagonal in (0, 1, -2, Dim.of("m"), Dim.of("n") - "m"):
            yield Sample(cls(diagonal), (tensor("f32", 2, "n", "m"),), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(), (tensor("f32", "n"),), f"`{cls.name}` takes matrices, of rank 2 or more; x is f32[n]")


@dataclass(frozen=True)
class Tril(Triangle):
    """The elements on and below the diagonal (column <= row + diagonal); 0 above."""

    name: ClassVar[str] = "tril"
    keeps: ClassVar[str] = "le"

    def reference(self, *operands: Array | None) -> Array:
        return np.array(np.tril(operand(operands, 0), whole(self.diagonal)))


@dataclass(frozen=True)
class Triu(Triangle):
    """The elements on and above the diagonal (column >= row + diagonal); 0 below."""

    name: ClassVar[str] = "triu"
    keeps: ClassVar[str] = "ge"

    def reference(self, *operands: Array | None) -> Array:
        return np.array(np.triu(operand(operands, 0), whole(self.diagonal)))
