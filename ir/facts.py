"""Facts about sizes, as they stand in `where`, and what follows from them.

    Fact = Compare(op, lhs, rhs)      n <= m, n % 8 == 0, t == s + p
         | InRange(dim, lo, hi)       n in 0..1024, n in 1..        (both ends included)
         | OneOf(dim, values)         n in {8, 16}

Symbols stand for non-negative integers, always. `Facts` is a collection that proves: what it proves holds for all sizes
that satisfy the facts. It does not prove all that is true; `suggest` says which fact would help.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

from .diagnostics import Span
from .dims import Dim, DimLike, DimTooComplex
from .facts_budget import CONFLICT, LEARN_ALL, QUESTION, Budget
from .facts_conflict import minimal_conflict
from .facts_domain import Domain
from .facts_examples import Example, extend_examples, find_examples
from .facts_interval import Interval
from .facts_prove import Prover
from .facts_simplify import Restorer

T = TypeVar("T")
CompareOp: TypeAlias = Literal["==", "!=", "<=", "<", ">=", ">"]
_HOLDS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}


@dataclass(frozen=True, init=False)
class Compare:
    """`lhs op rhs`."""

    op: CompareOp
    lhs: Dim
    rhs: Dim
    span: Span | None = field(default=None, compare=False)

    def __init__(self, op: CompareOp, lhs: DimLike, rhs: DimLike, span: Span | None = None) -> None:
        if op not in _HOLDS:
            raise ValueError(f"{op} is not a comparison")
        _set(self, op=op, lhs=Dim.of(lhs), rhs=Dim.of(rhs), span=span)

    @property
    def dims(self) -> tuple[Dim, ...]:
        return (self.lhs, self.rhs)

    @property
    def symbols(self) -> frozenset[str]:
        return self.lhs.symbols | self.rhs.symbols

    def holds(self, values: Mapping[str, int]) -> bool:
        return bool(_HOLDS[self.op](self.lhs.evaluate(values), self.rhs.evaluate(values)))

    def subs(self, values: Mapping[str, DimLike]) -> Compare:
        return Compare(self.op, self.lhs.subs(values), self.rhs.subs(values), self.span)

    def __str__(self) -> str:
        return f"{self.lhs} {self.op} {self.rhs}"


@dataclass(frozen=True, init=False)
class InRange:
    """`dim in lo..hi`, both ends included; `hi` None is no upper bound. The ends may be dims."""

    dim: Dim
    lo: Dim
    hi: Dim | None
    span: Span | None = field(default=None, compare=False)

    def __init__(self, dim: DimLike, lo: DimLike, hi: DimLike | None = None, span: Span | None = None) -> None:
        _set(self, dim=Dim.of(dim), lo=Dim.of(lo), hi=None if hi is None else Dim.of(hi), span=span)

    @property
    def dims(self) -> tuple[Dim, ...]:
        return (self.dim, self.lo) if self.hi is None else (self.dim, self.lo, self.hi)

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset().union(*(dim.symbols for dim in self.dims))

    def holds(self, values: Mapping[str, int]) -> bool:
        value = self.dim.evaluate(values)
        return self.lo.evaluate(values) <= value and (self.hi is None or value <= self.hi.evaluate(values))

    def subs(self, values: Mapping[str, DimLike]) -> InRange:
        hi = None if self.hi is None else self.hi.subs(values)
        return InRange(self.dim.subs(values), self.lo.subs(values), hi, self.span)

    def __str__(self) -> str:
        return f"{self.dim} in {self.lo}..{'' if self.hi is None else self.hi}"


@dataclass(frozen=True, init=False)
class OneOf:
    """`dim in {values}`; the values are kept sorted."""

    dim: Dim
    values: tuple[int, ...]
    span: Span | None = field(default=None, compare=False)

    def __init__(self, dim: DimLike, values: Iterable[int], span: Span | None = None) -> None:
        _set(self, dim=Dim.of(dim), values=tuple(sorted(set(values))), span=span)

    @property
    def dims(self) -> tuple[Dim, ...]:
        return (self.dim,)

    @property
    def symbols(self) -> frozenset[str]:
        return self.dim.symbols

    def holds(self, values: Mapping[str, int]) -> bool:
        return self.dim.evaluate(values) in self.values

    def subs(self, values: Mapping[str, DimLike]) -> OneOf:
        return OneOf(self.dim.subs(values), self.values, self.span)

    def __str__(self) -> str:
        return f"{self.dim} in {{{', '.join(map(str, self.values))}}}"


Fact: TypeAlias = Compare | InRange | OneOf


def _set(fact: object, **fields: object) -> None:
    for name, value in fields.items():
        object.__setattr__(fact, name, value)


class Facts:
    """An immutable collection of facts, and the prover over it.

    The solved form is built at the first question, from that of the collection it was added to.
    """

    __slots__ = ("_base", "_examples", "_prover", "facts")

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self.facts: tuple[Fact, ...] = tuple(facts)
        self._base: Facts | None = None
        self._prover: Prover | None = None
        self._examples: list[Example] | None = None

    def add(self, *facts: Fact) -> Facts:
        """With more facts, those of a scope for example."""
        known = set(self.facts)
        new = tuple(fact for fact in facts if fact not in known)
        if not new:
            return self
        result = Facts(self.facts + new)
        result._base = self
        return result

    def __iter__(self) -> Iterator[Fact]:
        return iter(self.facts)

    def __len__(self) -> int:
        return len(self.facts)

    def __eq__(self, other: object) -> bool:
        return self.facts == other.facts if isinstance(other, Facts) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.facts)

    def __repr__(self) -> str:
        return f"Facts({', '.join(map(str, self.facts))})"

    def __reduce__(self) -> tuple[object, ...]:
        return (Facts, (self.facts,))

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset().union(*(fact.symbols for fact in self.facts))

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether all facts hold; KeyError for a symbol without a value."""
        return all(fact.holds(values) for fact in self.facts)

    # -- proofs

    def prove_eq(self, a: DimLike, b: DimLike) -> bool:
        a, b = Dim.of(a), Dim.of(b)
        return a == b or self._ask(lambda prover: prover.zero(a - b), False)

    def prove_ne(self, a: DimLike, b: DimLike) -> bool:
        return self._ask(lambda prover: prover.nonzero(Dim.of(a) - b), False)

    def prove_le(self, a: DimLike, b: DimLike) -> bool:
        return self._ask(lambda prover: prover.nonnegative(Dim.of(b) - a), False)

    def prove_lt(self, a: DimLike, b: DimLike) -> bool:
        return self._ask(lambda prover: prover.nonnegative(Dim.of(b) - a - 1), False)

    def prove_divisible(self, a: DimLike, k: DimLike) -> bool:
        """a is a multiple of k, and k is not 0."""
        return self._ask(lambda prover: prover.divisible(Dim.of(a), Dim.of(k)), False)

    def _ask(self, question: Callable[[Prover], T], otherwise: T, budget: Budget | None = None) -> T:
        try:
            prover = self._proves
            prover.domain.budget = budget or Budget(QUESTION)
            return question(prover)
        except (ZeroDivisionError, DimTooComplex):  # a divisor is 0 by the facts, or too much to say anything
            return otherwise

    def prove(self, fact: Fact) -> bool:
        """Whether the fact follows."""
        if isinstance(fact, InRange):
            return self.prove_le(fact.lo, fact.dim) and (fact.hi is None or self.prove_le(fact.dim, fact.hi))
        if isinstance(fact, OneOf):
            return self._prove_one_of(fact)
        a, b = fact.lhs, fact.rhs
        match fact.op:
            case "==":
                return self.prove_eq(a, b)
            case "!=":
                return self.prove_ne(a, b)
            case "<=":
                return self.prove_le(a, b)
            case "<":
                return self.prove_lt(a, b)
            case ">=":
                return self.prove_le(b, a)
            case ">":
                return self.prove_lt(b, a)

    def _prove_one_of(self, fact: OneOf) -> bool:
        if any(self.prove_eq(fact.dim, value) for value in fact.values):
            return True
        for known in self.facts:
            if isinstance(known, OneOf) and self.prove_eq(known.dim, fact.dim):
                if all(v in fact.values or self.prove_ne(known.dim, v) for v in known.values):
                    return True
        lo, hi = self.bounds(fact.dim)
        return lo is not None and hi is not None and hi - lo < 256 and set(range(lo, hi + 1)) <= set(fact.values)

    def bounds(self, dim: DimLike) -> tuple[int | None, int | None]:
        """(least, greatest) value that the facts allow, None where there is no bound; may be loose, never wrong."""
        nothing: Interval = (None, None)
        return self._ask(lambda prover: prover.bounds(Dim.of(dim)), nothing)

    def simplify(self, dim: DimLike) -> Dim:
        """An equal dim with what divisions and extrema the facts settle; `dim` itself when no other is simpler."""
        dim = Dim.of(dim)
        if dim.is_const or dim.name is not None:
            return dim
        return self._ask(lambda prover: Restorer(prover).simplify(dim), dim)

    def contradiction(self) -> tuple[Fact, ...] | None:
        """A smallest set of facts that no sizes satisfy (none of them can be left out), or None when none is found."""
        return minimal_conflict(self.facts, lambda facts, budget: Facts(facts)._contradictory(budget))

    def suggest(self, goal: Fact) -> Fact | None:
        """The shortest fact found that, if added, would prove `goal`; None where no sizes at all are known to do."""
        from .facts_suggest import candidates

        for fact in candidates(self, goal) if goal.symbols else ():
            more = self.add(fact)
            if more.prove(goal) and not more._contradictory():
                return fact
        return None

    def advice(self, *goals: Fact) -> str:
        """The help line of a diagnostic that refuses what is not proven; empty where no facts would help."""
        found: list[str] = []
        known = self
        for goal in goals:
            if known.prove(goal):
                continue
            fact = known.suggest(goal)
            if fact is None:
                return ""
            found.append(str(fact))
            known = known.add(fact)
        return f"say `where {', '.join(found)}` (checked at every call)" if found else ""

    # -- the solved form

    @property
    def _proves(self) -> Prover:
        if self._prover is None:
            base = self._base._proves.domain.copy() if self._base is not None else Domain()
            for fact in self._new_facts():
                _learn(base, fact)
            self._prover = Prover(base, self._find_examples)
        return self._prover

    def _new_facts(self) -> tuple[Fact, ...]:
        return self.facts[len(self._base.facts) :] if self._base is not None else self.facts

    def _find_examples(self) -> list[Example]:
        if self._examples is None:
            domain = self._proves.domain
            self._examples = self._extended_examples(domain) if self._base is not None else []
            if len(self._examples) < 2:
                self._examples = find_examples(domain, self.symbols, lambda values: _accept(self.facts, values))
        return self._examples

    def _extended_examples(self, domain: Domain) -> list[Example]:
        new = self._new_facts()
        known = self._base._find_examples() if self._base is not None else []
        names = sorted(
            frozenset().union(*(fact.symbols for fact in new)) - (known[0].values.keys() if known else set())
        )
        return extend_examples(domain, known, names, lambda values: _accept(new, values))

    def _contradictory(self, budget: Budget | None = None) -> bool:
        budget = budget or Budget(CONFLICT)
        learning = self._proves.domain.all_learning
        budget.spend(LEARN_ALL - learning.left)
        if self._proves.domain.contradictory:
            return True
        if budget.out or self._find_examples():
            return False
        return self._ask(lambda prover: prover.contradiction(), False, budget) or self._no_case_left(budget)

    def _no_case_left(self, budget: Budget) -> bool:
        """Whether every combination of listed or narrow values is contradictory, where these are few."""
        domain = self._proves.domain
        combinations: list[tuple[Fact, ...]] = [()]
        for name in sorted(self.symbols - domain.solved.keys()):
            values = self._proves.values(name, narrow=True)
            if values is None:
                continue
            grown = [(*c, Compare("==", name, v)) for c in combinations for v in values]
            if len(grown) > 64:
                break
            combinations = grown
        if combinations == [()]:
            return False
        return all(self.add(*facts)._ask(lambda p: p.contradiction(), False, budget) for facts in combinations)


def _accept(facts: Iterable[Fact], values: Mapping[str, int]) -> bool:
    try:
        return all(fact.holds(values) and all(values[name] >= 0 for name in fact.symbols) for fact in facts)
    except ZeroDivisionError:
        return False


def _learn(domain: Domain, fact: Fact) -> None:
    try:
        _learn_sides(domain, fact)
    except ZeroDivisionError:  # a divisor is 0 by the other facts, and the fact has no value that could hold
        domain.contradictory = True
    except DimTooComplex:  # what it says with the other facts is too much to write down: it is only checked
        domain.intervals.clear()


def _learn_sides(domain: Domain, fact: Fact) -> None:
    if isinstance(fact, InRange):
        domain.learn_nonnegative(fact.dim - fact.lo)
        if fact.hi is not None:
            domain.learn_nonnegative(fact.hi - fact.dim)
    elif isinstance(fact, OneOf):
        domain.learn_one_of(fact.dim, fact.values)
    else:
        difference = fact.rhs - fact.lhs
        match fact.op:
            case "==":
                domain.learn_zero(difference, fact.lhs.name or fact.rhs.name)
            case "!=":
                domain.learn_nonzero(difference)
            case "<=":
                domain.learn_nonnegative(difference)
            case "<":
                domain.learn_nonnegative(difference - 1)
            case ">=":
                domain.learn_nonnegative(-difference)
            case ">":
                domain.learn_nonnegative(-difference - 1)
