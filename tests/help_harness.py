"""Does what a diagnostic's helps say, to the text of the program: every way out that a help names is one program.

say `where n == m`                       the fact is added to the function's head
write `f(x, t)` after `t = g(y)`         the right-hand side is replaced, after other statements
write `z = f(x)`                         the statement is replaced
convert it: `cast(x, dtype=f32)`         the operand is replaced by the call's result
write 0 or 1                             `true` and `false` are replaced
did you mean `f`?                        what the diagnostic points at is replaced
write the result's type as `f32[n]`      the result types are replaced (of functions with one)
"""

from __future__ import annotations

import re

from pliant.ir.diagnostics import Diagnostic

_CODE = re.compile(r"`([^`]*)`")
_OPERAND = re.compile(r"(?:convert (?:it|one of them)|compare it): `(\w+)\((@?\w+), ([^`]*)\)`")


def programs(text: str, said: Diagnostic) -> list[str]:
    """The program after each way out; empty where the helps name no code that could be pasted."""
    ways = [way for help in said.helps for way in re.split(r", or (?=say|write|`)", help)]
    return [made for way in ways for made in _after(text, said, way)]


def _after(text: str, said: Diagnostic, way: str) -> list[str]:
    codes = _CODE.findall(way)
    facts = [c.removeprefix("where ") for c in codes if c.startswith("where ")]
    if facts:
        return [with_fact(text, said, fact) for fact in facts]
    if said.span is None:
        return []
    line = said.span.line - 1
    if way == "write 0 or 1":
        lines = text.split("\n")
        lines[line] = re.sub(r"\b(true|false)\b", lambda m: str(int(m[0] == "true")), lines[line])
        return ["\n".join(lines)]
    if not codes:
        return []
    found = _OPERAND.search(way)
    if found:
        return [_named(text, line, found)]
    if way.startswith("did you mean"):
        lines = text.split("\n")
        lines[line] = lines[line][: said.span.column - 1] + codes[0] + lines[line][said.span.end_column - 1 :]
        return ["\n".join(lines)]
    if "the result's type as" in way:
        head = re.compile(rf"(->[^{{]*){re.escape(said.message.rpartition(', not ')[2])}")
        return [head.sub(lambda m: m[1] + codes[0], text, count=1)]
    if re.match(r"(write )?`", way) and re.match(r"(\w+ = )?[\w.]+\(", codes[0]):
        return [_replaced(text, line, codes[0], codes[1:] if " after " in way else [])]
    return []


def with_fact(text: str, said: Diagnostic, fact: str) -> str:
    """The fact in the `where` of the function around the diagnostic's place."""
    at = len("\n".join(text.split("\n")[: said.span.line])) if said.span else len(text)
    heads = list(re.finditer(r"func\s+@[^{]*", text))
    head = [h for h in heads if h.start() <= at][-1]
    clause = re.search(r"\bwhere\s", head[0])
    likely = re.search(r"\blikely\b", head[0])
    if clause:
        place, added = head.start() + clause.end(), f"{fact}, "
    else:
        place, added = head.start() + (likely.start() if likely else len(head[0].rstrip())), f" where {fact} "
    return text[:place] + added + text[place:]


def _named(text: str, line: int, found: re.Match[str]) -> str:
    """`y = op(x, z)` as `fresh = cast(z, ..)` and `y = op(x, fresh)`."""
    op, name, rest = found.groups()
    fresh = f"fresh{text.count('fresh')}"
    lines = text.split("\n")
    left, _, call = lines[line].partition("=")
    head, _, args = call.partition("(")
    changed = re.sub(rf"(?<![\w@.]){re.escape(name)}(?![\w=])", fresh, args, count=1)
    lines[line] = f"{fresh} = {op}({name}, {rest})\n{left}={head}({changed}"
    return "\n".join(lines)


def _replaced(text: str, line: int, call: str, before: list[str]) -> str:
    lines = text.split("\n")
    left = lines[line].partition("=")[0].rstrip(" :+-*/")
    new = call if re.match(r"\w+ = ", call) else f"{left} = {call}"
    lines[line] = "\n".join([*reversed(before), new] if not _in_order(before) else [*before, new])
    return "\n".join(lines)


def _in_order(before: list[str]) -> bool:
    """Is no statement's name used by one before it?"""
    return not any(
        re.search(rf"\b{re.escape(later.partition(' =')[0])}\b", first.partition("= ")[2])
        for i, first in enumerate(before)
        for later in before[i + 1 :]
    )
