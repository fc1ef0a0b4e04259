"""Values that nobody reads: nothing is wrong with them, and most often something is forgotten."""

from __future__ import annotations

from collections.abc import Iterator

from .calls import blocks_of
from .diagnostics import Diagnostic
from .graph import (
    Apply,
    Block,
    CallFunction,
    Function,
    GlobalRef,
    MatchCast,
    Module,
    Operand,
    Statement,
    TupleValue,
    Var,
    operands_of,
    targets_of,
)
from .ops.check import Checked


def unused(module: Module) -> list[Diagnostic]:
    """A warning for each statement none of whose results is read, and for each weight and constant.

    What a statement does besides counts as use: updates, checks, symbols that it binds. Names that begin with `_` are
    meant to be unused.
    """
    found = [d for f in module.functions for d in _of_function(module, f)]
    read = {o.name for f in module.functions for o in _operands(f.body) if isinstance(o, GlobalRef)}
    for const in module.consts:
        if const.name not in read and not const.name.startswith("_"):
            found.append(Diagnostic(f"@{const.name} is not used", const.span, severity="warning"))
    for weight in module.weights:
        # A weight with symbols may be there for its sizes alone.
        plain = not any(d.symbols for d in weight.type.dims)
        if plain and weight.name not in read and not weight.name.startswith("_"):
            found.append(Diagnostic(f"@{weight.name} is not used", weight.span, severity="warning"))
    return found


def _of_function(module: Module, function: Function) -> Iterator[Diagnostic]:
    read = {o.name for o in _operands(function.body) if isinstance(o, Var)}
    for statement in _statements(function.body):
        names = [t.name for t in targets_of(statement)]
        if not names or _does_more(module, statement) or any(n in read or n.startswith("_") for n in names):
            continue
        listed = " and ".join(f"`{n}`" for n in names)
        target = targets_of(statement)[0]
        verb = "is" if len(names) == 1 else "are"
        yield Diagnostic(
            f"{listed} {verb} not used",
            target.span or statement.span,
            helps=(f"leave the statement out, or call it `_{names[0]}`",),
            severity="warning",
        )


def _does_more(module: Module, statement: Statement) -> bool:
    """Whether it is of use without its results."""
    if isinstance(statement, CallFunction):
        return any(p.inout for p in module.function(statement.function).params)
    if isinstance(statement, Apply):
        return isinstance(statement.op, Checked)
    return isinstance(statement, MatchCast) or bool(blocks_of(statement))


def _statements(block: Block) -> Iterator[Statement]:
    for statement in block.statements:
        yield statement
        for inner in blocks_of(statement):
            yield from _statements(inner)


def _operands(block: Block) -> Iterator[Operand]:
    """Every operand of a block, inner blocks included, items of tuples as well."""
    pending: list[Operand] = list(block.results)
    for statement in block.statements:
        pending.extend(operands_of(statement))
        for inner in blocks_of(statement):
            pending.extend(_operands(inner))
    while pending:
        operand = pending.pop()
        yield operand
        if isinstance(operand, TupleValue):
            pending.extend(operand.items)
