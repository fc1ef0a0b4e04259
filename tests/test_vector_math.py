"""The CPU target's vector math: accuracy over the whole range, special values, vectorisation, independence of libm."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.accuracy import (
    BINARY,
    DTYPES,
    NUMPY_NAMES,
    assembly,
    compile_loop,
    errors_in_ulps,
    measure_error,
    reference,
)
from pliant.compiler.codegen.math import SUPPORTED, math_library, math_parts

Array = npt.NDArray[Any]
CASES = sorted(SUPPORTED)
# f64's remainders loop until the quotient is used up; nothing else may.
LOOPS = {("fmod", "f64"), ("mod", "f64")}
MAX_ULP = {"f32": 2.0, "f64": 2.5}


@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_error_is_within_bound(name: str, dtype: str, fma: bool) -> None:
    loop = compile_loop(name, dtype, cpu="x86-64-v3" if fma else "x86-64", fma=fma)
    error, where = measure_error(name, dtype, loop, 30_000, seed=7, slow_count=1500)
    limit = 0.0 if name in ("fmod", "mod") else MAX_ULP[dtype] + (0.0 if fma else 2.0)
    assert error <= limit, f"{name}({where}) is off by {error} ulp"


def special_values(dtype: str) -> Array:
    info = np.finfo(DTYPES[dtype])
    positive = [
        0.0,
        info.smallest_subnormal,
        info.tiny / 3,
        info.tiny,
        info.eps / 4,
        0.5,
        0.75,
        1.0,
        1.5,
        2.0,
        3.0,
        4.0,
    ]
    positive += [7.0, 20.0, 88.7, 104.5, 709.9, 2.0**23 + 1, 2.0**31, 1e30, info.max, np.inf]
    return np.array([s * v for v in positive for s in (1, -1)] + [np.nan], DTYPES[dtype])


def numpy_specials(name: str, arrays: list[Array]) -> Array:
    """numpy's own answer in the same dtype where it has the function, the limit of the definition elsewhere."""
    x = arrays[0]
    with np.errstate(all="ignore"):
        if name == "erf":
            return np.copysign(reference(name, arrays), x).astype(x.dtype)
        if name in ("gelu", "gelu_tanh", "sigmoid", "softplus"):
            return reference(name, arrays).astype(x.dtype)
        return np.asarray(getattr(np, NUMPY_NAMES.get(name, name))(*arrays))


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_special_values_match_numpy(name: str, dtype: str) -> None:
    values = special_values(dtype)
    arrays = [a.ravel() for a in np.meshgrid(values, values)] if name in BINARY else [values]
    got, want = compile_loop(name, dtype)(*arrays), numpy_specials(name, arrays)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    finite = np.isfinite(want)
    with np.errstate(all="ignore"):
        # numpy's own f64 and f32 functions may be off by some ulps themselves.
        error = errors_in_ulps(got[finite], want[finite].astype(np.longdouble))
    assert error.max() <= 6, (error.max(), [a[finite][error.argmax()] for a in arrays])
    signed = ~np.isnan(want) & ((want != 0) | (name not in ("gelu", "gelu_tanh")))
    np.testing.assert_array_equal(np.signbit(got[signed]), np.signbit(want[signed]))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_huge_and_nearly_multiple_arguments_of_trigonometry(name: str, dtype: str) -> None:
    """Random arguments over all large exponents, and the floats nearest to multiples of pi/2, where the reduction
    cancels most.
    """
    kind = DTYPES[dtype]
    rng = np.random.default_rng(3)
    huge = rng.uniform(1, 2, 500) * 2.0 ** rng.uniform(14, 127 if dtype == "f32" else 1023, 500)
    moderate = rng.uniform(-(2.0**20), 2.0**20, 2000)
    multiples = rng.integers(1, 2**22, 500) * np.pi / 2
    # Close cases: f32 and f64 known to lie nearest to a multiple of pi/2.
    close = [16367173 * 2.0**72] if dtype == "f32" else [6381956970095103 * 2.0**797]
    x = np.concatenate([huge, moderate, multiples, close]).astype(kind)
    error = errors_in_ulps(compile_loop(name, dtype)(x), reference(name, [x], exact_trigonometry=True))
    assert error.max() <= 2, (error.max(), x[error.argmax()])


@pytest.mark.parametrize("name", ["fmod", "mod"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_remainders_are_exact_for_every_ratio(name: str, dtype: str) -> None:
    kind = DTYPES[dtype]
    rng = np.random.default_rng(5)
    x = np.frombuffer(rng.bytes(20_000 * kind.itemsize), kind)
    with np.errstate(all="ignore"):
        y = np.concatenate([np.frombuffer(rng.bytes(10_000 * kind.itemsize), kind), x[10_000:] * kind.type(2.0**-20)])
        want = getattr(np, name)(x, y)
    for fma in (True, False):
        got = compile_loop(name, dtype, cpu="x86-64-v3" if fma else "x86-64", fma=fma)(x, y)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got[~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_loops_over_it_are_vectorised(name: str, dtype: str) -> None:
    text = compile_loop(name, dtype).ir
    body = text[text.index("@loop") :]
    element = {"f32": "float", "f64": "double"}[dtype]
    has_vectors = re.search(rf"f(mul|add|sub) <[248] x {element}>|<[248] x {element}> @llvm.fma", body) is not None
    # f32 functions that compute in f64 use its vectors.
    has_vectors |= re.search(r"<[248] x double> @llvm.fma", body) is not None
    assert has_vectors == ((name, dtype) not in LOOPS)
    assert "@pl." not in body, "the function was not inlined"


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_plain_x86_64_needs_no_library(name: str, dtype: str) -> None:
    assert not re.search(r"\bcall", assembly(name, dtype, cpu="x86-64", fma=False))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("count", [0, 1, 3, 7, 8, 9, 31, 33])
def test_tails_of_every_length(dtype: str, count: int) -> None:
    x = np.linspace(-3, 3, count).astype(DTYPES[dtype])
    got = compile_loop("exp", dtype)(x)
    np.testing.assert_allclose(got, np.exp(x.astype(np.longdouble)), rtol=4 * np.finfo(x.dtype).eps)


def test_parts_are_definitions_and_declarations() -> None:
    definitions, declarations = math_parts([("exp", "f32"), ("exp", "f32"), ("erf", "f64")])
    assert set(definitions) == {"pl.exp.f32", "pl.erf.f64"}
    assert all(text.startswith("define internal ") and "alwaysinline nounwind" in text for text in definitions.values())
    assert all(line.startswith("declare ") and "@llvm." in line for line in declarations)
    whole = math_library([("exp", "f32"), ("erf", "f64")])
    assert all(part in whole for part in [*definitions.values(), *declarations])


def test_unknown_function_is_refused() -> None:
    with pytest.raises(KeyError, match="no vector math for gamma of f32"):
        math_parts([("gamma", "f32")])


def test_no_fast_math_flags_inside() -> None:
    """They would let the optimiser undo the compensated sums."""
    text = math_library(SUPPORTED)
    assert not re.search(r"\b(fast|reassoc|nnan|ninf|arcp|afn|contract|nsz)\b", text)
