"""One use of every row of the operator table, on inputs whose sizes n, m and h may move."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

aten = torch.ops.aten
Case = Callable[["Inputs"], Any]


@dataclass
class Inputs:
    """x, y, p: f32[n, m], p positive; i, j: i64[n, m], j not 0; k: bool[n, m]; z: f32[n, 4, h, 12]; w: its weights;
    a: i64[5] below 4; e: f32[m, m]; q: f32[n, 4, m, 8]; v: f32[m]; s: f32[n, 6]; half: f16[n, m]."""

    x: Any
    y: Any
    p: Any
    i: Any
    j: Any
    k: Any
    z: Any
    w: Any
    a: Any
    e: Any
    q: Any
    v: Any
    s: Any
    half: Any


FIELDS = tuple(Inputs.__dataclass_fields__)


def example(n: int, m: int, h: int, seed: int = 0) -> tuple[Any, ...]:
    """Inputs at these sizes, in the order of FIELDS."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Any:
        return torch.randn(shape, generator=g)

    def whole(low: int, high: int, *shape: int) -> Any:
        return torch.randint(low, high, shape, generator=g)

    j = whole(1, 6, n, m) * (2 * whole(0, 2, n, m) - 1)
    return (
        normal(n, m), normal(n, m), torch.rand(n, m, generator=g) + 0.1, whole(-9, 9, n, m), j,
        whole(0, 2, n, m).bool(), normal(n, 4, h, 12), normal(6, 2, 3, 3), whole(0, 4, 5), normal(m, m),
        normal(n, 4, m, 8), normal(m), normal(n, 6), normal(n, m).half(),
    )  # fmt: skip


def unary(name: str, of: str = "x") -> Case:
    return lambda c: getattr(aten, name).default(getattr(c, of))


_ANY = "abs asinh atan cos cosh erf exp exp2 expm1 neg reciprocal sigmoid sin sinh tan tanh silu hardswish hardsigmoid"
_ANY += " square relu floor ceil trunc round sign isnan isinf isfinite relu6"
_POSITIVE = "log log10 log1p log2 rsqrt sqrt"

UNARY: Mapping[str, Case] = {
    **{f"aten.{n}.default": unary(n) for n in _ANY.split()},
    **{f"aten.{n}.default": unary(n, "p") for n in _POSITIVE.split()},
    "aten.acos.default": lambda c: aten.acos.default(c.x.tanh()),
    "aten.asin.default": lambda c: aten.asin.default(c.x.tanh()),
    "aten.atanh.default": lambda c: aten.atanh.default(c.x.tanh() * 0.9),
    "aten.acosh.default": lambda c: aten.acosh.default(c.p + 1),
    "aten.bitwise_not.default": lambda c: aten.bitwise_not.default(c.i),
    "aten.logical_not.default": lambda c: aten.logical_not.default(c.k),
    "aten.gelu.default": lambda c: (aten.gelu.default(c.x), aten.gelu.default(c.x, approximate="tanh")),
    "aten.elu.default": lambda c: (aten.elu.default(c.x, 0.5), aten.elu.default(c.x, 0.5, 2.0, 1.5)),
    "aten.softplus.default": lambda c: (aten.softplus.default(c.x), aten.softplus.default(c.x * 3, 2, 3)),
    "aten.hardtanh.default": lambda c: aten.hardtanh.default(c.x, -0.5, 0.7),
    "aten.leaky_relu.default": lambda c: aten.leaky_relu.default(c.x, 0.2),
    "aten.nan_to_num.default": lambda c: aten.nan_to_num.default(1 / c.x.trunc(), 2.0, None, -3.0),
    "aten.clamp.default": lambda c: (aten.clamp.default(c.x, -1, 0.5), aten.clamp.default(c.i, None, 3)),
    "aten.clamp.Tensor": lambda c: aten.clamp.Tensor(c.x, c.v, None),
    "aten.clamp_min.default": lambda c: aten.clamp_min.default(c.x, 0.1),
    "aten.clamp_max.default": lambda c: aten.clamp_max.default(c.x, 0.1),
    "aten._to_copy.default": lambda c: (aten._to_copy.default(c.x, dtype=torch.int64), c.k.to(torch.float64)),
    "prims.convert_element_type.default": lambda c: torch.ops.prims.convert_element_type(c.x, torch.float16),
    "aten.clone.default": lambda c: aten.clone.default(c.x),
    "aten.alias.default": lambda c: aten.alias.default(c.x) + 1,
    "aten.detach.default": lambda c: aten.detach.default(c.x) + 1,
    "aten.contiguous.default": lambda c: aten.contiguous.default(c.x.t()),
    "aten.dropout.default": lambda c: aten.dropout.default(c.x, 0.5, False),
    "aten.lift_fresh_copy.default": lambda c: c.x * torch.tensor(2.0),
    "aten.lift.default": lambda c: aten.lift.default(c.x),
    "aten.lift_fresh.default": lambda c: aten.lift_fresh.default(c.x),
    "half": lambda c: (c.half.exp(), c.half * 2.5, c.half.sum(), c.half + c.x, c.half.softmax(-1)),
}


def pairs(name: str, left: str = "x", right: str = "y", kind: str = "Tensor") -> Case:
    return lambda c: getattr(getattr(aten, name), kind)(getattr(c, left), getattr(c, right))


def scalar(name: str, value: Any, of: str = "x", kind: str = "Scalar") -> Case:
    return lambda c: getattr(getattr(aten, name), kind)(getattr(c, of), value)


_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")

BINARY: Mapping[str, Case] = {
    **{f"aten.{n}.Tensor": pairs(n, "i", "j") for n in _COMPARED},
    **{f"aten.{n}.Scalar": scalar(n, 0.3) for n in _COMPARED},
    **{f"aten.{n}.Tensor": pairs(n, "i", "j") for n in _BITS},
    **{f"aten.{n}.Scalar": scalar(n, 3, "i") for n in _BITS},
    **{f"aten.{n}.Scalar_Tensor": (lambda c, n=n: getattr(aten, n).Scalar_Tensor(3, c.i)) for n in _BITS},
    **{f"aten.{n}.default": pairs(n, "k", "i", "default") for n in ("logical_and", "logical_or", "logical_xor")},
    "aten.add.Tensor": lambda c: (aten.add.Tensor(c.x, c.y, alpha=2), c.x + c.i, c.i + 1.5, c.k + c.k, c.x + c.v),
    "aten.add.Scalar": lambda c: aten.add.Scalar(c.x, 2, 3),
    "aten.sub.Tensor": lambda c: (aten.sub.Tensor(c.x, c.y, alpha=0.5), c.i - c.k.int()),
    "aten.sub.Scalar": lambda c: aten.sub.Scalar(c.x, 2, 3),
    "aten.rsub.Tensor": lambda c: aten.rsub.Tensor(c.x, c.y, alpha=2),
    "aten.rsub.Scalar": lambda c: aten.rsub.Scalar(c.x, 2, 3),
    "aten.mul.Tensor": lambda c: (c.x * c.y, c.k * c.k, c.i * 0.5, c.x * c.x.shape[0], c.x.shape[0] * c.i),
    "aten.mul.Scalar": scalar("mul", 2),
    "aten.div.Tensor": lambda c: (c.x / c.p, c.i / c.j, c.x / c.x.shape[0]),
    "aten.div.Scalar": scalar("div", 3, "i"),
    "aten.div.Tensor_mode": lambda c: [
        torch.div(a, b, rounding_mode=mode) for a, b in ((c.i, c.j), (c.x, c.p)) for mode in ("floor", "trunc")
    ],
    "aten.div.Scalar_mode": lambda c: aten.div.Scalar_mode(c.i, 3, rounding_mode="trunc"),
    "aten.floor_divide.default": pairs("floor_divide", "i", "j", "default"),
    "aten.fmod.Tensor": lambda c: (aten.fmod.Tensor(c.i, c.j), aten.fmod.Tensor(c.x, c.p)),
    "aten.fmod.Scalar": scalar("fmod", 3, "i"),
    "aten.remainder.Tensor": lambda c: (aten.remainder.Tensor(c.i, c.j), aten.remainder.Tensor(c.x, c.p)),
    "aten.remainder.Scalar": scalar("remainder", -3, "i"),
    "aten.remainder.Scalar_Tensor": lambda c: aten.remainder.Scalar_Tensor(7, c.j),
    "aten.pow.Tensor_Tensor": pairs("pow", "p", "y", "Tensor_Tensor"),
    "aten.pow.Tensor_Scalar": lambda c: [aten.pow.Tensor_Scalar(c.p, e) for e in (0.5, 2, 3, -1, 1.7)] + [c.i**3],
    "aten.pow.Scalar": lambda c: aten.pow.Scalar(2, c.x),
    "aten.atan2.default": pairs("atan2", kind="default"),
    "aten.maximum.default": lambda c: (torch.maximum(c.x, c.y), torch.maximum(c.k, ~c.k), torch.maximum(c.i, c.j)),
    "aten.minimum.default": lambda c: (torch.minimum(c.x, c.y), torch.minimum(c.k, ~c.k)),
    "aten.bitwise_left_shift.Tensor": lambda c: aten.bitwise_left_shift.Tensor(c.i, c.j.abs()),
    "aten.bitwise_left_shift.Tensor_Scalar": lambda c: aten.bitwise_left_shift.Tensor_Scalar(c.i, 2),
    "aten.bitwise_left_shift.Scalar_Tensor": lambda c: aten.bitwise_left_shift.Scalar_Tensor(3, c.j.abs()),
    "aten.bitwise_right_shift.Tensor": lambda c: aten.bitwise_right_shift.Tensor(c.i, c.j.abs()),
    "aten.bitwise_right_shift.Tensor_Scalar": lambda c: aten.bitwise_right_shift.Tensor_Scalar(c.i, 2),
    "aten.bitwise_right_shift.Scalar_Tensor": lambda c: aten.bitwise_right_shift.Scalar_Tensor(99, c.j.abs()),
    "aten.where.self": lambda c: (torch.where(c.k, c.x, c.i), torch.where(c.k, c.x, 0.0)),
    "aten.masked_fill.Scalar": lambda c: aten.masked_fill.Scalar(c.x, c.k, -math.inf),
    "aten.masked_fill.Tensor": lambda c: aten.masked_fill.Tensor(c.x, c.k, torch.tensor(3.0)),
    "aten.addcmul.default": lambda c: aten.addcmul.default(c.x, c.y, c.p, value=0.5),
    "aten.copy.default": lambda c: aten.copy.default(c.x, c.i),
}

SHAPE: Mapping[str, Case] = {
    "aten.view.default": lambda c: (c.q.view(-1, 8), c.z.view(c.z.shape[0], -1)),
    "aten._unsafe_view.default": lambda c: aten._unsafe_view.default(c.q, [-1, 4]),
    "aten.reshape.default": lambda c: aten.reshape.default(c.q.transpose(1, 2), [-1, 32]),
    "aten.flatten.using_ints": lambda c: aten.flatten.using_ints(c.z, 1, 2),
    "aten.unflatten.int": lambda c: aten.unflatten.int(c.s, 1, [2, 3]),
    "aten.expand.default": lambda c: c.v.expand(c.x.shape[0], -1) + 0,
    "aten.permute.default": lambda c: c.z.permute(3, 0, 2, 1),
    "aten.t.default": lambda c: aten.t.default(c.x),
    "aten.transpose.int": lambda c: aten.transpose.int(c.z, -1, 1),
    "aten.squeeze.default": lambda c: aten.squeeze.default(c.s[:, None]),
    "aten.squeeze.dim": lambda c: (aten.squeeze.dim(c.s[:, None], 1), aten.squeeze.dim(c.s[:, None], 2)),
    "aten.squeeze.dims": lambda c: aten.squeeze.dims(c.s[:, None, None], [1, -2]),
    "aten.unsqueeze.default": lambda c: (c.x.unsqueeze(-1), c.x.unsqueeze(0)),
    "aten.slice.Tensor": lambda c: (c.s[:, 1:-1], c.s[:, ::2], c.z[:, :, 1:], c.x[:, : c.x.shape[1] // 2], c.s[-2:]),
    "aten.select.int": lambda c: (c.s[:, 2], c.s[:, -1], c.z[0], c.z[:, :, -1]),
    "aten.split.Tensor": lambda c: aten.split.Tensor(c.s, 4, 1),
    "aten.split_with_sizes.default": lambda c: aten.split_with_sizes.default(c.s, [1, 2, 3], -1),
    "aten.unbind.int": lambda c: aten.unbind.int(c.s, 1),
    "aten.cat.default": lambda c: (torch.cat([c.x, c.y, c.x]), torch.cat([c.x, c.i], 1)),
    "aten.stack.default": lambda c: (torch.stack([c.x, c.y], -1), torch.stack([c.x])),
    "aten.flip.default": lambda c: c.z.flip([0, -1]),
    "aten.roll.default": lambda c: (c.x.roll(1, 0), c.s.roll([1, -2], [0, 1]), c.s.roll(3)),
    "aten.repeat.default": lambda c: c.x.repeat(2, 1, 3),
    "aten.diagonal.default": lambda c: (torch.diagonal(c.e), torch.diagonal(c.z, 1, 1, 3)),
    "aten.tril.default": lambda c: c.e.tril(1),
    "aten.triu.default": lambda c: c.e.triu(-1),
    "aten.constant_pad_nd.default": lambda c: aten.constant_pad_nd.default(c.z, [1, 2, 0, 1], 2.5),
    "aten.reflection_pad1d.default": lambda c: aten.reflection_pad1d.default(c.z[0], [2, 1]),
    "aten.reflection_pad2d.default": lambda c: aten.reflection_pad2d.default(c.z, [2, 1, 1, 1]),
    "aten.reflection_pad3d.default": lambda c: aten.reflection_pad3d.default(c.z, [2, 1, 1, 1, 1, 0]),
    "aten.replication_pad1d.default": lambda c: aten.replication_pad1d.default(c.z[0], [2, 1]),
    "aten.replication_pad2d.default": lambda c: aten.replication_pad2d.default(c.z, [2, 1, 1, 1]),
    "aten.replication_pad3d.default": lambda c: aten.replication_pad3d.default(c.z, [2, 1, 1, 1, 1, 0]),
    "aten.full.default": lambda c: (torch.full((c.x.shape[0], 2), 3), torch.full((2,), -math.inf)),
    "aten.full_like.default": lambda c: torch.full_like(c.x, 2.5),
    "aten.fill.Scalar": lambda c: aten.fill.Scalar(c.x, 2),
    "aten.fill.Tensor": lambda c: aten.fill.Tensor(c.x, torch.tensor(2.0)),
    "aten.scalar_tensor.default": lambda c: aten.scalar_tensor.default(2.5, dtype=torch.float64),
    "aten.zeros.default": lambda c: torch.zeros(c.x.shape[1]),
    "aten.ones.default": lambda c: torch.ones(c.x.shape[1], 2, dtype=torch.bool),
    "aten.zeros_like.default": lambda c: torch.zeros_like(c.i),
    "aten.ones_like.default": lambda c: torch.ones_like(c.k),
    "aten.empty.memory_format": lambda c: torch.empty(c.x.shape[0], 3).fill_(1.0),
    "aten.empty_strided.default": lambda c: torch.empty_strided((2, 3), (3, 1)).fill_(1.0),
    "aten.empty_permuted.default": lambda c: torch.empty_permuted((2, 3), (1, 0)).fill_(1.0),
    "aten.arange.start_step": lambda c: (torch.arange(1, 20, 3), torch.arange(0, 1, 0.3), torch.arange(5, -5, -2)),
    "aten.arange.start": lambda c: aten.arange.start(2, c.x.shape[0] + 2),
    "aten.arange.default": lambda c: (
        aten.arange.default(c.x.shape[0]), torch.arange(c.x.shape[1], dtype=torch.float32),
    ),
    "prims.iota.default": lambda c: torch.ops.prims.iota(
        5, start=2, step=3, dtype=torch.int64, device="cpu", requires_grad=False
    ),
    "aten.eye.default": lambda c: torch.eye(c.x.shape[1]),
    "aten.eye.m": lambda c: torch.eye(3, 5),
}


def over(name: str, *args: Any, of: str = "s") -> Case:
    op = name.split(".")
    return lambda c: getattr(getattr(aten, op[0]), op[1])(getattr(c, of), *args)


REDUCE: Mapping[str, Case] = {
    "aten.sum.default": lambda c: (c.x.sum(), c.k.sum(), c.x.sum(dtype=torch.float64)),
    "aten.sum.dim_IntList": lambda c: (c.x.sum(1), c.z.sum([1, -1], keepdim=True), c.i.sum(0)),
    "aten.mean.default": lambda c: (aten.mean.default(c.x), aten.mean.default(c.i, dtype=torch.float32)),
    "aten.mean.dim": lambda c: c.z.mean([2, 3]),
    "aten.prod.default": over("prod.default", of="v"),
    "aten.prod.dim_int": lambda c: (aten.prod.dim_int(c.s, 1), aten.prod.dim_int(c.k, 0, True)),
    "aten.amax.default": lambda c: (aten.amax.default(c.s, [1]), aten.amax.default(c.i, [0], True)),
    "aten.amin.default": over("amin.default", [-1]),
    "aten.max.default": over("max.default"),
    "aten.min.default": over("min.default"),
    "aten.max.dim": lambda c: (*aten.max.dim(c.s, 1), aten.max.dim(c.k, 1)[0]),
    "aten.min.dim": lambda c: tuple(aten.min.dim(c.s, 1, True)),
    "aten.argmax.default": lambda c: (c.s.argmax(), c.s.argmax(1), c.s.argmax(0, keepdim=True)),
    "aten.argmin.default": over("argmin.default", 1),
    "aten.any.default": over("any.default", of="k"),
    "aten.any.dim": over("any.dim", 1, of="x"),
    "aten.any.dims": over("any.dims", [0, 1], of="k"),
    "aten.all.default": over("all.default", of="k"),
    "aten.all.dim": over("all.dim", 1, True, of="k"),
    "aten.all.dims": over("all.dims", [0], of="k"),
    "aten.var.correction": lambda c: aten.var.correction(c.s, [1], correction=2),
    "aten.var.dim": over("var.dim", [1], False),
    "aten.var.default": over("var.default"),
    "aten.std.correction": lambda c: aten.std.correction(c.s, [1], keepdim=True),
    "aten.std.dim": over("std.dim", [1]),
    "aten.std.default": over("std.default"),
    "aten.var_mean.correction": lambda c: aten.var_mean.correction(c.s, [1], correction=0),
    "aten.std_mean.correction": lambda c: aten.std_mean.correction(c.s, [1]),
    "aten.cummax.default": lambda c: (c.x.cummax(1), (c.x.trunc() / c.x.trunc()).cummax(0), c.i.cummax(0)),
    "aten.cummin.default": lambda c: (c.x.cummin(1), c.i.trunc().cummin(1), c.k.cummin(0)[0]),
    "aten.logcumsumexp.default": lambda c: (c.x.logcumsumexp(1), (c.x * 99).logcumsumexp(0)),
    "aten.cumsum.default": lambda c: (c.x.cumsum(1), c.k.cumsum(0)),
    "aten.cumprod.default": over("cumprod.default", 0),
    "aten.linalg_vector_norm.default": lambda c: [
        aten.linalg_vector_norm.default(c.s, o, [1]) for o in (2, 1, 0, 3.5, math.inf, -math.inf)
    ],
    "aten.logsumexp.default": lambda c: (c.x.logsumexp(1), c.x.sum().logsumexp(0)),
    "aten._softmax.default": lambda c: (c.x.softmax(-1), c.z.softmax(1), c.x.sum().softmax(0)),
    "aten._log_softmax.default": lambda c: c.z.log_softmax(2),
    "aten.sort.default": lambda c: (*c.x.sort(1), c.x.sort(0, descending=True)[0]),
    "aten.sort.stable": lambda c: tuple(aten.sort.stable(c.i, stable=True, dim=1)),
    "aten.topk.default": lambda c: (*c.s.topk(3, 1), c.s.topk(2, 1, largest=False)[0]),
}

NN: Mapping[str, Case] = {
    "aten.linear.default": lambda c: (aten.linear.default(c.x, c.e, c.v), aten.linear.default(c.x, c.e)),
    "aten.matmul.default": lambda c: (aten.matmul.default(c.q, c.q.mT), aten.matmul.default(c.x, c.v)),
    "aten.mm.default": lambda c: aten.mm.default(c.x, c.e),
    "aten.bmm.default": lambda c: aten.bmm.default(c.q[:, 0], c.q[:, 1].mT),
    "aten.mv.default": lambda c: aten.mv.default(c.x, c.v),
    "aten.dot.default": lambda c: aten.dot.default(c.v, c.v),
    "aten.addmm.default": lambda c: aten.addmm.default(c.v, c.x, c.e, beta=0.5, alpha=2),
    "aten.baddbmm.default": lambda c: aten.baddbmm.default(c.e, c.q[:, 0], c.q[:, 1].mT),
    "aten.addmv.default": lambda c: aten.addmv.default(c.v, c.e, c.v, beta=0),
    "aten.convolution.default": lambda c: [
        aten.convolution.default(c.z, c.w, None, [2, 1], [1, 1], [1, 1], False, [0, 0], 2),
        aten.convolution.default(c.z[:, :2], c.w, c.w[:, 0, 0, 0], [1], [1], [1], False, [0], 1),
        aten.convolution.default(c.z, c.w[:4], None, [2, 2], [1, 1], [1, 1], True, [1, 1], 2),
    ],
    "aten.max_pool2d_with_indices.default": lambda c: [
        *aten.max_pool2d_with_indices.default(c.z, [3, 2], [2, 2], [1, 0]),
        *aten.max_pool2d_with_indices.default(c.z, [3, 3], [2, 2], [1, 1], [1, 1], True),
    ],
    "aten.max_pool3d_with_indices.default": lambda c: aten.max_pool3d_with_indices.default(c.z, [2, 2, 2])[0],
    "aten.max_pool1d.default": lambda c: aten.max_pool1d.default(c.z[:, 0], [2]),
    "aten.max_pool2d.default": lambda c: aten.max_pool2d.default(c.z, [3, 3], [1, 1], [1, 1], [2, 2]),
    "aten.max_pool3d.default": lambda c: aten.max_pool3d.default(c.z, [2, 2, 2]),
    "aten.avg_pool1d.default": lambda c: aten.avg_pool1d.default(c.z[:, 0], [2]),
    "aten.avg_pool2d.default": lambda c: [
        aten.avg_pool2d.default(c.z, [3, 3], [2, 2], [1, 1], False, False),
        aten.avg_pool2d.default(c.z, [3, 3], [2, 2], [1, 1], False, True, 5),
    ],
    "aten.avg_pool3d.default": lambda c: aten.avg_pool3d.default(c.z, [2, 2, 2]),
    "aten._adaptive_avg_pool2d.default": lambda c: aten._adaptive_avg_pool2d.default(c.z, [3, 5]),
    "aten._adaptive_avg_pool3d.default": lambda c: aten._adaptive_avg_pool3d.default(c.z, [2, 3, 5]),
    "aten.adaptive_avg_pool1d.default": lambda c: aten.adaptive_avg_pool1d.default(c.z[:, 0], [3]),
    "aten.adaptive_avg_pool2d.default": lambda c: aten.adaptive_avg_pool2d.default(c.z, [1, 1]),
    "aten.adaptive_avg_pool3d.default": lambda c: aten.adaptive_avg_pool3d.default(c.z, [2, 3, 5]),
    "aten.adaptive_max_pool1d.default": lambda c: aten.adaptive_max_pool1d.default(c.z[:, 0], [3])[0],
    "aten.adaptive_max_pool2d.default": lambda c: aten.adaptive_max_pool2d.default(c.z, [2, 3])[0],
    "aten.adaptive_max_pool3d.default": lambda c: aten.adaptive_max_pool3d.default(c.z, [2, 2, 3])[0],
    "aten.layer_norm.default": lambda c: (
        aten.layer_norm.default(c.z, [12], c.z[0, 0, 0], c.z[0, 1, 0]),
        aten.layer_norm.default(c.s, [6]),
    ),
    "aten.native_layer_norm.default": lambda c: aten.native_layer_norm.default(c.s, [6], c.s[0], None, 1e-3),
    "aten.rms_norm.default": lambda c: aten.rms_norm.default(c.s, [6], c.s[0]),
    "aten.group_norm.default": lambda c: aten.group_norm.default(c.z, 2, c.z[0, :, 0, 0], None),
    "aten.native_group_norm.default": lambda c: aten.native_group_norm.default(
        c.z, None, None, c.z.shape[0], 4, c.z.shape[2] * 12, 2, 1e-5
    ),
    "aten._native_batch_norm_legit_no_training.default": lambda c: (
        aten._native_batch_norm_legit_no_training.default(
            c.z, c.z[0, :, 0, 0], None, c.z[0, :, 0, 1], c.z[0, :, 0, 2].abs(), 0.1, 1e-5
        )[0]
    ),
    "aten._native_batch_norm_legit.no_stats": lambda c: aten._native_batch_norm_legit.no_stats(
        c.z, c.z[0, :, 0, 0], None, True, 0.1, 1e-5
    ),
    "aten.scaled_dot_product_attention.default": lambda c: [
        aten.scaled_dot_product_attention.default(c.q, c.q, c.q, is_causal=True),
        aten.scaled_dot_product_attention.default(c.q, c.q[:, :2], c.q[:, 2:], scale=0.3, enable_gqa=True),
        aten.scaled_dot_product_attention.default(c.q, c.q, c.q, c.e),
        aten.scaled_dot_product_attention.default(c.q[:, 0], c.q[:, 1], c.q[:, 2], c.e > -2),
        aten.scaled_dot_product_attention.default(c.q[0, 0], c.q[0, 1], c.q[0, 2]),
    ],
    "aten._scaled_dot_product_flash_attention_for_cpu.default": lambda c: (
        aten._scaled_dot_product_flash_attention_for_cpu.default(c.q, c.q, c.q, 0.0, True)[0]
    ),
    "aten._cdist_forward.default": lambda c: [
        aten._cdist_forward.default(c.s, c.s * 2, p, None) for p in (1.0, 2.0, math.inf)
    ],
}

INDEX: Mapping[str, Case] = {
    "aten.embedding.default": lambda c: aten.embedding.default(c.w[:, 0, 0], c.a),
    "aten.index_select.default": lambda c: (c.z.index_select(1, c.a), c.s.index_select(1, c.a)),
    "aten.gather.default": lambda c: c.s.gather(1, c.i.abs()[:, :1] % 6),
    "aten.index.Tensor": lambda c: (
        c.s[:, c.a], c.z[:, c.a, :, c.a], c.z[:, c.a, 1:][..., c.a, :], c.z[:, c.a, :, 2:7][0],
        c.z[:, c.a[:, None], 0, c.a], c.w[c.a, c.a % 2], c.z[:, -c.a],
    ),
    "aten._unsafe_index.Tensor": lambda c: aten._unsafe_index.Tensor(c.s, [None, c.a]),
    "aten.index_put.default": lambda c: [
        aten.index_put.default(c.s, [None, c.a], torch.tensor(2.0)),
        aten.index_put.default(c.w, [c.a, c.a % 2], torch.ones(5, 3, 3), True),
        aten.index_put.default(c.x, [c.k], torch.tensor(9.0)),
        aten.index_put.default(c.x, [c.k], torch.tensor([2.0]), True),
        aten.index_put.default(c.w, [torch.arange(6) % 2 == 0], c.w[1:4] * 2),
        aten.index_put.default(c.z, [None, c.a[:1]], c.z[:, :1] * 2),
    ],
    "aten._unsafe_index_put.default": lambda c: aten._unsafe_index_put.default(c.s, [None, c.a], c.s[:, :5] * 0),
    "aten.scatter.src": lambda c: c.s.scatter(1, c.a[:3].expand(c.s.shape[0], 3) * 0 + torch.arange(3), c.s[:, 3:]),
    "aten.scatter.value": lambda c: c.s.scatter(1, c.a[:3].expand(c.s.shape[0], 3), 7.0),
    "aten.scatter_add.default": lambda c: c.s.scatter_add(1, c.a[:3].expand(c.s.shape[0], 3), c.s[:, 3:]),
    "aten.scatter_reduce.two": lambda c: [
        aten.scatter_reduce.two(c.s, 1, c.a[:3].expand(c.s.shape[0], 3), c.s[:, 3:], r, include_self=own)
        for r in ("sum", "prod", "amax", "amin", "mean")
        for own in (True, False)
    ],
    "aten.slice_scatter.default": lambda c: (
        aten.slice_scatter.default(c.s, c.s[:, :2] * 2, 1, 1, 3),
        aten.slice_scatter.default(c.s, c.s[:, :3] * 2, 1, 0, 6, 2),
        aten.slice_scatter.default(c.s, c.s[:, :2] * 2, 1, -2),
    ),
    "aten.select_scatter.default": lambda c: aten.select_scatter.default(c.s, c.s[:, 0] * 3, 1, -2),
    "aten.masked_scatter.default": lambda c: aten.masked_scatter.default(c.x, c.k, c.y),
    "aten.as_strided.default": lambda c: aten.as_strided.default(c.w, [3, 4], [2, 5], 1),
}  # fmt: skip



def regular(c: Inputs) -> Any:
    """Symmetric positive-definite: f32[m, m]."""
    return c.e @ c.e.mT + 4 * torch.eye(c.e.shape[0])


def packed(c: Inputs) -> Any:
    return aten.linalg_lu_factor_ex.default(regular(c))[:2]


def reflections(c: Inputs) -> Any:
    """Of matrices whose sizes stay: torch has no shapes of these for sizes that move."""
    return aten.geqrf.default(c.w[:, 0])


LINALG: Mapping[str, Case] = {
    "aten.cholesky.default": lambda c: aten.cholesky.default(regular(c)),
    "aten.linalg_cholesky.default": lambda c: aten.linalg_cholesky.default(regular(c), upper=True),
    "aten.linalg_cholesky_ex.default": lambda c: aten.linalg_cholesky_ex.default(regular(c)),
    "aten.linalg_lu_factor.default": lambda c: aten.linalg_lu_factor.default(regular(c)),
    "aten.linalg_lu_factor_ex.default": lambda c: aten.linalg_lu_factor_ex.default(c.q[:, 0, :, :8] * 0.5),
    "aten.lu_unpack.default": lambda c: aten.lu_unpack.default(*packed(c)),
    "aten.linalg_lu_solve.default": lambda c: [
        aten.linalg_lu_solve.default(*packed(c), c.e, left=left, adjoint=adjoint)
        for left in (True, False)
        for adjoint in (True, False)
    ],
    "aten.linalg_solve_triangular.default": lambda c: [
        aten.linalg_solve_triangular.default(regular(c), c.e, upper=upper, left=left)
        for left in (True, False)
        for upper in (True, False)
    ],
    "aten.linalg_qr.default": lambda c: aten.linalg_qr.default(regular(c)),
    "aten.geqrf.default": reflections,
    "aten.linalg_householder_product.default": lambda c: aten.linalg_householder_product.default(*reflections(c)),
    "aten.ormqr.default": lambda c: aten.ormqr.default(*reflections(c), c.w[:, 1], True, True),
    "aten._linalg_eigh.default": lambda c: aten._linalg_eigh.default(regular(c))[0],
    "aten._linalg_svd.default": lambda c: aten._linalg_svd.default(regular(c))[1],
}

_BY_AXES: Mapping[int, Callable[[Inputs], Any]] = {
    1: lambda c: c.z.flatten(2), 2: lambda c: c.z, 3: lambda c: c.z.unsqueeze(2),
}  # fmt: skip


def _resized(name: str, axes: int, *corners: bool) -> Case:
    """In a size, and by factors."""
    op = getattr(aten, name).vec

    def case(c: Inputs) -> Any:
        x, size, factors = _BY_AXES[axes](c), [5, 7, 9][:axes], [1.5, 0.75, 2.0][:axes]
        return [op(x, size, *(corners[:1]), None), op(x, None, *corners[1:], factors if axes < 3 else [1.0, 1.5, 0.75])]

    return case


RESAMPLE: dict[str, Case] = {
    **{f"aten.upsample_nearest{n}d.vec": _resized(f"upsample_nearest{n}d", n) for n in (1, 2, 3)},
    **{f"aten._upsample_nearest_exact{n}d.vec": _resized(f"_upsample_nearest_exact{n}d", n) for n in (1, 2, 3)},
    **{
        f"aten.{name}.vec": _resized(name, axes, True, False)
        for name, axes in (
            ("upsample_linear1d", 1), ("upsample_bilinear2d", 2),
            ("upsample_trilinear3d", 3), ("upsample_bicubic2d", 2),
        )
    },
    "aten.grid_sampler_2d.default": lambda c: [
        aten.grid_sampler_2d.default(c.z, torch.tanh(c.z[:, :2].permute(0, 2, 3, 1)) * 1.2, mode, padding, corners)
        for mode, padding, corners in ((0, 0, False), (0, 1, True), (1, 2, False), (2, 0, True))
    ],
    "aten.grid_sampler_3d.default": lambda c: aten.grid_sampler_3d.default(
        c.z.unsqueeze(2), torch.tanh(c.z[:, :3].permute(0, 2, 3, 1)).unsqueeze(1), 0, 0, False
    ),
}  # fmt: skip
"""Images in another size, or read at places."""

GROUPS: Mapping[str, Mapping[str, Case]] = {
    "unary": UNARY, "binary": BINARY, "shape": SHAPE, "reduce": REDUCE, "nn": NN, "index": INDEX,
    "linalg": LINALG, "resample": RESAMPLE,
}  # fmt: skip
