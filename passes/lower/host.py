"""The host side of a function: bind and check symbols, place buffers, launch kernels in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ...ir import graph
from ...ir.diagnostics import Span, error
from ...ir.dims import Dim
from ...ir.dims_solve import BindSymbol as Bound
from ...ir.dims_solve import Unsolvable, solve
from ...ir.facts import Fact, Facts
from ...ir.infer import text_of
from ...ir.loops import (
    BindSymbol,
    CheckEqual,
    CheckFact,
    Const,
    Copy,
    HostProgram,
    HostStep,
    HostTensor,
    Index,
    Kernel,
    Launch,
    Ref,
)
from ...ir.size_values import value_facts
from ...ir.types import TensorType
from ..planner import Plan, plan, with_room_in_use
from .kernel import Scope
from .nodes import Value
from .place import Placement, place


@dataclass(frozen=True)
class Given:
    """A tensor whose sizes bind symbols: its slots are `name.d`; `actual` maps slots to sizes known otherwise."""

    name: str
    type: TensorType
    origin: str
    span: Span | None


def binding_steps(
    given: Sequence[Given], known: frozenset[str], facts: Facts, where: Sequence[Fact], actual: Mapping[str, Dim]
) -> list[HostStep]:
    """The steps that bind the symbols of `given` and check every size and fact.

    `actual` gives the values of slots that are no argument's sizes (those of a match_cast).
    """
    patterns = [(f"{g.name}.{d}", size) for g in given for d, size in enumerate(g.type.dims)]
    origins = {g.name: g for g in given}
    solved = solve(patterns, known, facts)
    if isinstance(solved, Unsolvable):
        why = "; ".join(f"{symbol}: {reason}" for symbol, reason in solved.reasons)
        raise error(f"the sizes given do not determine every symbol ({why})", given[0].span)
    steps: list[HostStep] = []
    ready = _in_order(where, known)
    all_slots = {slot for slot, _ in patterns}
    for s in solved.steps:
        slots = s.numerator.symbols & all_slots if isinstance(s, Bound) else {s.slot}
        g = origins[min(slots).rpartition(".")[0]] if slots else given[0]
        if isinstance(s, Bound):
            steps.append(BindSymbol(s.symbol, s.numerator.subs(actual), s.divisor, g.origin, g.span))
            # A fact is checked as soon as it can be: a later division may rely on it.
            steps.extend(CheckFact(f, str(f), f.span) for f in ready(s.symbol))
        else:
            steps.append(CheckEqual(Dim.of(s.slot).subs(actual), s.expected, g.origin, g.span))
    steps.extend(CheckFact(f, str(f), f.span) for f in ready(None))
    return steps


def _in_order(facts: Sequence[Fact], known: Collection[str]) -> Callable[[str | None], list[Fact]]:
    """A function that is told each symbol when it is bound: the facts that can be checked then; at the end the rest."""
    missing = [set(f.symbols).difference(known) for f in facts]
    users: dict[str, list[int]] = {}
    for i, names in enumerate(missing):
        for name in names:
            users.setdefault(name, []).append(i)
    free = [i for i, names in enumerate(missing) if not names]
    left = dict(enumerate(facts))

    def ready(symbol: str | None) -> list[Fact]:
        if symbol is None:
            return list(left.values())
        found, free[:] = list(free), []
        for i in users.get(symbol, ()):
            missing[i].discard(symbol)
            if not missing[i]:
                found.append(i)
        return [left.pop(i) for i in sorted(found)]

    return ready


def function_host(
    module: graph.Module, scope: Scope, kernels: list[Kernel], prepared: Collection[str], budget_s: float
) -> tuple[HostProgram, Plan]:
    """The host program of one function, and the plan of its arena.  `prepared` weights are made by the load program."""
    flow, function = scope.flow, scope.flow.function
    inherited = _weight_symbols(module)
    params = [n for n in flow.sources if not n.startswith("@")]
    spans = {p.name: p.span for p in function.params}
    given = [Given(n, flow.sources[n], f"{n}: {flow.sources[n]}", spans.get(n.partition(".")[0])) for n in params]
    steps = binding_steps(given, inherited, scope.facts, function.facts, {})
    bound = inherited | {s.symbol for s in steps if isinstance(s, BindSymbol)}
    for cast in flow.casts:
        if isinstance(cast, graph.Bind):
            steps.extend(_bind_steps(cast, flow.bound[cast.symbol]))
            bound |= {cast.symbol}
            continue
        if flow.types[flow.alias_of[cast.target.name]] == cast.target.type:
            steps.extend(CheckFact(f, str(f), f.span) for f in cast.facts)  # the sizes are the parameter's own
            continue
        more = _cast_steps(scope, cast, bound)
        bound |= {s.symbol for s in more if isinstance(s, BindSymbol)}
        steps.extend(more)
    types = {w.name: w.type for w in module.weights} | {c.name: c.type for c in module.consts}
    for fact, span in value_facts(function, types, scope.facts):
        steps.append(CheckFact(fact, f"the size {fact.dim} as a value", span))
    spaces = {w.name: "packed" if w.name in prepared else "weight" for w in module.weights}
    placed = place(scope, kernels, spaces | {c.name: "const" for c in module.consts})
    likely = [{item.symbol: value} for item in function.likely for value in item.values]
    arena = plan(placed.buffers, scope.facts, budget_s=budget_s, samples=likely)
    used = with_room_in_use(arena, placed.buffers, scope.facts, budget_s)
    refs = {name: Ref("packed", name) for name in scope.packs} | buffer_refs(scope, placed, used)
    launches = tuple(launch(k, [refs[b.name] for b in k.buffers]) for k in kernels)
    inout = {p.name for p in function.params if p.inout}
    host = HostProgram(
        function.name,
        tuple(HostTensor(n, flow.sources[n].dtype, flow.sources[n].dims, n in inout) for n in params),
        tuple(placed.outputs),
        tuple(placed.results),
        tuple(sorted(inherited)),
        tuple(steps),
        (*launches, *(placed_copy(c, used) for c in placed.copies)),
        used.arena_bytes,
        single_result=len(placed.results) == 1,
    )
    return host, arena


def _cast_steps(scope: Scope, cast: graph.MatchCast, bound: frozenset[str]) -> list[HostStep]:
    """Checks of a match_cast; the sizes it asserts something of are known here, so it costs nothing later."""
    name, type_ = cast.target.name, cast.target.type
    assert isinstance(type_, TensorType)
    source = scope.flow.alias_of[name]
    sizes = scope.flow.types[source].dims
    actual = {f"{name}.{d}": size for d, size in enumerate(sizes)}
    given = Given(name, type_, f"match_cast {name}: {type_}", cast.span)
    return binding_steps([given], bound, scope.facts, cast.facts, actual)


def _bind_steps(bind: graph.Bind, value: Value) -> list[HostStep]:
    """Makes a size of a value that the host has, and checks what is said of it."""
    if isinstance(value, str):
        known = Dim.of(f"{value}.0")  # how steps write the value of a scalar parameter
    else:
        assert isinstance(value, (Index, Const)), "inferred"
        known = value.dim if isinstance(value, Index) else Dim.of(int(value.value))
    origin = f"bind {bind.symbol} = {text_of(bind.operand)}"
    steps: list[HostStep] = [BindSymbol(bind.symbol, known, Dim.of(1), origin, bind.span)]
    return [*steps, *(CheckFact(f, str(f), f.span) for f in bind.facts)]


def _weight_symbols(module: graph.Module) -> frozenset[str]:
    return frozenset(s for w in module.weights for d in w.type.dims for s in d.symbols)


def launch(kernel: Kernel, refs: Sequence[Ref]) -> Launch:
    """One call of a kernel, whose sizes have their names in the host program."""
    return Launch(kernel.name, tuple(refs), tuple(Dim.of(s) for s in kernel.sizes))


def buffer_refs(scope: Scope, placed: Placement, arena: Plan) -> dict[str, Ref]:
    """Buffer names to places."""
    refs: dict[str, Ref] = {}
    for name in scope.flow.types:
        root = scope.flow.root(name)
        if root in placed.refs:
            refs[scope.buffer(root)] = _at(placed.refs[root], arena)
    return refs


def _at(ref: Ref, arena: Plan) -> Ref:
    return replace(ref, offset=arena.offsets[ref.name]) if ref.space == "arena" else ref


def placed_copy(copy: Copy, arena: Plan) -> Copy:
    """The copy with its places in the arena known."""
    return Copy(_at(copy.source, arena), _at(copy.target, arena), copy.bytes)
