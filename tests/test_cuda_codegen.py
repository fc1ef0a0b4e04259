"""How kernels are laid on a GPU: phases, barriers, scratch, launches, names; and what NVRTC's faults are told as."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pliant.compiler.codegen.cuda import compile_cuda
from pliant.compiler.codegen.cuda.launch import MAX_BLOCKS, SCRATCH_BLOCKS
from pliant.compiler.driver import compile as compile_source
from pliant.compiler.driver import read_source
from pliant.ir.diagnostics import CompileError
from pliant.ir.dims import Dim
from pliant.ir.facts import InRange
from pliant.ir.loops import (
    Alloc,
    Apply,
    Assign,
    Buffer,
    Const,
    Contract,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Name,
    Require,
    Select,
    Stmt,
    Store,
    While,
)
from pliant.ir.types import DType
from tests.cuda_emulator.emulator import Emulator, Fault, available
from tests.cuda_emulator.loaded import Emulated, module_of
from tests.kernel_parts import N, add, at, boolean, f32, i, i64, j, loop, operand, pointwise
from tests.test_cuda_programs import compilation

M = Dim.of("M")
emulated = pytest.mark.skipif(not available(), reason="the emulator is built by g++")
EXP = "func @main(x: f32[n]) -> f32[n] {\n    y = exp(x)\n    return y\n}\n"


def kernel(*body: Stmt, x: Dim = N * M, y: Dim = N * M, dtype: DType = f32) -> Kernel:
    buffers = (Buffer("x", dtype, x, "in"), Buffer("y", dtype, y, "inout"))
    return Kernel("k", buffers, ("N", "M"), body)


def load(name: str, index: Dim | str, dtype: DType = f32) -> Load:
    return Load(name, at(index), dtype)


def softmax_rows(reverse: bool = False) -> For:
    """exp(x) over its sum; `reverse` stores a row from its end, so that threads read what others wrote."""
    value, total = Name("e", f32), Name("s", f32)
    back = M - 1 - j if reverse else j
    return loop(
        "i",
        N,
        Alloc("row", f32, M),
        loop("j", M, Let("e", Apply("exp", (load("x", i * M + j),), f32)), Store("row", at(j), value)),
        Local("s", Const(0.0, f32)),
        loop("j", M, Assign("s", add(total, load("row", back)))),
        loop("j", M, Store("y", at(i * M + j), Apply("div", (load("row", back), total), f32))),
        kind="parallel",
    )


def matrix(n: int, m: int) -> np.ndarray:
    return np.random.default_rng(n + m).standard_normal((n, m)).astype(np.float32)


# ------------------------------------------------------------------------------------------------------ mapping


@emulated
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("bound", [None, 400])
def test_rows_in_shared_memory_and_in_scratch(reverse: bool, bound: int | None) -> None:
    """A row of bounded length lives in shared memory, any other in global scratch; right in every order of threads."""
    k = kernel(softmax_rows(reverse))
    if bound is not None:
        k = replace(k, facts=(InRange(M, Dim.of(0), Dim.of(bound)),))
    loaded = Emulated(k)
    (launch,) = loaded.emulator.module.kernel("k").launches
    assert launch.uses_scratch == (bound is None)
    assert (launch.shared_bytes == 0) == (bound is None)
    for n, m in [(0, 3), (3, 0), (1, 1), (5, 33), (7, 257), (2, 400)]:
        x = matrix(n, m)
        for _ in range(3):
            y = np.full_like(x, np.nan)
            loaded("k", {"x": x, "y": y}, {"N": n, "M": m})
            e = np.exp(x.astype(np.float64))
            total = e.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(y, (e[:, ::-1] if reverse else e) / total, rtol=1e-5)


def test_a_thread_that_reads_its_own_elements_needs_no_barrier() -> None:
    assert module_of(kernel(softmax_rows())).kernel("k").source.count("__syncthreads") == 0
    assert module_of(kernel(softmax_rows(reverse=True))).kernel("k").source.count("__syncthreads") >= 2


@emulated
def test_loops_one_after_the_other_are_launches_one_after_the_other() -> None:
    """The second loop reads all that the first wrote; a scratch array outside belongs to both."""
    double = Store("all", at(i), add(load("x", i), load("x", i)))
    turned = Store("y", at(i), load("all", N * M - 1 - i))
    half = Let("h", Apply("mul", (Const(0.5, f32), Const(3.0, f32)), f32))
    scale = Store("y", at(i), Apply("mul", (load("y", i), Name("h", f32)), f32))
    loops = (loop("i", N * M, s, kind="parallel") for s in (double, turned, scale))
    loaded = Emulated(kernel(half, Alloc("all", f32, N * M), *loops))
    launches = loaded.emulator.module.kernel("k").launches
    assert [launch.function for launch in launches] == ["k_k_0", "k_k_1", "k_k_2"]
    assert [launch.buffers for launch in launches] == [("x",), ("y",), ("y",)]
    for n, m in [(0, 1), (1, 1), (30, 70)]:
        x, y = matrix(n, m), np.zeros((n, m), np.float32)
        loaded("k", {"x": x, "y": y}, {"N": n, "M": m})
        np.testing.assert_allclose(y, 3 * x.reshape(-1)[::-1].reshape(n, m), rtol=1e-6)


@emulated
def test_what_is_serial_is_done_by_one_thread() -> None:
    """A histogram: every step reads what another may have written.  Then a loop that follows it, shared."""
    spot = Let("b", load("x", i, i64))
    count = Store("y", Index(Dim.of("b")), Apply("add", (load("y", Dim.of("b"), i64), Const(1, i64)), i64))
    most = Assign("top", Apply("maximum", (Name("top", i64), load("y", i, i64)), i64))
    after = (Local("top", Const(0, i64)), loop("i", M, most), Store("y", at(M), Name("top", i64)))
    serial = loop("i", N, spot, count, kind="serial")
    for body in ((serial,), (serial, *after)):
        loaded = Emulated(kernel(*body, x=N, y=M + 1, dtype=i64))
        for n, m in [(0, 5), (1, 1), (1000, 40)]:
            x = np.random.default_rng(n).integers(0, m, n)
            y = np.zeros(m + 1, np.int64)
            loaded("k", {"x": x, "y": y}, {"N": n, "M": m})
            want = np.bincount(x, minlength=m)
            np.testing.assert_array_equal(y, [*want, want.max() if len(body) > 1 else 0])


@emulated
def test_a_serial_result_reaches_all_threads() -> None:
    """A running sum kept by thread 0 (it stores as it goes), used by a loop of all."""
    total = Name("t", f32)
    running = loop("j", M, Assign("t", add(total, load("x", i * M + j))), Store("z", at(j), total), kind="serial")
    use = loop("j", M, Store("y", at(i * M + j), add(load("z", j), total)))
    row = loop("i", N, Alloc("z", f32, M), Local("t", Const(0.0, f32)), running, use, kind="parallel")
    loaded = Emulated(kernel(row))
    for n, m in [(1, 1), (3, 100), (9, 0)]:
        x, y = matrix(n, m), np.zeros((n, m), np.float32)
        for _ in range(3):
            loaded("k", {"x": x, "y": y}, {"N": n, "M": m})
            sums = np.cumsum(x, axis=1, dtype=np.float32)
            np.testing.assert_allclose(y, sums + sums[:, -1:], rtol=1e-4, atol=1e-4)


@emulated
def test_all_threads_go_along_in_ifs_and_whiles() -> None:
    """Rows are halved until their sum is small: shared loops in a `while`, and in both arms of an `if`."""
    total = Name("t", f32)
    element = at(i * M + j)
    copy = loop("j", M, Store("y", element, load("x", i * M + j)))
    # The row is turned around on the way, through a scratch row, since iterations must not depend on one another.
    turned = (
        loop("j", M, Store("r", at(j), load("y", i * M + j))),
        loop("j", M, Store("y", element, Apply("mul", (load("r", M - 1 - j), Const(0.5, f32)), f32))),
    )
    summed = (Assign("t", Const(0.0, f32)), loop("j", M, Assign("t", add(total, load("y", i * M + j)))))
    again = While(Apply("gt", (total, Const(1.0, f32)), boolean), (*turned, *summed))
    negate = loop("j", M, Store("y", element, Apply("neg", (load("y", i * M + j),), f32)))
    even = Apply("eq", (Index(i % 2), Const(0, i64)), boolean)
    row = (Alloc("r", f32, M), Local("t", Const(0.0, f32)), copy, *summed, again, If(even, (negate,), ()))
    loaded = Emulated(kernel(loop("i", N, *row, kind="parallel")))
    for n, m in [(1, 1), (4, 37), (3, 300)]:
        x, y = np.abs(matrix(n, m)), np.zeros((n, m), np.float32)
        for _ in range(3):
            loaded("k", {"x": x, "y": y}, {"N": n, "M": m})
            want = x.copy()
            for r in range(n):
                while want[r].sum() > 1:
                    want[r] = want[r, ::-1] / 2
            want[::2] *= -1
            np.testing.assert_allclose(y, want, rtol=1e-5)


@emulated
def test_the_best_of_a_row_and_where_it_first_stands() -> None:
    """argmax and argmin as the lowering writes them, beside a sum, with ties, infinities and NaN."""
    for largest in (True, False):
        best, where = Name("b", f32), Name("w", i64)
        value = Name("v", f32)
        wins = Apply("gt" if largest else "lt", (value, best), boolean)
        fresh = Apply("logical_not", (Apply("isnan", (best,), boolean),), boolean)
        nan = Apply("logical_and", (Apply("isnan", (value,), boolean), fresh), boolean)
        better = Let("c", Apply("logical_or", (wins, nan), boolean))
        chosen = Name("c", boolean)
        step = (
            Let("v", load("x", i * M + j)),
            better,
            Assign("b", Select(chosen, value, best)),
            Assign("w", Select(chosen, at(j), where)),
            Assign("s", add(Name("s", f32), value)),
        )
        worst = Const(-np.inf if largest else np.inf, f32)
        start = (Local("b", worst), Local("w", Const(0, i64)), Local("s", Const(0.0, f32)))
        stores = (Store("y", at(i), where), Store("z", at(i), Name("s", f32)))
        body = loop("i", N, *start, loop("j", M, *step, kind="serial"), *stores, kind="parallel")
        buffers = (Buffer("x", f32, N * M, "in"), Buffer("y", i64, N, "out"), Buffer("z", f32, N, "out"))
        loaded = Emulated(Kernel("k", buffers, ("N", "M"), (body,)))
        assert "pl_block_select" in loaded.text.partition("// kernel k")[2]
        for m in (1, 20, 31, 64, 1000):
            x = np.random.default_rng(m).integers(-3, 4, (12, m)).astype(np.float32)
            x[1], x[2], x[3, m // 2], x[4, m // 3 :] = np.inf, -np.inf, np.nan, np.nan
            y, z = np.zeros(12, np.int64), np.zeros(12, np.float32)
            for _ in range(3):
                loaded("k", {"x": x, "y": y, "z": z}, {"N": 12, "M": m})
                np.testing.assert_array_equal(y, (x.argmax if largest else x.argmin)(axis=1))
                np.testing.assert_allclose(z, x.sum(axis=1), rtol=1e-4)


@emulated
def test_loops_whose_bounds_depend_on_data_or_on_one_another() -> None:
    """A triangle (not a grid), and a loop up to a number that is loaded; the latter's launch takes a fixed grid."""
    lower = loop("i", N, loop("j", i + 1, Store("y", at(i * M + j), load("x", i * M + j)), kind="parallel"))
    count = Load("n", at(0), i64)
    loaded_bound = For("i", at(0), count, (Store("y", at(i), load("x", i)),), "parallel")
    counted = Kernel("c", (*kernel().buffers, Buffer("n", i64, Dim.of(1), "in")), ("N", "M"), (loaded_bound,))
    loaded = Emulated(kernel(replace(lower, kind="parallel")), counted)
    (launch,) = loaded.emulator.module.kernel("c").launches
    assert launch.blocks is None
    assert launch.configure({"N": 1, "M": 1}).grid == SCRATCH_BLOCKS
    x = matrix(40, 40)
    y = np.zeros_like(x)
    loaded("k", {"x": x, "y": y}, {"N": 40, "M": 40})
    np.testing.assert_array_equal(y, np.tril(x))
    for n in (0, 1, 999):
        y = np.zeros_like(x)
        loaded("c", {"x": x, "y": y, "n": np.array([n])}, {"N": 40, "M": 40})
        np.testing.assert_array_equal(y.reshape(-1), np.where(np.arange(1600) < n, x.reshape(-1), 0))


@emulated
def test_negative_extents_make_no_points() -> None:
    """Neither loop of the pair has an iteration when both would have a negative number."""
    fill = Store("y", at(i * M + j), Const(1.0, f32))
    nest = loop("i", N - 5, loop("j", M - 5, fill, kind="parallel"), kind="parallel")
    loaded = Emulated(kernel(nest))
    for n, m in [(2, 3), (6, 3), (3, 6), (7, 9)]:
        y = np.zeros((n, m), np.float32)
        loaded("k", {"x": matrix(n, m), "y": y}, {"N": n, "M": m})
        assert y.sum() == max(0, n - 5) * max(0, m - 5), (n, m)


@emulated
def test_each_thread_has_its_own_array() -> None:
    """Small ones are local, large ones in global scratch; the elements are stored in one order and read in another."""
    for size in (8, 3000):
        k = Dim.of("k")
        body = (
            Alloc("t", f32, Dim.of(size)),
            loop("k", 8, Store("t", at(7 - k), add(load("x", i), load("x", 0))), kind="serial"),
            Local("s", Const(0.0, f32)),
            loop("k", 8, Assign("s", add(Name("s", f32), load("t", k))), kind="serial"),
            Store("y", at(i), Name("s", f32)),
        )
        loaded = Emulated(kernel(loop("i", N * M, *body, kind="parallel")))
        (launch,) = loaded.emulator.module.kernel("k").launches
        assert launch.uses_scratch == (size > 8)
        assert launch.max_blocks == (SCRATCH_BLOCKS if size > 8 else MAX_BLOCKS)
        x, y = matrix(7, 99), np.zeros((7, 99), np.float32)
        loaded("k", {"x": x, "y": y}, {"N": 7, "M": 99})
        np.testing.assert_allclose(y, 8 * (x + x[0, 0]), rtol=1e-4, atol=1e-4)


# -------------------------------------------------------------------------------------------------- contraction


def contraction(rows: Dim, cols: Dim, inner: Dim, *others: Stmt) -> Kernel:
    """y[b] = x[b] @ x2[b] + b over a batch of 3; `others` stand beside it in the batch's loop."""
    b, m, n, k = (Dim.of(s) for s in "bmnk")
    lhs = Load("x", Index(b * rows * inner + m * inner + k), f32)
    rhs = Load("x2", Index(b * inner * cols + k * cols + n), f32)
    end: Expr = add(Name("acc", f32), Apply("sub", (Name("bias", f32), Const(0.0, f32)), f32))
    store = Store("y", Index(b * rows * cols + m * cols + n), end)
    c = Contract("m", "n", "k", rows, cols, inner, "acc", f32, lhs, rhs, (store,))
    body = For("b", at(0), at(3), (Let("bias", Load("bias", at(b), f32)), *others, c), "parallel")
    buffers = (
        Buffer("bias", f32, Dim.of(3), "in"),
        Buffer("x", f32, 3 * rows * inner, "in"),
        Buffer("x2", f32, 3 * inner * cols, "in"),
        Buffer("y", f32, 3 * rows * cols, "out"),
    )
    return Kernel("k", buffers, ("K", "M", "N"), (body,))


@emulated
@pytest.mark.parametrize("tiled", [True, False])
def test_contractions(tiled: bool) -> None:
    """In tiles where it stands alone in the batch's loop; element by element where it does not."""
    k = Dim.of("K")
    beside = () if tiled else (Alloc("unused", f32, Dim.of(1)), Store("unused", at(0), Const(0.0, f32)))
    loaded = Emulated(contraction(M, N, k, *beside))
    assert ("pl_lhs" in loaded.text) == tiled
    for m, n, inner in [(0, 4, 5), (4, 0, 5), (4, 5, 0), (1, 1, 1), (64, 64, 16), (65, 130, 17), (3, 100, 50)]:
        g = np.random.default_rng(m)
        x, x2 = (g.standard_normal(s).astype(np.float32) for s in ((3, m, inner), (3, inner, n)))
        bias = np.array([10, 20, 30], np.float32)
        y = np.full((3, m, n), np.nan, np.float32)
        loaded("k", {"x": x, "x2": x2, "y": y, "bias": bias}, {"M": m, "N": n, "K": inner})
        np.testing.assert_allclose(y, x.astype(np.float64) @ x2 + bias[:, None, None], rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------------------ launches


def test_the_launch_is_data() -> None:
    """Blocks for every task, none where there is nothing to do, as few threads as a short row can use."""
    (rows,) = module_of(kernel(softmax_rows())).kernel("k").launches
    assert (rows.function, rows.buffers, rows.sizes) == ("k_k", ("x", "y"), ("N", "M"))
    config = rows.configure({"N": 10, "M": 100})
    assert (config.grid, config.block, config.shared_bytes) == (10, 256, 0)
    assert config.scratch_bytes == 10 * 448  # 100 floats, to the next multiple of 64 bytes
    assert rows.configure({"N": 10**6, "M": 1}).grid == SCRATCH_BLOCKS
    assert rows.configure({"N": 0, "M": 100}).grid == 0
    (flat,) = module_of(pointwise("p", operand(0, f32), f32, f32)).kernel("p").launches
    assert [flat.configure({"N": n}).grid for n in (0, 1, 256, 257, 2**45)] == [0, 1, 1, 2, MAX_BLOCKS]
    (tiled,) = module_of(contraction(M, N, Dim.of("K"))).kernel("k").launches
    assert tiled.configure({"M": 65, "N": 64, "K": 9}).grid == 3 * 2 * 1


def test_checks_name_kernel_and_check() -> None:
    checked = Kernel("checked", (), (), (Require(Const(False, boolean), 7),))
    module = module_of(kernel(), checked)
    (launch,) = module.kernel("checked").launches
    assert launch.uses_error
    assert f"pl_error, {1 + (1 << 16 | 7)}ull" in module.source


def test_kernels_whose_names_would_be_one_identifier() -> None:
    same = [pointwise(name, operand(0, f32), f32, f32) for name in ("a.b", "a_b", "a-b")]
    module = module_of(*same)
    names = [launch.function for k in module.kernels for launch in k.launches]
    assert len(set(names)) == 3
    pytest.importorskip("cuda.bindings.nvrtc")
    assert compile_cuda(module.source, "sm_90").startswith(b"\x7fELF")


# ---------------------------------------------------------------------------------------------------- the emulator


@emulated
def test_the_emulator_sees_a_missing_barrier(tmp_path: Path) -> None:
    """Without its barriers the kernel gives other results in some order of threads."""
    module = module_of(kernel(softmax_rows(reverse=True)))
    (good,) = module.kernels
    bad = replace(module, source=module.source.replace(good.source, good.source.replace("__syncthreads();", "")))
    emulator = Emulator(bad, tmp_path)
    x = matrix(2, 200)
    want = np.exp(x)[:, ::-1] / np.exp(x).sum(axis=1, keepdims=True)
    wrong = 0
    for order in (0, 1, 5):
        y = np.zeros_like(x)
        emulator.run("k", {"x": x, "y": y}, {"N": 2, "M": 200}, order)
        wrong += not np.allclose(y, want, rtol=1e-4)
    assert wrong


@emulated
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("if (threadIdx.x == 3) __syncthreads();", "wait at the barrier"),
        ("if (threadIdx.x % 2) pl_exchange(1, 1);", "wait at the shuffle"),
        ("if (threadIdx.x == 0) pl_shared[16] = 0;", "wrote byte 16 of 0 of dynamic shared memory"),
        ("if (threadIdx.x == 0) y[N] = 0;", "array y: written out of range"),
    ],
)
def test_the_emulator_sees_what_a_gpu_would_not_say(line: str, message: str, tmp_path: Path) -> None:
    module = module_of(pointwise("k", operand(0, f32), f32, f32))
    (good,) = module.kernels
    head, _, rest = good.source.partition("{\n")
    bad = replace(module, source=module.source.replace(good.source, f"{head}{{\n  {line}\n{rest}"))
    x = np.ones(5, np.float32)
    with pytest.raises(Fault, match=message):
        Emulator(bad, tmp_path).run("k", {"x0": x, "y": np.zeros_like(x)}, {"N": 5})


# --------------------------------------------------------------------------------------------------- diagnostics


def test_running_on_cuda_is_refused_with_a_way_out() -> None:
    with pytest.raises(CompileError, match="running on CUDA comes in a later version") as refusal:
        compile_source(EXP, target="cuda:sm_90")
    assert "--emit cuda" in str(refusal.value)


def test_cuda_code_is_for_cuda_targets() -> None:
    c = compilation(EXP)
    assert "k_main_0_exp" in c.cuda
    c = replace(c, module=read_source(EXP), target=replace(c.target, kind="cpu"))
    with pytest.raises(CompileError, match="--target cuda:sm_90"):
        _ = c.cuda


def test_what_nvrtc_refuses_is_told_by_kernel() -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    source = compilation(EXP).cuda.replace("pl_exp(x", "pl_expp(x")
    with pytest.raises(CompileError, match=r"kernel main.0.exp: pliant.cu\(\d+\): error: .*pl_expp"):
        compile_cuda(source, "sm_90")


def test_an_architecture_that_nvrtc_does_not_know() -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    with pytest.raises(CompileError, match="no architecture `sm_91`") as refusal:
        compile_cuda(compilation(EXP).cuda, "sm_91")
    assert "sm_90" in str(refusal.value)


def test_without_nvrtc_we_say_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(CompileError, match="NVRTC, which is not installed") as refusal:
        compile_cuda(compilation(EXP).cuda, "sm_90")
    assert "pip install 'cuda-python" in str(refusal.value)
