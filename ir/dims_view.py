"""Dims as people and code generators want to see them: `n % 8` rather than `n - 8*(n//8)`.

The canonical form keeps a modulus as a difference and one rounding of every division. A `Term` list is the same value
with those written back; `text` prints it and `fold` visits it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias, TypeVar

from .dims import Algebra, Atom, Dim, Extremum, FloorDiv, Monomial
from .dims_canon import divmod_poly

T = TypeVar("T")


@dataclass(frozen=True)
class Mod:
    numerator: Dim
    denominator: Dim


Factor: TypeAlias = Atom | Mod | Dim


@dataclass(frozen=True)
class Term:
    """coefficient * product of factors; a factor that is a Dim is a sum in parentheses."""

    coefficient: int
    factors: tuple[Factor, ...]


def terms_of(dim: Dim) -> list[Term]:
    """Terms whose sum is `dim`, moduli and roundings written back; a positive one first if there is any."""
    rest, found = dim, list[Term]()
    for atom in _outermost_first(dim):
        if isinstance(atom, FloorDiv):
            rest, terms = _recognise_division(rest, atom)
        else:
            rest, terms = _recognise_maximum(rest, atom)
        found += terms
    terms = found + [Term(c, m) for m, c in rest.terms]
    terms.sort(key=lambda term: -len(term.factors))
    first = next((i for i, term in enumerate(terms) if term.coefficient > 0), 0)
    return [terms[first], *terms[:first], *terms[first + 1 :]] if terms else [Term(0, ())]


def _outermost_first(dim: Dim) -> list[FloorDiv | Extremum]:
    atoms = [atom for atom in dim.atoms if not isinstance(atom, str)]
    return sorted(atoms, key=lambda atom: (-len(atom.key[1]), atom.key))


def _recognise_division(dim: Dim, atom: FloorDiv) -> tuple[Dim, list[Term]]:
    """Takes the modulus or the other rounding that `atom` stands for out of `dim`."""
    factor, rest = _collect(dim, atom)
    if factor is None:
        return dim, []
    a, b = atom.numerator, atom.denominator
    scale, remainder = divmod_poly(-factor, b)
    if remainder == 0 and _contains(rest, scale * a):
        return rest - scale * a, [_scaled(scale, Mod(a, b))]
    if b.is_const and factor.is_const and factor.value < 0:
        # T - (T + c)//k == ((k-1)*T + k-1-c) // k, written so where it is a plain division or a ceiling
        k, base = b.value, a - a.constant
        if (k == 2 or a.constant == k - 1) and _contains(rest, base * -factor.value):
            division = FloorDiv(base * (k - 1) + (k - 1 - a.constant), b)
            return rest + base * factor.value, [Term(-factor.value, (division,))]
    return dim, []


def _recognise_maximum(dim: Dim, atom: Extremum) -> tuple[Dim, list[Term]]:
    """max(a, b) taken out of `dim`, where it is kept as a + b - min(a, b)."""
    factor, rest = _collect(dim, atom)
    if factor is None or len(atom.arguments) != 2:
        return dim, []
    total = -factor * (atom.arguments[0] + atom.arguments[1])
    if not _contains(rest, total):
        return dim, []
    return rest - total, [_scaled(-factor, Extremum("max", atom.arguments))]


def _collect(dim: Dim, atom: Atom) -> tuple[Dim | None, Dim]:
    """(factor, rest) with dim == factor*atom + rest; factor is None when `atom` stands in no term or squared."""
    factor: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in dim.terms:
        if atom not in monomial:
            rest[monomial] = coefficient
            continue
        others = list(monomial)
        others.remove(atom)
        if atom in others:
            return None, dim
        factor[tuple(others)] = coefficient
    return (Dim(factor) if factor else None), Dim(rest)


def _contains(dim: Dim, part: Dim) -> bool:
    """Whether the terms of `part` but its constant stand in `dim` with just these coefficients."""
    return all(dim.coefficient(monomial) == coefficient for monomial, coefficient in part.terms if monomial)


def _scaled(scale: Dim, factor: Factor) -> Term:
    if len(scale.terms) == 1:
        ((monomial, coefficient),) = scale.terms
        return Term(coefficient, (*monomial, factor))
    return Term(1, (scale, factor))


# -- visiting


def fold(dim: Dim, algebra: Algebra[T]) -> T:
    """`Dim.fold`."""
    return reduce(algebra.add, [_fold_term(term, algebra) for term in terms_of(dim)])


def _fold_term(term: Term, algebra: Algebra[T]) -> T:
    factors = [_fold_factor(factor, algebra) for factor in term.factors]
    if term.coefficient != 1 or not factors:
        factors.insert(0, algebra.const(term.coefficient))
    return reduce(algebra.mul, factors)


def _fold_factor(factor: Factor, algebra: Algebra[T]) -> T:
    if isinstance(factor, str):
        return algebra.sym(factor)
    if isinstance(factor, Dim):
        return fold(factor, algebra)
    if isinstance(factor, Extremum):
        pick = algebra.min if factor.kind == "min" else algebra.max
        return reduce(pick, [fold(arg, algebra) for arg in factor.arguments])
    divide = algebra.mod if isinstance(factor, Mod) else algebra.floordiv
    return divide(fold(factor.numerator, algebra), fold(factor.denominator, algebra))


# -- printing


def text(dim: Dim) -> str:
    """`str(dim)`: the language's `+ - * // % min max`, which parses back to the same dim."""
    parts: list[str] = []
    for term in terms_of(dim):
        negative = term.coefficient < 0
        body = _text_term(abs(term.coefficient), term.factors)
        if parts:
            parts.append(f" {'-' if negative else '+'} {body}")
        elif negative:
            # A leading minus binds tighter than // and %, so that -(n//2) needs its parentheses.
            bare = isinstance(term.factors[0] if term.factors else None, (FloorDiv, Mod))
            parts.append(f"-({body})" if bare else f"-{body}")
        else:
            parts.append(body)
    return "".join(parts)


def _text_term(coefficient: int, factors: tuple[Factor, ...]) -> str:
    if not factors:
        return str(coefficient)
    if coefficient == 1 and len(factors) == 1:
        return _text_factor(factors[0])
    texts = [] if coefficient == 1 else [str(coefficient)]
    for factor in factors:
        body = _text_factor(factor)
        texts.append(f"({body})" if isinstance(factor, (FloorDiv, Mod, Dim)) else body)
    return "*".join(texts)


def _text_factor(factor: Factor) -> str:
    if isinstance(factor, (str, Dim)):
        return str(factor)
    if isinstance(factor, Extremum):
        return f"{factor.kind}({', '.join(map(str, factor.arguments))})"
    operator = " % " if isinstance(factor, Mod) else "//"
    return f"{_operand(factor.numerator)}{operator}{_operand(factor.denominator)}"


def _operand(dim: Dim) -> str:
    if dim.name is not None or (dim.is_const and dim.value >= 0):
        return str(dim)
    terms = terms_of(dim)
    if len(terms) == 1 and terms[0].coefficient == 1 and isinstance(terms[0].factors[0], Extremum):
        if len(terms[0].factors) == 1:
            return str(dim)
    return f"({dim})"
