"""References of operators against torch, for what numpy has no function of."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pliant.ir.op import Op
from pliant.ir.registry import registry

torch = pytest.importorskip("torch")
F = torch.nn.functional


def op(name: str, **attributes: Any) -> Op:
    return registry()[name](**attributes)  # type: ignore[call-arg]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def agree(got: object, want: Any) -> None:
    assert isinstance(got, np.ndarray)
    assert got.dtype == want.numpy().dtype
    assert got.shape == tuple(want.shape)
    np.testing.assert_allclose(got, want.numpy(), rtol=2e-5, atol=2e-5)


SPECIAL = np.array(
    [math.nan, math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 20.0, -20.0, 88.0, -88.0, 1e-8], np.float32
)
UNARY: list[tuple[Op, Callable[..., Any]]] = [
    (op("relu"), F.relu),
    (op("gelu"), F.gelu),
    (op("gelu_tanh"), lambda x: F.gelu(x, approximate="tanh")),
    (op("silu"), F.silu),
    (op("sigmoid"), torch.sigmoid),
    (op("softplus"), F.softplus),
    (op("softplus", beta=2.0), lambda x: F.softplus(x, beta=2.0)),
    (op("elu"), F.elu),
    (op("elu", alpha=0.5), lambda x: F.elu(x, 0.5)),
    (op("leaky_relu"), F.leaky_relu),
    (op("leaky_relu", negative_slope=0.2), lambda x: F.leaky_relu(x, 0.2)),
    (op("hardtanh"), F.hardtanh),
    (op("hardswish"), F.hardswish),
    (op("hardsigmoid"), F.hardsigmoid),
    (op("erf"), torch.erf),
    (op("rsqrt"), torch.rsqrt),
    (op("reciprocal"), torch.reciprocal),
    (op("square"), torch.square),
    (op("expm1"), torch.expm1),
    (op("log1p"), torch.log1p),
    (op("round"), torch.round),
    (op("sign"), torch.sign),
    (op("acosh"), torch.acosh),
    (op("isfinite"), torch.isfinite),
]


@pytest.mark.parametrize(("ours", "theirs"), UNARY, ids=lambda v: getattr(v, "name", ""))
def test_unary(ours: Op, theirs: Callable[..., Any]) -> None:
    # Where torch differs on purpose or by its vector code: the sign of NaN is 0, the gelu of infinities NaN.
    values = SPECIAL[2:] if ours.name in ("sign", "gelu", "gelu_tanh") else SPECIAL
    agree(ours.reference(values), theirs(torch.from_numpy(values)))


@pytest.mark.parametrize("name", ["floordiv", "mod", "fmod"])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_divisions_of_every_sign(name: str, dtype: type) -> None:
    x, y = np.meshgrid(np.arange(-7, 8).astype(dtype), np.array([-3, -2, -1, 1, 2, 5], dtype))
    theirs = {"floordiv": torch.floor_divide, "mod": torch.remainder, "fmod": torch.fmod}[name]
    agree(op(name).reference(x, y), theirs(torch.from_numpy(x), torch.from_numpy(y)))


@pytest.mark.parametrize("name", ["floordiv", "mod", "fmod"])
def test_dividing_an_integer_by_zero_is_an_error(name: str) -> None:
    with pytest.raises(ZeroDivisionError, match=name):
        op(name).reference(np.array([1, 2]), np.array([1, 0]))
    assert op(name).reference(np.zeros(0, np.int64), np.array([0])).shape == (0,)


def test_reductions() -> None:
    x = draw(3, 4, 5)
    t = torch.from_numpy(x)
    for axis in (0, -1, (0, 2)):
        for keep in (False, True):
            for name, theirs in (("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax), ("min", torch.amin)):
                agree(op(name, axis=axis, keepdims=keep).reference(x), theirs(t, dim=axis, keepdim=keep))
            for correction in (0.0, 1.0):
                for name, theirs in (("var", torch.var), ("std", torch.std)):
                    ours = op(name, axis=axis, keepdims=keep, correction=correction)
                    agree(ours.reference(x), theirs(t, dim=axis, keepdim=keep, correction=correction))
            agree(op("logsumexp", axis=axis, keepdims=keep).reference(x), torch.logsumexp(t, axis, keepdim=keep))
            for order in (0.0, 1.0, 2.0, 2.5, math.inf, -math.inf):
                want = torch.linalg.vector_norm(t, order, dim=axis, keepdim=keep)
                agree(op("norm", axis=axis, keepdims=keep, ord=order).reference(x), want)
    ties = np.array([[1, 3, 3], [2, 2, 0]], np.int32)
    agree(op("argmax", axis=1).reference(ties), torch.argmax(torch.from_numpy(ties), 1))
    agree(op("argmin", axis=0, keepdims=True).reference(ties), torch.argmin(torch.from_numpy(ties), 0, keepdim=True))
    agree(op("argmax").reference(x), torch.argmax(t))


def test_reductions_of_nothing() -> None:
    x = np.zeros((2, 0), np.float32)
    t = torch.from_numpy(x)
    agree(op("sum", axis=1).reference(x), t.sum(1))
    agree(op("prod", axis=1).reference(x), t.prod(1))
    agree(op("mean", axis=1).reference(x), t.mean(1))
    agree(op("logsumexp", axis=1).reference(x), torch.logsumexp(t, 1))
    agree(op("norm", axis=1).reference(x), torch.linalg.vector_norm(t, dim=1))
    agree(op("any", axis=1).reference(x), t.any(1))
    agree(op("all", axis=1).reference(x), t.all(1))


def test_logsumexp_and_softmax_of_infinities() -> None:
    inf = math.inf
    x = np.array([[-inf, -inf, -inf], [inf, 0, 1], [-inf, 0, 1], [1e30, 0, -1e30], [math.nan, 0, 1]], np.float32)
    t = torch.from_numpy(x)
    agree(op("logsumexp", axis=1).reference(x), torch.logsumexp(t, 1))
    for axis in (0, 1):
        agree(op("softmax", axis=axis).reference(x), torch.softmax(t, axis))
        agree(op("log_softmax", axis=axis).reference(x), torch.log_softmax(t, axis))


def test_normalisations() -> None:
    x, w, c = draw(2, 6, 5, 4), draw(5, 4, seed=1), draw(6, seed=2)
    t, tw, tc = map(torch.from_numpy, (x, w, c))
    agree(op("layer_norm", axis=(-2, -1)).reference(x, w, w), F.layer_norm(t, (5, 4), tw, tw))
    agree(op("layer_norm", eps=1e-2).reference(x), F.layer_norm(t, (4,), eps=1e-2))
    agree(op("rms_norm", axis=(2, 3), eps=1e-3).reference(x, w), F.rms_norm(t, (5, 4), tw, 1e-3))
    agree(op("group_norm", groups=3).reference(x, c, c), F.group_norm(t, 3, tc, tc))
    mean, var = draw(6, seed=3), np.abs(draw(6, seed=4)) + 0.5
    want = F.batch_norm(t, torch.from_numpy(mean), torch.from_numpy(var), tc, tc)
    agree(op("batch_norm").reference(x, mean, var, c, c), want)


CONVOLUTIONS: list[tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]] = [
    ({}, (2, 3, 9), (4, 3, 3)),
    ({"stride": 2, "padding": 1}, (2, 3, 9, 8), (4, 3, 3, 2)),
    ({"stride": (1, 2), "padding": (2, 0), "dilation": (2, 1)}, (1, 2, 7, 9), (3, 2, 3, 4)),
    ({"groups": 2, "padding": 1}, (2, 4, 6, 7), (6, 2, 3, 3)),
    ({"groups": 4}, (2, 4, 6, 7), (8, 1, 3, 3)),
    ({"padding": 1, "stride": (1, 2, 1)}, (1, 2, 4, 5, 6), (3, 2, 3, 2, 3)),
]


@pytest.mark.parametrize(("attributes", "shape", "kernel"), CONVOLUTIONS)
def test_conv(attributes: dict[str, Any], shape: tuple[int, ...], kernel: tuple[int, ...]) -> None:
    x, w, bias = draw(*shape), draw(*kernel, seed=1), draw(kernel[0], seed=2)
    theirs = (F.conv1d, F.conv2d, F.conv3d)[len(shape) - 3]
    want = theirs(torch.from_numpy(x), torch.from_numpy(w), torch.from_numpy(bias), **attributes)
    agree(op("conv", **attributes).reference(x, w, bias), want)


def test_conv_pads_unevenly() -> None:
    x, w = draw(1, 2, 7, 6), draw(3, 2, 3, 3, seed=1)
    want = F.conv2d(F.pad(torch.from_numpy(x), (2, 0, 0, 1)), torch.from_numpy(w))
    agree(op("conv", padding=((0, 1), (2, 0))).reference(x, w), want)


TRANSPOSED: list[tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]] = [
    ({}, (2, 3, 5), (3, 4, 3)),
    ({"stride": 3, "padding": 1, "output_padding": 2}, (2, 3, 5, 4), (3, 4, 3, 2)),
    ({"stride": (1, 2), "padding": (2, 0), "dilation": (2, 1)}, (1, 2, 7, 3), (2, 3, 3, 4)),
    ({"groups": 2, "stride": 2}, (2, 4, 3, 3), (4, 3, 3, 3)),
    ({"stride": 2, "padding": 1}, (1, 2, 3, 2, 3), (2, 3, 3, 3, 4)),
]


@pytest.mark.parametrize(("attributes", "shape", "kernel"), TRANSPOSED)
def test_conv_transpose(attributes: dict[str, Any], shape: tuple[int, ...], kernel: tuple[int, ...]) -> None:
    x, w = draw(*shape), draw(*kernel, seed=1)
    bias = draw(kernel[1] * attributes.get("groups", 1), seed=2)
    theirs = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[len(shape) - 3]
    want = theirs(torch.from_numpy(x), torch.from_numpy(w), torch.from_numpy(bias), **attributes)
    agree(op("conv_transpose", **attributes).reference(x, w, bias), want)


@pytest.mark.parametrize("size", range(1, 14))
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(1, 1, 0), (2, 2, 0), (3, 2, 1), (4, 3, 2), (2, 5, 1), (3, 1, 0)]
)
def test_pools(size: int, ceil_mode: bool, kernel: int, stride: int, padding: int) -> None:
    x = draw(2, 3, size)
    t = torch.from_numpy(x)
    if size + 2 * padding < kernel:
        return  # torch refuses what gives an empty result
    ours = {"kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil_mode}
    agree(op("max_pool", **ours).reference(x), F.max_pool1d(t, kernel, stride, padding, 1, ceil_mode))
    for include in (False, True):
        want = F.avg_pool1d(t, kernel, stride, padding, ceil_mode, include)
        agree(op("avg_pool", count_include_pad=include, **ours).reference(x), want)


def test_pools_of_two_and_three_axes() -> None:
    x, y = draw(2, 3, 9, 7), draw(1, 2, 5, 6, 7, seed=1)
    t, u = torch.from_numpy(x), torch.from_numpy(y)
    ours = op("max_pool", kernel_size=(3, 2), stride=(2, 1), padding=(1, 0), dilation=(2, 1))
    agree(ours.reference(x), F.max_pool2d(t, (3, 2), (2, 1), (1, 0), (2, 1)))
    agree(op("avg_pool", kernel_size=(3, 2)).reference(x), F.avg_pool2d(t, (3, 2)))
    agree(op("max_pool", kernel_size=2, ceil_mode=True).reference(y), F.max_pool3d(u, 2, ceil_mode=True))
    agree(op("adaptive_avg_pool", output_size=(4, 3)).reference(x), F.adaptive_avg_pool2d(t, (4, 3)))
    agree(op("adaptive_max_pool", output_size=(4, 9)).reference(x), F.adaptive_max_pool2d(t, (4, 9)))
    agree(op("adaptive_avg_pool", output_size=2).reference(y), F.adaptive_avg_pool3d(u, 2))


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float"])
def test_attention(groups: int, mask: str) -> None:
    q, k, v = draw(2, 4, 5, 8), draw(2, 4 // groups, 7, 8, seed=1), draw(2, 4 // groups, 7, 6, seed=2)
    given: tuple[np.ndarray, ...] = ()
    if mask == "bool":
        seen = np.random.default_rng(3).random((4, 5, 7)) < 0.6
        seen[:, 2] = False  # a query that sees nothing
        given = (seen,)
    if mask == "float":
        given = (draw(5, 7, seed=4),)
    ours = op("attention", causal=mask == "causal").reference(q, k, v, *given)
    theirs = torch.from_numpy(given[0]) if given else None
    want = F.scaled_dot_product_attention(
        *map(torch.from_numpy, (q, k, v)), theirs, is_causal=mask == "causal", enable_gqa=groups > 1
    )
    agree(ours, want)


def test_attention_over_a_cache_is_the_end_of_attention_over_everything() -> None:
    q, k, v = draw(1, 2, 9, 4), draw(1, 2, 9, 4, seed=1), draw(1, 2, 9, 4, seed=2)
    whole = op("attention", causal=True).reference(q, k, v)
    last = op("attention", causal=True, offset=6).reference(q[:, :, 6:], k, v)
    assert isinstance(whole, np.ndarray)
    assert isinstance(last, np.ndarray)
    np.testing.assert_allclose(last, whole[:, :, 6:], rtol=1e-6)


def test_matmul_and_half_precision_rounding() -> None:
    for dtype in (torch.float16, torch.float32, torch.int32):
        x, y = (torch.from_numpy(draw(3, 4, 5, seed=s) * 4).to(dtype) for s in (0, 1))
        got = op("matmul", transpose_b=True).reference(x.numpy(), y.numpy())
        assert isinstance(got, np.ndarray)
        np.testing.assert_allclose(got, torch.matmul(x, y.mT).numpy(), rtol=1e-3 if dtype is torch.float16 else 1e-5)


# ---------------------------------------------------------------------------------------------------- resampling


def theirs(mode: str, rank: int) -> str:
    """torch's name of a mode."""
    linear = {1: "linear", 2: "bilinear", 3: "trilinear"}[rank]
    return {"linear": linear, "cubic": "bicubic"}.get(mode, mode)


RESIZES = [
    (mode, shape, size, align)
    for mode in ("nearest", "nearest-exact", "linear", "cubic")
    for shape, size in [
        ((2, 3, 7), (10,)), ((1, 2, 1), (5,)), ((2, 3, 5, 8), (10, 16)), ((1, 1, 9, 4), (3, 7)), ((1, 2, 1, 6), (1, 1)),
        ((1, 2, 3, 4, 5), (6, 3, 9)), ((2, 2, 13, 11), (97, 101)),
    ]
    for align in (False, True)
    if (mode in ("linear", "cubic") or not align) and (mode != "cubic" or len(size) == 2)
]  # fmt: skip


@pytest.mark.parametrize(("mode", "shape", "size", "align"), RESIZES)
def test_resize(mode: str, shape: tuple[int, ...], size: tuple[int, ...], align: bool) -> None:
    x = draw(*shape)
    asked = {"align_corners": align} if mode in ("linear", "cubic") else {}
    want = F.interpolate(torch.from_numpy(x), size=size, mode=theirs(mode, len(size)), **asked)
    agree(op("resize", size=size, mode=mode, align_corners=align).reference(x), want)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "cubic"])
@pytest.mark.parametrize("scale", [1.3, 2.0, 0.6, 1 / 3])
def test_resize_by_a_scale(mode: str, scale: float) -> None:
    """The factor itself says where places lie, and not the sizes that come of it."""
    x = draw(1, 2, 10, 7)
    want = F.interpolate(torch.from_numpy(x), scale_factor=scale, mode=theirs(mode, 2))
    got = op("resize", size=tuple(want.shape[2:]), mode=mode, scales=(scale, scale)).reference(x)
    agree(got, want)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_places_are_torchs_at_every_size(mode: str) -> None:
    """Rounding in f32 decides which element it is: every pair of sizes up to 70, and some large ones.

    In two dimensions: of one and three, torch's own code differs from that by a fused multiplication.
    """
    pairs = [(a, b) for a in range(1, 70) for b in range(1, 70)] + [(1000, 999), (4097, 12345), (77777, 100003)]
    for size, out in pairs:
        x = np.arange(size, dtype=np.float32).reshape(1, 1, 1, -1)
        want = F.interpolate(torch.from_numpy(x), size=(1, out), mode=mode).numpy()
        got = op("resize", size=(1, out), mode=mode).reference(x)
        np.testing.assert_array_equal(got, want, err_msg=f"{size} {out}")


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("mode", "rank"), [("linear", 2), ("nearest", 2), ("cubic", 2), ("linear", 3), ("nearest", 3)])
def test_grid_sample(mode: str, rank: int, padding: str, align: bool) -> None:
    x = draw(2, 3, *(4, 5, 6)[:rank])
    grid = np.random.default_rng(1).uniform(-2.5, 2.5, (2, *(3, 7, 2)[:rank], rank)).astype(np.float32)
    kind = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    want = F.grid_sample(torch.from_numpy(x), torch.from_numpy(grid), kind, padding, align)
    agree(op("grid_sample", mode=mode, padding_mode=padding, align_corners=align).reference(x, grid), want)
