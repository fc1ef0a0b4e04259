"""Decompositions that torch lacks, or has in operators that have no row: written in torch's own operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional as F

aten = torch.ops.aten


def erfc(x: Any) -> Any:
    """1 - erf(x) without cancellation: Press et al., Numerical Recipes, 6.2 (relative error 1.2e-7)."""
    if not x.dtype.is_floating_point:
        x = x.float()
    if x.dtype is torch.float64:
        return NotImplemented
    wide = x.float()
    z = wide.abs()
    t = 1.0 / (1.0 + 0.5 * z)
    series = torch.full_like(t, 0.17087277)
    for c in (-0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368):
        series = series * t + c
    tail = t * torch.exp(-z * z - 1.26551223 + t * series)
    return torch.where(wide < 0.5, torch.where(wide < -0.5, 2.0 - tail, 1.0 - torch.erf(wide)), tail).to(x.dtype)


def fmax(a: Any, b: Any) -> Any:
    return torch.where(torch.isnan(a), b, torch.where(torch.isnan(b), a, torch.maximum(a, b)))


def fmin(a: Any, b: Any) -> Any:
    return torch.where(torch.isnan(a), b, torch.where(torch.isnan(b), a, torch.minimum(a, b)))


def angle(x: Any) -> Any:
    if x.is_complex():
        return NotImplemented
    kind = x.dtype if x.dtype.is_floating_point else torch.float32
    half = torch.where(x < 0, math.pi, 0.0).to(kind)
    return torch.where(torch.isnan(x), x.to(kind), half) if x.dtype.is_floating_point else half


def round_decimals(x: Any, *, decimals: int) -> Any:
    if decimals == 0:
        return torch.round(x)
    factor = 10.0 ** abs(decimals)
    return torch.round(x * factor) / factor if decimals > 0 else torch.round(x / factor) * factor


def pdist(x: Any, p: float = 2.0) -> Any:
    """The distances of all pairs of rows: above the diagonal of all distances, row by row."""
    n = x.shape[0]
    if not isinstance(n, int):
        return NotImplemented
    if n < 2:
        return x.new_zeros((0,))
    square = torch.cdist(x, x, p=p, compute_mode="donot_use_mm_for_euclid_dist")
    return torch.cat([square[i, i + 1 :] for i in range(n - 1)])


def encoder_layer(
    src: Any,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    ffn_weight_1: Any,
    ffn_bias_1: Any,
    ffn_weight_2: Any,
    ffn_bias_2: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """The fast path of torch.nn.TransformerEncoderLayer in inference, as its slow path is."""

    def attend(x: Any) -> Any:
        out = self_attention(x, num_heads, qkv_weight, qkv_bias, mask, mask_type)
        return F.linear(out, proj_weight, proj_bias)

    def feed(x: Any) -> Any:
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

    def norm(x: Any, weight: Any, bias: Any) -> Any:
        return F.layer_norm(x, (embed_dim,), weight, bias, eps)

    if norm_first:
        src = src + attend(norm(src, norm_weight_1, norm_bias_1))
        return src + feed(norm(src, norm_weight_2, norm_bias_2))
    src = norm(src + attend(src), norm_weight_1, norm_bias_1)
    return norm(src + feed(src), norm_weight_2, norm_bias_2)


def self_attention(x: Any, heads: int, weight: Any, bias: Any, mask: Any, mask_type: int | None) -> Any:
    """x: [batch, length, size].  A mask of type 0 is [length, length], 1 [batch, length]; true hides."""
    batch, length, size = x.shape
    parts = F.linear(x, weight, bias).reshape(batch, length, 3, heads, size // heads).permute(2, 0, 3, 1, 4)
    seen = None
    if mask is not None:
        shaped = mask if mask_type == 0 or mask.dim() == 4 else mask.reshape(batch, 1, 1, length)
        seen = torch.logical_not(shaped) if shaped.dtype is torch.bool else shaped
    out = aten.scaled_dot_product_attention(parts[0], parts[1], parts[2], seen)
    return out.permute(0, 2, 1, 3).reshape(batch, length, size)


def multi_head_attention(
    query: Any,
    key: Any,
    value: Any,
    embed_dim: int,
    num_head: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """The fast path of torch.nn.MultiheadAttention in inference, without the weights."""
    if need_weights or query is not key or key is not value:
        return NotImplemented
    out = self_attention(query, num_head, qkv_weight, qkv_bias, mask, mask_type)
    return F.linear(out, proj_weight, proj_bias), query.new_zeros((0,))


EXTRA: Mapping[Any, Callable[..., Any]] = {
    aten.erfc.default: erfc,
    aten.special_erfc.default: erfc,
    aten.fmax.default: fmax,
    aten.fmin.default: fmin,
    aten.angle.default: angle,
    aten.round.decimals: round_decimals,
    aten._pdist_forward.default: pdist,
    aten._transformer_encoder_layer_fwd.default: encoder_layer,
    aten._native_multi_head_attention.default: multi_head_attention,
}
