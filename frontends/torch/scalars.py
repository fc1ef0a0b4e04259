"""Symbolic real numbers and truth values (SymFloat, SymBool) as scalar tensors computed at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...ir.build import FunctionBuilder
from ...ir.diagnostics import CompileError
from ...ir.graph import Operand
from ...ir.types import DType
from .sizes import Sizes, unknown


def scalar_value(b: FunctionBuilder, sizes: Sizes, value: Any) -> Operand:
    """f64[] for a SymFloat, bool[] for a SymBool; CompileError for a function without a meaning here."""
    return _build(b, sizes, value.node.expr)


def _build(b: FunctionBuilder, sizes: Sizes, expr: Any) -> Operand:
    kind = type(expr).__name__
    if kind in ("BooleanTrue", "BooleanFalse"):
        return full(b, kind == "BooleanTrue", DType.bool)
    if expr.is_number and not expr.is_Boolean:
        return full(b, float(expr), DType.f64)
    if getattr(expr, "is_Boolean", False) or getattr(expr, "is_Relational", False):
        return _truth(b, sizes, expr)
    if kind in _REAL:
        return _REAL[kind](b, *(_build(b, sizes, a) for a in expr.args))
    if kind in _UNARY:
        return getattr(b, _UNARY[kind])(_build(b, sizes, expr.args[0]))  # type: ignore[no-any-return]
    if kind == "ToFloat":
        return full(b, sizes.dim(expr.args[0]), DType.f64)
    try:
        return full(b, sizes.dim(expr), DType.f64)
    except CompileError:
        raise unknown(expr, f"`{kind}` is not supported") from None


def _truth(b: FunctionBuilder, sizes: Sizes, expr: Any) -> Operand:
    kind = type(expr).__name__
    if kind in ("And", "Or"):
        out = _build(b, sizes, expr.args[0])
        for part in expr.args[1:]:
            out = getattr(b, f"logical_{kind.lower()}")(out, _build(b, sizes, part))
        return out
    if kind == "Not":
        return b.logical_not(_build(b, sizes, expr.args[0]))  # type: ignore[no-any-return]
    return b.ne(full(b, sizes.indicator(expr), DType.i64), 0)  # type: ignore[no-any-return]


def full(b: FunctionBuilder, value: Any, dtype: DType) -> Operand:
    return b.full(shape=(), value=value, dtype=dtype)  # type: ignore[no-any-return]


def _folded(name: str) -> Callable[..., Operand]:
    def fold(b: FunctionBuilder, first: Operand, *rest: Operand) -> Operand:
        for x in rest:
            first = getattr(b, name)(first, x)
        return first

    return fold


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
