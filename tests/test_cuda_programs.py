"""Whole programs as CUDA code: NVRTC takes it, and in the emulator it gives what numpy gives."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pliant.compiler.codegen.cuda import compile_cuda, cuda_module
from pliant.compiler.driver import Compilation, read_source
from pliant.compiler.target import Target
from pliant.ir.registry import registry
from tests.cuda_emulator.emulator import ORDERS, Emulator, available
from tests.cuda_emulator.host import HostRun
from tests.op_harness import arguments, assert_matches, references, sample_arrays, sample_module

EXAMPLES = Path(__file__).parent.parent / "examples"
ARCHS = ("sm_80", "sm_90")
emulated = pytest.mark.skipif(not available(), reason="the emulator is built by g++")

COMMON = (
    "argmax attention avg_pool cast concat conv cumsum embedding gather index_put layer_norm matmul max_pool norm pad "
    "scatter softmax sort sum topk var"
)
"""Operators of every kind of kernel; the others are slow tests."""

PROGRAM = """
func @halves(x: f16[n, k], w: f16[k, m], b: f16[m]) -> f16[n, m] {
    y = matmul(x, w)
    z = add(y, b)
    r = gelu(z)
    return r
}
func @brains(x: bf16[n, k]) -> bf16[n, k], i64[n]
    where k in 1..
{
    y = softmax(x, axis=-1)
    i = argmax(x, axis=-1)
    return y, i
}
func @columns(x: f64[n, k]) -> f64[k], f64[k] {
    m = mean(x, axis=0)
    v = var(x, axis=0)
    return m, v
}
func @total(x: f32[n, k]) -> f32[], i64[]
    where n in 1.., k in 1..
{
    s = sum(x, axis=[0, 1])
    i = argmax(x)
    return s, i
}
func @whole(x: i32[n, k], y: i32[k, n]) -> i32[n, n] {
    z = matmul(x, y)
    return z
}
func @double(switch: f32[n], float: f32[n], threadIdx: f32[n], int: f32[n]) -> f32[n] {
    a = add(switch, float)
    b = mul(threadIdx, int)
    new = sub(a, b)
    return new
}
"""


def compilation(source: str | Path, arch: str = "sm_90") -> Compilation:
    return Compilation(read_source(source), Target.parse(f"cuda:{arch}"))


def _references() -> Any:
    """examples/references.py, which is no package."""
    if "references" not in sys.modules:
        spec = importlib.util.spec_from_file_location("references", EXAMPLES / "references.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules["references"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["references"]


# ------------------------------------------------------------------------------------------------------- NVRTC


def assert_compiles(c: Compilation, arch: str) -> None:
    """NVRTC makes an ELF file with every kernel's functions in it."""
    pytest.importorskip("cuda.bindings.nvrtc")
    module = cuda_module(c.lowered.program, c.target)
    cubin = compile_cuda(module.source, arch)
    assert cubin.startswith(b"\x7fELF")
    names = [launch.function for kernel in module.kernels for launch in kernel.launches]
    assert all(f".text.{name}".encode() in cubin for name in names)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("file", sorted(p.name for p in EXAMPLES.glob("*.ir")))
def test_examples_compile_to_cubins(file: str, arch: str) -> None:
    assert_compiles(compilation(EXAMPLES / file, arch), arch)


@pytest.mark.parametrize("arch", ARCHS)
def test_dtypes_and_reductions_compile_to_cubins(arch: str) -> None:
    assert_compiles(compilation(PROGRAM, arch), arch)


@pytest.mark.parametrize("arch", ["sm_90", pytest.param("sm_80", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["gather", "scatter", "max_pool", "layer_norm", "sort", "cumsum"])
def test_operators_compile_to_cubins(name: str, arch: str) -> None:
    module = sample_module(list(registry()[name].samples()))
    assert_compiles(Compilation(module, Target.parse(f"cuda:{arch}")), arch)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(registry()))
def test_every_operator_compiles_to_a_cubin(name: str) -> None:
    assert_compiles(Compilation(sample_module(list(registry()[name].samples())), Target.parse("cuda:sm_90")), "sm_90")


# ---------------------------------------------------------------------------------------------------- emulator


def host_run(c: Compilation, folder: Path, globals_: dict[str, np.ndarray] | None = None) -> HostRun:
    program = c.lowered.program
    return HostRun(program, Emulator(cuda_module(program, c.target), folder), globals_)


@emulated
@pytest.mark.parametrize("file", sorted(p.name for p in EXAMPLES.glob("*.ir")))
def test_examples_agree_with_numpy(file: str, tmp_path: Path) -> None:
    (example,) = (e for e in _references().EXAMPLES if e.file == file)
    rng = np.random.default_rng(0)
    weights = example.weights(rng)
    run = host_run(compilation(EXAMPLES / file), tmp_path, weights)
    sizes = [z for z in example.sizes if np.prod([max(1, v) for v in z.values()]) <= 1100]
    assert len(sizes) >= 3
    for number, z in enumerate(sizes):
        inputs = example.inputs(rng, z)
        wanted = example.reference(inputs, weights)
        results, failed = run("main", *inputs.values(), order=ORDERS[number % 3], grid=(5, 64)[number % 2])
        after = [inputs[name] for name in ("keys", "values") if name in inputs]
        assert failed == 0
        for got, want in zip([*results, *after], wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max(initial=0), err_msg=f"{z}")


def check_samples(name: str, folder: Path) -> None:
    """An operator's samples in the emulator against its numpy reference, as on the CPU."""
    samples = list(registry()[name].samples())
    run = host_run(Compilation(sample_module(samples), Target.parse("cuda:sm_90")), folder)
    for i, sample in enumerate(samples):
        for j, binding in enumerate(sample.bindings):
            arrays = sample_arrays(sample, binding)
            where = f"{sample.op} of {', '.join(map(str, sample.operands))} at {binding}"
            order, grid = ORDERS[(i + j) % 3], (8, 2, 1)[j % 3]
            got, failed = run(f"s{i}", *arguments(sample, arrays, binding), order=order, grid=grid)
            try:
                want = references(sample, arrays, binding)
            except (IndexError, ZeroDivisionError):
                assert failed, where
                continue
            assert failed == 0, where
            for g, w in zip(got, want, strict=True):
                assert_matches(g, np.asarray(w), sample, where)


@emulated
@pytest.mark.parametrize("name", COMMON.split())
def test_common_operators(name: str, tmp_path: Path) -> None:
    check_samples(name, tmp_path)


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(registry()) - set(COMMON.split())))
def test_every_other_operator(name: str, tmp_path: Path) -> None:
    check_samples(name, tmp_path)


@emulated
def test_dtypes_and_reductions(tmp_path: Path) -> None:
    run = host_run(compilation(PROGRAM), tmp_path)
    rng = np.random.default_rng(1)
    bf16 = run.program.functions[1].params[0].dtype.numpy
    for n, k, m, order in ((0, 5, 3, 0), (1, 1, 1, 1), (3, 0, 5, 0), (65, 300, 70, 1), (7, 33, 129, 5)):
        x, w, b = (rng.standard_normal(s).astype(np.float16) for s in ((n, k), (k, m), (m,)))
        (r,), _ = run("halves", x, w, b, order=order)
        z = (x.astype(np.float32) @ w.astype(np.float32)).astype(np.float16) + b
        cdf = np.vectorize(_normal_cdf, otypes=[np.float64])(z.astype(np.float64))
        np.testing.assert_allclose(r.astype(np.float64), z * cdf, rtol=4e-3, atol=2e-2 * (1 + k) ** 0.5 / 16)

        x = rng.standard_normal((n, k)).astype(np.float32)
        if k:
            (y, i), _ = run("brains", x.astype(bf16), order=order)
            e = np.exp(x.astype(bf16).astype(np.float64))
            np.testing.assert_allclose(y.astype(np.float64), e / e.sum(axis=1, keepdims=True), rtol=2e-2)
            np.testing.assert_array_equal(i, x.astype(bf16).astype(np.float32).argmax(axis=1))
        if n:
            (mean, var), _ = run("columns", x.astype(np.float64), order=order)
            np.testing.assert_allclose(mean, x.astype(np.float64).mean(axis=0), rtol=1e-12, atol=1e-14)
            if n > 1:
                close = [np.abs(var - x.astype(np.float64).var(axis=0, ddof=d)).max(initial=0) for d in (0, 1)]
                assert min(close) < 1e-12
        if n and k:
            (s, i), _ = run("total", x, order=order)
            np.testing.assert_allclose(s, x.astype(np.float64).sum(), rtol=1e-4, atol=1e-3)
            assert i == x.argmax()
        a, c = (rng.integers(-(2**20), 2**20, s).astype(np.int32) for s in ((n, k), (k, n)))
        (p,), _ = run("whole", a, c, order=order)
        np.testing.assert_array_equal(p, (a.astype(np.int64) @ c.astype(np.int64)).astype(np.int32))


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


@emulated
def test_names_that_cpp_keeps_for_itself(tmp_path: Path) -> None:
    run = host_run(compilation(PROGRAM), tmp_path)
    a, b, c, d = (np.random.default_rng(k).standard_normal(19).astype(np.float32) for k in range(4))
    (out,), _ = run("double", a, b, c, d)
    np.testing.assert_allclose(out, (a + b) - c * d, rtol=1e-5, atol=1e-6)
