"""Scaled dot-product attention, and the causal mask it uses."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..build import Builder
from ..dims import Dim
from ..facts import Compare
from ..graph import Operand
from ..loops import Expr
from ..op import Array, CompositeOp, ElementContext, ElementOp, InferContext, Input, Refused, Sample
from ..scalar import add, apply, const, index, select
from ..types import DType, TensorType, tensor
from ._common import (
    FLOATS,
    SIZES,
    exact,
    given,
    lowered,
    lowest,
    one,
    operand,
    optional,
    raised,
    rounded,
    rtol,
    want_float,
)


@dataclass(frozen=True)
class CausalMask(ElementOp):
    """x [..., rows, columns] where column <= row + offset, elsewhere -inf: what a query may not see yet."""

    name: ClassVar[str] = "causal_mask"
    family: ClassVar[str] = "attention"

    offset: Dim | int = 0

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        want_float(ctx, 0, x)
        ctx.require(x.rank >= 2, f"`causal_mask` takes tensors of rank 2 and more; {ctx.name(0)} is {x}")
        return x

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        seen = apply("le", at[-1], add(at[-2], index(self.offset)))
        return select(seen, operand(inputs, 0)(*at), const(-math.inf, out.dtype))

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        return rounded(
            np.where(causal_array(x.shape[-2], x.shape[-1], self.offset), exact(x), -math.inf), DType.of(x.dtype)
        )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in FLOATS:
            yield Sample(cls(), (tensor(dtype, "n", "m"),), SIZES)
        yield Sample(cls(offset=Dim.of("m") - "n"), (tensor("f32", 2, "n", "m"),), SIZES)
        yield Sample(cls(offset=-2), (tensor("f32", "n", 7),), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(), (tensor("f32", "n"),), "`causal_mask` takes tensors of rank 2 and more; x is f32[n]")
        yield Refused(cls(), (tensor("i32", "n", "n"),), "`causal_mask` takes floating-point tensors; x is i32[n, n]")


def causal_array(rows: int, columns: int, offset: Dim | int) -> Array:
    """Which columns each row may see."""
    return np.asarray(np.arange(columns) <= np.arange(rows)[:, None] + Dim.of(offset).value)


@dataclass(frozen=True)
class Attention(CompositeOp):
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
        if not (facts.prove_lt(0, kv_heads) and facts.prove_divisible(heads, kv_heads)):
            symbols = heads.symbols | kv_heads.symbols
            raise ctx.fail(
                f"the heads of k in `attention` must divide those of q: {kv_heads} against {heads}",
                help=f"say `where {heads} == {kv_heads}`, or `where {heads} % {kv_heads} == 0`" if symbols else "",
                symbols=symbols,
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

    def decompose(self, b: Builder, *operands: Operand) -> Operand:
        q, dtype = raised(b, operands[0])
        k, v = (raised(b, o)[0] for o in operands[1:3])
        query, value = b.type(q), b.type(v)
        keys = b.type(k).dims
        product = b.matmul(self._grouped(b, self._scaled(b, q), keys[-3]), k, transpose_b=True)
        scores = _reshaped(b, product, (*query.dims[:-1], keys[-2]))
        scores = self._masked(b, scores, given(operands, 3))
        # The division comes last, where there are fewer elements; no weight at all is divided by 1.
        top = b.max(scores, axis=-1, keepdims=True, initial=lowest(dtype))
        weights = b.exp(b.sub(scores, top))
        total = b.sum(weights, axis=-1, keepdims=True)
        total = b.where(b.eq(total, 0.0), 1.0, total)
        out = _reshaped(b, b.matmul(self._grouped(b, weights, keys[-3]), v), (*query.dims[:-1], value.dims[-1]))
        return lowered(b, b.div(out, total), dtype)

    def _scaled(self, b: Builder, q: Operand) -> Operand:
        size = b.type(q).dims[-1]
        if self.scale is not None:
            return one(b.mul(q, float(self.scale)))
        if size.is_const:
            return one(b.mul(q, 1.0 / math.sqrt(size.value) if size.value else 1.0))
        return one(b.mul(q, b.rsqrt(b.cast(size, dtype=b.type(q).dtype))))

    def _grouped(self, b: Builder, x: Operand, kv_heads: Dim) -> Operand:
        """[..., kv_heads, group * s, d]: the query heads that share a key head are rows of one product."""
        *batch, heads, s, d = b.type(x).dims
        if b.facts.prove_eq(heads, kv_heads):
            return x
        return one(b.reshape(x, shape=(*batch, kv_heads, (heads // kv_heads) * s, d)))

    def _masked(self, b: Builder, scores: Operand, mask: Operand | None) -> Operand:
        if mask is not None and b.type(mask).dtype.is_bool:
            scores = b.where(mask, scores, -math.inf)
        elif mask is not None:
            scores = b.add(scores, raised(b, mask)[0])
        return b.causal_mask(scores, offset=self.offset) if self.causal else scores

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


def _reshaped(b: Builder, x: Operand, shape: tuple[Dim, ...]) -> Operand:
    return x if b.type(x).dims == shape else b.reshape(x, shape=shape)
