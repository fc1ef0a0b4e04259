"""Every example at its sizes against numpy: compiled, saved and loaded, and loaded where no compiler is there."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from examples.references import EXAMPLES, Arrays, Example
from pliant.compiler.driver import compile as compile_program
from pliant.ir.graph import Module
from pliant.ir.infer_module import infer_module
from pliant.ir.interpret import interpret
from pliant.ir.parser import parse_module
from pliant.runtime import Executable, load

ROOT = Path(__file__).resolve().parent.parent
FORBIDDEN = ("lark", "sympy", "llvmlite", "click", "rich", "safetensors", "torch", "ml_dtypes")

RUN_WITHOUT_A_COMPILER = """
import importlib.abc, pickle, sys
class Wall(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in FORBIDDEN or name.startswith(("pliant.compiler", "pliant.passes", "pliant.ir")):
            raise ImportError(f"{name} is not there")
FORBIDDEN = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Wall())
import pliant
exe = pliant.load(sys.argv[2])
calls = pickle.load(sys.stdin.buffer)
results = []
for given in calls:
    got = exe(**given)
    results.append((got if isinstance(got, tuple) else (got,), given))
assert not FORBIDDEN & set(sys.modules), FORBIDDEN & set(sys.modules)
pickle.dump(results, sys.stdout.buffer)
"""


def path(example: Example) -> Path:
    return ROOT / "examples" / example.file


@pytest.fixture(scope="module", params=EXAMPLES, ids=lambda e: e.file)
def case(request: pytest.FixtureRequest) -> tuple[Example, Arrays, Executable]:
    example = request.param
    weights = example.weights(np.random.default_rng(1))
    return example, weights, compile_program(path(example), weights=weights, opt=1)


Case = tuple[Example, Arrays, Executable]


def inputs(example: Example) -> list[Arrays]:
    return [example.inputs(np.random.default_rng(i), sizes) for i, sizes in enumerate(example.sizes)]


def copies(arrays: Arrays) -> Arrays:
    return {name: a.copy() for name, a in arrays.items()}


def inouts(example: Example) -> list[str]:
    return [p.name for p in parsed(example).function("main").params if p.inout]


def parsed(example: Example) -> Module:
    return infer_module(parse_module(path(example).read_text(encoding="utf-8")))


def assert_right(example: Example, weights: Arrays, given: Arrays, got: object, after: Arrays) -> None:
    """The results and the inout parameters after the call are what numpy computes in double precision."""
    made = got if isinstance(got, (tuple, list)) else (got,)
    want = example.reference(copies(given), weights)
    for g, w in zip([*made, *(after[p] for p in inouts(example))], want, strict=True):
        assert (g.dtype, g.shape) == (np.float32, w.shape)
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-5 * max(1.0, float(np.abs(w).max(initial=0.0))))


def test_there_are_five_sizes_with_a_zero_and_a_one(case: Case) -> None:
    example = case[0]
    values = {v for sizes in example.sizes for v in sizes.values()}
    assert len(example.sizes) >= 5
    assert {0, 1} <= values


def test_compiled(case: Case) -> None:
    example, weights, executable = case
    for given in inputs(example):
        after = copies(given)
        assert_right(example, weights, given, executable(**after), after)


def test_interpreted(case: Case) -> None:
    example, weights, _ = case
    for given in inputs(example):
        after = copies(given)
        assert_right(example, weights, given, interpret(parsed(example), "main", after, weights), after)


def test_saved_and_loaded(case: Case, tmp_path: Path) -> None:
    example, weights, executable = case
    executable.save(tmp_path / "a.pliant")
    loaded = load(tmp_path / "a.pliant")
    for given in inputs(example):
        ours, theirs = copies(given), copies(given)
        first, second = executable(**ours), loaded(**theirs)
        assert_right(example, weights, given, second, theirs)
        np.testing.assert_array_equal(first, second)  # the same code: the same bits


def test_loaded_where_no_compiler_is(case: Case, tmp_path: Path) -> None:
    example, weights, executable = case
    executable.save(tmp_path / "a.pliant")
    given = inputs(example)
    done = subprocess.run(
        [sys.executable, "-c", RUN_WITHOUT_A_COMPILER, ",".join(FORBIDDEN), tmp_path / "a.pliant"],
        input=pickle.dumps(given),
        capture_output=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    for one, (got, after) in zip(given, pickle.loads(done.stdout), strict=True):
        assert_right(example, weights, one, got, after)


def test_without_weights_they_are_given_at_load(tmp_path: Path) -> None:
    example = EXAMPLES[0]
    compile_program(path(example), opt=1).save(tmp_path / "a.pliant")
    for seed in (1, 2):
        weights = example.weights(np.random.default_rng(seed))
        loaded = load(tmp_path / "a.pliant", weights)
        for given in inputs(example):
            assert_right(example, weights, given, loaded(**given), given)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("torch_bert.py", r"batch \d+, length +\d+: largest difference from torch \d\.\de-0[5-9]"),
        ("torch_llama_decode.py", r"batch \d, prompt of \d+: +\d+ tokens/s \(torch eager \d+\), 100% the same"),
    ],
)
def test_examples_from_torch_say_what_torch_says(file: str, said: str) -> None:
    pytest.importorskip("torch")
    if "bert" in file:
        pytest.importorskip("transformers")
    done = subprocess.run([sys.executable, ROOT / "examples" / file], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("batch")]
    assert len(lines) >= 3
    assert all(re.fullmatch(said, line) for line in lines), done.stdout
