"""The values of size expressions in messages: integers with `+ - * // %`, `min` and `max`."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

_SIZE = re.compile(r"[A-Za-z_][\w.]*(?!\s*\()\b")
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[[list[int]], int]] = {"min": min, "max": max}


def size_of(text: str, sizes: Mapping[str, int]) -> int | None:
    """The value of an expression over `sizes`; None where it is not one, or has none (a division by zero)."""
    try:
        # Names become numbers before Python reads the text: they may be words of its own.
        numbers = _SIZE.sub(lambda name: f"({sizes[name[0]]})", text.strip())
        return _value(ast.parse(numbers, mode="eval").body)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError):
        return None


def _value(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as args, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name]([_value(a) for a in args])
    raise ValueError
