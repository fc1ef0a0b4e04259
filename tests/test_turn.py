"""Maps that read across memory, in square blocks, against numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pliant.ir.dims import Dim
from pliant.ir.loops import (
    Apply,
    Buffer,
    Const,
    Expr,
    For,
    Index,
    Kernel,
    Load,
    Select,
    Stmt,
    Store,
    Transpose,
    walk_stmts,
)
from pliant.ir.types import DType
from pliant.passes.loops.parallelize import Parallelize
from pliant.passes.loops.turn import Turn
from pliant.passes.loops.vectorize import Vectorize
from tests.kernel_harness import NATIVE, Loaded

N, M, B, i, j, b = (Dim.of(x) for x in "NMBijb")
f32 = DType.f32
TURN = Turn(NATIVE.vector_bytes)
SIZES = [(0, 3), (3, 0), (1, 1), (1, 200), (200, 1), (31, 63), (32, 64), (33, 65), (100, 7), (67, 130), (130, 33)]


def at(d: Dim | int) -> Index:
    return Index(Dim.of(d))


def loop(var: str, stop: Dim, *body: Stmt) -> For:
    return For(var, at(0), at(stop), body, "parallel")


def transpose(dtype: DType = f32, value: Expr | None = None, rows: Dim = N, cols: Dim = M) -> Kernel:
    """y[b, j, i] = x[b, i, j]: i is contiguous where it is written, j where it is read."""
    element = value or Load("x", at((b * rows + i) * cols + j), dtype)
    store = Store("y", at((b * cols + j) * rows + i), element)
    nest = loop("b", B, loop("j", cols, loop("i", rows, store)))
    size = B * rows * cols
    buffers = (Buffer("x", dtype, size, "in"), Buffer("c", dtype, size, "in"), Buffer("y", dtype, size, "out"))
    return Kernel("k", buffers, tuple(sorted({"B"} | size.symbols)), (nest,))


def is_turned(k: Kernel) -> bool:
    return any(isinstance(s, Transpose) for s in walk_stmts(TURN.run(k).body))


def compiled(k: Kernel) -> Loaded:
    assert is_turned(k)
    for step in (TURN, Vectorize(), Parallelize()):
        k = step.run(k)
    return Loaded(k, workers=3)


@pytest.mark.parametrize("dtype", [f32, DType.f64, DType.bf16, DType.i8, DType.bool])
def test_transposes(dtype: DType) -> None:
    loaded = compiled(transpose(dtype))
    for batch, (n, m) in enumerate(SIZES):
        x = np.random.default_rng(n).integers(0, 2 if dtype.is_bool else 100, (batch, n, m)).astype(dtype.numpy)
        out = np.zeros((batch, m, n), dtype.numpy)
        loaded("k", {"x": x, "c": x, "y": out}, {"B": batch, "N": n, "M": m})
        np.testing.assert_array_equal(out, x.transpose(0, 2, 1))


def test_what_else_is_read_stays_in_place() -> None:
    """y = x^T * c + x'^T, with c read as it is written, and a second transposed operand."""
    turned, straight = Load("x", at((b * N + i) * M + j), f32), Load("c", at((b * M + j) * N + i), f32)
    again = Load("c", at((b * N + i) * M + j), f32)
    value = Apply("add", (Apply("mul", (turned, straight), f32), again), f32)
    loaded = compiled(transpose(value=value))
    for n, m in SIZES:
        x, c = np.random.default_rng(n + m).standard_normal((2, 2, n, m)).astype(np.float32)
        out = np.zeros((2, m, n), np.float32)
        loaded("k", {"x": x, "c": c, "y": out}, {"B": 2, "N": n, "M": m})
        expected = x.transpose(0, 2, 1) * c.reshape(2, m, n) + c.transpose(0, 2, 1)
        np.testing.assert_array_equal(out, expected)


def test_what_is_left_alone() -> None:
    plain = transpose()
    assert is_turned(plain)
    guarded = Select(Apply("lt", (at(i), at(5)), DType.bool), Load("x", at(i * M + j), f32), Const(0.0, f32))
    assert not is_turned(transpose(value=guarded))
    assert not is_turned(transpose(value=Load("x", at((b * M + j) * N + i), f32)))
    assert not is_turned(transpose(rows=Dim.of(3)))
    assert not is_turned(transpose(cols=Dim.of(3)))
    shared = replace(plain.buffers[2], may_alias="x")
    assert not is_turned(replace(plain, buffers=(*plain.buffers[:2], shared)))
