"""Zeros of either sign, NaN, and literals that a dtype rounds: compiled code, the interpreter, and numpy by itself."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import pliant
from pliant.ir.interpret import interpret
from pliant.ir.parser import parse_module
from pliant.ir.rounding import converted
from pliant.ir.types import DType
from tests.random_programs import assert_same_bits

NAN, INF = math.nan, math.inf
FLOATS = ("f32", "f64", "f16", "bf16")
EDGES = (NAN, -0.0, 0.0, -1.0, 1.0, -INF, INF)

UNARY: dict[str, tuple[float, ...]] = {
    "relu(x)": (NAN, -0.0, 0.0, 0.0, 1.0, 0.0, INF),
    "sign(x)": (NAN, 0.0, 0.0, -1.0, 1.0, -1.0, 1.0),
    "hardtanh(x)": (NAN, -0.0, 0.0, -1.0, 1.0, -1.0, 1.0),
    "hardtanh(x, min_val=0.0, max_val=6.0)": (NAN, -0.0, 0.0, 0.0, 1.0, 0.0, 6.0),
    "clamp(x, 0.0, 1.0)": (NAN, -0.0, 0.0, 0.0, 1.0, 0.0, 1.0),
    "clamp(x, -0.0, 1.0)": (NAN, -0.0, 0.0, -0.0, 1.0, -0.0, 1.0),
    "clamp(x, none, -0.0)": (NAN, -0.0, 0.0, -1.0, -0.0, -INF, -0.0),
    "clamp(x, nan, 1.0)": (NAN,) * 7,
    "clamp(x, -1.0, nan)": (NAN,) * 7,
    "clamp(x, 2.0, 1.0)": (NAN, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
    "leaky_relu(x, negative_slope=0.5)": (NAN, -0.0, 0.0, -0.5, 1.0, -INF, INF),
    "elu(x)": (NAN, -0.0, 0.0, math.expm1(-1), 1.0, -1.0, INF),
    "hardswish(x)": (NAN, -0.0, 0.0, -1 / 3, 2 / 3, NAN, INF),
    "gelu(x)": (NAN, -0.0, 0.0, -0.15865525, 0.84134475, 0.0, INF),
    "gelu_tanh(x)": (NAN, -0.0, 0.0, -0.15880801, 0.84119199, 0.0, INF),
    "silu(x)": (NAN, -0.0, 0.0, -0.26894142, 0.73105858, NAN, INF),
    "round(x)": (NAN, -0.0, 0.0, -1.0, 1.0, -INF, INF),
    "trunc(x)": (NAN, -0.0, 0.0, -1.0, 1.0, -INF, INF),
    "abs(x)": (NAN, 0.0, 0.0, 1.0, 1.0, INF, INF),
    "neg(x)": (NAN, 0.0, -0.0, 1.0, -1.0, INF, -INF),
    "sqrt(x)": (NAN, -0.0, 0.0, NAN, 1.0, NAN, INF),
    "maximum(x, 0.0)": (NAN, 0.0, 0.0, 0.0, 1.0, 0.0, INF),
    "maximum(-0.0, x)": (NAN, -0.0, 0.0, -0.0, 1.0, -0.0, INF),
    "minimum(x, -0.0)": (NAN, -0.0, -0.0, -1.0, -0.0, -INF, -0.0),
    "minimum(0.0, x)": (NAN, -0.0, 0.0, -1.0, 0.0, -INF, 0.0),
    "add(x, 0.0)": (NAN, 0.0, 0.0, -1.0, 1.0, -INF, INF),
    "add(x, -0.0)": (NAN, -0.0, 0.0, -1.0, 1.0, -INF, INF),
}


def both(text: str, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What compiled code gives, and the interpreter."""
    compiled = pliant.compile(text)(*arrays)
    (interpreted,) = interpret(parse_module(text), "main", arrays)
    assert isinstance(interpreted, np.ndarray)
    return np.asarray(compiled), interpreted


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeros_and_nan_of_one_operand(dtype: str) -> None:
    """At one element and at many: what is vectorised and what is left over mean the same."""
    lines = [f"y{i} = {call}" for i, call in enumerate(UNARY)]
    names = ", ".join(f"y{i}" for i in range(len(UNARY)))
    types = ", ".join([f"{dtype}[n]"] * len(UNARY))
    text = f"func @main(x: {dtype}[n]) -> {types} {{ {' '.join(lines)} return {names} }}"
    exe = pliant.compile(text)
    kind = DType(dtype).numpy
    for repeats in (1, 9):
        x = np.repeat(np.array(EDGES), repeats).astype(kind)
        for call, got, of in zip(UNARY, exe(x), interpret(parse_module(text), "main", [x]), strict=True):
            want = np.repeat(np.array(UNARY[call]), repeats)
            tolerance = 2e-2 if dtype == "bf16" else 2e-3 if dtype == "f16" else 2e-5
            for values in (got, of):
                assert isinstance(values, np.ndarray)
                wide = values.astype(np.float64)
                np.testing.assert_allclose(wide, want, rtol=tolerance, err_msg=call)
                zero = (want == 0) & ~((want == 0) & np.isinf(np.repeat(EDGES, repeats)))  # 0 at -inf: of either sign
                np.testing.assert_array_equal(np.signbit(wide)[zero], np.signbit(want)[zero], err_msg=call)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_zeros_and_nan_of_two_operands(op: str, dtype: str) -> None:
    """IEEE 754 (2019): NaN of any NaN, and -0.0 below 0.0, wherever the two stand."""
    values = [(x, y) for x in EDGES for y in EDGES] * 3
    x, y = (np.array(column, DType(dtype).numpy) for column in zip(*values, strict=True))
    pick = max if op == "maximum" else min
    want = [NAN if NAN in pair or any(map(math.isnan, pair)) else
            pick(pair, key=lambda v: (v, math.copysign(1.0, v))) for pair in values]  # fmt: skip
    for got in both(f"func @main(x: {dtype}[n], y: {dtype}[n]) -> {dtype}[n] {{ z = {op}(x, y) return z }}", x, y):
        assert_same_bits(got, np.array(want, x.dtype))


def test_a_limit_that_equals_x_leaves_it() -> None:
    x, low = (a.astype(np.float32) for a in np.meshgrid([NAN, -0.0, 0.0, 2.0], [NAN, -0.0, 0.0, 2.0]))
    want = np.where(np.isnan(low) | (x < low), low, x)
    for got in both("func @main(x: f32[n, 4], y: f32[n, 4]) -> f32[n, 4] { z = clamp(x, y) return z }", x, low):
        assert_same_bits(got, want)


# --------------------------------------------------------------------------------------------------- literals

CALLS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "eq(x, {0})": np.equal,
    "ne(x, {0})": np.not_equal,
    "lt(x, {0})": np.less,
    "le({0}, x)": lambda x, c: c <= x,
    "ge(x, {0})": np.greater_equal,
    "sub(x, {0})": np.subtract,
    "mul({0}, x)": np.multiply,
    "div(x, {0})": np.divide,
    "maximum(x, {0})": np.maximum,
    "clamp(x, none, {0})": np.minimum,
    "where(b, x, {0})": lambda x, c: np.where(np.arange(len(x)) % 2 == 0, x, c),
    "floordiv(x, {0})": np.floor_divide,
    "mod(x, {0})": np.mod,
    "fmod(x, {0})": np.fmod,
    "fma(x, {0}, {0})": lambda x, c: (x.astype(np.float64) * c + c).astype(np.float32),
    "atan2(x, {0})": np.arctan2,
}


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_literals_are_rounded_to_the_dtype(dtype: str) -> None:
    """A program may write 0.3; what it means is the number that the dtype holds, in compiled code as everywhere."""
    kind = DType(dtype).numpy
    for number in (0.3, -1.1, 1e-3, 7.7):
        x = np.array([number, 1.0, -2.5, np.nextafter(np.array(number, kind), np.array(9, kind)), 0.0], kind)
        c = np.array(number, kind).astype(np.float32)
        lines = [f"y{i} = {call.format(number)}" for i, call in enumerate(CALLS)]
        wants = [f(x.astype(np.float32), c) for f in CALLS.values()]
        types = ", ".join("bool[n]" if w.dtype == bool else f"{dtype}[n]" for w in wants)
        names = ", ".join(f"y{i}" for i in range(len(CALLS)))
        text = f"func @main(x: {dtype}[n], b: bool[n]) -> {types} {{ {' '.join(lines)} return {names} }}"
        given = [x, np.arange(5) % 2 == 0]
        for results in (pliant.compile(text)(*given), interpret(parse_module(text), "main", given)):
            for call, got, want in zip(CALLS, results, wants, strict=True):
                rounded = want if want.dtype == bool else want.astype(kind).astype(np.float32)
                np.testing.assert_array_equal(np.asarray(got).astype(np.float32), rounded.astype(np.float32), call)


@pytest.mark.parametrize(("dtype", "to"), [("f32", "f64"), ("f16", "f32"), ("bf16", "f64"), ("f16", "f64")])
def test_a_converted_literal_is_the_rounded_one(dtype: str, to: str) -> None:
    text = f"""func @main(b: bool[n]) -> {to}[n] {{
        c = full(shape=[], value=0.1, dtype={dtype}) x = where(b, 0.3, c) y = cast(x, dtype={to}) return y }}"""
    kind, wide = DType(dtype).numpy, DType(to).numpy
    b = np.array([True, False, True])
    for got in both(text, b):
        assert_same_bits(got, np.where(b, 0.3, 0.1).astype(kind).astype(wide))


def test_sixteen_bits_are_rounded_once() -> None:
    """A hair above the middle of two bf16, which f32 does not hold; ml_dtypes would round it twice, to 1."""
    middle, hair = 1 + 2.0**-8, 2.0**-40
    x = np.array([middle, middle + hair, middle - hair, -middle - hair, INF, NAN, 3.4e38, 1e300, 1e-45, -0.0])
    want = [1.0, 1 + 2.0**-7, 1.0, -1 - 2.0**-7, INF, NAN, INF, INF, 0.0, -0.0]
    for got in both("func @main(x: f64[n]) -> bf16[n] { y = cast(x, dtype=bf16) return y }", x):
        assert_same_bits(got.astype(np.float64), np.array(want))
    assert float(converted(middle + hair, DType.bf16)) == 1 + 2.0**-7
    whole = np.array([2**24 + 2**16 + 1, 2**40 + 2**32, 2**40 + 2**32 + 1])  # integers too
    assert converted(whole, DType.bf16).astype(np.float64).tolist() == [2**24 + 2**17, 2**40, 2**40 + 2**33]
    text = f"func @main(x: bf16[n]) -> bool[n] {{ y = eq(x, {middle + hair!r}) return y }}"
    for got in both(text, np.array([1.0, 1 + 2.0**-7]).astype(ml_dtypes.bfloat16)):
        assert got.tolist() == [False, True]
