"""Expressions of the loop IR as C++ expressions.  They have no effects, so that they nest freely."""

from __future__ import annotations

from ....ir.loops import Cast, Const, Expr, Index, Load, Name, Select
from ....ir.types import DType
from .index import ATOM, Int, emit_dim
from .scalar import emit_apply
from .scope import BufferRef, Scope
from .values import Value, bare, convert, from_memory, literal, to_memory


def emit(node: Expr, scope: Scope) -> Value:
    """The value of an expression."""
    if isinstance(node, Const):
        return literal(node.value, node.dtype)
    if isinstance(node, Index):
        return as_value(integer(node, scope))
    if isinstance(node, Name):
        return scope.values[node.name] if node.name in scope.values else as_value(scope.ints[node.name])
    if isinstance(node, Load):
        return convert(_load(node, scope), node.dtype)
    if isinstance(node, Cast):
        return convert(emit(node.value, scope), node.dtype)
    if isinstance(node, Select):
        return _select(node, scope)
    return emit_apply(node.fn, tuple(emit(a, scope) for a in node.args), node.dtype)


def integer(node: Expr, scope: Scope) -> Int:
    """An i64 with what is known about it."""
    if isinstance(node, Index):
        return emit_dim(node.dim, {name: _symbol(name, scope) for name in node.dim.symbols})
    if isinstance(node, Const):
        return Int(literal(node.value, DType.i64).text, ATOM, node.value >= 0, int(node.value))
    return Int(convert(emit(node, scope), DType.i64).text)


def as_value(value: Int) -> Value:
    """An index as a value of type i64."""
    return literal(value.constant, DType.i64) if value.constant is not None else Value(value.at(ATOM), DType.i64)


def element(buffer: BufferRef, index: Expr, scope: Scope) -> str:
    """An element of a buffer, in its memory type."""
    return f"{buffer.text}[{bare(integer(index, scope).text)}]"


def stored(value: Expr, dtype: DType, scope: Scope) -> str:
    """A value as it is stored in a buffer of `dtype`."""
    return bare(to_memory(convert(emit(value, scope), dtype)))


def _symbol(name: str, scope: Scope) -> Int:
    return scope.ints[name] if name in scope.ints else Int(convert(scope.values[name], DType.i64).text)


def _load(node: Load, scope: Scope) -> Value:
    buffer = scope.buffers[node.buffer]
    return from_memory(element(buffer, node.index, scope), buffer.dtype)


def _select(node: Select, scope: Scope) -> Value:
    """Only the arm that is chosen is evaluated, so that loads are guarded."""
    condition = convert(emit(node.condition, scope), DType.bool)
    a, b = emit(node.a, scope), convert(emit(node.b, scope), node.dtype)
    return Value(f"({bare(condition.text)} ? {a.text} : {b.text})", node.dtype)
