"""The reference interpreter against numpy written by hand, and its refusals."""

from __future__ import annotations

import numpy as np
import pytest

from pliant.ir.interpret import InterpretError, interpret
from pliant.ir.parser import parse_module

MLP = """
weight @up: f32[h, 4*h] where h % 2 == 0
const @two: f32[2] = [2, -0.0]
func @main(x: f32[n, h]) -> f32[n, 4*h], i64[] where n in 0..5 {
    a = matmul(x, @up)
    b = maximum(a, 0)
    return b, n
}
func @consts(x: f32[2]) -> f32[2] { y = mul(x, @two) return y }
"""
PLACES = """
func @inner(x: f32[n], inout c: f32[n]) -> f32[n], f32[n] {
    y = add(x, c)
    update c = y
    return y, c
}
func @main(x: f32[2*m], inout c: f32[2*m], p: (f32[k], (f32[], f32[]))) -> f32[2*m], f32[2*m], (f32[], f32[k]) {
    a, b = @inner(x, c)
    q = p.0
    t = p.1
    s = t.1
    r: f32[j, 3] = match_cast(q) where j >= 1
    return a, b, (s, q)
}
""".replace("    r: f32[j, 3] = match_cast(q) where j >= 1\n", "    r: f32[3*j] = match_cast(q) where j >= 1\n")


def rand(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_symbols_are_bound_by_weights_and_arguments(n: int) -> None:
    x, w = rand(n, 4), rand(4, 16)
    b, size = interpret(parse_module(MLP), "main", [x], {"up": w})
    np.testing.assert_allclose(b, np.maximum(x @ w, 0), rtol=1e-5, atol=1e-6)
    assert size == n
    assert isinstance(size, np.ndarray)
    assert size.dtype == np.int64


def test_constants() -> None:
    (y,) = interpret(parse_module(MLP), "consts", {"x": np.array([3, 1], np.float32)}, {"up": rand(4, 16)})
    np.testing.assert_array_equal(y, np.array([6, -0.0], np.float32))
    assert np.signbit(np.asarray(y)[1])


def test_tuples_calls_and_updates() -> None:
    x, c, q = rand(4), rand(4) + 1, rand(3)
    old = c.copy()
    a, b, (s, q2) = interpret(parse_module(PLACES), "main", [x, c, (q, (np.float32(1), np.float32(2)))])
    np.testing.assert_array_equal(a, x + old)
    np.testing.assert_array_equal(b, old)  # the value that the parameter came with
    np.testing.assert_array_equal(c, x + old)
    assert s == 2
    np.testing.assert_array_equal(q2, q)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([rand(6, 4)], "the fact `n in 0..5` does not hold: n = 6"),
        ([rand(2, 6)], "argument `x`: dimension 1 is 6, expected h = 4"),
        ([rand(2)], "argument `x`: expected rank 2 (f32[n, h]), got rank 1"),
        ([rand(2, 4).astype(np.float64)], "argument `x`: expected f32, got f64"),
        ([], "@main: the argument `x` is missing"),
        ([rand(2, 4), rand(2, 4)], "@main takes 1 arguments, 2 given"),
        ({"x": rand(2, 4), "y": rand(2)}, "@main has no parameter `y`"),
    ],
)
def test_refused_arguments(arguments: object, message: str) -> None:
    with pytest.raises(InterpretError) as refused:
        interpret(parse_module(MLP), "main", arguments, {"up": rand(4, 16)})  # type: ignore[arg-type]
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, "the weight @up is missing"),
        ({"up": rand(4, 15)}, "weight @up: dimension 1 is 15, expected 4*h = 16"),
        ({"up": rand(3, 12)}, "the fact `h % 2 == 0` does not hold: h = 3"),
    ],
)
def test_refused_weights(weights: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InterpretError) as refused:
        interpret(parse_module(MLP), "main", [rand(2, 4)], weights)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("x", "q", "message"),
    [
        (rand(3), rand(3), "x: f32[2*m]: 2 does not divide 3, so that there is no m"),
        (rand(4), rand(4), "r: f32[3*j]: 3 does not divide 4, so that there is no j"),
        (rand(4), rand(0), "the fact `j >= 1` does not hold: j = 0"),
    ],
)
def test_refused_sizes(x: np.ndarray, q: np.ndarray, message: str) -> None:
    arguments = [x, x.copy(), (q, (np.float32(1), np.float32(2)))]
    with pytest.raises(InterpretError) as refused:
        interpret(parse_module(PLACES), "main", arguments)
    assert str(refused.value) == message


def test_a_check_on_data_fails_with_the_operator() -> None:
    module = parse_module("func @f(x: i64[n], y: i64[n]) -> i64[n] { z = floordiv(x, y) return z }")
    with pytest.raises(InterpretError, match="`floordiv`"):
        interpret(module, "f", [np.array([1]), np.array([0])])
