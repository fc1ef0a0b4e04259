"""Single constraints, `dim >= 0`, in simpler forms that say the same."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from .dims import Atom, Dim, Extremum, FloorDiv, children, make
from .facts_interval import Interval

MAX_SPLITS = 5  # extrema of one constraint, each of which doubles the constraints it is split into


def linear_in_one(dim: Dim) -> str | None:
    """The symbol when the dim is coefficient*symbol + constant."""
    names = [m for m, _ in dim.terms if m]
    if len(names) == 1 and len(names[0]) == 1 and isinstance(names[0][0], str):
        return names[0][0]
    return None


def tighten(dim: Dim) -> Dim:
    """dim >= 0 over the integers, divided by the common factor of all but its constant."""
    content = gcd(*(c for m, c in dim.terms if m))
    if content <= 1:
        return dim
    return make({m: q for m, c in dim.terms if (q := c // content)})


def _extrema_to_split(dim: Dim) -> int:
    single = ((m[0], c) for m, c in dim.terms if len(m) == 1)
    return sum(1 for atom, c in single if isinstance(atom, Extremum) and (c > 0) == (atom.kind == "min"))


def split_extremum(dim: Dim) -> list[Dim] | None:
    """rest + c*min(a, b) >= 0 as rest + c*a >= 0 and rest + c*b >= 0; likewise for a subtracted maximum.

    None where there is nothing to split, or so much that it would not end soon.
    """
    if _extrema_to_split(dim) > MAX_SPLITS:
        return None
    for monomial, coefficient in dim.terms:
        atom = monomial[0] if len(monomial) == 1 else None
        if isinstance(atom, Extremum) and (coefficient > 0) == (atom.kind == "min"):
            rest = dim - make({monomial: coefficient})
            return [rest + arg * coefficient for arg in atom.arguments]
    return None


def move_division(dim: Dim, bounds: Callable[[Dim], Interval]) -> Dim | None:
    """a//k + rest >= 0 as a + k*rest >= 0, rest - a//k >= 0 as k*rest + k-1 - a >= 0: exact for k > 0."""
    for monomial, coefficient in dim.terms:
        atom: Atom | None = monomial[0] if len(monomial) == 1 else None
        if not isinstance(atom, FloorDiv) or abs(coefficient) != 1:
            continue
        numerator, divisor = children(atom)
        rest = dim - make({monomial: coefficient})
        if _mentions(rest, atom) or not (divisor.is_const or (bounds(divisor)[0] or 0) >= 1):
            continue
        if coefficient == 1:
            return numerator + divisor * rest
        return divisor * rest + divisor - 1 - numerator
    return None


def _mentions(dim: Dim, atom: Atom) -> bool:
    return any(other == atom or any(_mentions(c, atom) for c in children(other)) for other in dim.atoms)
