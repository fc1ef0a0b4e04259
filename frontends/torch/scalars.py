"""Symbolic numbers and truth values as scalar tensors computed at run time.

Real numbers and truth values (SymFloat, SymBool) are no sizes; nor is a whole number (SymInt) made of an integer
argument that is only a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ...ir.build import FunctionBuilder, Given
from ...ir.diagnostics import CompileError
from ...ir.dims import Dim
from ...ir.graph import Operand
from ...ir.types import DType
from .sizes import Sizes, unknown

_POWER = 64
"""Whole exponents up to here are products."""


@dataclass
class Scalars:
    """Builds them; `numbers` are the values of integer arguments that are no sizes, i64[], by torch's symbols."""

    b: FunctionBuilder
    sizes: Sizes
    numbers: Mapping[str, Operand] = field(default_factory=dict)

    def value(self, value: Any) -> Operand:
        """f64[] for a SymFloat, bool[] for a SymBool, i64[] for a SymInt; CompileError for what has no meaning here."""
        expr = value.node.expr
        return self._tensor(self.whole(expr)) if isinstance(value, torch.SymInt) else self._real(expr)

    def is_number(self, expr: Any) -> bool:
        """Whether it is made of arguments that are no sizes."""
        return bool(self.numbers) and not self.numbers.keys().isdisjoint(map(str, expr.free_symbols))

    def whole(self, expr: Any) -> Given:
        """A whole number: i64[], or a size or literal."""
        if not self.is_number(expr):
            size = self.sizes.dim(expr)
            return size.value if size.is_const else size
        kind = type(expr).__name__
        if kind == "Symbol":
            return self.numbers[str(expr)]
        if kind == "Pow" or kind == "PowByNatural":
            base, exponent = expr.args
            if exponent.is_number and 1 <= int(exponent) <= _POWER:
                return _folded("mul")(self.b, *[self.whole(base)] * int(exponent))
        if kind in _WHOLE:
            return _WHOLE[kind](self.b, *map(self.whole, expr.args))
        raise unknown(expr, f"`{kind}` of an integer argument is not supported")

    def _real(self, expr: Any) -> Operand:
        kind = type(expr).__name__
        if kind in ("BooleanTrue", "BooleanFalse"):
            return self.full(kind == "BooleanTrue", DType.bool)
        if expr.is_number and not expr.is_Boolean:
            return self.full(float(expr), DType.f64)
        if getattr(expr, "is_Boolean", False) or getattr(expr, "is_Relational", False):
            return self._truth(expr)
        if kind in _REAL:
            return _REAL[kind](self.b, *map(self._real, expr.args))
        if kind in _UNARY:
            return getattr(self.b, _UNARY[kind])(self._real(expr.args[0]))  # type: ignore[no-any-return]
        part = expr.args[0] if kind == "ToFloat" else expr
        if self.is_number(part):
            return self.b.cast(self._tensor(self.whole(part)), dtype=DType.f64)  # type: ignore[no-any-return]
        try:
            return self.full(self.sizes.dim(part), DType.f64)
        except CompileError:
            raise unknown(expr, f"`{kind}` is not supported") from None

    def _truth(self, expr: Any) -> Operand:
        kind = type(expr).__name__
        if kind in ("And", "Or"):
            out = self._real(expr.args[0])
            for part in expr.args[1:]:
                out = getattr(self.b, f"logical_{kind.lower()}")(out, self._real(part))
            return out
        if kind == "Not":
            return self.b.logical_not(self._real(expr.args[0]))  # type: ignore[no-any-return]
        if self.is_number(expr) and kind in _COMPARED:
            return getattr(self.b, _COMPARED[kind])(*map(self.whole, expr.args))  # type: ignore[no-any-return]
        return self.b.ne(self.full(self.sizes.indicator(expr), DType.i64), 0)  # type: ignore[no-any-return]

    def _tensor(self, value: Given) -> Operand:
        return self.full(value, DType.i64) if value is None or isinstance(value, (int, float, Dim)) else value

    def full(self, value: Any, dtype: DType) -> Operand:
        return self.b.full(shape=(), value=value, dtype=dtype)  # type: ignore[no-any-return]


def _folded(name: str) -> Callable[..., Operand]:
    def fold(b: FunctionBuilder, first: Any, *rest: Given) -> Operand:
        for x in rest:
            first = getattr(b, name)(first, x)
        return first  # type: ignore[no-any-return]

    return fold


_WHOLE: Mapping[str, Callable[..., Given]] = {
    "Add": _folded("add"),
    "Mul": _folded("mul"),
    "Max": _folded("maximum"),
    "Min": _folded("minimum"),
    "FloorDiv": _folded("floordiv"),
    "PythonMod": _folded("mod"),
    "Mod": _folded("mod"),
    "Abs": lambda b, x: b.abs(x),
}
_COMPARED: Mapping[str, str] = {
    "Equality": "eq",
    "Unequality": "ne",
    "LessThan": "le",
    "StrictLessThan": "lt",
    "GreaterThan": "ge",
    "StrictGreaterThan": "gt",
}
_REAL: Mapping[str, Callable[..., Operand]] = {
    "Add": _folded("add"),
    "Mul": _folded("mul"),
    "Max": _folded("maximum"),
    "Min": _folded("minimum"),
    "IntTrueDiv": _folded("div"),
    "FloatTrueDiv": _folded("div"),
    "Pow": _folded("pow"),
    "FloatPow": _folded("pow"),
    "PowByNatural": _folded("pow"),
}
_UNARY: Mapping[str, str] = {
    "OpaqueUnaryFn_sqrt": "sqrt",
    "OpaqueUnaryFn_exp": "exp",
    "OpaqueUnaryFn_log": "log",
    "OpaqueUnaryFn_log2": "log2",
    "OpaqueUnaryFn_sin": "sin",
    "OpaqueUnaryFn_cos": "cos",
    "OpaqueUnaryFn_tan": "tan",
    "OpaqueUnaryFn_sinh": "sinh",
    "OpaqueUnaryFn_cosh": "cosh",
    "OpaqueUnaryFn_tanh": "tanh",
    "OpaqueUnaryFn_asin": "asin",
    "OpaqueUnaryFn_acos": "acos",
    "OpaqueUnaryFn_atan": "atan",
    "OpaqueUnaryFn_asinh": "asinh",
    "Abs": "abs",
}
