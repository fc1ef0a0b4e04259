"""Loop passes keep the meaning (compiled before and after, against numpy) and do what they are for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from pliant.ir.dims import Dim
from pliant.ir.facts import InRange
from pliant.ir.loops import (
    Alloc,
    Apply,
    Assign,
    Buffer,
    Const,
    Expr,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Name,
    Stmt,
    Store,
    walk_stmts,
)
from pliant.ir.types import DType
from pliant.passes.loops.parallelize import Parallelize
from pliant.passes.loops.scratch import scratch_bytes
from pliant.passes.loops.simplify import Simplify
from pliant.passes.loops.vectorize import Vectorize
from tests.kernel_harness import Loaded

f32 = DType.f32
N, M, i, j = (Dim.of(x) for x in "NMij")
SIZES = [(0, 3), (3, 0), (1, 1), (1, 200), (5, 7), (130, 3), (3, 9000), (129, 257)]


def at(d: Dim | int | str) -> Index:
    return Index(Dim.of(d))


def loop(var: str, stop: Dim | str | int, *body: Stmt, kind: str = "serial") -> For:
    return For(var, at(0), at(stop), body, kind)


def load(buffer: str, index: Dim | str) -> Load:
    return Load(buffer, at(index), f32)


def add(a: Expr, b: Expr) -> Apply:
    return Apply("add", (a, b), f32)


def kernel(*body: Stmt, y: Dim, extra: Iterable[Buffer] = ()) -> Kernel:
    buffers = (Buffer("x", f32, N * M, "in"), *extra, Buffer("y", f32, y, "out"))
    return Kernel("k", buffers, ("N", "M"), body)


def loops_of(k: Kernel) -> list[tuple[str, str]]:
    return [(str(s.stop.dim), s.kind) for s in walk_stmts(k.body) if isinstance(s, For) and isinstance(s.stop, Index)]


def run(k: Kernel, x: np.ndarray, shape: tuple[int, ...], **more: np.ndarray) -> np.ndarray:
    out = np.full(shape, np.nan, np.float32)
    n, m = x.shape
    Loaded(k, workers=2)("k", {"x": x, "y": out, **more}, {"N": n, "M": m})
    return out


def matrix(n: int, m: int) -> np.ndarray:
    return np.random.default_rng(n * 1000 + m).standard_normal((n, m)).astype(np.float32)


def rows(*body: Stmt) -> For:
    """Rows in parallel, columns in vectors."""
    return loop("i", N, loop("j", M, *body, kind="vector"), kind="parallel")


elementwise = kernel(
    loop(
        "i",
        N,
        loop("j", M, Store("y", at(i * M + j), add(load("x", i * M + j), Const(1.0, f32))), kind="vector"),
        kind="parallel",
    ),
    y=N * M,
)
bias = kernel(
    loop(
        "i",
        N,
        loop("j", M, Store("y", at(i * M + j), add(load("x", i * M + j), load("b", j))), kind="vector"),
        kind="parallel",
    ),
    y=N * M,
    extra=(Buffer("b", f32, M, "in"),),
)
transpose = kernel(
    loop("j", M, loop("i", N, Store("y", at(j * N + i), load("x", i * M + j)), kind="parallel"), kind="parallel"),
    y=N * M,
)


def row_sums(kind: str = "parallel") -> Kernel:
    step = Assign("s", add(Name("s", f32), load("x", i * M + j)))
    row = (Local("s", Const(0.0, f32)), loop("j", M, step, kind="vector"), Store("y", at(i), Name("s", f32)))
    return kernel(loop("i", N, *row, kind=kind), y=N)


def column_sums() -> Kernel:
    """Sums and sums of squares down the columns."""
    value = load("x", i * M + j)
    steps = (
        Let("v", value),
        Assign("s", add(Name("s", f32), Name("v", f32))),
        Assign("q", add(Name("q", f32), Apply("mul", (Name("v", f32), Name("v", f32)), f32))),
    )
    column = (
        Local("s", Const(0.0, f32)),
        Local("q", Const(1.0, f32)),
        loop("i", N, *steps, kind="vector"),
        Store("y", at(j), Name("s", f32)),
        Store("y", at(j + M), Name("q", f32)),
    )
    return kernel(loop("j", M, *column, kind="parallel"), y=2 * M)


def whole_sum() -> Kernel:
    step = Assign("s", add(Name("s", f32), load("x", i * M + j)))
    nest = loop("i", N, loop("j", M, step, kind="vector"))
    return kernel(Local("s", Const(0.0, f32)), nest, Store("y", at(0), Name("s", f32)), y=Dim.of(1))


def pipeline(k: Kernel) -> Kernel:
    for step in (Simplify(), Vectorize(), Parallelize(), Simplify()):
        k = step.run(k)
    return k


@pytest.mark.parametrize("size", SIZES)
def test_elementwise(size: tuple[int, int]) -> None:
    x = matrix(*size)
    np.testing.assert_array_equal(run(pipeline(elementwise), x, size), x + 1)


@pytest.mark.parametrize("size", SIZES)
def test_bias(size: tuple[int, int]) -> None:
    x, b = matrix(*size), matrix(1, size[1])[0]
    np.testing.assert_array_equal(run(pipeline(bias), x, size, b=b), x + b)


@pytest.mark.parametrize("size", SIZES)
def test_transpose(size: tuple[int, int]) -> None:
    x = matrix(*size)
    np.testing.assert_array_equal(run(pipeline(transpose), x, size[::-1]), x.T)


@pytest.mark.parametrize("size", SIZES)
def test_reductions(size: tuple[int, int]) -> None:
    x = matrix(*size)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(run(pipeline(row_sums()), x, size[:1]), wide.sum(1), rtol=1e-4, atol=1e-3)
    expected = np.stack([wide.sum(0), 1 + (wide**2).sum(0)])
    np.testing.assert_allclose(run(pipeline(column_sums()), x, (2, size[1])), expected, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(run(pipeline(whole_sum()), x, (1,)), [wide.sum()], rtol=1e-4, atol=2e-2)


def test_joint_loops_collapse() -> None:
    assert loops_of(Simplify().run(elementwise)) == [("M*N", "parallel")]
    assert loops_of(Simplify().run(whole_sum())) == [("M*N", "vector")]


def test_other_loops_stay() -> None:
    for k in (bias, transpose, row_sums(), column_sums()):
        assert loops_of(Simplify().run(k)) == loops_of(k)


def test_a_scan_does_not_collapse_with_an_independent_loop() -> None:
    """y[j] = the running sum over rows: the order of the outer loop is part of the meaning."""
    step = Store("y", at(j), add(load("y", j), load("x", i * M + j)))
    k = kernel(loop("i", N, loop("j", M, step, kind="vector")), y=M)
    assert loops_of(Simplify().run(k)) == loops_of(k)


def test_loops_of_one_and_no_iteration() -> None:
    one = loop("i", 1, Let("v", load("x", i)), Store("y", at(i), Name("v", f32)))
    none = loop("j", 0, Store("y", at(j), Const(0.0, f32)))
    assert Simplify().run(kernel(one, none, y=N)).body == (
        Let("v", load("x", Dim.of(0))),
        Store("y", at(0), Name("v", f32)),
    )


def test_a_loop_of_one_iteration_keeps_names_apart() -> None:
    inner = loop("i", 1, Let("v", load("x", i)), Store("y", at(i), Name("v", f32)))
    k = kernel(Let("v", Const(2.0, f32)), inner, Store("y", at(1), Name("v", f32)), y=Dim.of(2))
    np.testing.assert_array_equal(run(Simplify().run(k), np.full((1, 1), 7, np.float32), (2,)), [7, 2])


def test_hoisting() -> None:
    steady = Let("c", Apply("sqrt", (Const(9.0, f32),), f32))
    moving = Let("d", add(Name("c", f32), load("x", i)))
    k = Simplify().run(kernel(loop("i", N, steady, moving, Store("y", at(i), Name("d", f32))), y=N))
    assert k.body[0] == steady
    assert isinstance(k.body[1], For)
    assert k.body[1].body[0] == moving
    np.testing.assert_array_equal(run(k, np.ones((3, 1), np.float32), (3,)), [4, 4, 4])


def test_what_depends_on_a_local_is_not_hoisted() -> None:
    k = kernel(
        Local("s", Const(0.0, f32)),
        loop("i", N, Let("t", add(Name("s", f32), Const(1.0, f32))), Assign("s", Name("t", f32))),
        Store("y", at(0), Name("s", f32)),
        y=Dim.of(1),
    )
    assert run(Simplify().run(k), np.zeros((5, 1), np.float32), (1,))[0] == 5


def test_column_reductions_turn_inside_out() -> None:
    turned = Vectorize().run(column_sums())
    assert [kind for _, kind in loops_of(turned)] == ["parallel", "vector", "serial", "vector", "vector"]
    assert sum(isinstance(s, Alloc) for s in walk_stmts(turned.body)) == 2
    assert loops_of(Vectorize().run(row_sums())) == loops_of(row_sums())


def test_nested_parallel_loops_become_vector_loops() -> None:
    row = loop("j", M, Store("y", at(i * M + j), load("b", j)), kind="parallel")
    k = kernel(loop("i", N, Let("z", at(0)), row, kind="parallel"), y=N * M, extra=(Buffer("b", f32, M, "in"),))
    assert [kind for _, kind in loops_of(Vectorize().run(k))] == ["parallel", "vector"]
    assert loops_of(Vectorize().run(transpose))[1][1] == "parallel"


def test_short_outer_loops_are_fused_with_the_inner_one() -> None:
    fused = Parallelize(block=1000).run(bias)
    assert [kind for _, kind in loops_of(fused)] == ["parallel", "vector"]
    assert loops_of(fused)[0][0] == str(N * Dim.ceildiv(M, 1000))
    assert loops_of(Parallelize().run(row_sums())) == loops_of(row_sums())
    nest = loop("j", M, *row_sums().body, kind="parallel")
    pairs = Parallelize().run(kernel(loop("i", N, nest, kind="serial"), y=N))
    assert loops_of(pairs)[1][0] == "M*N"


def test_order_is_kept_where_loops_are_serial() -> None:
    for k in (row_sums("serial"), whole_sum()):
        assert loops_of(Parallelize().run(k)) == loops_of(k)


def test_scratch_is_the_largest_of_what_lives_at_once() -> None:
    a = Alloc("a", f32, N)
    small = Alloc("s", f32, Dim.of(16))
    b = Alloc("b", f32, Dim.of(10000))
    k = kernel(a, loop("i", M, small, b), loop("j", M, Alloc("c", DType.f64, M + j)), y=N)
    for n, m in [(0, 1), (5, 3), (1000, 40), (10, 8000)]:
        needed = 64 * -(-4 * n // 64) + max(64 * -(-40000 // 64), 64 * -(-8 * (2 * m - 1) // 64))
        assert scratch_bytes(k).evaluate({"N": n, "M": m}) == needed


def test_extents_that_may_both_be_negative_do_not_collapse() -> None:
    n, m, i, j = (Dim.of(x) for x in ("n", "m", "i", "j"))
    rows, cols = n - 5, m - 5
    at = Index(i * cols + j)
    inner = For("j", Index(Dim.of(0)), Index(cols), (Store("y", at, Const(1.0, DType.f32)),), "parallel")
    outer = For("i", Index(Dim.of(0)), Index(rows), (inner,), "parallel")
    kernel = Kernel("k", (Buffer("y", DType.f32, rows * cols, "out"),), ("m", "n"), (outer,))
    assert Simplify().run(kernel).body == (outer,)
    known = replace(kernel, facts=(InRange(n, Dim.of(5), None),))
    (loop,) = Simplify().run(known).body
    assert isinstance(loop, For)
    assert loop.stop == Index(rows * cols)
