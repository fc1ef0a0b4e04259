"""How problems are shown: the excerpt, the caret, several at once, and as data."""

from __future__ import annotations

from pliant.ir.diagnostics import CompileError, Diagnostic, Span, error

SOURCE = {"a.ir": "first\n\tz = add(x, y)\nlast"}


def test_an_excerpt_with_its_caret_under_the_text() -> None:
    shown = Diagnostic("it is wrong", Span("a.ir", 2, 6, 2, 9), "here", ("why",), ("do this",)).render(SOURCE)
    assert shown.split("\n") == [
        "error: it is wrong",
        "  --> a.ir:2:6",
        " 2 | \tz = add(x, y)",
        "   | \t    ^^^ here",
        "   = why",
        "   = help: do this",
    ]


def test_a_region_of_several_lines_is_marked_to_the_end_of_its_first() -> None:
    shown = Diagnostic("it is wrong", Span("a.ir", 1, 3, 2, 2)).render(SOURCE)
    assert shown.split("\n")[-1] == "   |   ^^^"


def test_without_a_source_the_place_stays() -> None:
    diagnostic = Diagnostic("it is wrong", Span("b.ir", 2, 6, 2, 9), "here")
    assert diagnostic.render().split("\n") == ["error: it is wrong", "  --> b.ir:2:6", "   here"]
    assert diagnostic.render({"b.ir": "one line"}).split("\n")[-1] == "   here"


def test_without_a_place() -> None:
    assert Diagnostic("it is wrong", notes=("why",)).render() == "error: it is wrong\n = why"


def test_an_error_shows_all() -> None:
    both = CompileError((Diagnostic("one"), Diagnostic("two", severity="warning")))
    assert str(both) == "error: one\n\nwarning: two"
    assert str(error("one", helps=("way out",))) == "error: one\n = help: way out"


def test_as_data() -> None:
    data = Diagnostic("m", Span("a.ir", 1, 2, 3, 4), "l", ("n",), ("h",)).to_json()
    assert data == {
        "severity": "error", "message": "m", "file": "a.ir", "line": 1, "column": 2, "end_line": 3, "end_column": 4,
        "label": "l", "notes": ["n"], "helps": ["h"],
    }  # fmt: skip
    assert Diagnostic("m").to_json()["line"] is None
