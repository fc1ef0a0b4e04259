"""Text to graph: `parse_module`, the inverse of `printer.print_module`.

The way: parser_syntax (text to syntax tree; lark, and what is said about syntax errors), parser_tree (that tree),
parser_values (expressions as sizes, types, facts and operands), parser_attributes (of operators), parser_function
(statements) and parser_names (the module).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from .diagnostics import CompileError, Diagnostic, Span, error
from .dims import Dim
from .facts import Fact
from .graph import Module
from .parser_names import Names
from .parser_syntax import parse_syntax
from .parser_values import Scope, to_dim, to_fact, to_type
from .types import Type


def parse_module_all(text: str, filename: str = "<text>") -> tuple[Module | None, list[Diagnostic]]:
    """The module, or None with everything that is wrong, in the order of the text."""
    try:
        syntax = parse_syntax(text, filename)
        names = Names(filename, syntax.broken)
        module = names.module(syntax.tree) if syntax.tree is not None else None
    except RecursionError:
        return None, [Diagnostic("the expressions of this file are nested too deeply")]
    diagnostics = [*syntax.diagnostics, *names.diagnostics]
    diagnostics.sort(key=lambda d: (d.span.line, d.span.column) if d.span else (0, 0))
    return (None if diagnostics else module), diagnostics


def parse_module(text: str, filename: str = "<text>") -> Module:
    """The module; CompileError with every diagnostic when something is wrong."""
    if not isinstance(text, str):
        raise error(f"a program is text, not of the type {type(text).__name__}")
    module, diagnostics = parse_module_all(text, filename)
    if module is None:
        raise CompileError(tuple(diagnostics), {filename: text})
    return module


def parse_type(text: str, filename: str = "<type>") -> Type:
    """A type from its text: `f32[n, 4*h]`.  Its names are symbols.  CompileError when it is none."""
    scope = Scope(filename)
    return to_type(_parsed(text, filename, "type"), scope, binding=True)


def parse_facts(text: str, symbols: Iterable[str], filename: str = "<fact>") -> tuple[Fact, ...]:
    """Facts from text, `n in 0..1024, n % 8 == 0`, over these symbols; CompileError for any other name.

    They have no place: the text is not one that a reader could open.
    """
    scope = Scope(filename, symbols={s: Span(filename, 1, 1, 1, 1) for s in symbols})
    nodes = _parsed(f"where {text}", filename, "where")
    return tuple(replace(to_fact(node, scope), span=None) for node in nodes)


def parse_dim(text: str, symbols: Iterable[str], filename: str = "<size>") -> Dim:
    """A size from text, over these symbols; CompileError for any other name."""
    scope = Scope(filename, symbols={s: Span(filename, 1, 1, 1, 1) for s in symbols})
    return to_dim(_parsed(text, filename, "expr"), scope)


def _parsed(text: str, filename: str, start: str) -> Any:
    syntax = parse_syntax(text, filename, start)
    if syntax.diagnostics:
        raise CompileError(tuple(syntax.diagnostics), {filename: text})
    return syntax.tree
