"""Places in source text, and what is said to a user about them.

A diagnostic has a message (what is wrong), a primary place with a label (where), notes (why: where each
thing involved came from) and helps (a way out).  `render` prints it with the source line and a caret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import PliantError

if TYPE_CHECKING:
    from .facts import Fact

WIDTH = 160  # characters of a source line that are shown
MOST_SHOWN = 50  # diagnostics that are printed; `CompileError.diagnostics` has all


@dataclass(frozen=True, order=True)
class Span:
    """A half-open region of a source file; lines and columns count from 1."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Diagnostic:
    """One problem.  `notes` say why, `helps` say what to do; `wanted` are the facts whose want it is."""

    message: str
    span: Span | None = None
    label: str = ""
    notes: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    severity: str = "error"
    wanted: tuple[Fact, ...] = field(default=(), compare=False)

    def render(self, sources: Mapping[str, str] | None = None) -> str:
        """Text for a terminal; `sources` maps file names to their text (a missing one loses only the excerpt)."""
        lines = [f"{self.severity}: {self.message}"]
        gutter = ""
        if self.span is not None:
            lines.append(f"  --> {self.span}")
            excerpt = _excerpt(self.span, self.label, (sources or {}).get(self.span.file))
            gutter = " " * (len(str(self.span.line)) + 1)
            lines.extend(excerpt)
        lines.extend(f"{gutter} = {note}" for note in self.notes)
        lines.extend(f"{gutter} = help: {text}" for text in self.helps)
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """Plain data for editors (`pliant check --json`)."""
        span = self.span
        return {
            "severity": self.severity,
            "message": self.message,
            "file": span.file if span else None,
            "line": span.line if span else None,
            "column": span.column if span else None,
            "end_line": span.end_line if span else None,
            "end_column": span.end_column if span else None,
            "label": self.label,
            "notes": list(self.notes),
            "helps": list(self.helps),
        }


def _excerpt(span: Span, label: str, source: str | None) -> list[str]:
    text = _line_of(source, span.line)
    if text is None:
        return [f"   {label}"] if label else []
    start = span.column - 1
    width = max(1, (span.end_column if span.end_line == span.line else len(text) + 1) - span.column)
    if len(text) > WIDTH:
        # Of a long line what is around the place, or a message for each mistake in it would repeat it all.
        first = max(0, start - WIDTH // 2)
        left, right = "... " if first else "", " ..." if first + WIDTH < len(text) else ""
        text = left + text[first : first + WIDTH] + right
        start = start - first + len(left)
        width = min(width, max(1, len(text) - start))
    number = str(span.line)
    # Tabs are kept in the padding so that the caret stays under its text.
    pad = "".join(c if c == "\t" else " " for c in text[:start])
    caret = f" {' ' * len(number)} | {pad}{'^' * width} {label}".rstrip()
    return [f" {number} | {text}", caret]


def _line_of(source: str | None, number: int) -> str | None:
    """A line of the text, without taking all of it apart."""
    if source is None or number < 1:
        return None
    start = 0
    for _ in range(number - 1):
        start = source.find("\n", start) + 1
        if not start:
            return None
    end = source.find("\n", start)
    line = source[start : end if end >= 0 else len(source)]
    return line.removesuffix("\r") if line or end >= 0 else None


@dataclass(eq=False)
class CompileError(PliantError):
    """What pliant raises for a mistake in a program; holds one or more diagnostics and the sources they point into."""

    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = [d.render(self.sources) for d in self.diagnostics[:MOST_SHOWN]]
        more = len(self.diagnostics) - len(shown)
        return "\n\n".join([*shown, f"... and {more} more"] if more else shown)

    def to_dict(self) -> dict[str, Any]:
        """With the diagnostics as `pliant check --json` prints them."""
        return super().to_dict() | {"diagnostics": [d.to_json() for d in self.diagnostics]}


def error(
    message: str,
    span: Span | None = None,
    label: str = "",
    notes: tuple[str, ...] = (),
    helps: tuple[str, ...] = (),
) -> CompileError:
    """A `CompileError` with one diagnostic, to be raised by the caller."""
    return CompileError((Diagnostic(message, span, label, notes, helps),))
