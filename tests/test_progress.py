"""What a compilation says of how far it is: stages in the order in which they begin, and kernels counted to the end."""

from __future__ import annotations

import io
import re

import pytest

import pliant
from pliant.compiler.cli import show
from pliant.compiler.progress import Stage

LAYERS = 6
PROGRAM = f"""
func @main(x: f32[n, 16], w: f32[16, 16]) -> f32[n, 16] {{
{"".join(f"    m{i} = matmul({f's{i - 1}' if i else 'x'}, w)  s{i} = softmax(m{i})" for i in range(LAYERS))}
    return s{LAYERS - 1}
}}
"""


def test_stages_are_told_when_they_begin_and_kernels_are_counted() -> None:
    told: list[Stage] = []
    exe = pliant.compile(PROGRAM, progress=told.append)
    names = list(dict.fromkeys(s.name for s in told))
    assert names == ["checking types", "fusing", "scheduling loops", "generating code", "compiling"]
    total = len(exe.artifact.contract.kernels)  # equal ones are made once
    assert total >= 4
    counted = [(s.done, s.total) for s in told if s.name == "generating code"]
    assert counted == [(i, total) for i in range(total)]
    compiled = [s.done for s in told if s.name == "compiling"]
    assert compiled == sorted(compiled)
    assert (compiled[0], compiled[-1]) == (0, total)
    assert len(compiled) >= 3
    assert str(told[-1]) == f"compiling: {total} of {total} kernels"
    assert str(told[0]) == "checking types"


def test_the_command_line_draws_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with show.progress() as progress:
        progress(Stage("fusing"))
        progress(Stage("compiling", 3, 12))
        progress(Stage("compiling", 12, 12))
    lines = [re.sub(r"\x1b\[K", "", line) for line in screen.getvalue().split("\r")]
    quarter, whole = f"[{'#' * 6}{'.' * 18}]", f"[{'#' * 24}]"
    shown = ["", "compiling", "fusing", f"{quarter} compiling: 3 of 12 kernels", f"{whole} compiling: 12 of 12 kernels"]
    assert lines == [*shown, ""]


def test_nothing_is_drawn_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with show.progress() as progress:
        progress(Stage("compiling", 3, 12))
    assert capsys.readouterr() == ("", "")
