"""A call that was written as it would be elsewhere, as it is written here: what the help of a refusal says.

What is suggested was built from the user's own operands and has been accepted by the operator's attributes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Union, get_args, get_origin

from .build_values import attribute_hints
from .diagnostics import CompileError, Diagnostic
from .dims import Dim
from .op import Op
from .parser_attributes import make_op
from .parser_foreign import (
    ATTRIBUTES,
    AXIS_SECOND,
    DTYPES,
    IDLE,
    MODULES,
    NOTHING,
    OPERANDS,
    POSITIONAL,
    RANDOM,
    RENAMED,
    SPELT,
    SPREAD,
    USAGE,
    VALUES,
    WRITTEN,
)
from .parser_text import render
from .parser_tree import Node, Token, token_span
from .parser_values import Scope, nearest, to_operand
from .registry import registry
from .types import DType


@dataclass
class _Call:
    operands: list[Node | None] = field(default_factory=list)
    keywords: dict[str, Node] = field(default_factory=dict)
    reason: str = ""


DATA_DEPENDENT = frozenset(["nonzero", "unique", "masked_select"])
"""Operators of the language whose result size depends on data: refused until sizes can be bound to values."""


def unknown_operator(name: Token, args: Sequence[Node], scope: Scope) -> CompileError:
    """The refusal of an operator that there is not, with how it is written here."""
    if str(name) in DATA_DEPENDENT:
        return scope.fail(f"`{name}` is not there yet: it comes in a later version", name)
    return scope.fail(f"there is no operator `{name}`", name, helps=operator_help(str(name), args, scope))


def misplaced(name: Token, args: Sequence[Node], problems: Sequence[CompileError], scope: Scope) -> CompileError | None:
    """One refusal in the place of `problems`, with the whole call as it is written here; None when it is not plain."""
    call = rewritten(str(name), args, scope)
    first = next((d for p in problems for d in p.diagnostics), None)
    if call is None or not (call[1] or first):
        usage = USAGE.get(str(name))
        if usage is None or (first is None and call is not None):
            return None
        takes = ", ".join(registry()[str(name)].signature)
        message = first.message if first is not None else f"`{name}` takes ({takes}) and attributes by name"
        span = first.span if first is not None else token_span(name, scope.file)
        return CompileError((Diagnostic(message, span, helps=(f"write {usage}",)),))
    text, reason = call
    span = first.span if first is not None else token_span(name, scope.file)
    message = reason or (first.message if first is not None else "")
    return CompileError((Diagnostic(message, span, helps=(f"write `{text}`",)),))


def operator_help(name: str, args: Sequence[Node], scope: Scope) -> tuple[str, ...]:
    """Helps for a call of an operator that there is not."""
    base, given = _based(name, args, scope)
    for known in dict.fromkeys((base, base.rstrip("_"), base.lower(), base.lower().replace("_", ""))):
        if known in NOTHING:
            return (f"leave it out: use `{render(given[0])}` itself",) if given else ("leave it out",)
        if known in RANDOM:
            return ("random numbers are made outside: give them as a parameter",)
        if known in WRITTEN:
            return (f"write {_filled(known, given)}",)
        own = known if known in registry() else RENAMED.get(known)
        if own in registry():
            call = rewritten(own, given, scope)
            usage = f"write {USAGE[own]}" if own in USAGE else f"it is called `{own}` here: `pliant ops {own}`"
            return (f"write `{call[0]}`" if call else usage,)
    return nearest(name, registry()) or ("`pliant ops` lists the operators",)


def _based(name: str, args: Sequence[Node], scope: Scope) -> tuple[str, list[Node]]:
    """The name without its module, and the arguments with the value whose method is called before them."""
    head, _, base = name.rpartition(".")
    if head in scope.values:
        at: Any = args[0].first if args else _Name(head)
        return base, [Node("name", head, at, at), *args]
    return (base if head.split(".")[0] in MODULES else name), list(args)


def _filled(name: str, given: Sequence[Node]) -> str:
    """The text of WRITTEN with the operands of the call."""
    text, *otherwise = WRITTEN[name]
    plain = [DTYPES.get(t := render(n), t) for n in _flat(given) if n.kind != "keyword"]
    words = plain if len(plain) >= len(otherwise) else plain[:1] + otherwise[1:] if plain else otherwise
    return re.sub(r"\b(\d+) \+ (\d+)\b", lambda m: str(int(m[1]) + int(m[2])), text.format(*words))


def _flat(given: Sequence[Node]) -> list[Node]:
    out: list[Node] = []
    for node in given:
        out.extend(node.value if node.kind in ("array", "tuple") else [node])
    return out


def rewritten(name: str, args: Sequence[Node], scope: Scope) -> tuple[str, str] | None:
    """The call as it is written here, and what was wrong about it; None when it is not plain what was meant."""
    if name == "transpose" and any(map(_permutes, args)):
        name = "permute"
    cls = registry()[name]
    call = _arranged(cls, args, scope)
    if call is None:
        return None
    if name in ("max", "min") and len(call.operands) == 2:
        name, cls = name + "imum", registry()[name + "imum"]
    if name in ("concat", "stack") and args:
        call.keywords.setdefault("axis", Node("integer", "0", args[0].first, args[0].last))
    if not _accepted(name, cls, call, scope):
        return None
    parts = ["none" if node is None else render(node) for node in call.operands]
    parts += [f"{key}={render(node)}" for key, node in call.keywords.items()]
    return f"{name}({', '.join(parts)})", call.reason


def _permutes(node: Node) -> bool:
    """An argument of numpy's and ONNX's transpose, which takes all axes in their new order."""
    named = node.kind == "keyword" and str(node.value[0]) in ("perm", "permutation", "axes", "dims")
    return named or (_is_list(node) and len(node.value) > 2)


def _accepted(name: str, cls: type[Op], call: _Call, scope: Scope) -> bool:
    """Would the call, as it is now, be taken?"""
    signature = cls.signature
    variadic = bool(signature) and signature[-1].endswith("*")
    needed = sum(1 for s in signature if not s.endswith(("?", "*")))
    count = len(call.operands)
    if count < needed or (count > len(signature) and not variadic):
        return False
    try:
        for node in call.operands:
            if node is not None:
                to_operand(node, scope)
    except CompileError:
        return False
    keywords = [Node("keyword", (key, node), node.first, node.last) for key, node in call.keywords.items()]
    token: Any = _Name(name)
    try:
        make_op(token, keywords, scope)
    except CompileError:
        return False
    return True


class _Name(str):
    """An operator's name where a token is wanted; it stands nowhere."""

    line = column = end_line = end_column = 0


# ------------------------------------------------------------------------------------------- arranging


def _arranged(cls: type[Op], args: Sequence[Node], scope: Scope) -> _Call | None:
    """Operands and attributes told apart; None when an argument has no place."""
    call, rest = _Call(), list[Node]()
    names = {f.name for f in fields(cls)}
    if cls.name in AXIS_SECOND and len(args) > len(cls.signature) and args[1].kind in ("integer", "neg"):
        call.keywords["axis"], args = args[1], [args[0], *args[2:]]
        call.reason = f"the attributes of `{cls.name}` are given by name"
    for node in args:
        if node.kind == "keyword":
            if not _keyword(cls, names, node, call):
                return None
        elif _is_list(node) and cls.signature and cls.signature[-1].endswith("*") and _all_operands(node, scope):
            call.operands += node.value
            call.reason = call.reason or f"`{cls.name}` takes its operands one by one, not as a list"
        elif all(n.kind == "string" for n in rest) and _is_operand(cls, call, node, scope):
            call.operands.append(node)
        else:
            rest.append(node)
    if rest:
        pair = cls.name in ("max", "min") and len(rest) == 1 and rest[0].kind == "name" and not call.keywords
        if pair and rest[0].value not in scope.symbols:
            call.operands += rest
            call.reason = f"`{cls.name}` takes one operand, whose elements it reduces"
            return call
        call.reason = call.reason or f"the attributes of `{cls.name}` are given by name"
        if not _by_position(cls, rest, call):
            return None
    return call


def _is_list(node: Node) -> bool:
    return node.kind in ("array", "tuple")


def _all_operands(node: Node, scope: Scope) -> bool:
    return bool(node.value) and all(n.kind == "global" or _is_value(n, scope) for n in node.value)


def _is_value(node: Node, scope: Scope) -> bool:
    return node.kind == "name" and node.value not in scope.symbols and node.value not in SPELT


def _is_operand(cls: type[Op], call: _Call, node: Node, scope: Scope) -> bool:
    place = len(call.operands)
    variadic = bool(cls.signature) and cls.signature[-1].endswith("*")
    if _is_list(node) or node.kind in ("string", "dtype", "apply", "call"):
        return False
    if node.kind == "name" and node.value in DTYPES:
        return False
    if place >= len(cls.signature):
        return variadic and (node.kind == "global" or _is_value(node, scope))
    number = node.kind not in ("global", "name") or (node.kind == "name" and node.value in SPELT)
    if cls.signature[place].endswith("*") and number:
        return False
    needs = cls.name in POSITIONAL and bool(POSITIONAL[cls.name]) and cls.signature[place].endswith("?")
    return not (number and needs)


def _keyword(cls: type[Op], names: set[str], node: Node, call: _Call) -> bool:
    """Puts an argument that was given by name in its place; False when it has none."""
    key, value = str(node.value[0]), node.value[1]
    operands = [s.rstrip("?*") for s in cls.signature]
    place = operands.index(key) if key in operands else OPERANDS.get(key)
    if key not in names and place is not None and place < len(operands):
        call.operands += [None] * (place + 1 - len(call.operands))
        if call.operands[place] is not None:
            return False
        call.operands[place] = value
        call.reason = call.reason or f"the operands of `{cls.name}` are given by position"
        return True
    if key in IDLE and key not in names:
        call.reason = call.reason or f"`{cls.name}` has no attribute `{key}`"
        return True
    own = key
    if key not in names:
        call.reason = call.reason or f"`{cls.name}` has no attribute `{key}`"
        if key == "unbiased" and "correction" in names and value.kind in ("name", "constant"):
            own, value = "correction", Node("integer", "01"[value.value.lower() == "true"], value.first, value.last)
        else:
            own = next((a for a in ATTRIBUTES.get(key, ()) if a in names), "")
    if not own or own in call.keywords:
        return False
    call.keywords[own] = _value(value, attribute_hints(cls)[own])
    return True


def _by_position(cls: type[Op], rest: list[Node], call: _Call) -> bool:
    """Attributes that were given by position, in the order they have elsewhere."""
    order = POSITIONAL.get(cls.name, tuple(f.name for f in fields(cls)))
    if cls.name == "arange":
        order = ("stop",) if len(rest) == 1 else ("start", "stop", "step")
    free = [name for name in order if name not in call.keywords]
    if cls.name in SPREAD and free and len(rest) > 1 and not any(map(_is_list, rest)):
        rest = [Node("array", rest, rest[0].first, rest[-1].last)]
    if len(rest) > len(free):
        return False
    for name, node in zip(free, rest, strict=False):
        call.keywords[name] = _value(node, attribute_hints(cls)[name])
    return True


def _value(node: Node, hint: Any) -> Node:
    """A value in the spelling of the language."""
    kinds = {hint, *get_args(hint)} if get_origin(hint) is not Literal else {str}
    if get_origin(hint) is Union or len(kinds) > 1:
        kinds |= {inner for k in list(kinds) for inner in get_args(k)}
    text = node.value if node.kind in ("name", "constant", "dtype") else ""
    if text in SPELT:
        return Node("constant", SPELT[text], node.first, node.last)
    if get_origin(hint) is Literal and node.kind in ("string", "name"):
        word = str(node.value).strip('"')
        known = VALUES.get(word, word)
        return Node("string", f'"{known}"', node.first, node.last) if known in get_args(hint) else node
    if DType in kinds:
        word = str(node.value).strip('"').rpartition(".")[2] if node.kind in ("name", "string") else ""
        if word in DTYPES or word in {d.value for d in DType}:
            return Node("dtype", DTYPES.get(word, word), node.first, node.last)
    if bool in kinds and not kinds & {int, float, Dim} and node.kind == "integer" and node.value in ("0", "1"):
        return Node("constant", ("false", "true")[int(node.value)], node.first, node.last)
    return node
