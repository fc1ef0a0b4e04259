"""The same operator on the same operands is computed once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from ...ir.graph import Apply, Field, Function, Module, Operand, Statement, Var, targets_of
from ...ir.printer import print_apply, print_operand
from ...ir.subs import map_operand, map_operands
from .walk import with_body

COMMUTATIVE = frozenset(
    ["add", "mul", "eq", "ne", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"]
)


@dataclass(frozen=True)
class CommonSubexpressions:
    """Replaces a statement by an earlier one of the same text: text tells 0.0 from -0.0, and 1 from true."""

    name: ClassVar[str] = "cse"

    def run(self, module: Module) -> Module:
        return replace(module, functions=tuple(map(_function, module.functions)))


def _function(function: Function) -> Function:
    seen: dict[str, tuple[str, ...]] = {}
    same: dict[str, str] = {}

    def operand(o: Operand) -> Operand:
        return replace(o, name=same[o.name]) if isinstance(o, Var) and o.name in same else o

    statements: list[Statement] = []
    for statement in function.body.statements:
        new = map_operands(statement, operand)
        key = _key(new)
        if key is None:
            statements.append(new)
            continue
        names = tuple(t.name for t in targets_of(new))
        first = seen.setdefault(key, names)
        if first is names:
            statements.append(new)
        else:
            same.update(zip(names, first, strict=True))
    return with_body(function, statements, (map_operand(r, operand) for r in function.body.results))


def _key(statement: Statement) -> str | None:
    """The text that two statements with the same value share; None where there is no telling."""
    if isinstance(statement, Field):
        return f"{print_operand(statement.operand)}.{statement.index}"
    if not isinstance(statement, Apply):
        return None
    operands: Iterable[Operand] = statement.operands
    if statement.op.name in COMMUTATIVE:
        operands = sorted(operands, key=print_operand)
    return print_apply(statement.op, operands)
