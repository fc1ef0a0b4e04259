"""The dataflow of one function, as fusion and lowering see it.

Names for the same data (assignments, tuple fields) are resolved away; what remains are *sources* (parameters, weights,
constants), *nodes* (one op application each) and *aliases* (a reshape or match_cast: the same buffer, another type).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from ...ir import graph
from ...ir.diagnostics import error
from ...ir.dims import Dim
from ...ir.loops import Expr, Index
from ...ir.op import AliasOp, Array, ElementContext, ElementOp, InferContext, Input, Op, Sample
from ...ir.scalar import cast, const
from ...ir.types import DType, TensorType, Type

Value = str | Expr | None
"""An operand: a value by name (`@name` for globals), a scalar expression, or nothing."""


@dataclass(frozen=True)
class Scalar(ElementOp):
    """A number that is returned: the only scalar that needs a buffer.  Made here, not part of the language."""

    name: ClassVar[str] = "scalar"

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        raise TypeError("made by the lowering")

    def reference(self, *operands: Array | None) -> Array:
        raise TypeError("made by the lowering")

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        return ()

    def element(self, ctx: ElementContext, out: TensorType, index: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        (value,) = inputs
        assert value is not None
        return value()


@dataclass(frozen=True)
class Node:
    """`op` applied to `inputs`; more than one name only for ops with several results."""

    names: tuple[str, ...]
    types: tuple[TensorType, ...]
    op: Op
    inputs: tuple[Value, ...]
    statement: graph.Apply

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def type(self) -> TensorType:
        return self.types[0]


@dataclass
class Dataflow:
    """Built by `dataflow`.  `alias_of` maps an alias to the value whose buffer it is.

    `casts` are the statements that bind symbols, in order; `bound` the values that become sizes, by symbol.
    """

    function: graph.Function
    types: dict[str, TensorType] = field(default_factory=dict)
    sources: dict[str, TensorType] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    alias_of: dict[str, str] = field(default_factory=dict)
    order: list[Node] = field(default_factory=list)
    results: list[ResultTree] = field(default_factory=list)
    updates: list[tuple[str, Value]] = field(default_factory=list)
    casts: list[graph.MatchCast | graph.Bind] = field(default_factory=list)
    bound: dict[str, Value] = field(default_factory=dict)

    def root(self, name: str) -> str:
        """The value that owns the buffer of `name`."""
        while name in self.alias_of:
            name = self.alias_of[name]
        return name

    def result_values(self) -> Iterator[Value]:
        for tree in self.results:
            yield from _leaves(tree)


ResultTree = Value | tuple["ResultTree", ...]


def _leaves(tree: ResultTree) -> Iterator[Value]:
    if isinstance(tree, tuple):
        for item in tree:
            yield from _leaves(item)
    else:
        yield tree


def dataflow(module: graph.Module, function: graph.Function) -> Dataflow:
    """Resolves names; the function must be typed, and free of calls, composites and control flow."""
    flow = Dataflow(function)
    env: dict[str, ResultTree] = {}
    given = {**{w.name: w.type for w in module.weights}, **{c.name: c.type for c in module.consts}}
    for name, type_ in given.items():
        flow.sources[f"@{name}"] = flow.types[f"@{name}"] = type_
    for p in function.params:
        env[p.name] = _declare(flow, p.name, p.type)
    for s in function.body.statements:
        _statement(flow, env, s)
    _known_ranks(flow)
    flow.results = [_stored_scalars(flow, _resolve(env, r)) for r in function.body.results]
    return flow


def _stored_scalars(flow: Dataflow, tree: ResultTree) -> ResultTree:
    """Gives numbers that are returned or stored a value of their own."""
    if isinstance(tree, tuple):
        return tuple(_stored_scalars(flow, t) for t in tree)
    if tree is None or isinstance(tree, str):
        return tree
    name = f"number.{len(flow.order)}"
    dtype: DType = tree.dtype
    type_ = TensorType(dtype, ())
    node = Node((name,), (type_,), Scalar(), (tree,), graph.Apply((graph.Target(name, type_),), Scalar(), ()))
    flow.types[name], flow.nodes[name] = type_, node
    flow.order.append(node)
    return name


def _declare(flow: Dataflow, name: str, type_: Type) -> ResultTree:
    if isinstance(type_, TensorType):
        flow.sources[name] = flow.types[name] = type_
        return name
    return tuple(_declare(flow, f"{name}.{i}", t) for i, t in enumerate(type_.items))


def _statement(flow: Dataflow, env: dict[str, ResultTree], s: graph.Statement) -> None:
    if isinstance(s, graph.Apply):
        _apply(flow, env, s)
    elif isinstance(s, (graph.Assign, graph.Field)):
        value = _resolve(env, s.operand)
        if isinstance(s, graph.Field):
            assert isinstance(value, tuple)
            value = value[s.index]
        env[s.target.name] = value
    elif isinstance(s, graph.MatchCast):
        value = _resolve(env, s.operand)
        assert isinstance(value, str)
        assert isinstance(s.target.type, TensorType)
        _give_rank(flow, value, s)
        env[s.target.name] = _alias(flow, s.target.name, s.target.type, value)
        flow.casts.append(s)
    elif isinstance(s, graph.Bind):
        value = _resolve(env, s.operand)
        assert not isinstance(value, tuple)
        flow.bound[s.symbol] = value
        flow.casts.append(s)
    elif isinstance(s, graph.Update):
        value = _stored_scalars(flow, _resolve(env, s.operand))
        assert not isinstance(value, tuple)
        flow.updates.append((s.param, value))
    else:
        raise TypeError(f"{type(s).__name__} reached the lowering")


def _apply(flow: Dataflow, env: dict[str, ResultTree], s: graph.Apply) -> None:
    types: list[TensorType] = []
    for t in s.targets:
        assert isinstance(t.type, TensorType), f"{t.name} has no type"
        types.append(t.type)
        flow.types[t.name] = t.type
        env[t.name] = t.name
    inputs: list[Value] = []
    for o in s.operands:
        value = _resolve(env, o)
        assert not isinstance(value, tuple)
        inputs.append(value)
    if isinstance(s.op, AliasOp) and isinstance(inputs[0], str) and not same_but_ones(flow, inputs[0], types[0]):
        env[s.targets[0].name] = _alias(flow, s.targets[0].name, types[0], inputs[0])
        return
    node = Node(tuple(t.name for t in s.targets), tuple(types), s.op, tuple(inputs), s)
    flow.order.append(node)
    for name in node.names:
        flow.nodes[name] = node


def _give_rank(flow: Dataflow, name: str, s: graph.MatchCast) -> None:
    """A parameter of unknown rank has the rank, and is checked against the sizes, of the match_cast on it."""
    assert isinstance(s.target.type, TensorType)
    if flow.types[name].shape is None:
        flow.types[name] = flow.sources[name] = s.target.type
    elif flow.types[name].rank != s.target.type.rank:
        raise error(
            f"{name} is {flow.types[name]}, and cannot be {s.target.type} too",
            s.span,
            helps=("one call takes one rank: make two functions of it",),
        )


def _known_ranks(flow: Dataflow) -> None:
    for name, type_ in flow.sources.items():
        if type_.shape is None:
            raise error(
                f"the rank of `{name}` is not known: {type_} can be compiled only where a match_cast gives it one",
                next((p.span for p in flow.function.params if p.name == name), None),
                helps=(f"write `y: {type_.dtype}[n, m] = match_cast({name})` and use y",),
            )


def _alias(flow: Dataflow, name: str, type_: TensorType, value: str) -> str:
    flow.types[name] = type_
    flow.alias_of[name] = value
    return name


def same_but_ones(flow: Dataflow, source: str, target: TensorType) -> bool:
    """Do the shapes differ by sizes written 1 only?  Such a reshape is an index map and fuses like one."""
    return without_ones(flow.types[source].dims) == without_ones(target.dims)


def without_ones(dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    one = Dim.of(1)
    return tuple(d for d in dims if d != one)


def _resolve(env: dict[str, ResultTree], operand: graph.Operand) -> ResultTree:
    if isinstance(operand, graph.Var):
        return env[operand.name]
    if isinstance(operand, graph.GlobalRef):
        return f"@{operand.name}"
    if isinstance(operand, graph.Literal):
        assert operand.dtype is not None
        return const(operand.value, operand.dtype)
    if isinstance(operand, graph.DimValue):
        assert operand.dtype is not None
        return cast(Index(operand.dim), operand.dtype)
    if isinstance(operand, graph.TupleValue):
        return tuple(_resolve(env, o) for o in operand.items)
    return None
