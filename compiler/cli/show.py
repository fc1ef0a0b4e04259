"""What commands print: diagnostics, tables, progress.  Results go to standard output, everything else to error."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...ir.diagnostics import CompileError, Diagnostic
from ...ir.diagnostics import error as diagnostic
from ...ir.graph import Module
from ...ir.loops import Program
from ...ir.printer import print_module
from ...ir.printer_loops import print_program
from ..progress import Progress, Stage

STANDARD_OUTPUT = "standard output"
MAX_TEXT = 64 << 20
"""Bytes of text that are read: no program is as long, but a device may never end."""


def out(text: str = "", *, newline: bool = True) -> None:
    """Prints to standard output; OSError that names it where that fails."""
    try:
        click.echo(text, nl=newline)
    except OSError as failed:
        raise standard_output(failed) from None


def standard_output(failed: OSError) -> OSError:
    """The error with a name of what could not be written."""
    if failed.filename is None and failed.errno is not None:
        failed.filename = STANDARD_OUTPUT
    return failed


def source(name: str) -> str:
    """The text of a file, of standard input for `-`; CompileError when that cannot be read or is no UTF-8 text."""
    shown = "standard input" if name == "-" else name
    try:
        with click.open_file(name, "rb") as file:
            data: bytes = file.read(MAX_TEXT + 1)
    except OSError as failed:
        raise diagnostic(f"cannot read {shown}: {failed.strerror or failed}") from None
    if len(data) > MAX_TEXT:
        raise diagnostic(f"{shown} is longer than {MAX_TEXT >> 20} MiB: that is no program")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise diagnostic(f"{shown} is not UTF-8 text: {fault.reason} at byte {fault.start}") from None


def file_name(name: str) -> str:
    """How diagnostics call a file."""
    return "<stdin>" if name == "-" else name


def examples(*lines: tuple[str, str]) -> str:
    """The end of a command's help: commands, and what each is for."""
    width = max(len(command) for command, _ in lines)
    return "\b\nExamples:\n" + "\n".join(f"  {command:{width}}  {words}".rstrip() for command, words in lines)


def diagnostics(found: Iterable[Diagnostic], sources: Mapping[str, str]) -> None:
    """Prints diagnostics with excerpts, on standard error."""
    for i, d in enumerate(found):
        head, _, rest = d.render(_with_text(sources, d)).partition("\n")
        styled = click.style(head, fg="red" if d.severity == "error" else "yellow", bold=True)
        _say("\n" * bool(i) + styled + (f"\n{rest}" if rest else ""))


def _with_text(sources: Mapping[str, str], found: Diagnostic) -> Mapping[str, str]:
    """The texts, and that of the file which the diagnostic is about, where it can be read again."""
    name = found.span.file if found.span is not None else None
    if name is None or name in sources or not os.path.isfile(name):
        return sources
    with suppress(CompileError):
        return {**sources, name: source(name)}
    return sources


def error(message: str) -> None:
    """One line of error that has no place in a text."""
    _say(click.style("error: ", fg="red", bold=True) + message)


def _say(text: str) -> None:
    with suppress(OSError):  # the status tells what standard error cannot
        click.echo(text, err=True)


def any_stage(ir: object) -> str:
    """A module or program as text."""
    if isinstance(ir, Module):
        return print_module(ir)
    return print_program(ir) if isinstance(ir, Program) else repr(ir)


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """A table on standard output, as wide as it needs to be when that is no terminal."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(Text(str(cell)) for cell in row))  # what is in brackets is text, not markup
    terminal = sys.stdout is not None and sys.stdout.isatty()
    drawn = io.StringIO()
    width = None if terminal else 200
    Console(file=drawn, highlight=False, width=width, force_terminal=terminal).print(made)
    out(drawn.getvalue(), newline=False)


_BAR = 24


@contextmanager
def progress() -> Iterator[Progress]:
    """A bar and the stage, on a terminal; quiet otherwise."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _stage: None
        return
    _draw("compiling")
    try:
        yield _bar
    finally:
        _draw("")


def _bar(stage: Stage) -> None:
    filled = _BAR * stage.done // stage.total if stage.total else 0
    _draw(f"[{'#' * filled}{'.' * (_BAR - filled)}] {stage}" if stage.total else str(stage))


def _draw(text: str) -> None:
    """Writes over the line that was there; the cursor stays visible, whenever the process ends."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"\r{text}\x1b[K")
        sys.stderr.flush()


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file that is there."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def size(count: int | None) -> str:
    """Bytes for people."""
    if count is None:
        return "unbounded"
    value, units = float(count), iter(("bytes", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while value >= 1024 and unit != "TiB":
        value, unit = value / 1024, next(units)
    return f"{count} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
