"""Fourier transforms of every length, against the sums that define them."""

from __future__ import annotations

import numpy as np
import pytest

import pliant

PROGRAM = """
func @there(re: {0}[m, n], im: {0}[m, n]) -> {0}[m, n], {0}[m, n] {{ a, b = fft(re, im) return a, b }}
func @back(re: {0}[m, n], im: {0}[m, n]) -> {0}[m, n], {0}[m, n] {{
    a, b = fft(re, im, inverse=true)
    return a, b
}}
func @real(x: {0}[m, n]) -> {0}[m, n // 2 + 1], {0}[m, n // 2 + 1], {0}[m, n] where n >= 1 {{
    a, b = rfft(x)
    y = irfft(a, b, n=n)
    return a, b, y
}}
"""


def defined(z: np.ndarray, sign: int) -> np.ndarray:
    """Sums over j of z[j] exp(sign 2 pi i j k / n), with j k reduced exactly."""
    n = z.shape[1]
    j = np.arange(n, dtype=np.int64)
    return z @ np.exp(sign * 2j * np.pi * (np.outer(j, j) % n) / n)


@pytest.mark.parametrize(("dtype", "name", "tolerance"), [("f32", "float32", 2e-6), ("f64", "float64", 3e-14)])
def test_every_length_against_the_sums(dtype: str, name: str, tolerance: float) -> None:
    exe = pliant.compile(PROGRAM.format(dtype))
    rng = np.random.default_rng(0)
    for n in (0, *range(1, 35), 97, 128, 210, 256, 343, 500, 509, 1024):
        m = (1, 3, 17, 33)[n % 4]
        z = rng.standard_normal((m, n)) + 1j * rng.standard_normal((m, n))
        re, im = z.real.astype(name), z.imag.astype(name)
        exact = re.astype(np.float64) + 1j * im
        for call, sign in (("there", -1), ("back", 1)):
            a, b = exe[call](re, im)
            assert a.dtype == b.dtype == np.dtype(name)
            wanted = defined(exact, sign)
            assert np.abs(a + 1j * b - wanted).max(initial=0) <= tolerance * np.abs(wanted).max(initial=0), n
        if n:
            a, b, y = exe["real"](re)
            wanted = defined(exact.real.astype(complex), -1)[:, : n // 2 + 1]
            assert np.abs(a + 1j * b - wanted).max() <= tolerance * np.abs(wanted).max(), n
            np.testing.assert_allclose(y / n, re, atol=10 * tolerance)
