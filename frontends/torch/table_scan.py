"""Running extrema with their places, and running sums of logarithms: one row an overload."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.graph import Operand
from ...ir.types import DType
from .context import Args, Context, Result, Row
from .table_reduce import numbers


def running_extreme(name: str, beyond: str) -> Row:
    """The extreme so far and the last place that had it; once there was NaN, the last NaN."""

    def row(t: Context, a: Args) -> Result:
        if t.rank(a.self) == 0:
            return a.self, t.op("zeros", shape=(), dtype=DType.i64)
        axis = t.axis(a.dim, a.self)
        x = numbers(t, a.self)
        best = t.op(name, x, axis=axis)
        if 1 not in t.used:
            return t.to(best, t.dtype), None
        # An element that reaches the extreme so far makes it; places only grow, so the largest is the last.
        made = t.op(beyond, x, best)
        if t.type(x).dtype.is_float:
            made = t.op("logical_or", made, t.op("isnan", x))
        place = t.op("iota", shape=t.type(x).dims, axis=axis, dtype=DType.i64)
        return t.to(best, t.dtype), t.op("cummax", t.op("where", made, place, 0), axis=axis)

    return row


def logcumsumexp(t: Context, a: Args) -> Operand:
    x = t.to(a.self, t.dtype)
    return t.op("logcumsumexp", x, axis=t.axis(a.dim, x)) if t.rank(x) else x


SCAN: Mapping[str, Row] = {
    "aten.cummax.default": running_extreme("cummax", "ge"),
    "aten.cummin.default": running_extreme("cummin", "le"),
    "aten.logcumsumexp.default": logcumsumexp,
}
