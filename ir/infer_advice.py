"""What to write instead of an operator that wants equal sizes which have nothing to do with one another.

`where b == s` would make the program compile, and mean something else: it is said only where no view of an operand
(an axis of size 1 more, axes in another order) fits.  What is suggested here has been inferred.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import combinations, islice, permutations

from .diagnostics import CompileError
from .dims import Dim
from .facts import Compare, Fact
from .graph import GlobalRef, Operand, Var
from .op import InferContext, Op, Pointwise
from .printer import print_apply
from .types import TensorType

MOST_AXES = 4
"""Operands of a higher rank are not tried in other orders of their axes."""

Types = Sequence[TensorType | None]


def advised(
    op: Op, ctx: InferContext, operands: Sequence[Operand], types: Types, refusal: CompileError
) -> CompileError:
    """The refusal, with another way of writing the call where one fits."""
    said = refusal.diagnostics[0]
    if len(refusal.diagnostics) != 1 or not any(map(_unrelated, said.wanted)):
        return refusal
    ways = list(islice(dict.fromkeys(_ways(op, ctx, operands, types)), 2))
    if not ways:
        return refusal
    return CompileError((replace(said, helps=(f"write {', or '.join(ways)}",)),), refusal.sources)


def _unrelated(fact: Fact) -> bool:
    return isinstance(fact, Compare) and fact.op == "==" and not fact.lhs.symbols & fact.rhs.symbols


def _ways(op: Op, ctx: InferContext, operands: Sequence[Operand], types: Types) -> Iterator[str]:
    """Calls that are accepted, those that need the least first."""
    tensors = [(i, t) for i, t in enumerate(types) if t is not None and isinstance(operands[i], (Var, GlobalRef))]
    highest = max((t.rank for _, t in tensors), default=0)
    for i, t in tensors:
        for axes in combinations(range(highest), highest - t.rank):
            if axes != tuple(range(len(axes))) and _accepted(op, ctx, types, i, _unsqueezed(t, axes)):
                where = axes[0] if len(axes) == 1 else list(axes)
                yield _written(op, ctx, operands, i, f"unsqueeze({{}}, axis={where})")
    flags = [f.name for f in reversed(fields(op)) if f.name.startswith("transpose")]
    turned = [replace(op, **{flag: not getattr(op, flag)}) for flag in flags]
    fitting = [other for other in turned if _inferred(other, ctx, types) is not None]
    yield from (f"`{print_apply(other, operands)}`" for other in fitting)
    if fitting:
        return
    for i, t in tensors:
        for order in _orders(t.rank):
            moved = TensorType(t.dtype, tuple(t.dims[a] for a in order))
            if moved != t and _accepted(op, ctx, types, i, moved):
                yield _written(op, ctx, operands, i, _turned(order))


def _unsqueezed(t: TensorType, axes: tuple[int, ...]) -> TensorType:
    rest = iter(t.dims)
    return TensorType(t.dtype, tuple(Dim.of(1) if a in axes else next(rest) for a in range(t.rank + len(axes))))


def _orders(rank: int) -> Iterator[tuple[int, ...]]:
    """Orders of axes: the last two exchanged, then one axis moved, then all others."""
    if not 2 <= rank <= MOST_AXES:
        return
    straight = list(range(rank))
    first = [*straight[:-2], rank - 1, rank - 2]
    others = [(axis, [a for a in straight if a != axis]) for axis in straight]
    moves = [[*rest[:to], axis, *rest[to:]] for axis, rest in others for to in straight]
    listed = dict.fromkeys(map(tuple, (first, *moves, *map(list, permutations(straight)))))
    yield from (order for order in listed if order != tuple(straight))


def _turned(order: tuple[int, ...]) -> str:
    rank = len(order)
    last = (*range(rank - 2), rank - 1, rank - 2)
    return "transpose({})" if order == last else f"permute({{}}, axes={list(order)})"


def _accepted(op: Op, ctx: InferContext, types: Types, position: int, t: TensorType) -> bool:
    """Does the call fit with this operand?  Elementwise, the others must keep the shape of the result."""
    results = _inferred(op, ctx, [t if i == position else other for i, other in enumerate(types)])
    if results is None or not isinstance(op, Pointwise):
        return results is not None
    return any(o is not None and o.shape == results[0].shape for i, o in enumerate(types) if i != position)


def _inferred(op: Op, ctx: InferContext, types: Types) -> tuple[TensorType, ...] | None:
    try:
        result = op.infer(InferContext(ctx.facts, ctx.op_name, advise=False), *types)
    except CompileError:
        return None
    return result if isinstance(result, tuple) else (result,)


def _written(op: Op, ctx: InferContext, operands: Sequence[Operand], position: int, view: str) -> str:
    """The call with a view of one operand, which gets a name first."""
    taken = {o.name for o in operands if isinstance(o, Var)} | set(ctx.origins)
    taken |= {s for t in ctx.types if t is not None for d in t.dims for s in d.symbols}
    name = next(n for n in ("t", *(f"view{i or ''}" for i in range(len(taken) + 1))) if n not in taken)
    old = operands[position]
    assert isinstance(old, (Var, GlobalRef))
    text = old.name if isinstance(old, Var) else f"@{old.name}"
    call = print_apply(op, [Var(name) if i == position else o for i, o in enumerate(operands)])
    return f"`{call}` after `{name} = {view.format(text)}`"
