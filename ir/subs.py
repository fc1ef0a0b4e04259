"""Replacing symbols and operands in types, attributes, facts and statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from .dims import Dim, DimLike
from .facts import Fact
from .graph import (
    Apply,
    Assign,
    Bind,
    Block,
    CallFunction,
    DimValue,
    Field,
    If,
    Literal,
    MatchCast,
    Operand,
    Statement,
    Target,
    TupleValue,
    Update,
    While,
)
from .op import Op
from .types import TensorType, TupleType, Type

Symbols = Mapping[str, DimLike]


def subs_type(t: Type, symbols: Symbols) -> Type:
    """Symbols of a type replaced."""
    if isinstance(t, TupleType):
        return TupleType(tuple(subs_type(item, symbols) for item in t.items))
    return t if t.shape is None else TensorType(t.dtype, tuple(d.subs(symbols) for d in t.shape))


def subs_op(op: Op, symbols: Symbols) -> Op:
    """Symbols of the attributes replaced; with a number for each, what `Op.reference` wants."""
    if not op.dims():
        return op
    return replace(op, **{f.name: _subs_value(getattr(op, f.name), symbols) for f in fields(op)})


def _subs_value(value: Any, symbols: Symbols) -> Any:
    if isinstance(value, Dim):
        return value.subs(symbols)
    return tuple(_subs_value(v, symbols) for v in value) if isinstance(value, tuple) else value


def dim_operand(operand: DimValue) -> Operand:
    """A size as an operand; a number once it is one (a DimValue always has symbols)."""
    if not operand.dim.is_const:
        return operand
    value: int | float = operand.dim.value
    if operand.dtype is not None and operand.dtype.is_float:
        value = float(value)
    return Literal(value, operand.dtype, operand.span)


def map_operand(operand: Operand, fn: Callable[[Operand], Operand]) -> Operand:
    """`fn` of the operand, or of the items of a tuple."""
    if isinstance(operand, TupleValue):
        return replace(operand, items=tuple(map_operand(item, fn) for item in operand.items))
    return fn(operand)


def map_operands(statement: Statement, fn: Callable[[Operand], Operand]) -> Statement:
    """The statement with every operand replaced, those of its blocks too."""

    def one(operand: Operand) -> Operand:
        return map_operand(operand, fn)

    if isinstance(statement, (Apply, CallFunction)):
        return replace(statement, operands=tuple(map(one, statement.operands)))
    if isinstance(statement, If):
        then, otherwise = map_block(statement.then, fn), map_block(statement.otherwise, fn)
        return replace(statement, condition=one(statement.condition), then=then, otherwise=otherwise)
    if isinstance(statement, While):
        inits = tuple((name, one(value)) for name, value in statement.inits)
        condition, body = map_block(statement.condition, fn), map_block(statement.body, fn)
        return replace(statement, inits=inits, condition=condition, body=body)
    return replace(statement, operand=one(statement.operand))


def map_block(block: Block, fn: Callable[[Operand], Operand]) -> Block:
    """The block with every operand replaced."""
    statements = tuple(map_operands(s, fn) for s in block.statements)
    return replace(block, statements=statements, results=tuple(map_operand(r, fn) for r in block.results))


def map_targets(statement: Statement, fn: Callable[[Target], Target]) -> Statement:
    """The statement with its targets replaced."""
    if isinstance(statement, (MatchCast, Field, Assign)):
        return replace(statement, target=fn(statement.target))
    if isinstance(statement, (Update, Bind)):
        return statement
    return replace(statement, targets=tuple(map(fn, statement.targets)))


def subs_statement(statement: Statement, symbols: Symbols) -> Statement:
    """Symbols replaced in the types, attributes, sizes and facts of a statement without blocks."""

    def operand(o: Operand) -> Operand:
        return dim_operand(replace(o, dim=o.dim.subs(symbols))) if isinstance(o, DimValue) else o

    def target(t: Target) -> Target:
        return t if t.type is None else replace(t, type=subs_type(t.type, symbols))

    new = map_targets(map_operands(statement, operand), target)
    if isinstance(new, Apply):
        return replace(new, op=subs_op(new.op, symbols))
    if isinstance(new, (MatchCast, Bind)):
        facts: tuple[Fact, ...] = tuple(f.subs(symbols) for f in new.facts)
        return replace(new, facts=facts)
    return new
