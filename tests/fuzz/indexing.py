"""Reading and writing by indices that are data."""

from __future__ import annotations

from typing import Any

import numpy as np

from pliant.ir.types import DType

from .drawing import Drawing, Fails, Sizes, Value
from .numbers import Array, Number, Numpy, Unwanted, same, stored, sure


def small(d: Drawing) -> Value:
    """Indices; often a remainder, so that they are in range."""
    x = d.integer()
    if d.chance(0.6):
        modulus = d.one([1, 2, 3])
        (x,) = d.apply(
            "mod", [x, modulus], lambda n, s, a, _: sure(np.mod(a.array, a.array.dtype.type(modulus)), a.dtype)
        )
    return x


def within(index: Number, size: int, low: int | None = None) -> Array:
    """The indices counted from the start; Fails where one is out of range."""
    i = index.array.astype(np.int64)
    if i.size and (i.min() < (-size if low is None else low) or i.max() >= size):
        raise Fails("out of range")
    return np.where(i < 0, i + size, i)


def _rounded(value: Any, dtype: DType) -> Any:
    """16-bit floats are rounded at every step, one after the other."""
    return value if dtype.compute is dtype else stored(value, dtype).astype(np.float64)


def take(d: Drawing) -> None:
    index = small(d)
    x = d.pick(lambda v: v.rank >= 1 and v.rank + index.rank <= 5, recent=False)
    op = "embedding" if x.rank == 2 and d.chance(0.3) else "take"
    axis = 0 if op == "embedding" else d.axis(x)

    def meaning(n: Numpy, sizes: Sizes, a: Number, i: Number) -> Number:
        at = within(i, a.array.shape[axis])
        if not a.array.shape[axis]:
            return same(np.zeros((*a.array.shape[:axis], *at.shape, *a.array.shape[axis + 1 :]), a.array.dtype), a)
        return same(np.take(a.array, at, axis), a)

    d.apply(op, [x, index], meaning, **({} if op == "embedding" else {"axis": axis}))


def gather(d: Drawing) -> None:
    index = small(d)
    x = d.pick(lambda v: v.rank == index.rank and v.rank >= 1, recent=False)
    axis = d.axis(x)

    def meaning(n: Numpy, sizes: Sizes, a: Number, i: Number) -> Number:
        at = within(i, a.array.shape[axis])
        if not at.size:
            return same(np.zeros(at.shape, a.array.dtype), a)
        near = a.array[tuple(slice(None) if k == axis else slice(size) for k, size in enumerate(at.shape))]
        return same(np.take_along_axis(near, at, axis), a)

    d.apply("gather", [x, index], meaning, axis=axis)


def one_hot(d: Drawing) -> None:
    index = small(d)
    if index.rank > 3:
        raise Unwanted
    to = d.one([DType.i64, DType.f32, DType.bool, DType.f16, DType.u8])
    classes = d.offset() + 1

    def meaning(n: Numpy, sizes: Sizes, i: Number) -> Number:
        count = classes.evaluate(sizes)
        at = within(i, count, low=0)
        return sure(at[..., None] == np.arange(count), to)

    d.apply("one_hot", [index], meaning, num_classes=classes, dtype=to)


def scatter(d: Drawing) -> None:
    index = small(d)
    x = d.pick(lambda v: v.rank == index.rank and v.rank >= 1, recent=False)
    axis = d.axis(x)
    how = "set" if x.dtype.is_bool else d.one(["set", "add", "max", "min"])
    updates = d.pick(lambda v: v.dtype is x.dtype and (v.dims == index.dims or v.rank == 0), recent=False)
    combine: dict[str, Any] = {"set": lambda a, b: b, "add": np.add, "max": np.maximum, "min": np.minimum}

    def meaning(n: Numpy, sizes: Sizes, a: Number, i: Number, u: Number) -> Number:
        at = within(i, a.array.shape[axis])
        made, given = np.array(n.wide(a)), np.broadcast_to(n.wide(u), at.shape)
        for position in np.ndindex(*at.shape):
            to = (*position[:axis], int(at[position]), *position[axis + 1 :])
            made[to] = _rounded(combine[how](made[to], given[position]), a.dtype)
        if how == "add" and a.dtype.compute is a.dtype:
            return n.total(a.dtype, made, np.abs(made) + np.abs(given).sum(), [n.wide(a), given], [a, u])
        return n.open_zero(n.once(a.dtype, made, a, u))

    d.apply("scatter", [x, index, updates], meaning, axis=axis, reduce=how)


def index_put(d: Drawing) -> None:
    index = small(d)
    x = d.pick(lambda v: v.rank >= 1, recent=False)
    adds = not x.dtype.is_bool and d.chance(0.4)
    wanted = index.dims + x.dims[1:]
    values = d.pick(lambda v: v.dtype is x.dtype and v.dims == wanted[len(wanted) - v.rank :], recent=False)

    def meaning(n: Numpy, sizes: Sizes, a: Number, v: Number, i: Number) -> Number:
        at = within(i, a.array.shape[0])
        made = np.array(n.wide(a))
        given = np.broadcast_to(n.wide(v), at.shape + made.shape[1:])
        for position in np.ndindex(*at.shape):
            new = made[at[position]] + given[position] if adds else given[position]
            made[at[position]] = _rounded(new, a.dtype)
        if adds and a.dtype.compute is a.dtype:
            return n.total(a.dtype, made, np.abs(made) + np.abs(given).sum(), [n.wide(a), given], [a, v])
        return n.once(a.dtype, made, a, v)

    d.apply("index_put", [x, values, index], meaning, accumulate=adds)


FORMS = ((take, 3), (gather, 2), (one_hot, 1), (scatter, 2), (index_put, 2))
