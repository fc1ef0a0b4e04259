"""Every operator against itself and against others: its samples infer, its refused samples are refused with their
message, its reference has the inferred type, its lowering rule gives what the reference gives."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import special

from pliant.ir.diagnostics import CompileError
from pliant.ir.graph import Apply, Literal, NoneValue, Operand, Var
from pliant.ir.op import Sample
from pliant.ir.parser import parse_module
from pliant.ir.printer import print_apply
from pliant.ir.registry import registry
from pliant.ir.types import DType, TensorType

from .op_rules import _sized, case_of, inferred, run_rule

FAMILIES = (
    "unary", "activation", "binary", "select", "reduce", "moments", "softmax", "norm", "matmul", "einsum", "conv",
    "conv_transpose", "pool", "attention", "fft",
)  # fmt: skip
OURS = sorted(name for name, cls in registry().items() if cls.__module__.rpartition(".")[2] in FAMILIES)


def close(got: np.ndarray, want: np.ndarray, sample: Sample) -> None:
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    if DType.of(want.dtype).is_float:
        wide = np.float64
        np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=sample.rtol, atol=sample.atol)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", OURS)
def test_samples_have_the_inferred_type_and_the_rule_gives_the_reference(name: str) -> None:
    cls = registry()[name]
    samples = list(cls.samples())
    assert samples
    for sample in samples:
        for binding in sample.bindings:
            case = case_of(sample, binding)
            want = _sized(sample.op, binding).reference(*case.arrays)
            results = want if isinstance(want, tuple) else (want,)
            for array, t in zip(results, case.results, strict=True):
                assert isinstance(array, np.ndarray)
                assert array.shape == tuple(d.evaluate(binding) for d in t.dims), (sample, binding)
                assert array.dtype == t.dtype.numpy, sample
            got = run_rule(case)
            if got is not None:
                try:
                    close(got, results[0], sample)
                except AssertionError as error:
                    shown = [str(o) for o in sample.operands]
                    raise AssertionError(f"{sample.op} of {shown} at {binding}: {error}") from None


@pytest.mark.parametrize("name", OURS)
def test_refused_operands_are_refused_with_their_message(name: str) -> None:
    for refused in registry()[name].refused():
        with pytest.raises(CompileError) as caught:
            inferred(refused.op, refused.operands, refused.facts)
        assert refused.message in caught.value.diagnostics[0].message, refused


@pytest.mark.parametrize("name", OURS)
def test_samples_run_at_three_bindings_with_a_zero_and_a_one_size(name: str) -> None:
    symbolic = [s for s in registry()[name].samples() if any(isinstance(o, TensorType) and o.dims for o in s.operands)]
    bindings = [b for s in symbolic for b in s.bindings]
    assert max(len(s.bindings) for s in symbolic) >= 3
    assert any(1 in b.values() for b in bindings)
    needs_elements = all(s.facts for s in symbolic)
    assert needs_elements or any(0 in b.values() for b in bindings)


@pytest.mark.parametrize("name", OURS)
def test_samples_are_written_as_text_and_read_back(name: str) -> None:
    for sample in registry()[name].samples():
        operands: list[Operand] = []
        params = []
        for i, o in enumerate(sample.operands):
            if isinstance(o, TensorType):
                params.append(f"p{i}: {o}")
                operands.append(Var(f"p{i}"))
            else:
                operands.append(NoneValue() if o is None else Literal(o))
        text = f"func @f({', '.join(params)}) {{ r = {print_apply(sample.op, operands)} return r }}"
        statement = parse_module(text).functions[0].body.statements[0]
        assert isinstance(statement, Apply)
        assert statement.op == sample.op, text
        assert statement.operands == tuple(operands), text


def reference(name: str, *arrays: np.ndarray, **attributes: object) -> np.ndarray:
    got = registry()[name](**attributes).reference(*arrays)  # type: ignore[arg-type]
    assert isinstance(got, np.ndarray)
    return got


def test_special_functions_against_scipy() -> None:
    x = np.linspace(-6, 6, 301).reshape(7, 43)
    np.testing.assert_allclose(reference("erf", x), special.erf(x), rtol=1e-14)
    np.testing.assert_allclose(reference("sigmoid", x), special.expit(x), rtol=1e-14)
    np.testing.assert_allclose(reference("gelu", x), x * special.ndtr(x), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(reference("logsumexp", x, axis=1), special.logsumexp(x, axis=1), rtol=1e-14)
    np.testing.assert_allclose(reference("softmax", x, axis=0), special.softmax(x, axis=0), rtol=1e-14)
    np.testing.assert_allclose(reference("log_softmax", x), special.log_softmax(x, axis=-1), rtol=1e-14)


def test_fma_is_rounded_once() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 500))
    z = -x * y  # what is left is the rounding error of the product, which a multiplication and an addition lose
    exactly = [float(Fraction(a) * Fraction(b) + Fraction(c)) for a, b, c in zip(x, y, z, strict=True)]
    np.testing.assert_array_equal(reference("fma", x, y, z), exactly)
    z = rng.standard_normal(500)
    exactly = [float(Fraction(a) * Fraction(b) + Fraction(c)) for a, b, c in zip(x, y, z, strict=True)]
    np.testing.assert_allclose(reference("fma", x, y, z), exactly, rtol=2.3e-16)


def test_a_float_out_of_range_becomes_the_nearest_integer() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.9, -2.9, 255.5, 300.0], np.float32)
    for dtype in (DType.i64, DType.i32, DType.i16, DType.i8, DType.u8):
        bounds = np.iinfo(dtype.numpy.name)
        want = [0 if np.isnan(v) else int(max(bounds.min, min(bounds.max, np.trunc(v)))) if np.isfinite(v) else
                bounds.max if v > 0 else bounds.min for v in x.tolist()]  # fmt: skip
        assert reference("cast", x, dtype=dtype).tolist() == want


def test_half_precision_is_rounded_once() -> None:
    x = np.random.default_rng(0).standard_normal((64, 33)).astype(np.float16)
    want = x.astype(np.float64).sum(1).astype(np.float16)
    np.testing.assert_array_equal(reference("sum", x, axis=1), want)
    wide = x.astype(np.float32)
    np.testing.assert_array_equal(reference("silu", x), (wide * special.expit(wide)).astype(np.float16))


def test_integer_sums_wrap_around_in_their_own_type() -> None:
    x = np.full((3, 100), 100, np.int8)
    assert reference("sum", x, axis=1).tolist() == [16, 16, 16]
    assert reference("sum", x, axis=1).dtype == np.int8


def test_a_negative_exponent_of_an_integer_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError, match="negative exponent"):
        reference("pow", np.array([2]), np.array([-1]))
    assert reference("pow", np.array([2.0]), np.array([-1.0])).tolist() == [0.5]
