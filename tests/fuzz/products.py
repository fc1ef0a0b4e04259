"""Matrix products, einsum, attention, convolution, pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pliant.ir.dims import Dim

from .drawing import Drawing, Sizes, Value
from .numbers import Array, Number, Numpy, Unwanted


def matmul(d: Drawing) -> None:
    x = d.number(rank=2)
    turn_x, turn_y = d.chance(0.3), d.chance(0.4)
    inner = x.dims[-2] if turn_x else x.dims[-1]
    y = d.pick(lambda v: v.dtype is x.dtype and v.rank >= 2 and v.dims[-1 if turn_y else -2] == inner, recent=False)

    def meaning(n: Numpy, sizes: Sizes, a: Number, b: Number) -> Number:
        left, right = n.wide(a), n.wide(b)
        left = np.swapaxes(left, -1, -2) if turn_x else left
        right = np.swapaxes(right, -1, -2) if turn_y else right
        most = np.abs(left).max(initial=0) * np.abs(right).max(initial=0) if a.dtype.is_float else 0
        terms = [left / 16, right / 16, np.ceil([most * left.shape[-1]])]  # then products lie on the grid
        return n.total(a.dtype, np.matmul(left, right), np.matmul(np.abs(left), np.abs(right)), terms, [a, b])

    turned = {"transpose_a": turn_x, "transpose_b": turn_y}
    d.apply("matmul", [x, y], meaning, **{name: True for name, on in turned.items() if on})


def einsum(d: Drawing) -> None:
    x = d.pick(lambda v: v.dtype.is_float and 1 <= v.rank <= 4)
    operands = [x]
    if d.chance(0.8):
        operands.append(d.pick(lambda v: v.dtype is x.dtype and 1 <= v.rank <= 4, recent=False))
    letters: dict[Dim, str] = {}
    names = ["".join(letters.setdefault(s, "abcdefgh"[len(letters)]) for s in v.dims) for v in operands]
    kept = [c for c in sorted(letters.values()) if d.chance(0.6)]
    d.random.shuffle(kept)
    equation = f"{','.join(names)}->{''.join(kept)}"

    def meaning(n: Numpy, sizes: Sizes, *given: Number) -> Number:
        arrays = [n.wide(g) for g in given]
        if not all(np.isfinite(a).all() for a in arrays):
            raise Unwanted  # sums are taken apart, which is another thing where infinities meet
        return n.total(x.dtype, np.einsum(equation, *arrays), np.einsum(equation, *map(np.abs, arrays)))

    d.apply("einsum", operands, meaning, equation=equation)


def attention(d: Drawing) -> None:
    q = d.pick(lambda v: v.dtype.is_float and v.rank in (3, 4))

    def pairs_with(v: Value) -> bool:
        return v.dtype is q.dtype and v.rank == q.rank and v.dims[-1] == q.dims[-1] and v.dims[:-2] == q.dims[:-2]

    k = d.pick(pairs_with, recent=False)
    v = d.pick(lambda u: u.dtype is q.dtype and u.rank == q.rank and u.dims[:-1] == k.dims[:-1], recent=False)
    causal = d.chance(0.5)

    def meaning(n: Numpy, sizes: Sizes, *given: Number) -> Number:
        queries, keys, values = map(n.wide, given)
        keys = np.swapaxes(keys, -1, -2)
        scores = n.summed(q.dtype, np.matmul(queries, keys), 4 * np.matmul(np.abs(queries), np.abs(keys))) * 0.25
        if causal:
            rows, columns = np.indices(scores.shape[-2:])
            scores = np.where(columns <= rows, scores, -np.inf)
        if not scores.shape[-1]:
            return n.about(q.dtype, np.zeros((*queries.shape[:-1], values.shape[-1])))
        top = np.max(scores, -1, keepdims=True)
        weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
        total = weights.sum(-1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
        return n.total(q.dtype, np.matmul(weights, values), 4 * np.matmul(weights, np.abs(values)))

    d.apply("attention", [q, k, v], meaning, scale=0.25, **({"causal": True} if causal else {}))


def _windows(x: Array, kernel: Sequence[int], stride: int, dilation: int, at: Sequence[int]) -> Array:
    """The elements that tap `at` of the kernel meets, over all positions of the window."""
    picked: list[Any] = [slice(None), slice(None)]
    for size, k, tap in zip(x.shape[2:], kernel, at, strict=True):
        count = max((size - (dilation * (k - 1) + 1)) // stride + 1, 0)
        picked.append(np.arange(count) * stride + tap * dilation)
    return np.asarray(x[np.ix_(range(x.shape[0]), range(x.shape[1]), *picked[2:])])


def convolution(d: Drawing) -> None:
    x = d.pick(lambda v: v.dtype.is_float and v.rank in (3, 4))
    w = d.pick(lambda v: v.dtype is x.dtype and v.rank == x.rank and v.dims[1] == x.dims[1], recent=False)
    stride, padding, dilation = d.one([1, 1, 2]), d.one([0, 1, 2]), d.one([1, 1, 2])

    def meaning(n: Numpy, sizes: Sizes, a: Number, b: Number) -> Number:
        wide, weights = n.wide(a), n.wide(b)
        wide = np.pad(wide, [(0, 0), (0, 0)] + [(padding, padding)] * (wide.ndim - 2))
        kernel = weights.shape[2:]
        if 0 in kernel or any(s < dilation * (k - 1) + 1 for s, k in zip(wide.shape[2:], kernel, strict=True)):
            raise Unwanted

        def product(image: Array, taps: Array) -> Array:
            parts = [
                np.einsum("bc...,oc->bo...", _windows(image, kernel, stride, dilation, at), taps[(..., *at)])
                for at in np.ndindex(*kernel)
            ]
            return np.asarray(np.sum(parts, axis=0))

        return n.total(x.dtype, product(wide, weights), product(np.abs(wide), np.abs(weights)))

    d.apply("conv", [x, w], meaning, stride=stride, padding=padding, dilation=dilation)


def pooling(d: Drawing) -> None:
    x = d.pick(lambda v: v.dtype.is_float and v.rank in (3, 4))
    op, kernel, stride = d.one(["max_pool", "avg_pool"]), d.one([1, 2, 3]), d.one([1, 2])
    largest = op == "max_pool"

    def meaning(n: Numpy, sizes: Sizes, a: Number) -> Number:
        wide = a.array.astype(np.float64) if largest else n.wide(a)
        taps = (kernel,) * (wide.ndim - 2)
        if any(s < kernel for s in wide.shape[2:]):
            raise Unwanted
        parts = np.stack([_windows(wide, taps, stride, 1, at) for at in np.ndindex(*taps)])
        if largest:
            return n.open_zero(n.once(a.dtype, parts.max(0), a))
        return n.total(a.dtype, parts.mean(0), np.abs(parts).mean(0))

    d.apply(op, [x], meaning, kernel_size=kernel, stride=stride)


def adaptive_pooling(d: Drawing) -> None:
    x = d.pick(lambda v: v.dtype.is_float and v.rank == 3)
    count = d.one([1, 2, 3])

    def meaning(n: Numpy, sizes: Sizes, a: Number) -> Number:
        wide = n.wide(a)
        size = wide.shape[2]
        if not size:
            raise Unwanted
        parts = [wide[:, :, i * size // count : -(-(i + 1) * size // count)] for i in range(count)]
        means, sizes_of = (np.stack([p.mean(2) for p in of], 2) for of in (parts, [np.abs(p) for p in parts]))
        return n.total(a.dtype, means, sizes_of)

    d.apply("adaptive_avg_pool", [x], meaning, output_size=count)


FORMS = ((matmul, 6), (einsum, 3), (attention, 2), (convolution, 2), (pooling, 1), (adaptive_pooling, 0.5))
