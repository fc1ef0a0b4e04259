"""Statements dropped whose results nobody reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from ...ir.graph import (
    Apply,
    Bind,
    CallFunction,
    Function,
    GlobalRef,
    If,
    MatchCast,
    Module,
    Operand,
    Statement,
    TupleValue,
    Update,
    Var,
    While,
    operands_of,
    targets_of,
)
from ...ir.size_values import may_fail
from .walk import Walk, with_body


@dataclass(frozen=True)
class DeadCode:
    """Drops what has no effect.  An `update` stays, and so does an operator that may fail the call, and a `match_cast`
    that binds a symbol or asserts anything: types after it may rest on it.  Constants that nobody reads are dropped
    from the module; weights are not (they are the module's interface)."""

    name: ClassVar[str] = "dce"

    def run(self, module: Module) -> Module:
        functions = tuple(_function(module, f) for f in module.functions)
        used = {name for f in functions for name in _globals(f)}
        consts = tuple(c for c in module.consts if c.name in used)
        return replace(module, functions=functions, consts=consts)


def _function(module: Module, function: Function) -> Function:
    walk = Walk(module, function)
    stays = []
    for statement in function.body.statements:
        stays.append(_has_effect(module, statement, walk))
        walk.enter(statement)
    live = {v for r in function.body.results for v in _variables(r)}
    kept: list[Statement] = []
    for statement, effect in zip(reversed(function.body.statements), reversed(stays), strict=True):
        if effect or any(t.name in live for t in targets_of(statement)):
            kept.append(statement)
            live.update(v for o in operands_of(statement) for v in _variables(o))
    return with_body(function, reversed(kept), function.body.results)


def _has_effect(module: Module, statement: Statement, walk: Walk) -> bool:
    if isinstance(statement, Apply):
        return may_fail(statement, walk.type_of, walk.facts)
    if isinstance(statement, CallFunction):
        return any(p.inout for p in module.function(statement.function).params)
    if isinstance(statement, MatchCast):
        return bool(statement.facts) or statement.target.type != walk.type_of(statement.operand)
    return isinstance(statement, (Update, Bind, If, While))


def _variables(operand: Operand) -> Iterator[str]:
    if isinstance(operand, Var):
        yield operand.name
    elif isinstance(operand, TupleValue):
        for item in operand.items:
            yield from _variables(item)


def _globals(function: Function) -> Iterator[str]:
    pending: list[Operand] = list(function.body.results)
    for statement in function.body.statements:
        pending.extend(operands_of(statement))
    while pending:
        operand = pending.pop()
        if isinstance(operand, GlobalRef):
            yield operand.name
        elif isinstance(operand, TupleValue):
            pending.extend(operand.items)
