"""`torch.compile(model, backend="pliant")`: graphs of Dynamo, with sizes that it says are dynamic left symbolic.

Dynamo guards what it found out about the arguments; parameters stay arguments, so that a model may change them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...ir.build import ModuleBuilder
from ...ir.diagnostics import error
from ...ir.facts import Fact
from ...ir.graph import Module
from ...ir.types import DType
from .context import NeedFact, is_tensor
from .facts import known_facts
from .names import Names, symbol_names
from .promote import dtype_of
from .retrace import shape_env
from .sizes import Sizes
from .table import decompositions
from .walk import Walker, missing, missing_error

Compile = Callable[[Module], Callable[..., Any]]
_ATTEMPTS = 64


@dataclass(frozen=True)
class _Graph:
    """An aten graph with what the facts are read from, shaped as an exported program is."""

    graph_module: Any
    range_constraints: dict[Any, Any]
    _guards_code: tuple[str, ...] = ()

    @property
    def graph(self) -> Any:
        return self.graph_module.graph


@dataclass(frozen=True)
class GraphFunction:
    """A compiled graph: the compiled program is given those arguments that are tensors."""

    run: Callable[..., Any]
    params: tuple[str | None, ...]
    results: tuple[int | None, ...]  # positions of what the program returns; None is None
    constants: tuple[Any, ...]
    numbers: frozenset[int]  # results that are sizes

    def __call__(self, *args: Any) -> list[Any]:
        given = {p: a.detach() for p, a in zip(self.params, args, strict=True) if p is not None}
        made = self.run(**given)
        listed = made if isinstance(made, (tuple, list)) else (made,)
        out = []
        for i, (at, constant) in enumerate(zip(self.results, self.constants, strict=True)):
            value = constant if at is None else listed[at]
            out.append(int(value) if i in self.numbers else value)
        return out


def backend(compile: Compile) -> Callable[..., Any]:
    """The backend: AOTAutograd brings Dynamo's graphs into core operators, `compile` makes modules callable."""
    from torch._dynamo.backends.common import aot_autograd

    def inference(graph_module: Any, _inputs: Sequence[Any]) -> Callable[..., Any]:
        return _boxed(graph_function(graph_module, compile))

    def training(graph_module: Any, _inputs: Sequence[Any]) -> Callable[..., Any]:
        raise error(
            "this graph needs derivatives, and only inference is compiled",
            helps=("call the model under torch.no_grad() or torch.inference_mode()",),
        )

    made: Callable[..., Any] = aot_autograd(
        fw_compiler=training, inference_compiler=inference, decompositions=decompositions()
    )
    return made


def _boxed(function: GraphFunction) -> Callable[..., Any]:
    """AOTAutograd's convention: the arguments come in one list, which is emptied."""

    def call(args: list[Any]) -> list[Any]:
        taken = list(args)
        args.clear()
        return function(*taken)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def graph_function(graph_module: Any, compile: Compile) -> GraphFunction:
    """Compiles an aten graph; CompileError when it cannot be."""
    absent = missing(graph_module)
    if absent:
        raise missing_error(absent)
    environment = shape_env(_Graph(graph_module, {}))
    ranges = dict(environment.var_to_range) if environment is not None else {}
    extra: list[Fact] = []
    for _ in range(_ATTEMPTS):
        try:
            return _attempt(_Graph(graph_module, ranges), environment, extra, compile)
        except NeedFact as need:
            if need.fact in extra or not need.fact.symbols:
                raise error(f"{need.why}: {need.fact} does not hold") from None
            extra.append(need.fact)
    raise error("the graph needs more facts than were tried")


def _attempt(graph: _Graph, environment: Any, extra: Sequence[Fact], compile: Compile) -> GraphFunction:
    names = symbol_names(graph, None)
    sizes = Sizes(names, environment.replace if environment is not None else lambda e: e)
    holders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    tensors = [n for n in holders if isinstance(n.meta.get("val"), torch.Tensor)]
    symbols = frozenset(s for n in tensors for d in n.meta["val"].shape for s in sizes.dim(d).symbols)
    taken = Names(symbols)
    own = {n: taken.fresh(n.name) for n in tensors}
    facts = known_facts(graph, sizes, {}, symbols).facts
    m = ModuleBuilder()
    params = {own[n]: f"{dtype_of(n.meta['val'].dtype)}[{_dims(n, sizes)}]" for n in tensors}
    b = m.function("main", params, [str(f) for f in (*facts, *extra)])
    walker = Walker(b, sizes, {n: b[own[n]] for n in tensors})
    outputs = walker.run(graph.graph_module)
    returned: list[Any] = []
    results: list[int | None] = []
    numbers: set[int] = set()
    for i, value in enumerate(outputs):
        if value is None or isinstance(value, (bool, int, float)):
            results.append(None)
            continue
        if not is_tensor(value):
            value = b.full(shape=(), value=value, dtype=DType.i64)
            numbers.add(i)
        results.append(len(returned))
        returned.append(value)
    b.span = None
    b.returns(*returned)
    run = compile(m.build()) if returned else _nothing
    constants = tuple(v if isinstance(v, (bool, int, float)) else None for v in outputs)
    return GraphFunction(run, tuple(own.get(n) for n in holders), tuple(results), constants, frozenset(numbers))


def _nothing(**_given: Any) -> tuple[Any, ...]:
    return ()


def _dims(node: Any, sizes: Sizes) -> str:
    return ", ".join(str(sizes.dim(d)) for d in node.meta["val"].shape)
