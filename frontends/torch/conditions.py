"""Conditions on sizes, as torch's guards say them: clauses, of each of which one part holds.

A guard with `and` and `or` in it stays a condition: made a number (`max(0, min(1, ..)) == 1`) it would be proven and
printed as one, at great cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from ...ir.diagnostics import error
from ...ir.facts import Compare, CompareOp, Facts
from .sizes import Sizes, plain

_NEGATED: Mapping[CompareOp, CompareOp] = {"==": "!=", "!=": "==", "<=": ">", "<": ">=", ">=": "<", ">": "<="}
_MOST = 32
"""Clauses of one guard."""


def negated(fact: Compare) -> Compare:
    """What holds where the fact does not."""
    return Compare(_NEGATED[fact.op], fact.lhs, fact.rhs)


@dataclass(frozen=True)
class Clause:
    """One of `facts` holds."""

    facts: tuple[Compare, ...]

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset[str]().union(*(f.symbols for f in self.facts))

    def holds(self, values: Mapping[str, int]) -> bool:
        return any(_holds(f, values) for f in self.facts)

    def follows(self, known: Facts) -> bool:
        """Whether it is known to hold, by a proof."""
        first, *rest = self.facts
        if any(known.prove(f) for f in self.facts):
            return True
        return bool(rest) and known.add(*map(negated, rest)).prove(first)

    def opposite(self) -> tuple[Compare, ...]:
        """What holds where it does not."""
        return tuple(map(negated, self.facts))

    def fact(self, sizes: Sizes) -> Compare:
        """It as one fact: itself where it is one, else a sum of indicators."""
        if len(self.facts) == 1:
            return self.facts[0]
        return Compare(">=", sum_of(sizes.indicator_of(f) for f in self.facts), 1)

    def __str__(self) -> str:
        return " or ".join(map(str, self.facts))


def _holds(fact: Compare, values: Mapping[str, int]) -> bool:
    try:
        return fact.holds(values)
    except ZeroDivisionError:
        return False


def sum_of(dims: Iterable[Any]) -> Any:
    first, *rest = dims
    for d in rest:
        first = first + d
    return first


def clauses(expr: Any, sizes: Sizes) -> tuple[Clause, ...]:
    """What a condition of torch's says of sizes; CompileError for what has no meaning here."""
    return tuple(Clause(tuple(dict.fromkeys(c))) for c in _clauses(expr, sizes, True))


def _clauses(expr: Any, sizes: Sizes, positive: bool) -> list[tuple[Compare, ...]]:
    kind = type(expr).__name__
    if kind in ("BooleanTrue", "BooleanFalse"):
        return [] if (kind == "BooleanTrue") == positive else [(Compare("==", 0, 1),)]
    if kind == "Not":
        return _clauses(expr.args[0], sizes, not positive)
    if kind in ("And", "Or"):
        parts = [_clauses(a, sizes, positive) for a in expr.args]
        if (kind == "And") == positive:
            return [c for part in parts for c in part]
        spread = [tuple(f for c in chosen for f in c) for chosen in product(*parts)]
        if len(spread) > _MOST:
            raise error(f"the condition `{expr}` on sizes is too long", helps=("say it in parts, with torch._check",))
        return spread
    fact = sizes.relation(expr)
    return [(plain(fact if positive else negated(fact)),)]
