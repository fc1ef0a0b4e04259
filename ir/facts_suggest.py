"""Facts worth suggesting when a goal cannot be proven: short ones first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .dims import Dim, FloorDiv, make, monomial_quotient, of_atom
from .dims_view import Mod, terms_of
from .facts_constraints import tighten

if TYPE_CHECKING:
    from .facts import Compare, Fact, Facts, InRange


def candidates(facts: Facts, goal: Fact) -> list[Fact]:
    """Facts that may prove the goal, the most readable first; the caller tries them."""
    from .facts import InRange, OneOf

    if isinstance(goal, OneOf):
        return [goal]
    if isinstance(goal, InRange):
        pairs = [(goal.dim - goal.lo, ">=")] + ([] if goal.hi is None else [(goal.hi - goal.dim, ">=")])
        missing = [d for d, _ in pairs if not facts.prove_le(0, d)]
        found = list(_at_least(missing[0])) if len(missing) == 1 else []
        return [*found, goal]
    a, b = goal.lhs, goal.rhs
    match goal.op:
        case "==":
            found = list(_equal(facts.simplify(a - b)))
        case "!=":
            return [*_different(a - b), goal]
        case "<=" | "<":
            found = list(_at_least(b - a - (goal.op == "<")))
        case _:
            found = list(_at_least(a - b - (goal.op == ">")))
    return sorted([goal, *found], key=lambda fact: (len(fact.symbols), len(str(fact))))


def _equal(difference: Dim) -> Iterator[Fact]:
    from .facts import Compare

    if difference.is_const:
        return
    for term in terms_of(difference):
        for factor in term.factors:
            if isinstance(factor, Mod):
                for name in sorted(factor.numerator.symbols):
                    yield Compare("==", Dim.of(name) % factor.denominator, 0)
                yield Compare("==", factor.numerator % factor.denominator, 0)
    for atom in difference.atoms:
        if isinstance(atom, FloorDiv):
            yield Compare("==", atom.numerator % atom.denominator, 0)
    left, right = _sides(_without_common(difference))
    yield Compare("==", left, right)


def _different(difference: Dim) -> Iterator[Fact]:
    from .facts import Compare, InRange

    if difference.name is not None:
        yield InRange(difference, 1)
    for atom in difference.atoms:
        if all(atom in m for m, _ in difference.terms):
            yield InRange(of_atom(atom), 1)
    left, right = _sides(_without_common(difference))
    yield Compare("!=", left, right)


def _at_least(dim: Dim) -> Iterator[Fact]:
    """Ways to write dim >= 0."""
    for form in (tighten(_without_common(dim)), tighten(dim)):
        if form.is_const:
            continue
        bound = _bound(form)
        if bound is not None:
            yield bound
        left, right = _sides(form)
        yield _strict(right, left)


def _strict(low: Dim, high: Dim) -> Compare:
    """low <= high, as low < high where that drops a constant."""
    from .facts import Compare

    if low.constant == 1 and not low.is_const:
        return Compare("<", low - 1, high)
    if low.is_const:
        return Compare(">=", high, low)
    return Compare("<=", low, high)


def _bound(dim: Dim) -> InRange | Compare | None:
    """n - 3 >= 0 as `n in 3..`, 5 - n >= 0 as `n <= 5`."""
    from .facts import Compare, InRange

    if len(dim.symbols) == 1 and len([m for m, _ in dim.terms if m]) == 1:
        name = next(iter(dim.symbols))
        if dim.coefficient((name,)) == 1:
            return InRange(name, -dim.constant)
        if dim.coefficient((name,)) == -1:
            return Compare("<=", name, dim.constant)
    return None


def _without_common(dim: Dim) -> Dim:
    """Without the atoms that every term shares: n*h - m*h is 0 if n - m is."""
    for atom in dim.atoms:
        while len(dim.terms) > 1 and all(atom in m for m, _ in dim.terms):
            dim = make({monomial_quotient(m, (atom,)) or (): c for m, c in dim.terms})
    return tighten(dim) if dim.constant == 0 else dim


def _sides(dim: Dim) -> tuple[Dim, Dim]:
    """(left, right) without negative terms, dim == left - right."""
    left = make({m: c for m, c in dim.terms if c > 0})
    right = left - dim
    return (left, right) if not left.is_const else (right, left)
