"""Graph to text: the inverse of the parser, `parse_module(print_module(m)) == m` for every module.

The layout is canonical: one statement a line, four spaces, `where` and `likely` on lines of their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields

from .dims import Dim
from .facts import Fact
from .graph import (
    Apply,
    Assign,
    Bind,
    Block,
    CallFunction,
    Const,
    DimValue,
    Field,
    Function,
    GlobalRef,
    If,
    Literal,
    MatchCast,
    Module,
    NoneValue,
    Operand,
    Statement,
    Target,
    TupleValue,
    Update,
    Var,
    Weight,
    targets_of,
)
from .op import Op
from .types import DType

INDENT = "    "


def print_module(module: Module, types: bool = True) -> str:
    """The text of a module.  Without `types`, those that `infer` finds again are left out."""
    if not types:
        from .strip import strip_types

        module = strip_types(module)
    heads = [print_weight(w) for w in module.weights] + [print_const(c) for c in module.consts]
    parts = (["\n".join(heads)] if heads else []) + [print_function(f) for f in module.functions]
    return "\n\n".join(parts) + "\n" if parts else ""


def print_function(function: Function) -> str:
    """The text of one function."""
    return "\n".join([*print_head(function), *_block(function.body, "return", INDENT), "}"])


def print_head(function: Function) -> list[str]:
    """The lines of a function up to its opening brace."""
    params = ", ".join(f"{'inout ' if p.inout else ''}{p.name}: {p.type}" for p in function.params)
    results = f" -> {', '.join(map(str, function.results))}" if function.results else ""
    head = f"func @{function.name}({params}){results}"
    clauses = [f"where {print_facts(function.facts)}"] if function.facts else []
    clauses += [f"likely {x.symbol} = {', '.join(map(str, x.values))}" for x in function.likely]
    return [head, *(INDENT + c for c in clauses), "{"] if clauses else [head + " {"]


def print_results(body: Block) -> list[str]:
    """The `return` line; none when nothing is returned."""
    return [f"{INDENT}return {_operands(body.results)}"] if body.results else []


def print_weight(weight: Weight) -> str:
    where = f" where {print_facts(weight.facts)}" if weight.facts else ""
    return f"weight @{weight.name}: {weight.type}{where}"


def print_const(const: Const) -> str:
    return f"const @{const.name}: {const.type} = {print_value(const.value)}"


def print_facts(facts: Iterable[Fact]) -> str:
    """The facts of a `where` clause, without that word."""
    return ", ".join(map(str, facts))


# ---------------------------------------------------------------------------------------------- statements


def _block(block: Block, end: str, indent: str) -> Iterator[str]:
    for statement in block.statements:
        yield from print_statement(statement, indent)
    if block.results:
        yield f"{indent}{end} {_operands(block.results)}"


def print_statement(statement: Statement, indent: str = "") -> list[str]:
    """The lines of one statement."""
    if isinstance(statement, Update):
        return [f"{indent}update {statement.param} = {print_operand(statement.operand)}"]
    if isinstance(statement, Bind):
        return [f"{indent}bind {statement.symbol} = {print_operand(statement.operand)}{_where(statement.facts)}"]
    targets = ", ".join(map(_target, targets_of(statement)))
    left = f"{indent}{targets} = " if targets else indent
    if isinstance(statement, Apply):
        return [left + print_apply(statement.op, statement.operands)]
    if isinstance(statement, CallFunction):
        return [f"{left}@{statement.function}({_operands(statement.operands)})"]
    if isinstance(statement, MatchCast):
        return [f"{left}match_cast({print_operand(statement.operand)}){_where(statement.facts)}"]
    if isinstance(statement, Field):
        return [f"{left}{print_operand(statement.operand)}.{statement.index}"]
    if isinstance(statement, Assign):
        return [left + print_operand(statement.operand)]
    inner = indent + INDENT
    if isinstance(statement, If):
        then, otherwise = _block(statement.then, "yield", inner), _block(statement.otherwise, "yield", inner)
        head = f"{left}if {print_operand(statement.condition)} {{"
        return [head, *then, f"{indent}}} else {{", *otherwise, f"{indent}}}"]
    inits = ", ".join(f"{name} = {print_operand(value)}" for name, value in statement.inits)
    condition, body = _block(statement.condition, "yield", inner), _block(statement.body, "yield", inner)
    return [f"{left}while ({inits}) {{", *condition, f"{indent}}} do {{", *body, f"{indent}}}"]


def _where(facts: tuple[Fact, ...]) -> str:
    return f" where {print_facts(facts)}" if facts else ""


def _target(target: Target) -> str:
    return target.name if target.type is None else f"{target.name}: {target.type}"


def print_apply(op: Op, operands: Iterable[Operand]) -> str:
    """An op call: operands, then the attributes that differ from their defaults."""
    given = [print_operand(o) for o in operands]
    return f"{op.name}({', '.join(given + list(_attributes(op)))})"


def _attributes(op: Op) -> Iterator[str]:
    for f in fields(op):
        value = getattr(op, f.name)
        default = f.default_factory() if callable(f.default_factory) else f.default
        # By text as well: 0 == False == 0.0 == -0.0, and nan is not equal to itself.
        if default is MISSING or print_value(value) != print_value(default):
            yield f"{f.name}={print_value(value)}"


# --------------------------------------------------------------------------------------- operands and values


def _operands(operands: Iterable[Operand]) -> str:
    return ", ".join(map(print_operand, operands))


def print_operand(operand: Operand) -> str:
    """An operand; a literal whose dtype is known says it: `f32(1.0)`."""
    if isinstance(operand, Var):
        return operand.name
    if isinstance(operand, GlobalRef):
        return f"@{operand.name}"
    if isinstance(operand, Literal):
        text = print_value(operand.value)
        return text if operand.dtype is None else f"{operand.dtype}({text})"
    if isinstance(operand, DimValue):
        return str(operand.dim) if operand.dtype is None else f"{operand.dtype}({operand.dim})"
    if isinstance(operand, NoneValue):
        return "none"
    assert isinstance(operand, TupleValue)
    inner = _operands(operand.items)
    return f"({inner},)" if len(operand.items) == 1 else f"({inner})"


def print_value(value: object) -> str:
    """An attribute or a constant's value."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Dim, DType)):
        return str(value)
    if isinstance(value, float):
        return print_float(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(print_value, value))}]"
    raise TypeError(f"{value!r} has no text")


def print_float(value: float) -> str:
    """The shortest text that reads back as the same number; `inf`, `-inf`, `nan`."""
    if math.isnan(value):
        return "nan"
    return repr(float(value))
