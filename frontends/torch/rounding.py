"""Whole numbers from products of a size and a real number, as floating point gives them: `int(n * 0.3)`.

torch and Python compute such a product in f64, rounded once, and take its floor, ceiling or whole part. Here it becomes
`n * p // q` in whole numbers, the same for every n up to a bound. With f the exact factor, floor(n f) changes where n f
passes a whole number m, so where m / n passes f: only the fractions of denominators up to the bound matter. Between f
and the greatest of them that is at most f there is none other, so that this one gives the same floors. Rounding adds
this: where n f is below m by less than half a unit in the last place, the product is m. That is so for all m / n within
2^-54 of f, relatively, for none beyond 2^-53, and in between each is looked at. Two fractions of denominators up to N
are at least 1 / N^2 apart, so for N^2 f up to 2^52 at most one of them lies in the reach of rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

_ALWAYS = Fraction(1, 1 << 54)
_NEVER = Fraction(1, 1 << 53)


_MOST_EXCEPTIONS = 8

Scaled = tuple[Fraction, tuple[int, ...]]
"""p / q, and the sizes at which the result is one off."""


def reach(factor: Fraction) -> int:
    """The greatest size up to which `floored` and `ceiled` can tell what rounding does."""
    return isqrt((1 << 52) // max(1, -(-factor.numerator // factor.denominator)))


def floored(factor: Fraction, bound: int) -> Scaled | None:
    """p / q with floor(fl(n factor)) == floor(n p / q) for all n in 0..bound, but one less at the sizes listed.

    `factor` is positive, `bound` at most `reach(factor)`.  None where too many sizes are one off.
    """
    above = _next_above(factor, bound)
    beyond = 1 - factor / above  # of the whole number that is passed
    if _ALWAYS < beyond < _NEVER:
        return _told_apart(above, bound, lambda n, m: _rounded(n * factor) >= m)
    return (above if beyond <= _ALWAYS else _at_most(factor, bound)), ()


def ceiled(factor: Fraction, bound: int) -> Scaled | None:
    """p / q with ceil(fl(n factor)) == ceil(n p / q) for all n in 0..bound, but one more at the sizes listed."""
    below = _next_below(factor, bound)
    beyond = factor / below - 1 if below else _NEVER
    if below and _ALWAYS < beyond <= _NEVER:
        return _told_apart(below, bound, lambda n, m: _rounded(n * factor) <= m)
    return (below if below and beyond <= _ALWAYS else _at_least(factor, bound)), ()


def _told_apart(passed: Fraction, bound: int, reached: Callable[[int, int], bool]) -> Scaled | None:
    """Whether the product reaches m = n passed is told for each such n on its own."""
    missed: list[int] = []
    for k in range(1, bound // passed.denominator + 1):
        if not reached(k * passed.denominator, k * passed.numerator):
            missed.append(k * passed.denominator)
            if len(missed) > _MOST_EXCEPTIONS:
                return None
    return passed, tuple(missed)


def _rounded(x: Fraction) -> float:
    """The f64 next to x, as one rounding gives it."""
    return x.numerator / x.denominator


def _at_most(x: Fraction, bound: int) -> Fraction:
    """The greatest fraction of a denominator up to `bound` that is at most x."""
    return x if x.denominator <= bound else _neighbours(x, bound)[0]


def _at_least(x: Fraction, bound: int) -> Fraction:
    return x if x.denominator <= bound else _neighbours(x, bound)[1]


def _next_above(x: Fraction, bound: int) -> Fraction:
    """The least fraction of a denominator up to `bound` that is above x."""
    if x.denominator > bound:
        return _neighbours(x, bound)[1]
    # Of x = a / b the next one is p / q with p b - a q = 1 and the greatest such q.
    a, b = x.numerator, x.denominator
    q = pow(-a, -1, b) if b > 1 else 0
    q += (bound - q) // b * b
    return Fraction(a * q + 1, b * q)


def _next_below(x: Fraction, bound: int) -> Fraction | None:
    """The greatest fraction of a denominator up to `bound` that is below x and not negative."""
    if x.denominator > bound:
        return _neighbours(x, bound)[0]
    a, b = x.numerator, x.denominator
    q = pow(a, -1, b) if b > 1 else 0
    q += (bound - q) // b * b
    found = Fraction(a * q - 1, b * q)
    return found if found >= 0 else None


def _neighbours(x: Fraction, bound: int) -> tuple[Fraction, Fraction]:
    """The fractions of denominators up to `bound` next below and above x, which is none of them (Stern-Brocot)."""
    a, b, c, d = 0, 1, 1, 0
    while b + d <= bound:
        if Fraction(a + c, b + d) < x:
            # As many steps at once as the bound and x allow.
            k = min((bound - b) // d if d else bound, _steps(x, a, b, c, d))
            a, b = a + k * c, b + k * d
        else:
            k = min((bound - d) // b, _steps_down(x, a, b, c, d))
            c, d = c + k * a, d + k * b
    return Fraction(a, b), Fraction(c, d)


def _steps(x: Fraction, a: int, b: int, c: int, d: int) -> int:
    """The most k with (a + k c) / (b + k d) < x, at least 1."""
    over, under = x.numerator * b - a * x.denominator, c * x.denominator - x.numerator * d
    return max(1, (over - 1) // under)


def _steps_down(x: Fraction, a: int, b: int, c: int, d: int) -> int:
    """The most k with (c + k a) / (d + k b) > x, at least 1."""
    over, under = c * x.denominator - x.numerator * d, x.numerator * b - a * x.denominator
    return max(1, (over - 1) // under)
