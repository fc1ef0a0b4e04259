"""Whether two graphs of one model are the same: the same operators of the same values and numbers, in one order."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from ...ir.diagnostics import CompileError
from ...ir.dims import Dim
from ...ir.facts import Facts
from .arithmetic import Real, Truth
from .assemble import attribute, tensor_of
from .places import place_of
from .table import IGNORED, ROWS, SIZES
from .table_pointwise import same
from .walk import only_sizes, target_name

if TYPE_CHECKING:
    from .paths import Traced


_SHAPES = frozenset(
    f"aten.{name}"
    for name in (
        "view.default", "_unsafe_view.default", "reshape.default", "flatten.using_ints", "unflatten.int",
        "unsqueeze.default", "squeeze.default", "squeeze.dim", "squeeze.dims",
    )
)  # fmt: skip
"""Operators that keep all elements in their order."""

_END = 1 << 62
_SCATTER = "aten.slice_scatter.default"
_ATTENTION = "aten.scaled_dot_product_attention.default"
_SPREAD = frozenset(f"aten.{name}.default" for name in ("copy", "copy_", "index_put", "index_put_", "expand"))


def same_graph(a: Traced, b: Traced, known: Facts) -> str | None:
    """None where they are the same wherever `known` holds; else the first difference."""
    return _Comparison(a, b, known, {}).difference()


class _Comparison:
    def __init__(self, a: Traced, b: Traced, known: Facts, partner: dict[Any, Any]) -> None:
        self.a, self.b, self.known, self.partner = a, b, known, partner
        self.spread = False  # whether the operator that is compared repeats its operands
        self.alias: dict[Any, Any] = {}  # tensors of the same elements in the same order, to the first of them

    def difference(self) -> str | None:
        first, second = (self._nodes(t) for t in (self.a, self.b))
        for x, y in zip(first, second, strict=False):
            if not self._agree(x, y):
                place = place_of(y) or place_of(x)
                where = f" ({place})" if place is not None else ""
                return f"{self._shown(y, self.b)} in place of {self._shown(x, self.a)}{where}"
            self.partner[x] = y
        return None if len(first) == len(second) else "it is longer or shorter"

    def _nodes(self, traced: Traced) -> list[Any]:
        """The nodes that compute tensors, the inputs that are read, and the output; no copies and other shapes.

        Code that assigns to a slice drops leading axes of size 1 and expands: at a size of 1 that looks different.
        """
        kept = []
        for node in traced.program.graph.nodes:
            if node.op == "placeholder" and not (node.users and isinstance(node.meta.get("val"), torch.Tensor)):
                continue
            if node.op == "call_function" and node.target is not operator.getitem:
                name = target_name(node.target)
                if name in SIZES | IGNORED or only_sizes(node):
                    continue
                if ROWS.get(name) is same or name in _SHAPES or self._idle(traced, node, name):
                    source = node.args[1 if name == _SCATTER else 0]
                    self.alias[node] = self.alias.get(source, source)
                    continue
            kept.append(node)
        return kept

    def _idle(self, traced: Traced, node: Any, name: str) -> bool:
        """Whether it expands nothing, or takes or replaces all of an axis."""
        if name == "aten.expand.default":
            before, after = (Dim.product(traced.shape(n)) for n in (node.args[0], node))
            return self.known.prove_eq(before, after)
        if name in ("aten.slice.Tensor", _SCATTER):
            given = node.args[2 if name == _SCATTER else 1 :]
            start, step = (given[i] if len(given) > i else d for i, d in ((1, None), (3, 1)))
            if start in (None, 0) and step == 1:
                sizes = zip(traced.shape(node.args[1 if name == _SCATTER else 0]), traced.shape(node), strict=True)
                return all(self.known.prove_eq(a, b) for a, b in sizes)
        return False

    def _shown(self, node: Any, traced: Traced) -> str:
        """A node with the numbers that it is given."""
        if node.op != "call_function":
            return "what is returned" if node.op == "output" else f"`{node.name}`"
        numbers = [self._number_text(a, traced) for a in node.args]
        given = ", ".join(n for n in numbers if n is not None)
        return f"`{target_name(node.target)}({given})`" if given else f"`{target_name(node.target)}`"

    @staticmethod
    def _number_text(arg: Any, traced: Traced) -> str | None:
        try:
            return str(_number(arg, traced.values))
        except KeyError:
            return None

    def _agree(self, x: Any, y: Any) -> bool:
        if x.op != y.op:
            return False
        if x.op == "placeholder":
            return self._same_input(x, y)
        if x.op == "get_attr":
            return _equal(attribute(self.a.program, x), attribute(self.b.program, y))
        if x.op == "output":
            return self._same(x.args, y.args)
        self.spread = target_name(x.target) in _SPREAD
        if x.target is not y.target:
            return False
        given = [_arguments(n) for n in (x, y)]
        if target_name(x.target) == _ATTENTION and self._one_sees_one(x):
            given = [g | {"is_causal": False} for g in given]
        return self._same(*given)

    def _one_sees_one(self, x: Any) -> bool:
        """Whether a mask that hides later keys hides nothing: of no queries, or of one query and one key."""
        queries, keys = (self.a.shape(n)[-2] for n in x.args[:2])
        one = self.known.prove_eq(queries, 1) and self.known.prove_eq(keys, 1)
        return one or self.known.prove_eq(queries, 0)

    def _same_input(self, x: Any, y: Any) -> bool:
        given = [_spec(t.program, n) for t, n in ((self.a, x), (self.b, y))]
        kinds = [(i, s.kind.name, s.target) for i, s in given]
        if kinds[0] != kinds[1]:
            return False
        if given[0][1].kind.name == "USER_INPUT":
            return True
        return _equal(*(tensor_of(t.program, s) for t, (_, s) in zip((self.a, self.b), given, strict=True)))

    def _same(self, x: Any, y: Any) -> bool:
        if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
            return len(x) == len(y) and all(map(self._same, x, y))
        if isinstance(x, dict) and isinstance(y, dict):
            return x.keys() == y.keys() and all(self._same(x[k], y[k]) for k in x)
        if _is_node(x) and _is_node(y):
            first, second = self.alias.get(x, x), self.alias.get(y, y)
            if self.partner.get(first) is second:
                return (x is first and y is second) or self._same_shape(self.a.shape(x), self.b.shape(y))
        try:
            return self._same_number(_number(x, self.a.values), _number(y, self.b.values))
        except KeyError:
            return False

    def _same_shape(self, a: list[Dim], b: list[Dim]) -> bool:
        """Leading axes of size 1 change nothing for operators that repeat their operands anyway."""
        if self.spread:
            short = min(len(a), len(b))
            lead = [*a[: len(a) - short], *b[: len(b) - short]]
            if not all(self.known.prove_eq(d, 1) for d in lead):
                return False
            a, b = a[len(a) - short :], b[len(b) - short :]
        return self._same(a, b)

    def _same_number(self, x: Any, y: Any) -> bool:
        if isinstance(x, (Real, Truth)) and isinstance(y, (Real, Truth)):
            return type(x) is type(y) and x.op == y.op and all(map(self._same_number, x.args, y.args))
        if isinstance(x, Dim) or isinstance(y, Dim):
            whole = all(isinstance(v, Dim) or type(v) is int for v in (x, y))
            return whole and self.known.prove_eq(x, y)
        return type(x) is type(y) and bool(x == y)


def _arguments(node: Any) -> dict[str, Any]:
    """The arguments of a call by name, those left out too."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return {**dict(enumerate(node.args)), **node.kwargs}
    schema = node.target._schema.arguments
    left_out = {a.name: a.default_value for a in schema if a.has_default_value()}
    given: dict[str, Any] = left_out | {a.name: v for a, v in zip(schema, node.args, strict=False)} | dict(node.kwargs)
    if target_name(node.target) in ("aten.slice.Tensor", _SCATTER):  # the ends of an axis have two names each
        given["start"] = 0 if given["start"] is None else given["start"]
        given["end"] = None if isinstance(given["end"], int) and given["end"] >= _END else given["end"]
    return given


def _is_node(x: Any) -> bool:
    return isinstance(x, torch.fx.Node)


def _number(x: Any, values: Mapping[Any, Any]) -> Any:
    if not isinstance(x, torch.fx.Node):
        return x
    found = values[x]
    if isinstance(found, (Dim, Real, Truth, bool, int, float)):
        return found
    raise KeyError(x)


def _spec(program: Any, node: Any) -> tuple[int, Any]:
    """Which of the user's inputs it is, and what torch says of it."""
    position = 0
    for spec in program.graph_signature.input_specs:
        if getattr(spec.arg, "name", None) == node.name:
            return (position if spec.kind.name == "USER_INPUT" else -1), spec
        position += spec.kind.name == "USER_INPUT"
    raise CompileError(())


def _equal(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return a is b
    return a is b or (a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(a, b)))


