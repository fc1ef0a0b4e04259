"""Kernels made by hand, compiled for this machine, against numpy and scipy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.special

from pliant.compiler.codegen.kernel import emit_kernels
from pliant.compiler.codegen.llvm import assembly, compile_ir, compile_many, optimized_ir, resolve
from pliant.compiler.target import Target, known_targets
from pliant.ir.diagnostics import CompileError
from pliant.ir.dims import Dim
from pliant.ir.loops import (
    Alloc,
    Apply,
    Assign,
    Buffer,
    Cast,
    Const,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Name,
    Require,
    Select,
    Store,
    While,
)
from pliant.ir.types import DType
from pliant.passes.loops.tile import Tile
from tests.kernel_harness import NATIVE, Loaded
from tests.kernel_parts import (
    FLOATS,
    INTS,
    SIZES,
    N,
    add,
    at,
    boolean,
    f32,
    f64,
    i,
    i32,
    i64,
    j,
    loop,
    operand,
    pointwise,
    run,
)
from tests.test_contract import contraction
from tests.test_kernel_scalars import FLOAT_UNARY

Reference = Callable[..., np.ndarray]

# -------------------------------------------------------------------------------------------- statements and loops


def test_every_size() -> None:
    loaded = Loaded(pointwise("k", Apply("mul", (operand(0, f32), Const(2.0, f32)), f32), f32, f32))
    for n in SIZES:
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(run(loaded, "k", x, result=f32), 2 * x)


@pytest.mark.parametrize("dtype", [f32, f64, i32, DType.i8, DType.bf16])
@pytest.mark.parametrize("fn", ["add", "mul", "maximum", "minimum"])
def test_reductions(fn: str, dtype: DType) -> None:
    start = {"add": 0, "mul": 1, "maximum": -128, "minimum": 127}[fn]
    local = DType.f32 if dtype is DType.bf16 else dtype
    value = Cast(operand(0, dtype), local) if local is not dtype else operand(0, dtype)
    step = Assign("s", Apply(fn, (Name("s", local), value), local))
    body = (Local("s", Const(start, local)), loop("i", N, step), Store("y", at(0), Name("s", local)))
    loaded = Loaded(Kernel("k", (Buffer("x0", dtype, N, "in"), Buffer("y", local, Dim.of(1), "out")), ("N",), body))
    reduce: dict[str, Reference] = {"add": np.sum, "mul": np.prod, "maximum": np.max, "minimum": np.min}
    for n in SIZES:
        g = np.random.default_rng(n)
        x = g.integers(-3, 4, n) if dtype.is_int else g.uniform(0.9, 1.1, n)
        x = x.astype(dtype.numpy)
        out = np.zeros(1, local.numpy)
        loaded("k", {"x0": x, "y": out}, {"N": n})
        with np.errstate(all="ignore"):
            kwargs = {"dtype": local.numpy} if fn in ("add", "mul") else {}
            expected = reduce[fn](x.astype(local.numpy), initial=start, **kwargs)
        np.testing.assert_allclose(out[0], expected, rtol=1e-4)


def test_nan_reaches_the_result_of_a_reduction() -> None:
    step = Assign("s", Apply("maximum", (Name("s", f32), operand(0, f32)), f32))
    body = (Local("s", Const(-np.inf, f32)), loop("i", N, step), Store("y", at(0), Name("s", f32)))
    loaded = Loaded(Kernel("k", (Buffer("x0", f32, N, "in"), Buffer("y", f32, Dim.of(1), "out")), ("N",), body))
    for where in (0, 5, 99):
        x, out = np.zeros(100, np.float32), np.zeros(1, np.float32)
        x[where] = np.nan
        loaded("k", {"x0": x, "y": out}, {"N": 100})
        assert np.isnan(out[0])


def test_guarded_loads_stay_in_range() -> None:
    """A load behind a condition runs only where it holds: the buffers end at a page that may not be read."""
    shifted = Select(
        Apply("lt", (at(i), at(Dim.of("K"))), boolean), operand(0, f32), Load("x1", at(i - Dim.of("K")), f32)
    )
    buffers = (
        Buffer("x0", f32, Dim.of("K"), "in"),
        Buffer("x1", f32, N - Dim.of("K"), "in"),
        Buffer("y", f32, N, "out"),
    )
    loaded = Loaded(Kernel("k", buffers, ("N", "K"), (loop("i", N, Store("y", at(i), shifted)),)))
    for n, k in [(0, 0), (5, 0), (5, 5), (100, 37), (1000, 999)]:
        a, b = guarded(np.arange(k, dtype=np.float32)), guarded(np.arange(n - k, dtype=np.float32) + 1000)
        out = np.zeros(n, np.float32)
        loaded("k", {"x0": a, "x1": b, "y": out}, {"N": n, "K": k})
        np.testing.assert_array_equal(out, np.concatenate([a, b]))


def guarded(x: np.ndarray) -> np.ndarray:
    """A copy whose end is the end of readable memory."""
    import ctypes
    import mmap

    page = mmap.PAGESIZE
    length = -(-max(x.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, length + page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + length), ctypes.c_size_t(page), 0)
    result = np.frombuffer(memory, x.dtype, x.size, length - x.nbytes)
    result[...] = x
    return result


def test_data_dependent_index() -> None:
    """y[i] = x[index[i]], negative indices from the end, out of range reported with its value and kept in range."""
    raw = Let("r", Load("x1", at(i), i64))
    r = Name("r", i64)
    inside = Apply("logical_and", (Apply("ge", (r, at(-N)), boolean), Apply("lt", (r, at(N)), boolean)), boolean)
    shifted = Apply("where", (Apply("lt", (r, at(0)), boolean), Apply("add", (r, at(N)), i64), r), i64)
    kept = Apply("clamp_max", (Apply("clamp_min", (shifted, at(0)), i64), at(N - 1)), i64)
    read = Load("x0", Name("c", i64), f32)
    body = loop("i", "K", raw, Require(inside, 3, r), Let("c", kept), Store("y", at(i), read))
    buffers = (Buffer("x0", f32, N, "in"), Buffer("x1", i64, Dim.of("K"), "in"), Buffer("y", f32, Dim.of("K"), "out"))
    loaded = Loaded(Kernel("k", buffers, ("N", "K"), (body,)), first_index=5)
    x = np.arange(10, dtype=np.float32)
    index = np.array([0, 9, -1, -10, 5] * 7, np.int64)
    out = np.zeros(35, np.float32)
    assert loaded("k", {"x0": x, "x1": index, "y": out}, {"N": 10, "K": 35}) == 0
    np.testing.assert_array_equal(out, x[index])
    for bad in (10, -11, 2**62, -(2**63)):
        index[17] = bad
        assert loaded("k", {"x0": x, "x1": index, "y": out}, {"N": 10, "K": 35}) == 1 + (5 << 16 | 3)
        assert loaded.error_value == bad


def test_index_arithmetic() -> None:
    """Floor division and modulus of indices have Python's meaning, for negative numbers and a divisor of 0 too."""
    k = Dim.of("K")
    dims = [
        (i - N) // 3,
        (i - N) % 3,
        (i - N) // 4,
        (i - N) % 4,
        i // k,
        i % k,
        Dim.min(i, k),
        Dim.max(i - 5, k),
        i * k - N,
    ]
    stores = [Store("y", at(i * len(dims) + p), Index(d)) for p, d in enumerate(dims)]
    buffer = Buffer("y", i64, N * len(dims), "out")
    loaded = Loaded(Kernel("k", (buffer,), ("N", "K"), (loop("i", N, *stores),)))
    for n, divisor in [(9, 1), (20, 3), (5, 0)]:
        out = np.zeros((n, len(dims)), np.int64)
        loaded("k", {"y": out}, {"N": n, "K": divisor})
        for x in range(n):
            for p, d in enumerate(dims):
                if divisor or p not in (4, 5):
                    assert out[x, p] == d.evaluate({"i": x, "N": n, "K": divisor}), str(d)


def test_if_while_and_locals() -> None:
    """The number of steps of the Collatz sequence, with a cap; uses every kind of statement on scalars."""
    v, count = Name("v", i64), Name("count", i64)
    even = Apply("eq", (Apply("mod", (v, Const(2, i64)), i64), Const(0, i64)), boolean)
    more = Apply("add", (Apply("mul", (v, Const(3, i64)), i64), Const(1, i64)), i64)
    step = If(even, (Assign("v", Apply("floordiv", (v, Const(2, i64)), i64)),), (Assign("v", more),))
    running = While(
        Apply("gt", (v, Const(1, i64)), boolean), (step, Assign("count", Apply("add", (count, Const(1, i64)), i64)))
    )
    body = (Local("v", Load("x0", at(i), i64)), Local("count", Const(0, i64)), running, Store("y", at(i), count))
    buffers = (Buffer("x0", i64, N, "in"), Buffer("y", i64, N, "out"))
    loaded = Loaded(Kernel("k", buffers, ("N",), (loop("i", N, *body, kind="parallel"),)))

    def steps(x: int) -> int:
        total = 0
        while x > 1:
            x, total = (x // 2 if x % 2 == 0 else 3 * x + 1), total + 1
        return total

    x = np.arange(1, 60, dtype=np.int64)
    assert run(loaded, "k", x, result=i64).tolist() == [steps(int(a)) for a in x]


def test_softmax_in_place() -> None:
    """Three reductions over a row, the output being the input's memory."""
    m = Dim.of("M")
    at_ij = at(i * m + j)
    x, y = Load("x", at_ij, f32), Load("y", at_ij, f32)
    top, total = Name("top", f32), Name("total", f32)
    body = (
        Local("top", Const(-np.inf, f32)),
        loop("j", m, Assign("top", Apply("maximum", (top, x), f32))),
        Local("total", Const(0.0, f32)),
        loop(
            "j",
            m,
            Let("e", Apply("exp", (Apply("sub", (x, top), f32),), f32)),
            Store("y", at_ij, Name("e", f32)),
            Assign("total", Apply("add", (total, Name("e", f32)), f32)),
        ),
        loop("j", m, Store("y", at_ij, Apply("div", (y, total), f32))),
    )
    buffers = (Buffer("x", f32, N * m, "in"), Buffer("y", f32, N * m, "out", may_alias="x"))
    loaded = Loaded(Kernel("k", buffers, ("N", "M"), (loop("i", N, *body, kind="parallel"),)), workers=4)
    for n, width in [(0, 3), (3, 0), (1, 1), (5, 33), (300, 257)]:
        x_ = np.random.default_rng(n).standard_normal((n, width)).astype(np.float32)
        expected = scipy.special.softmax(x_.astype(np.float64), axis=1) if x_.size else x_
        loaded("k", {"x": x_, "y": x_}, {"N": n, "M": width})
        np.testing.assert_allclose(x_, expected, rtol=1e-5, atol=1e-7)


def test_scratch_arrays() -> None:
    """A large array of each worker beside a shared one from outside, and a small one on the stack."""
    m = Dim.of("M")
    row = (
        Alloc("t", f32, m + 5000),
        Alloc("s", f32, Dim.of(8)),
        loop("j", m, Store("t", at(j), Apply("add", (Load("x", at(i * m + j), f32), Load("shared", at(j), f32)), f32))),
        loop("j", 8, Store("s", at(j), Cast(at(i), f32))),
        loop(
            "j", m, Store("y", at(i * m + j), Apply("add", (Load("t", at(m - 1 - j), f32), Load("s", at(3), f32)), f32))
        ),
    )
    fill = loop("j", m, Store("shared", at(j), Cast(at(j), f32)))
    body = (Alloc("shared", f32, m), fill, loop("i", N, *row, kind="parallel"))
    buffers = (Buffer("x", f32, N * m, "in"), Buffer("y", f32, N * m, "out"))
    loaded = Loaded(Kernel("k", buffers, ("N", "M"), body), workers=3)
    for n, width in [(1, 1), (7, 100), (200, 300)]:
        x = np.random.default_rng(n).standard_normal((n, width)).astype(np.float32)
        out = np.zeros_like(x)
        loaded("k", {"x": x, "y": out}, {"N": n, "M": width})
        expected = (x + np.arange(width, dtype=np.float32))[:, ::-1] + np.arange(n, dtype=np.float32)[:, None]
        np.testing.assert_array_equal(out, expected)


def test_only_much_work_is_shared_out() -> None:
    body = (loop("i", N, Store("y", at(i), Apply("exp", (operand(0, f32),), f32)), kind="parallel"),)
    loaded = Loaded(Kernel("k", (Buffer("x0", f32, N, "in"), Buffer("y", f32, N, "out")), ("N",), body), workers=4)
    for n, shared in [(0, False), (100, False), (1000, False), (10**6, True)]:
        run(loaded, "k", np.zeros(n, np.float32), result=f32)
        assert (loaded.chunks > 1) == shared


def test_parallel_loops_see_lets_and_locals() -> None:
    scaled = Apply("mul", (operand(0, f32), Name("scale", f32)), f32)
    body = (
        Let("scale", Load("x0", at(0), f32)),
        Local("offset", Const(1.0, f32)),
        Assign("offset", add(Name("offset", f32), Name("scale", f32))),
        loop("i", N, Store("y", at(i), add(scaled, Name("offset", f32))), kind="parallel"),
    )
    loaded = Loaded(Kernel("k", (Buffer("x0", f32, N, "in"), Buffer("y", f32, N, "out")), ("N",), body), workers=3)
    x = np.random.default_rng(0).standard_normal(300000).astype(np.float32)
    np.testing.assert_allclose(run(loaded, "k", x, result=f32), x * x[0] + (1 + x[0]), rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------------------------------------------ targets


def test_target_texts() -> None:
    assert Target.parse("cpu").kind == "cpu"
    v3 = Target.parse("cpu:x86-64-v3")
    assert (v3.vector_bytes, v3.fma, v3.half) == (32, True, True)
    assert not Target.parse("cpu:x86-64-v2").fma
    assert Target.parse("cuda:sm_90").arch == "sm_90"
    assert Target.parse("cpu:neoverse-n1").fma
    for text in known_targets():
        assert str(Target.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "near"),
    [("cpu:haswel", "`cpu:haswell`"), ("cuda:90", "`cuda:sm_90`"), ("cpus", "`cpu`"), ("", "no target")],
)
def test_unknown_targets(text: str, near: str) -> None:
    with pytest.raises(CompileError, match=near):
        Target.parse(text)


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "neoverse-n1"])
def test_other_processors_compile_without_libraries(name: str) -> None:
    """No call into a math library may be left: a loader of our own would not find it."""
    target = Target.parse(f"cpu:{name}")
    kernels = []
    for dtype in (f64, f32, DType.f16):
        for fn in FLOAT_UNARY:
            kernels.append(pointwise(f"{fn}.{dtype}", Apply(fn, (operand(0, dtype),), dtype), dtype, dtype))
        for fn in ("floordiv", "mod", "pow", "fma"):
            args = tuple(operand(p, dtype) for p in range(3 if fn == "fma" else 2))
            kernels.append(pointwise(f"{fn}.{dtype}", Apply(fn, args, dtype), dtype, *[dtype] * len(args)))
        for to in [*FLOATS, *INTS]:
            kernels.append(pointwise(f"{dtype}.to.{to}", Cast(operand(0, dtype), to), to, dtype))
    for dtype in (f64, f32, DType.f16, i32):
        kernels.append(Tile(target.vector_bytes).run(contraction(f"mm.{dtype}", dtype.compute, a=dtype, bt=dtype)))
    data = compile_ir(emit_kernels(kernels, target), target, opt=1)
    assert data[:4] == b"\x7fELF"
    assert undefined_symbols(data) <= {"memcpy", "memset", "memmove"}


def undefined_symbols(data: bytes) -> set[str]:
    """Names an ELF object needs from elsewhere (64-bit, little-endian; see elf(5))."""
    import struct

    table, entry, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + k * entry) for k in range(count)]
    found = set()
    for section in sections:
        if section[1] != 2:  # SHT_SYMTAB
            continue
        strings = sections[section[6]][4]
        for k in range(1, section[5] // 24):
            name, info, _, index = struct.unpack_from("<IBBH", data, section[4] + 24 * k)
            if index == 0 and info >> 4:
                start = strings + name
                found.add(data[start : data.index(b"\0", start)].decode())
    return found


def test_emitting_for_people() -> None:
    text = emit_kernels([pointwise("k", Apply("exp", (operand(0, f32),), f32), f32, f32)], NATIVE)
    assert f"<{NATIVE.vector_bytes // 4} x float>" in optimized_ir(text, NATIVE)
    assert "k.k" in assembly(text, NATIVE)


@pytest.mark.parametrize("size", [16, 32, 64])
def test_short_loops_of_known_length_are_vectors(size: int) -> None:
    """Rather than unrolled scalars, in a loop over rows or alone."""
    j = Dim.of("j")
    at_row = Index(i * size + j)
    step = Store("y", at_row, Apply("mul", (Load("x", at_row, f32), Load("b", Index(j), f32)), f32))
    rows = loop("i", N, loop("j", size, step), kind="parallel")
    whole, row = N * size, Dim.of(size)
    buffers = (Buffer("x", f32, whole, "in"), Buffer("b", f32, row, "in"), Buffer("y", f32, whole, "out"))
    text = optimized_ir(emit_kernels([Kernel("k", buffers, ("N",), (rows,))], NATIVE), NATIVE)
    assert "fmul float" not in text
    assert "x float>" in text


def test_compiling_several_modules_gives_the_same_objects() -> None:
    texts = [
        emit_kernels([pointwise(f"k{n}", Apply(n, (operand(0, f32),), f32), f32, f32)], NATIVE)
        for n in ("exp", "sin", "neg")
    ]
    assert compile_many(texts, NATIVE, [2] * len(texts)) == [compile_ir(t, NATIVE) for t in texts]
    assert compile_many([], NATIVE, []) == []
    assert resolve(NATIVE) == NATIVE


def test_arithmetic_rounds_as_written() -> None:
    """No product is fused into a sum outside reductions: the difference of equal squares is 0."""
    x, y = operand(0, f32), operand(1, f32)
    squares = Apply("sub", (Apply("mul", (x, x), f32), Apply("mul", (y, y), f32)), f32)
    loaded = Loaded(pointwise("k", Apply("sqrt", (squares,), f32), f32, f32, f32))
    a = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    assert not run(loaded, "k", a, a.copy(), result=f32).any()
