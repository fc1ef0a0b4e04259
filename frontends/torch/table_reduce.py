"""Reductions, running totals and order: one row an overload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.graph import Operand
from ...ir.types import DType
from .context import Args, Context, Result, Row


def reduced(t: Context, name: str, x: Operand, dim: Any, keepdim: bool, **more: Any) -> Operand:
    """A reduction in torch's terms; a tensor without axes reduces to itself."""
    axes = t.axes(dim, x)
    if not axes and name in _OF_ONE:
        return t.op(_OF_ONE[name], x) if _OF_ONE[name] else x
    return t.op(name, x, axis=axes, keepdims=bool(keepdim), **more)


_OF_ONE = dict.fromkeys(("sum", "prod", "mean", "max", "min", "logsumexp"), "") | {"norm": "abs"}
"""What reductions of one element are."""


def reduction(name: str) -> Row:
    """A sum or the like, in the result's element type."""
    return lambda t, a: reduced(t, name, t.to(a.self, t.dtype), a.get("dim"), a.get("keepdim", False))


def truth(name: str) -> Row:
    def row(t: Context, a: Args) -> Operand:
        return t.to(reduced(t, name, a.self, a.get("dim"), a.get("keepdim", False)), t.dtype)  # type: ignore[no-any-return]

    return row


def numbers(t: Context, x: Operand) -> Operand:
    """Bools as small integers, which have an order."""
    return t.op("cast", x, dtype=DType.u8) if t.type(x).dtype.is_bool else x


def extreme(name: str) -> Row:
    def row(t: Context, a: Args) -> Operand:
        axes = t.axes(a.get("dim"), a.self)
        t.need_elements(a.self, axes)
        return t.to(reduced(t, name, numbers(t, a.self), axes, a.get("keepdim", False)), t.dtype)  # type: ignore[no-any-return]

    return row


def place(t: Context, name: str, x: Operand, dim: int | None, keepdim: bool) -> Operand:
    """Where the extreme element stands, in the flattened tensor without `dim`."""
    x = numbers(t, x)
    if t.rank(x) == 0:
        return t.op("zeros", shape=(), dtype=DType.i64)
    axes = t.axes(dim, x)
    t.need_elements(x, axes)
    if dim is None:
        where = t.op(name, t.op("reshape", x, shape=(-1,)), axis=0)
        return t.reshaped(where, (1,) * t.rank(x)) if keepdim else where
    return t.op(name, x, axis=axes[0], keepdims=bool(keepdim))


def position(name: str) -> Row:
    return lambda t, a: place(t, name, a.self, a.dim, a.keepdim)


def extreme_and_place(value: str, where: str) -> Row:
    def row(t: Context, a: Args) -> Result:
        top = extreme(value)(t, a)
        assert not isinstance(top, (tuple, list))
        return top, place(t, where, a.self, a.dim, a.keepdim) if 1 in t.used else None

    return row


def spread(name: str, mean: bool = False) -> Row:
    """Variance and deviation; the correction of torch is 1 unless said."""

    def row(t: Context, a: Args) -> Result:
        correction = a.get("correction", 1.0 if a.get("unbiased", True) else 0.0)
        correction = 1.0 if correction is None else float(correction)
        out = reduced(t, name, a.self, a.get("dim"), a.get("keepdim", False), correction=correction)
        return (out, reduced(t, "mean", a.self, a.get("dim"), a.get("keepdim", False))) if mean else out

    return row


def scan(name: str) -> Row:
    def row(t: Context, a: Args) -> Operand:
        x = t.to(a.self, t.dtype)
        return t.op(name, x, axis=t.axis(a.dim, x)) if t.rank(x) else x

    return row


def vector_norm(t: Context, a: Args) -> Operand:
    axes = t.axes(a.dim, a.self)
    if a.ord in (float("inf"), float("-inf")) or a.ord < 0:
        t.need_elements(a.self, axes)
    return t.op("norm", t.to(a.self, t.dtype), axis=axes, keepdims=bool(a.keepdim), ord=float(a.ord))


def logsumexp(t: Context, a: Args) -> Operand:
    return reduced(t, "logsumexp", t.to(a.self, t.dtype), a.dim, a.keepdim)


def softmax(name: str) -> Row:
    def row(t: Context, a: Args) -> Operand:
        x = t.to(a.self, t.dtype)
        if t.rank(x):
            return t.op(name, x, axis=t.axis(a.dim, x))
        flat = t.op(name, t.op("reshape", x, shape=(1,)), axis=0)
        return t.reshaped(flat, ())

    return row


def sort(t: Context, a: Args) -> Result:
    """Always stable, which is what either kind of torch's sort may be."""
    if t.rank(a.self) == 0:
        return a.self, t.op("zeros", shape=(), dtype=DType.i64)
    values, where = t.b.sort(numbers(t, a.self), axis=t.axis(a.dim, a.self), descending=bool(a.descending))
    return t.to(values, t.dtype), where


def topk(t: Context, a: Args) -> Result:
    if t.rank(a.self) == 0:
        return a.self, t.op("zeros", shape=(), dtype=DType.i64)
    axis = t.axis(a.dim, a.self)
    values, where = t.b.topk(numbers(t, a.self), k=a.k, axis=axis, largest=bool(a.largest), sorted=bool(a.sorted))
    return t.to(values, t.dtype), where


REDUCE: Mapping[str, Row] = {
    "aten.sum.default": reduction("sum"),
    "aten.sum.dim_IntList": reduction("sum"),
    "aten.mean.default": reduction("mean"),
    "aten.mean.dim": reduction("mean"),
    "aten.prod.default": reduction("prod"),
    "aten.prod.dim_int": reduction("prod"),
    "aten.amax.default": extreme("max"),
    "aten.amin.default": extreme("min"),
    "aten.max.default": extreme("max"),
    "aten.min.default": extreme("min"),
    "aten.max.dim": extreme_and_place("max", "argmax"),
    "aten.min.dim": extreme_and_place("min", "argmin"),
    "aten.argmax.default": position("argmax"),
    "aten.argmin.default": position("argmin"),
    **{f"aten.any.{kind}": truth("any") for kind in ("default", "dim", "dims")},
    **{f"aten.all.{kind}": truth("all") for kind in ("default", "dim", "dims")},
    **{f"aten.var.{kind}": spread("var") for kind in ("correction", "dim", "default")},
    **{f"aten.std.{kind}": spread("std") for kind in ("correction", "dim", "default")},
    "aten.var_mean.correction": spread("var", mean=True),
    "aten.std_mean.correction": spread("std", mean=True),
    "aten.cumsum.default": scan("cumsum"),
    "aten.cumprod.default": scan("cumprod"),
    "aten.linalg_vector_norm.default": vector_norm,
    "aten.logsumexp.default": logsumexp,
    "aten._softmax.default": softmax("softmax"),
    "aten._log_softmax.default": softmax("log_softmax"),
    "aten.sort.default": sort,
    "aten.sort.stable": sort,
    "aten.topk.default": topk,
}
