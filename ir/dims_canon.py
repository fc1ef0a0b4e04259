"""The canonical forms of floor division and of minimum and maximum: what `Dim` arithmetic calls.

Every rule is exact for integers of either sign, and where the divisor is unknown for every divisor but 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from math import gcd
from typing import Literal

from .dims import Dim, Extremum, FloorDiv, Monomial, make, monomial_key, monomial_quotient, new_atom

MAX_FLAT = 64  # arguments that flattening an extremum may add


def divmod_poly(numerator: Dim, divisor: Dim) -> tuple[Dim, Dim]:
    """(q, r) with numerator == q*divisor + r, by long division in graded lexicographic order.

    No term of r can be reduced by the divisor's leading term, which makes r unique. ZeroDivisionError for divisor 0.
    """
    if not divisor._terms:
        raise ZeroDivisionError("division by zero")
    lead, lead_coefficient = divisor.terms[0]
    quotient, rest = Dim.of(0), numerator
    done = False
    while not done:
        done = True
        for monomial, coefficient in rest.terms:
            factor = monomial_quotient(monomial, lead)
            if factor is not None and coefficient // lead_coefficient:
                step = make({factor: coefficient // lead_coefficient})
                quotient, rest = quotient + step, rest - step * divisor
                done = False
                break
    return quotient, rest


def floordiv(numerator: Dim, denominator: Dim) -> Dim:
    if denominator.is_const:
        return _floordiv_const(numerator, denominator.value)
    if denominator.terms[0][1] < 0:
        numerator, denominator = -numerator, -denominator
    quotient, rest = divmod_poly(numerator, denominator)
    if not rest._terms:
        return quotient
    common = _common_monomial([*rest._terms, *denominator._terms])
    content = gcd(*rest._terms.values(), *denominator._terms.values())
    if common or content > 1:
        # (g*x) // (g*d) == x // d for every g != 0; a zero g has no value on the left to disagree with.
        return quotient + floordiv(_cancel(rest, common, content), _cancel(denominator, common, content))
    return quotient + new_atom(FloorDiv(rest, denominator))


def _common_monomial(monomials: list[Monomial]) -> Monomial:
    common = list(monomials[0])
    for monomial in monomials[1:]:
        rest = list(monomial)
        kept = []
        for atom in common:
            if atom in rest:
                rest.remove(atom)
                kept.append(atom)
        common = kept
    return tuple(common)


def _cancel(dim: Dim, monomial: Monomial, content: int) -> Dim:
    return make({monomial_quotient(m, monomial) or (): c // content for m, c in dim._terms.items()})


def _floordiv_const(numerator: Dim, divisor: int) -> Dim:
    if divisor == 0:
        raise ZeroDivisionError(f"{numerator} // 0")
    if divisor < 0:
        numerator, divisor = -numerator, -divisor
    if divisor == 1:
        return numerator
    up = _rounded_up(numerator)
    if up is not None:
        # floor((floor(x/d) + y) / k) == floor((x + d*y) / (d*k)) for integer y and positive d, k
        x, d, y = up
        return _floordiv_const(x + d * y, d * divisor)
    quotient, rest = _split(numerator, divisor)
    if not rest:
        return quotient + numerator.constant // divisor
    # floor((g*x + c) / (g*k)) == floor((x + floor(c/g)) / k)
    content = gcd(divisor, *rest.values())
    divisor //= content
    whole, constant = divmod(numerator.constant // content, divisor)
    quotient = quotient + whole
    if content > 1:
        rest = {monomial: coefficient // content for monomial, coefficient in rest.items()}
    if divisor == 1:
        return quotient + make(rest) + constant
    return quotient + _reduced_floordiv(rest, constant, divisor)


def _rounded_up(numerator: Dim) -> tuple[Dim, int, Dim] | None:
    """(x, d, y) with numerator == x//d + y, where the canonical form has x//d as a difference of two quotients.

    (x + b)//(2*b) == x//b - x//(2*b) is how halves that are rounded up look.
    """
    for monomial, coefficient in numerator.terms:
        atom = monomial[0] if len(monomial) == 1 else None
        if coefficient == -1 and isinstance(atom, FloorDiv) and atom.denominator.is_const:
            half, odd = divmod(atom.denominator.value, 2)
            whole = floordiv(atom.numerator, Dim.of(half)) if not odd else Dim.of(0)
            if whole.symbols and all(numerator._terms.get(m) == c for m, c in whole.terms if m):
                return atom.numerator + half, 2 * half, numerator - whole + make({monomial: 1})
    return None


def _split(numerator: Dim, divisor: int) -> tuple[Dim, dict[Monomial, int]]:
    """The multiples of the divisor taken out; what remains has coefficients in (-divisor/2, divisor/2], no constant."""
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in numerator._terms.items():
        if not monomial:
            continue
        remainder = coefficient % divisor
        if 2 * remainder > divisor:
            remainder -= divisor
        if remainder:
            rest[monomial] = remainder
        if remainder != coefficient:
            quotient[monomial] = (coefficient - remainder) // divisor
    return make(quotient), rest


def _reduced_floordiv(rest: dict[Monomial, int], constant: int, divisor: int) -> Dim:
    """(rest + constant) // divisor where 0 <= constant < divisor and rest is reduced and shares no factor with it."""
    inner = _only_floordiv(rest)
    if divisor == 2:
        # All coefficients are 1 here, and (x + 1)//2 == x - x//2 leaves one form for both roundings.  Not of quotients:
        # a size halved again and again, rounded up each time, is one division.
        if constant and inner is None:
            return make(rest) - _reduced_floordiv(rest, 0, 2)
    else:
        # floor(x/k) == -floor((k-1-x)/k) leaves the choice of a sign; a coefficient of k/2 has none.
        lead = min((m for m, c in rest.items() if 2 * c != divisor), key=monomial_key)
        if rest[lead] < 0:
            return -_floordiv_const((divisor - 1 - constant) - make(rest), divisor)
    if inner is not None:
        # floor((floor(x/b) + y) / k) == floor((x + b*y) / (b*k)) for integer y and positive b, k
        others = {m: c for m, c in rest.items() if m != (inner,)}
        base = inner.denominator.value
        return _floordiv_const(inner.numerator + (make(others) + constant) * base, base * divisor)
    numerator = make({**rest, (): constant} if constant else rest)
    return new_atom(FloorDiv(numerator, Dim.of(divisor)))


def _only_floordiv(rest: dict[Monomial, int]) -> FloorDiv | None:
    """The one division by a constant among the terms, if there is exactly one and its coefficient is 1."""
    found = [m[0] for m in rest if len(m) == 1 and isinstance(m[0], FloorDiv) and m[0].denominator.is_const]
    if len(found) == 1 and rest[(found[0],)] == 1:
        return found[0]
    return None


# -- minimum and maximum


def extremum(kind: Literal["min", "max"], dims: Iterable[Dim]) -> Dim:
    """min or max of the dims; ValueError for none."""
    args = _comparable(kind, dims)
    if len(args) > 1:
        args = _comparable(kind, _flatten(kind, args))
    if not args:
        raise ValueError(f"{kind} of no dims")
    if len(args) == 1:
        return args[0]
    shift, content, args = _normalise(args)
    if len(args) == 2:
        # max(a, b) == a + b - min(a, b): one form for a pair, and min(a, b) + max(a, b) == a + b.
        smaller = _irreducible("min", args) * content
        return shift + smaller if kind == "min" else shift + (args[0] + args[1]) * content - smaller
    # max(a, b, c) == -min(-a, -b, -c): whichever has the smaller arguments stands for both
    opposite, _, negated = _normalise([-arg for arg in args])  # the content is 1 already
    other: Literal["min", "max"] = "max" if kind == "min" else "min"
    if (_weight(negated), other) < (_weight(args), kind):
        return shift - (opposite + _irreducible(other, negated)) * content
    return shift + _irreducible(kind, args) * content


def _irreducible(kind: Literal["min", "max"], args: list[Dim]) -> Dim:
    """The extremum of normalised arguments; what was taken out of some may have left others to flatten."""
    flat = _flatten(kind, args)
    return new_atom(Extremum(kind, tuple(args))) if len(flat) == len(args) else extremum(kind, flat)


def _comparable(kind: Literal["min", "max"], dims: Iterable[Dim]) -> list[Dim]:
    """One argument for all that differ by a constant."""
    pick = min if kind == "min" else max
    best: dict[Dim, int] = {}  # non-constant part -> its best constant
    for dim in dims:
        constant = dim.constant
        base = dim - constant
        best[base] = pick(best[base], constant) if base in best else constant
    return [base + constant for base, constant in best.items()]


def _normalise(args: list[Dim]) -> tuple[Dim, int, list[Dim]]:
    """(shift, content, sorted rest) with each argument == shift + content * its rest.

    The shift holds of each monomial the least coefficient, so that the rest is the same whatever is added to all.
    """
    monomials = {m for arg in args for m in arg._terms}
    least = ((m, min(arg._terms.get(m, 0) for arg in args)) for m in monomials)
    shift = make({m: c for m, c in least if c})
    args = [arg - shift for arg in args]
    content = gcd(*(c for arg in args for c in arg._terms.values()))
    args = [_cancel(arg, (), content) for arg in args] if content > 1 else args
    return shift, content, sorted(args, key=lambda arg: [(monomial_key(m), c) for m, c in arg.terms])


def _weight(args: list[Dim]) -> int:
    return sum(c for arg in args for c in arg._terms.values())


def _flatten(kind: Literal["min", "max"], dims: list[Dim]) -> list[Dim]:
    """min(min(a, b) + c, d) as a + c, b + c, d; as it stands where sums of extrema would make too many."""
    flat = list(itertools.islice(_flattened(kind, dims), MAX_FLAT + len(dims)))
    return flat if len(flat) < MAX_FLAT + len(dims) else dims


def _flattened(kind: Literal["min", "max"], dims: Iterable[Dim]) -> Iterator[Dim]:
    for dim in dims:
        for monomial, coefficient in dim._terms.items():
            atom = monomial[0] if len(monomial) == 1 else None
            if isinstance(atom, Extremum):
                same = atom.kind == kind and coefficient > 0
                opposite = atom.kind != kind and coefficient < 0  # -max(a, b) is min(-a, -b)
                if same or opposite:
                    rest = dim - make({monomial: coefficient})
                    yield from _flattened(kind, [arg * coefficient + rest for arg in atom.arguments])
                    break
        else:
            yield dim
