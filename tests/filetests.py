"""File tests: `.ir` files that say themselves what is done with them and what must come out.

    # test: MODE ARGUMENT          the first line; what is done, see MODES
    ...                            the program
    # ----                         what must come out stands below, one comment line for each line
    # ...

The file stays a valid program. Modes, by the folder that their files usually stand in:

    parse                          print the module; printing and parsing again must give an equal module
    verify                         infer all types, print with types
    pass NAME,NAME{option=value}   infer, run these passes and verify after each, print without the types
    loops NAME,NAME                lower a graph (or take loops), run these passes over the kernels, print the loops
    plan TARGET                    the memory plan of every function, on cpu:x86-64-v3 if no target is named
    run n=0 n=3,m=2 ..             compile, and run at each binding on random input, against the interpreter

A mistake that must be refused is marked on its line: `z = add(x, y)  # error: part of the message`. The diagnostics
must be exactly the marked ones. `# error-at 7: ...` on a line of its own marks line 7, `# error-at none: ...` a
diagnostic without a place. What is printed for a refused file (the diagnostics as a user sees them) is compared only
where the file has a `# ----` section.

`pytest tests/test_files.py --bless` (`make bless`) rewrites what must come out; never the marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pliant.ir.diagnostics import CompileError, Diagnostic
from tests.filetest_modes import MODES

TESTS = Path(__file__).resolve().parent
FOLDERS = ("parse", "verify", "passes", "loops", "plan", "run")
DIVIDER = "# ----"

_MARK = re.compile(r"#\s*error(?:-at\s+(?P<line>\d+|none))?:\s*(?P<text>.*?)\s*(?=#\s*error(?:-at\b|:)|$)")


class BadFileTest(ValueError):
    """A file that does not say what is to be tested."""


@dataclass(frozen=True)
class Mark:
    """A diagnostic that must come: its line (None: it has no place) and a part of its message."""

    line: int | None
    text: str

    def fits(self, diagnostic: Diagnostic) -> bool:
        line = diagnostic.span.line if diagnostic.span else None
        return line == self.line and self.text in diagnostic.message

    def __str__(self) -> str:
        return f"line {self.line or 'none'}: {self.text}"


@dataclass(frozen=True)
class FileTest:
    name: str
    mode: str
    argument: str
    source: str
    marks: tuple[Mark, ...]
    expected: str | None


@dataclass(frozen=True)
class Outcome:
    output: str
    diagnostics: tuple[Diagnostic, ...] = ()


def discover() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (TESTS / folder).rglob("*.ir"))


def parse_file_test(text: str, name: str) -> FileTest:
    """Takes a file apart; raises BadFileTest where it does not say what is tested."""
    lines = text.split("\n")
    header = re.fullmatch(r"#\s*test:\s*(\S+)\s*(.*?)\s*", lines[0])
    if header is None:
        raise BadFileTest(f"{name}: the first line must be `# test: MODE ...`")
    mode, argument = header.groups()
    if mode not in MODES:
        raise BadFileTest(f"{name}: there is no mode {mode}; there are {', '.join(MODES)}")
    end = lines.index(DIVIDER) if DIVIDER in lines else len(lines)
    expected = None
    if end < len(lines):
        expected = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[end + 1 :]).rstrip("\n")
    marks = tuple(_marks(lines[:end]))
    return FileTest(name, mode, argument, "\n".join(lines[:end]).rstrip("\n") + "\n", marks, expected)


def _marks(lines: list[str]) -> Iterator[Mark]:
    for number, line in enumerate(lines, start=1):
        for match in _MARK.finditer(line):
            place = match["line"]
            yield Mark(number if place is None else None if place == "none" else int(place), match["text"])


def outcome(test: FileTest) -> Outcome:
    """Does what the file says."""
    try:
        return Outcome(MODES[test.mode](test.source, test.name, test.argument).rstrip("\n"))
    except CompileError as refused:
        rendered = "\n\n".join(d.render({test.name: test.source}) for d in refused.diagnostics)
        return Outcome(rendered, refused.diagnostics)


def differences(test: FileTest, got: Outcome) -> list[str]:
    """What is wrong with the diagnostics: marks that nothing fits, diagnostics that nothing marks."""
    unmarked = list(got.diagnostics)
    problems = []
    for mark in test.marks:
        fitting = next((d for d in unmarked if mark.fits(d)), None)
        if fitting is None:
            problems.append(f"marked, but it did not come: {mark}")
        else:
            unmarked.remove(fitting)
    sources = {test.name: test.source}
    return problems + [f"came, but is not marked:\n{d.render(sources)}" for d in unmarked]


def needs_output(test: FileTest) -> bool:
    """A file that marks errors says by them what must come; any other needs what is printed."""
    return test.expected is not None or not test.marks


def blessed(test: FileTest, got: Outcome) -> str:
    """The file's text with what came as what must come."""
    if not needs_output(test):
        return test.source
    comments = [f"# {line}".rstrip() for line in got.output.split("\n")]
    return "\n".join([test.source.rstrip("\n"), DIVIDER, *comments]) + "\n"
