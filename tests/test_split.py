"""Reductions of a whole tensor, by chunks, against numpy; the same to the bit with any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from pliant.ir.dims import Dim
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
from pliant.passes.loops.simplify import Simplify
from pliant.passes.loops.split import Split
from pliant.passes.loops.turn import Turn
from pliant.passes.loops.vectorize import Vectorize
from tests.kernel_harness import Loaded

N, M, i, j = (Dim.of(x) for x in "NMij")
f32, f64, i64, boolean = DType.f32, DType.f64, DType.i64, DType.bool
SIZES = [(0, 3), (3, 0), (1, 1), (1, 101), (101, 1), (5, 20), (25, 4), (33, 70), (700, 3)]


def at(d: Dim | int) -> Index:
    return Index(Dim.of(d))


def loop(var: str, stop: Dim, *body: Stmt, kind: str = "serial") -> For:
    return For(var, at(0), at(stop), body, kind)


def reduction(
    combiner: str, dtype: DType, init: Expr, value: Expr | None = None, after: tuple[Stmt, ...] = ()
) -> Kernel:
    """y[0] = all of x combined, rows outside."""
    step = Assign("s", Apply(combiner, (Name("s", dtype), value or Load("x", at(i * M + j), dtype)), dtype))
    body = (Local("s", init), loop("i", N, loop("j", M, step, kind="vector")), Store("y", at(0), Name("s", dtype)))
    buffers = (
        Buffer("x", dtype, N * M, "in"),
        Buffer("c", dtype, M, "in"),
        Buffer("y", dtype, Dim.of(1), "out"),
        Buffer("z", dtype, N * M, "out"),
    )
    return Kernel("k", buffers, ("M", "N"), (*body, *after))


def is_split(k: Kernel, chunk: int = 100) -> bool:
    return any(isinstance(s, Alloc) for s in walk_stmts(Split(chunk).run(k).body))


def results(k: Kernel, x: np.ndarray, c: np.ndarray | None = None, workers: tuple[int, ...] = (1, 2, 3)) -> np.ndarray:
    """The result, which is the same whatever the workers and however many loops have become one."""
    found = []
    for passes in ((Simplify(), Split(100)), (Split(100),)):
        small = k
        for step in (*passes, Turn(), Vectorize(), Parallelize()):
            small = step.run(small)
        for count in workers:
            y, z = np.zeros(1, x.dtype), np.zeros_like(x)
            n, m = x.shape
            sizes = {"N": n, "M": m}
            Loaded(small, workers=count)("k", {"x": x, "c": x[:1].copy() if c is None else c, "y": y, "z": z}, sizes)
            found.append(y[0])
        assert all(f.tobytes() == found[-1].tobytes() for f in found[-len(workers) :])
    return np.array(found)


CASES = [
    ("add", f32, 0.0, np.sum),
    ("add", f64, 0.0, np.sum),
    ("add", i64, 0, np.sum),
    ("maximum", f32, -3.0, lambda x: np.max(x, initial=-3.0)),
    ("minimum", f64, np.inf, lambda x: np.min(x, initial=np.inf)),
    ("mul", f64, 1.0, np.prod),
    ("logical_or", boolean, False, np.any),
    ("logical_and", boolean, True, np.all),
]


@pytest.mark.parametrize(("combiner", "dtype", "init", "reference"), CASES)
def test_reductions(combiner: str, dtype: DType, init: float, reference) -> None:  # type: ignore[no-untyped-def]
    k = reduction(combiner, dtype, Const(init, dtype))
    assert is_split(k)
    assert is_split(Simplify().run(k))
    for n, m in SIZES[:4] if dtype is not f32 else SIZES:
        g = np.random.default_rng(n * 7 + m)
        x = g.standard_normal((n, m)) if dtype.is_float else g.integers(-50, 50, (n, m))
        x = (x > (2 if combiner == "logical_or" else -2)) if dtype.is_bool else x.astype(dtype.numpy)
        wide = x.astype(np.float64) if dtype.is_float else x
        np.testing.assert_allclose(results(k, x), np.float64(reference(wide)), rtol=1e-5, atol=1e-5)


def test_what_is_added_may_be_computed() -> None:
    k = reduction(
        "add", f32, Const(0.0, f32), Apply("mul", (Load("x", at(i * M + j), f32), Load("c", at(j), f32)), f32)
    )
    for n, m in SIZES:
        x, c = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32), np.arange(m, dtype=np.float32)
        expected = (x.astype(np.float64) * c).sum()
        np.testing.assert_allclose(results(k, x, c), expected, rtol=1e-5, atol=1e-5 * abs(x * c).sum() + 1e-30)


def test_a_map_after_the_reduction_is_shared_out() -> None:
    value = Apply("sub", (Load("x", at(j), f32), Name("s", f32)), f32)
    k = reduction("maximum", f32, Const(-9.0, f32), after=(loop("j", N * M, Store("z", at(j), value), kind="vector"),))
    last = Split().run(k).body[-1]
    assert isinstance(last, For)
    assert last.kind == "parallel"
    x, z = np.arange(500, dtype=np.float32).reshape(5, 100), np.zeros((5, 100), np.float32)
    small = Split(100).run(k)
    buffers = {"x": x, "c": x[0].copy(), "y": np.zeros(1, np.float32), "z": z}
    Loaded(small, workers=3)("k", buffers, {"N": 5, "M": 100})
    np.testing.assert_array_equal(z, x - 499)


def test_what_is_left_alone() -> None:
    start, element = Const(0.0, f32), Load("x", at(i * M + j), f32)
    assert is_split(reduction("add", f32, start))
    assert not is_split(reduction("add", f32, Const(1.0, f32)))  # would be added by every chunk
    assert not is_split(reduction("sub", f32, start))
    running = Apply("add", (Apply("mul", (Name("s", f32), element), f32), element), f32)
    assert not is_split(reduction("add", f32, start, running))  # depends on what came before
    short = Kernel("k", (), (), (Local("s", start), loop("i", Dim.of(100), Assign("s", _more()), kind="vector")))
    assert not is_split(short)
    scan = (Local("s", start), loop("i", N, Assign("s", _more()), Let("v", Name("s", f32)), Store("z", at(i), _more())))
    assert not is_split(Kernel("k", (), ("N",), scan))


def _more() -> Expr:
    return Apply("add", (Name("s", f32), Load("x", at(i), f32)), f32)
