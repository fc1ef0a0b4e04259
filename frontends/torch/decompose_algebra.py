"""Decompositions that torch lacks, of products, scatters, segments and resampling, in torch's own operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

aten = torch.ops.aten


def addbmm(x: Any, first: Any, second: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """The sum of all products is one product: batch and inner axis together are what it sums over."""
    batch, rows, inner = first.shape
    left = first.permute(1, 0, 2).reshape(rows, batch * inner)
    return torch.addmm(x, left, second.reshape(batch * inner, second.shape[2]), beta=beta, alpha=alpha)


def trilinear(
    x: Any, y: Any, z: Any, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, unroll_dim: int = 1
) -> Any:
    """The product of three tensors, each with axes put in, summed over some."""

    def spread(t: Any, axes: Any) -> Any:
        for axis in sorted(axes):
            t = t.unsqueeze(axis)
        return t

    return (spread(x, expand1) * spread(y, expand2) * spread(z, expand3)).sum(sumdim)


def as_strided_scatter(x: Any, source: Any, size: Any, stride: Any, offset: Any = None) -> Any:
    """The source's elements at their places in the row-major order of x."""
    at = torch.full((), offset or 0, dtype=torch.int64)
    for axis, (n, step) in enumerate(zip(size, stride, strict=True)):
        shape = [1] * len(size)
        shape[axis] = n
        at = at + (torch.arange(n) * step).reshape(shape)
    at = at.expand(size).reshape(-1)
    return x.reshape(-1).scatter(0, at, source.reshape(-1)).reshape(x.shape)


def segment_reduce(
    data: Any,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Any:
    """Segments along `axis`, the axes before it in common: a mask of which element belongs to which segment."""
    if indices is not None or (lengths is None and offsets is None):
        return NotImplemented
    if offsets is None:
        ends = lengths.cumsum(-1)
        starts = ends - lengths
    else:
        starts, ends = offsets[..., :-1], offsets[..., 1:]
    axis %= data.dim()
    at = torch.arange(data.shape[axis])
    inside = (at >= starts.unsqueeze(-1)) & (at < ends.unsqueeze(-1))  # [..., segment, element]
    inside = inside.reshape(*inside.shape, *([1] * (data.dim() - axis - 1)))
    spread = data.unsqueeze(axis)
    neutral = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}[reduce]
    kept = torch.where(inside, spread, neutral)
    if reduce in ("sum", "mean"):
        out = kept.sum(axis + 1) + (0 if initial is None else initial)
        if reduce == "sum":
            return out
        count = inside.sum(axis + 1).to(data.dtype)
        return torch.where(count == 0, math.nan if initial is None else float(initial), out / count)
    if reduce == "prod":
        out = kept.prod(axis + 1)
        return out if initial is None else out * initial
    out = kept.amax(axis + 1) if reduce == "max" else kept.amin(axis + 1)
    if initial is None:
        return out
    return torch.clamp_min(out, initial) if reduce == "max" else torch.clamp_max(out, initial)


def diagonal_scatter(x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """torch's own writes in place; here the source is spread over a plane, and taken on the diagonal."""
    dim1, dim2 = dim1 % x.dim(), dim2 % x.dim()
    rows, columns = torch.arange(x.shape[dim1]), torch.arange(x.shape[dim2])
    on = columns.unsqueeze(0) == rows.unsqueeze(1) + offset
    at = torch.minimum(rows.unsqueeze(1), columns.unsqueeze(0))
    count = source.shape[-1]
    if count == 0:
        return x.clone()
    plane = source.index_select(-1, torch.clamp(at, 0, count - 1).reshape(-1)).reshape(*source.shape[:-1], *at.shape)
    return torch.where(on, plane, x.movedim((dim1, dim2), (-2, -1))).movedim((-2, -1), (dim1, dim2)).contiguous()


# ------------------------------------------------------------------------------------------------- resampling


def _triangle(x: Any) -> Any:
    return torch.clamp_min(1 - x.abs(), 0)


def _cubic(x: Any) -> Any:
    """Keys' kernel with a = -0.5, as torch's antialiased bicubic has it."""
    x = x.abs()
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))


def _weights(source: Any, size: Any, align_corners: bool, factor: Any, kernel: Callable[..., Any], reach: float) -> Any:
    """[size, source]: how much of each source element each result takes; antialiased, every row sums to 1."""
    if align_corners:
        scale = (source - 1) / (size - 1) if size > 1 else 0.0
    else:
        scale = 1.0 / factor if factor else source / size
    wide = max(scale, 1.0)
    support = reach * wide
    at = torch.arange(size, dtype=torch.float32)
    center = scale * (at + 0.5)
    first = torch.clamp_min((center - support + 0.5).to(torch.int64), 0)
    last = torch.clamp_max((center + support + 0.5).to(torch.int64), source)
    place = torch.arange(source)
    inside = (place >= first.unsqueeze(1)) & (place < last.unsqueeze(1))
    taken = kernel((place.to(torch.float32) - center.unsqueeze(1) + 0.5) / wide)
    taken = torch.where(inside, taken, 0.0)
    return taken / taken.sum(1, keepdim=True)


def antialiased(kernel: Callable[..., Any], reach: float) -> Callable[..., Any]:
    """Resampling of the last two axes, separable: one product with weights an axis."""

    def rule(x: Any, size: Sequence[Any], align_corners: bool, scales_h: Any = None, scales_w: Any = None) -> Any:
        rows = _weights(x.shape[-2], size[0], align_corners, scales_h, kernel, reach).to(x.dtype)
        columns = _weights(x.shape[-1], size[1], align_corners, scales_w, kernel, reach).to(x.dtype)
        return torch.matmul(rows, torch.matmul(x, columns.t()))

    return rule


# ------------------------------------------------------------------------------------------- order and counting


def searchsorted(
    edges: Any, values: Any, *, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
) -> Any:
    """How many edges stand before each value: all are compared, which keeps sizes free and is one kernel."""
    if sorter is not None:
        edges = edges.gather(-1, sorter)
    one = not isinstance(values, torch.Tensor)
    kind = torch.result_type(edges, values)
    given = torch.full((), values, dtype=kind) if one else values
    if edges.dim() > 1:
        edges = edges.unsqueeze(-2)
    after = edges > given.unsqueeze(-1) if right or side == "right" else edges >= given.unsqueeze(-1)
    return torch.logical_not(after).sum(-1).to(torch.int32 if out_int32 else torch.int64)


def bucketize(values: Any, edges: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return searchsorted(edges, values, out_int32=out_int32, right=right)


def histc(x: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    flat = x.reshape(-1)
    if min == max == 0:
        if flat.numel() == 0:
            return torch.zeros((bins,), dtype=x.dtype)
        low, high = flat.amin(), flat.amax()
    else:
        low, high = torch.full((), min, dtype=x.dtype), torch.full((), max, dtype=x.dtype)
    same = low == high
    low, high = torch.where(same, low - 1, low), torch.where(same, high + 1, high)
    place = ((flat - low) / (high - low) * bins).to(torch.int64)
    place = torch.clamp(place, 0, bins - 1)
    counted = (flat >= low) & (flat <= high)
    return torch.zeros((bins,), dtype=x.dtype).scatter_add(0, place, counted.to(x.dtype))


def kthvalue(x: Any, k: Any, dim: int = -1, keepdim: bool = False) -> Any:
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, places = torch.sort(x, dim=dim, stable=True)
    values, places = values.narrow(dim, k - 1, 1), places.narrow(dim, k - 1, 1)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


def median_dim(skip_nan: bool) -> Callable[..., Any]:
    """The lower of the two middle elements; NaN where there is one, unless `skip_nan`.  Sorting puts NaN last."""

    def rule(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
        if x.dim() == 0:
            return x.clone(), torch.zeros((), dtype=torch.int64)
        values, places = torch.sort(x, dim=dim, stable=True)
        size = x.shape[dim]
        if x.dtype.is_floating_point:
            known = size - torch.isnan(x).sum(dim, keepdim=True)
            least = torch.clamp_min((known - 1) // 2, 0)
            middle = least if skip_nan else torch.where(known < size, known, (size - 1) // 2)
        else:
            shape = list(x.shape)
            shape[dim] = 1
            middle = torch.full(shape, (size - 1) // 2, dtype=torch.int64)
        values, places = values.gather(dim, middle), places.gather(dim, middle)
        return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))

    return rule


def median(skip_nan: bool) -> Callable[..., Any]:
    """That of all elements; of none it is NaN, or the integer that torch makes of NaN: it stands behind the others."""

    def rule(x: Any) -> Any:
        flat = x.reshape(-1)
        values = torch.sort(flat, stable=True)[0]
        real = x.dtype.is_floating_point
        absent = torch.full((1,), math.nan if real else _INTEGER_OF_NAN.get(x.dtype, 0), dtype=x.dtype)
        size = torch.full((1,), flat.shape[0], dtype=torch.int64)
        known = size - torch.isnan(flat).sum(0, keepdim=True) if real else size
        middle = torch.clamp_min((known - 1) // 2, 0)
        if real and not skip_nan:
            middle = torch.where(known < size, known, middle)
        return torch.cat([values, absent]).gather(0, middle).reshape(())

    return rule


_INTEGER_OF_NAN = {dtype: torch.iinfo(dtype).min for dtype in (torch.int64, torch.int32)}


def mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The smallest of the most frequent elements, and its last place: every pair is compared."""
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, places = torch.sort(x, dim=dim, stable=True)
    moved = values.movedim(dim, -1)
    counts = (moved.unsqueeze(-1) == moved.unsqueeze(-2)).sum(-1)
    first = counts.argmax(-1, keepdim=True)
    last = first + counts.gather(-1, first) - 1
    value = moved.gather(-1, last).movedim(-1, dim)
    place = places.movedim(dim, -1).gather(-1, last).movedim(-1, dim)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


def take(x: Any, index: Any) -> Any:
    """Elements by their places in the row-major order of x."""
    at = index.reshape(-1)
    at = torch.where(at < 0, at + x.numel(), at)
    return x.reshape(-1).gather(0, at).reshape(index.shape)


def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Elements by their places in the row-major order of x."""
    flat, at, given = x.reshape(-1), index.reshape(-1), source.reshape(-1)
    at = torch.where(at < 0, at + x.numel(), at)
    return (flat.scatter_add(0, at, given) if accumulate else flat.scatter(0, at, given)).reshape(x.shape)


def nonzero_static(x: Any, *, size: int, fill_value: int = -1) -> Any:
    """Coordinates of the first `size` elements that are not 0, one row each; rows beyond are filled."""
    if x.dim() == 0:
        return torch.zeros((size, 0), dtype=torch.int64)
    mask = (x != 0).reshape(-1)
    count = mask.to(torch.int64).cumsum(0)
    row = torch.where(mask, torch.clamp_max(count - 1, size), size)  # the row after the last is thrown away
    place = torch.zeros((size + 1,), dtype=torch.int64).scatter(0, row, torch.arange(x.numel()))[:size]
    columns = []
    for n in reversed(x.shape):
        least = max(n, 1) if isinstance(n, int) else n
        columns.append(torch.remainder(place, least))
        place = torch.div(place, least, rounding_mode="floor")
    found = torch.arange(size) < mask.sum()
    return torch.where(found.unsqueeze(1), torch.stack(columns[::-1], 1), fill_value)


def scatter_by(x: Any, dim: int, index: Any, source: Any, *, reduce: str) -> Any:
    """The older form of scatter_reduce; the source may be a number."""
    if not isinstance(source, torch.Tensor):
        source = torch.full(index.shape, source, dtype=x.dtype)
    kind = {"add": "sum", "multiply": "prod"}[reduce]
    return x.scatter_reduce(dim, index, source, kind, include_self=True)


def index_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """As scatter_reduce, with one index a slice."""
    if x.dim() == 0:
        return x.reshape(1).index_reduce(0, index, source.reshape(1), reduce, include_self=include_self).reshape(())
    shape = [1] * x.dim()
    shape[dim] = -1
    at = index.reshape(shape).expand(source.shape)
    kind = {"prod": "prod", "mean": "mean", "amax": "amax", "amin": "amin"}[reduce]
    return x.scatter_reduce(dim, at, source, kind, include_self=include_self)


ALGEBRA: Mapping[Any, Callable[..., Any]] = {
    aten.addbmm.default: addbmm,
    aten._trilinear.default: trilinear,
    torch.ops.prims.as_strided_scatter.default: as_strided_scatter,
    aten.as_strided_scatter.default: as_strided_scatter,
    aten.diagonal_scatter.default: diagonal_scatter,
    aten.segment_reduce.default: segment_reduce,
    aten._upsample_bilinear2d_aa.default: antialiased(_triangle, 1.0),
    aten._upsample_bicubic2d_aa.default: antialiased(_cubic, 2.0),
    aten.searchsorted.Tensor: searchsorted,
    aten.searchsorted.Scalar: searchsorted,
    aten.bucketize.Tensor: bucketize,
    aten.bucketize.Scalar: bucketize,
    aten.histc.default: histc,
    aten.kthvalue.default: kthvalue,
    aten.median.dim: median_dim(False),
    aten.nanmedian.dim: median_dim(True),
    aten.median.default: median(False),
    aten.nanmedian.default: median(True),
    aten.mode.default: mode,
    aten.index_reduce.default: index_reduce,
    aten.put.default: put,
    aten.take.default: take,
    aten.nonzero_static.default: nonzero_static,
    aten.scatter.reduce: scatter_by,
    aten.scatter.value_reduce: scatter_by,
}
