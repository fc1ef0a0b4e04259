"""A contract that disagrees with itself or with the code is refused when it is loaded: whatever entry is changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pliant

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = """
weight @w : f32[h, 32] where h in 1..4096
const @bias : f32[2, 2] = [[0.5, 1.0], [2.0, 3.0]]

func @main(x: f32[n, h]) -> f32[n, 32], f32[2, 2]
    where n in 0..256
{
    a = matmul(x, @w)
    b = softmax(a)
    c = mul(@bias, n)
    return b, c
}

func @pick(x: f32[n], places: i64[k], inout counts: i32[n]) -> f32[k]
{
    y = take(x, places)
    more = add(counts, 1)
    update counts = more
    return y
}
"""
PARTS = 40


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("contract") / "model.pliant"
    w = np.linspace(-1, 1, 256, dtype=np.float32).reshape(8, 32)
    pliant.compile(PROGRAM, weights={"w": w}).save(path)
    return path


@pytest.mark.parametrize(
    ("part", "parts"), [(7, PARTS), *(pytest.param(i, 4, marks=pytest.mark.slow) for i in range(4))]
)
def test_whatever_is_changed_is_refused_or_of_no_consequence(artifact: Path, part: int, parts: int) -> None:
    command = [sys.executable, "-m", "tests.artifact_mutations", artifact, str(part), str(parts)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-300:]}\n{done.stderr[-3000:]}"
    refused, loaded = map(int, done.stdout.splitlines()[-1].removeprefix("done ").split())
    assert refused > 10 * loaded > 0
