"""Index maps cost no kernel of their own: they are read through by whatever uses them, and still mean the same."""

from __future__ import annotations

import numpy as np
import pytest

import pliant
from pliant.compiler.codegen.llvm import resolve
from pliant.compiler.driver import Compilation
from pliant.compiler.target import Target

TEXT = """
func @rotary(x: f32[b, n, 8], c: f32[n, 8], s: f32[n, 8]) -> f32[b, n, 8] {
    x1 = slice(x, axis=-1, stop=4)
    x2 = slice(x, axis=-1, start=4)
    y = concat(x2, x1, axis=-1)
    p = mul(x, c)
    q = mul(y, s)
    z = add(p, q)
    return z
}
func @framed(x: f32[n, m], y: f32[n, m]) -> f32[2*m] {
    a = flip(x, axis=0)
    b = concat(a, y, axis=1)
    c = pad(b, pads=[[1, 2], [0, 0]], value=1.0)
    d = roll(c, shift=1, axis=1)
    s = sum(d, axis=[0])
    return s
}
func @triangle(x: f32[n, n]) -> f32[n, n] {
    l = tril(x)
    t = transpose(l)
    r = matmul(l, t)
    u = triu(r, diagonal=1)
    return u
}
func @positions(table: f32[v, 8], i: i64[n], p: f32[n, 8]) -> f32[n] {
    e = embedding(table, i)
    a = add(e, p)
    r = sum(a, axis=[1])
    return r
}
func @counted(x: f32[n, m]) -> f32[n, m] {
    k = dim(x, axis=0)
    f = cast(k, dtype=f32)
    c = arange(stop=m, dtype=f32)
    w = expand(c, shape=[n, m])
    y = mul(x, f)
    z = add(y, w)
    return z
}
func @outer(x: f32[n], y: f32[m]) -> f32[m, n] {
    a = unsqueeze(x, axis=0)
    b = unsqueeze(y, axis=1)
    c = expand(a, shape=[m, n])
    d = sub(c, b)
    return d
}
"""


@pytest.fixture(scope="module")
def compilation() -> Compilation:
    return Compilation(pliant.parse(TEXT), resolve(Target.parse("cpu")), 1)


@pytest.fixture(scope="module")
def exe() -> pliant.Executable:
    return pliant.compile(TEXT)


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_each_function_is_one_kernel(compilation: Compilation) -> None:
    assert {name: len(groups) for name, groups in compilation.lowered.fused.items()} == dict.fromkeys(
        ("rotary", "framed", "triangle", "positions", "counted", "outer"), 1
    )


@pytest.mark.parametrize(("n", "m"), [(0, 2), (1, 1), (3, 4), (17, 9), (2, 0)])
def test_the_answers_are_numpy_s(exe: pliant.Executable, n: int, m: int) -> None:
    def agree(got: object, want: np.ndarray) -> None:
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-5)

    x, c, s = draw(m, n, 8), draw(n, 8), draw(n, 8)
    agree(exe["rotary"](x, c, s), x * c + np.concatenate([x[..., 4:], x[..., :4]], -1) * s)
    x, y = draw(n, m), draw(n, m)
    framed = np.pad(np.concatenate([x[::-1], y], 1), ((1, 2), (0, 0)), constant_values=1)
    agree(exe["framed"](x, y), np.roll(framed, 1, 1).sum(0))
    agree(exe["counted"](x), x * n + np.arange(m, dtype=np.float32))
    agree(exe["outer"](x[:, :1].reshape(-1), y[:1].reshape(-1)), x[:, :1].reshape(1, -1) - y[:1].reshape(-1, 1))
    x = draw(n, n)
    agree(exe["triangle"](x), np.triu(np.tril(x) @ np.tril(x).T, 1))
    table, i, p = draw(9, 8), np.arange(n) % 18 - 9, draw(n, 8)
    agree(exe["positions"](table, i, p), (table[i] + p).sum(1))
