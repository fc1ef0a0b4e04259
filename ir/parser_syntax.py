"""From text to a syntax tree, with several syntax errors per file.  The only file that knows lark.

After a syntax error the statement (or item) around it is replaced by blanks and the text is parsed again, so that every
place keeps its line and column and one mistake does not hide the next.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import lark
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from .diagnostics import Diagnostic, Span
from .parser_foreign import DTYPES
from .parser_habits import habit
from .parser_tree import TreeBuilder

MOST_ERRORS = 20

_NAME = r"[A-Za-z_][A-Za-z_0-9.]*"
_ITEM = re.compile(r"^[ \t]*(func|weight|const|kernel|host|program)\b", re.MULTILINE)
_ANCHOR = re.compile(
    rf"^[ \t]*({_NAME}(?:\s*,\s*{_NAME})*\s*(?:=(?!=)|:)"
    rf"|(?:update|bind|return|yield|func|weight|const)\b|@{_NAME}\s*\(|\}})",
    re.MULTILINE,
)
_VALUES = frozenset({"NAME", "INT", "FLOAT", "STRING", "DTYPE", "CONSTANT", "GLOBAL", "LPAR", "LSQB", "MINUS"})
_STATEMENTS = frozenset({"TARGET", "UPDATE", "BIND", "GLOBAL"})
_OPERATORS = frozenset({"PLUS", "MINUS", "STAR", "PERCENT", "FIELD", "DIVIDE"})
_WORDS = {
    "NAME": "a name",
    "TARGET": "a statement",
    "GLOBAL": "a name with `@`",
    "DTYPE": "an element type (`f32`, `i64`, ...)",
    "INT": "a whole number",
    "FLOAT": "a number",
    "STRING": "a string",
    "CONSTANT": "`true`",
    "END": "`return`",
    "QUOTED": "a quoted name",
    "CMP": "a comparison (`<=`, `==`, ...)",
    "FIELD": "a field",
    "$END": "the end of the file",
}


@dataclass
class Syntax:
    """What was parsed.  `tree` is None when nothing could be; `broken` are names that a dropped statement defines."""

    tree: Any
    diagnostics: list[Diagnostic] = field(default_factory=list)
    broken: frozenset[str] = frozenset()


GRAPH = "grammar.lark"
LOOPS = "grammar_loops.lark"
_STARTS = {GRAPH: ["module", "type", "where", "expr"], LOOPS: ["program"]}


@cache
def _grammar(file: str, tree: Any) -> lark.Lark:
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    return lark.Lark(
        text, parser="lalr", lexer="contextual", start=_STARTS[file], transformer=tree, maybe_placeholders=True
    )


_TREE = TreeBuilder()


def parse_syntax(text: str, file: str, start: str = "module", tree: Any = _TREE) -> Syntax:
    """The syntax tree of `text`; never raises for bad text."""
    grammar = _grammar(LOOPS if start == "program" else GRAPH, tree)
    diagnostics: list[Diagnostic] = []
    broken: set[str] = set()
    current = text
    while True:
        try:
            return Syntax(grammar.parse(current, start=start), diagnostics, frozenset(broken))
        except UnexpectedInput as problem:
            place, diagnostic = _describe(problem, current, file)
            diagnostics.append(diagnostic)
            region = _region(current, place, problem) if start == "module" else None
            if region is None or len(diagnostics) >= MOST_ERRORS or not current[slice(*region)].strip():
                return Syntax(None, diagnostics, frozenset(broken))
            removed = current[slice(*region)]
            broken.update(_defined(removed))
            current = current[: region[0]] + re.sub(r"[^\n]", " ", removed) + current[region[1] :]


def _defined(removed: str) -> set[str]:
    """Every name that the removed text may have defined."""
    names = set(re.findall(rf"({_NAME})\s*(?::|=(?!=)|,(?=[^()\[\]]*=))", removed))
    return names | set(re.findall(rf"@({_NAME})", removed))


# -- where to go on


def _region(text: str, place: int, problem: UnexpectedInput) -> tuple[int, int] | None:
    """The stretch to drop: the statement around `place`, or the whole item when its head is wrong."""
    anchors = [m.start() for m in _ANCHOR.finditer(text)]
    items = {m.start() for m in _ITEM.finditer(text)}
    index = bisect_right(anchors, place) - 1
    starts_line = place == _line_start(text, place) and isinstance(problem, UnexpectedToken)
    if index > 0 and starts_line and "TARGET" in _accepts(problem):
        # What stands before is finished: only this line's statement is wrong.
        return text.rfind("\n", 0, place) + 1, _next(anchors, index, len(text))
    if index > 0 and starts_line and not text[anchors[index] : place].strip():
        return _unfinished(text, place, anchors, index, items)
    if index < 0:
        return 0, anchors[0] if anchors else len(text)
    start = anchors[index]
    if start in items:
        return start, min((i for i in items if i > start), default=len(text))
    return start, _next(anchors, index, len(text))


def _unfinished(text: str, place: int, anchors: list[int], index: int, items: set[int]) -> tuple[int, int]:
    """The stretch to drop when a statement starts and what stands before it is not finished."""
    before, stop = anchors[index - 1], anchors[index]
    if stop in items:
        return max((i for i in items if i < stop), default=0), stop
    if text[stop:].lstrip().startswith("}"):
        return _line(text, place) if before in items else (before, stop)
    return (stop, _next(anchors, index, len(text))) if before in items else (before, stop)


def _accepts(problem: UnexpectedInput) -> set[str]:
    return set(problem.accepts or problem.expected) if isinstance(problem, UnexpectedToken) else set()


def _next(anchors: list[int], index: int, end: int) -> int:
    return anchors[index + 1] if index + 1 < len(anchors) else end


def _line(text: str, place: int) -> tuple[int, int]:
    end = text.find("\n", place)
    return text.rfind("\n", 0, place) + 1, end if end >= 0 else len(text)


# -- what to say


def _describe(problem: UnexpectedInput, text: str, file: str) -> tuple[int, Diagnostic]:
    if isinstance(problem, UnexpectedCharacters):
        place: Any = problem.pos_in_stream
        span = Span(file, problem.line, problem.column, problem.line, problem.column + 1)
        character = text[place]
        helps: tuple[str, ...]
        if character == '"':
            return place, Diagnostic("this string does not end", span, helps=('a string ends on its line, with `"`',))
        helps = ("a number has digits after its point: `1.0`",) if re.search(r"\d\.$", text[: place + 1]) else ()
        helps = helps or tuple(h for h in (habit(text, place),) if h)
        return place, Diagnostic(f"unexpected character `{character}`", span, helps=helps)
    assert isinstance(problem, UnexpectedToken)
    token = problem.token
    accepts = _accepts(problem)
    words = _expected(accepts)
    if token.type == "$END":
        line, column = _position(text, len(text.rstrip()))
        span = Span(file, line, column, line, column + 1)
        return len(text), Diagnostic(f"the file ends where {words} was expected", span, "expected here")
    place = token.start_pos if token.start_pos is not None else 0
    span = Span(file, token.line or 1, token.column or 1, token.end_line or 1, token.end_column or 1)
    known = habit(text, place)
    helps = (known,) if known else tuple(_helps(str(token), token.type, accepts, text[place + len(token) :]))
    unfinished = accepts.isdisjoint({"TARGET", "FUNC"}) and place == _line_start(text, place)
    label = "what stands before is not finished" if unfinished else ""
    return place, Diagnostic(f"expected {words}, found `{token}`", span, label, helps=helps)


def _line_start(text: str, place: int) -> int:
    """Where the first thing on the line of `place` stands."""
    begin = text.rfind("\n", 0, place) + 1
    return begin + len(text[begin:]) - len(text[begin:].lstrip(" \t")) if begin else -1


def _position(text: str, place: int) -> tuple[int, int]:
    return text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)


def _expected(accepts: set[str]) -> str:
    """The expected terminals in words, the most telling first."""
    words: list[str] = []
    if "TARGET" in accepts:
        words.append("a statement")
        accepts = accepts - _STATEMENTS
    if {"NAME", "INT", "LPAR"} <= accepts:
        words.append("a value")
        accepts = accepts - _VALUES
    elif {"DTYPE", "LPAR"} <= accepts:
        words.append("a type")
        accepts = accepts - {"DTYPE", "LPAR"}
    if {"FUNC", "WEIGHT"} <= accepts:
        words.append("`func`, `weight` or `const`")
        accepts = accepts - {"FUNC", "WEIGHT", "CONST", "$END"}
    quoted = {name: _WORDS.get(name) or _literal(name) for name in accepts}
    plain = [w for name, w in sorted(quoted.items(), key=lambda t: t[1]) if not _is_operator(name)]
    # `(` and `=` would make something else of the name before: said only where nothing else could stand.
    words += [w for w in plain if w not in ("`(`", "`=`")] or plain or sorted(quoted.values())
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _is_operator(name: str) -> bool:
    return name in _OPERATORS


@cache
def _literals() -> dict[str, str]:
    terminals = [*_grammar(LOOPS, None).terminals, *_grammar(GRAPH, _TREE).terminals]
    return {t.name: f"`{t.pattern.value}`" for t in terminals if t.pattern.type == "str"}


def _literal(name: str) -> str:
    return _literals().get(name, name.lower())


def _helps(token: str, kind: str, accepts: set[str], rest: str) -> list[str]:
    if "DTYPE" in accepts and token in DTYPES:
        return [f"this element type is called `{DTYPES[token]}`"]
    if "CMP" in accepts and token == "=":
        return ["an equality is written `==`"]
    if "TARGET" in accepts and rest.lstrip().startswith("(") and kind in ("NAME", "TARGET"):
        return [f"give the result a name: `y = {token}(...)`"]
    if {"FUNC", "WEIGHT"} <= accepts and "TARGET" not in accepts and re.match(r"[A-Za-z_]", token):
        return ["statements stand in a function: `func @main(x: f32[n]) -> f32[n] { ... }`"]
    return []
