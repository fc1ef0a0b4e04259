"""Runs the file tests, and tests the harness itself."""

from pathlib import Path

import pytest

from pliant.ir.diagnostics import Diagnostic, Span
from tests.filetests import (
    TESTS,
    BadFileTest,
    Mark,
    Outcome,
    blessed,
    differences,
    discover,
    needs_output,
    outcome,
    parse_file_test,
)


@pytest.mark.parametrize("path", discover(), ids=lambda path: path.relative_to(TESTS).as_posix())
def test_file(path: Path, bless: bool) -> None:
    test = parse_file_test(path.read_text(encoding="utf-8"), path.relative_to(TESTS).as_posix())
    got = outcome(test)
    problems = differences(test, got)
    assert not problems, "\n\n".join(problems)
    if bless:
        path.write_text(blessed(test, got), encoding="utf-8")
    elif needs_output(test):
        assert test.expected is not None, "nothing says what must come out: run `make bless`"
        assert got.output == test.expected


def diagnostic(line: int | None, message: str) -> Diagnostic:
    return Diagnostic(message, None if line is None else Span("t.ir", line, 1, line, 2))


def test_a_file_is_taken_apart() -> None:
    test = parse_file_test("# test: parse cse,dce\nfunc\n\n# ----\n# a\n#\n#   b\n", "t.ir")
    assert (test.mode, test.argument, test.source) == ("parse", "cse,dce", "# test: parse cse,dce\nfunc\n")
    assert test.expected == "a\n\n  b"


def test_blessing_changes_only_what_comes_out() -> None:
    text = "# test: parse\nfunc\n# ----\n# old\n"
    test = parse_file_test(text, "t.ir")
    new = blessed(test, Outcome("a\n\n  b"))
    assert new == "# test: parse\nfunc\n# ----\n# a\n#\n#   b\n"
    assert parse_file_test(new, "t.ir").expected == "a\n\n  b"
    assert blessed(test, Outcome("old")) == text


def test_blessing_a_file_of_marks_adds_nothing() -> None:
    text = "# test: parse\nx = y  # error: no value y\n"
    test = parse_file_test(text, "t.ir")
    assert not needs_output(test)
    assert blessed(test, Outcome("error: no value y")) == text


def test_marks_stand_on_their_line_or_say_it() -> None:
    test = parse_file_test(
        "# test: parse\nx = y  # error: first # error: second\n# error-at 9: third\n# error-at none: fourth\n", "t.ir"
    )
    assert test.marks == (Mark(2, "first"), Mark(2, "second"), Mark(9, "third"), Mark(None, "fourth"))


def test_diagnostics_must_be_exactly_the_marked_ones() -> None:
    test = parse_file_test("# test: parse\nx = y  # error: no value\n", "t.ir")
    right = diagnostic(2, "there is no value y")
    assert differences(test, Outcome("", (right,))) == []
    assert len(differences(test, Outcome("", ()))) == 1
    assert len(differences(test, Outcome("", (diagnostic(3, "there is no value y"),)))) == 2
    assert len(differences(test, Outcome("", (right, diagnostic(None, "more"))))) == 1


@pytest.mark.parametrize("text", ["", "func", "# test:", "# test: nothing-known"])
def test_a_file_must_say_what_is_tested(text: str) -> None:
    with pytest.raises(BadFileTest):
        parse_file_test(text, "t.ir")
