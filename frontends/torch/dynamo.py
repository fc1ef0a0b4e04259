"""`torch.compile(model, backend="pliant")`: graphs of Dynamo, with sizes that it says are dynamic left symbolic.

Dynamo guards what it found out about the arguments; parameters stay arguments, so that a model may change them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ...ir.build import FunctionBuilder, ModuleBuilder
from ...ir.diagnostics import CompileError, error
from ...ir.dims import Dim
from ...ir.facts import Fact, InRange
from ...ir.graph import Module
from ...ir.types import DType
from .complexes import Complex, from_pairs, is_complex, joined, pair_axis, pairs_of, part_dtype
from .context import is_tensor
from .facts import known_facts
from .frozen import Frozen
from .ints import IntInput, bind_ints, conditions, is_finite, only_values, symbols_of
from .names import Names, symbol_names
from .promote import dtype_of
from .retrace import shape_env
from .sizes import Sizes
from .table import decompositions
from .views import View, views
from .walk import Walker, missing, missing_error
from .weights import array_of, type_of

Compile = Callable[[Module], Callable[..., Any]]
_ATTEMPTS = 64


@dataclass(frozen=True)
class _Graph:
    """An aten graph with what the facts are read from, shaped as an exported program is."""

    graph_module: Any
    range_constraints: dict[Any, Any]
    static: frozenset[Any] = frozenset()
    _guards_code: tuple[str, ...] = ()

    @property
    def graph(self) -> Any:
        return self.graph_module.graph


@dataclass(frozen=True)
class Counted:
    """An integer that may be negative, as a size: counted from its least value up, or from its greatest down."""

    least: int | None
    greatest: int | None

    def of(self, value: int) -> int:
        """The size that it is given as."""
        return value - self.least if self.least is not None else (self.greatest or 0) - value

    def back(self, size: Dim) -> Dim:
        """The integer, over the symbol of the size."""
        return size + self.least if self.least is not None else (self.greatest or 0) - size

    @property
    def most(self) -> int | None:
        """The greatest size."""
        return None if self.least is None or self.greatest is None else self.greatest - self.least


@dataclass(frozen=True)
class GraphFunction:
    """A compiled graph: the compiled program is given those arguments that are tensors, or integers that vary."""

    run: Callable[..., Any]
    params: tuple[str | None, ...]
    counted: Mapping[str, Counted]  # integers that are given otherwise than they came
    results: tuple[int | None, ...]  # positions of what the program returns; None is None
    constants: tuple[Any, ...]
    numbers: frozenset[int]  # results that are sizes
    views: Mapping[int, View]  # results that are views of arguments
    pairs: frozenset[int]  # results that are complex, as pairs of reals

    def __call__(self, *args: Any) -> list[Any]:
        given = {p: self._given(p, a) for p, a in zip(self.params, args, strict=True) if p is not None}
        made = self.run(**given)
        listed = made if isinstance(made, (tuple, list)) else (made,)
        out = []
        for i, (at, constant) in enumerate(zip(self.results, self.constants, strict=True)):
            if i in self.views:
                out.append(self.views[i](args))
                continue
            value = constant if at is None else _tensor(listed[at])
            value = from_pairs(value) if i in self.pairs else value
            out.append(int(value) if i in self.numbers else value)
        return out

    def _given(self, name: str, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return pairs_of(value) if is_complex(value) else value.detach()
        return torch.tensor(self.counted[name].of(value) if name in self.counted else value)


def _tensor(made: Any) -> torch.Tensor:
    """A result: an array where the graph takes no tensor that says what is wanted."""
    if isinstance(made, torch.Tensor):
        return made
    if made.dtype == DType.bf16.numpy:
        return torch.from_numpy(made.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(made)


def backend(compile: Compile) -> Callable[..., Any]:
    """The backend: AOTAutograd brings Dynamo's graphs into core operators, `compile` makes modules callable.

    With `options={"freeze": True}` parameters and buffers are weights, see `frozen`; what `compile` makes then has a
    method `with_weights`.
    """
    from torch._dynamo.backends.common import aot_autograd

    def inference(graph_module: Any, _inputs: Sequence[Any]) -> Callable[..., Any]:
        return _boxed(graph_function(graph_module, compile))

    def freezing(graph_module: Any, _inputs: Sequence[Any]) -> Callable[..., Any]:
        return _boxed(graph_function(graph_module, compile, _static(graph_module)))

    def training(graph_module: Any, _inputs: Sequence[Any]) -> Callable[..., Any]:
        raise error(
            "this graph needs derivatives, and only inference is compiled",
            helps=("call the model under torch.no_grad() or torch.inference_mode()",),
        )

    by_name = {
        freeze: aot_autograd(fw_compiler=training, inference_compiler=compiler, decompositions=decompositions())
        for freeze, compiler in ((False, inference), (True, freezing))
    }

    def chosen(graph_module: Any, inputs: Sequence[Any], **given: Any) -> Callable[..., Any]:
        options = dict(given.get("options") or {})
        freeze = options.pop("freeze", False)
        if options or not isinstance(freeze, bool):
            helps = ('say `torch.compile(model, backend="pliant", options={"freeze": True})`, or leave options out',)
            raise error(f"the backend has one option, `freeze`, True or False: {given['options']}", helps=helps)
        if given.get("mode") not in (None, "default"):
            raise error(f"the backend has no mode `{given['mode']}`", helps=("leave `mode` out: it is Inductor's own",))
        made: Callable[..., Any] = by_name[freeze](graph_module, inputs)
        return made

    return chosen


def _static(graph_module: Any) -> frozenset[Any]:
    """Placeholders of parameters and buffers, of which Dynamo knows that they are those of a module."""
    context = torch._guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    indices = frozenset(getattr(metadata, "static_input_indices", None) or ())
    holders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    return frozenset(n for i, n in enumerate(holders) if i in indices and _has_numbers(n.meta.get("val")))


def _has_numbers(value: Any) -> bool:
    """Whether it is a tensor of real numbers whose sizes are all numbers."""
    return isinstance(value, torch.Tensor) and not symbols_of(value) and not is_complex(value)


def _boxed(function: GraphFunction | BySign) -> Callable[..., Any]:
    """AOTAutograd's convention: the arguments come in one list, which is emptied."""

    def call(args: list[Any]) -> list[Any]:
        taken = list(args)
        args.clear()
        return function(*taken)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


@dataclass(frozen=True)
class BySign:
    """A graph with integers whose sign torch did not ask for and our sizes do: a program for each sign that comes.

    `integers` are their positions among the arguments, by torch's symbols; `make` compiles for some being negative.
    """

    integers: Mapping[str, int]
    make: Callable[[frozenset[str]], GraphFunction]
    made: dict[frozenset[str], GraphFunction] = field(default_factory=dict)

    def __call__(self, *args: Any) -> list[Any]:
        negative = frozenset(s for s, at in self.integers.items() if args[at] < 0)
        if negative not in self.made:
            self.made[negative] = self.make(negative)
        return self.made[negative](*args)


def graph_function(graph_module: Any, compile: Compile, static: frozenset[Any] = frozenset()) -> GraphFunction | BySign:
    """Compiles an aten graph; CompileError when it cannot be.  `static` are placeholders that are to be weights."""
    absent = missing(graph_module)
    if absent:
        raise missing_error(absent)
    environment = shape_env(_Graph(graph_module, {}))
    ranges = dict(environment.var_to_range) if environment is not None else {}
    graph = _Graph(graph_module, ranges, static)
    holders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    values = only_values(graph.graph, list(conditions(graph)), ranges, holders)
    try:
        return _by_sign(graph, values, compile)
    except CompileError:
        if not values:
            raise
        return _by_sign(graph, frozenset(), compile)  # a size is made of them after all


def _by_sign(graph: _Graph, numbers: frozenset[str], compile: Compile) -> GraphFunction | BySign:
    holders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    shapes = symbols_of([n.meta.get("val") for n in holders if isinstance(n.meta.get("val"), torch.Tensor)])
    free: dict[str, int] = {}
    hints: dict[str, int | None] = {}
    for at, node in enumerate(holders):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol:
            symbol = str(value.node.expr)
            bounds = graph.range_constraints.get(value.node.expr)
            if symbol not in shapes | numbers and bounds is not None:
                if not is_finite(bounds.lower) and not is_finite(bounds.upper):
                    free[symbol], hints[symbol] = at, value.node.hint

    def make(negative: frozenset[str]) -> GraphFunction:
        return _with_facts(graph, numbers, negative, compile)

    first = frozenset(s for s, hint in hints.items() if hint is not None and hint < 0)
    made = make(first)
    return BySign(free, make, {first: made}) if free else made


def _with_facts(graph: _Graph, numbers: frozenset[str], negative: frozenset[str], compile: Compile) -> GraphFunction:
    extra: list[Fact] = []
    while True:
        made, assumed = _attempt(graph, extra, numbers, negative, compile)
        if not assumed or len(extra) > _ATTEMPTS:
            return made()
        extra += assumed


def _counted(graph: _Graph, numbers: frozenset[str], negative: frozenset[str]) -> dict[str, Counted]:
    """Integers that are or may be negative, of which a bound is known, by torch's symbols."""
    found: dict[str, Counted] = {}
    holders = [n.meta.get("val") for n in graph.graph.nodes if n.op == "placeholder"]
    shapes = symbols_of([v for v in holders if isinstance(v, torch.Tensor)])
    for symbol, bounds in graph.range_constraints.items():
        if str(symbol) not in shapes | numbers and bounds.lower < 0:
            least, greatest = (int(x) if is_finite(x) else None for x in (bounds.lower, bounds.upper))
            greatest = -1 if str(symbol) in negative else greatest
            if least is not None or greatest is not None:
                found[str(symbol)] = Counted(least, greatest)
    return found


def _attempt(
    graph: _Graph, extra: Sequence[Fact], numbers: frozenset[str], negative: frozenset[str], compile: Compile
) -> tuple[Callable[[], GraphFunction], list[Fact]]:
    """How to make the function, and the facts that it was found to need besides."""
    holders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    words = {s: n for s, n in symbol_names(graph, None).items() if s not in numbers}
    counted = _counted(graph, numbers, negative)
    names: dict[str, str | Dim] = dict(words)
    names |= {s: c.back(Dim.of(words[s])) for s, c in counted.items() if s in words}
    environment = shape_env(graph)
    sizes = Sizes(names, environment.replace if environment is not None else lambda e: e)
    # An integer of which no least value is known is not negative where it is a size, which the call checks.
    told = {s: r for s, r in graph.range_constraints.items() if str(s) not in counted and is_finite(r.lower)}
    graph = replace(graph, range_constraints=told)
    tensors = [n for n in holders if isinstance(n.meta.get("val"), torch.Tensor)]
    varying = [n for n in holders if isinstance(n.meta.get("val"), torch.SymInt)]
    of_tensors = frozenset(s for n in tensors for d in n.meta["val"].shape for s in sizes.dim(d).symbols)
    as_sizes = [n for n in varying if symbols_of(n.meta["val"]).isdisjoint(numbers)]
    settled = frozenset(n for n in as_sizes if sizes.dim(n.meta["val"]).is_const)  # Dynamo guards their values
    symbols = of_tensors.union(*(sizes.dim(n.meta["val"]).symbols for n in as_sizes))
    taken = Names(symbols)
    own = {n: taken.fresh(n.name) for n in (*tensors, *varying)}
    limits = [InRange(Dim.of(words[s]), 0, c.most) for s, c in counted.items() if s in words and c.most is not None]
    facts = (*known_facts(graph, sizes, {}, symbols, said=limits, helpful=True).facts, *extra)
    m = ModuleBuilder()
    types = {n: f"{dtype_of(part_dtype(n.meta['val'].dtype))}[{_dims(n, sizes)}]" for n in tensors}
    weights = {n: m.weight(own[n], t) for n, t in types.items() if n in graph.static}
    constants = {n: m.const(taken.fresh(n.name), type_of(c, n.name), a) for n, c, a in _constants(graph)}
    params = {own[n]: t for n, t in types.items() if n not in weights} | {own[n]: "i64[]" for n in varying}
    b = m.function("main", params, [f for f in facts if f.symbols <= of_tensors])
    given = {own[n]: counted[s] for n in as_sizes for s in symbols_of(n.meta["val"]) if _is(n, s) and s in counted}
    bound = [IntInput(own[n], _size(n, sizes, words, counted)) for n in as_sizes if n not in settled]
    bind_ints(b, bound, of_tensors, [f for f in facts if not f.symbols <= of_tensors])
    values: dict[Any, Any] = {n: weights[n] if n in weights else b[own[n]] for n in tensors}
    values |= {n: _number(sizes.dim(n.meta["val"])) if n in as_sizes else b[own[n]] for n in varying}
    walker = Walker(b, symbols, values | constants)
    outputs = walker.run(graph.graph_module)
    metas = _metas(graph)
    seen = views(graph, metas)
    returned, results, whole = _returned(b, outputs, metas, seen)
    b.span = None
    b.returns(*returned)
    numerals = tuple(v if isinstance(v, (bool, int, float)) else None for v in outputs)
    listed = tuple(own.get(n) for n in holders)
    pairs = frozenset(i for i, v in enumerate(outputs) if isinstance(v, Complex))

    def made() -> GraphFunction:
        run = compile(m.build()) if returned else _nothing
        if weights and returned:
            run = Frozen(run, tuple(own[n] for n in weights))
        return GraphFunction(run, listed, given, tuple(results), numerals, frozenset(whole), seen, pairs)

    return made, [a.fact for a in walker.assumed]


def _constants(graph: _Graph) -> list[tuple[Any, torch.Tensor, Any]]:
    """Tensors that the model's code makes of numbers, with their values, by their nodes."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    attributes = [n for n in graph.graph.nodes if n.op == "get_attr"]
    held = [(n, getattr(graph.graph_module, n.target)) for n in attributes]
    with unset_fake_temporarily():  # AOTAutograd calls in the mode in which it traces
        return [(n, v, array_of(v)) for n, v in held if isinstance(v, torch.Tensor)]


def _returned(
    b: FunctionBuilder, outputs: Sequence[Any], metas: Sequence[Any], seen: Mapping[int, View]
) -> tuple[list[Any], list[int | None], set[int]]:
    """What the program returns, where each output is among it, and the outputs that are integers."""
    returned: list[Any] = []
    results: list[int | None] = []
    whole: set[int] = set()
    for i, (value, meta) in enumerate(zip(outputs, metas, strict=True)):
        if i in seen or value is None or isinstance(value, (bool, int, float)):
            results.append(None)
            continue
        value = joined(b, value)
        if not is_tensor(value):
            value = b.full(shape=(), value=value, dtype=DType.i64)
        if isinstance(meta, torch.SymInt):
            whole.add(i)
        results.append(len(returned))
        returned.append(value)
    return returned, results, whole


def _is(node: Any, symbol: str) -> bool:
    """Whether an integer is just that symbol."""
    return str(node.meta["val"].node.expr) == symbol


def _size(node: Any, sizes: Sizes, words: Mapping[str, str], counted: Mapping[str, Counted]) -> Dim:
    """What an integer is given as, over the program's symbols."""
    for symbol in symbols_of(node.meta["val"]):
        if _is(node, symbol) and symbol in counted:
            return Dim.of(words[symbol])
    return sizes.dim(node.meta["val"])


def _metas(graph: _Graph) -> list[Any]:
    """What torch knows of each output."""
    (output,) = (n for n in graph.graph.nodes if n.op == "output")
    return [a.meta.get("val") if isinstance(a, torch.fx.Node) else a for a in output.args[0]]


def _number(size: Dim) -> Dim | int:
    return size.value if size.is_const else size


def _nothing(**_given: Any) -> tuple[Any, ...]:
    return ()


def _dims(node: Any, sizes: Sizes) -> str:
    value = node.meta["val"]
    return ", ".join(map(str, (*map(sizes.dim, value.shape), *pair_axis(value))))
