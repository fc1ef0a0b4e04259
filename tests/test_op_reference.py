"""Every operator against itself and against others: its samples infer, its refused samples are refused with their
message, its reference has the inferred type, its lowering rule gives what the reference gives."""

from __future__ import annotations

import numpy as np
import pytest

from pliant.ir.diagnostics import CompileError
from pliant.ir.op import Sample
from pliant.ir.registry import registry
from pliant.ir.types import DType, TensorType

from .op_rules import _sized, case_of, inferred, run_rule

FAMILIES = (
    "unary", "activation", "binary", "select", "reduce", "moments", "softmax", "norm", "matmul", "einsum", "conv",
    "conv_transpose", "pool", "attention",
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
