"""Corner cases of maps and row reductions, compiled, against numpy."""

from __future__ import annotations

import numpy as np

import pliant
from pliant.compiler.codegen.llvm import resolve
from pliant.compiler.driver import Compilation
from pliant.compiler.target import Target


def run(text: str, *arrays: np.ndarray) -> np.ndarray:
    result: np.ndarray = pliant.compile(text)(*arrays)
    return result


def test_several_reductions_over_no_axes_in_one_kernel() -> None:
    x = np.array([0.5, -2.0, 3.0], np.float32)
    got = run("func @main(x: f32[n]) -> f32[n] { y = logsumexp(x, axis=[], keepdims=false) return y }", x)
    np.testing.assert_allclose(got, x, rtol=1e-6)


def test_value_read_at_its_own_and_at_another_place() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    text = """func @main(x: f32[n, m]) -> f32[n, m] {
        a = exp(x)
        f = flip(a, axis=[1])
        b = add(a, f)
        return b
    }"""
    e = np.exp(x)
    np.testing.assert_allclose(run(text, x), e + e[:, ::-1], rtol=1e-6)


def test_reduction_of_rows_that_run_across_memory_over_several_tiles() -> None:
    x = np.random.default_rng(0).standard_normal((5, 3, 131)).astype(np.float32)
    text = """func @main(x: f32[n, k, m]) -> f32[n, k, m] {
        y = softmax(x, axis=1)
        return y
    }"""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(run(text, x), e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def test_reduced_value_and_row_are_both_results() -> None:
    x = np.random.default_rng(1).standard_normal((4, 9)).astype(np.float32)
    text = """func @main(x: f32[n, m]) -> f32[n], f32[n, m], i64[n] where m in 1..64 {
        s = sum(x, axis=1)
        k = unsqueeze(s, axis=1)
        y = sub(x, k)
        i = argmax(y, axis=1)
        return s, y, i
    }"""
    total, centred, where = pliant.compile(text)(x)
    np.testing.assert_allclose(total, x.sum(1), rtol=1e-5)
    np.testing.assert_allclose(centred, x - x.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(where, (x - x.sum(1, keepdims=True)).argmax(1))


ROTARY = """func @main(x: f32[b, s, 64], c: f32[s, 64], d: f32[s, 64]) -> f32[b, s, 64] {
    low = slice(x, axis=2, start=0, stop=32)
    high = slice(x, axis=2, start=32, stop=64)
    turned = neg(high)
    swapped = concat(turned, low, axis=2)
    p = mul(x, c)
    q = mul(swapped, d)
    y = add(p, q)
    return y
}"""


def test_cheap_value_read_at_another_place_costs_no_kernel() -> None:
    compiled = Compilation(pliant.parse(ROTARY), resolve(Target.parse("cpu")))
    assert [len(groups) for groups in compiled.lowered.fused.values()] == [1]
    rng = np.random.default_rng(0)
    x, c, d = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 5, 64), (5, 64), (5, 64)))
    want = x * c + np.concatenate([-x[..., 32:], x[..., :32]], axis=-1) * d
    np.testing.assert_allclose(pliant.Executable(compiled.artifact())(x, c, d), want, rtol=1e-5, atol=1e-6)


def test_constants_made_by_folding_are_in_the_artifact() -> None:
    text = "const @c : f32[3] = [1.0, 2.0, 3.0]\nfunc @main() -> f32[3] { y = add(@c, 1.0) return y }"
    np.testing.assert_array_equal(run(text), [2.0, 3.0, 4.0])


def test_a_long_chain_of_operators_in_one_kernel() -> None:
    lines = [f"x{i + 1} = {'mul' if i % 2 else 'add'}(x{i}, {1 + i / 1000})" for i in range(300)]
    text = "func @main(x0: f32[n]) -> f32[n] {\n" + "\n".join(lines) + "\nreturn x300 }"
    x = wanted = np.array([0.5, -1.0], np.float32)
    for i in range(300):
        wanted = wanted * np.float32(1 + i / 1000) if i % 2 else wanted + np.float32(1 + i / 1000)
    np.testing.assert_allclose(run(text, x), wanted, rtol=1e-4)
