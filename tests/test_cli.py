"""The command line: what is refused is refused in words, with the right status, and nothing is left behind."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from pliant.compiler.cli.app import group
from pliant.ir.format import format_text

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
    (tmp_path / "empty.ir").write_text("")
    (tmp_path / "weights.ir").write_text("weight @w: f32[3]")
    (tmp_path / "free.ir").write_text("func @main(x: f32[n, 8]) -> f32[n, 8] { y = relu(x)  return y }")
    (tmp_path / "calls.ir").write_text(
        "func @f(x: f32[n]) -> f32[n] { y = relu(x)  return y }"
        "func @main(x: f32[n]) -> f32[n] { y = @f(x)  return y }"
    )
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "text.safetensors").write_text("hello")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    np.savez("two.npz", x=np.zeros((3, 8), np.float32), other=np.zeros(3))
    np.save("array.npz.npy", np.zeros(3))
    (tmp_path / "array.npz.npy").rename(tmp_path / "array.npz")
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
        ("plan folder", "no CSV file in folder"),
        ("check empty.ir", "the program has no function"),
        ("check weights.ir", "the program has no function"),
        ("check folder", "cannot read folder: Is a directory"),
        ("check loop", "cannot read loop: Too many levels"),
        ("check /dev/zero", "/dev/zero is longer than 64 MiB"),
        ("compile empty.ir", "the program has no function"),
        ("run empty.ir", "the program has no function"),
        ("compile model.ir --target cpu:", "there is no target `cpu:`"),
        ("compile model.ir --weights=", "the name of a file of arrays is empty"),
        ("compile model.ir -o loop", "loop cannot be written: Too many levels"),
        ("compile model.ir -o /dev/full", "/dev/full cannot be written: No space left"),
        ("run free.ir --dim n=100000000000", "take 6400000000000 bytes, and the machine has"),
        ("run free.ir --dim n=9223372036854775807", "bytes, and the machine has"),
        ("run model.ir --input zz=random", "has no parameter `zz`"),
        ("run model.ir --input x=", "the name of a file of arrays is empty"),
        ("run model.ir --input text.npy", "text.npy is no file of numpy's"),
        ("run model.ir --input text.npz", "text.npz is no file of numpy's"),
        ("run model.ir --input text.safetensors", "it is too short"),
        ("run model.ir --input array.npz", "of one array without a name"),
        ("run model.ir --input two.npz", "has no parameter `other`"),
        ("run model.ir --input folder", "cannot read folder: Is a directory"),
        ("run model.ir --function=", "there is no function @"),
        ("run model.ir --output nowhere/y", "nowhere/y cannot be written: No such file"),
        ("run model.ir --output /dev/full", "/dev/full cannot be written: No space left"),
        ("opt model.ir -o nowhere/y", "nowhere/y cannot be written: No such file"),
        ("opt model.ir -o /dev/full", "/dev/full cannot be written: No space left"),
        ("opt model.ir -p lower", "begin with `infer`"),
        ("opt calls.ir -p infer,lower", "run `inline` before it"),
        ("opt model.ir -p infer,lower,tile{row_block=0}", "`row_block` of `tile` is 0, and 1 at least"),
    ],
)
def test_refusals_are_words_and_status_1(folder: Path, line: str, said: str) -> None:
    before = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    result = run(*line.split())
    assert result.exit_code == 1
    assert said in result.output
    assert "fault in pliant" not in result.output
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} == before


@pytest.mark.parametrize(
    "line",
    [
        "nothing", "check", "check nowhere.ir", "compile model.ir --opt 9", "compile model.ir --dim n",
        "run model.ir --dim n=x", "run model.ir --input long.npy --input long.npy", "plan other.csv --budget -1",
        "compile model.ir -o=", "compile model.ir -o x/", "compile model.ir -o folder", "compile model.ir -o -",
        "compile model.ir -o /dev/stdout", "compile model.ir -o model.ir", "compile model.ir --emit=",
        "compile model.ir --emit fused -o x", "compile model.ir --dim n=1 --dim n=2", "compile model.ir --dim n=²",
        "compile model.ir --dim n=9223372036854775808", "run model.ir --seed -1", "run model.ir --rtol nan",
        "run model.ir --rtol inf", "run model.ir --rtol -1", "run model.ir --output folder",
        "run model.ir --input =a.npy",
        "run model.ir --input x=two.npz --input x=long.npy", "plan other.csv --budget nan",
        "plan other.csv --budget inf",
        "fmt folder", "inspect folder", "opt model.ir -o=", "import model.ir -o model.ir",
        "import free.ir -o a --weights a",
    ],
)  # fmt: skip
def test_wrong_usage_is_status_2(folder: Path, line: str) -> None:
    result = run(*shlex.split(line.replace("-o=", "-o ''")))
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


def test_output_is_written_to_the_very_name(folder: Path) -> None:
    assert run("run", "model.ir", "--weights", "random", "--output", "results").exit_code == 0
    assert np.load("results")["result0"].shape == (8, 4)
    (folder / "link").symlink_to("model.ir")
    (folder / "model.ir").chmod(0o600)
    assert run("fmt", "link").exit_code == 0
    assert (folder / "link").is_symlink()
    assert (folder / "model.ir").read_text() != PROGRAM
    assert (folder / "model.ir").stat().st_mode & 0o777 == 0o600


def test_check_gives_editors_their_json_whatever_is_wrong(folder: Path) -> None:
    result = run("check", "nowhere.ir", "folder", "binary.ir", "model.ir", "--json")
    assert result.exit_code == 1
    messages = [d["message"] for d in json.loads(result.output)]
    assert [m.split(":")[0] for m in messages[:2]] == ["cannot read nowhere.ir", "cannot read folder"]
    assert len(messages) == 3


UNUSED = """
weight @w : f32[8]
weight @sized : f32[h]
const @c : f32[2] = [1, 2]

func @in_place(inout c: f32[n]) -> f32[n] {
    d = add(c, 1)
    update c = d
    return d
}

func @main(x: f32[n, 8], q: bool[], inout c: f32[n]) -> f32[n, 8] {
    dead = relu(x)
    v, i = topk(x, k=2)
    a, b = topk(x, k=2)
    _meant = relu(x)
    seen = checked(x, q)
    k: f32[n, m] = match_cast(x) where m == 8
    called = @in_place(c)
    t = (a, x)
    y = t.1
    return y
}
"""


def test_values_that_nobody_reads_are_warned_of(folder: Path) -> None:
    (folder / "unused.ir").write_text(UNUSED)
    result = run("check", "unused.ir", "--json")
    assert result.exit_code == 0
    found = [(d["severity"], d["message"], d["line"]) for d in json.loads(result.output)]
    assert found == [
        ("warning", "`dead` is not used", 13),
        ("warning", "`v` and `i` are not used", 14),
        ("warning", "@c is not used", 4),
        ("warning", "@w is not used", 2),
    ]
    shown = run("check", "unused.ir", "model.ir")
    assert shown.exit_code == 0
    assert "warning: `dead` is not used" in shown.output
    assert "2 files checked, nothing wrong, 4 warnings" in shown.output


def test_standard_input_is_checked_and_formatted(folder: Path) -> None:
    def given(*arguments: str, text: str) -> Result:
        return CliRunner().invoke(group, arguments, input=text, prog_name="pliant")

    assert "1 file checked, nothing wrong" in given("check", "-", text=PROGRAM).output
    wrong = given("check", "-", text="func @main(x: f32[n]) -> f32[n] { return y }")
    assert wrong.exit_code == 1
    assert "<stdin>:1:42" in wrong.output
    assert "^" in wrong.output
    formatted = given("fmt", "-", text=PROGRAM)
    assert formatted.output == format_text(PROGRAM)
    assert given("fmt", "-", "--check", text=PROGRAM).exit_code == 1
    assert given("fmt", "-", "--check", text=formatted.output).exit_code == 0
    assert given("opt", "-", "-o", "-", text=PROGRAM).output.startswith("weight @w")


def test_brackets_in_the_table_of_operators_are_shown(folder: Path) -> None:
    assert "axis=[-2, -1]" in run("ops").output
    assert "[rows, features]" in run("ops").output
