"""What passes share: facts and types at each statement, fresh names, substitution."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...ir.diagnostics import error
from ...ir.facts import Facts
from ...ir.graph import (
    Bind,
    Block,
    Function,
    MatchCast,
    Module,
    Operand,
    Statement,
    targets_of,
)
from ...ir.infer import operand_type
from ...ir.infer_bind import HostValues
from ...ir.infer_match import asserted, size_pairs
from ...ir.infer_scope import function_scope, symbols_of
from ...ir.types import TensorType, Type


class Walk:
    """Facts, types and names while going through a typed function; `enter` each statement after looking at it."""

    def __init__(self, module: Module, function: Function) -> None:
        scope = function_scope(module, function, checked=True)
        self.facts: Facts = scope.facts
        self.symbols: set[str] = set(scope.symbols)
        self.host = HostValues.of_params(function.params)
        self.types: dict[str, Type] = {p.name: p.type for p in function.params}
        self.globals: dict[str, TensorType] = {g.name: g.type for g in module.weights}
        self.globals |= {g.name: g.type for g in module.consts}

    def enter(self, statement: Statement) -> None:
        """Takes what the statement defines and asserts into scope."""
        told = self.host.note(statement)
        if isinstance(statement, Bind):
            self.facts = self.facts.add(*told, *statement.facts)
            self.symbols.add(statement.symbol)
        for target in targets_of(statement):
            assert target.type is not None, "infer before this pass"
            if isinstance(statement, MatchCast):
                pairs = size_pairs(self.type_of(statement.operand), target.type, lambda message, _: error(message))
                self.facts = self.facts.add(*asserted(pairs), *statement.facts)
                self.symbols |= symbols_of(target.type)
            self.types[target.name] = target.type

    def type_of(self, operand: Operand) -> Type:
        """The type of an operand of a typed function."""
        return operand_type(operand, self.types, self.globals)

    def same_type(self, a: Type, b: Type) -> bool:
        """Provably the same."""
        if a == b:
            return True
        if not isinstance(a, TensorType) or not isinstance(b, TensorType) or a.dtype is not b.dtype:
            return False
        if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
            return False
        return all(self.facts.prove_eq(x, y) for x, y in zip(a.shape, b.shape, strict=True))


def names_of(function: Function) -> set[str]:
    """Every value and symbol name of a function."""
    names = {p.name for p in function.params}.union(*(symbols_of(p.type) for p in function.params))
    for statement in function.body.statements:
        if isinstance(statement, Bind):
            names.add(statement.symbol)
        for target in targets_of(statement):
            names.add(target.name)
            if target.type is not None:
                names |= symbols_of(target.type)
    return names


def unique(name: str, taken: set[str]) -> str:
    """`name`, or with a number when it is taken; `taken` grows by it."""
    chosen, count = name, 1
    while chosen in taken:
        chosen = f"{name}_{count}"
        count += 1
    taken.add(chosen)
    return chosen


def with_body(function: Function, statements: Iterable[Statement], results: Iterable[Operand]) -> Function:
    return replace(function, body=Block(tuple(statements), tuple(results), function.body.span))
