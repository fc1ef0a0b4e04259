"""What `check` accepts compiles: the parts of an operator need no proof beyond what its own rule asks for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pliant

CUT = "slice(x, axis=0, start=min(n, 2), stop=min(n, 3))"
C = "(min(n, 3) - min(n, 2))"  # of no factored form: whether m * C is negative is beyond the prover
Numpy = Callable[[np.ndarray, int], np.ndarray]

CASES: dict[str, tuple[str, Numpy]] = {
    "repeat(z, repeats=[m, 2])": (f"f32[m*{C}, 8]", lambda z, m: np.tile(z, (m, 2))),
    "tile(z, repeats=[m, 1, m])": (f"f32[m, {C}, 4*m]", lambda z, m: np.tile(z, (m, 1, m))),
    "group_norm(w, groups=2)": (
        f"f32[m*{C}, 4]",
        lambda z, m: np.tile(_normal(z.reshape(len(z), 2, 2)).reshape(z.shape), (m, 1)),
    ),
    'einsum(w, w, equation="ab,ac->bc")': ("f32[4, 4]", lambda z, m: m * (z.T @ z)),
    "softmax(w, axis=1)": (f"f32[m*{C}, 4]", lambda z, m: np.tile(_softmax(z), (m, 1))),
}


def _normal(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("op", CASES)
def test_sizes_that_cannot_be_factored(op: str) -> None:
    type_, numpy = CASES[op]
    wide = "w = repeat(z, repeats=[m, 1])" if "w" in op.partition("(")[2].split(",")[0] else ""
    exe = pliant.compile(
        f"func @main(x: f32[n, 4], y: f32[m]) -> {type_} {{ z = {CUT} {wide} r = {op} return r }}", opt=1
    )
    rng = np.random.default_rng(0)
    for n, m in ((5, 3), (3, 0), (2, 4), (0, 1), (1, 1)):
        x = rng.standard_normal((n, 4)).astype(np.float32)
        got = exe(x, np.zeros(m, np.float32))
        np.testing.assert_allclose(got, numpy(x[min(n, 2) : min(n, 3)], m), rtol=1e-5, atol=1e-5)
