"""Types of a whole module: weights, then every function; recursion is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .diagnostics import CompileError, Diagnostic
from .graph import Block, CallFunction, Function, If, Module, Statement, While
from .infer_function import FunctionInfer
from .infer_scope import module_scope


def infer_module_all(module: Module) -> tuple[Module | None, list[Diagnostic]]:
    """The module with all types, or None with every refusal."""
    scope = module_scope(module)
    problems = [*scope.problems, *_recursion(module)]
    if not module.functions:
        problems.append(Diagnostic("the program has no function", helps=("write `func @main(..) -> .. { .. }`",)))
    if problems:
        return None, problems
    functions = []
    for function in module.functions:
        try:
            functions.append(FunctionInfer(module, function, scope).run())
        except CompileError as refusal:
            problems.extend(refusal.diagnostics)
    return (None if problems else replace(module, functions=tuple(functions))), problems


def infer_module(module: Module) -> Module:
    """The module with all types filled in and proven; CompileError with every refusal."""
    typed, problems = infer_module_all(module)
    if typed is None:
        raise CompileError(tuple(problems))
    return typed


def calls(block: Block) -> Iterator[CallFunction]:
    """Every call of a function in a block, inner blocks included."""
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


def _recursion(module: Module) -> list[Diagnostic]:
    """One refusal for every cycle of calls, at the call that closes it."""
    functions = {f.name: f for f in module.functions}
    done: set[str] = set()
    problems: list[Diagnostic] = []

    def visit(function: Function, path: list[str]) -> None:
        for call in calls(function.body):
            if call.function in path:
                cycle = " -> ".join(f"@{n}" for n in [*path[path.index(call.function) :], call.function])
                message = f"recursion: {cycle}"
                note = "sizes and memory are planned before a program runs, so that no function may call itself"
                problems.append(Diagnostic(message, call.span, "", (note,)))
            elif call.function not in done and call.function in functions:
                visit(functions[call.function], [*path, call.function])
        done.add(function.name)

    for function in module.functions:
        if function.name not in done:
            visit(function, [function.name])
    return problems
