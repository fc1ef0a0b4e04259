"""The command line: what is refused is refused in words, with the right status, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from pliant.compiler.cli.app import group

PROGRAM = """
weight @w : f32[8, 4]

func @main(x: f32[n, 8]) -> f32[n, 4]
    where n in 0..16
{
    y = matmul(x, @w)
    return y
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a program, something that is no text, a damaged artifact, and arrays."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.ir").write_text(PROGRAM)
    (tmp_path / "binary.ir").write_bytes(b"func \xff\xfe @main")
    (tmp_path / "damaged.pliant").write_bytes(b"PK\x03\x04 and nothing more")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    np.save("wide.npy", np.zeros((3, 8), np.float64))
    np.save("long.npy", np.zeros((17, 8), np.float32))
    return tmp_path


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(group, arguments, prog_name="pliant")
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("check binary.ir", "binary.ir is not UTF-8 text"),
        ("check binary.ir --json", "binary.ir is not UTF-8 text"),
        ("fmt binary.ir", "binary.ir is not UTF-8 text"),
        ("opt binary.ir", "binary.ir is not UTF-8 text"),
        ("compile binary.ir", "binary.ir is not UTF-8 text"),
        ("run binary.ir", "binary.ir is not UTF-8 text"),
        ("compile model.ir --emit nothing", "there is no stage `nothing`"),
        ("compile model.ir --target cpu:nothing", "there is no target `cpu:nothing`"),
        ("compile model.ir --target cuda:sm_90", "can be printed, not yet run"),
        ("compile model.ir --dim q=3", "there is no symbol `q`"),
        ("compile model.ir --weights model.ir", "is no safetensors file"),
        ("compile model.ir -o nowhere/model.pliant", "cannot be written"),
        ("run model.ir --dim n=17", "contradicts the fact `n in 0..16`"),
        ("run model.ir --dim q=1", "there is no symbol `q`"),
        ("run model.ir --function other", "there is no function @other"),
        ("run model.ir --input y=long.npy", "has no parameter `y`"),
        ("run model.ir --input nothing.npy", "cannot read nothing.npy"),
        ("run model.ir --input wide.npy", "nothing is converted silently"),
        ("run model.ir --input long.npy", "contradicts the fact `n in 0..16`"),
        ("run damaged.pliant", "is damaged"),
        ("inspect damaged.pliant", "is damaged"),
        ("inspect model.ir", "is no artifact"),
        ("opt model.ir -p nothing", "there is no pass `nothing`"),
        ("opt model.ir -p tile", "works on loops"),
        ("opt model.ir -p infer{limit=1}", "has no option `limit`"),
        ("ops nothing", "there is no operator `nothing`"),
        ("plan other.csv", "no column `id`"),
    ],
)
def test_refusals_are_words_and_status_1(folder: Path, line: str, said: str) -> None:
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    result = run(*line.split())
    assert result.exit_code == 1
    assert said in result.output
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


@pytest.mark.parametrize(
    "line",
    [
        "nothing", "check", "check nowhere.ir", "compile model.ir --opt 9", "compile model.ir --dim n",
        "run model.ir --dim n=x", "run model.ir --input long.npy --input long.npy", "plan other.csv --budget -1",
    ],
)  # fmt: skip
def test_wrong_usage_is_status_2(folder: Path, line: str) -> None:
    result = run(*line.split())
    assert result.exit_code == 2
    assert "Usage:" in result.output


def test_a_file_that_is_no_text_does_not_hide_what_is_wrong_elsewhere(folder: Path) -> None:
    (folder / "wrong.ir").write_text("func @main(x: f32[n]) -> f32[n] { return y }")
    result = run("check", "binary.ir", "wrong.ir")
    assert result.exit_code == 1
    assert "binary.ir is not UTF-8 text" in result.output
    assert "there is no value `y`" in result.output


def test_opt_reads_what_opt_prints(folder: Path) -> None:
    once = run("opt", "model.ir", "-p", "infer,lower")
    (folder / "loops.ir").write_text(once.output)
    assert run("opt", "loops.ir").output == once.output


def test_an_artifact_runs_as_its_program_does(folder: Path) -> None:
    np.save("x.npy", np.arange(16, dtype=np.float32).reshape(2, 8))
    np.savez("w.npz", w=np.ones((8, 4), np.float32))
    assert run("compile", "model.ir", "--weights", "w.npz").exit_code == 0
    assert run("run", "model.pliant", "--input", "x.npy", "--output", "y.npz", "--check").exit_code == 0
    assert np.array_equal(np.load("y.npz")["result0"], np.repeat([[28.0], [92.0]], 4, axis=1).astype(np.float32))
    assert "matmul(x, @w)" in run("inspect", "model.pliant", "--ir", "source").output


@pytest.mark.skipif(os.name != "posix", reason="pipes")
def test_a_reader_that_has_enough_is_no_error(folder: Path) -> None:
    command = f"{sys.executable} -m pliant ops | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=folder)
    assert done.stdout.startswith("family")
    assert done.stderr == ""
