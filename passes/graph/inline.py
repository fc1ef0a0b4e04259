"""Calls of functions replaced by the functions' bodies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from ...ir.calls import callees_first, calls
from ...ir.diagnostics import error
from ...ir.dims import Dim, DimLike
from ...ir.graph import (
    Assign,
    Bind,
    CallFunction,
    Function,
    Module,
    Operand,
    Statement,
    Target,
    Update,
    Var,
    targets_of,
)
from ...ir.infer_bind import callee_sizes
from ...ir.infer_call import call_binding, weight_symbols
from ...ir.infer_scope import Callees, symbols_of
from ...ir.subs import map_operand, map_operands, map_targets, subs_statement
from .walk import Walk, names_of, unique, with_body

MAX_GROWTH = 50_000


@dataclass(frozen=True)
class Inline:
    """Inlines every call.  Functions stay in the module: each is an entry of its own.

    Values of the callee are renamed, its symbols replaced by the sizes of the operands; its facts were proven at the
    call.  An `update` in it becomes one of the caller's parameter.
    """

    name: ClassVar[str] = "inline"

    def run(self, module: Module) -> Module:
        order, _ = callees_first(module)
        _check_growth(module, order)
        done: dict[str, Function] = {}
        callees = Callees()
        for function in order:
            called = any(isinstance(s, CallFunction) for s in function.body.statements)
            done[function.name] = _Inliner(module, function, done, callees).run() if called else function
        return replace(module, functions=tuple(done[f.name] for f in module.functions))


def _check_growth(module: Module, order: list[Function]) -> None:
    """Refuses a module that calls would make too large; functions that call twice what calls twice double each time."""
    sizes: dict[str, int] = {}
    total, written = 0, sum(len(f.body.statements) for f in order)
    for function in order:
        called = list(calls(function.body))
        sizes[function.name] = len(function.body.statements) + sum(sizes[c.function] for c in called)
        total += sizes[function.name] if called else 0
        if total > MAX_GROWTH + written:
            message = f"calls are compiled in place, and that makes more than {MAX_GROWTH} statements of this module"
            note = f"`@{function.name}` alone has {sizes[function.name]} with those of the functions that it calls"
            help = "call fewer functions that call others: compile parts of the program on their own"
            raise error(message, called[-1].span, notes=(note,), helps=(help,))


class _Inliner:
    def __init__(self, module: Module, function: Function, done: dict[str, Function], callees: Callees) -> None:
        self.module = module
        self.function = function
        self.done = done
        self.callees = callees
        self.walk = Walk(module, function)
        self.taken = names_of(function) | weight_symbols(module)

    def run(self) -> Function:
        statements: list[Statement] = []
        for statement in self.function.body.statements:
            if isinstance(statement, CallFunction):
                for new in self._body(statement):
                    self.walk.enter(new)
                    statements.append(new)
            else:
                self.walk.enter(statement)
                statements.append(statement)
        return with_body(self.function, statements, self.function.body.results)

    def _body(self, call: CallFunction) -> Iterator[Statement]:
        callee = self.done[call.function]
        types = [self.walk.type_of(o) for o in call.operands]
        symbols: dict[str, DimLike] = dict(
            call_binding(self.module, callee, types, self.walk.facts, self.callees)
        )
        symbols |= callee_sizes(callee, call.operands, self.walk.host)
        operands: dict[str, Operand] = {p.name: o for p, o in zip(callee.params, call.operands, strict=True)}
        targets, rest = _named_results(callee, call)
        inherited = weight_symbols(self.module)

        def operand(o: Operand) -> Operand:
            return operands.get(o.name, o) if isinstance(o, Var) else o

        def target(t: Target) -> Target:
            kept = targets.get(t.name)
            name = kept.name if kept is not None else unique(f"{callee.name}_{t.name}".replace(".", "_"), self.taken)
            operands[t.name] = Var(name, t.span)
            return kept if kept is not None else replace(t, name=name)

        for statement in callee.body.statements:
            for t in targets_of(statement):
                assert t.type is not None, "infer before inline"
                for symbol in sorted(symbols_of(t.type) - symbols.keys() - inherited):
                    symbols[symbol] = Dim.of(unique(f"{callee.name}_{symbol}", self.taken))
            if isinstance(statement, Bind):
                own = unique(f"{callee.name}_{statement.symbol}", self.taken)
                symbols.setdefault(statement.symbol, Dim.of(own))
                statement = replace(statement, symbol=own)
            new = map_operands(subs_statement(statement, symbols), operand)
            new = map_targets(new, target)
            yield replace(new, param=_var(operands[new.param])) if isinstance(new, Update) else new
        for t, result in rest:
            yield Assign(t, map_operand(_subs_operand(result, symbols), operand), call.span)


def _subs_operand(operand: Operand, symbols: dict[str, DimLike]) -> Operand:
    wrapped = subs_statement(Assign(Target("_"), operand), symbols)
    assert isinstance(wrapped, Assign)
    return wrapped.operand


def _named_results(callee: Function, call: CallFunction) -> tuple[dict[str, Target], list[tuple[Target, Operand]]]:
    """Which values of the callee become targets of the call directly, and the targets that are assigned at the end."""
    defined = {t.name for s in callee.body.statements for t in targets_of(s)}
    direct: dict[str, Target] = {}
    rest: list[tuple[Target, Operand]] = []
    for target, result in zip(call.targets, callee.body.results, strict=True):
        if isinstance(result, Var) and result.name in defined and result.name not in direct:
            direct[result.name] = target
        else:
            rest.append((target, result))
    return direct, rest


def _var(operand: Operand) -> str:
    assert isinstance(operand, Var), "an inout parameter is given a parameter"
    return operand.name
