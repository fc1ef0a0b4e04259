"""Facts that were found, as a person would write them: `0 <= (n - m)//2` is `m <= n`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from math import gcd

from ...ir.dims import Dim, Extremum
from ...ir.facts import Compare, Fact, Facts, InRange
from .sizes import plain

_SYMBOLS = 3
"""Facts of more symbols stay as they are."""


def readable(fact: Fact) -> Fact:
    """The shortest fact found that says the same, which is proven both ways."""
    if not isinstance(fact, Compare):
        return fact
    fact = _window(plain(fact))
    if len(fact.symbols) > _SYMBOLS:
        return fact
    told = Facts((fact,))
    for simpler in sorted({str(f): f for f in _forms(fact)}.values(), key=lambda f: len(str(f))):
        shorter = len(str(simpler)) < len(str(fact)) or (len(fact.symbols) == 1 and fact.op not in ("==", "!="))
        if shorter and told.prove(simpler) and Facts((simpler,)).prove(fact):
            return simpler
    return fact


def _window(fact: Compare) -> Compare:
    """`min(b + n, l) - min(b, l) == n`, that a window lies inside, is `n <= max(l - b, 0)`.

    Beyond l both minima are l, and n is 0; else the first is b + n, which is at most l.
    """
    difference = fact.lhs - fact.rhs
    for sign in (1, -1):
        terms = dict((difference * sign).terms)
        ends: dict[int, tuple[Dim, ...]] = {}
        minima = 0
        for monomial, c in terms.items():
            atom = monomial[0] if len(monomial) == 1 else None
            if isinstance(atom, Extremum):
                minima += 1
                if atom.kind == "min" and c in (1, -1):
                    ends[c] = atom.arguments
        if fact.op != "==" or minima != 2 or len(ends) != 2:
            continue
        size = Dim.of(0) - (difference * sign - Dim.min(*ends[1]) + Dim.min(*ends[-1]))
        for limit in set(ends[1]) & set(ends[-1]) if len(ends[1]) == len(ends[-1]) == 2 else ():
            (end,), (start,) = ([a for a in ends[c] if a != limit] for c in (1, -1))
            if end - start == size and all(c > 0 and all(isinstance(a, str) for a in m) for m, c in size.terms):
                return Compare("<=", size, Dim.max(limit - start, 0))
    return fact


def _reduced(fact: Compare) -> Compare:
    """Without a number that divides both sides, and what stands on both."""
    difference = fact.lhs - fact.rhs
    divisor = gcd(*(c for _, c in difference.terms)) or 1
    up = Dim({m: c // divisor for m, c in difference.terms if c > 0})
    down = Dim({m: -c // divisor for m, c in difference.terms if c < 0})
    return Compare(fact.op, *((down, up) if up.is_const else (up, down)))


def _forms(fact: Compare) -> Iterator[Fact]:
    names, op = sorted(fact.symbols), fact.op
    if fact.op in ("==", "!="):
        yield _reduced(fact)
        return
    if len(names) == 1:
        least, most = Facts((fact,)).bounds(names[0])
        if least:
            yield InRange(names[0], least)
        if most is not None:
            yield Compare("<=", names[0], most)
        return
    for a, b in permutations(names, 2):
        yield Compare("<=", a, b)
    low, high = (fact.lhs, fact.rhs) if op in ("<=", "<") else (fact.rhs, fact.lhs)
    difference = high - low - (1 if op in ("<", ">") else 0)
    up = Dim({m: c for m, c in difference.terms if c > 0})
    yield Compare("<=", up - difference, up)
