"""A check on data: a value that is only given where a condition holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..loops import Expr
from ..op import Array, ElementContext, InferContext, Pointwise, Refused, Sample
from ..types import TensorType, tensor
from ._common import FLOATS, INTS, SIZES, arrays, cycled, operand
from ._shape import require_sizes


@dataclass(frozen=True)
class Checked(Pointwise):
    """x, where the condition is true for every element of it; the call fails with `message` where it is not.

    The condition broadcasts to x. What an x of no elements would be checked for is not looked at.
    """

    name: ClassVar[str] = "checked"
    family: ClassVar[str] = "select"
    signature: ClassVar[tuple[str, ...]] = ("x", "condition")

    message: str = "the condition of `checked` does not hold"

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, condition = operand(operands, 0), operand(operands, 1)
        ctx.require(
            condition.dtype.is_bool,
            f"the condition of `checked` must be bool; {ctx.name(1)} is {condition}",
            help=f"compare it: `ne({ctx.name(1)}, 0)`",
        )
        require_sizes(ctx, condition, x.dims, 1)
        return x

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
        for dtype in (*FLOATS, *INTS):
            types = (tensor(dtype, "n", "m"), tensor("bool", "m"))
            yield Sample(cls(), types, SIZES, make=arrays(None, cycled(True), types=types))
        types = (tensor("f32", "n"), tensor("bool"))
        yield Sample(cls("not so"), types, SIZES, make=arrays(None, cycled(True), types=types))

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n")
        yield Refused(cls(), (x, x), "the condition of `checked` must be bool; condition is f32[n]")
        yield Refused(cls(), (x, tensor("bool", "m", "n")), "the values of `checked` do not fit")
