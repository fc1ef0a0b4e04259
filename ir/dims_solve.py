"""Solving parameter types: from the sizes that arrive to the symbols that the types name.

`x: f32[2*n, n + m]` is two equations, `x.0 == 2*n` and `x.1 == n + m`. The result is a list of steps for the host
program: bind a symbol to an exact quotient of known sizes, or check a size against what it must be. Each equation is
used up by a bind or checked, so that after all steps every size is what its type says.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from .dims import Dim, linear
from .facts import Compare, Facts

MAX_SYSTEMS = 200  # sets of unknowns that are looked at
MAX_UNKNOWNS = 6  # of one system with symbolic coefficients, solved by determinants


@dataclass(frozen=True)
class BindSymbol:
    """symbol = numerator // divisor, over slots and symbols bound before.

    The host must refuse a remainder and a negative result. The divisor is never 0 where the facts hold: a host that
    divides by one that is not constant must have checked the facts of its symbols before.
    """

    symbol: str
    numerator: Dim
    divisor: Dim


@dataclass(frozen=True)
class CheckDim:
    """The size in `slot` must be `expected`, over symbols bound before."""

    slot: str
    expected: Dim


Step: TypeAlias = BindSymbol | CheckDim


@dataclass(frozen=True)
class Solution:
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Unsolvable:
    """Symbols that the sizes do not determine, each with the reason in words."""

    reasons: tuple[tuple[str, str], ...]

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.reasons)


@dataclass(frozen=True)
class _Equation:
    """target == pattern; the target is a slot, or a side of an equality in the facts."""

    target: Dim
    pattern: Dim
    slot: str | None


_Row: TypeAlias = tuple[int, dict[str, Dim]]


def solve(
    slots: Sequence[tuple[str, Dim]], known: Iterable[str] = (), facts: Facts | None = None
) -> Solution | Unsolvable:
    """Steps that bind every symbol of the patterns which is not `known`, in an order that can be run.

    Bare symbols bind first, then those linear in one unknown, then systems of several. A coefficient that is not
    constant may only be divided by if `facts` prove that it is not 0; equalities among them may bind symbols too.
    ValueError when a slot is named like a symbol.
    """
    facts = facts or Facts()
    clash = {slot for slot, _ in slots} & (facts.symbols.union(known, *(p.symbols for _, p in slots)))
    if clash:
        raise ValueError(f"{', '.join(sorted(clash))} names both a slot and a symbol")
    solver = _Solver(slots, frozenset(known), facts)
    while solver.advance():
        pass
    if solver.unknown:
        return Unsolvable(tuple((name, solver.reason(name)) for name in sorted(solver.unknown)))
    return Solution(tuple(solver.steps))


class _Solver:
    """`open` are the equations not used yet, by number; `missing` their symbols not bound yet, `users` the reverse."""

    def __init__(self, slots: Sequence[tuple[str, Dim]], known: frozenset[str], facts: Facts) -> None:
        self.facts = facts
        self.known = set(known)
        self.unknown = set(frozenset().union(*(pattern.symbols for _, pattern in slots)) - known)
        self.all = [_Equation(Dim.of(slot), pattern, slot) for slot, pattern in slots]
        equalities = [fact for fact in facts.facts if isinstance(fact, Compare) and fact.op == "=="]
        equations = [*self.all, *(_Equation(Dim.of(0), fact.lhs - fact.rhs, None) for fact in equalities)]
        self.open = dict(enumerate(equations))
        self.missing = {i: set(e.pattern.symbols - self.known) for i, e in self.open.items()}
        self.users: dict[str, list[int]] = {}
        for i, names in self.missing.items():
            for name in names:
                self.users.setdefault(name, []).append(i)
        self.ready = [i for i, names in self.missing.items() if not names]
        self.bare = deque(i for i, e in self.open.items() if e.pattern.name in self.unknown)
        self.single = {i for i, names in self.missing.items() if len(names) == 1}
        self.steps: list[Step] = []
        self.vanishing: dict[str, Dim] = {}  # unknown -> a determinant that may be 0

    def advance(self) -> bool:
        """One more step, or several; False when there is nothing left that can be done."""
        return self._check() or self._bind_bare() or self._bind_one() or self._bind_system()

    def _check(self) -> bool:
        ready, self.ready = [i for i in sorted(self.ready) if i in self.open], []
        for number in ready:
            equation = self.open.pop(number)
            if equation.slot is not None:
                self.steps.append(CheckDim(equation.slot, equation.pattern))
        return bool(ready)

    def _bind(self, name: str, numerator: Dim, divisor: Dim) -> None:
        if divisor.is_const and divisor.value < 0:
            numerator, divisor = -numerator, -divisor
        if divisor.is_const and numerator.terms:
            content = gcd(divisor.value, *(c for _, c in numerator.terms))
            numerator, divisor = numerator // content, divisor // content
        self.steps.append(BindSymbol(name, numerator, divisor))
        self.known.add(name)
        self.unknown.discard(name)
        for number in self.users.get(name, ()):
            left = self.missing[number]
            left.discard(name)
            if not left:
                self.ready.append(number)
                self.single.discard(number)
            elif len(left) == 1:
                self.single.add(number)

    def _bind_bare(self) -> bool:
        while self.bare:
            number = self.bare.popleft()
            name = self.open[number].pattern.name if number in self.open else None
            if name is not None and name in self.unknown:
                self._bind(name, self.open.pop(number).target, Dim.of(1))
                return True
        return False

    def _bind_one(self) -> bool:
        """slot == coefficient*n + rest with n the only unknown; constant coefficients before symbolic ones."""
        symbolic = None
        for number in sorted(self.single):
            if number not in self.open:
                self.single.discard(number)
                continue
            equation = self.open[number]
            (name,) = self.missing[number]
            split = linear(equation.pattern, name) if name in self.unknown else None
            if split is None:
                self.single.discard(number)  # and never will be
                continue
            if split[0].is_const:
                del self.open[number]
                self._bind(name, equation.target - split[1], split[0])
                return True
            if symbolic is None and self.facts.prove_ne(split[0], 0):
                symbolic = (number, name, split)
        if symbolic is None:
            return False
        number, name, (coefficient, rest) = symbolic
        self._bind(name, self.open.pop(number).target - rest, coefficient)
        return True

    # -- systems

    def _bind_system(self) -> bool:
        """As many equations as unknowns, all linear, with a determinant that is not 0: Cramer's rule."""
        rows = [(number, row) for number in self.open if (row := self._row(number)) is not None]
        for names, members in _systems(rows):
            for picked in _picks(names, [row for _, row in members]):
                matrix = [[members[i][1].get(name, Dim.of(0)) for name in names] for i in picked]
                divisor = _determinant(matrix)
                if divisor != 0 and not self.facts.prove_ne(divisor, 0):
                    for name in names:
                        self.vanishing.setdefault(name, divisor)
                    continue
                if divisor == 0:
                    continue
                self._cramer(names, [members[i][0] for i in picked], matrix, divisor)
                return True
        return False

    def _row(self, number: int) -> dict[str, Dim] | None:
        """Coefficients of the unknowns, over known symbols; None when the pattern is not linear in them."""
        row = {}
        for name in sorted(self.missing[number]):
            split = linear(self.open[number].pattern, name)
            if split is None or name not in self.unknown or not split[0].symbols <= self.known:
                return None
            row[name] = split[0]
        return row

    def _cramer(self, names: list[str], numbers: list[int], matrix: list[list[Dim]], divisor: Dim) -> None:
        zeros: dict[str, Dim | int | str] = dict.fromkeys(names, 0)
        equations = [self.open[number] for number in numbers]
        values = [e.target - e.pattern.subs(zeros) for e in equations]
        numerators = []
        for column in range(len(names)):
            replaced = [[*row[:column], value, *row[column + 1 :]] for row, value in zip(matrix, values, strict=True)]
            numerators.append(_determinant(replaced))
        for number in numbers:
            del self.open[number]
        for name, numerator in zip(names, numerators, strict=True):
            self._bind(name, numerator, divisor)

    # -- reasons

    def reason(self, name: str) -> str:
        """Why `name` could not be solved for."""
        involved = [e for e in self.all if name in e.pattern.symbols]
        texts = [str(e.pattern) for e in involved]
        where = f"`{texts[0]}`" if len(texts) == 1 else f"{', '.join(f'`{t}`' for t in texts[:-1])} and `{texts[-1]}`"
        for equation in involved:
            split = linear(equation.pattern, name)
            if split is None:
                continue
            others = sorted((split[0].symbols | split[1].symbols) - self.known)
            if others:
                continue
            return f"`{equation.pattern}` gives it only where `{split[0]}` is not 0{self._hint(split[0])}"
        if name in self.vanishing:
            verb = "gives" if len(texts) == 1 else "give"
            factor = self.vanishing[name]
            return f"{where} {verb} it only where `{factor}` is not 0{self._hint(factor)}"
        others = sorted({o for e in involved for o in e.pattern.symbols} - self.known - {name})
        if others and any(linear(e.pattern, name) is not None for e in involved):
            verb = "leaves" if len(texts) == 1 else "leave"
            return f"{where} {verb} it open together with {', '.join(f'`{o}`' for o in others)}"
        return f"it stands only in {where}, and sizes are solved only where they are linear in a symbol"

    def _hint(self, factor: Dim) -> str:
        fact = self.facts.suggest(Compare("!=", factor, 0))
        return "" if fact is None else f": say `where {fact}`"


def _systems(rows: list[_Row]) -> Iterator[tuple[list[str], list[_Row]]]:
    """(unknowns, equations): sets of equations that may determine all their unknowns, those of few unknowns first."""
    frontier = {frozenset(row) for _, row in rows}
    seen: set[frozenset[str]] = set()
    while frontier and len(seen) < MAX_SYSTEMS:
        names = min(frontier, key=lambda s: (len(s), sorted(s)))
        frontier.discard(names)
        seen.add(names)
        members = [(e, row) for e, row in rows if row.keys() <= names]
        if len(members) >= len(names):
            yield sorted(names), members
        for _, row in rows:
            if names & row.keys() and (joined := names.union(row)) not in seen:
                frontier.add(joined)


def _picks(names: list[str], rows: list[dict[str, Dim]]) -> Iterator[tuple[int, ...]]:
    """Choices of as many rows as unknowns: the first of full rank, or where a coefficient is symbolic, several."""
    if any(not c.is_const for row in rows for c in row.values()):
        if len(names) <= MAX_UNKNOWNS:
            yield from itertools.islice(itertools.combinations(range(len(rows)), len(names)), 50)
        return
    reduced: list[tuple[int, list[int]]] = []
    picked = []
    for index, row in enumerate(rows):
        vector = [row[name].value if name in row else 0 for name in names]
        for pivot, base in reduced:
            if vector[pivot]:
                a, b = base[pivot], vector[pivot]
                vector = [a * x - b * y for x, y in zip(vector, base, strict=True)]
        lead = next((i for i, x in enumerate(vector) if x), None)
        if lead is not None:
            content = gcd(*vector)
            reduced.append((lead, [x // content for x in vector]))
            picked.append(index)
    if len(picked) == len(names):
        yield tuple(picked)


def _determinant(matrix: list[list[Dim]]) -> Dim:
    """By expansion along the first row; matrices are small and sparse."""
    if not matrix:
        return Dim.of(1)
    total = Dim.of(0)
    for column, factor in enumerate(matrix[0]):
        if factor != 0:
            minor = [[*row[:column], *row[column + 1 :]] for row in matrix[1:]]
            total = total + factor * _determinant(minor) * (-1) ** column
    return total
