"""Every operator of the registry, compiled for this machine, against its numpy reference on its samples."""

from __future__ import annotations

import numpy as np
import pytest

import pliant
from pliant.compiler.driver import compile as compile_module
from pliant.ir.op import Op, Sample
from pliant.ir.registry import registry

from .op_harness import arguments, assert_matches, references, sample_arrays, sample_module


def _describe(sample: Sample, binding: dict[str, int]) -> str:
    return f"{sample.op} of {', '.join(map(str, sample.operands))} at {binding}"


@pytest.mark.parametrize("name", sorted(registry()))
def test_samples(name: str) -> None:
    op: type[Op] = registry()[name]
    samples = list(op.samples())
    assert samples, f"{name} has no samples"
    exe = compile_module(sample_module(samples), opt=1)
    for i, sample in enumerate(samples):
        for binding in sample.bindings:
            arrays = sample_arrays(sample, binding)
            where = _describe(sample, binding)
            try:
                want = references(sample, arrays, binding)
            except (IndexError, ZeroDivisionError):
                with pytest.raises(pliant.PliantError):
                    exe[f"s{i}"](*arguments(sample, arrays, binding))
                continue
            got = exe[f"s{i}"](*arguments(sample, arrays, binding))
            for g, w in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
                assert_matches(np.asarray(g), w, sample, where)
