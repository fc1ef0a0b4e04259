"""The syntax tree: what the grammar says, before any name is looked up.

lark calls the methods of `TreeBuilder` as it reduces rules.  They only build nodes and never fail, so that every
mistake beyond syntax is found by `parser_names` and `parser_attributes`, which know the user's terms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from .diagnostics import Span


class Token(Protocol):
    """A lark token: its text, and where it stands."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(slots=True)
class Node:
    """An expression.  `value` by `kind`:

    name global integer floating string dtype constant   the text
    add sub mul floordiv mod       (left, right)          neg    the operand
    field      (operand, index)                           typed  (dtype text, expression)
    apply call (name, arguments)                          keyword (name, expression), an argument
    tuple array  the items
    tensor     (dtype text, dims, or None for `[*]`)      tuple_type  the item types
    compare    (operator, left, right)    in_range  (dim, low, high or None)    one_of  (dim, values)
    """

    kind: str
    value: Any
    first: Token
    last: Token

    def span(self, file: str) -> Span:
        return Span(file, self.first.line, self.first.column, self.last.end_line, self.last.end_column)


def token_span(token: Token, file: str) -> Span:
    return Span(file, token.line, token.column, token.end_line, token.end_column)


@dataclass(slots=True)
class TargetNode:
    name: Token
    type: Node | None


@dataclass(slots=True)
class LetNode:
    """`targets = value where facts`; `value` is an expression or a control flow node."""

    targets: list[TargetNode]
    value: Node | IfNode | WhileNode | ScanNode
    facts: list[Node]


@dataclass(slots=True)
class UpdateNode:
    name: Token
    value: Node


@dataclass(slots=True)
class BindNode:
    name: Token
    value: Node
    facts: list[Node]


@dataclass(slots=True)
class BlockNode:
    """`end` is the `return` or `yield` token, None when the block has neither."""

    statements: list[StatementNode]
    end: Token | None
    results: list[Node]
    first: Token
    last: Token


@dataclass(slots=True)
class IfNode:
    keyword: Token
    condition: Node
    then: BlockNode
    otherwise: BlockNode


@dataclass(slots=True)
class WhileNode:
    keyword: Token
    inits: list[tuple[Token, Node]]
    condition: BlockNode
    body: BlockNode


@dataclass(slots=True)
class ScanNode:
    keyword: Token
    inits: list[tuple[Token, Node]]
    items: list[tuple[Token, Node]]
    body: BlockNode


StatementNode = LetNode | UpdateNode | BindNode


@dataclass(slots=True)
class ParamNode:
    inout: bool
    name: Token
    type: Node


@dataclass(slots=True)
class WeightNode:
    name: Token
    type: Node
    facts: list[Node]


@dataclass(slots=True)
class ConstNode:
    name: Token
    type: Node
    value: Node


@dataclass(slots=True)
class FuncNode:
    name: Token
    params: list[ParamNode]
    results: list[Node]
    facts: list[Node]
    likely: list[tuple[Token, list[Token]]]
    body: BlockNode


ItemNode = WeightNode | ConstNode | FuncNode


def _leaf(kind: str) -> Callable[[object, list[Any]], Node]:
    return lambda _, c: Node(kind, str(c[0]), c[0], c[0])


def _binary(kind: str) -> Callable[[object, list[Any]], Node]:
    return lambda _, c: Node(kind, (c[0], c[-1]), c[0].first, c[-1].last)


class ExpressionTree:
    """The rules of expressions and facts; `c` are the children, tokens and nodes, None for what is left out."""

    def _items(self, c: list[Any]) -> list[Any]:
        return c

    where = exprs = _items

    def compare(self, c: list[Any]) -> Node:
        return Node("compare", (str(c[1]), c[0], c[2]), c[0].first, c[2].last)

    def in_range(self, c: list[Any]) -> Node:
        dim, low, dots, high = c
        return Node("in_range", (dim, low, high), dim.first, high.last if high is not None else dots)

    def one_of(self, c: list[Any]) -> Node:
        return Node("one_of", (c[0], c[1]), c[0].first, c[2])

    # -- expressions

    name, global_, integer, floating, string, dtype, constant = map(
        _leaf, ("name", "global", "integer", "floating", "string", "dtype", "constant")
    )
    add, sub, mul, floordiv, mod = map(_binary, ("add", "sub", "mul", "floordiv", "mod"))

    def neg(self, c: list[Any]) -> Node:
        return Node("neg", c[1], c[0], c[1].last)

    def field(self, c: list[Any]) -> Node:
        return Node("field", (c[0], int(c[1][1:])), c[0].first, c[1])

    def typed(self, c: list[Any]) -> Node:
        return Node("typed", (str(c[0]), c[2]), c[0], c[3])

    def apply(self, c: list[Any]) -> Node:
        return Node("apply", (c[0], c[2] or []), c[0], c[3])

    def call(self, c: list[Any]) -> Node:
        return Node("call", (c[0], c[2] or []), c[0], c[3])

    def keyword(self, c: list[Any]) -> Node:
        return Node("keyword", (c[0], c[1]), c[0], c[1].last)

    def empty(self, c: list[Any]) -> Node:
        return Node("tuple", [], c[0], c[1])

    def paren(self, c: list[Any]) -> Node:
        return c[1]  # type: ignore[no-any-return]

    def tuple_(self, c: list[Any]) -> Node:
        return Node("tuple", [c[1], *(c[2] or [])], c[0], c[3])

    def array(self, c: list[Any]) -> Node:
        return Node("array", c[1] or [], c[0], c[2])


class TreeBuilder(ExpressionTree):
    """One method a rule; `c` are its children, tokens and nodes, None for what is left out."""

    # -- module

    def module(self, c: list[Any]) -> list[ItemNode]:
        return c

    def weight(self, c: list[Any]) -> WeightNode:
        return WeightNode(c[0], c[1], c[2] or [])

    def const(self, c: list[Any]) -> ConstNode:
        return ConstNode(*c)

    def func(self, c: list[Any]) -> FuncNode:
        name, params, results, facts, *likely, body = c
        return FuncNode(name, params or [], results or [], facts or [], likely, body)

    def likely(self, c: list[Any]) -> tuple[Token, list[Any]]:
        return c[0], c[1:]

    def param(self, c: list[Any]) -> ParamNode:
        return ParamNode(c[0] is not None, c[1], c[2])

    params = types = targets = inits = args = ExpressionTree._items

    # -- statements

    def block(self, c: list[Any]) -> BlockNode:
        first, *statements, end, last = c
        token, results = end if end is not None else (None, [])
        return BlockNode(statements, token, results, first, last)

    def end(self, c: list[Any]) -> tuple[Token, list[Node]]:
        return c[0], c[1] or []

    def let(self, c: list[Any]) -> LetNode:
        return LetNode(c[0], c[1], c[2] or [])

    def target(self, c: list[Any]) -> TargetNode:
        return TargetNode(c[0], c[1])

    def update(self, c: list[Any]) -> UpdateNode:
        return UpdateNode(c[0], c[1])

    def bind(self, c: list[Any]) -> BindNode:
        return BindNode(c[0], c[1], c[2] or [])

    def bare(self, c: list[Any]) -> LetNode:
        return LetNode([], c[0], [])

    def if_(self, c: list[Any]) -> IfNode:
        return IfNode(*c)

    def while_(self, c: list[Any]) -> WhileNode:
        return WhileNode(c[0], _present(c[1]), c[2], c[3])

    def scan(self, c: list[Any]) -> ScanNode:
        return ScanNode(c[0], _present(c[1]), _present(c[2]), c[3])

    def init(self, c: list[Any]) -> tuple[Token, Node]:
        return c[0], c[1]

    # -- types

    def tensor(self, c: list[Any]) -> Node:
        return Node("tensor", (str(c[0]), c[1] or []), c[0], c[2])

    def unranked(self, c: list[Any]) -> Node:
        return Node("tensor", (str(c[0]), None), c[0], c[2])

    def tuple_type(self, c: list[Any]) -> Node:
        first, *items, comma, last = c
        items = _present(items)
        if len(items) == 1 and comma is None:
            return items[0]  # type: ignore[no-any-return]
        return Node("tuple_type", items, first, last)


def _present(items: list[Any] | None) -> list[Any]:
    return [i for i in items or [] if i is not None]
