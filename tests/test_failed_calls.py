"""Calls that fail on data: what the error says, and that an update whose indices are wrong writes nothing."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pliant
from pliant.compiler.codegen.llvm import resolve
from pliant.compiler.driver import Compilation
from pliant.compiler.target import Target
from pliant.ir.interpret import interpret
from pliant.runtime.errors import KernelError
from pliant.runtime.sizes import size_of

BODY = " -> i64[] { new = OP update c = new s = dim(c, axis=0) return s }"
ROWS = "func @main(inout c: f32[n, m], x: f32[k, m], i: i64[k])" + BODY
FLAT = "func @main(inout c: f32[n], x: f32[k], i: i64[k])" + BODY
WIDE = "func @main(inout c: f32[n, m], x: f32[k, m], i: i64[k, m])" + BODY
DEEP = "func @main(inout c: f32[m, n], x: f32[m, k], i: i64[m, k])" + BODY

UPDATES = [
    (ROWS, "index_put(c, x, i)"),
    (ROWS, "index_put(c, x, i, accumulate=true)"),
    (FLAT, "index_put(c, x, i)"),
    *((WIDE, f'scatter(c, i, x, axis=0, reduce="{kind}")') for kind in ("set", "add", "mean")),
    *((DEEP, f'scatter(c, i, x, axis=1, reduce="{kind}")') for kind in ("set", "max", "mean")),
    (FLAT, "scatter(c, i, x, axis=0)"),
]


@pytest.mark.parametrize(("text", "op"), UPDATES, ids=[op for _, op in UPDATES])
def test_an_update_with_a_wrong_index_writes_nothing(text: str, op: str) -> None:
    exe = pliant.compile(text.replace("OP", op))
    rng = np.random.default_rng(0)
    n, m = 7, 3
    for count in (3, 5000, 20000):  # of indices: one part, several, enough for threads
        shapes = {ROWS: ((n, m), (count, m), (count,)), FLAT: ((n,), (count,), (count,))}
        shapes |= {WIDE: ((n, m), (count, m), (count, m)), DEEP: ((m, n), (m, count), (m, count))}
        cache, x = (rng.integers(0, 9, shape).astype(np.float32) for shape in shapes[text][:2])
        i = rng.integers(-n, n, shapes[text][2])
        old = cache.copy()
        for wrong, where in ((n, -1), (-n - 1, 0), (2**62, count // 2)):
            bad = i.copy()
            bad.flat[where] = wrong
            with pytest.raises(KernelError, match=rf"is {wrong}, out of range for axis . of size n = 7 \(-7\.\.6\)"):
                exe(cache, x, bad)
            np.testing.assert_array_equal(cache, old)
        exe(cache, x, i)
        interpret(pliant.parse(text.replace("OP", op)), "main", [old, x, i])  # updates `old`
        np.testing.assert_allclose(cache, old, rtol=1e-5)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("take(x, i)", "an index of `take` is 9, out of range for axis 0 of size k = 4 (-4..3)"),
        ("index_put(x, c, i)", "an index of `index_put` is 9, out of range for axis 0 of size k = 4 (-4..3)"),
        ("floordiv(i, zero)", "`floordiv` divides by zero"),
        ("pow(i, less)", "`pow` of integers has a negative exponent: -1"),
    ],
)
def test_a_value_that_fails_while_it_is_computed_does_not_reach_the_parameter(op: str, message: str) -> None:
    exe = pliant.compile(f"""
        func @main(inout c: i64[k], x: i64[k], i: i64[k]) -> i64[] {{
            zero = sub(i, i)
            less = sub(zero, 1)
            new = {op}
            update c = new
            s = dim(c, axis=0)
            return s
        }}""")
    cache = np.array([50, 51, 52, 53])
    with pytest.raises(KernelError, match=re.escape(message)):
        exe(cache, np.arange(4), np.array([0, 1, 2, 9]))
    np.testing.assert_array_equal(cache, [50, 51, 52, 53])


def test_a_later_failure_leaves_the_parameter_of_its_own_update() -> None:
    exe = pliant.compile("""
        func @main(inout a: f32[n], inout b: f32[n], x: f32[k], i: i64[k], j: i64[k]) -> i64[] {
            p = index_put(a, x, i)
            update a = p
            q = index_put(b, x, j)
            update b = q
            s = dim(a, axis=0)
            return s
        }""")
    a, b, x = np.zeros(3, np.float32), np.zeros(3, np.float32), np.ones(2, np.float32)
    with pytest.raises(KernelError, match=r"is -5, out of range"):
        exe(a, b, x, np.array([0, 1]), np.array([2, -5]))
    np.testing.assert_array_equal(b, 0)  # of `a` nothing is promised


@pytest.mark.parametrize(
    ("size", "binding", "said"),
    [
        ("3", 3, "of size 3 (-3..2)"),
        ("n", 3, "of size n = 3 (-3..2)"),
        ("n", 0, "of size n = 0 (0..-1)"),
        ("2*n + 1", 5, "of size 2*n + 1 = 5 (-5..4)"),
        ("value", 3, "of size value = 3 (-3..2)"),
        ("class", 3, "of size class = 3 (-3..2)"),
    ],
)
def test_sizes_in_messages_have_their_values(size: str, binding: int, said: str) -> None:
    exe = pliant.compile(f"func @main(x: f32[{size}, 2], i: i64[k]) -> f32[k, 2] {{ y = take(x, i) return y }}")
    with pytest.raises(KernelError) as failed:
        exe(np.zeros((binding, 2), np.float32), np.array([8]))
    assert f"an index of `take` is 8, out of range for axis 0 {said} (in `take` at " in str(failed.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n", 7),
        ("-n - 1", -8),
        ("2*n*m + 1", 29),
        ("(n + 1)//3 + n % 4", 5),
        ("min(n, m, 3) - max(n, 9)", -7),
        ("(-n)//2", -4),
        ("n//(m - 2)", None),
        ("other", None),
        ("n +", None),
        ("n ** 2", None),
        ("__import__('os')", None),
        ("min()", None),
        ("min(n, in, is)", 2),
        ("n.real", None),
        ("1.5", None),
    ],
)
def test_size_expressions(text: str, value: int | None) -> None:
    assert size_of(text, {"n": 7, "m": 2, "in": 3, "is": 2}) == value


def test_loops_with_checks_are_vectorised() -> None:
    """The features of a gathered row are copied by vectors, and so are elements of a vector that is gathered from."""
    rows = "func @main(x: f32[n, m], i: i64[k]) -> f32[k, m] { y = take(x, i) return y }"
    elements = "func @main(x: f32[n], i: i64[k]) -> f32[k] { y = take(x, i) return y }"
    for text in (rows, elements):
        optimized = Compilation(pliant.parse(text), resolve(Target.parse("cpu"))).optimized()
        assert re.search(r"store <\d+ x float>", "\n".join(optimized.values()))
