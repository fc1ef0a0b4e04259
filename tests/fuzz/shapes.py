"""What moves elements: views, slices, pads, joins; and what makes tensors of sizes alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pliant.ir.dims import Dim
from pliant.ir.types import DType

from .drawing import Drawing, Sizes, Value
from .numbers import Array, Number, Numpy, Unwanted, same, stored, sure


def moved(d: Drawing, op: str, operands: Sequence[Value], function: Callable[..., Array], **attributes: Any) -> None:
    """An operator that only moves elements; `function(sizes, *arrays)`."""

    def meaning(n: Numpy, sizes: Sizes, *given: Number) -> Number:
        return same(function(sizes, *(g.array for g in given)), *given)

    d.apply(op, operands, meaning, **attributes)


def whole(size: Dim | int | None, sizes: Sizes) -> int | None:
    return size.evaluate(sizes) if isinstance(size, Dim) else size


def shape_of(dims: Sequence[Dim], sizes: Sizes) -> tuple[int, ...]:
    return tuple(d.evaluate(sizes) for d in dims)


def transpose(d: Drawing) -> None:
    x = d.pick(lambda v: v.rank >= 2)
    if d.chance(0.5):
        order = d.random.sample(range(x.rank), x.rank)
        moved(d, "permute", [x], lambda s, a: np.transpose(a, order), axes=order)
    else:
        i, j = d.random.sample(range(x.rank), 2)
        moved(d, "transpose", [x], lambda s, a: np.swapaxes(a, i, j), axis=[i, j - x.rank])


def ones(d: Drawing) -> None:
    """A size of 1 put in or taken out."""
    one = Dim.of(1)
    if d.chance(0.6):
        x = d.pick(lambda v: v.rank <= 4)
        axis = d.random.randint(-x.rank - 1, x.rank)
        moved(d, "unsqueeze", [x], lambda s, a: np.expand_dims(a, axis), axis=axis)
    else:
        x = d.pick(lambda v: one in v.dims)
        axis = d.one([i for i, size in enumerate(x.dims) if size == one])
        moved(d, "squeeze", [x], lambda s, a: np.squeeze(a, axis), axis=axis)


def flatten(d: Drawing) -> None:
    x = d.pick(lambda v: v.rank >= 1)
    i = d.axis(x)
    j = d.random.randrange(i, x.rank)
    moved(
        d, "flatten", [x],
        lambda s, a: a.reshape(*a.shape[:i], int(np.prod(a.shape[i : j + 1])), *a.shape[j + 1 :]),
        start_dim=i, end_dim=j - x.rank,
    )  # fmt: skip


def reshape(d: Drawing) -> None:
    x = d.pick()
    dims = list(x.dims)
    form = d.one(["merge", "split", "one", "rest"])
    if form == "merge" and x.rank >= 2:
        i = d.random.randrange(x.rank - 1)
        new = [*dims[:i], dims[i] * dims[i + 1], *dims[i + 2 :]]
    elif form == "split" and dims:
        i, k = d.axis(x), Dim.of(d.one([2, 3, 4]))
        parts = [dims[i] // k, k]
        new = [*dims[:i], *(parts if d.chance(0.6) else parts[::-1]), *dims[i + 1 :]]
    elif form == "rest" and dims:
        i = d.axis(x)
        new = [*dims[:i], Dim.of(-1), *dims[i + 1 :]]
    else:
        i = d.random.randint(0, x.rank)
        new = [*dims[:i], Dim.of(1), *dims[i:]]

    def function(sizes: Sizes, a: Array) -> Array:
        shape = [n if n != -1 else m for n, m in zip(shape_of(new, sizes), [*a.shape, 1, 1], strict=False)]
        if np.prod(shape) != a.size:
            raise Unwanted
        return a.reshape(shape)

    moved(d, "reshape", [x], function, shape=new)


def expand(d: Drawing) -> None:
    x = d.pick()
    one = Dim.of(1)
    new = [d.size() if size == one and d.chance(0.8) else size for size in x.dims]
    if d.chance(0.5) or not new:
        new = [d.size(), *new]
    op = d.one(["expand", "broadcast_to"])
    moved(d, op, [x], lambda s, a: np.broadcast_to(a, shape_of(new, s)), shape=new)


def turned(d: Drawing) -> None:
    x = d.pick(lambda v: v.rank >= 1)
    axis = d.axis(x)
    if d.chance(0.5):
        moved(d, "flip", [x], lambda s, a: np.flip(a, axis), axis=axis)
    else:
        by = d.one([Dim.of(1), Dim.of(-2), Dim.of(7), d.offset(), 0 - d.offset()])
        moved(d, "roll", [x], lambda s, a: np.roll(a, by.evaluate(s), axis), shift=by, axis=axis)


def repeat(d: Drawing) -> None:
    x = d.pick(lambda v: 1 <= v.rank <= 3)
    times = [d.one([Dim.of(1), Dim.of(2), Dim.of(3), *map(d.dim, d.symbols)]) for _ in x.dims]
    if d.chance(0.3):
        times = [Dim.of(2), *times]
    moved(d, d.one(["repeat", "tile"]), [x], lambda s, a: np.tile(a, shape_of(times, s)), repeats=times)


def part(d: Drawing) -> None:
    x = d.pick(lambda v: v.rank >= 1)
    axis = d.axis(x)
    size = x.dims[axis]
    start = d.one([None, Dim.of(0), Dim.of(1), Dim.of(2), Dim.of(-1), Dim.of(-3), d.offset(), size // 2])
    stop = d.one([None, Dim.of(1), Dim.of(3), Dim.of(-1), Dim.of(100), d.offset(), size, size - size // 3])
    step = d.one([1, 1, 1, 2, 3, -1, -2])
    given = {name: v for name, v in (("start", start), ("stop", stop)) if v is not None}
    if step != 1:
        given["step"] = step

    def function(sizes: Sizes, a: Array) -> Array:
        return a[(slice(None),) * axis + (slice(whole(start, sizes), whole(stop, sizes), step),)]

    moved(d, "slice", [x], function, axis=axis if d.chance(0.6) else axis - x.rank, **given)


def pad(d: Drawing) -> None:
    x = d.pick(lambda v: v.rank >= 1)
    mode = d.one(["constant", "constant", "reflect", "replicate"])

    def amount() -> Dim:
        return d.one(
            [Dim.of(0), Dim.of(0), Dim.of(d.random.randint(0, 3)), Dim.of(-d.random.randint(1, 2)), d.offset()]
        )

    pads = [(amount(), amount()) for _ in x.dims]
    value: Any = d.chance(0.5) if x.dtype.is_bool else d.one([0, 1, 7]) if x.dtype.is_int else d.one([0.0, 0.3, 2.5])
    given: dict[str, Any] = {"mode": mode} if mode != "constant" else {"value": value}

    def function(sizes: Sizes, a: Array) -> Array:
        for i, (low, high) in enumerate(pads):
            before, after = low.evaluate(sizes), high.evaluate(sizes)
            wide = [(0, 0)] * a.ndim
            wide[i] = (max(before, 0), max(after, 0))
            if mode == "constant":
                a = np.pad(a, wide, constant_values=stored(value, DType.of(a.dtype)))
            elif wide[i] != (0, 0):
                if a.shape[i] <= max(wide[i]) or not a.size:
                    raise Unwanted
                a = np.pad(a, wide, mode="reflect" if mode == "reflect" else "edge")
            a = a[(slice(None),) * i + (slice(max(-before, 0), a.shape[i] - max(-after, 0)),)]
        return a

    moved(d, "pad", [x], function, pads=pads, **given)


def triangle(d: Drawing) -> None:
    x = d.pick(lambda v: v.rank >= 2)
    op, k = d.one(["tril", "triu"]), d.one([Dim.of(0), Dim.of(1), Dim.of(-1), d.offset()])
    if d.chance(0.3):
        offset = d.one([0, 1, -1])
        moved(d, "diagonal", [x], lambda s, a: np.diagonal(a, offset, -2, -1), offset=offset)
    else:
        moved(d, op, [x], lambda s, a: getattr(np, op)(a, k.evaluate(s)), diagonal=k)


def join(d: Drawing) -> None:
    if d.chance(0.6):
        x = d.pick(lambda v: v.rank >= 1)
        axis = d.axis(x)

        def alike(v: Value) -> bool:
            others = [i for i in range(x.rank) if i != axis]
            return v.dtype is x.dtype and v.rank == x.rank and all(v.dims[i] == x.dims[i] for i in others)

        parts = [x] + [d.pick(alike, recent=False) for _ in range(d.random.randint(1, 3))]
        moved(d, "concat", parts, lambda s, *a: np.concatenate(a, axis), axis=axis)
    else:
        x = d.pick(lambda v: v.rank <= 3)
        parts = [x] + [d.pick(lambda v: v.type == x.type, recent=False) for _ in range(d.random.randint(0, 2))]
        axis = d.random.randint(-x.rank - 1, x.rank)
        moved(d, "stack", parts, lambda s, *a: np.stack(a, axis), axis=axis)


def split(d: Drawing) -> None:
    x = d.pick(lambda v: v.rank >= 1)
    axis = d.axis(x)
    size = x.dims[axis]
    first = d.one([Dim.of(1), size // 2, Dim.min(size, Dim.of(2))])
    sections = [first, size - first]
    if d.chance(0.3):
        sections.insert(1, Dim.of(0))

    def meaning(n: Numpy, sizes: Sizes, a: Number) -> tuple[Number, ...]:
        ends = np.cumsum(shape_of(sections, sizes))[:-1]
        return tuple(same(p, a) for p in np.split(a.array, ends, axis))

    d.apply("split", [x], meaning, sizes=sections, axis=axis)


def created(d: Drawing) -> None:
    to = d.any_dtype()
    if to.is_bool:
        to = DType.i64
    shape = [d.size() for _ in range(d.random.randint(1, 3))]
    form = d.one(["arange", "iota", "full", "eye", "dim"])
    if form == "dim":
        x = d.pick(lambda v: v.rank >= 1)
        axis = d.axis(x)
        d.apply("dim", [x], lambda n, s, a: sure(a.array.shape[axis], DType.i64), axis=axis)
    elif form == "arange":
        low = Dim.of(-2 if to.is_signed else 1)  # a size that its type does not hold is refused
        start, stop, step = d.one([Dim.of(0), low, d.offset()]), d.size(), d.one([1, 2, -1])
        d.apply(
            "arange", [], lambda n, s: sure(np.arange(start.evaluate(s), stop.evaluate(s), step), to),
            stop=stop, start=start, step=step, dtype=to,
        )  # fmt: skip
    elif form == "iota":
        axis = d.random.randrange(len(shape))
        d.apply(
            "iota", [], lambda n, s: sure(np.indices(shape_of(shape, s))[axis], to), shape=shape, axis=axis, dtype=to
        )
    elif form == "full":
        value = d.one([1, 2, 7]) if to.is_int else d.one([1, 0.3, -2.5, d.offset()])
        d.apply(
            "full", [],
            lambda n, s: sure(np.full(shape_of(shape, s), whole(value, s) if isinstance(value, Dim) else value), to),
            shape=shape, value=value, dtype=to,
        )  # fmt: skip
    else:
        rows, columns, k = d.size(), d.size(), d.one([0, 1, -2])
        d.apply(
            "eye", [], lambda n, s: sure(np.eye(rows.evaluate(s), columns.evaluate(s), k), to),
            n=rows, m=columns, diagonal=k, dtype=to,
        )  # fmt: skip


FORMS = (
    (transpose, 3), (ones, 3), (flatten, 1.5), (reshape, 4), (expand, 3), (turned, 3), (repeat, 1.5), (part, 6),
    (pad, 4), (triangle, 1.5), (join, 4), (split, 2), (created, 3),
)  # fmt: skip
