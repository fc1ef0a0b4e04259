"""Numbers on which frameworks disagree: floats as integers, signed zeros, NaN.  The importer gives what torch gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import pliant

torch = pytest.importorskip("torch")
F = torch.nn.functional

INTS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
BEYOND = (
    *(-2.7, 2.7, -0.9, 127.9, 128.0, 255.5, 256.0, 300.0, -129.0, 32768.0, 65536.0, 70000.0, -40000.0),
    *(2147483647.5, 2147483648.0, -2147483648.5, 3e9, 4294967301.0, -3e9, 9.3e18, -9.3e18, 1.8e19, 1e30),
    *(math.nan, math.inf, -math.inf, 0.0),
)


def imported(function: Callable[..., Any], *arguments: Any) -> Any:
    class Model(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return function(*given)

    return pliant.from_torch(Model(), arguments)(*arguments)


@pytest.mark.parametrize("source", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_floats_become_the_integers_of_torch(source: Any) -> None:
    """Out of range too: [-2.7, 256, 300] as uint8 is [254, 0, 44]."""
    x = torch.tensor(BEYOND, dtype=torch.float64).to(source)
    wants = [x.to(t) for t in INTS]
    for got, want in zip(imported(lambda x: tuple(x.to(t) for t in INTS), x), wants, strict=True):
        assert torch.equal(got, want), [(v, g, w) for v, g, w in zip(x.tolist(), got, want, strict=True) if g != w]


def test_the_example_of_the_page() -> None:
    got = imported(lambda x: x.to(torch.uint8), torch.tensor([-2.7, 256.0, 300.0]))
    assert got.tolist() == [254, 0, 44]


def _assigned(x: Any, i: Any) -> Any:
    out = i.clone()
    out[:] = x
    return out


ROUTES: dict[str, Callable[[Any, Any], Any]] = {
    "names": lambda x, i: (x.int(), x.long(), x.short(), x.char(), x.byte()),
    "type": lambda x, i: (x.type(torch.uint8), x.type_as(i), x.to(i), x.to(torch.int16, copy=True)),
    "assignment": lambda x, i: (i.clone().copy_(x), _assigned(x, i), i.clone().fill_(x[7])),
    "of a result": lambda x, i: ((x[:9] * 100).round().to(i.dtype), x[:5].mean().to(i.dtype)),
    "sums": lambda x, i: (x[:12].sum(dtype=torch.uint8), x.cumsum(0, dtype=torch.int8), x[:5].prod(dtype=torch.int32)),
    "elsewhere": lambda x, i: (
        i.scatter(0, torch.arange(len(i)), x.to(i.dtype)),
        torch.where(i == 0, x, i).to(i.dtype),
    ),
    "created": lambda x, i: (
        torch.linspace(-10, 10, 8, dtype=torch.int8),
        torch.full_like(x, 300.7, dtype=torch.int32),
    ),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("kind", [torch.uint8, torch.int8])
def test_every_route_to_an_integer(route: str, kind: Any) -> None:
    x = torch.tensor(BEYOND)
    i = torch.zeros(len(x), dtype=kind)
    for got, want in zip(imported(ROUTES[route], x, i), ROUTES[route](x, i), strict=True):
        assert got.dtype is want.dtype
        assert torch.equal(got, want)


# ------------------------------------------------------------------------------------------------ zeros and NaN

EDGES = (math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, -1.0, 0.5, -0.5, -0.3, 2.5, -2.5, 3.0, -3.0, 6.0, 7.0)


def _named(module: Any, names: str) -> dict[str, Callable[..., Any]]:
    return {name: getattr(module, name) for name in names.split()}


UNARY: dict[str, Callable[[Any], Any]] = {
    **_named(torch, "relu sign sgn round trunc frac floor ceil abs neg sqrt square sigmoid"),
    **_named(torch, "sin tan atan asinh tanh expm1 log1p erf nan_to_num positive reciprocal"),
    **_named(F, "relu6 hardtanh hardswish hardsigmoid leaky_relu elu selu celu silu mish"),
    **_named(F, "softsign hardshrink logsigmoid"),
    "relu_": lambda x: (x * 1).relu_(),
    "hardtanh 0 1": lambda x: F.hardtanh(x, 0.0, 1.0),
    "threshold": lambda x: F.threshold(x, 0.0, 0.0),
    "threshold -0": lambda x: F.threshold(x, -1.0, -0.0),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.25], dtype=x.dtype)),
    "leaky_relu -1": lambda x: F.leaky_relu(x, -1.0),
    "clamp": lambda x: x.clamp(0, 1),
    "clamp min": lambda x: x.clamp(min=0),
    "clamp max": lambda x: x.clamp(max=-0.0),
    "clamp nan": lambda x: x.clamp(min=math.nan),
    "clamp crossed": lambda x: x.clamp(2, -2),
    "plus zero": lambda x: x + 0.0,
    "minus": lambda x: 0 - x,
    "times zero": lambda x: x * 0,
    "remainder": lambda x: x % 2,
    "remainder -2": lambda x: x % -2,
    "remainder of a number": lambda x: torch.remainder(-0.0, x),
    "fmod": lambda x: torch.fmod(x, 2),
    "floor division": lambda x: x // 2,
    "truncating division": lambda x: torch.div(x, 3, rounding_mode="trunc"),
    "heaviside": lambda x: torch.heaviside(x, torch.full_like(x, -0.0)),
    "copysign": lambda x: torch.copysign(torch.ones_like(x), torch.nan_to_num(x)),
    "hypot": lambda x: torch.hypot(x, torch.flip(x, (0,))) if x.dtype is not torch.float64 else x,
    "gelu": lambda x: F.gelu(x[3:]),
    "gelu tanh": lambda x: F.gelu(x[3:], approximate="tanh"),
    "masked_fill": lambda x: x.masked_fill(x < 0, -0.0),
    "cumsum": lambda x: x[3:].cumsum(0),
    "sum": lambda x: x[3:4].sum(),
    "any": lambda x: (x.any(), x[3:5].any(), x.bool(), x[:1].any()),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **_named(torch, "fmod remainder atan2 copysign pow floor_divide div mul add sub"),
    **_named(torch, "heaviside eq lt maximum minimum fmax fmin"),
    "clamp": lambda x, y: x.clamp(y, y + 1),
    "where": lambda x, y: torch.where(x < y, x, y),
}
ZERO_IS_OPEN = ("maximum", "minimum", "fmax", "fmin", "clamp")
"""Of 0.0 and -0.0 torch itself gives either, by the place of the element."""


def assert_alike(got: Any, want: Any, name: str, tolerance: float) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape), name
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda m: f"{name}: {m}")
    if want.is_floating_point():
        zeros = (want == 0) & (got == 0)
        assert torch.equal(torch.signbit(got)[zeros], torch.signbit(want)[zeros]), (name, got, want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_zeros_and_nan_of_one_operand(dtype: Any) -> None:
    x = torch.tensor(EDGES, dtype=dtype)
    tolerance = 1.6e-2 if dtype is torch.bfloat16 else 2e-6

    def flat(results: Any) -> Any:
        return tuple(t for r in results for t in (r if isinstance(r, tuple) else (r,)))

    gots = imported(lambda x: flat(f(x) for f in UNARY.values()), x)
    wants = flat(f(x) for f in UNARY.values())
    names = flat((n,) * (len(f(x)) if isinstance(f(x), tuple) else 1) for n, f in UNARY.items())
    for name, got, want in zip(names, gots, wants, strict=True):
        assert_alike(got, want, name, tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zeros_and_nan_of_two_operands(dtype: Any) -> None:
    edges = torch.tensor(EDGES, dtype=dtype)
    x, y = edges.repeat_interleave(len(edges)), edges.repeat(len(edges))
    gots = imported(lambda x, y: tuple(f(x, y) for f in BINARY.values()), x, y)
    for (name, f), got in zip(BINARY.items(), gots, strict=True):
        want = f(x, y)
        if name in ZERO_IS_OPEN:
            got, want = got + 0.0, want + 0.0
        if name == "copysign":  # the sign of a NaN is nobody's
            got, want = got[~y.isnan()], want[~y.isnan()]
        assert_alike(got, want, name, 2e-6)
