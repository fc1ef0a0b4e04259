"""Operators on shapes, parts and indices: their samples infer, their rules give the reference, refusals are refused."""

from __future__ import annotations

import numpy as np
import pytest

from pliant.ir.diagnostics import CompileError
from pliant.ir.op import CompositeOp, KernelOp
from pliant.ir.registry import registry

from .op_harness import assert_matches
from .op_rules import _sized, case_of, inferred, run_rule

FAMILIES = ("shape", "join", "slice", "pad", "index", "scatter", "put", "scan", "sort", "create")
OURS = sorted(name for name, cls in registry().items() if cls.__module__.rpartition(".")[2] in FAMILIES)


@pytest.mark.parametrize("name", OURS)
def test_samples_have_the_inferred_type_and_the_rule_gives_the_reference(name: str) -> None:
    cls = registry()[name]
    samples = list(cls.samples())
    assert samples
    for sample in samples:
        for binding in sample.bindings:
            where = f"{sample.op} of {[str(o) for o in sample.operands]} at {binding}"
            try:
                case = case_of(sample, binding)
            except CompileError as refusal:
                raise AssertionError(f"{where}: {refusal.diagnostics}") from None
            try:
                want = _sized(sample.op, binding).reference(*case.arrays)
            except IndexError:
                continue
            results = want if isinstance(want, tuple) else (want,)
            assert len(results) == len(case.results), where
            for array, t in zip(results, case.results, strict=True):
                assert isinstance(array, np.ndarray), where
                assert array.shape == tuple(d.evaluate(binding) for d in t.dims), where
                assert array.dtype == t.dtype.numpy, where
            if isinstance(sample.op, KernelOp) or (isinstance(sample.op, CompositeOp) and len(results) > 1):
                continue  # these run compiled, in test_ops_compiled
            got = run_rule(case)
            if got is not None:
                assert_matches(got, results[0], sample, where)


@pytest.mark.parametrize("name", OURS)
def test_refused_operands_are_refused_with_their_message(name: str) -> None:
    for refused in registry()[name].refused():
        with pytest.raises(CompileError) as caught:
            inferred(refused.op, refused.operands, refused.facts)
        assert refused.message in caught.value.diagnostics[0].message, refused


@pytest.mark.parametrize("name", OURS)
def test_samples_run_at_three_bindings_with_a_zero_and_a_one_size(name: str) -> None:
    bindings = [b for s in registry()[name].samples() for b in s.bindings]
    assert max(len(s.bindings) for s in registry()[name].samples()) >= 3
    assert any(1 in b.values() for b in bindings)
    assert any(0 in b.values() for b in bindings)
