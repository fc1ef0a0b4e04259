"""Products, convolutions, pooling, normalisation and attention: one row an overload."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ...ir.dims import Dim
from ...ir.facts import Compare
from ...ir.graph import Operand
from ...ir.types import DType
from .context import Args, Context, Result, Row
from .table_pointwise import pair


def matmul(t: Context, x: Operand, y: Operand, **attributes: bool) -> Operand:
    if t.dtype.is_bool:
        raise t.fail("a product of bools is not supported", "convert them to integers")
    return t.op("matmul", t.to(x, t.dtype), t.to(y, t.dtype), **attributes)


def linear(t: Context, a: Args) -> Operand:
    out = matmul(t, a.input, a.weight, transpose_b=True) if t.rank(a.weight) > 1 else matmul(t, a.input, a.weight)
    return out if a.bias is None else t.op("add", out, a.bias)


def scaled_sum(t: Context, x: Operand, product: Operand, beta: Any, alpha: Any) -> Operand:
    """beta * x + alpha * product; with beta 0 x is not read at all (it may be NaN)."""
    if alpha != 1:
        product = pair(t, "mul", product, alpha, t.dtype)
    if beta == 0:
        return product
    return t.op("add", product, t.to(x, t.dtype) if beta == 1 else pair(t, "mul", x, beta, t.dtype))


def addmm(t: Context, a: Args) -> Operand:
    product = matmul(t, a.get("mat1", a.get("batch1")), a.get("mat2", a.get("batch2", a.get("vec"))))
    return scaled_sum(t, a.self, product, a.beta, a.alpha)


def addmv(t: Context, a: Args) -> Operand:
    rows = t.type(a.mat).dims[0]
    if t.type(a.self).dims == (Dim.of(1),) and rows != 1:
        t.need(Compare("<=", 1, rows), f"`{t.target}` of no rows gives the one element that it adds", narrows=True)
    return scaled_sum(t, a.self, matmul(t, a.mat, a.vec), a.beta, a.alpha)


def product(first: str, second: str) -> Row:
    return lambda t, a: matmul(t, a.get(first), a.get(second))


# --------------------------------------------------------------------------------------------- sliding windows


def per_axis(values: Any, rank: int) -> tuple[int, ...]:
    """One number an axis; torch lets one stand for all."""
    listed = [v.value if isinstance(v, Dim) else int(v) for v in (values if isinstance(values, Sequence) else [values])]
    return tuple(listed if len(listed) == rank else listed * rank)


def batched(t: Context, x: Operand, rank: int, run: Callable[[Operand], Operand]) -> Operand:
    """`run` on [batch, channels, ...], for x that may lack the batch axis."""
    if t.rank(x) == rank + 2:
        return run(x)
    return t.op("squeeze", run(t.op("unsqueeze", x, axis=0)), axis=0)


def convolution(t: Context, a: Args) -> Operand:
    rank = t.rank(a.weight) - 2
    t.need_elements(a.weight, range(2, rank + 2))
    stride, dilation = per_axis(a.stride, rank), per_axis(a.dilation, rank)
    moving = [Dim.of(p) for p in a.padding if isinstance(p, Dim) and not p.is_const]
    if moving and a.transposed:
        raise t.fail(f"the padding {moving[0]} is not a literal")
    padding = per_axis(0 if moving else a.padding, rank)
    shared = {"stride": stride, "padding": padding, "dilation": dilation, "groups": int(a.groups)}
    operands = (a.weight,) if a.bias is None else (a.weight, a.bias)
    if moving:
        # As wide as a kernel whose size moves asks for (padding="same").
        around = [(Dim.of(p), Dim.of(p)) for p in (list(a.padding) * rank)[:rank]]
        before = [(Dim.of(0), Dim.of(0))] * (t.rank(a.input) - rank)
        wide = t.op("pad", a.input, pads=(*before, *around))
        return batched(t, wide, rank, lambda x: t.op("conv", x, *operands, **shared))
    if not a.transposed:
        return batched(t, a.input, rank, lambda x: t.op("conv", x, *operands, **shared))
    extra = per_axis(a.output_padding, rank)
    return batched(t, a.input, rank, lambda x: t.op("conv_transpose", x, *operands, **shared, output_padding=extra))


def window(a: Args, rank: int) -> dict[str, Any]:
    kernel = per_axis(a.kernel_size, rank)
    return {
        "kernel_size": kernel,
        "stride": per_axis(a.stride, rank) if a.stride else kernel,
        "padding": per_axis(a.padding, rank),
        "ceil_mode": bool(a.ceil_mode),
    }


def max_pool(rank: int, with_indices: bool = True) -> Row:
    def row(t: Context, a: Args) -> Result:
        options = window(a, rank) | {"dilation": per_axis(a.dilation, rank)}
        out = batched(t, a.self, rank, lambda x: t.op("max_pool", x, **options))
        if not with_indices:
            return out
        return out, _places(t, a.self, t.type(out).dims, options) if 1 in t.used else None

    return row


def _places(t: Context, x: Operand, shape: tuple[Dim, ...], options: dict[str, Any]) -> Operand:
    """Where each window's largest element stands in its plane: the taps of all windows compared one after another."""
    rank = len(options["kernel_size"])
    outputs = shape[-rank:]
    spatial = t.type(x).dims[-rank:]
    kernel, stride, padding, dilation = (options[k] for k in ("kernel_size", "stride", "padding", "dilation"))
    pads: list[tuple[Dim | int, Dim | int]] = [(0, 0)] * (t.rank(x) - rank)
    reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(outputs, stride, kernel, dilation, strict=True)]
    pads += [(p, Dim.max(r - n - p, p)) for p, r, n in zip(padding, reach, spatial, strict=True)]
    wide = t.op("pad", x, pads=tuple(pads), value=float("-inf"))
    best: Operand | None = None
    place: Operand | None = None
    axes = tuple(range(t.rank(x) - rank, t.rank(x)))
    for taps in np.ndindex(*kernel):
        first = tuple(k * d for k, d in zip(taps, dilation, strict=True))
        stop = tuple(Dim.max(f + (o - 1) * s + 1, 0) for f, o, s in zip(first, outputs, stride, strict=True))
        value = t.op("slice", wide, axis=axes, start=first, stop=stop, step=stride)
        # Changes nothing, but is computed once: slices and pads are read anew, with their conditions, at every use.
        value = t.op("maximum", value, float("-inf"))
        at = _plane_position(t, shape, axes, first, options, spatial)
        if best is None or place is None:
            # The first tap in the plane stands even where all are -inf.
            best, place = value, at
            continue
        inside = _inside(t, shape, axes, first, options, spatial)
        above = t.op("logical_or", t.op("gt", value, best), t.op("isnan", value))
        fresh = t.op("logical_and", inside, t.op("logical_or", above, t.op("lt", place, 0)))
        best, place = t.op("where", fresh, value, best), t.op("where", fresh, at, place)
    assert place is not None
    return place


def _coordinate(
    t: Context, shape: tuple[Dim, ...], axis: int, i: int, first: tuple[int, ...], options: dict[str, Any]
) -> Operand:
    ramp = t.op("iota", shape=shape, axis=axis, dtype=DType.i64)
    return t.op("add", t.op("mul", ramp, options["stride"][i]), first[i] - options["padding"][i])


def _inside(
    t: Context,
    shape: tuple[Dim, ...],
    axes: tuple[int, ...],
    first: tuple[int, ...],
    options: dict[str, Any],
    spatial: Sequence[Dim],
) -> Operand:
    """Is the tap in the plane, not in its padding?"""
    ok: Operand | None = None
    for i, axis in enumerate(axes):
        c = _coordinate(t, shape, axis, i, first, options)
        here = t.op("logical_and", t.op("ge", c, 0), t.op("lt", c, t.to(spatial[i], DType.i64)))
        ok = here if ok is None else t.op("logical_and", ok, here)
    assert ok is not None
    return ok


def _plane_position(
    t: Context,
    shape: tuple[Dim, ...],
    axes: tuple[int, ...],
    first: tuple[int, ...],
    options: dict[str, Any],
    spatial: Sequence[Dim],
) -> Operand:
    """The row-major position of the tap; negative where it is not in the plane."""
    at: Operand | None = None
    for i, axis in enumerate(axes):
        c = _coordinate(t, shape, axis, i, first, options)
        at = c if at is None else t.op("add", t.op("mul", at, t.to(spatial[i], DType.i64)), c)
    return t.op("where", _inside(t, shape, axes, first, options, spatial), at, -1)


def avg_pool(rank: int) -> Row:
    def row(t: Context, a: Args) -> Operand:
        options = window(a, rank)
        divisor = a.get("divisor_override")
        assert divisor is None or not options["ceil_mode"], "table_adaptive has these"
        include = bool(a.count_include_pad) or divisor is not None
        out = batched(t, a.self, rank, lambda x: t.op("avg_pool", x, **options, count_include_pad=include))
        if divisor is None:
            return out
        return t.op("mul", out, prod(options["kernel_size"]) / divisor)

    return row


def adaptive_pool(name: str, rank: int) -> Row:
    def row(t: Context, a: Args) -> Result:
        size = tuple(map(Dim.of, a.output_size))
        t.need_elements(a.self, range(t.rank(a.self) - rank, t.rank(a.self)))
        return batched(t, a.self, rank, lambda x: t.op(name, x, output_size=size))

    return row


# ----------------------------------------------------------------------------------------------- normalisation


def layer_norm(t: Context, a: Args) -> Operand:
    return normalised(t, a.input, len(a.normalized_shape), a.weight, a.bias, a.eps)


def normalised(t: Context, x: Operand, axes: int, weight: Any, bias: Any, eps: float) -> Operand:
    rank = t.rank(x)
    kind = t.type(x).dtype
    scale, shift = (None if w is None else t.to(w, kind) for w in (weight, bias))
    return t.op("layer_norm", x, scale, shift, axis=tuple(range(rank - axes, rank)), eps=float(eps))


def native_layer_norm(t: Context, a: Args) -> Result:
    out = normalised(t, a.input, len(a.normalized_shape), a.weight, a.bias, a.eps)
    if not t.used & {1, 2}:
        return out, None, None
    rank = t.rank(a.input)
    axes = tuple(range(rank - len(a.normalized_shape), rank))
    return out, *moments(t, a.input, axes, a.eps, t.dtypes[1])


def moments(t: Context, x: Operand, axes: tuple[int, ...], eps: float, dtype: DType) -> tuple[Operand, Operand]:
    """Mean and reciprocal deviation, axes kept."""
    x = t.to(x, dtype)
    variance = t.op("var", x, axis=axes, keepdims=True, correction=0.0)
    return t.op("mean", x, axis=axes, keepdims=True), t.op("rsqrt", t.op("add", variance, float(eps)))


def rms_norm(t: Context, a: Args) -> Operand:
    kind = t.type(a.input).dtype
    rank = t.rank(a.input)
    axes = tuple(range(rank - len(a.normalized_shape), rank))
    eps = float(np.finfo(kind.numpy.name).eps) if a.eps is None else float(a.eps)
    weight = None if a.weight is None else t.to(a.weight, kind)
    return t.op("rms_norm", a.input, weight, axis=axes, eps=eps)


def group_norm(t: Context, a: Args) -> Operand:
    return t.op("group_norm", a.input, a.weight, a.bias, groups=int(a.num_groups), eps=float(a.eps))


def native_group_norm(t: Context, a: Args) -> Result:
    out = t.op("group_norm", a.input, a.weight, a.bias, groups=int(a.group), eps=float(a.eps))
    if not t.used & {1, 2}:
        return out, None, None
    flat = t.op("reshape", a.input, shape=(a.N, a.group, Dim.of(a.C) // a.group * a.HxW))
    mean, deviation = moments(t, flat, (2,), a.eps, t.dtypes[1])
    return out, t.op("squeeze", mean, axis=2), t.op("squeeze", deviation, axis=2)


def batch_norm(t: Context, a: Args) -> Operand:
    """With the mean and variance of inference."""
    kind = t.type(a.running_mean).dtype
    wide = (None if w is None else t.to(w, kind) for w in (a.weight, a.bias))
    out = t.op("batch_norm", t.to(a.input, kind), a.running_mean, a.running_var, *wide, eps=float(a.eps))
    return t.to(out, t.dtype)  # type: ignore[no-any-return]


def batch_norm_inference(t: Context, a: Args) -> Result:
    """torch gives empty tensors besides."""
    kind = t.type(a.running_mean).dtype
    empty = (t.op("zeros", shape=(0,), dtype=kind) if i in t.used else None for i in (1, 2))
    return batch_norm(t, a), *empty


def batch_norm_training(t: Context, a: Args) -> Result:
    """With the mean and variance of the batch itself; instance norm is this too."""
    if not a.training:
        return batch_norm_inference(t, a)
    x = a.input
    axes = tuple(i for i in range(t.rank(x)) if i != 1)
    mean, deviation = moments(t, x, axes, a.eps, t.dtypes[1])
    kind = t.dtypes[1]
    out = t.op("mul", t.op("sub", t.to(x, kind), mean), deviation)
    shape = (Dim.of(1), t.type(x).dims[1], *(Dim.of(1) for _ in axes[1:]))
    if a.weight is not None:
        out = t.op("mul", out, t.reshaped(t.to(a.weight, kind), shape))
    if a.bias is not None:
        out = t.op("add", out, t.reshaped(t.to(a.bias, kind), shape))
    flat = (t.op("squeeze", m, axis=axes) if i + 1 in t.used else None for i, m in enumerate((mean, deviation)))
    return t.to(out, t.dtype), *flat


def attention(t: Context, a: Args) -> Operand:
    if a.dropout_p:
        raise t.fail("random numbers are not supported", "export the model in inference mode: `model.eval()`")
    operands = [a.query, a.key, a.value]
    mask, rank = a.get("attn_mask"), max(map(t.rank, operands))
    if rank == 2:
        operands = [t.op("unsqueeze", x, axis=0) for x in operands]
    batch = t.type(operands[0]).dims[:-3] if rank > 3 else ()
    heads = t.type(a.query).dims[-3] if rank > 2 else Dim.of(1)
    own_heads = bool(a.get("enable_gqa", False))
    spread = [
        t.broadcast(x, (*batch, t.type(x).dims[-3] if own_heads or rank < 3 else heads, *t.type(x).dims[-2:]))
        for x in operands
    ]
    if mask is not None and not t.type(mask).dtype.is_bool:
        mask = t.to(mask, t.dtype)
    scale = None if a.scale is None else float(a.scale)
    out = t.op("attention", *spread, mask, causal=bool(a.is_causal), scale=scale)
    return t.op("squeeze", out, axis=0) if rank == 2 else out


def cdist(t: Context, a: Args) -> Operand:
    """The norm of the difference of every row of x1 and every row of x2."""
    x, y = t.op("unsqueeze", a.x1, axis=-2), t.op("unsqueeze", a.x2, axis=-3)
    if a.p == float("inf") or a.p < 0:
        t.need_elements(x, (t.rank(x) - 1,))
    return t.op("norm", t.op("sub", x, y), axis=-1, ord=float(a.p))


NN: Mapping[str, Row] = {
    "aten.linear.default": linear,
    "aten.matmul.default": product("self", "other"),
    "aten.mm.default": product("self", "mat2"),
    "aten.bmm.default": product("self", "mat2"),
    "aten.mv.default": product("self", "vec"),
    "aten.dot.default": product("self", "tensor"),
    "aten.addmm.default": addmm,
    "aten.baddbmm.default": addmm,
    "aten.addmv.default": addmv,
    "aten.convolution.default": convolution,
    "aten.max_pool2d_with_indices.default": max_pool(2),
    "aten.max_pool3d_with_indices.default": max_pool(3),
    "aten.max_pool1d.default": max_pool(1, with_indices=False),
    "aten.max_pool2d.default": max_pool(2, with_indices=False),
    "aten.max_pool3d.default": max_pool(3, with_indices=False),
    **{f"aten.avg_pool{n}d.default": avg_pool(n) for n in (1, 2, 3)},
    **{f"aten._adaptive_avg_pool{n}d.default": adaptive_pool("adaptive_avg_pool", n) for n in (2, 3)},
    **{f"aten.adaptive_avg_pool{n}d.default": adaptive_pool("adaptive_avg_pool", n) for n in (1, 2, 3)},
    "aten.layer_norm.default": layer_norm,
    "aten.native_layer_norm.default": native_layer_norm,
    "aten.rms_norm.default": rms_norm,
    "aten.group_norm.default": group_norm,
    "aten.native_group_norm.default": native_group_norm,
    "aten._native_batch_norm_legit_no_training.default": batch_norm_inference,
    "aten._native_batch_norm_legit.no_stats": batch_norm_training,
    "aten.scaled_dot_product_attention.default": attention,
    "aten._scaled_dot_product_flash_attention_for_cpu.default": lambda t, a: (attention(t, a), None),
    "aten._cdist_forward.default": cdist,
}
