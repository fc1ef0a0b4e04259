"""Pieces that kernels made by hand in tests are built of."""

from __future__ import annotations

import numpy as np

from pliant.ir.dims import Dim
from pliant.ir.loops import Apply, Buffer, Expr, For, Index, Kernel, Load, Stmt, Store
from pliant.ir.types import DType
from tests.kernel_harness import Loaded

f32, f64, i64, i32, boolean = DType.f32, DType.f64, DType.i64, DType.i32, DType.bool
FLOATS = [DType.f64, DType.f32, DType.f16, DType.bf16]
INTS = [DType.i64, DType.i32, DType.i16, DType.i8, DType.u8]
N, i, j = Dim.of("N"), Dim.of("i"), Dim.of("j")
SIZES = (0, 1, 3, 17, 100, 1037)


def at(d: Dim | int | str) -> Index:
    return Index(Dim.of(d))


def loop(var: str, stop: Dim | str | int, *body: Stmt, kind: str = "vector", start: Dim | int = 0) -> For:
    return For(var, at(start), at(stop), body, kind)


def add(a: Expr, b: Expr) -> Apply:
    return Apply("add", (a, b), f32)


def pointwise(name: str, value: Expr, result: DType, *operands: DType) -> Kernel:
    """y[i] = value, over x0[i], x1[i], ..."""
    buffers = [Buffer(f"x{k}", d, N, "in") for k, d in enumerate(operands)]
    return Kernel(name, (*buffers, Buffer("y", result, N, "out")), ("N",), (loop("i", N, Store("y", at(i), value)),))


def operand(k: int, dtype: DType) -> Load:
    return Load(f"x{k}", at(i), dtype)


def run(loaded: Loaded, name: str, *operands: np.ndarray, result: DType) -> np.ndarray:
    out = np.zeros(operands[0].shape, result.numpy)
    loaded(name, {"y": out, **{f"x{k}": x for k, x in enumerate(operands)}}, {"N": out.size})
    return out


def sample(dtype: DType, size: int, seed: int = 0, scale: float = 3.0) -> np.ndarray:
    g = np.random.default_rng(seed)
    if dtype.is_bool:
        return g.integers(0, 2, size).astype(bool)
    if dtype.is_int:
        info = np.iinfo(dtype.numpy)
        values = g.integers(max(info.min, -50), 50, size).astype(dtype.numpy)
        special = np.array([info.min, info.max, 0, 1, info.max - 1], dtype.numpy)
    else:
        values = (g.standard_normal(size) * scale).astype(dtype.numpy)
        special = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -1.5, np.inf, -np.inf, np.nan]).astype(dtype.numpy)
    where = np.arange(size) % 23
    chosen = (where < len(special)) & (np.arange(size) % 2 == seed % 2)
    values[chosen] = special[where[chosen]]
    return values
