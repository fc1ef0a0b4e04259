"""Symbolic numbers of a graph: sizes, and what the model's code computes of them in Python.

A graph holds that arithmetic as nodes, `floordiv(sym_size(x, 0), 2)`. It is done here anew, over the sizes that our own
inference gives: torch's expressions of it were simplified under what torch assumed of sizes, and are not looked at.

Whole numbers are dims. Real numbers (`n * 0.3`, `n ** 0.5`) and truth values stay trees, which become sizes again where
the code makes them so (`int(n * 0.3)`), scalar tensors where it computes with them, and facts where it asserts them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import gcd
from typing import Any, TypeAlias, Union

from ...ir.build import FunctionBuilder
from ...ir.diagnostics import CompileError, error
from ...ir.dims import Dim
from ...ir.facts import Compare, CompareOp, Fact
from ...ir.graph import GlobalRef, Operand, Var
from ...ir.types import DType
from .rounding import ceiled, floored, reach
from .sizes import Sizes


@dataclass(frozen=True)
class Real:
    """A real number: `op` of `args`; `of` is a whole number as one."""

    op: str
    args: tuple[Number, ...]


@dataclass(frozen=True)
class Truth:
    """A truth value: a comparison, `and`, `or` or `not`."""

    op: str
    args: tuple[Number, ...]


Number: TypeAlias = Union[bool, int, float, Dim, Real, Truth, Operand]
"""An operand is a scalar tensor: a number that is known at run time only."""

Assume: TypeAlias = Callable[[Fact, str], None]
"""Takes a fact that is needed, and why; does nothing where it is known."""

_COMPARED: Mapping[str, CompareOp] = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_NEGATED: Mapping[str, str] = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
_SAME_NAME = {
    "truediv": "div", "sym_max": "max", "sym_min": "min", "and_": "and", "or_": "or", "not_": "not", "sym_not": "not",
    "sym_int": "trunc", "int": "trunc", "sym_float": "float", "sym_ite": "ite", "_sym_sqrt": "sqrt", "lshift": "shl",
    "rshift": "shr", "sym_sum": "sum",
}  # fmt: skip
_UNARY = frozenset(
    {
        *("sqrt", "exp", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
        *("asin", "acos", "atan", "asinh"),
    }
)
_SMALL = 1 << 20
"""Factors up to here multiply sizes below 2^32 without rounding."""

_SIMPLE = 1000
"""Denominators of fractions that may stand for the float next to them where it is rounded to the nearest number."""


def is_operand(x: object) -> bool:
    return isinstance(x, (Var, GlobalRef))


def is_whole(x: object) -> bool:
    return isinstance(x, Dim) or (isinstance(x, int) and not isinstance(x, bool))


def name_of(target: Any) -> str:
    """What a function of Python or torch on numbers is called here."""
    name = getattr(target, "__name__", str(target)).split(".")[-1]
    return _SAME_NAME.get(name, name.removeprefix("_sym_"))


@dataclass(frozen=True)
class Arithmetic:
    """Numbers over the sizes of one function; `assume` is told what the result of one relies on."""

    b: FunctionBuilder
    assume: Assume

    def call(self, target: Any, args: tuple[Any, ...]) -> Number:
        """A call of a function of Python or torch on numbers; CompileError for one that is not known."""
        name = name_of(target)
        if all(isinstance(a, (bool, int, float)) for a in args) and args:
            made: Number = target(*args)
            return made
        found = self.apply(name, *(args[0] if name == "sum" else args))
        return found.value if isinstance(found, Dim) and found.is_const else found

    def apply(self, name: str, *args: Number) -> Number:
        if any(map(is_operand, args)):
            made: Number = self._of_tensors(name, args)
            return made
        if name in _COMPARED or name in ("and", "or", "not"):
            return Truth(name, args)
        if name == "ite":
            return self._chosen(*args)
        if name in ("floor", "ceil", "trunc", "round"):
            if any(a is not None for a in args[1:]):  # digits to round to
                raise _refusal(name)
            return self.whole(name, args[0])
        if name == "float":
            return args[0] if isinstance(args[0], (Real, float)) else Real("of", args)
        if all(map(is_whole, args)) and name in _WHOLE:
            return _WHOLE[name](*map(Dim.of, args))  # type: ignore[arg-type]
        if name in _REAL or name in _UNARY:
            return Real(name, args)
        raise _refusal(name)

    def _chosen(self, condition: Number, a: Number, b: Number) -> Number:
        if isinstance(condition, bool):
            return a if condition else b
        if is_whole(a) and is_whole(b):
            return Dim.of(b) + self.indicator(condition) * (Dim.of(a) - b)  # type: ignore[arg-type, operator]
        raise _refusal("a choice between numbers that are no sizes")

    # -- whole numbers of real ones

    def whole(self, how: str, x: Number) -> Dim | int:
        """floor, ceil, trunc or round of a number made of sizes, as f64 gives it."""
        if isinstance(x, (int, Dim)):
            return x
        ratio = self._ratio(x)
        if how == "round":
            return _nearest(ratio)
        top, bottom = ratio.numerator, ratio.denominator
        if ratio.roundings == 0 or not bottom.is_const:
            return self._cut(how, top, lambda n: n // bottom, lambda n: Dim.ceildiv(n, bottom))
        base, content = _content(top)
        factor = Fraction(content, bottom.value)
        if factor < 0:
            base, factor = -base, -factor
        return self._cut(
            how, base, lambda n: self._scaled(n, factor, floored), lambda n: self._scaled(n, factor, ceiled)
        )

    def _cut(self, how: str, n: Dim, floor: Callable[[Dim], Dim], ceil: Callable[[Dim], Dim]) -> Dim:
        """Of what may be negative, what is above 0 and what is below are taken apart."""
        facts = self.b.facts
        if facts.prove_le(0, n):
            return ceil(n) if how == "ceil" else floor(n)
        up, down = Dim.max(n, 0), Dim.max(-n, 0)
        if how == "trunc":
            return floor(up) - floor(down)
        return floor(up) - ceil(down) if how == "floor" else ceil(up) - floor(down)

    def _scaled(self, n: Dim, factor: Fraction, rule: Callable[[Fraction, int], Any]) -> Dim:
        """The floor or ceiling of n * factor in f64."""
        limit = reach(factor)
        _, most = self.b.facts.bounds(n)
        if most is None or most > limit:
            self.assume(Compare("<=", n, limit), f"f64 tells the whole numbers of a size times {float(factor)} so far")
            most = limit
        found = rule(factor, max(most, 1))
        if found is None:
            raise _no_size(
                f"{n} times {float(factor)} is rounded in more than one way below {most}",
                "bound the size (`Dim(.., max=..)`), or say it in whole numbers, with // and %",
            )
        simple, exceptions = found
        up = rule is ceiled
        scaled = n * simple.numerator
        whole = Dim.ceildiv(scaled, simple.denominator) if up else scaled // simple.denominator
        off = reduce(operator.add, (Dim.max(0, 1 - Dim.max(n - e, e - n)) for e in exceptions), Dim.of(0))
        return whole + off if up else whole - off

    def _ratio(self, x: Number) -> _Ratio:
        """A real number as a quotient of sizes; CompileError where it is none, or was rounded more than once."""
        if is_whole(x):
            return _Ratio(Dim.of(x), Dim.of(1))  # type: ignore[arg-type]
        if isinstance(x, float):
            exact = Fraction(x)
            return _Ratio(Dim.of(exact.numerator), Dim.of(exact.denominator))
        if isinstance(x, Real) and x.op in _RATIOS:
            made = _RATIOS[x.op](*map(self._ratio, x.args))
            if made.roundings > 1:
                raise _no_size("it is rounded more than once", "say that size in whole numbers, with // and %")
            return made
        what = x.op if isinstance(x, (Real, Truth)) else type(x).__name__
        raise _no_size(f"`{what}` gives no whole number", "say that size in whole numbers, with // and %")

    # -- truth values

    def indicator(self, condition: Number) -> Dim:
        """1 where a condition on sizes holds, else 0."""
        if isinstance(condition, bool):
            return Dim.of(int(condition))
        if not isinstance(condition, Truth):
            raise _no_size("a condition on data chooses it", "use torch.where")
        if condition.op in ("and", "or"):
            return (Dim.min if condition.op == "and" else Dim.max)(*map(self.indicator, condition.args))
        if condition.op == "not":
            return 1 - self.indicator(condition.args[0])
        a, b = (Dim.of(self._side(x)) for x in condition.args)
        return Sizes.indicator_of(Compare(_COMPARED[condition.op], a, b))

    def facts(self, condition: Number) -> tuple[Fact, ...]:
        """What holds where a condition on sizes does; CompileError where that is no fact."""
        if isinstance(condition, bool):
            return () if condition else (Compare("==", 0, 1),)
        if isinstance(condition, Truth) and condition.op == "and":
            return tuple(f for part in condition.args for f in self.facts(part))
        if isinstance(condition, Truth) and condition.op == "not":
            inner = condition.args[0]
            if isinstance(inner, Truth) and inner.op in _NEGATED:
                return self.facts(Truth(_NEGATED[inner.op], inner.args))
        if isinstance(condition, Truth) and condition.op in _COMPARED:
            a, b = map(self._side, condition.args)
            return (Compare(_COMPARED[condition.op], a, b),)
        return (Compare("==", self.indicator(condition), 1),)

    def _side(self, x: Number) -> Dim | int:
        if is_whole(x):
            return x  # type: ignore[return-value]
        ratio = self._ratio(x)
        if ratio.denominator != 1:
            raise _no_size("a fraction of a size is compared", "compare whole numbers")
        return ratio.numerator

    # -- tensors

    def tensor(self, x: Number) -> Any:
        """f64[] of a real number, bool[] of a truth value, i64[] of a whole one."""
        if is_operand(x):
            return x
        if isinstance(x, (bool, float)):
            return self.b.full(shape=(), value=x, dtype=DType.bool if isinstance(x, bool) else DType.f64)
        if isinstance(x, (int, Dim)):
            return self.b.full(shape=(), value=x, dtype=DType.i64)
        return self._truth(x) if isinstance(x, Truth) else self.real(x)

    def real(self, x: Number) -> Any:
        """f64[] of any number."""
        if isinstance(x, Real) and x.op != "of":
            name = _TENSOR.get(x.op, x.op)
            return self._folded(name, [self.real(a) for a in x.args])
        if isinstance(x, Real):
            return self.real(x.args[0])
        if isinstance(x, (int, float, Dim)):
            return self.b.full(shape=(), value=float(x) if isinstance(x, int) else x, dtype=DType.f64)
        return self.b.cast(self.tensor(x), dtype=DType.f64)

    def _truth(self, x: Truth) -> Any:
        if x.op in ("and", "or"):
            return reduce(getattr(self.b, f"logical_{x.op}"), map(self.tensor, x.args))
        if x.op == "not":
            return self.b.logical_not(self.tensor(x.args[0]))
        if all(map(is_whole, x.args)):
            return self.b.ne(self.tensor(self.indicator(x)), 0)
        whole = not any(isinstance(a, (float, Real)) for a in x.args)
        return getattr(self.b, x.op)(*map(self.tensor if whole else self.real, x.args))

    def _of_tensors(self, name: str, args: tuple[Number, ...]) -> Any:
        """The same of a number that is known at run time only."""
        if name in ("float", "div") or any(isinstance(a, (float, Real)) for a in args):
            if name == "float":
                return self.real(args[0])
            given = [self.real(a) for a in args]
        else:
            given = [self.tensor(a) for a in args]
        if name == "pow" and len(args) == 2 and isinstance(args[1], int) and 1 <= args[1] <= 64:
            return reduce(self.b.mul, [given[0]] * args[1])
        if name in ("trunc", "floor", "ceil"):
            x = args[0]
            kept = self.b.type(x) if is_operand(x) else None  # type: ignore[arg-type]
            if kept is not None and kept.dtype.is_int:
                return x
            return self.b.cast(getattr(self.b, name)(given[0]), dtype=DType.i64)
        own = _TENSOR.get(name, name)
        if own in ("and", "or", "not"):
            own = f"logical_{own}"
        if not (name in _WHOLE or name in _REAL or name in _UNARY or name in _COMPARED or own.startswith("logical")):
            raise _refusal(name)
        return self._folded(own, given)

    def _folded(self, name: str, given: list[Any]) -> Any:
        """An operator of ours applied to all: of one alone, or of the first two, that and the third, and so on."""
        apply = getattr(self.b, name)
        return reduce(apply, given) if len(given) > 1 else apply(*given)


# ------------------------------------------------------------------------------------------------ quotients


@dataclass(frozen=True)
class _Ratio:
    """numerator / denominator, of which f64 has at most `roundings` steps of rounding."""

    numerator: Dim
    denominator: Dim
    roundings: int = 0


def _product(a: _Ratio, b: _Ratio) -> _Ratio:
    top, bottom = a.numerator * b.numerator, a.denominator * b.denominator
    return _reduced(top, bottom, a.roundings + b.roundings)


def _quotient(a: _Ratio, b: _Ratio) -> _Ratio:
    return _product(a, _Ratio(b.denominator, b.numerator, b.roundings))


def _sum(a: _Ratio, b: _Ratio) -> _Ratio:
    top = a.numerator * b.denominator + b.numerator * a.denominator
    return _reduced(top, a.denominator * b.denominator, a.roundings + b.roundings)


def _negative(a: _Ratio) -> _Ratio:
    return _Ratio(-a.numerator, a.denominator, a.roundings)


def _reduced(top: Dim, bottom: Dim, roundings: int) -> _Ratio:
    """In lowest terms where the denominator is a number; exact where f64 holds all such numbers of 32 bits."""
    if not bottom.is_const:
        return _Ratio(top, bottom, roundings + 1)
    base, content = _content(top)
    fraction = Fraction(content, bottom.value)
    p, q = fraction.numerator, fraction.denominator
    exact = q & (q - 1) == 0 and abs(p) <= _SMALL and q <= _SMALL
    return _Ratio(base * p, Dim.of(q), roundings + (0 if exact else 1))


def _content(dim: Dim) -> tuple[Dim, int]:
    """The dim without the greatest number that divides it, and that number."""
    content = reduce(gcd, (c for _, c in dim.terms), 0) or 1
    return Dim({m: c // content for m, c in dim.terms}), content


def _nearest(ratio: _Ratio) -> Dim:
    """The nearest whole number, of two as near the even one.

    What lies in the middle between two is represented as it is; and where the fraction is within 2^-54 of the float
    that stands for it, relatively, what is not the middle does not become it.
    """
    top, bottom = ratio.numerator, ratio.denominator
    if not bottom.is_const:
        raise _no_size("a quotient of sizes is rounded to the nearest number", "use // ")
    if ratio.roundings:
        base, content = _content(top)
        exact = Fraction(content, bottom.value)
        simple = exact.limit_denominator(_SIMPLE)
        if not simple or abs(exact / simple - 1) > Fraction(1, 1 << 54):
            raise _no_size(f"products with {float(exact)} are rounded", "say that size in whole numbers, with // and %")
        top, bottom = base * simple.numerator, Dim.of(simple.denominator)
    p, q = 2 * top + bottom, 2 * bottom
    half = Dim.max(0, 1 - p % q)  # 1 where it lies in the middle
    return p // q - half * ((p // q) % 2)


def _no_size(why: str, help: str) -> CompileError:
    return error(f"a size that is made of real numbers has no meaning here: {why}", helps=(help,))


def _refusal(name: str) -> CompileError:
    return error(f"`{name}` of sizes is not supported", helps=("say that size in whole numbers, with // and %",))


def _power(a: Dim, b: Dim) -> Dim:
    if not b.is_const or not 0 <= b.value <= 64:
        raise _no_size(f"the exponent of {a} ** {b} is no small number", "multiply it out")
    return Dim.product([a] * b.value)


def _shifted(a: Dim, b: Dim) -> int:
    if not b.is_const or b.value < 0:
        raise _no_size(f"{a} is shifted by {b}", "shift by a number")
    return int(1 << b.value)


_WHOLE: Mapping[str, Callable[..., Dim]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "neg": lambda a: -a,
    "pos": lambda a: a,
    "abs": lambda a: Dim.max(a, -a),
    "max": Dim.max,
    "min": Dim.min,
    "pow": _power,
    "shl": lambda a, b: a * _shifted(a, b),
    "shr": lambda a, b: a // _shifted(a, b),
    "sum": lambda *parts: reduce(operator.add, parts, Dim.of(0)),
}
_RATIOS: Mapping[str, Callable[..., _Ratio]] = {
    "of": lambda a: a,
    "add": _sum,
    "sub": lambda a, b: _sum(a, _negative(b)),
    "mul": _product,
    "div": _quotient,
    "neg": _negative,
}
_REAL = frozenset(("add", "sub", "mul", "div", "neg", "pos", "abs", "max", "min", "pow", "mod"))
_TENSOR: Mapping[str, str] = {"max": "maximum", "min": "minimum"}
