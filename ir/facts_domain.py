"""What a set of facts says, in solved form: equalities as substitutions, inequalities as constraints, bounds by symbol.

Equalities eliminate symbols; `n % 8 == 0` writes n as 8 times a new symbol, after which `n*h % 8` and `n // 8 * 8`
are settled by the canonical form of dims alone. New symbols are named `#0`, `#1`, ...: no text can name them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import gcd

from .dims import (
    Dim,
    FloorDiv,
    Monomial,
    linear,
    make,
    monomial_quotient,
    of_atom,
    size_of,
)
from .dims_canon import divmod_poly
from .facts_budget import LEARN, LEARN_ALL, LEARN_LEAST, Budget
from .facts_constraints import linear_in_one, move_division, split_extremum, tighten
from .facts_interval import EVERYTHING, Interval, interval

MAX_UPDATES = 12  # of one bound of one symbol: a < b < a would push bounds up for ever

EQUATION = 1000  # what an equality costs beside its size; equalities may lead to one another without end

BUSY = 16

LARGEST = 1 << 64  # bounds beyond say nothing of sizes, and products would make them grow without end


@dataclass
class Domain:
    """Mutable while facts are learnt; `copy` before learning more.

    solved:  eliminated symbol -> its value over the others.
    origin:  new symbol -> (numerator, divisor) whose quotient it stands for, over the symbols of the facts.
    solved_by: symbol -> eliminated symbols whose value is, or was, in terms of it.
    lo, hi:  bounds by symbol. ge, ne, eq: dims that are >= 0, != 0 and == 0 (eq: those that eliminate no symbol).
    one_of:  dims with their possible values. holes: values that a symbol does not take.
    given: dims that the facts say are >= 0, word by word.
    """

    solved: dict[str, Dim] = field(default_factory=dict)
    origin: dict[str, tuple[Dim, int]] = field(default_factory=dict)
    lo: dict[str, int] = field(default_factory=dict)
    hi: dict[str, int] = field(default_factory=dict)
    ge: dict[Dim, None] = field(default_factory=dict)
    ne: list[Dim] = field(default_factory=list)
    eq: list[Dim] = field(default_factory=list)
    one_of: list[tuple[Dim, tuple[int, ...]]] = field(default_factory=list)
    given: set[Dim] = field(default_factory=set)
    contradictory: bool = False
    solved_by: dict[str, tuple[str, ...]] = field(default_factory=dict)
    by_symbol: dict[str, tuple[Dim, ...]] = field(default_factory=dict)
    by_term: dict[tuple[Monomial, bool], tuple[Dim, ...]] = field(default_factory=dict)
    holes: dict[str, frozenset[int]] = field(default_factory=dict)
    updates: dict[str, int] = field(default_factory=dict)
    intervals: dict[Dim, Interval] = field(default_factory=dict)
    budget: Budget = field(default_factory=lambda: Budget(LEARN))
    all_learning: Budget = field(default_factory=lambda: Budget(LEARN_ALL))

    def copy(self) -> Domain:
        return Domain(
            dict(self.solved),
            dict(self.origin),
            dict(self.lo),
            dict(self.hi),
            dict(self.ge),
            list(self.ne),
            list(self.eq),
            list(self.one_of),
            set(self.given),
            self.contradictory,
            dict(self.solved_by),
            dict(self.by_symbol),
            dict(self.by_term),
            dict(self.holes),
            dict(self.updates),
            all_learning=replace(self.all_learning),
        )

    # -- reading

    def symbol(self, name: str) -> Interval:
        """Symbols of the facts are never negative; new ones may be."""
        return (self.lo.get(name, None if name.startswith("#") else 0), self.hi.get(name))

    def interval(self, dim: Dim) -> Interval:
        """Bounds of a dim over the symbols that are left; none past the budget."""
        found = self.intervals.get(dim)
        if found is None:
            if not self.budget.spend(len(dim.terms) + 1):
                return EVERYTHING
            found = interval(dim, self.symbol, self.interval)
            if not self.budget.out:
                self.intervals[dim] = found
        return found

    def solve(self, dim: Dim) -> Dim:
        """The dim over the symbols that are left, reduced by the equalities that eliminated none."""
        dim = dim.subs(self.solved)
        for equation in self.eq:
            if equation.terms[0][1] == 1:
                dim = divmod_poly(dim, equation)[1]
        return dim

    # -- learning

    @contextmanager
    def learning(self) -> Iterator[None]:
        """What is learnt inside is one fact's, and so is the budget."""
        granted = max(LEARN_LEAST, min(LEARN, self.all_learning.left))
        self.budget = Budget(granted)
        yield
        self.propagate()
        self.all_learning.spend(granted - self.budget.left)

    def learn_zero(self, dim: Dim, prefer: str | None = None) -> None:
        """dim == 0; `prefer` is the symbol to eliminate if it can be."""
        self.given |= {dim, -dim}
        with self.learning():
            self._equate(self.solve(dim), prefer)

    def learn_nonnegative(self, dim: Dim) -> None:
        self.given.add(dim)
        with self.learning():
            self._require(self.solve(dim))

    def learn_nonzero(self, dim: Dim) -> None:
        with self.learning():
            self._differ(self.solve(dim))

    def learn_one_of(self, dim: Dim, values: tuple[int, ...]) -> None:
        if not values:
            self.contradictory = True
            return
        with self.learning():
            self._restrict(self.solve(dim), values)

    def _differ(self, dim: Dim) -> None:
        """dim != 0. What is known to be on one side of 0 is then beyond it."""
        lo, hi = self.interval(dim)
        if dim == 0:
            self.contradictory = True
        elif not dim.is_const:
            self.ne.append(dim)
            symbol = linear_in_one(dim)
            if symbol is not None and dim.constant % dim.coefficient((symbol,)) == 0:
                hole = -dim.constant // dim.coefficient((symbol,))
                self.holes[symbol] = self.holes.get(symbol, frozenset()) | {hole}
                self._skip_holes(symbol)
            elif lo == 0 or dim in self.ge:
                self._require(dim - 1)
            elif hi == 0 or -dim in self.ge:
                self._require(-dim - 1)

    def _restrict(self, dim: Dim, values: tuple[int, ...]) -> None:
        if dim.is_const:
            self.contradictory |= dim.value not in values
            return
        self.one_of.append((dim, values))
        self._require(dim - min(values))
        self._require(max(values) - dim)

    # -- equalities

    def _equate(self, dim: Dim, prefer: str | None = None) -> None:
        if not self.budget.spend(EQUATION + size_of(dim)):
            return
        if dim.is_const:
            self.contradictory |= dim != 0
            return
        content = gcd(*(c for m, c in dim.terms if m))
        if dim.constant % content:
            self.contradictory = True
            return
        dim = make({m: c // content for m, c in dim.terms})
        smaller = self._cancel_positive(dim)
        if smaller != dim:
            self._equate(smaller, prefer)
            return
        choices = [prefer, *sorted(dim.symbols, reverse=True)]
        for name in sorted(choices, key=self._is_busy):
            if name is not None and self._solve_for(dim, name):
                return
        if self._abstract_division(dim, prefer) or self._parametrise(dim):
            return
        self._keep_equation(dim if dim.terms[0][1] > 0 else -dim)

    def _is_busy(self, name: str | None) -> bool:
        """Whether many eliminated symbols have their value in terms of this one: all would change, again and again."""
        return name is not None and len(self.solved_by.get(name, ())) > BUSY

    def _keep_equation(self, equation: Dim) -> None:
        """Constraints learnt before are reduced as all later dims will be, so that they still match."""
        for dim in list(self.ge) if equation.terms[0][1] == 1 else ():
            reduced = divmod_poly(dim, equation)[1]
            if reduced != dim:
                self._forget(dim)
                self._require(reduced)
        self.eq.append(equation)
        self._require(equation)
        self._require(-equation)

    def _cancel_positive(self, dim: Dim) -> Dim:
        """n*h == m*h says n == m where h is at least 1, and so for <=."""
        for atom in dim.atoms if len(dim.terms) > 1 and dim.terms[-1][0] else ():
            while all(atom in m for m, _ in dim.terms) and (self.interval(of_atom(atom))[0] or 0) > 0:
                dim = make({monomial_quotient(m, (atom,)) or (): c for m, c in dim.terms})
        return dim

    def _solve_for(self, dim: Dim, name: str) -> bool:
        """Eliminates `name` if it stands in `dim` once, with coefficient 1 or -1."""
        split = linear(dim, name) if name in dim.symbols else None
        if split is None or not split[0].is_const or abs(split[0].value) != 1:
            return False
        self._eliminate(name, split[1] * -split[0].value)
        return True

    def _abstract_division(self, dim: Dim, prefer: str | None) -> bool:
        """n - 8*(n//8) == 0: names the quotient, after which n itself can be eliminated."""
        for atom in dim.atoms:
            if not (isinstance(atom, FloorDiv) and atom.denominator.is_const):
                continue
            quotient = dim.coefficient((atom,))
            rest = dim - of_atom(atom) * quotient
            if not quotient or atom in rest.atoms:
                continue
            for name in [prefer, *sorted(atom.numerator.symbols, reverse=True)]:
                split = linear(rest, name) if name is not None and name in rest.symbols else None
                if split is not None and split[0].is_const and abs(split[0].value) == 1:
                    new = self._new_symbol(atom.numerator, atom.denominator.value)
                    difference = atom.numerator - atom.denominator * new
                    self._equate(rest + new * quotient, name)
                    self._require(self.solve(difference))
                    self._require(self.solve(atom.denominator - 1 - difference))
                    return True
        return False

    def _parametrise(self, dim: Dim) -> bool:
        """2*a == 3*b: a = 3*t, b = 2*t. Coefficients shrink as in the omega test (Pugh, 1991) until one is 1."""
        if any(len(m) > 1 or not all(isinstance(atom, str) for atom in m) for m, _ in dim.terms):
            return False
        (pivot, coefficient) = min(((m, c) for m, c in dim.terms if m), key=lambda t: (abs(t[1]), t[0]))
        whole: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, c in dim.terms:
            if monomial != pivot:
                whole[monomial], rest[monomial] = divmod(c, coefficient)
        quotient = make({m: c for m, c in whole.items() if c})
        name = str(pivot[0])
        new = self._new_symbol(Dim.of(name) + quotient, 1)
        self._eliminate(name, new - quotient)
        self._equate(make({m: c for m, c in rest.items() if c}) + new * coefficient)
        return True

    def _new_symbol(self, numerator: Dim, divisor: int) -> Dim:
        name = f"#{len(self.origin)}"
        self.origin[name] = (numerator, divisor)
        return Dim.of(name)

    def _eliminate(self, name: str, value: Dim) -> None:
        """name := value in all that is known, its bounds becoming constraints on the value."""
        lo, hi = self.symbol(name)
        replacement = {name: value}
        for other in self.solved_by.pop(name, ()):
            self._set_solved(other, self.solved[other].subs(replacement))
        self._set_solved(name, value)
        self.lo.pop(name, None)
        self.hi.pop(name, None)
        self.intervals.clear()
        if lo is not None:
            self._require(value - lo)
        if hi is not None:
            self._require(hi - value)
        for dim in self.by_symbol.pop(name, ()):
            self._forget(dim)
            self._require(dim.subs(replacement))
        touched_ne, self.ne = [d for d in self.ne if name in d.symbols], [d for d in self.ne if name not in d.symbols]
        for dim in touched_ne:
            self._differ(dim.subs(replacement))
        choices, self.one_of = self.one_of, []
        for dim, values in choices:
            if name in dim.symbols:
                self._restrict(dim.subs(replacement), values)
            else:
                self.one_of.append((dim, values))
        equations, self.eq = self.eq, []
        for dim in equations:
            current = dim.subs(self.solved)  # an equation before this one may have eliminated more
            if current == dim:
                self.eq.append(dim)
            else:
                self._equate(current)

    def _set_solved(self, name: str, value: Dim) -> None:
        self.solved[name] = value
        for symbol in value.symbols:
            users = self.solved_by.get(symbol, ())
            if name not in users:
                self.solved_by[symbol] = (*users, name)

    # -- inequalities

    def _require(self, dim: Dim) -> None:
        """dim >= 0, in its simplest form."""
        if not self.budget.spend(size_of(dim)):
            return
        dim = self._cancel_positive(tighten(dim))
        if dim.is_const:
            self.contradictory |= dim.value < 0
            return
        parts = split_extremum(dim)
        if parts is not None:
            for part in parts:
                self._require(part)
            return
        moved = move_division(dim, self.interval)
        if moved is not None:
            self._require(moved)
            return
        if dim in self.ge or -dim - 1 in self.ge:
            self.contradictory |= -dim - 1 in self.ge
            return
        if self._bound(dim) or self._is_nonnegative(dim):
            return
        if dim in self.ne or -dim in self.ne:
            self._require(dim - 1)
            return
        self.ge[dim] = None
        for name in dim.symbols:
            self.by_symbol[name] = (*self.by_symbol.get(name, ()), dim)
        for monomial, coefficient in dim.terms:
            if monomial:
                term = (monomial, coefficient > 0)
                self.by_term[term] = (*self.by_term.get(term, ()), dim)
        self._pending.append(dim)

    def _forget(self, dim: Dim) -> None:
        self.ge.pop(dim, None)
        for name in dim.symbols:
            self.by_symbol[name] = tuple(other for other in self.by_symbol.get(name, ()) if other != dim)
        for monomial, coefficient in dim.terms:
            term = (monomial, coefficient > 0)
            if term in self.by_term:
                self.by_term[term] = tuple(other for other in self.by_term[term] if other != dim)

    def _is_nonnegative(self, dim: Dim) -> bool:
        """By the bounds alone, which stay: then the constraint says nothing new."""
        lo = self.interval(dim)[0]
        return lo is not None and lo >= 0

    def _bound(self, dim: Dim) -> bool:
        """Takes c*n + d >= 0 as a bound of n."""
        name = linear_in_one(dim)
        if name is None:
            return False
        coefficient = dim.coefficient((name,))
        if coefficient > 0:
            self._raise(name, -(dim.constant // coefficient))
        else:
            self._lower(name, dim.constant // -coefficient)
        return True

    def _raise(self, name: str, lo: int) -> None:
        old = self.symbol(name)[0]
        while lo in self.holes.get(name, ()):
            lo += 1
        if (old is None or lo > old) and abs(lo) <= LARGEST:
            self.lo[name] = lo
            self._moved(name)

    def _lower(self, name: str, hi: int) -> None:
        old = self.symbol(name)[1]
        while hi in self.holes.get(name, ()):
            hi -= 1
        if (old is None or hi < old) and abs(hi) <= LARGEST:
            self.hi[name] = hi
            self._moved(name)

    def _moved(self, name: str) -> None:
        lo, hi = self.symbol(name)
        self.intervals.clear()
        if lo is not None and hi is not None and lo > hi:
            self.contradictory = True
        self.updates[name] = self.updates.get(name, 0) + 1
        if self.updates[name] <= MAX_UPDATES:
            self._pending.extend(self.by_symbol.get(name, ()))

    def _skip_holes(self, name: str) -> None:
        lo, hi = self.symbol(name)
        if lo in self.holes[name]:
            self._raise(name, lo + 1)
        if hi in self.holes[name]:
            self._lower(name, hi - 1)

    _pending: deque[Dim] = field(default_factory=deque)

    def propagate(self) -> None:
        """Bounds of symbols from those of the others, through every constraint that a change has touched."""
        while self._pending and not self.contradictory:
            dim = self._pending.popleft()
            if dim not in self.ge:
                continue
            if not self.budget.spend(size_of(dim)):
                self._pending.clear()
                return
            smaller = self._cancel_positive(dim)
            if smaller == dim:
                self._propagate(dim)
                continue
            self._forget(dim)
            if dim in self.eq or -dim in self.eq:
                self.eq = [equation for equation in self.eq if equation not in (dim, -dim)]
                self._equate(smaller)
            else:
                self._require(smaller)

    def _propagate(self, dim: Dim) -> None:
        """coefficient*n >= -rest, for the greatest value of the rest."""
        bare = all(isinstance(atom, str) for m, _ in dim.terms for atom in m)
        tops = [self.interval(make({m: c}))[1] for m, c in dim.terms] if bare else []
        open_, total = tops.count(None), sum(top for top in tops if top is not None)
        for i, (monomial, coefficient) in enumerate(dim.terms):
            if len(monomial) != 1 or not isinstance(monomial[0], str):
                continue
            if bare:
                own = tops[i]
                top = None if open_ > (own is None) else total - (own or 0)
            else:
                top = self.interval(dim - make({monomial: coefficient}))[1]
            if top is None:
                continue
            if coefficient > 0:
                self._raise(monomial[0], -(top // coefficient))
            else:
                self._lower(monomial[0], top // -coefficient)
