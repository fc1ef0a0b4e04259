"""Compiled activation functions against the definitions in float64: the tails, where naive formulas have no digits."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from scipy import special

import pliant
from pliant.ir.registry import registry

Array = np.ndarray


def gelu(x: Array) -> Array:
    return 0.5 * x * special.erfc(-x * np.sqrt(0.5))


def gelu_tanh(x: Array) -> Array:
    return x * special.expit(np.sqrt(8 / np.pi) * (x + 0.044715 * x**3))


def softplus(x: Array) -> Array:
    return np.logaddexp(x, 0)


def sharp_softplus(x: Array) -> Array:
    return np.logaddexp(np.float32(2.5) * x, 0) / np.float32(2.5)


CASES = [("gelu", gelu), ("gelu_tanh", gelu_tanh), ("softplus", softplus)]
TYPES = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


def run(op: str, x: Array, dtype: str) -> Array:
    exe = pliant.compile(f"func @main(x: {dtype}[n]) -> {dtype}[n] {{ y = {op} return y }}")
    return np.asarray(exe(x))


def spacing(want: Array, dtype: np.dtype) -> Array:
    """The distance of neighbouring numbers around each value."""
    info = ml_dtypes.finfo(dtype)
    exponent = np.floor(np.log2(np.maximum(np.abs(want), float(info.smallest_normal))))
    return 2.0 ** (exponent - info.nmant)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("name", "exact"), CASES, ids=[name for name, _ in CASES])
def test_within_two_ulp(name: str, exact: Callable[[Array], Array], dtype: str) -> None:
    rng = np.random.default_rng(0)
    near = rng.uniform(-1e-3, 1e-3, 3000)
    x = np.concatenate([rng.uniform(-15, 15, 40000), rng.uniform(-110, 20, 20000), near]).astype(TYPES[dtype])
    want = exact(x.astype(np.float64))
    error = np.abs(run(f"{name}(x)", x, dtype).astype(np.float64) - want) / spacing(want, TYPES[dtype])
    # f16 and bf16 are computed in f32 and rounded once.
    limit = 2 if dtype == "f32" else 0.51
    assert error.max() <= limit, (error.max(), x[error.argmax()])


def test_softplus_with_another_slope() -> None:
    x = np.linspace(-20, 20, 9999, dtype=np.float32)
    np.testing.assert_allclose(run("softplus(x, beta=2.5)", x, "f32"), sharp_softplus(x.astype(np.float64)), rtol=3e-6)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "softplus"])
def test_limits(name: str, dtype: str) -> None:
    """Compiled and reference, at the ends of the numbers."""
    numpy = np.dtype(np.float32 if dtype == "f32" else np.float64)
    x = np.array([-np.inf, np.finfo(numpy).min, np.finfo(numpy).max, np.inf, np.nan, 0.0, -0.0], numpy)
    want = np.array([0, 0, np.finfo(numpy).max, np.inf, np.nan, *((np.log(2),) * 2 if name == "softplus" else (0, 0))])
    op = registry()[name]()
    for got in (run(f"{name}(x)", x, dtype), op.reference(x)):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh"])
def test_reference_is_exact_in_the_tail(name: str) -> None:
    x = np.linspace(-37 if name == "gelu" else -21, 8, 2001)  # before scipy's own functions underflow
    want = dict(CASES)[name](x)
    np.testing.assert_allclose(registry()[name]().reference(x), want, rtol=1e-12)  # type: ignore[call-arg]
