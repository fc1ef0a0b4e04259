"""Types of a whole module: weights, then every function; recursion is refused."""

from __future__ import annotations

from dataclasses import replace

from .calls import callees_first
from .diagnostics import CompileError, Diagnostic
from .graph import Module
from .infer_function import FunctionInfer
from .infer_scope import module_scope


def infer_module_all(module: Module) -> tuple[Module | None, list[Diagnostic]]:
    """The module with all types, or None with every refusal."""
    scope = module_scope(module)
    problems = [*scope.problems, *callees_first(module)[1]]
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
