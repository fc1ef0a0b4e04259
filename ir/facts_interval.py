"""Interval arithmetic on dims: the cheapest bounds, used by all else that proves something about sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TypeAlias

from .dims import Atom, Dim, Extremum, FloorDiv, of_atom
from .dims_view import Factor, Mod, terms_of

Interval: TypeAlias = tuple[int | None, int | None]  # both ends included; None is unbounded
Inner: TypeAlias = Callable[["Dim"], Interval]
EVERYTHING: Interval = (None, None)


def add(x: Interval, y: Interval) -> Interval:
    return (
        None if x[0] is None or y[0] is None else x[0] + y[0],
        None if x[1] is None or y[1] is None else x[1] + y[1],
    )


def scale(x: Interval, factor: int) -> Interval:
    lo = None if x[0] is None else x[0] * factor
    hi = None if x[1] is None else x[1] * factor
    return (lo, hi) if factor >= 0 else (hi, lo)


def mul(x: Interval, y: Interval) -> Interval:
    (a, b), (c, d) = x, y
    if a is not None and c is not None and a >= 0 and c >= 0:
        return (a * c, None if b is None or d is None else b * d)
    if a is None or b is None or c is None or d is None:
        if (a, b) == (0, 0) or (c, d) == (0, 0):
            return (0, 0)
        return _mul_by_sign(x, y)
    products = (a * c, a * d, b * c, b * d)
    return (min(products), max(products))


def _mul_by_sign(x: Interval, y: Interval) -> Interval:
    """Products with an unbounded side, where both signs are known; otherwise nothing is known."""
    if x[1] is not None and x[1] <= 0:
        return scale(mul(scale(x, -1), y), -1) if y[0] is not None and y[0] >= 0 else _both_negative(x, y)
    if y[1] is not None and y[1] <= 0 and x[0] is not None and x[0] >= 0:
        return scale(mul(x, scale(y, -1)), -1)
    return _nonnegative_times_mixed(x, y)


def _both_negative(x: Interval, y: Interval) -> Interval:
    return mul(scale(x, -1), scale(y, -1)) if y[1] is not None and y[1] <= 0 else EVERYTHING


def _nonnegative_times_mixed(x: Interval, y: Interval) -> Interval:
    """[a, b] * [c, d] where one is nonnegative with a finite top and the other has one finite end."""
    for (a, b), (c, d) in ((x, y), (y, x)):
        if a is not None and a >= 0 and b is not None:
            lo = None if c is None else min(a * c, b * c)
            hi = None if d is None else max(a * d, b * d)
            return (lo, hi)
    return EVERYTHING


def floordiv(x: Interval, y: Interval) -> Interval:
    """Bounds of x // y for a divisor that is known to be positive; everything otherwise."""
    (a, b), (c, d) = x, y
    if c is None or c < 1:
        return EVERYTHING
    lo: int | None
    hi: int | None
    if a is None:
        lo = None
    elif a < 0:
        lo = a // c
    else:
        lo = 0 if d is None else a // d
    if b is None:
        hi = None
    elif b >= 0:
        hi = b // c
    else:
        hi = -1 if d is None else b // d
    return (lo, hi)


def mod(x: Interval, y: Interval) -> Interval:
    """Bounds of x % y for a divisor that is known to be positive; everything otherwise."""
    if y[0] is None or y[0] < 1:
        return EVERYTHING
    if x[0] is not None and x[0] >= 0:
        if x[1] is not None and x[1] < y[0]:
            return x
        tops = [top for top in (x[1], None if y[1] is None else y[1] - 1) if top is not None]
        return (0, min(tops, default=None))
    return (0, None if y[1] is None else y[1] - 1)


def intersect(x: Interval, y: Interval) -> Interval:
    los = [end for end in (x[0], y[0]) if end is not None]
    his = [end for end in (x[1], y[1]) if end is not None]
    return (max(los, default=None), min(his, default=None))


def interval(dim: Dim, symbol: Callable[[str], Interval], inner: Inner) -> Interval:
    """Bounds of `dim` from those of its symbols, each term on its own; `inner` are those of dims inside atoms."""
    result = _termwise(dim, symbol, inner)
    if all(isinstance(atom, str) for monomial, _ in dim.terms for atom in monomial):
        return result
    # n - 8*(n//8) says little term by term; n % 8 says that it is in 0..7.
    other: Interval = (0, 0)
    for view in terms_of(dim):
        term: Interval = (1, 1)
        for factor in view.factors:
            term = mul(term, of_factor(factor, symbol, inner))
        other = add(other, scale(term, view.coefficient))
    result = intersect(result, other)
    halves = _in_halves(dim)
    return result if halves is None else intersect(result, _termwise(halves, symbol, inner))


def _termwise(dim: Dim, symbol: Callable[[str], Interval], inner: Inner) -> Interval:
    result: Interval = (0, 0)
    for monomial, coefficient in dim.terms:
        term: Interval = (1, 1)
        for atom in monomial:
            term = mul(term, of_factor(atom, symbol, inner))
        result = add(result, scale(term, coefficient))
    return result


def _in_halves(dim: Dim) -> Dim | None:
    """n as n//2 + (n+1)//2, where that leaves fewer terms; None where it does not.

    The canonical form of a product of halves rounded up, as a convolution of stride 2 has, is four products whose
    bounds say little.
    """
    if len(dim.terms) < 2:
        return None
    two = Dim.of(2)
    names = [a for a in dim.atoms if isinstance(a, str) and FloorDiv(Dim.of(a), two) in dim.atoms]
    split = dim
    for name in names:
        down, up = FloorDiv(Dim.of(name), two), FloorDiv(Dim.of(name) + 1, two)
        parts = [
            Dim.product([Dim.of(c), *(of_atom(down) + of_atom(up) if a == name else of_atom(a) for a in m)])
            for m, c in split.terms
        ]
        split = reduce(lambda a, b: a + b, parts, Dim.of(0))
    return split if len(split.terms) < len(dim.terms) else None


def of_factor(factor: Factor | Atom, symbol: Callable[[str], Interval], inner: Inner) -> Interval:
    if isinstance(factor, str):
        return symbol(factor)
    if isinstance(factor, Dim):
        return inner(factor)
    if isinstance(factor, Extremum):
        return _extremum(factor, inner)
    operation = mod if isinstance(factor, Mod) else floordiv
    return operation(inner(factor.numerator), inner(factor.denominator))


def _extremum(atom: Extremum, inner: Inner) -> Interval:
    parts = [inner(arg) for arg in atom.arguments]
    los, his = [p[0] for p in parts], [p[1] for p in parts]
    known_los, known_his = [v for v in los if v is not None], [v for v in his if v is not None]
    if atom.kind == "min":
        return (min(known_los) if len(known_los) == len(los) else None, min(known_his, default=None))
    return (max(known_los, default=None), max(known_his) if len(known_his) == len(his) else None)
