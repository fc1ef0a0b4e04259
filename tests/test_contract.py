"""Contractions, tiled and compiled, against numpy."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from pliant.ir.dims import Dim
from pliant.ir.loops import (
    Apply,
    Buffer,
    Cast,
    Const,
    Contract,
    Expr,
    For,
    Index,
    Kernel,
    Load,
    Micro,
    Name,
    Select,
    Stmt,
    Store,
    Transpose,
    walk_stmts,
)
from pliant.ir.types import DType
from pliant.passes.loops.packing import PREFIX, pack_kernel, packed_index, packed_size, panel_width
from pliant.passes.loops.tile import Tile
from tests.kernel_harness import NATIVE, Loaded

M, N, K, B = (Dim.of(x) for x in "MNKB")
m, n, k, b = (Dim.of(x) for x in "mnkb")
f32 = DType.f32
TILE = Tile(NATIVE.vector_bytes)
# Small blocks, so that small sizes meet every block boundary.
SMALL = Tile(NATIVE.vector_bytes, row_block=16, inner_block=24, col_block=2 * panel_width(NATIVE.vector_bytes, f32))


def at(d: Dim | int) -> Index:
    return Index(Dim.of(d))


def contraction(
    name: str,
    dtype: DType = f32,
    *,
    lhs: Expr | None = None,
    rhs: Expr | None = None,
    a: DType | None = None,
    bt: DType | None = None,
    rows: Dim = M,
    cols: Dim = N,
    inner: Dim = K,
    batch: bool = False,
    epilogue: tuple[Stmt, ...] | None = None,
    packed: bool = False,
) -> Kernel:
    """c[b?, m, n] = epilogue(sum over k of a[b?, m, k] * b[b?, k, n])."""
    a, bt = a or dtype, bt or dtype
    base = b if batch else Dim.of(0)
    width = panel_width(NATIVE.vector_bytes, dtype)
    left = lhs or Load("a", at(base * rows * inner + m * inner + k), a)
    name_b = PREFIX + "b" if packed else "b"
    plain = base * inner * cols + k * cols + n
    right = rhs or Load(name_b, at(packed_index("k", "n", inner, width) if packed else plain), bt)
    store = Store("c", at(base * rows * cols + m * cols + n), Name("acc", dtype))
    contract: Stmt = Contract("m", "n", "k", rows, cols, inner, "acc", dtype, left, right, epilogue or (store,))
    body = For("b", at(0), at(B), (contract,), "parallel") if batch else contract
    count = B if batch else Dim.of(1)
    size_b = packed_size(inner, cols, width) if packed else count * inner * cols
    buffers = [
        Buffer("a", a, count * rows * inner, "in"),
        Buffer(name_b, bt, size_b, "in"),
        Buffer("c", dtype, count * rows * cols, "out"),
    ]
    sizes = sorted({s for x in buffers for s in x.size.symbols} | rows.symbols | cols.symbols | inner.symbols)
    return Kernel(name, tuple(buffers), tuple(sizes), (body,))


def data(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> np.ndarray:
    g = np.random.default_rng(seed)
    if dtype.is_int:
        low = 0 if dtype is DType.u8 else -100
        return g.integers(low, 100, shape).astype(dtype.numpy)
    return g.standard_normal(shape).astype(dtype.numpy)


def compare(actual: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Against a product in double (or wrapping integers); the bound grows with the length of the sum."""
    if actual.dtype.kind in "iu":
        np.testing.assert_array_equal(actual, np.matmul(a.astype(actual.dtype), b.astype(actual.dtype)))
        return
    wide = [x.astype(np.float64) for x in (a, b)]
    bound = np.matmul(*(abs(x) for x in wide)) * np.finfo(actual.dtype).eps * 4 + 1e-30
    assert np.all(abs(actual - np.matmul(*wide)) <= bound + 1e-6 * np.finfo(actual.dtype).eps)


SHAPES = [
    (0, 5, 7),
    (3, 0, 4),
    (3, 4, 0),
    (1, 1, 1),
    (1, 33, 50),
    (2, 100, 3),
    (6, 64, 25),
    (7, 65, 24),
    (9, 31, 49),
    (16, 200, 26),
    (17, 129, 97),
    (50, 70, 100),
]


@cache
def row_major() -> Loaded:
    return Loaded(SMALL.run(contraction("mm")), workers=3)


@pytest.mark.parametrize(("rows", "cols", "inner"), SHAPES)
def test_row_major(rows: int, cols: int, inner: int) -> None:
    x, y = data((rows, inner), f32), data((inner, cols), f32, 1)
    out = np.full((rows, cols), np.nan, np.float32)
    row_major()("mm", {"a": x, "b": y, "c": out}, {"M": rows, "N": cols, "K": inner})
    compare(out, x, y)


@cache
def packed_pair(dtype: DType, transposed: bool) -> Loaded:
    width = panel_width(NATIVE.vector_bytes, dtype)
    pack = pack_kernel("pack", K, N, width, dtype, transposed=transposed)
    return Loaded(pack, SMALL.run(contraction("mm", dtype, packed=True)), workers=2)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("rows", "cols", "inner"), SHAPES)
def test_packed_weight(rows: int, cols: int, inner: int, transposed: bool) -> None:
    x, y = data((rows, inner), f32), data((inner, cols), f32, 1)
    width = panel_width(NATIVE.vector_bytes, f32)
    panels = np.full(-(-cols // width) * width * inner, np.nan, np.float32)
    stored = np.ascontiguousarray(y.T) if transposed else y
    loaded = packed_pair(f32, transposed)
    loaded("pack", {"w": stored, "packed.w": panels}, {"N": cols, "K": inner})
    out = np.full((rows, cols), np.nan, np.float32)
    loaded("mm", {"a": x, "packed.b": panels, "c": out}, {"M": rows, "N": cols, "K": inner})
    compare(out, x, y)


def test_packed_weight_is_read_in_place() -> None:
    tiled = TILE.run(contraction("mm", packed=True))
    assert {s.b for s in walk_stmts(tiled.body) if isinstance(s, Micro)} == {"packed.b"}


def test_plain_products_are_stored_in_place() -> None:
    """Unless the output may overlap an operand, which would be overwritten before it is read."""
    kernel = contraction("mm", cols=Dim.of(256))
    assert {s.c for s in walk_stmts(TILE.run(kernel).body) if isinstance(s, Micro)} == {"c"}
    aliased = replace(kernel, buffers=(*kernel.buffers[:2], replace(kernel.buffers[2], may_alias="a")))
    assert {s.c for s in walk_stmts(TILE.run(aliased).body) if isinstance(s, Micro)} == {"acc.c"}


@pytest.mark.parametrize("dtype", [DType.f64, DType.i32, DType.i64, DType.u8, DType.i8, DType.i16])
def test_dtypes(dtype: DType) -> None:
    sideways = SMALL.run(contraction("sideways", dtype, rhs=Load("b", at(n * K + k), dtype)))
    assert any(isinstance(s, Transpose) for s in walk_stmts(sideways.body))
    loaded = Loaded(SMALL.run(contraction("mm", dtype)), sideways)
    for rows, cols, inner in [(1, 70, 30), (13, 41, 51), (9, 64, 129), (4, 32, 16), (5, 33, 1)]:
        x, y = data((rows, inner), dtype), data((inner, cols), dtype, 1)
        for name, stored in {"mm": y, "sideways": np.ascontiguousarray(y.T)}.items():
            out = np.zeros((rows, cols), dtype.numpy)
            loaded(name, {"a": x, "b": stored, "c": out}, {"M": rows, "N": cols, "K": inner})
            compare(out, x, y)


@pytest.mark.parametrize("dtype", [DType.f16, DType.bf16, DType.i8])
def test_narrow_operands_are_widened(dtype: DType) -> None:
    wide = DType.i32 if dtype.is_int else f32
    loaded = Loaded(SMALL.run(contraction("mm", wide, a=dtype, bt=dtype)))
    for rows, cols, inner in [(0, 2, 2), (2, 70, 30), (19, 41, 51)]:
        x, y = data((rows, inner), dtype), data((inner, cols), dtype, 1)
        out = np.zeros((rows, cols), wide.numpy)
        loaded("mm", {"a": x, "b": y, "c": out}, {"M": rows, "N": cols, "K": inner})
        compare(out, x, y)


FEW = [
    (rows, cols, inner) for rows in (1, 2, 6, 8, 9) for cols, inner in [(1, 9), (31, 8), (300, 50), (128, 0), (129, 1)]
]


@pytest.mark.parametrize("dtype", [f32, DType.f64, DType.bf16, DType.i32])
def test_few_rows(dtype: DType) -> None:
    """Rows of B in strips, blocks and panels that end at every place; a batch of them."""
    wide = f32 if dtype is DType.bf16 else dtype
    loaded = Loaded(SMALL.run(contraction("mm", wide, a=dtype, bt=dtype, batch=True)), workers=3)
    for rows, cols, inner in FEW:
        x, y = data((3, rows, inner), dtype), data((3, inner, cols), dtype, 1)
        out = np.full((3, rows, cols), 77, wide.numpy)
        loaded("mm", {"a": x, "b": y, "c": out}, {"B": 3, "M": rows, "N": cols, "K": inner})
        compare(out, x, y)


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_few_rows_read_whole_panels_in_place(rows: int) -> None:
    def micros(cols: int, bt: DType) -> list[tuple[str, str]]:
        kernel = contraction("mm", rows=Dim.of(rows), cols=Dim.of(cols), bt=bt)
        return [(s.b, s.c) for s in walk_stmts(TILE.run(kernel).body) if isinstance(s, Micro)]

    assert micros(1024, f32) == [("b", "c")]
    assert micros(1000, f32) == [("b", "c"), ("acc.b", "acc.c")]
    assert micros(1024, DType.bf16) == [("acc.b", "c")]


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_transposed_operands(left: bool, right: bool) -> None:
    lhs = Load("a", at(k * M + m), f32) if left else None
    rhs = Load("b", at(n * K + k), f32) if right else None
    loaded = Loaded(SMALL.run(contraction("mm", lhs=lhs, rhs=rhs)), workers=2)
    for rows, cols, inner in SHAPES:
        x, y = data((rows, inner), f32), data((inner, cols), f32, 1)
        out = np.full((rows, cols), np.nan, np.float32)
        stored = {"a": np.ascontiguousarray(x.T) if left else x, "b": np.ascontiguousarray(y.T) if right else y}
        loaded("mm", {**stored, "c": out}, {"M": rows, "N": cols, "K": inner})
        compare(out, x, y)


@pytest.mark.parametrize("transposed", [False, True])
def test_batch(transposed: bool) -> None:
    rhs = Load("b", at(b * K * N + n * K + k), f32) if transposed else None
    loaded = Loaded(SMALL.run(contraction("mm", batch=True, rhs=rhs)), workers=3)
    for count, rows, cols, inner in [(0, 2, 3, 4), (1, 40, 70, 30), (3, 2, 70, 30), (5, 17, 9, 11), (2, 1, 200, 60)]:
        x, y = data((count, rows, inner), f32), data((count, inner, cols), f32, 1)
        out = np.full((count, rows, cols), np.nan, np.float32)
        stored = np.ascontiguousarray(y.transpose(0, 2, 1)) if transposed else y
        loaded("mm", {"a": x, "b": stored, "c": out}, {"B": count, "M": rows, "N": cols, "K": inner})
        compare(out, x, y)


@pytest.mark.parametrize(("rows", "cols", "inner"), [(4, 96, 40), (30, 33, 1), (33, 100, 400), (1, 768, 17)])
def test_static_sizes(rows: int, cols: int, inner: int) -> None:
    sizes = {"rows": Dim.of(rows), "cols": Dim.of(cols), "inner": Dim.of(inner)}
    loaded = Loaded(TILE.run(contraction("mm", **sizes)))
    x, y = data((rows, inner), f32), data((inner, cols), f32, 1)
    out = np.full((rows, cols), np.nan, np.float32)
    loaded("mm", {"a": x, "b": y, "c": out}, {})
    compare(out, x, y)


@pytest.mark.parametrize("cols", [1, 3])
def test_few_columns(cols: int) -> None:
    tiled = SMALL.run(contraction("mm", cols=Dim.of(cols), batch=True))
    assert not any(isinstance(s, Micro) for s in walk_stmts(tiled.body))
    loaded = Loaded(tiled, workers=2)
    for count, rows, inner in [(0, 3, 3), (1, 1, 1), (2, 100, 33), (3, 5, 0)]:
        x, y = data((count, rows, inner), f32), data((count, inner, cols), f32, 1)
        out = np.full((count, rows, cols), np.nan, np.float32)
        loaded("mm", {"a": x, "b": y, "c": out}, {"B": count, "M": rows, "K": inner})
        compare(out, x, y)


def test_ragged_batch() -> None:
    """The sizes of each matrix depend on its place in the batch."""
    c = Contract(
        "m",
        "n",
        "k",
        M - b,
        N,
        b + 1,
        "acc",
        f32,
        Load("a", at(m * K + k), f32),
        Apply("abs", (Load("b", at(n * K + k), f32),), f32),
        (Store("c", at((b * M + m) * N + n), Name("acc", f32)),),
    )
    buffers = (Buffer("a", f32, M * K, "in"), Buffer("b", f32, N * K, "in"), Buffer("c", f32, B * M * N, "out"))
    kernel = Kernel("mm", buffers, ("B", "K", "M", "N"), (For("b", at(0), at(B), (c,), "parallel"),))
    loaded = Loaded(SMALL.run(kernel), workers=2)
    count, rows, cols, inner = 30, 40, 50, 60
    x, y = data((rows, inner), f32), data((cols, inner), f32, 1)
    out = np.zeros((count, rows, cols), np.float32)
    loaded("mm", {"a": x, "b": y, "c": out}, {"B": count, "M": rows, "N": cols, "K": inner})
    for p in range(count):
        compare(out[p, : rows - p], np.ascontiguousarray(x[: rows - p, : p + 1]), abs(y[:, : p + 1]).T)
        assert not out[p, rows - p :].any()


def test_prologue_and_epilogue() -> None:
    """relu(a) * b with masked rows, then gelu-like maths, a bias by column and a scale by row."""
    lhs = Apply("maximum", (Load("a", at(m * K + k), f32), Const(0.0, f32)), f32)
    inside = Apply("lt", (at(k), at(K - 2)), DType.bool)
    rhs = Select(inside, Load("b", at(k * N + n), f32), Const(0.0, f32))
    value = Apply("add", (Name("acc", f32), Load("bias", at(n), f32)), f32)
    value = Apply("mul", (value, Cast(at(m + 1), f32)), f32)
    kernel = contraction("mm", lhs=lhs, rhs=rhs, epilogue=(Store("c", at(n * M + m), Apply("abs", (value,), f32)),))
    kernel = replace(kernel, buffers=(*kernel.buffers, Buffer("bias", f32, N, "in")))
    loaded = Loaded(SMALL.run(kernel), workers=2)
    for rows, cols, inner in [(3, 70, 12), (20, 35, 60), (1, 1, 3), (0, 3, 3)]:
        x, y = data((rows, inner), f32), data((inner, cols), f32, 1)
        bias = data((cols,), f32, 2)
        out = np.full((cols, rows), np.nan, np.float32)
        loaded("mm", {"a": x, "b": y, "c": out, "bias": bias}, {"M": rows, "N": cols, "K": inner})
        masked = y.astype(np.float64)
        masked[max(inner - 2, 0) :] = 0
        expected = abs((np.maximum(x, 0) @ masked + bias) * np.arange(1, rows + 1)[:, None])
        np.testing.assert_allclose(out.T, expected, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("vector_bytes", [16, 32])
def test_narrower_vectors(vector_bytes: int) -> None:
    """The code for smaller machines, run here."""
    target = replace(NATIVE, vector_bytes=vector_bytes)
    tile = replace(SMALL, vector_bytes=vector_bytes)
    loaded = Loaded(tile.run(contraction("mm")), target=target)
    for rows, cols, inner in [(1, 33, 50), (7, 17, 24), (29, 40, 55)]:
        x, y = data((rows, inner), f32), data((inner, cols), f32, 1)
        out = np.full((rows, cols), np.nan, np.float32)
        loaded("mm", {"a": x, "b": y, "c": out}, {"M": rows, "N": cols, "K": inner})
        compare(out, x, y)


@pytest.mark.parametrize("static", [False, True])
def test_only_much_work_is_shared_out(static: bool) -> None:
    for size, shared in [(8, False), (40, False), (400, True)]:
        dims = {"rows": Dim.of(size), "cols": Dim.of(size), "inner": Dim.of(size)} if static else {}
        loaded = Loaded(TILE.run(contraction("mm", **dims)), workers=4)
        x, y = data((size, size), f32), data((size, size), f32, 1)
        out = np.empty((size, size), np.float32)
        loaded("mm", {"a": x, "b": y, "c": out}, {} if static else {"M": size, "N": size, "K": size})
        compare(out, x, y)
        assert (loaded.chunks > 1) == shared


def test_untiled_contraction_means_the_same() -> None:
    loaded = Loaded(contraction("mm"))
    x, y = data((5, 9), f32), data((9, 7), f32, 1)
    out = np.empty((5, 7), np.float32)
    loaded("mm", {"a": x, "b": y, "c": out}, {"M": 5, "N": 7, "K": 9})
    compare(out, x, y)
