"""What a caller is told: every refusal of a compiled program names the argument, the dimension, the symbol, what
bound it, what was expected and what came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pliant.compiler.driver import compile as compile_program
from pliant.runtime import Executable, PliantError
from pliant.runtime.errors import (
    ArgumentError,
    DTypeError,
    KernelError,
    LayoutError,
    LoadError,
    ShapeError,
    SizeError,
)

PROGRAM = """\
weight @w : f32[h, 4*h] where h % 4 == 0
func @main(x: f32[n, h], y: f32[m, h], idx: i64[k], inout cache: f32[t, h]) -> f32[n, 4*h], f32[m, h], f32[k, h]
    where n in 0..64, m % 8 == 0, n <= t
{
    a = matmul(x, @w)
    b = relu(y)
    c = take(y, idx)
    tail = slice(cache, axis=0, start=n, stop=t)
    new = concat(x, tail, axis=0)
    update cache = new
    return a, b, c
}
"""


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def ramp(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 3


@pytest.fixture(scope="module")
def exe() -> Executable:
    return compile_program(PROGRAM, weights={"w": ramp(8, 32)}, opt=1)


def good() -> dict[str, Any]:
    return {"x": ramp(4, 8), "y": ramp(8, 8), "idx": np.array([7, 0, -1]), "cache": zeros(9, 8)}


def readonly(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def test_the_good_call(exe: Executable) -> None:
    given = good()
    a, b, c = exe(**given)
    np.testing.assert_allclose(a, ramp(4, 8) @ ramp(8, 32))
    np.testing.assert_array_equal(b, np.maximum(ramp(8, 8), 0))
    np.testing.assert_array_equal(c, ramp(8, 8)[[7, 0, 7]])
    np.testing.assert_array_equal(given["cache"], np.concatenate([ramp(4, 8), zeros(5, 8)]))


WRONG_SIZES: list[tuple[dict[str, Any], str]] = [
    (
        {"x": zeros(65, 8), "cache": zeros(70, 8)},
        (
            "argument `x` of @main: dimension 0 is 65, but n in 0..64 "
            "(n is bound by x: f32[n, h] at <text>:2:12; the fact stands at <text>:3:11)"
        ),
    ),
    (
        {"y": zeros(9, 8)},
        (
            "argument `y` of @main: dimension 0 is 9, but m % 8 == 0 "
            "(m is bound by y: f32[m, h] at <text>:2:26; the fact stands at <text>:3:23)"
        ),
    ),
    (
        {"y": zeros(8, 7)},
        (
            "argument `y` of @main: dimension 1 is 7, expected h = 8 "
            "(y: f32[m, h] at <text>:2:26; h is bound by weight @w: f32[h, 4*h] at <text>:1:8)"
        ),
    ),
    (
        {"cache": zeros(3, 8)},
        (
            "@main: n <= t does not hold: n = 4, t = 3 (n = 4 is bound by x: f32[n, h] at <text>:2:12; "
            "t = 3 is bound by cache: f32[t, h] at <text>:2:59; the fact stands at <text>:3:35)"
        ),
    ),
    ({"x": zeros(4)}, "argument `x` of @main has rank 1, but f32[n, h] has rank 2"),
    ({"x": zeros(4, 8, 1)}, "argument `x` of @main has rank 3, but f32[n, h] has rank 2"),
]


@pytest.mark.parametrize(("changed", "message"), WRONG_SIZES, ids=range(len(WRONG_SIZES)))
def test_sizes(exe: Executable, changed: dict[str, Any], message: str) -> None:
    given = good() | changed
    before = given["cache"].copy()
    with pytest.raises(ShapeError) as refused:
        exe(**given)
    assert str(refused.value) == message
    np.testing.assert_array_equal(given["cache"], before)


SHARED = """\
func @main(x: f32[n, 2*k], y: f32[n+1, k]) -> f32[n, k] {
    a = slice(x, axis=1, stop=k)
    b = slice(y, axis=0, stop=n)
    z = add(a, b)
    return z
}
"""


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ((3, 4), (3, 2), "argument `y` of @main: dimension 0 is 3, expected n + 1 = 4"),
        ((3, 5), (4, 2), "argument `x` of @main: dimension 1 is 5, expected 2*k = 4"),
        ((3, 6), (4, 2), "argument `x` of @main: dimension 1 is 6, expected 2*k = 4"),
    ],
)
def test_derived_sizes(x: tuple[int, ...], y: tuple[int, ...], message: str) -> None:
    with pytest.raises(ShapeError) as refused:
        compile_program(SHARED, opt=1)(zeros(*x), zeros(*y))
    assert str(refused.value).startswith(message)


def test_a_size_that_does_not_divide() -> None:
    exe = compile_program("func @main(x: f32[3*n]) -> f32[n] { y = slice(x, axis=0, step=3) return y }", opt=1)
    np.testing.assert_array_equal(exe(ramp(6)), ramp(6)[::3])
    with pytest.raises(ShapeError) as refused:
        exe(zeros(7))
    assert str(refused.value).startswith("argument `x` of @main: dimension 0: 3 does not divide")
    assert "7" in str(refused.value)
    assert "there is no n" in str(refused.value)
    smaller = compile_program("func @main(x: f32[n+2]) -> f32[n] { y = slice(x, axis=0, stop=n) return y }", opt=1)
    with pytest.raises(ShapeError, match="argument `x` of @main: dimension 0: n would be -1"):
        smaller(zeros(1))


@pytest.mark.parametrize(
    ("changed", "kind", "message"),
    [
        ({"x": zeros(4, 8).astype(np.float64)}, DTypeError, "`x` of @main .*float64.* wants float32"),
        ({"idx": np.zeros(3, np.int32)}, DTypeError, r"`idx` of @main .*int32, but i64\[k\] wants int64"),
        ({"x": zeros(4, 8).astype(">f4")}, DTypeError, "`x` of @main .*>f4"),
        ({"x": zeros(4, 8).astype(object)}, DTypeError, "`x` of @main .*object"),
        ({"x": None}, ArgumentError, "`x` of @main is a NoneType"),
        ({"x": 3.0}, ArgumentError, "`x` of @main is a float"),
        ({"x": "text"}, ArgumentError, "`x` of @main is a str"),
        ({"x": [[1.0] * 8]}, ArgumentError, "`x` of @main is a list.*numpy.asarray"),
        ({"cache": readonly(zeros(9, 8))}, LayoutError, "`cache` of @main is written to .*read-only"),
        ({"cache": zeros(9, 16)[:, ::2]}, LayoutError, r"`cache` of @main .*not contiguous.*strides are \(64, 8\)"),
        (
            {"idx": np.array([0, 8, 1])},
            KernelError,
            r"index of `take` is 8, out of range for axis 0 of size m = 8 \(-8..7\)",
        ),
        ({"idx": np.array([0, -9, 1])}, KernelError, "index of `take` is -9, out of range .*at <text>:7:9"),
    ],
)
def test_arrays(exe: Executable, changed: dict[str, Any], kind: type[PliantError], message: str) -> None:
    with pytest.raises(kind, match=message):
        exe(**(good() | changed))
    test_the_good_call(exe)  # a refusal leaves nothing behind


def test_arguments_are_counted(exe: Executable) -> None:
    given = good()
    x, y, idx, cache = given.values()
    said = r"@main takes 4 arguments \(x, y, idx, cache\)"
    with pytest.raises(ArgumentError, match=f"{said}; missing: `idx`, `cache`"):
        exe(x, y)
    with pytest.raises(ArgumentError, match=f"{said}, but 5 were given"):
        exe(x, y, idx, cache, x)
    with pytest.raises(ArgumentError, match=f"{said}; there is no `z`"):
        exe(**given, z=x)
    with pytest.raises(ArgumentError, match=f"{said}; `x` was given twice"):
        exe(x, **given)


def test_arrays_that_are_not_contiguous_are_copied(exe: Executable) -> None:
    wide, tall, many = ramp(4, 16), ramp(8, 16).T.copy(), np.arange(-6, 6)[::-4]
    x, y = wide[:, ::2], tall[::2].T
    assert not x.flags.c_contiguous
    a, b, c = exe(x, y, many[many < 8], zeros(9, 8))
    np.testing.assert_allclose(a, x @ ramp(8, 32))
    np.testing.assert_array_equal(b, np.maximum(y, 0))
    np.testing.assert_array_equal(c, y[many])
    np.testing.assert_allclose(exe(x[::-1], y, many, zeros(9, 8))[0], x[::-1] @ ramp(8, 32))
    unaligned = np.ndarray((4, 8), np.float32, bytearray(129), offset=1)
    unaligned[...] = ramp(4, 8)
    np.testing.assert_allclose(exe(unaligned, y, many, zeros(9, 8))[0], ramp(4, 8) @ ramp(8, 32))


def test_an_argument_that_shares_memory_with_one_that_is_written() -> None:
    text = """func @main(inout a: f32[n], x: f32[n]) -> f32[n] {
        y = exp(a) update a = y z = flip(x, axis=0) w = cumsum(z, axis=0) return w
    }"""
    exe = compile_program(text, opt=1)
    buffer = ramp(6)
    got = exe(buffer, buffer)
    np.testing.assert_allclose(got, np.cumsum(ramp(6)[::-1]))
    np.testing.assert_allclose(buffer, np.exp(ramp(6)), rtol=1e-6)
    both = compile_program("func @main(inout a: f32[n], inout b: f32[n]) { update a = b update b = a return }", opt=1)
    with pytest.raises(LayoutError, match="argument `a` of @main and argument `b` of @main are both written to"):
        both(buffer, buffer)
    halves = ramp(6)
    both(halves[:3], halves[3:])
    np.testing.assert_array_equal(halves, np.concatenate([ramp(6)[3:], ramp(6)[:3]]))


BAD_WEIGHTS: list[tuple[Any, str]] = [
    ({}, r"needs weights that were not given: w: f32\[h, 4\*h\]"),
    ({"w": zeros(8, 31)}, r"weight @w: dimension 1 is 31, expected 4\*h = 32 .*h = 8 is bound by weight @w"),
    ({"w": zeros(6, 24)}, r"weight @w: dimension 0 is 6, but h % 4 == 0 .*the fact stands at <text>:1:31"),
    ({"w": zeros(8)}, r"weight @w has rank 1, but f32\[h, 4\*h\] has rank 2"),
    ({"w": zeros(8, 32).astype(np.float16)}, "weight @w has elements of type float16"),
    ({"w": None}, "weight @w is a NoneType"),
    ([zeros(8, 32)], "a mapping of names to arrays or a .safetensors file is needed"),
]


@pytest.mark.parametrize(("weights", "message"), BAD_WEIGHTS, ids=range(len(BAD_WEIGHTS)))
def test_weights(exe: Executable, weights: Any, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        compile_program(PROGRAM, weights=weights, opt=1)
    if weights:
        with pytest.raises(LoadError, match=message):
            exe.with_weights(weights)


def test_weights_that_are_not_given_are_asked_for_at_the_call() -> None:
    exe = compile_program(PROGRAM, opt=1)
    with pytest.raises(LoadError, match="needs weights that were not given: w"):
        exe(**good())
    test_the_good_call(exe.with_weights({"w": ramp(8, 32)}))
    test_the_good_call(exe.with_weights({"w": ramp(8, 32).T.copy().T}))


@pytest.mark.parametrize("dtype", ["i64", "i32", "i8", "u8"])
@pytest.mark.parametrize("op", ["floordiv", "mod", "fmod"])
def test_integer_division_by_zero(dtype: str, op: str) -> None:
    text = f"func @main(x: {dtype}[n], y: {dtype}[n]) -> {dtype}[n] {{ z = {op}(x, y) return z }}"
    exe = compile_program(text, opt=1)
    kind = {"i64": np.int64, "i32": np.int32, "i8": np.int8, "u8": np.uint8}[dtype]
    x, y = np.arange(20).astype(kind), np.full(20, 3, kind)
    np.testing.assert_array_equal(exe(x, y), x // y if op == "floordiv" else x % y)
    y[17] = 0
    with pytest.raises(KernelError, match=f"{op}.*at <text>:1"):
        exe(x, y)
    assert exe(x[:0], y[:0]).size == 0


HUGE = """func @main(x: f32[n]) -> f32[n, 4611686018427387904] {
    y = unsqueeze(x, axis=1) z = broadcast_to(y, shape=[n, 4611686018427387904]) return z }"""
BEYOND_ADDRESSES = "144115188075855872"  # 2^57 elements: their bytes can be counted, but no machine has so many
LARGE = f"""func @main(x: f32[n]) -> f32[n, {BEYOND_ADDRESSES}] {{
    y = unsqueeze(x, axis=1) z = broadcast_to(y, shape=[n, {BEYOND_ADDRESSES}]) return z }}"""
LARGE_WITHIN = f"""func @main(x: f32[n]) -> f32[n] {{
    y = unsqueeze(x, axis=1) z = broadcast_to(y, shape=[n, {BEYOND_ADDRESSES}])
    w = cumsum(z, axis=1) s = sum(w, axis=1) return s }}"""
POWER = f"func @main(x: f32[n]) -> f32[n] where {'*'.join(['n'] * 45)} >= 5 {{ return x }}"
QUOTIENT = "func @main(x: f32[n], y: f32[7//(n-3)]) -> f32[n] { return x }"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HUGE, "the size of the result .* does not fit into 64 bits; n = 3"),
        (LARGE, "there is no memory for the result"),
        (LARGE_WITHIN, "needs .* bytes of memory for intermediate results"),
        (QUOTIENT, "the check of y: .* divides by zero; n = 3"),
        (POWER, "does not fit into 64 bits; n = 3"),
    ],
    ids=["result", "memory", "arena", "division", "fact"],
)
def test_arithmetic_of_sizes(text: str, message: str) -> None:
    exe = compile_program(text, opt=1)
    arguments = [zeros(3)] * (2 if "y: f32" in text else 1)
    with pytest.raises(SizeError, match=message):
        exe(*arguments)


def test_bounds_far_above_any_memory_do_not_matter_to_small_sizes() -> None:
    text = """func @main(x: f32[n, m]) -> f32[n, m] where n in 0..1000000000, m in 0..1000000000 {
        y = softmax(x, axis=0) z = softmax(y, axis=1) return z }"""
    got = compile_program(text, opt=1)(zeros(2, 4))
    np.testing.assert_allclose(got, np.full((2, 4), 0.25))


def test_more_memory_than_the_machine_has_is_refused() -> None:
    text = """func @main(x: f32[n]) -> f32[n] {
        y = unsqueeze(x, axis=1)
        z = broadcast_to(y, shape=[n, 1000000000000])
        w = cumsum(z, axis=1)
        s = sum(w, axis=1)
        return s
    }"""
    exe = compile_program(text)
    with pytest.raises(PliantError, match="bytes of memory for intermediate results, and the machine has"):
        exe(np.ones(3, np.float32))
