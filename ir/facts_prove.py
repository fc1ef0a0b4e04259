"""The prover: is a dim >= 0, == 0, != 0 or a multiple of k wherever the facts of a `Domain` hold?

Sound and incomplete, within the budget of the domain. In this order: the canonical form after the equalities; bounds by
intervals; known examples, which refute what is false without a search; replacing terms by what the constraints say
bounds them, best first; exact linear programming around the goal; every value of a symbol that has few.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil, floor, gcd

from .dims import (
    Atom,
    Dim,
    Extremum,
    FloorDiv,
    Monomial,
    children,
    make,
    monomial_key,
    monomial_quotient,
    of_atom,
    size_of,
)
from .facts_budget import Budget
from .facts_constraints import move_division, split_extremum, tighten
from .facts_difference import consistent_differences
from .facts_domain import Domain
from .facts_examples import Example
from .facts_interval import Interval, intersect
from .facts_linear import minimum

STEPS = 150  # of one search, plus one for each constraint (a chain of facts takes a step each)
CONTRADICTION_STEPS = 3000  # of all searches for a contradiction together
MIN_STEPS = 12  # of each of them
LINEAR_CONSTRAINTS = 48  # most that one linear program takes
PIVOTS = 200
CASES = 64  # most values that one goal is split into


class Prover:
    """Questions about dims over the symbols that the domain has left; answers are kept."""

    def __init__(self, domain: Domain, examples: Callable[[], list[Example]]) -> None:
        self.domain = domain
        self._find_examples = examples
        self._nonnegative: dict[Dim, bool] = {}
        self._nonzero: set[Dim] | None = None
        self._simple: dict[Atom, Dim] = {}

    @property
    def budget(self) -> Budget:
        """Of the question that is being asked."""
        return self.domain.budget

    # -- questions

    def nonnegative(self, dim: Dim) -> bool:
        """dim >= 0."""
        return dim in self.domain.given or self._prove(self.resolve(dim))

    def zero(self, dim: Dim) -> bool:
        """dim == 0."""
        if dim in self.domain.given and -dim in self.domain.given:
            return True
        dim = self.resolve(dim)
        if dim.is_const:
            return dim == 0
        if not self.budget.spend(size_of(dim)):
            return False
        if any(example.value(dim) for example in self._find_examples()):
            return False
        if halves_joined(dim) == 0:
            return True
        if self._prove(dim) and self._prove(-dim):
            return True
        return any(all(self.zero(case) for case in cases) for cases in self._cases(dim)) or self._in_ideal(dim)

    def nonzero(self, dim: Dim) -> bool:
        """dim != 0."""
        dim = self.resolve(dim)
        lo, hi = self.domain.interval(dim)
        if dim.is_const or (lo is not None and lo > 0) or (hi is not None and hi < 0):
            return dim != 0
        if not self.budget.spend(size_of(dim)):
            return False
        if any(example.value(dim) == 0 for example in self._find_examples()):
            return False
        content = gcd(*(c for m, c in dim.terms if m))
        if dim.constant % content:
            return True
        if dim in self._differences():
            return True
        common = [atom for atom in dim.atoms if all(atom in m for m, _ in dim.terms)]
        if common and dim != of_atom(common[0]):
            rest = make({monomial_quotient(m, (common[0],)) or (): c for m, c in dim.terms})
            if self.nonzero(of_atom(common[0])) and self.nonzero(rest):
                return True
        if self._prove(dim - 1) or self._prove(-dim - 1):
            return True
        return any(all(self.nonzero(case) for case in cases) for cases in self._cases(dim))

    def _differences(self) -> set[Dim]:
        """What the facts say is not 0, resolved as goals are, with either sign."""
        if self._nonzero is None:
            self._nonzero = set()
            for dim in self.domain.ne:
                resolved = self.resolve(dim)
                self._nonzero |= {dim, -dim, resolved, -resolved}
        return self._nonzero

    def divisible(self, dim: Dim, divisor: Dim) -> bool:
        """dim is a multiple of a divisor that is not 0."""
        return self.nonzero(divisor) and self.zero(dim % self.resolve(divisor))

    def bounds(self, dim: Dim) -> Interval:
        """Bounds by intervals, each end tightened by the relations between the symbols."""
        dim = self.resolve(dim)
        lo, hi = self.domain.interval(dim)
        if len(dim.terms) > 1 or lo is None or hi is None:
            least, most = self._least(dim), self._least(-dim)
            lo, hi = intersect(
                (lo, hi), (None if least is None else ceil(least), None if most is None else floor(-most))
            )
        return lo, hi

    def contradiction(self) -> bool:
        """Whether no values satisfy the domain, by its constraints taken one against the others."""
        domain = self.domain
        if domain.contradictory:
            return True
        consistent, all_ = consistent_differences(domain)
        if not consistent or all_:
            return not consistent
        steps = max(MIN_STEPS, CONTRADICTION_STEPS // max(1, len(domain.ge)))
        return (
            any(self._search(-c - 1, steps) or self._by_linear_program(-c - 1, without=c) for c in domain.ge)
            or any(self.zero(d) for d in domain.ne)
            or any(all(self.nonzero(d - value) for value in values) for d, values in domain.one_of)
        )

    # -- simplification

    def resolve(self, dim: Dim) -> Dim:
        """The dim after the equalities, with every division and extremum settled that the facts settle."""
        dim = self.domain.solve(dim)
        if all(isinstance(atom, str) for m, _ in dim.terms for atom in m):
            return dim
        return Dim.sum(self._resolve_term(m, c) for m, c in dim.terms)

    def _resolve_term(self, monomial: Monomial, coefficient: int) -> Dim:
        factors = (Dim.of(a) if isinstance(a, str) else self._resolve_atom(a) for a in monomial)
        return Dim.product([Dim.of(coefficient), *factors])

    def _resolve_atom(self, atom: FloorDiv | Extremum) -> Dim:
        found = self._simple.get(atom)
        if found is None:
            if not self.budget.spend(atom.extent[1]):
                return of_atom(atom)
            self._simple[atom] = of_atom(atom)  # what is asked on the way takes it as it stands
            parts = [self.resolve(child) for child in children(atom)]
            found = self._extremum(atom, parts) if isinstance(atom, Extremum) else self._division(*parts)
            self._simple[atom] = found
            if self.budget.out:
                del self._simple[atom]
        return found

    def _extremum(self, atom: Extremum, args: list[Dim]) -> Dim:
        """Without the arguments that another one is always at least as good as."""
        sign = 1 if atom.kind == "max" else -1
        kept: list[Dim] = []
        for i, arg in enumerate(args):
            others = kept + args[i + 1 :]
            if not any(self._prove((other - arg) * sign) for other in others):
                kept.append(arg)
        return (Dim.max if atom.kind == "max" else Dim.min)(*kept)

    def _division(self, numerator: Dim, divisor: Dim) -> Dim:
        """floor(numerator / divisor): of terms with a common factor, the rest adding less than that factor."""
        whole = numerator // divisor
        division = next((a for a in whole.atoms if isinstance(a, FloorDiv) and whole.coefficient((a,))), None)
        if division is None or abs(whole.coefficient((division,))) != 1:
            return whole
        sign = whole.coefficient((division,))
        rest = whole - of_atom(division) * sign
        a, b = division.numerator, division.denominator
        if not b.is_const and (self.domain.interval(b)[0] or 0) < 1 and not self._prove(b - 1):
            return whole
        for quotient in (0, -1, 1):  # a in quotient*b .. quotient*b + b - 1
            low = a - b * quotient
            if self._prove(low) and self._prove(b - 1 - low):
                return rest + sign * quotient
        lo, hi = self.domain.interval(of_atom(division))
        if lo is not None and lo == hi:
            return rest + sign * lo
        for factor in _common_factors(a, b):
            multiple, remainder = _multiples(a, factor)
            if multiple != 0 and self._prove(remainder) and self._prove(factor - 1 - remainder):
                # floor((g*x + r) / (g*k)) == floor(x / k) for 0 <= r < g
                return rest + self._division(multiple // factor, b // factor) * sign
        return whole

    # -- proof that a dim is >= 0

    def _prove(self, dim: Dim) -> bool:
        dim = tighten(dim)
        if dim.is_const:
            return dim.value >= 0
        found = self._nonnegative.get(dim)
        if found is None:
            if not self.budget.spend(size_of(dim)):
                return False
            self._nonnegative[dim] = False  # a proof must not rest on itself
            found = self._nonnegative[dim] = self._prove_new(dim)
            if self.budget.out and not found:
                del self._nonnegative[dim]
        return found

    def _prove_new(self, dim: Dim) -> bool:
        lo, hi = self.domain.interval(dim)
        if lo is not None and lo >= 0:
            return True
        if (hi is not None and hi < 0) or any((example.value(dim) or 0) < 0 for example in self._find_examples()):
            return False
        if dim in self.domain.ge:
            return True
        parts = split_extremum(dim)
        if parts is not None:
            return all(self._prove(part) for part in parts)
        moved = move_division(dim, self.domain.interval)
        if moved is not None:
            return self._prove(moved)
        if self._search(dim) or self._by_linear_program(dim):
            return True
        return any(all(self._prove(case) for case in cases) for cases in self._cases(dim))

    def _search(self, goal: Dim, steps: int | None = None) -> bool:
        """Best-first over goals that imply `goal`; each is scale*goal less something that is >= 0."""
        tie = itertools.count()
        seen = {goal}
        heap = [(self._difficulty(goal), 0, 1, goal)]
        for _ in range(STEPS + len(self.domain.ge) if steps is None else steps):
            if not heap:
                return False
            _, _, scale, dim = heapq.heappop(heap)
            for factor, weaker in self._weaken(dim):
                if not self.budget.spend(len(dim.terms) + len(weaker.terms)):
                    return False
                # The goal is an integer: scale*goal > -scale is enough.
                if self._bottom(weaker) > -scale * factor:
                    return True
                if weaker not in seen and len(weaker.terms) <= len(goal.terms) + 4 and scale * factor < 1 << 32:
                    seen.add(weaker)
                    heapq.heappush(heap, (self._difficulty(weaker), -next(tie), scale * factor, weaker))
        return False

    def _bottom(self, dim: Dim) -> float:
        lo = self.domain.interval(dim)[0]
        return float("-inf") if lo is None else lo

    def _difficulty(self, dim: Dim) -> tuple[int, int]:
        unbounded = sum(self.domain.interval(make({m: c}))[0] is None for m, c in dim.terms)
        return (unbounded, len(dim.terms))

    def _weaken(self, dim: Dim) -> Iterator[tuple[int, Dim]]:
        """(factor, weaker) with factor*dim == weaker + something >= 0, one term of `dim` replaced by its bound."""
        for monomial, coefficient in dim.terms:
            for part, rest in _splits(monomial):
                if rest and self._bottom(make({rest: 1})) < 0:
                    continue
                for constraint in self._bounds_of(part, coefficient > 0, bool(rest)):
                    step = abs(constraint.coefficient(part))
                    common = gcd(step, coefficient)
                    amount = make({rest: abs(coefficient) // common})
                    yield step // common, dim * (step // common) - amount * constraint

    def _bounds_of(self, part: Monomial, below: bool, within: bool) -> Iterator[Dim]:
        """Dims that are >= 0 and hold `part` with a positive (below) or negative coefficient."""
        yield from self.domain.by_term.get((part, below), ())
        for atom in set(part):
            if not isinstance(atom, str):
                yield from (
                    c for c in self._definition(atom) if (c.coefficient(part) > 0) == below and c.coefficient(part)
                )
        if within and len(part) == 1:
            lo, hi = self.domain.interval(of_atom(part[0]))
            if below and lo is not None and lo > 0:
                yield of_atom(part[0]) - lo
            elif not below and hi is not None:
                yield hi - of_atom(part[0])

    def _definition(self, atom: FloorDiv | Extremum) -> list[Dim]:
        """Dims that are >= 0 by what the atom means."""
        value = of_atom(atom)
        if isinstance(atom, Extremum):
            return [arg - value if atom.kind == "min" else value - arg for arg in atom.arguments]
        a, b = atom.numerator, atom.denominator
        if not b.is_const and (self.domain.interval(b)[0] or 0) < 1:
            return []
        known = [a - b * value, b * value + b - 1 - a]
        if not b.is_const and self._bottom(a) >= 0:
            known += [value, a - value]
        return known

    def _by_linear_program(self, goal: Dim, without: Dim | None = None) -> bool:
        least = self._least(goal, without)
        return least is not None and least > -1

    def _least(self, goal: Dim, without: Dim | None = None) -> Fraction | None:
        """A lower bound: monomials as variables, under the constraints that share some with the goal, nearest first."""
        constraints: dict[Dim, None] = {}
        monomials = {m for m, _ in goal.terms if m}
        frontier = sorted(monomials, key=monomial_key)
        while frontier:
            reached: list[Monomial] = []
            for constraint in self._near(frontier):
                if constraint in constraints or constraint == without:
                    continue
                constraints[constraint] = None
                if len(constraints) > LINEAR_CONSTRAINTS:
                    return None
                for m, _ in constraint.terms:
                    if m and m not in monomials:
                        monomials.add(m)
                        reached.append(m)
            frontier = reached
        rows = [({m: c for m, c in d.terms if m}, d.constant) for d in constraints]
        if all(len(row) <= 1 for row, _ in rows):
            return None  # bounds alone: intervals have seen them
        least = minimum({m: c for m, c in goal.terms if m}, rows, PIVOTS, self.budget)
        return None if least is None else least + goal.constant

    def _near(self, monomials: list[Monomial]) -> Iterator[Dim]:
        for monomial in monomials:
            lo, hi = self.domain.interval(make({monomial: 1}))
            if lo is not None:
                yield make({monomial: 1}) - lo
            if hi is not None:
                yield hi - make({monomial: 1})
            for sign in (True, False):
                yield from self.domain.by_term.get((monomial, sign), ())
            for atom in monomial:
                if not isinstance(atom, str):
                    yield from self._definition(atom)

    # -- cases

    def _cases(self, dim: Dim) -> Iterator[list[Dim]]:
        """For each symbol of `dim` with few possible values, `dim` at each of them."""
        for name in sorted(dim.symbols):
            values = self.values(name)
            if values is not None and self.budget.spend(len(values) * size_of(dim)):
                yield [dim.subs({name: value}) for value in values]

    def values(self, name: str, narrow: bool = False) -> list[int] | None:
        """The values a symbol may take, where a fact lists them, or with `narrow` where its bounds leave few."""
        lo, hi = self.domain.symbol(name)
        for dim, choices in self.domain.one_of:
            if dim.name == name and len(choices) <= CASES:
                return [v for v in choices if (lo is None or v >= lo) and (hi is None or v <= hi)]
        return list(range(lo, hi + 1)) if narrow and lo is not None and hi is not None and hi - lo < CASES else None

    def _in_ideal(self, dim: Dim) -> bool:
        """Equalities between products: is dim a combination of them? Asked of sympy, only where there are any."""
        equations = [e for e in self.domain.eq if not e.symbols.isdisjoint(dim.symbols)]
        if not equations:
            return False
        from .dims_algebra import in_ideal

        return in_ideal(dim, self.domain.eq)


def _splits(monomial: Monomial) -> Iterator[tuple[Monomial, Monomial]]:
    """(part, rest) of a monomial: itself, and if it is a short product, each factor and pair of factors."""
    if monomial:
        yield monomial, ()
    if 2 <= len(monomial) <= 5:
        for size in range(1, min(3, len(monomial))):
            seen = set()
            for part in itertools.combinations(monomial, size):
                if part not in seen:
                    seen.add(part)
                    yield part, monomial_quotient(monomial, part) or ()


def _common_factors(numerator: Dim, divisor: Dim) -> list[Dim]:
    """Factors of the divisor that some terms of the numerator share, largest first."""
    if divisor.is_const:
        shared = {gcd(c, divisor.value) for m, c in numerator.terms if m}
        return [Dim.of(g) for g in sorted(shared, reverse=True) if g > 1]
    if len(divisor.terms) != 1:
        return []
    ((monomial, coefficient),) = divisor.terms
    factors: dict[Dim, None] = {}
    for other, c in numerator.terms:
        rest = list(other)
        common = []
        for atom in monomial:
            if atom in rest:
                rest.remove(atom)
                common.append(atom)
        if common:
            factors[make({tuple(common): gcd(c, coefficient)})] = None
    return list(factors)


def _multiples(dim: Dim, factor: Dim) -> tuple[Dim, Dim]:
    """(terms that the one-term `factor` divides, the others)."""
    ((monomial, coefficient),) = factor.terms
    divided = {m: c for m, c in dim.terms if c % coefficient == 0 and monomial_quotient(m, monomial) is not None}
    multiple = make(divided)
    return multiple, dim - multiple


def halves_joined(dim: Dim) -> Dim:
    """(x + b) // (2*b) as x//b - x//(2*b) (Hermite's identity), which the canonical form keeps apart."""
    total = Dim.of(0)
    for monomial, coefficient in dim.terms:
        total = total + Dim.product([Dim.of(coefficient), *map(_lower_half, monomial)])
    return total


def _lower_half(atom: Atom) -> Dim:
    if isinstance(atom, FloorDiv) and atom.denominator.is_const:
        half, odd = divmod(atom.denominator.value, 2)
        if not odd and atom.numerator.constant >= half:
            x = atom.numerator - half
            return halves_joined(x // half - x // (2 * half))
    return of_atom(atom)
