"""From the syntax tree to the graph: weights, constants, and what every function sees of the module."""

from __future__ import annotations

from collections.abc import Sequence

from .diagnostics import CompileError, Diagnostic
from .graph import Const, Module, Weight
from .parser_function import FunctionNames
from .parser_text import describe
from .parser_tree import ConstNode, FuncNode, ItemNode, Node, Token, WeightNode, token_span
from .parser_values import CONSTANTS, Scope, literal_problem, to_fact, to_float, to_int, to_type
from .types import DType, TensorType


class Names:
    """Builds a module; `diagnostics` collects what is refused on the way."""

    def __init__(self, file: str, broken: frozenset[str]) -> None:
        self.file = file
        self.diagnostics: list[Diagnostic] = []
        self.scope = Scope(file, broken=set(broken))

    def module(self, items: Sequence[ItemNode]) -> Module:
        self._declare(items)
        weights, consts = [], []
        for item in items:
            if isinstance(item, WeightNode):
                weights.append(self._weight(item))
            elif isinstance(item, ConstNode):
                consts.append(self._const(item))
        functions = [FunctionNames(self.scope, self.report).function(i) for i in items if isinstance(i, FuncNode)]
        return Module(
            tuple(w for w in weights if w is not None),
            tuple(c for c in consts if c is not None),
            tuple(f for f in functions if f is not None),
        )

    def report(self, problem: CompileError) -> None:
        self.diagnostics.extend(problem.diagnostics)

    def _declare(self, items: Sequence[ItemNode]) -> None:
        """Globals and functions are in scope everywhere, before and after their definition."""
        seen: dict[str, Token] = {}
        globals_: set[str] = set()
        functions: set[str] = set()
        for item in items:
            name = str(item.name)[1:]
            if name in seen:
                notes = (f"it was defined first at {token_span(seen[name], self.file)}",)
                span = token_span(item.name, self.file)
                self.diagnostics.append(Diagnostic(f"`@{name}` is defined twice", span, "", notes))
            seen.setdefault(name, item.name)
            (functions if isinstance(item, FuncNode) else globals_).add(name)
        self.scope.globals_, self.scope.functions = frozenset(globals_), frozenset(functions)

    def _weight(self, node: WeightNode) -> Weight | None:
        try:
            t = self._tensor_type(node.type, binding=True)
            facts = tuple(to_fact(f, self.scope) for f in node.facts)
            return Weight(str(node.name)[1:], t, facts, token_span(node.name, self.file))
        except CompileError as problem:
            self.report(problem)
            return None

    def _const(self, node: ConstNode) -> Const | None:
        try:
            t = self._tensor_type(node.type, binding=False)
            if not all(d.is_const for d in t.dims):
                raise self.scope.fail("the shape of a constant is made of numbers", node.type)
            value = _values(node.value, t.dtype, [d.value for d in t.dims], self.scope)
            return Const(str(node.name)[1:], t, value, token_span(node.name, self.file))
        except CompileError as problem:
            self.report(problem)
            return None

    def _tensor_type(self, node: Node, binding: bool) -> TensorType:
        t = to_type(node, self.scope, binding)
        if not isinstance(t, TensorType) or t.shape is None:
            raise self.scope.fail("a weight or constant is a tensor of known rank", node)
        return t


def _values(node: Node, dtype: DType, shape: list[int], scope: Scope) -> object:
    """The nested tuples of a constant, as deep and as long as its shape says."""
    if not shape:
        return _number(node, dtype, scope)
    if node.kind != "array":
        helps = ("lists stand in `[ ]`",) if node.kind == "tuple" else ()
        raise scope.fail(f"expected a list of {shape[0]}, found {describe(node)}", node, helps=helps)
    if len(node.value) != shape[0]:
        raise scope.fail(f"expected a list of {shape[0]}, found one of {len(node.value)}", node)
    return tuple(_values(item, dtype, shape[1:], scope) for item in node.value)


def _number(node: Node, dtype: DType, scope: Scope) -> bool | int | float:
    value: bool | int | float
    inner = node.value if node.kind == "neg" else node
    if inner.kind == "integer":
        value = to_int(inner, scope)
    elif inner.kind == "floating":
        value = to_float(inner, scope)
    elif inner.kind == "constant" and inner.value in CONSTANTS:
        value = CONSTANTS[inner.value]
    else:
        raise scope.fail(f"expected a number, found {describe(node)}", node)
    if node.kind == "neg" and not isinstance(value, bool):
        value = -value
    problem = literal_problem(value, dtype)
    if problem:
        raise scope.fail(problem, node)
    return float(value) if dtype.is_float else value
