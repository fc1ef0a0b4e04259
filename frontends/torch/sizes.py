"""torch's symbolic sizes (sympy expressions) as dims, facts and scalar values.

Every function that torch puts into sizes has its exact meaning here; one that has none is refused, because a fresh
symbol in its place would lose what is known of the size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any

import sympy

from ...ir.diagnostics import CompileError, error
from ...ir.dims import Dim, Extremum, of_atom
from ...ir.facts import Compare, CompareOp, InRange

_EXACT = 1 << 24
"""Denominators up to here: a float with such a value multiplies sizes below 2^29 without rounding."""

_SIMPLE = 1000
"""Denominators of fractions that may stand for the float next to them."""

_RELATIONS: Mapping[str, CompareOp] = {
    "Equality": "==",
    "Unequality": "!=",
    "LessThan": "<=",
    "StrictLessThan": "<",
    "GreaterThan": ">=",
    "StrictGreaterThan": ">",
}
_NEGATED: Mapping[CompareOp, CompareOp] = {"==": "!=", "!=": "==", "<=": ">", "<": ">=", ">=": "<", ">": "<="}


class TorchNames(dict[str, str | Dim]):
    """Every symbol under the name that torch has for it."""

    def __missing__(self, name: str) -> str:
        return name

    def __contains__(self, name: object) -> bool:
        return True


@dataclass(frozen=True)
class Ratio:
    """A real number that is a size over a positive whole number or another size."""

    numerator: Dim
    denominator: Dim


def unknown(expr: Any, why: str = "") -> CompileError:
    """The refusal of an expression that cannot be a size here."""
    said = f"the size `{expr}` of the exported program has no meaning here"
    return error(f"{said}: {why}" if why else said, helps=("say that size in whole numbers, with // and %",))


@dataclass
class Sizes:
    """Converts sympy expressions; `names` maps torch's symbols (`s17`) to names of the language, or to sizes."""

    names: Mapping[str, str | Dim]
    resolve: Callable[[Any], Any] = field(default=lambda expr: expr)
    apart: bool = False
    """Whether sizes that torch has found equal are kept apart, as the inputs had them."""

    def dim(self, value: Any) -> Dim:
        """A whole number, a SymInt, or a sympy expression as a dim; CompileError when it is not one."""
        if isinstance(value, (int, Dim)):
            return Dim.of(int(value)) if isinstance(value, int) else value
        expr = (value.node._expr if self.apart else value.node.expr) if hasattr(value, "node") else value
        ratio = self._real(self.resolve(expr))
        if ratio.denominator != 1:
            raise unknown(expr, "it is no whole number")
        return ratio.numerator

    def _dim(self, expr: Any) -> Dim:
        ratio = self._real(expr)
        if ratio.denominator != 1:
            raise unknown(expr, "it is no whole number")
        return ratio.numerator

    def _real(self, expr: Any) -> Ratio:
        if isinstance(expr, sympy.Symbol):
            return _whole(self._symbol(expr))
        if isinstance(expr, sympy.Integer):
            return _whole(Dim.of(int(expr)))
        if isinstance(expr, (sympy.Rational, sympy.Float, float)):
            value = Fraction(int(expr.p), int(expr.q)) if isinstance(expr, sympy.Rational) else Fraction(float(expr))
            if value.denominator > _EXACT:
                raise unknown(expr, "its products with sizes are rounded")
            return Ratio(Dim.of(value.numerator), Dim.of(value.denominator))
        made = _FUNCTIONS.get(type(expr).__name__)
        if made is None:
            raise unknown(expr, f"`{type(expr).__name__}` is not supported")
        return made(self, expr.args)

    def _symbol(self, symbol: sympy.Symbol) -> Dim:
        name = str(symbol)
        if name not in self.names:
            raise error(
                f"the size `{name}` depends on data (the result of `nonzero`, `item` or the like), which is not "
                "supported yet",
                helps=("keep sizes independent of values: a mask instead of a selection",),
            )
        return Dim.of(self.names[name])

    def indicator(self, condition: Any) -> Dim:
        """1 where the condition holds, else 0, as a dim."""
        kind = type(condition).__name__
        if kind in ("BooleanTrue", "BooleanFalse"):
            return Dim.of(int(bool(condition)))
        if kind in ("And", "Or"):
            parts = [self.indicator(c) for c in condition.args]
            return Dim.min(*parts) if kind == "And" else Dim.max(*parts)
        if kind == "Not":
            return 1 - self.indicator(condition.args[0])
        return self.indicator_of(self.relation(condition))

    @staticmethod
    def indicator_of(fact: Compare) -> Dim:
        """1 where the fact holds, else 0, as a dim."""
        a, b = fact.lhs, fact.rhs
        match fact.op:
            case "<=":
                return _at_most(a, b)
            case "<":
                return _at_most(a + 1, b)
            case ">=":
                return _at_most(b, a)
            case ">":
                return _at_most(b + 1, a)
            case "==":
                return _at_most(a, b) * _at_most(b, a)
            case "!=":
                return 1 - _at_most(a, b) * _at_most(b, a)

    def relation(self, expr: Any) -> Compare:
        """A comparison of sizes."""
        kind = type(expr).__name__
        if kind == "Not":
            inner = self.relation(expr.args[0])
            return Compare(_NEGATED[inner.op], inner.lhs, inner.rhs)
        if kind not in _RELATIONS:
            raise unknown(expr, f"`{kind}` is no comparison of sizes")
        a, b = (self._real(self.resolve(x)) for x in expr.args)
        # Denominators are positive: they are literals or divisors of sizes.
        if not (a.denominator.is_const and b.denominator.is_const):
            raise unknown(expr, "it compares fractions")
        return Compare(_RELATIONS[kind], a.numerator * b.denominator, b.numerator * a.denominator)


def answered(expr: Any, answer: Any) -> Any:
    """The condition that an expression has the value that it was found to have."""
    if getattr(expr, "is_Boolean", False) or getattr(expr, "is_Relational", False):
        return expr if answer else sympy.Not(expr)
    return sympy.Eq(expr, answer)


def plain(fact: Compare) -> Compare:
    """The same without an extremum that is compared with one of its own parts: `min(a, b) == a` is `a <= b`.

    A maximum too, which is the sum of its parts less their minimum.
    """
    difference = fact.lhs - fact.rhs
    extrema = [a for a in difference.atoms if isinstance(a, Extremum)]
    if fact.op != "==" or len(extrema) != 1:
        return fact
    (extremum,) = extrema
    for part in extremum.arguments:
        others = [a for a in extremum.arguments if a != part]
        if len(others) == 1 and of_atom(extremum) - part in (difference, -difference):
            return Compare("<=", *((part, others[0]) if extremum.kind == "min" else (others[0], part)))
    return fact


def _at_most(a: Dim, b: Dim) -> Dim:
    """1 where a <= b, else 0."""
    return Dim.max(0, Dim.min(1, b - a + 1))


def _whole(dim: Dim) -> Ratio:
    return Ratio(dim, Dim.of(1))


def _add(sizes: Sizes, args: tuple[Any, ...]) -> Ratio:
    def two(a: Ratio, b: Ratio) -> Ratio:
        if a.denominator == b.denominator:
            return Ratio(a.numerator + b.numerator, a.denominator)
        return Ratio(a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator)

    return _reduced(reduce(two, map(sizes._real, args)))


def _mul(sizes: Sizes, args: tuple[Any, ...]) -> Ratio:
    parts = list(map(sizes._real, args))
    return _reduced(Ratio(Dim.product(p.numerator for p in parts), Dim.product(p.denominator for p in parts)))


def _reduced(ratio: Ratio) -> Ratio:
    """Without common numerical factors, so that n * 2.0 is whole; a denominator that is a number is positive."""
    if not ratio.denominator.is_const:
        return ratio
    divisor = ratio.denominator.value
    if divisor < 0:
        return _reduced(Ratio(-ratio.numerator, -ratio.denominator))
    for factor in _divisors(divisor):
        if all(c % factor == 0 for _, c in ratio.numerator.terms):
            return Ratio(
                reduce(lambda a, b: a + b, (_term(m, c // factor) for m, c in ratio.numerator.terms), Dim.of(0)),
                Dim.of(divisor // factor),
            )
    return ratio


def _divisors(n: int) -> list[int]:
    found = [d for d in range(1, min(n, 4096) + 1) if n % d == 0]
    return sorted({*found, *(n // d for d in found)}, reverse=True)


def _term(monomial: Any, coefficient: int) -> Dim:
    return Dim({monomial: coefficient})


def _pow(sizes: Sizes, args: tuple[Any, ...]) -> Ratio:
    base, exponent = args
    if not isinstance(exponent, (sympy.Integer, int)):
        raise unknown(f"{base}**{exponent}", "the exponent is no literal")
    count, b = abs(int(exponent)), sizes._real(base)
    power = Ratio(Dim.product([b.numerator] * count), Dim.product([b.denominator] * count))
    return power if int(exponent) >= 0 else Ratio(power.denominator, power.numerator)


def _true_div(sizes: Sizes, args: tuple[Any, ...]) -> Ratio:
    a, b = map(sizes._real, args)
    return _reduced(Ratio(a.numerator * b.denominator, a.denominator * b.numerator))


def _to_round(sizes: Sizes, expr: Any) -> Ratio:
    """A real number of which only the whole part, or the next whole number, matters.

    With c the float next to p / q, c = p / q (1 + d): where |d| < 2^-54, the product c n, rounded, is p n / q itself
    wherever that is whole (it is off by at most half a step, and ties go to it), and elsewhere, where it is 1 / q or
    more away from whole numbers, on the same side of them, for p n below 2^52 / q.  So the fraction may stand for c,
    and in n / c as well.
    """
    kind = type(expr).__name__
    floats = [a for a in expr.args if isinstance(a, sympy.Float)]
    product = kind == "Mul" and len(floats) == 1 and len(expr.args) == 2
    if product or (kind == "FloatTrueDiv" and floats == [expr.args[1]]):
        exact = Fraction(float(floats[0]))
        simple = exact.limit_denominator(_SIMPLE)
        if simple and abs(exact / simple - 1) < Fraction(1, 1 << 54):
            size = sizes._dim(next(a for a in expr.args if a is not floats[0]))
            factor = simple if product else 1 / simple
            return _reduced(Ratio(size * factor.numerator, Dim.of(factor.denominator)))
    return sizes._real(expr)


def _floor(sizes: Sizes, args: tuple[Any, ...]) -> Ratio:
    x = _to_round(sizes, args[0])
    return _whole(x.numerator // x.denominator)


def _ceil(sizes: Sizes, args: tuple[Any, ...]) -> Ratio:
    x = _to_round(sizes, args[0])
    return _whole(Dim.ceildiv(x.numerator, x.denominator))


def _trunc(sizes: Sizes, args: tuple[Any, ...]) -> Ratio:
    """Towards zero: the floor of what is positive less the floor of what is negative, negated."""
    x = _to_round(sizes, args[0])
    if all(c > 0 and all(isinstance(a, str) for a in m) for d in (x.numerator, x.denominator) for m, c in d.terms):
        return _whole(x.numerator // x.denominator)
    if not x.denominator.is_const:
        raise unknown(args[0], "the sign of a truncated quotient is not known")
    up, down = Dim.max(x.numerator, 0), Dim.max(-x.numerator, 0)
    return _whole(up // x.denominator - down // x.denominator)


def _round(sizes: Sizes, args: tuple[Any, ...]) -> Ratio:
    """To the nearest whole number, of two as near to the even one."""
    x = _to_round(sizes, args[0])
    p, q = 2 * x.numerator + x.denominator, 2 * x.denominator
    half = Dim.max(0, 1 - p % q)  # 1 where x lies in the middle
    return _whole(p // q - half * ((p // q) % 2))


def _where(sizes: Sizes, args: tuple[Any, ...]) -> Ratio:
    condition, a, b = args
    yes, no = sizes._dim(a), sizes._dim(b)
    return _whole(no + sizes.indicator(condition) * (yes - no))


def _on_dims(function: Callable[..., Dim]) -> Callable[[Sizes, tuple[Any, ...]], Ratio]:
    return lambda sizes, args: _whole(function(*map(sizes._dim, args)))


def _shifted(a: Dim, b: Dim, left: bool) -> Dim:
    if not b.is_const:
        raise unknown(f"{a} shifted by {b}", "the shift is no literal")
    factor = 1 << b.value
    return a * factor if left else a // factor


def _same(sizes: Sizes, args: tuple[Any, ...]) -> Ratio:
    return sizes._real(args[0])


_FUNCTIONS: Mapping[str, Callable[[Sizes, tuple[Any, ...]], Ratio]] = {
    "Add": _add,
    "Mul": _mul,
    "Pow": _pow,
    "PowByNatural": _pow,
    "IntTrueDiv": _true_div,
    "FloatTrueDiv": _true_div,
    "floor": _floor,
    "ceiling": _ceil,
    "FloorToInt": _floor,
    "CeilToInt": _ceil,
    "TruncToInt": _trunc,
    "TruncToFloat": _trunc,
    "RoundToInt": _round,
    "ToFloat": _same,
    "Identity": _same,
    "Where": _where,
    "FloorDiv": _on_dims(lambda a, b: a // b),
    "CleanDiv": _on_dims(lambda a, b: a // b),
    "CeilDiv": _on_dims(Dim.ceildiv),
    "Mod": _on_dims(lambda a, b: a % b),
    "PythonMod": _on_dims(lambda a, b: a % b),
    "ModularIndexing": _on_dims(lambda base, divisor, modulus: (base // divisor) % modulus),
    "Max": _on_dims(Dim.max),
    "Min": _on_dims(Dim.min),
    "Abs": _on_dims(lambda a: Dim.max(a, -a)),
    "LShift": _on_dims(lambda a, b: _shifted(a, b, True)),
    "RShift": _on_dims(lambda a, b: _shifted(a, b, False)),
}


def interval(dim: Dim, low: Any, high: Any, infinite: int = 1 << 62) -> InRange:
    """torch's range of a size; bounds that stand for infinity are left out."""
    lo = max(0, int(low)) if low.is_number and low.is_finite is not False and abs(low) < infinite else 0
    bounded = getattr(high, "is_finite", True) is not False and high.is_number and high < infinite
    return InRange(dim, lo, int(high) if bounded else None)
