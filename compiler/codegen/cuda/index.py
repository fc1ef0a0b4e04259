"""Index arithmetic: a `Dim` as an expression of `long long`.

What cannot be negative (sizes, loop variables that start at 0) is divided as C divides.  A symbolic divisor of 0 is
taken as 1: nothing it would index is reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....ir.dims import Dim

SUM, PRODUCT, ATOM = range(3)


@dataclass(frozen=True)
class Int:
    """An integer expression: how tightly it binds, whether it cannot be negative, its value where that is known."""

    text: str
    level: int = ATOM
    natural: bool = False
    constant: int | None = None

    def at(self, level: int) -> str:
        """The text as an operand of that level."""
        return self.text if self.level >= level else f"({self.text})"


def of_int(value: int) -> Int:
    """A constant."""
    wide = "ll" if not -(2**31) < value < 2**31 else ""
    return Int(f"{value}{wide}", ATOM if value >= 0 else SUM, value >= 0, value)


@dataclass(frozen=True)
class IndexAlgebra:
    """What `Dim.fold` visits."""

    symbols: Mapping[str, Int]

    def const(self, value: int) -> Int:
        return of_int(value)

    def sym(self, name: str) -> Int:
        return self.symbols[name]

    def add(self, a: Int, b: Int) -> Int:
        if a.constant == 0:
            return b
        if b.constant == 0:
            return a
        natural = a.natural and b.natural
        if b.text.startswith("-") and b.level == SUM:
            return Int(f"{a.text} - {b.text[1:]}", SUM, natural)
        return Int(f"{a.text} + {b.text}", SUM, natural)

    def mul(self, a: Int, b: Int) -> Int:
        if a.constant == 1:
            return b
        if b.constant == 1:
            return a
        if b.constant is not None:
            a, b = b, a
        if a.constant is not None and a.constant < 0:
            rest = self.mul(of_int(-a.constant), b)
            return Int(f"-{rest.at(PRODUCT)}", SUM)
        return Int(f"{a.at(PRODUCT)} * {b.at(ATOM)}", PRODUCT, a.natural and b.natural)

    def floordiv(self, a: Int, b: Int) -> Int:
        return self._divide("/", "pl_ifloordiv", a, b, a.natural and b.natural)

    def mod(self, a: Int, b: Int) -> Int:
        return self._divide("%", "pl_imod", a, b, b.natural)

    def _divide(self, operator: str, function: str, a: Int, b: Int, natural: bool) -> Int:
        if a.natural and b.constant is not None and b.constant > 0:
            return Int(f"{a.at(PRODUCT)} {operator} {b.text}", PRODUCT, natural)
        if a.natural and b.natural:
            return Int(f"{a.at(PRODUCT)} {operator} pl_imax<long long>({b.text}, 1)", PRODUCT, natural)
        return Int(f"{function}<long long>({a.text}, {b.text})", ATOM, natural)

    def min(self, a: Int, b: Int) -> Int:
        return Int(f"pl_imin<long long>({a.text}, {b.text})", ATOM, a.natural and b.natural)

    def max(self, a: Int, b: Int) -> Int:
        return Int(f"pl_imax<long long>({a.text}, {b.text})", ATOM, a.natural or b.natural)


def emit_dim(dim: Dim, symbols: Mapping[str, Int]) -> Int:
    """The expression that computes `dim`."""
    return dim.fold(IndexAlgebra(symbols))
