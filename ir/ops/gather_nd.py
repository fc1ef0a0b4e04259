"""Reading at several indices at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..loops import Expr
from ..op import Array, ElementContext, ElementOp, InferContext, Input, Refused, Sample, broadcast_element
from ..scalar import const
from ..types import TensorType, tensor
from ._common import SIZES, operand, want_int
from ._shape import checked_index, guarded
from .index import INDICES, require_range
from .shape import DTYPES

Maker = Callable[[np.random.Generator, dict[str, int]], tuple[Array | None, ...]]


@dataclass(frozen=True)
class GatherNd(ElementOp):
    """x[indices[0], indices[1], ...]: the indices broadcast and stand for the leading axes; the other axes stay."""

    name: ClassVar[str] = "gather_nd"
    family: ClassVar[str] = "index"
    signature: ClassVar[tuple[str, ...]] = ("x", "index", "indices*")
    fallible: ClassVar[bool] = True

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, *indices = (operand(operands, i) for i in range(len(operands)))
        for i, t in enumerate(indices):
            want_int(ctx, i + 1, t)
        ctx.require(
            len(indices) <= x.rank, f"`gather_nd` has {len(indices)} indices for the {x.rank} axes of {ctx.name(0)}"
        )
        return TensorType(x.dtype, (*ctx.broadcast(*(t.dims for t in indices)), *x.dims[len(indices) :]))

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        x, *indices = (operand(inputs, i) for i in range(len(inputs)))
        rank = len(at) - (x.type.rank - len(indices))
        sizes = x.type.dims[: len(indices)]
        read = [
            checked_index(ctx, broadcast_element(i, at[:rank]), size, axis, self.name)
            for axis, (i, size) in enumerate(zip(indices, sizes, strict=True))
        ]
        value = x(*read, *at[rank:])
        for size in sizes:
            value = guarded(ctx.facts, size, value, const(0, x.type.dtype))
        return value

    def reference(self, *operands: Array | None) -> Array:
        x, *indices = (operand(operands, i) for i in range(len(operands)))
        shape = (*np.broadcast_shapes(*(i.shape for i in indices)), *x.shape[len(indices) :])
        if 0 in shape:  # of a result of no elements there is none that an index could be wrong for
            return np.zeros(shape, x.dtype)
        for axis, i in enumerate(indices):
            require_range(i, -x.shape[axis], x.shape[axis], "`gather_nd`")
        return np.array(x[tuple(i.astype(np.int64) for i in indices)])

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in DTYPES:
            yield _sample(tensor(dtype, 4, 3, "m"), tensor("i64", "n"), tensor("i64", "n"))
        x = tensor("f32", 4, 3, "m", 2)
        for index in INDICES:
            yield _sample(x, tensor(index, "n"))
        yield _sample(x, tensor("i64", "n", 1), tensor("i32", 5))
        yield _sample(x, tensor("i64"), tensor("i64", "n"))
        yield _sample(tensor("f32", 5, 2), tensor("i64", "n", "m"), tensor("i64", "m"))
        yield _sample(tensor("f32", "n", 2), tensor("i64", "n"), tensor("i64", "n"))
        beyond = (tensor("f32", 3, 4), tensor("i64", 2), tensor("i64", 2))
        yield Sample(cls(), beyond, make=lambda rng, b: (
            np.ones((3, 4), np.float32), np.array([0, 2]), np.array([4, 0])))  # fmt: skip

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n", 4)
        i = tensor("i64", "m")
        yield Refused(cls(), (x, i, i, i), "`gather_nd` has 3 indices for the 2 axes of x")
        yield Refused(cls(), (x, tensor("f32", "m")), "`gather_nd` takes integer tensors; y is f32[m]")
        yield Refused(cls(), (x, i, tensor("i64", "n")), "the sizes of `gather_nd` do not match")


def _sample(x: TensorType, *indices: TensorType) -> Sample:
    return Sample(GatherNd(), (x, *indices), SIZES, make=_drawn((x, *indices)))


def _drawn(types: Sequence[TensorType]) -> Maker:
    """A `Sample.make`: indices in range, 0 where nothing is."""

    def make(rng: np.random.Generator, binding: dict[str, int]) -> tuple[Array | None, ...]:
        shapes = [tuple(d.evaluate(binding) for d in t.dims) for t in types]
        out: list[Array | None] = []
        for i, (t, shape) in enumerate(zip(types, shapes, strict=True)):
            low, high = 0, 2 if t.dtype.is_bool else 90
            if i:
                size = shapes[0][i - 1]
                low, high = (-size if t.dtype.is_signed else 0), max(size, 1)
            out.append(rng.integers(low, high, shape).astype(t.dtype.numpy))
        return tuple(out)

    return make
