"""From the syntax tree to the graph: one function.

Symbols of weights are in scope from the start; those of result types may be bound in the body.  A statement that is
refused poisons the names it would have defined, so that their users say nothing more.
"""

from __future__ import annotations

from collections.abc import Callable

from .diagnostics import CompileError
from .facts import Fact
from .graph import (
    Apply,
    Assign,
    Bind,
    Block,
    CallFunction,
    Field,
    Function,
    If,
    Likely,
    MatchCast,
    NoneValue,
    Operand,
    Param,
    Statement,
    Target,
    Update,
    While,
)
from .parser_attributes import make_op
from .parser_calls import misplaced, unknown_operator
from .parser_text import render
from .parser_tree import (
    BindNode,
    BlockNode,
    FuncNode,
    IfNode,
    LetNode,
    Node,
    ParamNode,
    ScanNode,
    StatementNode,
    TargetNode,
    Token,
    UpdateNode,
    WhileNode,
    token_span,
)
from .parser_values import Scope, nearest, to_fact, to_int, to_operand, to_type
from .registry import registry
from .types import DType, TensorType, Type

_COUNT = TensorType(DType.i64, ())


class FunctionNames:
    """Builds one function; `report` is told what is refused on the way."""

    def __init__(self, scope: Scope, report: Callable[[CompileError], None]) -> None:
        self.scope = scope.inner()
        self.file = scope.file
        self._report = report
        self._failed = False
        self._params: dict[str, bool] = {}

    def report(self, problem: CompileError) -> None:
        self._failed = True
        self._report(problem)

    def function(self, node: FuncNode) -> Function | None:
        """The function, None when something in it was refused."""
        params = [self._param(p) for p in node.params]
        facts = self._facts(node.facts, self.scope)
        likely = [self._likely(*item) for item in node.likely]
        body = self._block(node.body, self.scope, "return")
        results = [self._type(r, self.scope) for r in node.results]
        if self._failed:
            return None
        return Function(
            str(node.name)[1:],
            tuple(p for p in params if p is not None),
            tuple(r for r in results if r is not None),
            facts,
            tuple(x for x in likely if x is not None),
            body,
            token_span(node.name, self.file),
        )

    # -- head

    def _param(self, node: ParamNode) -> Param | None:
        name = str(node.name)
        self._params[name] = node.inout
        try:
            self.scope.define_value(node.name)
        except CompileError as problem:
            self.report(problem)
        t = self._type(node.type, self.scope, binding=True)
        if t == _COUNT:
            self.scope.counts.add(name)
        return None if t is None else Param(name, t, node.inout, token_span(node.name, self.file))

    def _type(self, node: Node, scope: Scope, binding: bool = False) -> Type | None:
        try:
            return to_type(node, scope, binding)
        except CompileError as problem:
            self.report(problem)
            return None

    def _facts(self, nodes: list[Node], scope: Scope) -> tuple[Fact, ...]:
        out: list[Fact] = []
        for node in nodes:
            try:
                out.append(to_fact(node, scope))
            except CompileError as problem:
                self.report(problem)
        return tuple(out)

    def _likely(self, name: Token, values: list[Token]) -> Likely | None:
        symbol = str(name)
        try:
            if symbol not in self.scope.symbols:
                helps = nearest(symbol, self.scope.symbols)
                raise self.scope.fail(f"there is no size `{symbol}` here", name, helps=helps)
            return Likely(symbol, tuple(to_int(Node("integer", str(v), v, v), self.scope) for v in values))
        except CompileError as problem:
            self.report(problem)
            return None

    # -- blocks and statements

    def _block(self, node: BlockNode, scope: Scope, end: str) -> Block:
        statements = []
        for statement in node.statements:
            try:
                statements.append(self._statement(statement, scope))
            except CompileError as problem:
                self.report(problem)
                self._poison(statement, scope)
        results: list[Operand] = []
        if node.end is not None and str(node.end) != end:
            self.report(scope.fail(f"expected `{end}`, found `{node.end}`", node.end))
        for result in node.results:
            try:
                results.append(to_operand(result, scope))
            except CompileError as problem:
                self.report(problem)
        span = token_span(node.end or node.last, self.file)
        return Block(tuple(statements), tuple(results), span)

    def _poison(self, node: StatementNode, scope: Scope) -> None:
        if isinstance(node, BindNode):
            scope.broken.add(str(node.name))
        if not isinstance(node, LetNode):
            return
        for target in node.targets:
            if str(target.name) not in scope.values:
                scope.broken.add(str(target.name))
            if target.type is not None:
                scope.broken.update(_names_in(target.type) - scope.symbols.keys() - scope.values.keys())

    def _statement(self, node: StatementNode, scope: Scope) -> Statement:
        if isinstance(node, UpdateNode):
            return self._update(node, scope)
        if isinstance(node, BindNode):
            return self._bind(node, scope)
        if isinstance(node.value, Node):
            return self._let(node, node.value, scope)
        if isinstance(node.value, IfNode):
            return self._if(node, node.value, scope)
        if isinstance(node.value, WhileNode):
            return self._while(node, node.value, scope)
        assert isinstance(node.value, ScanNode)
        raise scope.fail("`scan` is not there yet: it comes in a later version", node.value.keyword)

    def _update(self, node: UpdateNode, scope: Scope) -> Statement:
        name = str(node.name)
        if not self._params.get(name, False):
            if name in self._params:
                help = f"declare it `inout {name}: ...`"
                raise scope.fail(f"`{name}` is not an inout parameter", node.name, helps=(help,))
            helps = nearest(name, [p for p, inout in self._params.items() if inout])
            raise scope.fail(f"there is no inout parameter `{name}`", node.name, helps=helps)
        return Update(name, to_operand(node.value, scope), token_span(node.name, self.file))

    def _bind(self, node: BindNode, scope: Scope) -> Statement:
        operand = to_operand(node.value, scope)
        name = str(node.name)
        if name in scope.symbols:
            raise scope.fail(f"the size `{name}` is bound already, at {scope.symbols[name]}", node.name)
        scope.define_symbol(name, Node("name", name, node.name, node.name))
        return Bind(name, operand, self._facts(node.facts, scope), token_span(node.name, self.file))

    def _let(self, node: LetNode, value: Node, scope: Scope) -> Statement:
        if value.kind == "apply" and str(value.value[0]) == "match_cast":
            return self._match_cast(node, value, scope)
        if node.facts:
            help = "facts stand at the function, at a `match_cast` or at a `bind`"
            raise scope.fail("`where` has no meaning at this statement", node.facts[0], helps=(help,))
        if value.kind == "call":
            return self._call(node, value, scope)
        if value.kind == "field":
            return self._field(node, value, scope)
        if value.kind == "apply" and str(value.value[0]) != "ceildiv":
            return self._apply(node, value, scope)
        operand = to_operand(value, scope)
        if isinstance(operand, NoneValue):
            raise scope.fail("`none` is no value; it stands for an operand that is left out", value)
        return Assign(self._one_target(node, value, scope), operand, value.span(self.file))

    def _apply(self, node: LetNode, value: Node, scope: Scope) -> Statement:
        name, args = value.value
        if str(name) not in registry():
            raise unknown_operator(name, args, scope)
        keywords = [a for a in args if a.kind == "keyword"]
        problems: list[CompileError] = []
        operands: list[Operand] = []
        for i, arg in enumerate(args):
            try:
                if arg.kind != "keyword":
                    if any(a.kind == "keyword" for a in args[:i]):
                        raise scope.fail("operands come before attributes", arg)
                    operands.append(to_operand(arg, scope))
            except CompileError as problem:
                problems.append(problem)
        try:
            op = make_op(name, keywords, scope)
        except CompileError as problem:
            problems.append(problem)
        takes = registry()[str(name)].signature
        if problems or (len(operands) > len(takes) and not (takes and takes[-1].endswith("*"))):
            instead = misplaced(name, args, problems, scope)
            problems = problems if instead is None else [instead]
        if problems:
            raise CompileError(tuple(d for p in problems for d in p.diagnostics))
        return Apply(self._targets(node.targets, scope), op, tuple(operands), token_span(name, self.file))

    def _call(self, node: LetNode, value: Node, scope: Scope) -> Statement:
        token, args = value.value
        name = str(token)[1:]
        if name not in scope.functions:
            if name in scope.globals_:
                raise scope.fail(f"`{token}` is a weight or constant, not a function", token)
            helps = tuple(h.replace("`", "`@", 1) for h in nearest(name, scope.functions))
            if name in registry():
                helps = (f"operators are written without `@`: `{name}({', '.join(map(render, args))})`",)
            if name in scope.broken:
                raise CompileError(())
            raise scope.fail(f"there is no function `{token}`", token, helps=helps)
        for arg in args:
            if arg.kind == "keyword":
                raise scope.fail("a function takes its operands by position", arg)
        operands = tuple(to_operand(a, scope) for a in args)
        return CallFunction(self._targets(node.targets, scope), name, operands, token_span(token, self.file))

    def _field(self, node: LetNode, value: Node, scope: Scope) -> Statement:
        inner, index = value.value
        operand = to_operand(inner, scope)
        return Field(self._one_target(node, value, scope), operand, index, value.span(self.file))

    def _match_cast(self, node: LetNode, value: Node, scope: Scope) -> Statement:
        token, args = value.value
        if len(args) != 1 or args[0].kind == "keyword":
            raise scope.fail("`match_cast` takes one value", token)
        operand = to_operand(args[0], scope)
        if len(node.targets) != 1 or node.targets[0].type is None:
            help = "say the type it asserts: `y: f32[k, 4] = match_cast(x)`"
            raise scope.fail("`match_cast` needs one result with a type", token, helps=(help,))
        target = self._target(node.targets[0], scope, binding=True)
        return MatchCast(target, operand, self._facts(node.facts, scope), token_span(token, self.file))

    def _targets(self, nodes: list[TargetNode], scope: Scope) -> tuple[Target, ...]:
        return tuple(self._target(t, scope) for t in nodes)

    def _one_target(self, node: LetNode, value: Node, scope: Scope) -> Target:
        if len(node.targets) != 1:
            raise scope.fail(f"{len(node.targets)} names for one value", value)
        return self._target(node.targets[0], scope)

    def _target(self, node: TargetNode, scope: Scope, binding: bool = False) -> Target:
        t = None if node.type is None else to_type(node.type, scope, binding)
        scope.define_value(node.name)
        return Target(str(node.name), t, token_span(node.name, self.file))

    # -- control flow

    def _if(self, node: LetNode, value: IfNode, scope: Scope) -> Statement:
        condition = to_operand(value.condition, scope)
        then = self._block(value.then, scope.inner(value.keyword), "yield")
        otherwise = self._block(value.otherwise, scope.inner(value.keyword), "yield")
        targets = self._targets(node.targets, scope)
        return If(targets, condition, then, otherwise, token_span(value.keyword, self.file))

    def _while(self, node: LetNode, value: WhileNode, scope: Scope) -> Statement:
        inits = tuple((str(name), to_operand(init, scope)) for name, init in value.inits)
        inner = scope.inner(value.keyword)
        for name, _ in value.inits:
            if str(name) not in inner.values:  # a carried value may have the name of its first value
                inner.define_value(name)
        condition = self._block(value.condition, inner.inner(value.keyword), "yield")
        body = self._block(value.body, inner.inner(value.keyword), "yield")
        targets = self._targets(node.targets, scope)
        return While(targets, inits, condition, body, token_span(value.keyword, self.file))


def _names_in(node: Node) -> set[str]:
    """Every name in a type."""
    found: set[str] = set()
    pending: list[object] = [node]
    while pending:
        item = pending.pop()
        if isinstance(item, Node):
            if item.kind == "name":
                found.add(item.value)
            pending.append(item.value)
        elif isinstance(item, (list, tuple)):
            pending.extend(item)
    return found
