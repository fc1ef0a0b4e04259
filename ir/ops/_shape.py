"""What the operators on shapes and indices share: sizes in attributes, refusals with the fact that would help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ..dims import Dim
from ..facts import Compare, Fact, Facts
from ..loops import Apply, Expr, Index
from ..op import Array1, InferContext, KernelBuilder
from ..scalar import add, apply, both, cast, index, mul, select
from ..types import DType, TensorType

Size = Dim | int
"""A size as an attribute: a number, or an expression over symbols."""

ONE = Dim.of(1)
LANES = 64
"""Columns that a kernel walks together where memory runs across its sequences; they fit the registers and L1."""
COPIED = 4096
"""Elements that one thread copies at a time."""


def dims_of(sizes: Sequence[Size]) -> tuple[Dim, ...]:
    """A shape attribute as dims."""
    return tuple(map(Dim.of, sizes))


def whole(size: Size) -> int:
    """A size when every symbol has its value: what `reference` sees."""
    return Dim.of(size).value


def listed(shape: Sequence[Size]) -> str:
    """A shape in a message."""
    return f"[{', '.join(map(str, shape))}]"


def ones(values: int | Sequence[int]) -> tuple[int, ...]:
    """An attribute that may be one number or several."""
    return (values,) if isinstance(values, int) else tuple(values)


def require_fact(ctx: InferContext, fact: Fact, message: str, instead: str = "") -> None:
    """Refuses what does not follow from the facts in scope, and says which fact would prove it."""
    if ctx.holds(fact):
        return
    helps = (ctx.advice(fact), instead)
    raise ctx.fail(message, help=", or ".join(h for h in helps if h), symbols=fact.symbols, wanted=(fact,))


def require_size(ctx: InferContext, size: Dim, what: str) -> None:
    """Refuses a size that may be negative."""
    require_fact(ctx, Compare("<=", 0, size), f"{what} may be negative: {size}")


def require_sizes(ctx: InferContext, t: TensorType, shape: tuple[Dim, ...], position: int) -> None:
    """Refuses an operand that does not broadcast to `shape`."""
    tail = shape[len(shape) - t.rank :]
    wrong: list[Compare] = []
    if t.rank <= len(shape):
        wrong = [
            fact
            for d, s in zip(t.dims, tail, strict=True)
            if d not in (ONE, s) and not ctx.holds(fact := Compare("==", d, s))
        ]
        if not wrong:
            return
        symbols, say = wrong[0].symbols, ctx.advice(*wrong)
    else:
        symbols, say = frozenset(), ""
    raise ctx.fail(
        f"the values of `{ctx.op_name}` do not fit: {listed(t.dims)} against {listed(shape)}",
        label=f"{ctx.name(position)} is {t}",
        help=say,
        symbols=symbols,
        wanted=tuple(wrong),
    )


def clamped(facts: Facts, value: Dim, low: Dim, high: Dim) -> Dim:
    """`value` limited to low..high, without the limits that the facts show to be idle."""
    if not facts.prove_le(low, value):
        value = Dim.max(value, low)
    return value if facts.prove_le(value, high) else Dim.min(value, high)


def size_value(size: Dim) -> str:
    """The value of a size in a message of a running kernel: `{n - 1}` is filled in by the runtime."""
    if size.is_const:
        return str(size)
    return "{(value)}" if size.name == "value" else f"{{{size}}}"  # {value} is what the check found


def size_text(size: Dim) -> str:
    """A size in a message of a running kernel, with its value."""
    return str(size) if size.is_const else f"{size} = {size_value(size)}"


class Checking(Protocol):
    """What the check of an index needs: element rules and kernels have it."""

    def let(self, value: Expr) -> Expr: ...
    def require(self, ok: Expr, message: str, value: Expr | None = None) -> None: ...


def wrapped_index(ctx: Checking, i: Expr, size: Dim, axis: int, op: str) -> tuple[Expr, Expr]:
    """An index that data gives as an i64 counted from the start, and whether it is in range (else the call fails)."""
    given = wide = ctx.let(cast(i, DType.i64))
    first = Dim.of(0)
    if i.dtype.is_signed:
        wide = ctx.let(select(apply("lt", given, index(0)), add(given, index(size)), given))
        first = -size
    ok = ctx.let(both(apply("ge", wide, index(0)), apply("lt", wide, index(size))))
    fitting = f"{size_value(first)}..{size_value(size - 1)}"
    message = f"an index of `{op}` is {{value}}, out of range for axis {axis} of size {size_text(size)} ({fitting})"
    ctx.require(ok, message, given)
    return wide, ok


def checked_index(ctx: Checking, i: Expr, size: Dim, axis: int, op: str) -> Expr:
    """An index that data gives as an i64 within 0..size-1; negative ones count from the end.

    One that is out of range fails the call, and is limited, so that the kernel still reads inside the operand; where
    `size` is 0 nothing is inside, and the caller guards the access (`guarded`).
    """
    wide, _ = wrapped_index(ctx, i, size, axis, op)
    # Not a polynomial: extrema of names that are known at run time only have no simpler form to be found.
    low = Apply("maximum", (wide, index(0)), DType.i64)
    return ctx.let(Apply("minimum", (low, index(size - 1)), DType.i64))


def guarded(facts: Facts, size: Dim, value: Expr, otherwise: Expr) -> Expr:
    """`value`, which reads along an axis of `size` elements, unless there are none."""
    return value if facts.prove_le(1, size) else select(apply("gt", index(size), index(0)), value, otherwise)


def collapsed(t: TensorType, axis: int) -> tuple[Dim, Dim, Dim]:
    """A row-major array seen as [outer, size, inner] around one axis."""
    return Dim.product(t.dims[:axis]), t.dims[axis], Dim.product(t.dims[axis + 1 :])


# ---------------------------------------------------------------------------------------------------- kernels


def pairs(k: KernelBuilder, first: Dim, second: Dim, body: Callable[[Expr, Expr], None]) -> None:
    """Calls `body` with every two positions, in parallel: one loop over both, as either may be of size 1 in a call."""
    if ONE in (first, second):
        only = second if first == ONE else first
        k.loop(
            "p", index(0), index(only), lambda i: body(index(0), i) if first == ONE else body(i, index(0)), "parallel"
        )
        return

    def both_of(i: Expr) -> None:
        size = index(second)
        # Named, so that the division is done once: as a polynomial it would be part of every offset.
        body(k.let(Apply("floordiv", (i, size), DType.i64)), k.let(Apply("mod", (i, size), DType.i64)))

    k.loop("p", index(0), index(first * second), both_of, "parallel")


def tile(size: Dim, width: int, number: Expr) -> tuple[Expr, Expr]:
    """The bounds of one run of `width` out of `size`."""
    start = mul(number, index(width))
    assert isinstance(start, Index)
    return start, index(Dim.min(size, start.dim + width))


def tiles(k: KernelBuilder, size: Dim, width: int, body: Callable[[Expr, Expr], None]) -> None:
    """Calls `body` with the bounds of each run of `width` out of `size`, in parallel."""
    pairs(k, ONE, Dim.ceildiv(size, width), lambda _, t: body(*tile(size, width, t)))


def copy_array(
    k: KernelBuilder,
    source: Array1,
    target: Array1,
    guard: Callable[[Callable[[], None]], None] = lambda body: body(),
) -> None:
    """All elements, unless both are the same buffer; `guard` may leave its argument out."""
    if source.buffer == target.buffer:
        return
    dtype = source.type.dtype

    def one(i: Expr) -> None:
        k.store(target.buffer, i, k.load(source.buffer, i, dtype))

    tiles(k, source.type.size, COPIED, lambda start, stop: guard(lambda: k.loop("i", start, stop, one, "vector")))


def nest(
    k: KernelBuilder, sizes: Sequence[Dim], kinds: Sequence[str], body: Callable[[tuple[Expr, ...]], None]
) -> None:
    """Loops over all positions, the last axis innermost."""

    def level(position: tuple[Expr, ...]) -> None:
        d = len(position)
        if d == len(sizes):
            body(position)
        elif sizes[d] == ONE:
            level((*position, index(0)))
        else:
            k.loop(f"i{d}", index(0), index(sizes[d]), lambda i: level((*position, i)), kinds[d])

    level(())


def offset(dims: Sequence[Dim], position: Sequence[Expr]) -> Expr:
    """The row-major offset of a position."""
    total: Expr = index(0)
    for size, i in zip(dims, position, strict=True):
        total = add(mul(total, index(size)), i)
    return total
