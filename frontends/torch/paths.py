"""Which sizes a program is right for: the paths through the model's code.

A trace follows one path: the graph stands for all sizes that its guards allow, and for no others unless it is shown.
What shows it is another trace. For a guard that the known facts do not imply, the model is traced again at sizes for
which it does not hold; if that graph is the same, operator by operator and number by number, what its own guards allow
is right too, and so on until all sizes are accounted for. Where a graph differs, or cannot be made, the guard stays, a
fact of the program. That two paths gave the same values somewhere would show nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from ...ir.dims import Dim
from ...ir.facts import Compare, Fact, Facts
from .assemble import Assembled
from .guards import Guard
from .same import same_graph

Point = Mapping[str, int]
"""A value for every size that the arguments say."""

_TRACES = 12
_REGIONS = 24
_CANDIDATES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17)


@dataclass(frozen=True)
class Traced:
    """A graph that was made at some sizes: the program, its nodes' values, and what was asked on the way."""

    program: Any
    made: Assembled
    guards: tuple[Guard, ...]

    @property
    def values(self) -> Mapping[Any, Any]:
        return self.made.values

    def shape(self, node: Any) -> list[Dim]:
        """The sizes of a tensor, KeyError for a node that was not walked."""
        return list(self.made.shapes(node))


@dataclass(frozen=True)
class Failed:
    """A trace that failed; `refused` where the model itself fails at these sizes."""

    why: str
    refused: bool


@dataclass(frozen=True)
class Kept:
    """A guard that stays; `why` says what is different without it, `refused` that the model fails there."""

    guard: Guard
    why: str
    refused: bool = False


Trace = Callable[[Point, Facts], Traced | Failed]
"""Traces at a point, under what is known there."""


@dataclass
class Paths:
    """`first` is the graph to be served, `example` the sizes it was made at."""

    first: Traced
    example: Point
    trace: Trace
    notes: list[str] = field(default_factory=list)
    _traces: dict[tuple[tuple[str, int], ...], Traced | Failed] = field(default_factory=dict)
    _regions: int = 0

    def kept(self, known: Facts) -> tuple[Kept, ...]:
        """The guards that are facts of the program, beyond what is known."""
        found: list[Kept] = []
        for guard in sorted(self.first.guards, key=lambda g: not g.own):
            if guard.clause.follows(known):
                continue
            other = self._elsewhere(known, guard.clause.opposite())
            if other is not None:
                found.append(Kept(guard, other.why, other.refused))
                if len(guard.clause.facts) == 1:
                    known = known.add(*guard.clause.facts)
            elif guard.place is not None and guard.place.is_own:
                said = f"{guard.clause}, asked for at {guard.place}, is not needed: the graph is the same without it"
                self.notes.append(said)
        return tuple(found)

    def _elsewhere(self, known: Facts, opposite: Sequence[Compare]) -> Failed | None:
        """None if the graph is the same wherever all of `opposite` hold; else what is known to differ."""
        region = known.add(*opposite)
        if region.contradiction() is not None:
            return None
        self._regions += 1
        point = self._point(region)
        if point is None or self._regions > _REGIONS:
            return Failed("it was not traced there", refused=False)
        key = tuple(sorted(point.items()))
        if key not in self._traces:
            if len(self._traces) >= _TRACES:
                return Failed("it was not traced there", refused=False)
            self._traces[key] = self.trace(point, region)
        other = self._traces[key]
        at = ", ".join(f"{n} = {point[n]}" for n in sorted(_symbols(opposite)))
        if isinstance(other, Failed):
            said = "the model itself fails" if other.refused else other.why
            return Failed(f"at {at} {said}", other.refused)
        difference = same_graph(self.first, other, region.add(*_plain(other.guards)))
        if difference is not None:
            return Failed(f"at {at} the model goes another way: {difference}", refused=False)
        for guard in other.guards:
            if not guard.clause.follows(region):
                found = self._elsewhere(region, guard.clause.opposite())
                if found is not None:
                    return found
        return None

    def _point(self, region: Facts) -> Point | None:
        """Sizes in a region, as near to the example's as may be: those of which it speaks are tried small first."""
        names = sorted(self.example)
        for tried in _combinations(names, self.example, region):
            try:
                if region.holds(tried):
                    return tried
            except (KeyError, ZeroDivisionError):
                continue
        return None


def _combinations(names: Sequence[str], example: Point, region: Facts) -> Iterator[Point]:
    """First one size at a time, then two, then all of few."""
    bounds = {n: region.bounds(Dim.of(n)) for n in names}
    values = {n: _values(example[n], *bounds[n]) for n in names}
    yield example
    for name in names:
        for value in values[name]:
            yield {**example, name: value}
    for i, first in enumerate(names[:8]):
        for second in names[i + 1 : 8]:
            for a, b in product(values[first], values[second]):
                yield {**example, first: a, second: b}
    for value in _CANDIDATES:
        yield dict.fromkeys(names, value)


def _values(hint: int, low: int | None, high: int | None) -> list[int]:
    wanted = [*_CANDIDATES, hint - 1, hint + 1, 2 * hint, low or 0, (low or 0) + 1]
    wanted += [] if high is None else [high, high - 1]
    return [v for v in dict.fromkeys(wanted) if v >= (low or 0) and (high is None or v <= high) and v <= 1 << 16]


def _symbols(facts: Sequence[Fact]) -> frozenset[str]:
    return frozenset[str]().union(*(f.symbols for f in facts))


def _plain(guards: Sequence[Guard]) -> tuple[Fact, ...]:
    return tuple(g.clause.facts[0] for g in guards if len(g.clause.facts) == 1)

