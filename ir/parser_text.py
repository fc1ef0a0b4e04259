"""Expressions of the syntax tree in words and as text, for messages."""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import count, islice

from .parser_tree import Node

ARITHMETIC = frozenset({"add", "sub", "mul", "floordiv", "mod", "neg"})
DIM_WORDS = frozenset({"min", "max", "ceildiv"})
MOST_LEAVES = 16
"""Of an expression that a help writes anew."""


def leaves(node: Node) -> Iterable[Node]:
    """The names and numbers of an arithmetic expression, from left to right."""
    pending = [node]
    while pending:
        node = pending.pop()
        if node.kind == "neg":
            pending.append(node.value)
        elif node.kind in ARITHMETIC:
            pending.extend(reversed(node.value))
        elif node.kind == "apply" and str(node.value[0]) in DIM_WORDS:
            pending.extend(reversed(node.value[1]))
        else:
            yield node


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}


def render(node: Node, depth: int = 0) -> str:
    """An expression as text, for helps; what is nested too deeply is left out."""
    kind, value = node.kind, node.value
    if depth > MOST_LEAVES:
        return "..."

    def inner(part: Node) -> str:
        text = render(part, depth + 1)
        return f"({text})" if part.kind in _SIGNS and kind in ("neg", *_SIGNS) else text

    if kind == "neg":
        return f"-{inner(value)}"
    if kind in _SIGNS:
        return f"{inner(value[0])} {_SIGNS[kind]} {inner(value[1])}"
    if kind in ("apply", "call"):
        return f"{value[0]}({', '.join(map(inner, value[1]))})"
    if kind in ("array", "tuple"):
        return f"[{', '.join(map(inner, value))}]"
    if kind == "keyword":
        return f"{value[0]}={inner(value[1])}"
    if kind == "typed":
        return f"{value[0]}({inner(value[1])})"
    return f"{inner(value[0])}.{value[1]}" if kind == "field" else str(value)


def describe(node: Node) -> str:
    """An expression in a few words, for messages."""
    if node.kind in ("name", "integer", "floating", "constant", "dtype", "global"):
        return f"`{node.value}`"
    if node.kind == "string":
        return f"the string {node.value}"
    words = {"array": "a list", "tuple": "a tuple", "field": "a field", "typed": "a literal"}
    if node.kind in ("apply", "call"):
        return f"a call of `{node.value[0]}`"
    return words.get(node.kind, "an expression")


def op_help(node: Node, values: Container[str], symbols: Container[str]) -> tuple[str, ...]:
    """Arithmetic of values as calls: every intermediate value with a name."""
    if sum(1 for _ in islice(leaves(node), MOST_LEAVES + 1)) > MOST_LEAVES:
        return ("write an operator for each step and give its result a name: `t = add(x, y)`",)
    calls: list[str] = []

    def operand(part: Node) -> str:
        found = (
            leaf.kind in ("global", "floating") or (leaf.kind == "name" and leaf.value in values)
            for leaf in leaves(part)
        )
        if part.kind not in ARITHMETIC or not any(found) or (part.kind == "neg" and part.value.kind == "floating"):
            return render(part)
        parts = (part.value,) if part.kind == "neg" else part.value
        call = f"{part.kind}({', '.join(map(operand, parts))})"
        name = next(n for i in count() if (n := f"t{i or ''}") not in values and n not in symbols)
        calls.append(f"{name} = {call}" if not calls else f"{name}{len(calls)} = {call}")
        return calls[-1].partition(" =")[0]

    operand(node)
    *before, last = calls
    text = f"write `{last.partition('= ')[2]}`" + (f" after {' and '.join(f'`{c}`' for c in before)}" if before else "")
    comment = node.kind == "floordiv" and node.value[1].kind == "name" and node.value[1].value not in values
    return ("a comment starts with `#`",) if comment else (text,)
