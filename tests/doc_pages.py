"""Runs what the documentation shows. A page's blocks share a folder and Python names, and run from top to bottom.

    ```ir [NAME]            a whole program: parsed, typed, and kept as the file NAME for the blocks below
    ```ir refused [NAME]    a program that is refused
    ```python               run; what it prints is shown by a `text` block right below it, if there is one
    ```python raises        must raise an error of ours; the `text` block below shows `Class: message`
    ```python torch         run where torch is installed
    ```console              `$ pliant ..`, `$ python ..`, `$ cat FILE`, `$ echo $?`, each with what it prints
    ```text                 what the block above prints
    ```lark                 the grammar, as it is in `ir/grammar.lark`
    ```sh                   for people to type; the targets of `make` must exist
    ```                     a drawing; nothing is done with it (nor with ```cuda and ```cpp, which excerpts stand in)

In what is printed, `...` stands for anything. `pytest tests/test_docs.py --bless` rewrites what differs; with `...` as
the last line as many lines stay as there were, and blocks with `...` elsewhere are for people to mend.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from click.testing import CliRunner

from pliant import CompileError, PliantError
from pliant.compiler.cli.app import group
from pliant.compiler.cli.check_command import check

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md"))))
GRAMMAR = ROOT / "ir" / "grammar.lark"
_FENCE = re.compile(r"^```(.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after the fence, its lines, and the number of its first line, from 1."""

    words: tuple[str, ...]
    lines: tuple[str, ...]
    start: int

    @property
    def kind(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def end(self) -> int:
        """The number of the line of the closing fence."""
        return self.start + len(self.lines)

    @property
    def text(self) -> str:
        return "".join(line + "\n" for line in self.lines)


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    found, lines, opened = [], page.split("\n"), None
    for number, line in enumerate(lines, start=1):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if opened is None:
            opened = (tuple(fence[1].split()), number + 1)
        else:
            words, start = opened
            found.append(Block(words, tuple(lines[start - 1 : number - 1]), start))
            opened = None
    assert opened is None, f"the fence of line {opened[1] - 1 if opened else 0} is not closed"
    return found


@dataclass(frozen=True)
class Edit:
    """What lines `start..stop` of the page (half open, from 1) should be, and why."""

    start: int
    stop: int
    lines: tuple[str, ...]
    reason: str


def matches(shown: str, got: str) -> bool:
    """Whether what is shown, in which `...` stands for anything, is what was printed."""
    parts = [re.escape(part) for part in trimmed(shown).split("...")]
    return re.fullmatch(".*?".join(parts), trimmed(got), re.DOTALL) is not None


def trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))


@dataclass
class PageRun:
    """One page, run in a folder of its own."""

    name: str
    folder: Path
    names: dict[str, object] = field(default_factory=dict)
    status: int = 0
    edits: list[Edit] = field(default_factory=list)

    def run(self, page: str) -> list[Edit]:
        """What differs from the page. AssertionError for what no rewriting can mend."""
        listed = blocks(page)
        os.symlink(ROOT / "examples", self.folder / "examples")
        with contextlib.chdir(self.folder):
            for i, block in enumerate(listed):
                below = listed[i + 1] if i + 1 < len(listed) else None
                shown = below if below is not None and self._belongs(page, block, below) else None
                self._block(block, shown)
        return self.edits

    def _belongs(self, page: str, block: Block, below: Block) -> bool:
        between = page.split("\n")[block.end : below.start - 2]
        return below.kind == "text" and not any(line.strip() for line in between)

    def _block(self, block: Block, shown: Block | None) -> None:
        place = f"{self.name}:{block.start}"
        if block.kind == "ir":
            self._program(block, shown, place)
        elif block.kind == "python":
            self._python(block, shown, place)
        elif block.kind == "console":
            self._console(block, place)
        elif block.kind == "lark":
            self._compare(block, GRAMMAR.read_text(encoding="utf-8"), place)
        elif block.kind == "sh":
            _targets_exist(block.text, place)
        else:
            assert block.kind in ("", "text", "cuda", "cpp"), f"{place}: nothing runs a block of `{block.kind}`"

    def _compare(self, shown: Block | None, got: str, place: str) -> None:
        if shown is not None and not matches(shown.text, got):
            lines = tuple(trimmed(got).split("\n"))
            if shown.lines[-1:] == ("...",):
                lines = (*lines[: len(shown.lines) - 1], "...")
            by_hand = any("..." in line and line not in lines for line in shown.lines)
            assert not by_hand, f"{place} shows something else than\n{got}"
            self.edits.append(Edit(shown.start, shown.end, lines, f"{place} shows something else than\n{trimmed(got)}"))

    def _program(self, block: Block, shown: Block | None, place: str) -> None:
        words = [w for w in block.words[1:] if w != "refused"]
        name = words[0] if words else "model.ir"
        (self.folder / name).write_text(block.text, encoding="utf-8")
        found = [d for d in check(block.text, name) if d.severity == "error"]
        rendered = "\n\n".join(d.render({name: block.text}) for d in found)
        if "refused" in block.words:
            assert found, f"{place} is not refused"
            self._compare(shown, rendered, place)
        else:
            assert not found, f"{place} is refused:\n{rendered}"

    def _python(self, block: Block, shown: Block | None, place: str) -> None:
        if "torch" in block.words and find_spec("torch") is None:
            return
        code = compile("\n" * (block.start - 1) + block.text, self.name, "exec")
        printed, raised = io.StringIO(), ""
        with contextlib.redirect_stdout(printed):
            try:
                exec(code, self.names)
            except (CompileError, PliantError) as error:
                raised = f"{type(error).__name__}: {error}"
        assert bool(raised) == ("raises" in block.words), f"{place}: {raised or 'raises nothing'}"
        self._compare(shown, printed.getvalue() + raised, place)

    def _console(self, block: Block, place: str) -> None:
        for number, command, shown in _commands(block):
            status, got = self._command(command, f"{self.name}:{number}")
            expected = shown is not None and "rror" in shown.text
            failed = status and not expected and "echo $?" not in block.text
            assert not failed, f"{self.name}:{number}: status {status}\n{got}"
            self._compare(shown, got, f"{self.name}:{number}")
            self.status = status

    def _command(self, command: str, place: str) -> tuple[int, str]:
        if command == "echo $?":
            return 0, f"{self.status}\n"
        program, *arguments = shlex.split(command)
        if program == "pliant":
            done = CliRunner().invoke(group, arguments, prog_name="pliant", terminal_width=80, max_content_width=80)
            assert done.exception is None or isinstance(done.exception, SystemExit), f"{place}: {done.exception!r}"
            return done.exit_code, done.output
        if program == "cat":
            return 0, "".join(Path(name).read_text(encoding="utf-8") for name in arguments)
        assert program == "python", f"{place}: nothing runs `{program}`"
        ran = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return ran.returncode, ran.stdout


def _commands(block: Block) -> Iterator[tuple[int, str, Block | None]]:
    """(line, command, what is shown of its output) of a console block."""
    starts = [i for i, line in enumerate(block.lines) if line.startswith("$ ")]
    for i, stop in zip(starts, [*starts[1:], len(block.lines)], strict=True):
        number = block.start + i
        yield number, block.lines[i][2:], Block(("text",), block.lines[i + 1 : stop], number + 1)


def _targets_exist(text: str, place: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake ([a-z-]+)", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{place}: there is no `make {target}`"


def rewritten(page: str, edits: list[Edit]) -> str:
    """The page with what was printed."""
    lines = page.split("\n")
    for edit in sorted(edits, key=lambda e: e.start, reverse=True):
        lines[edit.start - 1 : edit.stop - 1] = edit.lines if edit.lines != ("",) else ()
    return "\n".join(lines)
