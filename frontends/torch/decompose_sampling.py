"""Decompositions that torch lacks, of embeddings, sampling on grids and histograms, in torch's own operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

aten = torch.ops.aten


def embedding_renorm(weight: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """Rows that are asked for and longer than `max_norm`, shortened to it."""
    norm = torch.linalg.vector_norm(weight, norm_type, dim=1, keepdim=True)
    flat = indices.reshape(-1)
    asked = torch.zeros((weight.shape[0],), dtype=torch.bool).scatter(0, flat, torch.ones_like(flat, dtype=torch.bool))
    long = asked.unsqueeze(1) & (norm > max_norm)
    return torch.where(long, weight * (max_norm / (norm + 1e-7)), weight)


def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """Sums (mode 0), means (1) or largest elements (2) of the rows of each bag; a mask says what is in which."""
    count = indices.shape[0]
    if not include_last_offset:
        offsets = torch.cat([offsets, torch.full((1,), count, dtype=offsets.dtype)])
    starts, ends = offsets[:-1], offsets[1:]
    at = torch.arange(count)
    inside = (at >= starts.unsqueeze(1)) & (at < ends.unsqueeze(1)) & (indices != padding_idx)  # [bag, index]
    rows = weight.index_select(0, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    size = inside.sum(1)
    if mode == 2:
        top = torch.where(inside.unsqueeze(2), rows, -math.inf).amax(1) if count else weight.new_zeros(1)
        out = torch.where((size > 0).unsqueeze(1), top, 0.0)
    else:
        out = torch.matmul(inside.to(weight.dtype), rows)
        if mode == 1:
            out = out / torch.clamp_min(size, 1).unsqueeze(1).to(weight.dtype)
    none = torch.zeros((0,), dtype=indices.dtype)
    return out, none, size, none.clone()


# ------------------------------------------------------------------------------------------------------- grids


# -------------------------------------------------------------------------------------------------- histograms


def _counted(x: Any, edges: Any, weight: Any, density: bool) -> Any:
    """How much falls between each two edges, the last one included."""
    flat = x.reshape(-1)
    bins = edges.shape[0] - 1
    place = torch.searchsorted(edges, flat, right=True) - 1
    place = torch.where(flat == edges[bins], bins - 1, place)
    counted = (place >= 0) & (place < bins)
    amount = torch.ones_like(flat) if weight is None else weight.reshape(-1)
    amount = torch.where(counted, amount, 0.0)
    out = torch.zeros((bins,), dtype=x.dtype).scatter_add(0, torch.clamp(place, 0, bins - 1), amount)
    return out / (out.sum() * (edges[1:] - edges[:-1])) if density else out


def histogram_edges(x: Any, edges: Any, *, weight: Any = None, density: bool = False) -> Any:
    return _counted(x, edges, weight, density), edges.clone()


def histogram_bins(x: Any, bins: int = 100, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    if range is not None:
        low, high = (torch.full((), float(v), dtype=x.dtype) for v in range)
    elif x.numel() == 0:
        low, high = torch.zeros((), dtype=x.dtype), torch.ones((), dtype=x.dtype)
    else:
        low, high = x.amin(), x.amax()
    same = low == high
    low, high = torch.where(same, low - 0.5, low), torch.where(same, high + 0.5, high)
    step = torch.arange(bins + 1, dtype=x.dtype)
    half = (bins + 1) // 2
    width = (high - low) / bins
    # As linspace does: from both ends towards the middle.
    edges = torch.where(step < half, low + width * step, high - width * (bins - step))
    return _counted(x, edges, weight, density), edges


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """Of as many numbers as `minlength` says, which a call checks: more would be a size that depends on data."""
    if minlength == 0:
        return NotImplemented
    at = x.to(torch.int64)
    said = f"bincount counts whole numbers from 0 up to its minlength of {minlength}, and was given another"
    aten._assert_async.msg(torch.all((at >= 0) & (at < minlength)), said)
    if weights is None:
        given = torch.ones_like(at)
    else:
        given = weights if weights.dtype is torch.float32 else weights.double()
    return torch.zeros((minlength,), dtype=given.dtype).scatter_add(0, at.clamp(0, minlength - 1), given)


# ------------------------------------------------------------------------------------------ Chebyshev polynomials


def _even(n: Any) -> Any:
    return torch.remainder(n, 2) == 0


def _first(x: Any, n: Any) -> Any:
    """T[n](x): cos(n t) with x = cos t, and cosh outside of [-1, 1]."""
    size = x.abs()
    inside = torch.cos(n * torch.acos(torch.clamp(x, -1.0, 1.0)))
    outside = torch.cosh(n * torch.acosh(torch.clamp_min(size, 1.0)))
    outside = torch.where((x < 0) & torch.logical_not(_even(n)), -outside, outside)
    return torch.where(size <= 1, inside, outside)


def _second(x: Any, n: Any) -> Any:
    """U[n](x): sin((n + 1) t) / sin t, and sinh outside of [-1, 1]; U[-1] is 0."""
    size = x.abs()
    t, u = torch.acos(torch.clamp(x, -1.0, 1.0)), torch.acosh(torch.clamp_min(size, 1.0))
    inside = torch.sin((n + 1) * t) / torch.sin(t)
    outside = torch.where(size == 1, n + 1, torch.sinh((n + 1) * u) / torch.sinh(u))
    outside = torch.where((x < 0) & torch.logical_not(_even(n)), -outside, outside)
    return torch.where(size < 1, inside, outside)


def _third(x: Any, n: Any) -> Any:
    return _second(x, n) - _second(x, n - 1)


def _fourth(x: Any, n: Any) -> Any:
    return _second(x, n) + _second(x, n - 1)


def polynomial(rule: Callable[[Any, Any], Any], shifted: bool) -> Callable[..., Any]:
    """Of the whole part of n, computed in f64; 0 for negative n.  Shifted ones are those of 2 x - 1."""

    def function(x: Any, n: Any) -> Any:
        x = x if isinstance(x, torch.Tensor) else torch.full((), float(x))
        n = n if isinstance(n, torch.Tensor) else torch.full((), float(n))
        kind = torch.result_type(x, n)
        kind = kind if kind.is_floating_point else torch.get_default_dtype()
        order = torch.trunc(n.double())
        at = 2 * x.double() - 1 if shifted else x.double()
        return torch.where(order < 0, 0.0, rule(at, torch.clamp_min(order, 0.0))).to(kind)

    return function


def _chebyshev() -> dict[Any, Callable[..., Any]]:
    table: dict[Any, Callable[..., Any]] = {}
    for letter, rule in (("t", _first), ("u", _second), ("v", _third), ("w", _fourth)):
        for prefix in ("", "shifted_"):
            packet = getattr(aten, f"special_{prefix}chebyshev_polynomial_{letter}")
            for overload in ("default", "x_scalar", "n_scalar"):
                table[getattr(packet, overload)] = polynomial(rule, bool(prefix))
    return table


SAMPLING: Mapping[Any, Callable[..., Any]] = {
    aten.bincount.default: bincount,
    aten.embedding_renorm.default: embedding_renorm,
    aten._embedding_bag.default: embedding_bag,
    aten._embedding_bag_forward_only.default: embedding_bag,
    aten.histogram.bins_tensor: histogram_edges,
    aten.histogram.bin_ct: histogram_bins,
    **_chebyshev(),
}
