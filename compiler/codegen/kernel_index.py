"""Index arithmetic: a `Dim` as i64 instructions.

What is known not to be negative (sizes, loop variables that start at 0) is divided without a sign correction, which is
what keeps fused and flattened loops cheap.  A symbolic divisor of 0 is taken as 1: nothing it would index is reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ir.dims import Dim
from .kernel_builder import FunctionBuilder


@dataclass(frozen=True)
class Int:
    """An i64: its text, whether it cannot be negative, and its value where that is known."""

    text: str
    natural: bool = False
    constant: int | None = None


def of_int(value: int) -> Int:
    return Int(str(value), value >= 0, value)


@dataclass(frozen=True)
class IndexAlgebra:
    """Emits the operations that `Dim.fold` visits."""

    f: FunctionBuilder
    symbols: Mapping[str, Int]

    def const(self, value: int) -> Int:
        return of_int(value)

    def sym(self, name: str) -> Int:
        return self.symbols[name]

    def _binary(self, opcode: str, a: Int, b: Int, natural: bool) -> Int:
        return Int(self.f.let(f"{opcode} i64 {a.text}, {b.text}", "i"), natural)

    def add(self, a: Int, b: Int) -> Int:
        if a.constant == 0:
            return b
        if b.constant == 0:
            return a
        return self._binary("add nsw", a, b, a.natural and b.natural)

    def mul(self, a: Int, b: Int) -> Int:
        if a.constant == 1:
            return b
        if b.constant == 1:
            return a
        if a.constant == -1:
            a, b = b, a
        if b.constant == -1:
            return self._binary("sub nsw", of_int(0), a, False)
        return self._binary("mul nsw", a, b, a.natural and b.natural)

    def _divisor(self, b: Int) -> Int:
        if b.constant is not None:
            return b
        zero = self.f.let(f"icmp eq i64 {b.text}, 0", "i")
        return Int(self.f.let(f"select i1 {zero}, i64 1, i64 {b.text}", "i"), b.natural)

    def floordiv(self, a: Int, b: Int) -> Int:
        shift = _power_of_two(b)
        if shift is not None:
            return self._binary("lshr" if a.natural else "ashr", a, of_int(shift), a.natural)
        b = self._divisor(b)
        if a.natural and b.natural:
            return self._binary("udiv", a, b, True)
        quotient = self._binary("sdiv", a, b, False)
        rest = self._binary("srem", a, b, False)
        lower = self._lower(rest, b)
        step = self.f.let(f"sext i1 {lower} to i64", "i")
        return self._binary("add nsw", quotient, Int(step), False)

    def mod(self, a: Int, b: Int) -> Int:
        if _power_of_two(b) is not None and b.constant is not None:
            return self._binary("and", a, of_int(b.constant - 1), True)
        b = self._divisor(b)
        if a.natural and b.natural:
            return self._binary("urem", a, b, True)
        rest = self._binary("srem", a, b, False)
        lower = self._lower(rest, b)
        shifted = self._binary("add nsw", rest, b, False)
        return Int(self.f.let(f"select i1 {lower}, i64 {shifted.text}, i64 {rest.text}", "i"), b.natural)

    def _lower(self, rest: Int, divisor: Int) -> str:
        """Whether the remainder is not 0 and its sign not the divisor's: truncation then rounded up."""
        some = self.f.let(f"icmp ne i64 {rest.text}, 0", "i")
        mixed = self.f.let(f"xor i64 {rest.text}, {divisor.text}", "i")
        opposite = self.f.let(f"icmp slt i64 {mixed}, 0", "i")
        return self.f.let(f"and i1 {some}, {opposite}", "i")

    def min(self, a: Int, b: Int) -> Int:
        return Int(self._extremum("smin", a, b), a.natural and b.natural)

    def max(self, a: Int, b: Int) -> Int:
        return Int(self._extremum("smax", a, b), a.natural or b.natural)

    def _extremum(self, name: str, a: Int, b: Int) -> str:
        return self.f.intrinsic(f"{name}.i64", "i64", (f"i64 {a.text}", f"i64 {b.text}"))


def _power_of_two(value: Int) -> int | None:
    n = value.constant
    return n.bit_length() - 1 if n is not None and n > 0 and n & (n - 1) == 0 else None


def emit_dim(f: FunctionBuilder, dim: Dim, symbols: Mapping[str, Int]) -> Int:
    """The instructions that compute `dim` (as i64)."""
    return dim.fold(IndexAlgebra(f, symbols))
