"""Sliding windows over the spatial axes of [batch, channels, ...] tensors: attributes, output sizes and taps.

An attribute is one number for all spatial axes or one an axis; padding may also be a pair (before, after) an axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..dims import Dim
from ..facts import Compare
from ..loops import Expr
from ..op import InferContext
from ..scalar import add, apply, both, index, mul
from ..types import TensorType

PerAxis = int | tuple[int, ...]
Padding = int | tuple[int | tuple[int, int], ...]


def per_axis(value: PerAxis, rank: int) -> tuple[int, ...]:
    """One number an axis."""
    return (value,) * rank if isinstance(value, int) else value


def pads(value: Padding, rank: int) -> tuple[tuple[int, int], ...]:
    """(before, after) an axis."""
    listed = (value,) * rank if isinstance(value, int) else value
    return tuple((p, p) if isinstance(p, int) else p for p in listed)


def want_per_axis(ctx: InferContext, attribute: str, value: PerAxis, rank: int, least: int) -> tuple[int, ...]:
    """The numbers of an attribute, or the error."""
    listed = per_axis(value, rank)
    ctx.require(
        len(listed) == rank,
        f"`{attribute}` of `{ctx.op_name}` has {len(listed)} entries for {rank} spatial axes",
    )
    for v in listed:
        ctx.require(v >= least, f"`{attribute}` of `{ctx.op_name}` must be at least {least}, not {v}")
    return listed


def want_pads(ctx: InferContext, value: Padding, rank: int) -> tuple[tuple[int, int], ...]:
    """The padding, or the error."""
    listed = pads(value, rank)
    ctx.require(len(listed) == rank, f"`padding` of `{ctx.op_name}` has {len(listed)} entries for {rank} spatial axes")
    for pair in listed:
        ctx.require(min(pair) >= 0, f"`padding` of `{ctx.op_name}` must not be negative, but has {min(pair)}")
    return listed


def want_spatial(ctx: InferContext, x: TensorType, ranks: Sequence[int] = (1, 2, 3)) -> int:
    """The number of spatial axes of x."""
    ctx.require(
        x.rank - 2 in ranks,
        f"`{ctx.op_name}` takes tensors [batch, channels, spatial...] of rank {ranks[0] + 2} to {ranks[-1] + 2}; "
        f"{ctx.name(0)} is {x}",
        help="add a batch axis with `unsqueeze`" if x.rank - 1 in ranks else "",
    )
    return x.rank - 2


def want_not_negative(ctx: InferContext, axis: int, size: Dim, steps: Dim, stride: int, what: str) -> None:
    """Refuses an output size that may be negative; `size` is steps // stride + 1."""
    if ctx.facts.prove_le(-stride, steps):
        return
    goal = Compare("<=", Dim.of(0), steps + stride)
    help = ctx.advice(goal) or "pad more, or use a smaller window"
    raise ctx.fail(
        f"the output of `{ctx.op_name}` may have a negative size along axis {axis}: {size} {what}",
        label=f"{ctx.name(0)} is smaller than the window unless more is known",
        help=help,
        symbols=steps.symbols,
        wanted=(goal,),
    )


@dataclass(frozen=True)
class Window:
    """One spatial axis: input size, kernel size, stride, dilation, padding."""

    size: Dim
    kernel: Dim
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    @property
    def extent(self) -> Dim:
        """Input elements from a window's first tap to its last."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def steps(self) -> Dim:
        """How far a window may move."""
        return self.size + self.before + self.after - self.extent

    @property
    def output(self) -> Dim:
        """The number of windows."""
        return self.steps // self.stride + 1

    @property
    def output_ceil(self) -> Dim:
        """With `ceil_mode`: a window may hang over the end, but must start in the input or in the padding before it."""
        return Dim.min(Dim.ceildiv(self.steps, self.stride) + 1, Dim.ceildiv(self.size + self.before, self.stride))

    def tap(self, out: Expr, k: Expr) -> Expr:
        """The input position of tap k of window `out`; outside the input it stands for padding."""
        first = mul(out, index(self.stride))
        return add(add(first, mul(k, index(self.dilation))), index(-self.before))

    def inside(self, position: Expr, overhang: bool = False) -> Expr:
        """Is the position in the input?  `overhang` says that windows may pass the end beyond `after`."""
        lower = [apply("ge", position, index(0))] if self.before else []
        upper = [apply("lt", position, index(self.size))] if self.after or overhang else []
        return both(*lower, *upper)
