"""Dims as LLVM instructions in checked 64-bit arithmetic; equal sub-expressions are computed once.

The code is one straight line in which every failure leaves, so that what was computed earlier may be used anywhere
later. An operation that may overflow, or divide by zero, adds a flag; whoever emits a group of operations takes the
flags and has to branch on them before the results count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...ir.dims import Dim

MINIMUM, MAXIMUM = -(1 << 63), (1 << 63) - 1

DECLARATIONS = """\
declare {i64, i1} @llvm.sadd.with.overflow.i64(i64, i64)
declare {i64, i1} @llvm.smul.with.overflow.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
"""


@dataclass
class Lines:
    """The body of a function under construction."""

    lines: list[str] = field(default_factory=list)
    count: int = 0

    def fresh(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def let(self, instruction: str) -> str:
        """Emits `%name = instruction` and returns `%name`."""
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")


@dataclass
class DimEmitter:
    """Visits dims with `Dim.fold`; values are texts of i64 operands. `symbols` grows as symbols are bound."""

    out: Lines
    symbols: dict[str, str] = field(default_factory=dict)
    known: dict[tuple[str, ...], str] = field(default_factory=dict)
    dims: dict[Dim, str] = field(default_factory=dict)
    overflows: list[str] = field(default_factory=list)
    zeros: list[str] = field(default_factory=list)

    def emit(self, dim: Dim) -> str:
        """The dim's value; KeyError when it depends on a symbol that is not bound."""
        if dim not in self.dims:
            self.dims[dim] = dim.fold(self)
        return self.dims[dim]

    def bind(self, symbol: str, value: str) -> None:
        self.symbols[symbol] = value

    def take_flags(self) -> tuple[str | None, str | None]:
        """(overflow, division by zero) of what was emitted since the last call, each None or an i1."""
        taken = self._any(self.overflows), self._any(self.zeros)
        self.overflows, self.zeros = [], []
        return taken

    def _any(self, flags: list[str]) -> str | None:
        if not flags:
            return None
        total = flags[0]
        for flag in flags[1:]:
            total = self.out.let(f"or i1 {total}, {flag}")
        return total

    # -- the algebra

    def const(self, value: int) -> str:
        if not MINIMUM <= value <= MAXIMUM:
            self.overflows.append("true")
            return "0"
        return str(value)

    def sym(self, name: str) -> str:
        return self.symbols[name]

    def add(self, a: str, b: str) -> str:
        if _is_const(a) and _is_const(b):
            return self.const(int(a) + int(b))
        if a == "0" or b == "0":
            return b if a == "0" else a
        return self._checked("sadd", a, b)

    def mul(self, a: str, b: str) -> str:
        if _is_const(a) and _is_const(b):
            return self.const(int(a) * int(b))
        if a == "1" or b == "1":
            return b if a == "1" else a
        return self._checked("smul", a, b)

    def min(self, a: str, b: str) -> str:
        return self._shared(("smin", a, b), f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def max(self, a: str, b: str) -> str:
        return self._shared(("smax", a, b), f"call i64 @llvm.smax.i64(i64 {a}, i64 {b})")

    def floordiv(self, a: str, b: str) -> str:
        if _is_power_of_two(b):
            return self._shared(("floordiv", a, b), f"ashr i64 {a}, {int(b).bit_length() - 1}")
        return self._divide(a, b)[0]

    def mod(self, a: str, b: str) -> str:
        if _is_power_of_two(b):
            return self._shared(("mod", a, b), f"and i64 {a}, {int(b) - 1}")
        return self._divide(a, b)[1]

    # -- helpers

    def _shared(self, key: tuple[str, ...], instruction: str) -> str:
        if key not in self.known:
            self.known[key] = self.out.let(instruction)
        return self.known[key]

    def _checked(self, operation: str, a: str, b: str) -> str:
        a, b = sorted((a, b))
        key = (operation, a, b)
        if key not in self.known:
            pair = self.out.let(f"call {{i64, i1}} @llvm.{operation}.with.overflow.i64(i64 {a}, i64 {b})")
            self.known[key] = self.out.let(f"extractvalue {{i64, i1}} {pair}, 0")
            self.overflows.append(self.out.let(f"extractvalue {{i64, i1}} {pair}, 1"))
        return self.known[key]

    def _divide(self, a: str, b: str) -> tuple[str, str]:
        """Quotient rounded down and the remainder, which has the divisor's sign."""
        key = ("divide", a, b)
        if key not in self.known:
            let = self.out.let
            safe = b if _is_const(b) and int(b) not in (0, -1) else self._safe_divisor(a, b)
            quotient = let(f"sdiv i64 {a}, {safe}")
            remainder = let(f"srem i64 {a}, {safe}")
            inexact = let(f"icmp ne i64 {remainder}, 0")
            signs = let(f"xor i64 {remainder}, {safe}")
            differ = let(f"icmp slt i64 {signs}, 0")
            adjust = let(f"and i1 {inexact}, {differ}")
            lower, shifted = let(f"sub i64 {quotient}, 1"), let(f"add i64 {remainder}, {safe}")
            self.known[("modulus", a, b)] = let(f"select i1 {adjust}, i64 {shifted}, i64 {remainder}")
            self.known[key] = let(f"select i1 {adjust}, i64 {lower}, i64 {quotient}")
        return self.known[key], self.known[("modulus", a, b)]

    def _safe_divisor(self, a: str, b: str) -> str:
        """The divisor, or 1 with a flag where the processor would trap: by zero, or the one quotient of 2**63."""
        let = self.out.let
        zero = let(f"icmp eq i64 {b}, 0")
        least, minus = let(f"icmp eq i64 {a}, {MINIMUM}"), let(f"icmp eq i64 {b}, -1")
        overflow = let(f"and i1 {least}, {minus}")
        self.zeros.append(zero)
        self.overflows.append(overflow)
        bad = let(f"or i1 {zero}, {overflow}")
        return let(f"select i1 {bad}, i64 1, i64 {b}")


def _is_const(value: str) -> bool:
    return not value.startswith("%")


def _is_power_of_two(value: str) -> bool:
    return _is_const(value) and int(value) > 0 and int(value).bit_count() == 1


def unbound(dim: Dim, symbols: Mapping[str, str]) -> list[str]:
    """Symbols of the dim that have no value."""
    return sorted(dim.symbols - symbols.keys())
