"""Canonical text that keeps what the graph does not hold: comments, and blank lines between statements.

A comment on a line of its own stands before the statement (or item) that follows it; one at the end of a line stays
with the statement of that line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .graph import Function, Module, Statement, targets_of
from .infer_module import infer_module
from .parser import parse_module
from .printer import INDENT, print_const, print_head, print_results, print_statement, print_weight

_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|(#[^\n]*)')
_BRACE = re.compile(r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|(\})')


@dataclass
class _Unit:
    """Lines that are printed together: an item, the head of a function, a statement, a closing brace.

    `line` is where it starts in the source; `before` and `behind` are the comments that belong to it.
    """

    line: int
    lines: list[str]
    kind: str
    indent: str = ""
    before: list[tuple[int, str]] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)


def format_text(text: str, filename: str = "<text>", types: bool = False) -> str:
    """The text in canonical layout; with `types`, all types written.  CompileError when it does not parse (or type)."""
    module = parse_module(text, filename)
    return _layout(infer_module(module) if types else module, text)


def _layout(module: Module, text: str) -> str:
    units = list(_units(module, text))
    tail = _attach(units, text)
    source = text.split("\n")
    out: list[str] = []
    for unit in units:
        out.extend(_print(unit, source, first=not out, after_head=bool(out) and out[-1].endswith("{")))
    out.extend(comment for _, comment in _spaced(tail, source, first=not out))
    return "\n".join(out) + "\n" if out else ""


def _units(module: Module, text: str) -> Iterator[_Unit]:
    for w in module.weights:
        yield _Unit(w.span.line if w.span else 0, [print_weight(w)], "item")
    for c in module.consts:
        yield _Unit(c.span.line if c.span else 0, [print_const(c)], "item")
    starts = sorted(x.span.line for group in (module.weights, module.consts, module.functions) for x in group if x.span)
    for f in module.functions:
        yield from _function(f, starts, text)


def _function(function: Function, starts: list[int], text: str) -> Iterator[_Unit]:
    assert function.span is not None, "parsed"
    start = function.span.line
    yield _Unit(start, print_head(function), "function")
    for statement in function.body.statements:
        yield _Unit(_line(statement), print_statement(statement, INDENT), "statement", INDENT)
    if function.body.results:
        assert function.body.span is not None, "parsed"
        yield _Unit(function.body.span.line, print_results(function.body), "statement", INDENT)
    yield _Unit(_closing(text, start, next((s for s in starts if s > start), None)), ["}"], "end", INDENT)


def _line(statement: Statement) -> int:
    span = next((t.span for t in targets_of(statement) if t.span is not None), statement.span)
    assert span is not None, "parsed"
    return span.line


def _closing(text: str, start: int, stop: int | None) -> int:
    """The line of the brace that ends the function between these lines."""
    lines = text.split("\n")[start - 1 : None if stop is None else stop]
    braces = [number for number, line in enumerate(lines) for m in _BRACE.finditer(line) if m[1]]
    # A function that starts on the line where this one ends leaves its own braces after it.
    return start + (braces[-1] if braces else 0)


def _attach(units: list[_Unit], text: str) -> list[tuple[int, str]]:
    """Gives every comment to its unit; returns those after the last."""
    ordered = sorted(units, key=lambda u: u.line)
    tail: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        comment = next((m for m in _COMMENT.finditer(line) if m[1]), None)
        if comment is None:
            continue
        words = comment[1].rstrip()
        before = [u for u in ordered if u.line <= number]
        if line[: comment.start()].strip() and before:
            before[-1].behind.append(words)
            continue
        after = next((u for u in ordered if u.line > number), None)
        (tail if after is None else after.before).append((number, words))
    return tail


def _print(unit: _Unit, source: list[str], first: bool, after_head: bool) -> Iterator[str]:
    comments = unit.before + [(unit.line, c) for c in unit.behind[1:]]
    blank = not first and not after_head and unit.kind != "end"
    wanted = _blank_before(comments[0][0] if comments else unit.line, source) or unit.kind == "function"
    if blank and wanted:
        yield ""
    spaced = list(_spaced(comments, source, first=True))
    yield from (unit.indent + comment if comment else "" for _, comment in spaced)
    if comments and unit.before and unit.kind != "end" and _blank_before(unit.line, source):
        yield ""
    head, *rest = unit.lines
    yield f"{head}  {unit.behind[0]}" if unit.behind else head
    yield from rest


def _spaced(comments: Iterable[tuple[int, str]], source: list[str], first: bool) -> Iterator[tuple[int, str]]:
    """Comments, with the blank lines that stood between them."""
    for number, comment in comments:
        if not first and _blank_before(number, source):
            yield number, ""
        yield number, comment
        first = False


def _blank_before(line: int, source: list[str]) -> bool:
    return line >= 2 and not source[line - 2].strip()
