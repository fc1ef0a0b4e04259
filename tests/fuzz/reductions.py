"""Reductions, scans, normalisations, softmax, sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from pliant.ir.dims import Dim
from pliant.ir.types import DType

from .drawing import Drawing, Sizes, Value
from .numbers import Array, Number, Numpy, Unwanted, certain, same, stored, sure

Axis = int | tuple[int, ...] | None


def _axes(d: Drawing, x: Value) -> tuple[Axis, dict[str, Any]]:
    """Axes for numpy, and the attributes that say so."""
    options: list[Axis] = [None]
    if x.rank:
        options += [d.axis(x), d.axis(x) - x.rank]
    if x.rank >= 2:
        options.append(tuple(sorted(d.random.sample(range(x.rank), 2))))
    axis = d.one(options)
    return axis, ({} if axis is None else {"axis": axis}) | ({"keepdims": True} if d.chance(0.4) else {})


def reduction(d: Drawing) -> None:
    x = d.number()
    ops = ["sum", "sum", "prod", "max", "min", "any", "all"]
    op: str = d.one(ops + (["mean", "var", "norm", "logsumexp"] if x.dtype.is_float else []))
    axis, attributes = _axes(d, x)
    keep = "keepdims" in attributes
    if op in ("max", "min") and d.chance(0.5):
        attributes["initial"] = d.one([0.5, -100.0, 0.3]) if x.dtype.is_float else d.one([0, 3])
    d.apply(op, [x], lambda n, s, a: _reduced(n, op, a, axis, keep, attributes.get("initial")), **attributes)


def _reduced(n: Numpy, op: str, a: Number, axis: Axis, keep: bool, initial: float | None) -> Number:
    dtype, given = a.dtype, {"axis": axis, "keepdims": keep}
    if op in ("any", "all"):
        return sure(getattr(np, op)(a.array != 0, **given), DType.bool)
    if op in ("max", "min"):
        plain = a.array.astype(np.float64) if dtype.is_float else a.array
        first = {} if initial is None else {"initial": stored(initial, dtype).astype(plain.dtype)}
        return n.open_zero(n.once(dtype, getattr(np, op)(plain, **given, **first), a))
    w = n.wide(a)
    if op == "sum":
        total = np.sum(w, **given, dtype=w.dtype)
        long = 1 + np.sqrt(w.size / max(total.size, 1)) / 4  # so much more is rounded in a long sum
        return n.total(dtype, total, long * np.sum(np.abs(w), **given), [w], [a])
    if op == "prod":
        return n.about(dtype, np.prod(w, **given, dtype=w.dtype))
    if op == "var":
        return n.about(dtype, _variance(n, a, w, given))
    if op == "mean":
        total, size = np.sum(w, **given), np.sum(np.abs(w), **given)
        count = w.size / max(total.size, 1)
        return n.total(dtype, total / count, size / count)
    if op == "norm":
        return n.about(dtype, np.sqrt(np.sum(w * w, **given)))
    top = np.max(w, axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    return n.about(dtype, np.log(np.sum(np.exp(w - top), **given)) + (top if keep else np.squeeze(top, axis)))


def _variance(n: Numpy, a: Number, w: Array, given: dict[str, Any]) -> Array:
    """What is left of nearly equal numbers depends on how the mean was rounded."""
    if not w.size:
        raise Unwanted
    return np.maximum(n.summed(a.dtype, np.var(w, **given), 4 * np.mean(np.abs(w), **given) ** 2), 0)


def truth(d: Drawing) -> None:
    x = d.truth()
    op: str = d.one(["any", "all"])
    axis, attributes = _axes(d, x)
    keep = "keepdims" in attributes
    d.apply(op, [x], lambda n, s, a: sure(getattr(np, op)(a.array, axis=axis, keepdims=keep), DType.bool), **attributes)


def place(d: Drawing) -> None:
    x = d.number(rank=1)
    op: str = d.one(["argmax", "argmin"])
    axis = d.axis(x)

    def meaning(n: Numpy, sizes: Sizes, a: Number) -> Number:
        wide = certain(a).array.astype(np.float64) if a.dtype.is_float else a.array
        return sure(getattr(np, op)(wide, axis=axis), DType.i64)

    d.apply(op, [x], meaning, axis=axis)


def scan(d: Drawing) -> None:
    x = d.number(rank=1)
    op = d.one(["cumsum", "cumsum", "cumprod", "cummax", "cummin"] + (["logcumsumexp"] if x.dtype.is_float else []))
    axis, back = d.axis(x), d.chance(0.3)
    shifted = op in ("cumsum", "cumprod") and d.chance(0.3)
    attributes = {"axis": axis} | ({"reverse": True} if back else {}) | ({"exclusive": True} if shifted else {})
    ufuncs: dict[str, np.ufunc] = {
        "cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum,
        "logcumsumexp": np.logaddexp,
    }  # fmt: skip

    def meaning(n: Numpy, sizes: Sizes, a: Number) -> Number:
        exact = op in ("cummax", "cummin")
        w = a.array.astype(np.float64) if exact and a.dtype.is_float else n.wide(a)
        w = np.flip(w, axis) if back else w
        made = ufuncs[op].accumulate(w, axis=axis).astype(w.dtype) if w.shape[axis] else w.copy()
        if shifted and w.shape[axis]:
            first = np.full_like(np.take(made, [0], axis), 0 if op == "cumsum" else 1)
            made = np.concatenate([first, np.take(made, range(w.shape[axis] - 1), axis)], axis)
        made = np.flip(made, axis) if back else made
        if exact:
            return n.open_zero(n.once(a.dtype, made, a))
        return n.total(a.dtype, made, np.abs(w).sum(), [w], [a]) if op == "cumsum" else n.about(a.dtype, made)

    d.apply(op, [x], meaning, **attributes)


def softmax(d: Drawing) -> None:
    x = d.real(rank=1)
    axis, log = d.axis(x), d.chance(0.4)

    def meaning(n: Numpy, sizes: Sizes, a: Number) -> Number:
        w = n.wide(a)
        if not w.size:
            return n.about(a.dtype, w)
        made = w - np.max(w, axis=axis, keepdims=True)
        made = made - np.log(np.exp(made).sum(axis=axis, keepdims=True))
        slack = 1 + np.abs(made) + np.sqrt(w.shape[axis]) / 4  # of the exponents, and of a long sum
        if log:
            return n.about(a.dtype, n.summed(a.dtype, made, slack))
        return n.about(a.dtype, n.summed(a.dtype, np.exp(made), np.where(np.isfinite(made), slack, 0) * np.exp(made)))

    d.apply("log_softmax" if log else "softmax", [x], meaning, axis=axis)


def _centred(n: Numpy, w: Array, dtype: DType, axis: int) -> Array:
    """w minus its mean, of which the rounding shows where the numbers are nearly equal."""
    mean = n.summed(dtype, w.mean(axis, keepdims=True), np.abs(w).mean(axis, keepdims=True))
    return np.asarray(w - mean)


def norm(d: Drawing) -> None:
    x = d.real(rank=1)
    op, axis, eps = d.one(["layer_norm", "rms_norm"]), d.axis(x), d.one([1e-3, 1e-2])
    operands: list[Any] = [x]
    for _ in range(2 if op == "layer_norm" else 1):
        fitting = [v for v in d.values if v.dtype is x.dtype and v.dims == (x.dims[axis],)]
        operands.append(d.one(fitting) if fitting and d.chance(0.6) else None)

    def meaning(n: Numpy, sizes: Sizes, a: Number, *factors: Number | None) -> Number:
        w = n.wide(a)
        shape = [-1 if i == axis else 1 for i in range(w.ndim)]
        if not w.size:
            return n.about(a.dtype, w)
        if op == "layer_norm":
            w = _centred(n, w, a.dtype, axis) / np.sqrt(w.var(axis, keepdims=True) + eps)
        else:
            w = w / np.sqrt((w * w).mean(axis, keepdims=True) + eps)
        scale, bias = (*factors, None)[:2]
        w = w if scale is None else w * n.wide(scale).reshape(shape)
        return n.about(a.dtype, w if bias is None else w + n.wide(bias).reshape(shape))

    d.apply(op, operands, meaning, axis=axis, eps=eps)


def group_norm(d: Drawing) -> None:
    x = d.real(rank=2)
    groups = d.one([1, 2, 3])

    def meaning(n: Numpy, sizes: Sizes, a: Number) -> Number:
        w = n.wide(a)
        if not w.size:
            return n.about(a.dtype, w)
        grouped = w.reshape(w.shape[0], groups, -1)
        made = _centred(n, grouped, a.dtype, 2) / np.sqrt(grouped.var(2, keepdims=True) + 1e-2)
        return n.about(a.dtype, made.reshape(w.shape))

    d.apply("group_norm", [x], meaning, groups=groups, eps=1e-2)


def order(d: Drawing) -> None:
    x = d.number(rank=1)
    axis, down = d.axis(x), d.chance(0.5)
    op = d.one(["sort", "argsort", "topk"])

    def places(a: Number) -> Array:
        w = certain(a).array.astype(np.float64) if a.dtype.is_float else a.array
        if not down:
            return np.argsort(w, axis=axis, kind="stable")
        back = np.flip(np.argsort(np.flip(w, axis), axis=axis, kind="stable"), axis)
        return np.asarray(w.shape[axis] - 1 - back)

    def sorted_(n: Numpy, sizes: Sizes, a: Number, count: Dim | None = None) -> tuple[Number, Number]:
        at = places(a)
        at = at if count is None else np.take(at, range(count.evaluate(sizes)), axis)
        return same(np.take_along_axis(a.array, at, axis), a), sure(at, DType.i64)

    if op == "argsort":
        d.apply(op, [x], lambda n, s, a: sure(places(a), DType.i64), axis=axis, descending=down)
    elif op == "sort":
        d.apply(op, [x], sorted_, axis=axis, descending=down)
    else:
        k = d.one([Dim.of(1), Dim.min(x.dims[axis], Dim.of(3)), x.dims[axis] // 2, x.dims[axis]])
        d.apply(op, [x], lambda n, s, a: sorted_(n, s, a, k), k=k, axis=axis, largest=down)


FORMS = (
    (reduction, 8), (truth, 1), (place, 1), (scan, 3), (softmax, 2), (norm, 2), (group_norm, 1), (order, 3),
)  # fmt: skip
