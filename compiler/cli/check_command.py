"""`pliant check`."""

from __future__ import annotations

import json

import click

from ...ir.diagnostics import CompileError, Diagnostic
from ...ir.infer_module import infer_module
from ...ir.parser import parse_module_all
from . import show

EXAMPLES = show.examples(
    ("pliant check model.ir", ""),
    ("pliant check *.ir --json", "for an editor"),
)


@click.command("check", epilog=EXAMPLES)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="One list of diagnostics on standard output, for editors.")
def command(files: tuple[str, ...], as_json: bool) -> None:
    """Parse, type and verify FILES; exit with status 1 when anything is wrong."""
    found: list[Diagnostic] = []
    sources: dict[str, str] = {}
    for name in files:
        try:
            sources[name] = show.source(name)
        except CompileError as refused:
            found.extend(refused.diagnostics)
        else:
            found.extend(check(sources[name], name))
    if as_json:
        click.echo(json.dumps([d.to_json() for d in found], indent=2))
    else:
        show.diagnostics(found, sources)
        if not found:
            click.echo(f"{len(files)} file{'s' if len(files) != 1 else ''} checked, nothing wrong")
    if found:
        raise click.exceptions.Exit(1)


def check(text: str, name: str) -> list[Diagnostic]:
    """Everything that is wrong with a program."""
    module, diagnostics = parse_module_all(text, name)
    if diagnostics or module is None:
        return diagnostics
    try:
        infer_module(module)
    except CompileError as refused:
        return list(refused.diagnostics)
    return []
