"""Kernels made by hand, compiled for this machine, against numpy and scipy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import scipy.special

from pliant.compiler.codegen.kernel import emit_kernels
from pliant.compiler.codegen.kernel_scalar import scalar_functions
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
from tests.kernel_harness import NATIVE, Loaded

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


# --------------------------------------------------------------------------------------------- scalar functions

Reference = Callable[..., np.ndarray]
FLOAT_UNARY: dict[str, Reference] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "square": np.square,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": scipy.special.erf,
    "sigmoid": scipy.special.expit,
    "relu": lambda x: np.maximum(x, 0),
    "softplus": lambda x: np.logaddexp(x, 0),
    "gelu": lambda x: np.where(x == -np.inf, 0, x * scipy.special.ndtr(x)),
    "gelu_tanh": lambda x: np.where(
        x == -np.inf, 0, x * scipy.special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    ),
}
FLOAT_BINARY: dict[str, Reference] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "fmod": np.fmod,
    "pow": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "atan2": np.arctan2,
}
COMPARISONS: dict[str, Reference] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
PREDICATES: dict[str, Reference] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "logical_not": np.logical_not,
}


def shift(x: np.ndarray, by: np.ndarray, left: bool) -> np.ndarray:
    bits = 8 * x.dtype.itemsize
    amount = np.where((by < 0) | (by >= bits), bits, by.astype(np.int64))
    exact = [(int(v) << int(a)) if left else (int(v) >> int(a)) for v, a in zip(x, amount, strict=True)]
    return np.array([e & ((1 << bits) - 1) for e in exact], np.uint64).astype(x.dtype)


def power(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The exact power wrapped to the width; a negative one truncated."""
    bits = 8 * x.dtype.itemsize
    exact = []
    for v, e in zip(x.tolist(), n.tolist(), strict=True):
        exact.append(pow(v, e, 1 << bits) if e >= 0 else {1: 1, -1: -1 if e % 2 else 1}.get(v, 0))
    return np.array([e & ((1 << bits) - 1) for e in exact], np.uint64).astype(x.dtype)


def truncated(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    q = [int(a) if b == 0 else abs(int(a)) // abs(int(b)) * (-1 if (a < 0) != (b < 0) else 1) for a, b in zip(x, y)]
    bits = 8 * x.dtype.itemsize
    return np.array([v & ((1 << bits) - 1) for v in q], np.uint64).astype(x.dtype)


INT_UNARY: dict[str, Reference] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "bitwise_not": np.invert,
    "relu": lambda x: np.maximum(x, 0).astype(x.dtype),
    "floor": lambda x: x,
    "round": lambda x: x,
}
INT_BINARY: dict[str, Reference] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": lambda x, y: shift(x, y, left=True),
    "right_shift": lambda x, y: shift(x, y, left=False),
    "pow": power,
}
INT_DIVISION: dict[str, Reference] = {
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "fmod": np.fmod,
    "div": truncated,
}
SIZE = 1037


def loose(name: str, dtype: DType) -> float:
    """Relative tolerance: a few units in the last place (the references of the GELUs in f64 are worse than that)."""
    eps = 2.0**-7 if dtype is DType.bf16 else float(np.finfo(dtype.numpy).eps)
    return (256 if dtype is f64 and name.startswith("gelu") else 4) * eps


def check_floats(actual: np.ndarray, expected: np.ndarray, name: str, dtype: DType) -> None:
    tiny = 0.0 if dtype is f64 else 1e-45
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(a, e, rtol=loose(name, dtype), atol=tiny, err_msg=name)


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_functions(dtype: DType) -> None:
    kernels = [pointwise(n, Apply(n, (operand(0, dtype),), dtype), dtype, dtype) for n in FLOAT_UNARY]
    both = (operand(0, dtype), operand(1, dtype))
    kernels += [pointwise(n, Apply(n, both, dtype), dtype, dtype, dtype) for n in FLOAT_BINARY]
    loaded = Loaded(*kernels)
    x, y = sample(dtype, SIZE), sample(dtype, SIZE, 1)
    exact = dtype if dtype is f64 else f64 if dtype is f32 else f32
    with np.errstate(all="ignore"):
        for name, reference in {**FLOAT_UNARY, **FLOAT_BINARY}.items():
            operands = (x,) if name in FLOAT_UNARY else (x, y)
            expected = reference(*(o.astype(exact.numpy) for o in operands)).astype(dtype.numpy)
            check_floats(run(loaded, name, *operands, result=dtype), expected, name, dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, boolean])
def test_comparisons_and_predicates(dtype: DType) -> None:
    both = (operand(0, dtype), operand(1, dtype))
    kernels = [pointwise(n, Apply(n, both, boolean), boolean, dtype, dtype) for n in COMPARISONS]
    kernels += [pointwise(n, Apply(n, both[:1], boolean), boolean, dtype) for n in PREDICATES]
    loaded = Loaded(*kernels)
    x, y = sample(dtype, SIZE), sample(dtype, SIZE, 1)
    y[::5] = x[::5]
    for name, reference in COMPARISONS.items():
        with np.errstate(invalid="ignore"):
            expected = reference(x, y)
        np.testing.assert_array_equal(run(loaded, name, x, y, result=boolean), expected, name)
    for name, reference in PREDICATES.items():
        np.testing.assert_array_equal(run(loaded, name, x, result=boolean), reference(x), name)


@pytest.mark.parametrize("dtype", INTS)
def test_integer_functions(dtype: DType) -> None:
    both = (operand(0, dtype), operand(1, dtype))
    kernels = [pointwise(n, Apply(n, both[:1], dtype), dtype, dtype) for n in INT_UNARY]
    kernels += [pointwise(n, Apply(n, both, dtype), dtype, dtype, dtype) for n in {**INT_BINARY, **INT_DIVISION}]
    loaded = Loaded(*kernels)
    x, y = sample(dtype, SIZE), sample(dtype, SIZE, 1)
    with np.errstate(all="ignore"):
        for name, reference in INT_UNARY.items():
            np.testing.assert_array_equal(run(loaded, name, x, result=dtype), reference(x), name)
        for name, reference in INT_BINARY.items():
            np.testing.assert_array_equal(run(loaded, name, x, y, result=dtype), reference(x, y), name)
        if dtype.is_signed:
            y[1], x[1] = -1, np.iinfo(dtype.numpy).min
        for name, reference in INT_DIVISION.items():
            actual = run(loaded, name, x, y, result=dtype)
            fine = y != 0  # what 0 gives is open: a `Require` reports it, and nothing traps
            np.testing.assert_array_equal(actual[fine], reference(x, y)[fine], name)


def test_bool_functions() -> None:
    names = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}
    names |= {"maximum": np.maximum, "minimum": np.minimum, "add": np.add, "mul": np.multiply}
    both = (operand(0, boolean), operand(1, boolean))
    loaded = Loaded(
        pointwise("bitwise_not", Apply("bitwise_not", both[:1], boolean), boolean, boolean),
        *(pointwise(n, Apply(n, both, boolean), boolean, boolean, boolean) for n in names),
    )
    x, y = sample(boolean, SIZE), sample(boolean, SIZE, 1)
    for name, reference in names.items():
        np.testing.assert_array_equal(run(loaded, name, x, y, result=boolean), reference(x, y), name)
    np.testing.assert_array_equal(run(loaded, "bitwise_not", x, result=boolean), ~x)


def test_ternary_functions() -> None:
    x = (operand(0, f32), operand(1, f32), operand(2, f32))
    loaded = Loaded(
        pointwise("fma", Apply("fma", x, f32), f32, f32, f32, f32),
        pointwise("clamp", Apply("clamp", x, f32), f32, f32, f32, f32),
        pointwise("where", Apply("where", (operand(0, boolean), *x[1:]), f32), f32, boolean, f32, f32),
    )
    a, b, c = (np.random.default_rng(k).standard_normal(99).astype(np.float32) for k in range(3))
    exact = (a.astype(np.float64) * b + c).astype(np.float32)
    np.testing.assert_allclose(run(loaded, "fma", a, b, c, result=f32), exact, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(run(loaded, "clamp", a, b, c, result=f32), np.minimum(np.maximum(a, b), c))
    np.testing.assert_array_equal(run(loaded, "where", a > 0, b, c, result=f32), np.where(a > 0, b, c))


def test_every_function_is_tested_here() -> None:
    known = {*FLOAT_UNARY, *FLOAT_BINARY, *COMPARISONS, *PREDICATES, *INT_UNARY, *INT_BINARY, *INT_DIVISION}
    assert scalar_functions() <= known | {"fma", "clamp", "where"}


def test_an_unknown_function_is_refused() -> None:
    with pytest.raises(KeyError, match="frobnicate"):
        emit_kernels([pointwise("k", Apply("frobnicate", (operand(0, f32),), f32), f32, f32)], NATIVE)


# -------------------------------------------------------------------------------------------------- conversions


@pytest.mark.parametrize("source", [*FLOATS, *INTS, boolean])
def test_casts(source: DType) -> None:
    targets = [*FLOATS, *INTS, boolean]
    loaded = Loaded(*(pointwise(f"to_{t}", Cast(operand(0, source), t), t, source) for t in targets))
    x = sample(source, SIZE, scale=20)
    for target in targets:
        values = x
        if source.is_float and target.is_int:
            low = 0 if target is DType.u8 else -100
            values = np.nan_to_num(x.astype(np.float64), nan=0, posinf=0, neginf=0).clip(low, 100).astype(source.numpy)
        with np.errstate(all="ignore"):
            expected = values.astype(target.numpy)
            if target is DType.bf16 and not source.is_bool:  # numpy's way there rounds twice
                expected = to_bf16(values)
        actual = run(loaded, f"to_{target}", values, result=target)
        np.testing.assert_array_equal(actual.astype(np.float64), expected.astype(np.float64), f"{source} to {target}")


def to_bf16(values: np.ndarray) -> np.ndarray:
    """Rounded once, to nearest even, by comparing with the neighbours."""
    wide = values.astype(np.float64)
    near = wide.astype(np.float32).view(np.uint32)
    down = (near & 0xFFFF0000).view(np.float32)
    up = ((near & 0xFFFF0000) + 0x10000).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        a, b = abs(wide - down), abs(up - wide)
    tie_up = (near >> 16) & 1 == 1
    chosen = np.where((b < a) | ((a == b) & tie_up), up, down)
    return np.where(np.isfinite(wide) & np.isfinite(chosen), chosen, wide).astype(np.float32)


def test_casts_out_of_range_saturate() -> None:
    loaded = Loaded(*(pointwise(f"to_{t}", Cast(operand(0, f32), t), t, f32) for t in INTS))
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30], np.float32)
    for t in INTS:
        info = np.iinfo(t.numpy)
        expected = [0, info.max, info.min, info.max, info.min]
        assert run(loaded, f"to_{t}", x, result=t).tolist() == expected


@pytest.mark.parametrize("half", [DType.f16, DType.bf16])
@pytest.mark.parametrize("by_integers", [False, True])
def test_rounding_to_sixteen_bits(half: DType, by_integers: bool) -> None:
    """All 65536 values survive the way there and back; halves between neighbours round to even."""
    target = NATIVE
    if by_integers:
        target = replace(NATIVE, features=tuple(f for f in NATIVE.features if f not in ("f16c", "avx512fp16")))
    widen = pointwise("widen", Cast(operand(0, half), f32), f32, half)
    loaded = Loaded(widen, pointwise("narrow", Cast(operand(0, f32), half), half, f32), target=target)
    every = np.arange(65536, dtype=np.uint16).view(half.numpy)
    wide = run(loaded, "widen", every, result=f32)
    np.testing.assert_array_equal(wide, every.astype(np.float32))
    finite = wide[np.isfinite(wide)]
    between = np.concatenate([finite, finite[1:] / 2 + finite[:-1] / 2, np.nextafter(finite, np.float32(np.inf))])
    with np.errstate(over="ignore"):
        expected = between.astype(half.numpy)
    np.testing.assert_array_equal(run(loaded, "narrow", between, result=half).view(np.uint16), expected.view(np.uint16))


def test_f64_to_sixteen_bits_rounds_once() -> None:
    """1 + 2**-11 is half way between two f16; a hair above, that only f64 holds, decides."""
    loaded = Loaded(pointwise("k", Cast(operand(0, f64), DType.f16), DType.f16, f64))
    hair = 2.0**-40
    x = np.array([1 + 2.0**-11, 1 + 2.0**-11 + hair, 1 + 3 * 2.0**-11 - hair, -1 - 2.0**-11 - hair, 65519.999, 65520.0])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run(loaded, "k", x, result=DType.f16), x.astype(np.float16))


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
    """y[i] = x[index[i]], negative indices from the end, out of range reported and kept in range."""
    raw = Let("r", Load("x1", at(i), i64))
    r = Name("r", i64)
    inside = Apply("logical_and", (Apply("ge", (r, at(-N)), boolean), Apply("lt", (r, at(N)), boolean)), boolean)
    shifted = Apply("where", (Apply("lt", (r, at(0)), boolean), Apply("add", (r, at(N)), i64), r), i64)
    kept = Apply("clamp", (shifted, at(0), at(N - 1)), i64)
    body = loop("i", "K", raw, Require(inside, 3), Let("c", kept), Store("y", at(i), Load("x0", Name("c", i64), f32)))
    buffers = (Buffer("x0", f32, N, "in"), Buffer("x1", i64, Dim.of("K"), "in"), Buffer("y", f32, Dim.of("K"), "out"))
    loaded = Loaded(Kernel("k", buffers, ("N", "K"), (body,)), first_index=5)
    x = np.arange(10, dtype=np.float32)
    index = np.array([0, 9, -1, -10, 5] * 7, np.int64)
    out = np.zeros(35, np.float32)
    assert loaded("k", {"x0": x, "x1": index, "y": out}, {"N": 10, "K": 35}) == 0
    np.testing.assert_array_equal(out, x[index])
    for bad in (10, -11, 2**62):
        index[17] = bad
        assert loaded("k", {"x0": x, "x1": index, "y": out}, {"N": 10, "K": 35}) == 1 + (5 << 16 | 3)


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


def test_parallel_loops_see_lets_and_locals() -> None:
    scaled = Apply("mul", (operand(0, f32), Name("scale", f32)), f32)
    body = (
        Let("scale", Load("x0", at(0), f32)),
        Local("offset", Const(1.0, f32)),
        Assign("offset", Apply("add", (Name("offset", f32), Name("scale", f32)), f32)),
        loop(
            "i",
            N,
            Store(
                "y",
                at(i),
                Apply("add", (Apply("mul", (operand(0, f32), Name("scale", f32)), f32), Name("offset", f32)), f32),
            ),
            kind="parallel",
        ),
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
    ("text", "near"), [("cpu:haswel", "cpu:haswell"), ("cuda:90", "cuda:sm_90"), ("gpu", "cpu"), ("", "")]
)
def test_unknown_targets(text: str, near: str) -> None:
    with pytest.raises(CompileError, match=near):
        Target.parse(text)


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "neoverse-n1"])
def test_other_processors_compile_without_libraries(name: str) -> None:
    """No call into a math library may be left: a loader of our own would not find it."""
    target = Target.parse(f"cpu:{name}")
    kernels = []
    for dtype in FLOATS:
        for fn in FLOAT_UNARY:
            kernels.append(pointwise(f"{fn}.{dtype}", Apply(fn, (operand(0, dtype),), dtype), dtype, dtype))
        for fn in ("floordiv", "mod", "pow", "fma"):
            args = tuple(operand(p, dtype) for p in range(3 if fn == "fma" else 2))
            kernels.append(pointwise(f"{fn}.{dtype}", Apply(fn, args, dtype), dtype, *[dtype] * len(args)))
        for to in [*FLOATS, *INTS]:
            kernels.append(pointwise(f"{dtype}.to.{to}", Cast(operand(0, dtype), to), to, dtype))
    data = compile_ir(emit_kernels(kernels, target), target)
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


def test_compiling_several_modules_gives_the_same_objects() -> None:
    texts = [
        emit_kernels([pointwise(f"k{n}", Apply(n, (operand(0, f32),), f32), f32, f32)], NATIVE)
        for n in ("exp", "sin", "neg")
    ]
    assert compile_many(texts, NATIVE) == [compile_ir(t, NATIVE) for t in texts]
    assert compile_many([], NATIVE) == []
    assert resolve(NATIVE) == NATIVE
