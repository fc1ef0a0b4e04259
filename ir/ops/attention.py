"""Scaled dot-product attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dims import Dim
from ..facts import Compare, InRange
from ..loops import Expr, Index
from ..op import Array, BlockBuilder, BlockOp, InferContext, Input, Refused, Sample
from ..scalar import add, apply, cast, const, index, mul, select
from ..types import DType, TensorType, tensor
from ._common import (
    FLOATS,
    SIZES,
    exact,
    operand,
    optional,
    rounded,
    rtol,
    want_float,
)

QUERIES = 48
"""Queries of a block: whole tiles of 6 and of 8 rows; their scores against a thousand keys fit the second cache."""


@dataclass(frozen=True)
class Attention(BlockOp):
    """softmax(q k^T * scale + mask) v over the last two axes.

    q: [..., heads, s, d], k: [..., kv_heads, t, d], v: [..., kv_heads, t, e] give [..., heads, s, e]; kv_heads divides
    heads, and each key head serves heads / kv_heads consecutive query heads.  `scale` is 1/sqrt(d) unless given.
    mask broadcasts against [..., heads, s, t]: a bool one says what may be seen, one of the dtype of q is added.
    With `causal`, query i sees the keys j <= i + offset: 0 is torch's `is_causal`; with p keys in a cache before the
    s new ones, say `offset=p`.  A query that sees nothing gives zeros, as in torch.
    """

    name: ClassVar[str] = "attention"
    family: ClassVar[str] = "attention"
    signature: ClassVar[tuple[str, ...]] = ("q", "k", "v", "mask?")

    causal: bool = False
    offset: Dim | int = 0
    scale: float | None = None

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        q, k, v = (operand(operands, i) for i in range(3))
        for i, t in enumerate((q, k, v)):
            want_float(ctx, i, t)
            ctx.require(
                t.rank >= 3 and t.rank == q.rank,
                f"`attention` takes q, k and v [..., heads, length, size] of one rank; {ctx.name(i)} is {t}",
                help="add a heads axis with `unsqueeze`" if t.rank == 2 else "",
            )
        ctx.same_dtype(q, k, v)
        for axis in range(q.rank - 3):
            ctx.require_equal(q.dims[axis], k.dims[axis], "the batch sizes of q and k in `attention`")
        for axis in range(q.rank - 2):
            ctx.require_equal(k.dims[axis], v.dims[axis], "the batch sizes and heads of k and v in `attention`")
        ctx.require_equal(q.dims[-1], k.dims[-1], "the sizes of q and k in `attention`")
        ctx.require_equal(k.dims[-2], v.dims[-2], "the lengths of k and v in `attention`")
        self._check_heads(ctx, q.dims[-3], k.dims[-3])
        self._check_mask(ctx, optional(operands, 3), q, k)
        if self.offset != 0:
            ctx.require(self.causal, "`offset` of `attention` means something only with `causal=true`")
        return TensorType(q.dtype, (*q.dims[:-1], v.dims[-1]))

    def _check_heads(self, ctx: InferContext, heads: Dim, kv_heads: Dim) -> None:
        facts = ctx.facts
        if facts.prove_eq(heads, kv_heads):
            return
        if not (ctx.trusted or (facts.prove_lt(0, kv_heads) and facts.prove_divisible(heads, kv_heads))):
            raise ctx.fail(
                f"the heads of k in `attention` must divide those of q: {kv_heads} against {heads}",
                help=ctx.advice(InRange(kv_heads, 1), Compare("==", heads % kv_heads, 0)),
                symbols=heads.symbols | kv_heads.symbols,
                wanted=(InRange(kv_heads, 1), Compare("==", heads % kv_heads, 0)),
            )

    def _check_mask(self, ctx: InferContext, mask: TensorType | None, q: TensorType, k: TensorType) -> None:
        if mask is None:
            return
        ctx.require(
            mask.dtype.is_bool or mask.dtype is q.dtype,
            f"the mask of `attention` must be bool or {q.dtype}; {ctx.name(3)} is {mask}",
            help=f"convert it: `cast({ctx.name(3)}, dtype=bool)` says what may be seen",
        )
        scores = (*q.dims[:-1], k.dims[-2])
        ctx.require(
            mask.rank <= len(scores),
            f"the mask of `attention` must broadcast to [{', '.join(map(str, scores))}]; {ctx.name(3)} is {mask}",
        )
        for size, score in zip(mask.dims, scores[len(scores) - mask.rank :], strict=True):
            if size != Dim.of(1):
                ctx.require_equal(size, score, "the sizes of the mask and the scores of `attention`")

    def blocks(
        self, k: BlockBuilder, out: TensorType, store: Callable[[tuple[Expr, ...], Expr], None], *inputs: Input | None
    ) -> None:
        """Scores of a block of queries stay in cache: product with the keys, softmax, product with the values."""
        query = inputs[0]
        assert query is not None
        *batch, heads, queries, _size = query.type.dims
        at: list[Expr] = []

        def nest(sizes: list[Dim]) -> None:
            if not sizes:
                _Block(self, k, out, store, tuple(at[:-1]), at[-1], *inputs).run()
                return

            def inner(variable: Expr) -> None:
                at.append(variable)
                nest(sizes[1:])
                at.pop()

            k.loop("b", index(0), index(sizes[0]), inner, "parallel")

        nest([*batch, heads, Dim.ceildiv(queries, QUERIES)])

    def reference(self, *operands: Array | None) -> Array:
        q, k, v = (exact(operand(operands, i)) for i in range(3))
        mask = optional(operands, 3)
        group = q.shape[-3] // max(k.shape[-3], 1)
        k, v = np.repeat(k, group, axis=-3), np.repeat(v, group, axis=-3)
        scale = self.scale if self.scale is not None else 1 / math.sqrt(max(q.shape[-1], 1))
        with np.errstate(all="ignore"):
            scores = np.matmul(q, np.swapaxes(k, -1, -2)) * scale
            if mask is not None:
                scores = np.where(mask, scores, -math.inf) if mask.dtype == np.bool_ else scores + exact(mask)
            if self.causal:
                scores = np.where(causal_array(scores.shape[-2], scores.shape[-1], self.offset), scores, -math.inf)
            top = np.max(scores, axis=-1, keepdims=True, initial=np.finfo(np.float64).min)
            weights = np.exp(scores - top)
            total = np.sum(weights, axis=-1, keepdims=True)
            out = np.matmul(weights, v) / np.where(total == 0, 1.0, total)
            return rounded(out, DType.of(operand(operands, 0).dtype))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in FLOATS:
            q, k = tensor(dtype, 2, 3, "n", 8), tensor(dtype, 2, 3, "m", 8)
            yield Sample(cls(), (q, k, k), SIZES, rtol=rtol(dtype), atol=1e-5)
        q, k, v = tensor("f32", "m", 2, "n", 8), tensor("f32", "m", 2, "n", 8), tensor("f32", "m", 2, "n", 5)
        yield Sample(cls(causal=True), (q, k, v), SIZES, atol=1e-5)
        yield Sample(cls(scale=0.3), (q, k, v, tensor("bool", "m", 1, 1, "n")), SIZES, atol=1e-5)
        yield Sample(cls(), (q, k, v, tensor("f32", "n", "n")), SIZES, atol=1e-5)
        total = Dim.of("m") + "n"
        q, k = tensor("f32", 1, 6, "n", 4), tensor("f32", 1, 2, total, 4)
        yield Sample(cls(causal=True, offset=Dim.of("m")), (q, k, k), SIZES, atol=1e-5)
        mask = tensor("bool", 6, "n", total)
        yield Sample(cls(causal=True, offset=Dim.of("m")), (q, k, k, mask), SIZES, atol=1e-5)
        h, d = Dim.of("h"), Dim.of("d")
        q, k = tensor("f32", 4 * h, "n", d), tensor("f32", h, 5, d)
        sizes = (
            {"n": 0, "h": 1, "d": 8},
            {"n": 1, "h": 2, "d": 0},
            {"n": 4, "h": 1, "d": 16},
            {"n": 3, "h": 0, "d": 1},
        )
        yield Sample(cls(), (q, k, k), tuple(s for s in sizes if s["h"]), (Compare(">=", h, 1),), atol=1e-5)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        q = tensor("f32", 1, 4, "s", 8)
        k = tensor("f32", 1, 4, "t", 8)
        yield Refused(cls(), (q, k), "`attention` takes (q, k, v, mask?), 2 operands given")
        yield Refused(cls(), (q, k, tensor("f32", 1, 4, "s", 8)), "the lengths of k and v in `attention` do not match")
        yield Refused(cls(), (q, tensor("f32", 1, 4, "t", 7), k), "the sizes of q and k in `attention` do not match: 8")
        three = tensor("f32", 1, 3, "t", 8)
        yield Refused(cls(), (q, three, three), "the heads of k in `attention` must divide those of q: 3 against 4")
        yield Refused(
            cls(), (q, k, k, tensor("f32", "s", "s")), "the sizes of the mask and the scores of `attention` do"
        )
        yield Refused(
            cls(), (q, k, k, tensor("i32", "s", "t")), "the mask of `attention` must be bool or f32; u is i32"
        )
        yield Refused(cls(offset=1), (q, k, k), "`offset` of `attention` means something only with `causal=true`")
        flat = tensor("f32", "s", 8)
        yield Refused(
            cls(), (flat, flat, flat), "`attention` takes q, k and v [..., heads, length, size] of one rank; x"
        )


def causal_array(rows: int, columns: int, offset: Dim | int) -> Array:
    """Which columns each row may see."""
    return np.asarray(np.arange(columns) <= np.arange(rows)[:, None] + Dim.of(offset).value)


class _Block:
    """The loops of one block of queries of one head."""

    def __init__(
        self,
        op: Attention,
        k: BlockBuilder,
        out: TensorType,
        store: Callable[[tuple[Expr, ...], Expr], None],
        outer: tuple[Expr, ...],
        block: Expr,
        *inputs: Input | None,
    ) -> None:
        query, key, value = inputs[:3]
        assert query is not None
        assert key is not None
        assert value is not None
        assert isinstance(block, Index)
        self.op, self.k, self.out, self.store = op, k, out, store
        self.query, self.key, self.value = query, key, value
        self.mask = inputs[3] if len(inputs) > 3 else None
        self.outer = outer
        self.dtype = query.type.dtype.compute
        *_, heads, queries, self.size = query.type.dims
        kv_heads, self.keys = key.type.dims[-3:-1]
        head = outer[-1]
        assert isinstance(head, Index)
        shared = k.facts.prove_eq(heads, kv_heads)
        self.key_outer = (*outer[:-1], head if shared else Index(head.dim // (heads // kv_heads)))
        self.first = block.dim * QUERIES
        self.rows = Dim.min(Dim.of(QUERIES), queries - self.first)
        last = self.first + self.rows + op.offset
        self.seen = Dim.max(0, Dim.min(self.keys, last)) if op.causal else self.keys
        self.scores = k.alloc(self.dtype, self.keys * QUERIES)
        self.inverse = k.alloc(self.dtype, Dim.of(QUERIES))

    def run(self) -> None:
        k = self.k
        k.contract(self.rows, self.seen, self.size, self.dtype, self._query, self._key, self._score)
        k.loop("m", index(0), index(self.rows), self._softmax)
        k.contract(self.rows, self.value.type.dims[-1], self.seen, self.dtype, self._weight, self._value, self._result)

    def _position(self, m: Expr) -> Expr:
        return add(index(self.first), m)

    def _at(self, m: Expr, n: Expr) -> Expr:
        return add(mul(m, index(self.keys)), n)

    def _query(self, m: Expr, i: Expr) -> Expr:
        return self.query(*self.outer, self._position(m), i)

    def _key(self, i: Expr, n: Expr) -> Expr:
        return self.key(*self.key_outer, n, i)

    def _value(self, i: Expr, n: Expr) -> Expr:
        return self.value(*self.key_outer, i, n)

    def _weight(self, m: Expr, i: Expr) -> Expr:
        return self.k.load(self.scores, self._at(m, i), self.dtype)

    def _score(self, m: Expr, n: Expr, acc: Expr) -> None:
        score = apply("mul", acc, self._scale())
        lowest = const(-math.inf, self.dtype)
        if self.mask is not None:
            position = (*self.outer, self._position(m), n)
            shape = self.mask.type.dims
            tail = position[len(position) - len(shape) :]
            mask = self.mask(*(index(0) if d == Dim.of(1) else i for d, i in zip(shape, tail, strict=True)))
            by_bool = self.mask.type.dtype.is_bool
            score = select(mask, score, lowest) if by_bool else apply("add", score, cast(mask, self.dtype))
        if self.op.causal:
            limit = add(self._position(m), index(Dim.of(self.op.offset)))
            score = select(apply("le", n, limit), score, lowest)
        self.k.store(self.scores, self._at(m, n), score)

    def _scale(self) -> Expr:
        if self.op.scale is not None:
            return const(float(self.op.scale), self.dtype)
        if self.size.is_const:
            return const(1.0 / math.sqrt(self.size.value) if self.size.value else 1.0, self.dtype)
        return apply("div", const(1.0, self.dtype), apply("sqrt", cast(index(Dim.max(self.size, 1)), self.dtype)))

    def _softmax(self, m: Expr) -> None:
        """Weights that are not divided by their sum yet; the sum's inverse is kept, 1 where nothing is seen."""
        k = self.k
        largest = k.local(const(float(np.finfo(np.float64 if self.dtype is DType.f64 else np.float32).min), self.dtype))
        total = k.local(const(0.0, self.dtype))

        def find(n: Expr) -> None:
            k.assign(largest, apply("maximum", largest, k.load(self.scores, self._at(m, n), self.dtype)))

        def weigh(n: Expr) -> None:
            score = k.load(self.scores, self._at(m, n), self.dtype)
            weight = k.let(apply("exp", apply("sub", score, largest)))
            k.store(self.scores, self._at(m, n), weight)
            k.assign(total, apply("add", total, weight))

        k.loop("n", index(0), index(self.seen), find, "vector")
        k.loop("n", index(0), index(self.seen), weigh, "vector")
        one = const(1.0, self.dtype)
        nothing = apply("eq", total, const(0.0, self.dtype))
        k.store(self.inverse, m, apply("div", one, select(nothing, one, total)))

    def _result(self, m: Expr, n: Expr, acc: Expr) -> None:
        value = apply("mul", acc, self.k.load(self.inverse, m, self.dtype))
        self.store((*self.outer, self._position(m), n), cast(value, self.out.dtype))
