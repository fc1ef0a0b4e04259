"""Attributes of an op: keyword arguments converted by the annotations of the op's dataclass fields."""

from __future__ import annotations

import types as python_types
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from typing import Any, Literal, Union, get_args, get_origin

from .build_values import attribute_hints
from .diagnostics import CompileError
from .dims import Dim
from .op import Op
from .parser_foreign import SPELT
from .parser_text import describe
from .parser_tree import Node, Token
from .parser_values import CONSTANTS, Poisoned, Scope, nearest, to_dim, to_float, to_string
from .registry import registry
from .types import DType


class _Mismatch(Exception):
    """The expression is not of the wanted kind."""


def make_op(name: Token, keywords: Sequence[Node], scope: Scope) -> Op:
    """The op of that name with its attributes; CompileError with everything that is wrong about it."""
    cls = registry()[str(name)]
    known = {f.name: f for f in fields(cls)}
    given: dict[str, object] = {}
    problems: list[CompileError] = []
    for node in keywords:
        key = str(node.value[0])
        try:
            if key in given:
                raise scope.fail(f"the attribute `{key}` is given twice", node)
            if key not in known:
                raise _unknown(cls, key, node, scope)
            given[key] = _attribute(cls, key, node.value[1], scope)
        except CompileError as problem:
            given.setdefault(key, None)
            problems.append(problem)
    missing = [f for f in known.values() if f.name not in given and _required(f)]
    if missing:
        needs = " and ".join(f"`{f.name}`" for f in missing)
        help = f"say it by name: `{name}(..., {missing[0].name}=...)`, {_words(attribute_hints(cls)[missing[0].name])}"
        problems.append(scope.fail(f"`{name}` needs the attribute {needs}", name, helps=(help,)))
    if problems:
        raise _joined(problems)
    try:
        return cls(**given)
    except ValueError as refusal:
        raise scope.fail(f"`{name}`: {refusal}", name) from None


def _joined(problems: list[CompileError]) -> CompileError:
    if all(isinstance(p, Poisoned) for p in problems):
        return Poisoned(())
    return CompileError(tuple(d for p in problems for d in p.diagnostics))


def _required(f: Field[Any]) -> bool:
    return f.default is MISSING and f.default_factory is MISSING


def _unknown(cls: type[Op], key: str, node: Node, scope: Scope) -> CompileError:
    names = [f.name for f in fields(cls)]
    if key in (s.rstrip("?*") for s in cls.signature):
        helps: tuple[str, ...] = (f"`{key}` is an operand: give it by position, ({', '.join(cls.signature)})",)
    else:
        listed = ", ".join(f"`{n}`" for n in names)
        helps = nearest(key, names) or ((f"it has {listed}" if names else "it has no attributes"),)
    return scope.fail(f"`{cls.name}` has no attribute `{key}`", node.value[0], helps=helps)


def _attribute(cls: type[Op], key: str, node: Node, scope: Scope) -> object:
    hint = attribute_hints(cls)[key]
    try:
        return _convert(node, hint, scope)
    except _Mismatch:
        message = f"the attribute `{key}` of `{cls.name}` takes {_words(hint)}, not {describe(node)}"
        raise scope.fail(message, node, helps=_value_help(key, node)) from None


_PADDINGS = {
    '"valid"': "without padding it is `padding=0`",
    '"same"': "say how many: (kernel size - 1) // 2 on both sides keeps the size at stride 1, "
    "which is `padding=1` for a kernel of 3",
}


def _value_help(key: str, node: Node) -> tuple[str, ...]:
    """How a value that is known elsewhere is written here."""
    if key == "padding" and node.kind == "string":
        helps = (_PADDINGS.get(str(node.value).lower(), ""),)
        return tuple(h for h in helps if h)
    word = str(node.value) if node.kind == "name" else ""
    return (f"write `{SPELT[word]}`",) if word in SPELT else ()


def _convert(node: Node, hint: Any, scope: Scope) -> object:
    origin = get_origin(hint)
    if origin in (Union, python_types.UnionType):
        return _any_of(node, get_args(hint), scope)
    if origin is tuple:
        return _tuple(node, get_args(hint), scope)
    if origin is Literal:
        bare = node.kind == "name" and node.value in get_args(hint)  # `mode=constant`
        value = node.value if bare else _scalar(node, type(get_args(hint)[0]), scope)
        if value not in get_args(hint):
            raise _Mismatch
        return value
    return _scalar(node, hint, scope)


def _any_of(node: Node, options: tuple[Any, ...], scope: Scope) -> object:
    # The narrow kinds first, so that 3 for `int | Dim` is an int whatever the order in the annotation.
    for option in sorted(options, key=lambda o: o in (float, Dim)):
        try:
            return _convert(node, option, scope)
        except _Mismatch:
            continue
    raise _Mismatch


def _tuple(node: Node, items: tuple[Any, ...], scope: Scope) -> tuple[object, ...]:
    if node.kind not in ("array", "tuple"):
        raise _Mismatch
    if len(items) == 2 and items[1] is ...:
        return tuple(_convert(item, items[0], scope) for item in node.value)
    if len(items) != len(node.value):
        raise _Mismatch
    return tuple(_convert(item, hint, scope) for item, hint in zip(node.value, items, strict=True))


def _scalar(node: Node, hint: Any, scope: Scope) -> object:
    if hint is type(None) or hint is None:
        if node.kind == "constant" and node.value == "none":
            return None
    elif hint is bool:
        if node.kind == "constant" and node.value in ("true", "false"):
            return node.value == "true"
    elif hint is str:
        if node.kind == "string":
            return to_string(node, scope)
    elif hint is DType:
        if node.kind == "dtype":
            return DType(node.value)
    elif hint is float:
        return _float(node, scope)
    elif hint in (int, Dim):
        return _whole(node, hint is Dim, scope)
    raise _Mismatch


def _whole(node: Node, symbolic: bool, scope: Scope) -> Dim | int:
    inner = node
    while inner.kind == "neg":
        inner = inner.value
    if inner.kind == "name" and inner.value in SPELT:
        raise _Mismatch
    if inner.kind in ("floating", "constant", "string", "array", "tuple", "dtype", "global", "typed", "field"):
        raise _Mismatch
    dim = to_dim(node, scope)
    if symbolic:
        return dim
    if not dim.is_const:
        raise _Mismatch
    return dim.value


def _float(node: Node, scope: Scope) -> float:
    if node.kind == "neg":
        return -_float(node.value, scope)
    if node.kind == "floating":
        return to_float(node, scope)
    if node.kind == "constant" and node.value in ("inf", "nan"):
        return CONSTANTS[node.value]
    if node.kind == "integer":
        whole = _whole(node, False, scope)
        assert isinstance(whole, int)
        return float(whole)
    raise _Mismatch


def _plural(words: str) -> str:
    """`a size or a whole number` -> `sizes or whole numbers`, `a list of 2 items` -> `lists of 2 items`."""
    singles = (word.removeprefix("an ").removeprefix("a ").partition(" of ") for word in words.split(" or "))
    return " or ".join(f"{noun}s{of}{rest}" for noun, of, rest in singles)


def _words(hint: Any) -> str:
    """What an attribute takes, for messages."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, python_types.UnionType):
        return " or ".join(dict.fromkeys(_words(a) for a in args))
    if origin is tuple:
        if len(args) == 2 and args[1] is ...:
            return f"a list of {_plural(_words(args[0]))}"
        return f"a list of {len(args)} items"
    if origin is Literal:
        return " or ".join(f'"{a}"' if isinstance(a, str) else str(a) for a in args)
    known = {int: "a whole number", float: "a number", bool: "`true` or `false`", str: "a string", Dim: "a size",
             DType: "an element type", type(None): "`none`"}  # fmt: skip
    return known.get(hint, "something else")
