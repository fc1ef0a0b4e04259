"""Special functions written in torch's operators, in f64 against scipy; parts of floats against torch, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy import special as reference  # noqa: E402

from pliant.frontends.torch import decompose_special as own  # noqa: E402

WIDE = torch.linspace(-30, 30, 2001, dtype=torch.float64) + 1e-3
POSITIVE = torch.linspace(1e-6, 60, 2001, dtype=torch.float64)
INSIDE = torch.cat([torch.linspace(-1, 1, 2001, dtype=torch.float64)[1:-1], torch.tensor([1e-9, -1e-300, 1 - 1e-15])])
SHARE = torch.cat([torch.logspace(-200, -1, 500, dtype=torch.float64), (INSIDE + 1) / 2])

# (ours, scipy's, where, how near 0 the error counts as absolute: at zeros of the function)
FUNCTIONS: dict[str, tuple[Any, Callable[..., Any], Any, float]] = {
    "lgamma": (own.lgamma, reference.gammaln, WIDE, 1e-2),
    "digamma": (own.digamma, reference.psi, WIDE, 1e-2),
    "erfcx": (own.erfcx, reference.erfcx, WIDE[WIDE > -20], 0),
    "erfc": (own.erfc, reference.erfc, WIDE[WIDE < 20], 0),
    "erfinv": (own.erfinv, reference.erfinv, INSIDE, 1e-300),
    "ndtri": (own.ndtri, reference.ndtri, SHARE, 1e-8),
    "log_ndtr": (own.log_ndtr, reference.log_ndtr, WIDE, 0),
    "i0": (own.i0, reference.i0, WIDE, 0),
    "i0e": (own.i0e, reference.i0e, WIDE, 0),
    "i1": (own.i1, reference.i1, WIDE, 0),
    "i1e": (own.i1e, reference.i1e, WIDE, 0),
    "k0": (own.bessel_k(0, False), reference.k0, POSITIVE, 0),
    "k1": (own.bessel_k(1, False), reference.k1, POSITIVE, 0),
    "k0e": (own.bessel_k(0, True), reference.k0e, POSITIVE, 0),
    "k1e": (own.bessel_k(1, True), reference.k1e, POSITIVE, 0),
    "j0": (own.j0, reference.j0, WIDE, 1e-1),
    "j1": (own.j1, reference.j1, WIDE, 1e-1),
    "y0": (own.y0, reference.y0, POSITIVE, 1e-1),
    "y1": (own.y1, reference.y1, POSITIVE, 1e-1),
    "spherical_j0": (own.spherical_j0, lambda x: reference.spherical_jn(0, x), WIDE, 1e-1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_scipy(name: str) -> None:
    function, wanted, x, zero = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        want = wanted(x.numpy())
    got = function(x).numpy()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    fine = np.isfinite(want)
    error = np.abs(got - want)[fine] / np.maximum(np.abs(want[fine]), max(zero, 1e-300))
    assert error.max() < 1e-11


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_polygamma_on_both_sides_of_zero(order: int) -> None:
    np.testing.assert_allclose(own.polygamma(order, POSITIVE), reference.polygamma(order, POSITIVE.numpy()), rtol=1e-13)
    x = torch.linspace(-9, 9, 501, dtype=torch.float64) + 0.013
    np.testing.assert_allclose(own.polygamma(order, x), torch.polygamma(order, x), rtol=1e-7)


def _any_floats() -> Any:
    bits = torch.randint(-(2**31), 2**31 - 1, (20000,), generator=torch.Generator().manual_seed(0))
    inf = float("inf")
    known = [0.0, -0.0, 1, -1, 2, 0.5, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, inf, -inf, float("nan")]
    return torch.cat([bits.to(torch.int32).view(torch.float32), torch.tensor(known)])


def test_parts_of_floats_are_exact() -> None:
    x = _any_floats()
    mantissa, exponent = own.frexp(x)
    wanted = torch.frexp(x)
    finite = torch.isfinite(x)
    torch.testing.assert_close(mantissa, wanted[0], rtol=0, atol=0, equal_nan=True)
    assert torch.equal(exponent[finite], wanted[1][finite])
    known = torch.logical_not(torch.isnan(x))
    assert torch.equal(own.signbit(x)[known], torch.signbit(x)[known])
    for y in (x.flip(0), torch.zeros_like(x), x * 1.5):
        torch.testing.assert_close(own.nextafter(x, y), torch.nextafter(x, y), rtol=0, atol=0, equal_nan=True)
