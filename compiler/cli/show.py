"""What commands print: diagnostics, tables, progress.  Results go to standard output, everything else to error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import click
from rich.console import Console
from rich.table import Table

from ...ir.diagnostics import Diagnostic
from ...ir.diagnostics import error as diagnostic
from ...ir.graph import Module
from ...ir.loops import Program
from ...ir.printer import print_module
from ...ir.printer_loops import print_program


def source(name: str) -> str:
    """The text of a file, of standard input for `-`; CompileError when it is no UTF-8 text."""
    with click.open_file(name, "rb") as file:
        data: bytes = file.read()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise diagnostic(f"{name} is not UTF-8 text: {fault.reason} at byte {fault.start}") from None


def examples(*lines: tuple[str, str]) -> str:
    """The end of a command's help: commands, and what each is for."""
    width = max(len(command) for command, _ in lines)
    return "\b\nExamples:\n" + "\n".join(f"  {command:{width}}  {words}".rstrip() for command, words in lines)


def diagnostics(found: Iterable[Diagnostic], sources: Mapping[str, str]) -> None:
    """Prints diagnostics with excerpts, on standard error."""
    for i, d in enumerate(found):
        if i:
            click.echo(err=True)
        head, _, rest = d.render(sources).partition("\n")
        click.echo(click.style(head, fg="red" if d.severity == "error" else "yellow", bold=True), err=True)
        if rest:
            click.echo(rest, err=True)


def error(message: str) -> None:
    """One line of error that has no place in a text."""
    click.echo(click.style("error: ", fg="red", bold=True) + message, err=True)


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
        made.add_row(*(str(cell) for cell in row))
    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=200)
    console.print(made)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A spinner that names the stage, on a terminal; quiet otherwise."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _stage: None
        return
    with console.status("compiling") as status:
        yield lambda stage: status.update(stage)


def size(count: int | None) -> str:
    """Bytes for people."""
    if count is None:
        return "unbounded"
    value, units = float(count), iter(("bytes", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while value >= 1024 and unit != "TiB":
        value, unit = value / 1024, next(units)
    return f"{count} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
