"""Who calls whom in a module.  All walks keep a stack of their own: chains of calls may be long."""

from __future__ import annotations

from collections.abc import Iterator

from .diagnostics import Diagnostic
from .graph import Block, CallFunction, Function, If, Module, Statement, While


def calls(block: Block) -> Iterator[CallFunction]:
    """Every call of a function in a block, inner blocks included, in order."""
    for statement in block.statements:
        if isinstance(statement, CallFunction):
            yield statement
        for inner in blocks_of(statement):
            yield from calls(inner)


def blocks_of(statement: Statement) -> tuple[Block, ...]:
    """The blocks inside a statement."""
    if isinstance(statement, If):
        return (statement.then, statement.otherwise)
    return (statement.condition, statement.body) if isinstance(statement, While) else ()


def callees_first(module: Module) -> tuple[list[Function], list[Diagnostic]]:
    """The functions, each after those that it calls, and a refusal for every call that closes a cycle."""
    functions = {f.name: f for f in module.functions}
    order: dict[str, Function] = {}
    problems: list[Diagnostic] = []
    for function in module.functions:
        if function.name in order:
            continue
        path = {function.name: calls(function.body)}
        while path:
            name = next(reversed(path))
            call = next(path[name], None)
            if call is None:
                order[name] = functions[name]
                del path[name]
            elif call.function in path:
                problems.append(_cycle(list(path), call))
            elif call.function not in order and call.function in functions:
                path[call.function] = calls(functions[call.function].body)
    return list(order.values()), problems


def _cycle(path: list[str], call: CallFunction) -> Diagnostic:
    names = [*path[path.index(call.function) :], call.function]
    note = "sizes and memory are planned before a program runs, so that no function may call itself"
    return Diagnostic(f"recursion: {' -> '.join(f'@{n}' for n in names)}", call.span, "", (note,))
