"""What depends on weights alone is computed when they are given, and only there."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pliant
from pliant.compiler.codegen.llvm import resolve
from pliant.compiler.driver import Compilation
from pliant.compiler.target import Target
from pliant.ir.loops import Program
from pliant.ir.parser import parse_module
from pliant.runtime.errors import KernelError, ShapeError

RNG = np.random.default_rng(7)


def array(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def program_of(text: str) -> Program:
    return Compilation(parse_module(text), resolve(Target.parse("cpu"))).program


def launches(program: Program, function: str = "main") -> int:
    (host,) = (f for f in program.functions if f.name == function)
    return len(host.launches)


NORM = """
weight @w: f32[c, d]
weight @mean: f32[d]
weight @variance: f32[d]
weight @scale: f32[d]
func @main(x: f32[n, c]) -> f32[n, d] {
    a = matmul(x, @w)
    centred = sub(a, @mean)
    safe = add(@variance, 1e-5)
    r = rsqrt(safe)
    factor = mul(r, @scale)
    y = mul(centred, factor)
    return y
}
"""


def norm_weights() -> dict[str, np.ndarray]:
    return {"w": array(5, 9), "mean": array(9), "variance": array(9) ** 2, "scale": array(9)}


def norm(x: np.ndarray, w: dict[str, np.ndarray]) -> np.ndarray:
    return (x @ w["w"] - w["mean"]) / np.sqrt(w["variance"] + 1e-5) * w["scale"]


@pytest.mark.parametrize("at_load", [False, True])
def test_a_norm_over_weights_costs_no_kernel(tmp_path: Path, at_load: bool) -> None:
    weights = norm_weights()
    assert launches(program_of(NORM)) == 1
    exe = pliant.compile(NORM, weights=None if at_load else weights)
    exe.save(tmp_path / "norm.pliant")
    loaded = pliant.load(tmp_path / "norm.pliant", weights=weights if at_load else None)
    for n in (0, 1, 7):
        x = array(n, 5)
        np.testing.assert_allclose(loaded(x), norm(x, weights), rtol=1e-4, atol=1e-5)


def test_a_cast_factor_is_packed_and_not_kept_besides() -> None:
    text = """
    weight @w: bf16[2048, 1024]
    func @main(x: f32[n, 2048]) -> f32[n, 1024] {
        w = cast(@w, dtype=f32)
        y = matmul(x, w)
        return y
    }
    """
    program = program_of(text)
    assert program.load is not None
    assert [o.name for o in program.load.outputs] == ["packed.load.w.0"]
    assert launches(program) == 1
    w = array(2048, 1024).astype(ml_dtypes.bfloat16)
    exe = pliant.compile(text, weights={"w": w})
    for n in (0, 1, 3):
        x = array(n, 2048)
        np.testing.assert_allclose(exe(x), x @ w.astype(np.float32), rtol=1e-3, atol=1e-3)


def test_memory_of_the_load_program_is_used_again() -> None:
    text = """
    weight @a: bf16[256, 256]
    weight @b: bf16[256, 256]
    func @main(x: f32[n, 256]) -> f32[n, 256] {
        a = cast(@a, dtype=f32)
        b = cast(@b, dtype=f32)
        y = matmul(x, a)
        z = matmul(y, b)
        return z
    }
    """
    program = program_of(text)
    assert program.load is not None
    assert program.load.arena_bytes.value == 4 * 256 * 256
    a, b = (array(256, 256).astype(ml_dtypes.bfloat16) for _ in "ab")
    x = array(4, 256)
    want = x @ a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(pliant.compile(text, weights={"a": a, "b": b})(x), want, rtol=1e-3, atol=1e-2)


def test_values_that_are_returned_or_read_twice() -> None:
    text = """
    weight @w: f32[8, 8]
    func @main(x: f32[n, 8]) -> f32[n, 8], f32[8, 8], f32[8, 8] {
        v = exp(@w)
        y = matmul(x, v)
        t = transpose(v)
        return y, v, t
    }
    """
    w, x = array(8, 8), array(3, 8)
    y, v, t = pliant.compile(text, weights={"w": w})(x)
    np.testing.assert_allclose(y, x @ np.exp(w), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(v, np.exp(w), rtol=1e-6)
    np.testing.assert_allclose(t, np.exp(w).T, rtol=1e-6)


def test_functions_may_use_the_same_names() -> None:
    text = """
    weight @w: f32[8]
    func @main(x: f32[n, 8]) -> f32[n, 8] {
        v = exp(@w)
        y = mul(x, v)
        return y
    }
    func @load(x: f32[n, 8]) -> f32[n, 8] {
        v = square(@w)
        y = mul(x, v)
        return y
    }
    """
    w, x = array(8), array(3, 8)
    exe = pliant.compile(text, weights={"w": w})
    np.testing.assert_allclose(exe(x), x * np.exp(w), rtol=1e-5)
    np.testing.assert_allclose(exe["load"](x), x * w * w, rtol=1e-5)


@pytest.mark.parametrize(
    "body",
    [
        "big = mul(@table, 3.0) y = take(big, i)",  # a row is read: a copy of the table would cost more
        "t = transpose(@table) u = transpose(t) y = take(u, i)",  # nothing is computed
        "c = cast(i, dtype=f32) s = unsqueeze(c, axis=1) b = slice(@table, axis=0, start=0, stop=1) y = mul(s, b)",
    ],
)
def test_what_is_not_worth_it_stays(body: str) -> None:
    text = f"""
    weight @table: f32[4096, 1024]
    func @main(i: i64[k]) -> f32[k, 1024] {{
        {body}
        return y
    }}
    """
    program = program_of(text)
    assert program.load is not None
    assert program.load.outputs == ()


def test_a_check_of_weights_fails_the_calls_that_make_it_and_no_others() -> None:
    text = """
    weight @d: i64[3]
    func @main(x: i64[n, 3]) -> i64[n, 3] {
        q = floordiv(12, @d)
        y = add(x, q)
        return y
    }
    func @other(x: i64[n, 3]) -> i64[n, 3] {
        y = add(x, @d)
        return y
    }
    """
    exe = pliant.compile(text, weights={"d": np.array([1, 2, 3])})
    np.testing.assert_array_equal(exe(np.zeros((1, 3), np.int64)), [[12, 6, 4]])
    exe = pliant.compile(text, weights={"d": np.array([1, 0, 3])})
    np.testing.assert_array_equal(exe["other"](np.zeros((1, 3), np.int64)), [[1, 0, 3]])
    with pytest.raises(KernelError, match="divides by zero"):
        exe(np.zeros((1, 3), np.int64))


def test_facts_that_only_calls_check_move_nothing_to_load() -> None:
    """With h = 2 a slice of 4 elements would read beyond the weight; the call is refused, the load is none of that."""
    text = """
    weight @w: f32[h]
    func @main(x: f32[n, 4]) -> f32[n, 4] where h >= 4 {
        s = slice(@w, axis=0, start=0, stop=4)
        e = exp(s)
        y = mul(x, e)
        return y
    }
    """
    w = array(6)
    exe = pliant.compile(text, weights={"w": w})
    np.testing.assert_allclose(exe(np.ones((2, 4), np.float32)), np.tile(np.exp(w[:4]), (2, 1)), rtol=1e-6)
    with pytest.raises(ShapeError, match="h >= 4"):
        pliant.compile(text, weights={"w": array(2)})(np.ones((2, 4), np.float32))


VIEWS = {
    "unsqueeze(@b, axis=0)": lambda b: b[None],
    "permute(@b, axes=[1, 0])": lambda b: b.T,
    "flip(@b, axis=0)": lambda b: b[::-1],
    "roll(@b, shift=1, axis=0)": lambda b: np.roll(b, 1, 0),
    "reshape(@b, shape=[1, H, H])": lambda b: b[None],
    "triu(@b)": np.triu,
    "mul(@b, 3.0)": lambda b: b * np.float32(3),  # no view, but too large to be kept for a row of it
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("source", ["weight", "const"])
def test_a_view_that_is_read_at_load_and_at_call(view: str, source: str) -> None:
    b = array(3, 3)
    declared, h = "weight @b: f32[h, h] where h in 3..9", "h"
    if source == "const":
        declared, h = f"const @b: f32[3, 3] = {b.tolist()}", "3"
    text = f"""{declared}
    func @main(x: f32[n, {h}]) -> f32[1, n, {h}], i64[] where n in 0..3 {{
        u = {view.replace("H", h)}
        t = sum(u)
        s = sigmoid(u)
        m = max(s)
        v = reshape(u, shape=[1, {h}, {h}])
        r = slice(v, axis=1, start=0, stop=n)
        a = add(x, r)
        y = mul(a, t)
        z = mul(y, m)
        k = dim(x, axis=0)
        return z, k
    }}"""
    exe = pliant.compile(text, weights={"b": b} if source == "weight" else None)
    for n in (0, 1, 3):
        x = array(n, 3)
        u = VIEWS[view](b).reshape(1, 3, 3)
        want = (x + u[:, :n]) * u.sum() * (1 / (1 + np.exp(-u))).max()
        np.testing.assert_allclose(exe(x)[0], want, rtol=2e-5, atol=1e-5)


CONSTS = {
    "matmul(x, @c)": lambda x, c: x @ c,
    "matmul(x, t)": lambda x, c: x @ c.T,
    'einsum(x, @c, equation="ij,kj->ik")': lambda x, c: x @ c.T,
    "matmul(x, e)": lambda x, c: x @ np.exp(c),
}


@pytest.mark.parametrize("op", CONSTS)
def test_a_constant_is_a_factor_without_any_weights(tmp_path: Path, op: str) -> None:
    c = array(5, 5)
    exe = pliant.compile(f"""
        const @c: f32[5, 5] = {c.tolist()}
        func @main(x: f32[n, 5]) -> f32[n, 5] {{
            t = permute(@c, axes=[1, 0])
            e = exp(@c)
            y = {op}
            return y
        }}""")
    exe.save(tmp_path / "const.pliant")
    for n in (0, 1, 9):
        x = array(n, 5)
        np.testing.assert_allclose(pliant.load(tmp_path / "const.pliant")(x), CONSTS[op](x, c), rtol=1e-4, atol=1e-4)
