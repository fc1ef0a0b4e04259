"""Algebraic simplification: only what is exact for every value, NaN, infinities and -0.0 among them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from ...ir.graph import Apply, Assign, Field, Function, Module, Operand, Statement, TupleValue, Var, targets_of
from ...ir.subs import map_operand, map_operands
from .simplify_rules import RULES, Context
from .walk import Walk, with_body


@dataclass(frozen=True)
class Simplify:
    """Applies the rules of `simplify_rules` until none fits, forward through every function.

    Another name for a value (`a = b`) and fields of known tuples are replaced by what they stand for; what nobody reads
    any more is left to `dce`.
    """

    name: ClassVar[str] = "simplify"

    def run(self, module: Module) -> Module:
        return replace(module, functions=tuple(_function(module, f) for f in module.functions))


def _function(module: Module, function: Function) -> Function:
    context = Context(Walk(module, function))
    values: dict[str, Operand] = {}
    tuples: dict[str, TupleValue] = {}

    def operand(o: Operand) -> Operand:
        return values.get(o.name, o) if isinstance(o, Var) else o

    statements: list[Statement] = []
    for statement in function.body.statements:
        new = map_operands(statement, operand)
        value = _known(new, tuples)
        if value is None and isinstance(new, Apply):
            new, value = _rewritten(new, context)
        if value is not None:
            context.walk.enter(new)
            values[targets_of(new)[0].name] = value
            continue
        if isinstance(new, Assign) and isinstance(new.operand, TupleValue):
            tuples[new.target.name] = new.operand
        if isinstance(new, Apply):
            context.defs.update({t.name: new for t in new.targets})
        context.walk.enter(new)
        statements.append(new)
    return with_body(function, statements, _results(function.body.results, operand))


def _results(results: Iterable[Operand], operand: object) -> list[Operand]:
    assert callable(operand)
    return [map_operand(r, operand) for r in results]


def _known(statement: Statement, tuples: dict[str, TupleValue]) -> Operand | None:
    """What a name or a field stands for."""
    if isinstance(statement, Assign) and not isinstance(statement.operand, TupleValue):
        return statement.operand
    if isinstance(statement, Field):
        whole = statement.operand
        whole = tuples.get(whole.name, whole) if isinstance(whole, Var) else whole
        if isinstance(whole, TupleValue):
            return whole.items[statement.index]
    return None


def _rewritten(statement: Apply, context: Context) -> tuple[Apply, Operand | None]:
    """The statement after the rules that fit, or the operand that it is equal to."""
    for _ in range(20):
        for rule in RULES.get(statement.op.name, ()):
            new = rule(statement, context)
            if isinstance(new, Apply):
                statement = new
                break
            if new is not None and context.fits(new, statement):
                return statement, new
        else:
            break
    return statement, None
