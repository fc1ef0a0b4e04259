"""Composite operators replaced by the operators they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from ...ir.build import Builder
from ...ir.graph import Apply, Assign, Function, Module, Operand, Statement, Target, Var
from ...ir.infer_call import weight_symbols
from ...ir.op import CompositeOp
from ...ir.subs import map_operands, map_targets
from .walk import Walk, names_of, with_body


@dataclass(frozen=True)
class Decompose:
    """Takes every CompositeOp apart until none is left; the results keep their names and types."""

    name: ClassVar[str] = "decompose"

    def run(self, module: Module) -> Module:
        return replace(module, functions=tuple(_function(module, f) for f in module.functions))


def _function(module: Module, function: Function) -> Function:
    walk = Walk(module, function)
    taken = names_of(function) | weight_symbols(module)
    statements: list[Statement] = []
    for statement in function.body.statements:
        for new in _expand(statement, walk, taken):
            walk.enter(new)
            statements.append(new)
    return with_body(function, statements, function.body.results)


def _expand(statement: Statement, walk: Walk, taken: set[str]) -> Iterator[Statement]:
    if not isinstance(statement, Apply) or not isinstance(statement.op, CompositeOp):
        yield statement
        return
    prefix = f"{statement.targets[0].name}_"
    b = Builder(walk.facts, dict(walk.types), walk.globals, prefix, taken, trusted=True)  # the rule of the op has asked
    b.span = statement.span
    made = statement.op.decompose(b, *statement.operands)
    results = made if isinstance(made, tuple) else (made,)
    taken.update(b.types)
    for new in _renamed(b.statements, results, statement):
        yield from _expand_inner(new, walk, taken)


def _expand_inner(statement: Statement, walk: Walk, taken: set[str]) -> Iterator[Statement]:
    for new in _expand(statement, walk, taken):
        walk.enter(new)  # what stands in the middle is an operand of what comes next
        yield new


def _renamed(made: list[Statement], results: tuple[Operand, ...], old: Apply) -> Iterator[Statement]:
    """The new statements, with the old targets for their results."""
    names = {t.name for s in made if isinstance(s, Apply) for t in s.targets}
    direct: dict[str, Target] = {}
    rest: list[tuple[Target, Operand]] = []
    for target, result in zip(old.targets, results, strict=True):
        if isinstance(result, Var) and result.name in names and result.name not in direct:
            direct[result.name] = target
        else:
            rest.append((target, result))

    def operand(o: Operand) -> Operand:
        return replace(o, name=direct[o.name].name) if isinstance(o, Var) and o.name in direct else o

    for statement in made:
        yield map_targets(map_operands(statement, operand), lambda t: direct.get(t.name, t))
    for target, result in rest:
        yield Assign(target, operand(result), old.span)
