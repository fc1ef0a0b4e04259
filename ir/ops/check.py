"""Checks on data: a value that is only given where a condition holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..graph import Operand
from ..loops import Expr
from ..op import Array, CompositeOp, ElementContext, InferContext, Pointwise, Refused, Sample
from ..types import TensorType, tensor
from ._common import FLOATS, INTS, SIZES, arrays, cycled, one, operand
from ._shape import ONE, require_sizes

if TYPE_CHECKING:
    from ..build import Builder

FALSE = "the condition of `checked` does not hold"


def result(ctx: InferContext, operands: tuple[TensorType | None, ...]) -> TensorType:
    """The type of x; refuses a condition that is none, or does not broadcast to x."""
    x, condition = operand(operands, 0), operand(operands, 1)
    ctx.require(
        condition.dtype.is_bool,
        f"the condition of `{ctx.op_name}` must be bool; {ctx.name(1)} is {condition}",
        help=f"compare it: `ne({ctx.name(1)}, 0)`",
    )
    require_sizes(ctx, condition, x.dims, 1)
    return x


def uses(cls: type[Checked] | type[CheckedEach]) -> Iterable[Sample]:
    for dtype in (*FLOATS, *INTS):
        types = (tensor(dtype, "n", "m"), tensor("bool", "m"))
        yield Sample(cls(), types, SIZES, make=arrays(None, cycled(True), types=types))
    types = (tensor("f32", "n"), tensor("bool"))
    yield Sample(cls("not so"), types, SIZES, make=arrays(None, cycled(True), types=types))


def misuses(cls: type[Checked] | type[CheckedEach]) -> Iterable[Refused]:
    x = tensor("f32", "n")
    yield Refused(cls(), (x, x), f"the condition of `{cls.name}` must be bool; condition is f32[n]")
    yield Refused(cls(), (x, tensor("bool", "m", "n")), f"the values of `{cls.name}` do not fit")


@dataclass(frozen=True)
class Checked(CompositeOp):
    """x, where every element of the condition is true; the call fails with `message` where one is not.

    The condition broadcasts to x. All of it is looked at, also where x has no elements or is not used.
    """

    name: ClassVar[str] = "checked"
    family: ClassVar[str] = "select"
    signature: ClassVar[tuple[str, ...]] = ("x", "condition")
    fallible: ClassVar[bool] = True

    message: str = FALSE

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        return result(ctx, operands)

    def decompose(self, b: Builder, *operands: Operand) -> Operand:
        x, condition = operands
        wide, narrow = b.type(x).dims, b.type(condition).dims
        rows = wide[: len(wide) - len(narrow)]
        spread = [size for size, own in zip(wide[len(rows) :], narrow, strict=True) if own == ONE]
        if not all(b.facts.prove_le(1, size) for size in (*rows, *spread)):
            b.checked_each(condition, condition, message=self.message)
        return one(b.checked_each(x, condition, message=self.message))

    def reference(self, *operands: Array | None) -> Array:
        x, condition = operand(operands, 0), operand(operands, 1)
        if not condition.all():
            raise IndexError(self.message)
        return x

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from uses(cls)
        types = (tensor("f32", "n"), tensor("bool"))
        yield Sample(cls("not so"), types, SIZES, make=arrays(None, cycled(False), types=types))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield from misuses(cls)


@dataclass(frozen=True)
class CheckedEach(Pointwise):
    """`checked` by each element of x: of a condition that broadcasts to no elements nothing is looked at."""

    name: ClassVar[str] = "checked_each"
    family: ClassVar[str] = "select"
    signature: ClassVar[tuple[str, ...]] = ("x", "condition")
    fallible: ClassVar[bool] = True

    message: str = FALSE

    @property
    def title(self) -> str:
        return Checked.name

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        return result(ctx, operands)

    def scalar(self, ctx: ElementContext, *args: Expr) -> Expr:
        x, condition = args
        ctx.require(condition, self.message)
        return x

    def reference(self, *operands: Array | None) -> Array:
        x, condition = operand(operands, 0), operand(operands, 1)
        if not np.broadcast_to(condition, x.shape).all():
            raise IndexError(self.message)
        return x

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from uses(cls)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield from misuses(cls)
