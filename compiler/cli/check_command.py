"""`pliant check`."""

from __future__ import annotations

import json
import os

import click

from ...ir.diagnostics import CompileError, Diagnostic
from ...ir.infer_module import infer_module
from ...ir.parser import parse_module_all
from ...ir.unused import unused
from . import show

EXAMPLES = show.examples(
    ("pliant check model.ir", ""),
    ("pliant check *.ir --json", "for an editor"),
    ("pliant check - < model.ir", "standard input"),
)


@click.command("check", epilog=EXAMPLES)
@click.argument("files", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="One list of diagnostics on standard output, for editors.")
def command(files: tuple[str, ...], as_json: bool) -> None:
    """Parse, type and verify FILES (`-` for standard input); exit with status 1 when anything is wrong.

    Values that nobody reads are warned of.
    """
    found: list[Diagnostic] = []
    sources: dict[str, str] = {}
    for name in files:
        if not as_json:
            _must_be_there(name)
        shown = show.file_name(name)
        try:
            sources[shown] = show.source(name)
        except CompileError as refused:
            found.extend(refused.diagnostics)
        else:
            found.extend(check(sources[shown], shown))
    wrong = any(d.severity == "error" for d in found)
    if as_json:
        show.out(json.dumps([d.to_json() for d in found], indent=2))
    else:
        show.diagnostics(found, sources)
        if not wrong:
            warned = f", {len(found)} warning{'s' if len(found) != 1 else ''}" if found else ""
            show.out(f"{len(files)} file{'s' if len(files) != 1 else ''} checked, nothing wrong{warned}")
    if wrong:
        raise click.exceptions.Exit(1)


def _must_be_there(name: str) -> None:
    """A name of no file is wrong usage, but for editors, which read diagnostics only."""
    if name != "-" and not os.path.lexists(name):
        raise click.BadParameter(f"File '{name}' does not exist.", param_hint="'FILES...'")


def check(text: str, name: str) -> list[Diagnostic]:
    """Everything that is wrong with a program; what is only odd where nothing is wrong."""
    module, diagnostics = parse_module_all(text, name)
    if diagnostics or module is None:
        return diagnostics
    try:
        infer_module(module)
    except CompileError as refused:
        return list(refused.diagnostics)
    return unused(module)
