"""Mistakes in calls of the Python interface: said in its own terms, never as a fault of a pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pliant
from pliant.runtime.errors import ShapeError

PROGRAM = "func @main(x: f32[n]) -> f32[n] { y = relu(x) return y }"

COMPILES: list[tuple[dict[str, Any], str]] = [
    ({"opt": "O3"}, "optimisation is given as 'O3'.*`opt` is 0, 1, 2 or 3"),
    ({"opt": 9}, "optimisation is given as 9.*`opt` is 0, 1, 2 or 3"),
    ({"opt": True}, "optimisation is given as True"),
    ({"opt": None}, "optimisation is given as None"),
    ({"opt": 2.0}, "optimisation is given as 2.0"),
    ({"source": lambda x: x}, "not of the type function.*from_torch"),
    ({"source": np.zeros(3)}, "not of the type ndarray$"),
    ({"source": None}, "not of the type NoneType$"),
    ({"source": ""}, "no function"),
    ({"source": "x " * 400}, "neither a program nor the path of one"),
    ({"source": "y = relu(x)"}, "neither a program nor the path of one.*`func @main"),
    ({"source": "y = relu(x) * 2.0"}, "neither a program nor the path of one"),
    ({"source": "missing.ir"}, "cannot read missing.ir"),
    ({"target": "arm64"}, "did you mean `cpu:neoverse-n1`"),
    ({"target": "x86"}, "did you mean `cpu:x86-64-v3`"),
    ({"target": "avx512"}, "did you mean `cpu:x86-64-v4`"),
    ({"target": "gpu"}, "did you mean `cuda:sm_90`"),
    ({"target": "cuda:90"}, "did you mean `cuda:sm_90`"),
    ({"target": "cpu:skylak"}, "did you mean `cpu:skylake`"),
    ({"target": 3}, "a target is text, not of the type int"),
]


@pytest.mark.parametrize(("given", "said"), COMPILES)
def test_compile(given: dict[str, Any], said: str) -> None:
    with pytest.raises(pliant.CompileError, match=f"(?s){said}"):
        pliant.compile(**{"source": PROGRAM, **given})


def test_compile_of_a_torch_module() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(pliant.CompileError, match="from_torch"):
        pliant.compile(torch.nn.Linear(3, 3))


DERIVED = [
    ("8*g", "g in 1..5", 48, "argument `a` of @main: dimension 0 is 48, but 8*g with g in 1..5 allows 8..40 in"),
    ("8*g", "g in 1..5", 0, "dimension 0 is 0, but 8*g with g in 1..5 allows 8..40 in steps of 8"),
    ("8*g + 3", "g <= 5, g >= 1", 51, "dimension 0 is 51, but 8*g + 3 with g in 1..5 allows 11..43 in steps of 8"),
    ("g + 3", "g in 2..", 4, "dimension 0 is 4, but g + 3 with g in 2.. allows 5 and more"),
    ("2*g", "g in {2, 4}", 6, "dimension 0 is 6, but 2*g with g in {2, 4} allows 4, 8"),
    ("2*g", "g % 2 == 0", 6, "dimension 0 is 6, but 2*g with g % 2 == 0 (g = 3"),
]  # fmt: skip


@pytest.mark.parametrize(("size", "facts", "given", "said"), DERIVED)
def test_a_fact_of_a_size_that_is_solved_for(size: str, facts: str, given: int, said: str) -> None:
    exe = pliant.compile(f"func @main(a: f32[{size}]) -> f32[{size}] where {facts} {{ y = relu(a) return y }}", opt=0)
    with pytest.raises(ShapeError) as refused:
        exe(np.zeros(given, np.float32))
    assert said in str(refused.value)
    assert (refused.value.argument, refused.value.dimension, refused.value.got) == ("a", 0, given)
