"""The command line as a process: standard files that are closed or full, pipes, and Ctrl-C at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a shell")

PROGRAM = """
func @main(x: f32[n, 8]) -> f32[n, 8]
{
    y = relu(x)
    return y
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.ir").write_text(PROGRAM)
    (tmp_path / "wrong.ir").write_text("func @main(x: f32[n]) -> f32[n] { return y }")
    return tmp_path


def shell(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    text = command.replace("pliant", f"{sys.executable} -m pliant")
    return subprocess.run(["bash", "-c", text], capture_output=True, text=True, cwd=folder, check=False, timeout=100)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("pliant ops >&-", "error: standard output: Bad file descriptor\n"),
        ("pliant ops > /dev/full", "error: standard output: No space left on device\n"),
        ("pliant --help > /dev/full", "error: standard output: No space left on device\n"),
        ("pliant check --help > /dev/full", "error: standard output: No space left on device\n"),
        ("pliant check model.ir --json >&-", "error: standard output: Bad file descriptor\n"),
        ("pliant fmt - < model.ir > /dev/full", "error: standard output: No space left on device\n"),
        ("pliant check - <&-", "error: cannot read standard input: Bad file descriptor\n"),
        ("pliant check wrong.ir 2>&-", ""),
        ("pliant check wrong.ir 2> /dev/full", ""),
        ("pliant compile model.ir -o y.pliant <&- >&- 2>&-", ""),
    ],
)
def test_standard_files_that_cannot_be_used_are_said_in_one_line(folder: Path, command: str, said: str) -> None:
    done = shell(folder, command)
    assert (done.returncode, done.stderr) == (1, said)


def test_a_reader_that_has_enough_is_no_error(folder: Path) -> None:
    done = shell(folder, "pliant ops | head -1")
    assert done.stdout.startswith("family")
    assert done.stderr == ""


def test_programs_and_artifacts_go_through_pipes(folder: Path) -> None:
    done = shell(folder, "mkfifo pipe; pliant compile <(cat model.ir) -o pipe & head -c 2 pipe; wait")
    assert "PK" in done.stdout
    assert done.stderr == ""
    assert shell(folder, "pliant run <(cat model.ir) --dim n=2").stdout.startswith("@main at n=2")
    assert "no regular file" in shell(folder, "timeout 20 pliant inspect pipe").stderr


def test_names_that_the_terminal_cannot_show(folder: Path) -> None:
    done = shell(folder, "cp wrong.ir $'\\xff\\u00e9.ir'; PYTHONIOENCODING=ascii pliant check $'\\xff\\u00e9.ir'")
    assert done.returncode == 1
    assert done.stderr.startswith("error: there is no value `y`")


# Until the first line of ours runs, the interpreter has not yet handed over what a Ctrl-C does.
STARTED = """
import os, sys, runpy
sys.argv = ["pliant", *sys.argv[1:]]
import pliant.__main__ as entry
hold = entry._hold_standard_files
def said():
    hold()
    os.write(2, b"!")
entry._hold_standard_files = said
entry.main()
"""


@pytest.mark.parametrize("seed", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 5))])
def test_an_interrupt_ends_it_at_once_and_leaves_nothing_behind(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    commands = (["compile", "model.ir"], ["run", "model.ir", "--output", "y.npz"], ["ops"], ["fmt", "model.ir"])
    for command in commands:
        with subprocess.Popen(
            [sys.executable, "-c", STARTED, *command],
            cwd=folder,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stderr is not None
            assert process.stderr.read(1) == b"!"
            time.sleep(rng.uniform(0, 0.6))
            process.send_signal(signal.SIGINT)
            assert process.stderr.read() == b""
            assert process.wait() in (-signal.SIGINT, 0)
        assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]
        assert (folder / "model.ir").read_text()


def test_an_interrupt_while_a_file_is_written_removes_the_half(folder: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from pliant.compiler.cli import options
signal.signal(signal.SIGINT, signal.SIG_DFL)
with options.writing(Path("big")) as file:
    file.write(b"half")
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")
    assert sorted(os.listdir(folder)) == ["model.ir", "wrong.ir"]
