"""What is known in a module and at the head of a function: symbols, where they were bound, and facts.

The facts of a function are those of the weights (checked at load), its own `where` clause (checked at every call) and
what the types themselves say: a size is never negative, so `x: f32[n - 1]` means `n >= 1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from .diagnostics import CompileError, Diagnostic, Span
from .dims import Dim
from .dims_solve import Step, Unsolvable, solve
from .facts import Compare, Fact, Facts
from .graph import Function, Module, Param, Weight
from .types import TensorType, TupleType, Type

MOST_NAMED = 8  # facts of a contradiction that are written out


@dataclass
class ScopeFacts:
    """`origins` says of every symbol what bound it, in a sentence; `where` of the facts' places is in the facts."""

    facts: Facts = field(default_factory=Facts)
    symbols: frozenset[str] = frozenset()
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    callees: Callees = field(default_factory=lambda: Callees())


@dataclass
class Callees:
    """What callers ask of the functions of one module, by name, worked out once.

    `steps` bind a function's symbols to the sizes of its parameters; `leaves` are those of
    its parameters that it makes sizes of.
    """

    steps: dict[str, tuple[Step, ...] | Unsolvable] = field(default_factory=dict)
    leaves: dict[str, frozenset[str]] = field(default_factory=dict)


def module_scope(module: Module, checked: bool = False) -> ScopeFacts:
    """What the weights bind and promise."""
    return _bound(ScopeFacts(), module.weights, [f for w in module.weights for f in w.facts], checked)


def function_scope(
    module: Module, function: Function, outer: ScopeFacts | None = None, checked: bool = False
) -> ScopeFacts:
    """What is known at the start of a function's body; `problems` are wrong parameter types and contradictions.

    Of a function that was `checked` before, problems are not looked for.
    """
    return _bound(outer or module_scope(module, checked), function.params, function.facts, checked)


def function_facts(module: Module, function: Function) -> Facts:
    """The facts at the start of a function's body."""
    return function_scope(module, function, checked=True).facts


def _bound(outer: ScopeFacts, given: Sequence[Param | Weight], where: Sequence[Fact], checked: bool) -> ScopeFacts:
    sign = "@" if given and isinstance(given[0], Weight) else ""
    patterns: list[tuple[str, Dim]] = []
    origins, problems = dict(outer.origins), []
    for item in given:
        new = symbols_of(item.type) - origins.keys()
        origins.update({s: origin(s, f"{sign}{item.name}: {item.type}", item.span) for s in new})
        patterns += slots(item.name, item.type)
    symbols = outer.symbols.union(*(symbols_of(item.type) for item in given))
    solution = None if checked else solve(patterns, outer.symbols, outer.facts.add(*where))
    if isinstance(solution, Unsolvable):
        problems += [_unsolvable(symbol, reason, given) for symbol, reason in solution.reasons]
    for fact in where:
        if not fact.symbols <= symbols:
            missing = sorted(fact.symbols - symbols)[0]
            problems.append(Diagnostic(f"the fact `{fact}` speaks of `{missing}`, which nothing binds", fact.span))
    facts = outer.facts.add(*where)
    conflict = None if checked else contradiction(facts, where)
    if conflict is not None:
        return ScopeFacts(outer.facts, symbols, origins, [*problems, conflict])
    implied = [Compare(">=", d, 0) for _, d in patterns if not d.is_const and d.name is None]
    facts = facts.add(*(f for f in implied if not facts.prove(f)))
    return ScopeFacts(facts, symbols, origins, problems)


def _unsolvable(symbol: str, reason: str, given: Sequence[Param | Weight]) -> Diagnostic:
    span = next((g.span for g in given if symbol in symbols_of(g.type)), None)
    help = f"let a parameter have `{symbol}` as a size of its own"
    return Diagnostic(f"the sizes of the arguments do not determine `{symbol}`", span, "", (reason,), (help,))


def origin(symbol: str, text: str, span: Span | None) -> str:
    """The sentence for messages: `n was bound by x: f32[n, 64] at f.ir:3:12`."""
    return f"{symbol} was bound by {text}" + (f" at {span}" if span else "")


def symbols_of(t: Type) -> frozenset[str]:
    """Every symbol of a type."""
    if isinstance(t, TupleType):
        return frozenset[str]().union(*map(symbols_of, t.items))
    return frozenset[str]().union(*(d.symbols for d in t.shape or ()))


def slots(name: str, t: Type) -> Iterator[tuple[str, Dim]]:
    """(slot, size) for every dimension: `x.0`, `x.1`; for a tuple `x.0.1` is dimension 1 of its first item."""
    if isinstance(t, TupleType):
        for i, item in enumerate(t.items):
            yield from slots(f"{name}.{i}", item)
    else:
        for i, d in enumerate(t.shape or ()):
            yield f"{name}.{i}", d


def contradiction(facts: Facts, new: Iterable[Fact]) -> Diagnostic | None:
    """The smallest set of facts that cannot all hold, at the place of the last of them."""
    if not list(new):
        return None
    conflict = facts.contradiction()
    if conflict is None:
        return None
    placed = sorted((f for f in conflict if f.span is not None), key=lambda f: f.span or Span("", 0, 0, 0, 0))
    if len(conflict) == 1:
        message = f"no size can satisfy `{conflict[0]}`"
        return Diagnostic(message, conflict[0].span, helps=("sizes are never negative",))
    message = "these facts contradict one another: " + ", ".join(f"`{f}`" for f in conflict[:MOST_NAMED])
    notes = tuple(f"`{f}` stands at {f.span}" for f in placed[:MOST_NAMED])
    if len(conflict) > MOST_NAMED:
        message += f" and {len(conflict) - MOST_NAMED} more"
    return Diagnostic(message, placed[-1].span if placed else None, "", notes, ("leave out one of them",))


def raise_problems(problems: Sequence[Diagnostic]) -> None:
    """Raises them together, if there are any."""
    if problems:
        raise CompileError(tuple(problems))


def rank_known(t: Type) -> bool:
    return isinstance(t, TensorType) and t.shape is not None
