"""How one value reads others: evaluating element rules through the nodes that are moved into their readers."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import get_args

from ...ir.dims import Dim, size_of
from ...ir.facts import Facts
from ...ir.loops import Expr, Index, Load, walk_expr
from ...ir.op import AliasOp, ElementContext, ElementOp, Input, Pointwise
from ...ir.scalar import index
from ...ir.types import TensorType
from .emit import PureContext, linear_index
from .nodes import Dataflow, Node, Value

ReadFn = Callable[[str, tuple[Expr, ...]], Expr]
"""Gives the expression of one element of a value that is not moved into its reader."""

ONE = Dim.of(1)


@dataclass(frozen=True)
class Operand:
    """An operand bound to a way of reading it; what an element rule calls (the `Input` protocol)."""

    type: TensorType
    read: Callable[[tuple[Expr, ...]], Expr]

    def __call__(self, *position: Expr) -> Expr:
        return self.read(position)


def operands(
    flow: Dataflow, node: Node, inline: AbstractSet[str], facts: Facts, read: ReadFn
) -> tuple[Input | None, ...]:
    """The inputs of `node` as its element rule sees them."""
    return tuple(_operand(flow, v, inline, facts, read) for v in node.inputs)


def _operand(flow: Dataflow, value: Value, inline: AbstractSet[str], facts: Facts, read: ReadFn) -> Input | None:
    if value is None:
        return None
    if not isinstance(value, str):
        scalar = value
        return Operand(TensorType(value.dtype, ()), lambda _position: scalar)
    name = value
    if name in inline:
        ctx = PureContext(facts)
        return Operand(flow.types[name], lambda position: element(flow, flow.nodes[name], ctx, position, inline, read))
    return Operand(flow.types[name], lambda position: read(name, position))


def element(
    flow: Dataflow,
    node: Node,
    ctx: ElementContext,
    position: tuple[Expr, ...],
    inline: AbstractSet[str],
    read: ReadFn,
) -> Expr:
    """The element of an ElementOp node (or of a reshape that only adds or drops ones) at `position`."""
    inputs = operands(flow, node, inline, ctx.facts, read)
    if isinstance(node.op, AliasOp):
        source = inputs[0]
        assert source is not None
        return source(*_through_ones(node.type.dims, source.type.dims, position))
    assert isinstance(node.op, ElementOp)
    return node.op.element(ctx, node.type, position, *inputs)


def _through_ones(dims: tuple[Dim, ...], source: tuple[Dim, ...], position: tuple[Expr, ...]) -> tuple[Expr, ...]:
    kept = iter([p for d, p in zip(dims, position, strict=True) if d != ONE])
    return tuple(index(0) if d == ONE else next(kept) for d in source)


@dataclass(frozen=True)
class Access:
    """One read of `name` at `position`, found by tracing."""

    name: str
    position: tuple[Expr, ...]


@dataclass(frozen=True)
class Trace:
    """`checks`: the call may fail here; `impure`: that, or there is a loop. `size` is that of what is computed."""

    accesses: tuple[Access, ...]
    impure: bool
    checks: bool
    size: int


def trace(
    flow: Dataflow, facts: Facts, inline: AbstractSet[str], evaluate: Callable[[ElementContext, ReadFn], object]
) -> Trace:
    """Runs `evaluate` and records what it reads, through the nodes in `inline`."""
    found: dict[Access, None] = {}

    def read(name: str, position: tuple[Expr, ...]) -> Expr:
        found[Access(name, position)] = None
        return Load(name, linear_index(flow.types[name].dims, position), flow.types[name].dtype)

    ctx = PureContext(facts)
    value = evaluate(ctx, read)
    return Trace(tuple(found), ctx.impure, ctx.checks, _size(value))


def _size(value: object) -> int:
    """Operations of an expression, those on indices too; 0 where `value` is none."""
    parts = walk_expr(value) if isinstance(value, get_args(Expr)) else ()
    return sum(size_of(part.dim) if isinstance(part, Index) else 1 for part in parts)


def trace_element(
    flow: Dataflow, facts: Facts, inline: AbstractSet[str], node: Node, position: tuple[Expr, ...]
) -> Trace:
    """What an ElementOp node reads for its element at `position`."""
    return trace(flow, facts, inline, lambda ctx, read: element(flow, node, ctx, position, inline, read))


def at(i: Expr, variable: Dim, size: Dim) -> bool:
    """Is the index `i` the loop variable (or 0 in a dimension of size 1)?"""
    return isinstance(i, Index) and (i.dim == variable or (size == ONE and i.dim == Dim.of(0)))


def is_generator(node: Node) -> bool:
    """Reads no array: iota, full, a size as a value."""
    return isinstance(node.op, ElementOp) and not any(isinstance(v, str) for v in node.inputs)


def is_index_map(node: Node) -> bool:
    """Moves elements without arithmetic on them."""
    return isinstance(node.op, AliasOp) or (isinstance(node.op, ElementOp) and node.op.index_map)


def is_pointwise(node: Node) -> bool:
    return isinstance(node.op, Pointwise)
