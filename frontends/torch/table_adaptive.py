"""Pools whose windows torch describes by more than our operators take: adaptive ones with places, own divisors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.dims import Dim
from ...ir.graph import Operand
from ...ir.types import DType
from .context import Args, Context, Result, Row
from .table_nn import avg_pool, batched, per_axis, window


def adaptive_max_pool(rank: int) -> Row:
    def row(t: Context, a: Args) -> Result:
        size = tuple(map(Dim.of, a.output_size))
        t.need_elements(a.self, range(t.rank(a.self) - rank, t.rank(a.self)))
        out = batched(t, a.self, rank, lambda x: t.op("adaptive_max_pool", x, output_size=size))
        return out, _places(t, a.self, size) if 1 in t.used else None

    return row


def _places(t: Context, x: Operand, size: Sequence[Dim]) -> Operand:
    """Where the largest element of each window stands in its plane, the first one of several.

    One axis after the other, from the last: the largest of each window along it, and where in the plane that came from.
    """
    place: Operand | None = None
    volume: Dim = Dim.of(1)
    first = t.rank(x) - len(size)
    for axis, outputs in reversed(list(enumerate(size, first))):
        dims = t.type(x).dims
        inputs = dims[axis]
        wide = (*dims[:axis], outputs, *dims[axis:])
        tail = (1,) * (len(dims) - axis - 1)
        inside = t.reshaped(_windows(t, inputs, outputs), (outputs, inputs, *tail))
        spread = t.op("where", inside, t.op("unsqueeze", x, axis=axis), float("-inf"))
        spread = t.broadcast(spread, wide)
        at = t.op("argmax", spread, axis=axis + 1)
        # Where all are -inf (or outside), the first of the window, not of the axis.
        start = t.reshaped(_start(t, inputs, outputs), (outputs, *tail))
        at = t.op("maximum", at, start)
        x = t.op("max", spread, axis=axis + 1)
        step = t.op("mul", at, t.to(volume, DType.i64))
        place = step if place is None else t.op("add", t.op("gather", place, at, axis=axis), step)
        volume = volume * inputs
    assert place is not None
    return place


def _start(t: Context, inputs: Dim, outputs: Dim) -> Operand:
    """floor(o * inputs / outputs) for each window o."""
    o = t.op("iota", shape=(outputs,), dtype=DType.i64)
    return t.op("floordiv", t.op("mul", o, t.to(inputs, DType.i64)), t.to(outputs, DType.i64))


def _windows(t: Context, inputs: Dim, outputs: Dim) -> Operand:
    """bool[outputs, inputs]: is the element in the window?"""
    o = t.op("iota", shape=(outputs, 1), axis=0, dtype=DType.i64)
    n, count = t.to(inputs, DType.i64), t.to(outputs, DType.i64)
    start = t.op("floordiv", t.op("mul", o, n), count)
    stop = t.op("add", t.op("floordiv", t.op("sub", t.op("mul", t.op("add", o, 1), n), 1), count), 1)
    i = t.op("iota", shape=(1, inputs), axis=1, dtype=DType.i64)
    return t.op("logical_and", t.op("ge", i, start), t.op("lt", i, stop))


def avg_pool_by(rank: int) -> Row:
    """With a divisor of its own: the mean of what is in each window, times how much that is."""
    plain = avg_pool(rank)

    def row(t: Context, a: Args) -> Result:
        options = window(a, rank)
        if a.get("divisor_override") is None or not options["ceil_mode"]:
            return plain(t, a)
        mean = batched(t, a.self, rank, lambda x: t.op("avg_pool", x, **options, count_include_pad=False))
        count = _counts(t, a, t.type(mean).dims, options)
        total = t.op("mul", mean, t.to(count, t.dtype))
        total = t.op("where", t.op("gt", count, 0), total, 0.0)
        return t.op("div", total, float(a.divisor_override))

    return row


def _counts(t: Context, a: Args, shape: Sequence[Dim], options: Mapping[str, Any]) -> Operand:
    """How many elements of the operand are in each window."""
    rank = len(options["kernel_size"])
    total: Operand | None = None
    for i in range(rank):
        axis = t.rank(a.self) - rank + i
        kernel, stride, pad = (per_axis(options[k], rank)[i] for k in ("kernel_size", "stride", "padding"))
        o = t.op("iota", shape=(shape[axis], *(1 for _ in range(rank - i - 1))), axis=0, dtype=DType.i64)
        start = t.op("sub", t.op("mul", o, stride), pad)
        stop = t.op("minimum", t.op("add", start, kernel), t.to(t.type(a.self).dims[axis], DType.i64))
        count = t.op("maximum", t.op("sub", stop, t.op("maximum", start, 0)), 0)
        total = count if total is None else t.op("mul", total, count)
    assert total is not None
    return total


ADAPTIVE: Mapping[str, Row] = {
    **{f"aten.adaptive_max_pool{n}d.default": adaptive_max_pool(n) for n in (1, 2, 3)},
    **{f"aten.avg_pool{n}d.default": avg_pool_by(n) for n in (2, 3)},
}
