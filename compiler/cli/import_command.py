"""`pliant import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...ir.diagnostics import error
from ...ir.printer import print_module
from . import show

EXAMPLES = show.examples(
    ("pliant import model.pt2 -o model.ir --weights model.safetensors", ""),
    ("pliant import model.pt2 --coverage", "which operators it uses, and what becomes of them"),
    ("pliant import --coverage", "the same for all of core ATen"),
)


@click.command("import", epilog=EXAMPLES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
@click.option("-o", "output", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the program.")
@click.option("--weights", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the weights.")
@click.option("--coverage", is_flag=True, help="Print the operator table for FILE, or for all of core ATen.")
def command(file: Path | None, output: Path | None, weights: Path | None, coverage: bool) -> None:
    """Turn FILE, a program of torch.export.save (.pt2), into a program of the language and its weights."""
    torch = _torch_frontend()
    if coverage:
        rows = torch.coverage.core_rows() if file is None else torch.coverage.program_rows(torch.load_program(file))
        show.table(("operator", "used", "imported", "why not, or where"), rows)
        click.echo(f"\n{torch.coverage.summary(rows)}")
        return
    if file is None:
        raise click.UsageError("Missing argument 'FILE'.")
    imported = torch.import_program(torch.load_program(file))
    path = output or file.with_suffix(".ir")
    path.write_text(print_module(imported.module, types=False), encoding="utf-8")
    arrays = {**imported.weights, **imported.state}
    held = weights or path.with_suffix(".safetensors")
    if arrays:
        torch.save_weights(held, arrays)
    for note in imported.notes:
        click.echo(f"note: {note}")
    for name in imported.state:
        click.echo(f"note: the buffer `{name}` is changed by the program: pass it (it starts as in {held})")
    click.echo(f"{path}: {len(imported.weights)} weights{f', in {held}' if arrays else ''}")


def _torch_frontend() -> Any:
    try:
        from ...frontends import torch
    except ModuleNotFoundError as absent:
        if absent.name != "torch":
            raise
        raise error("importing needs torch, which is not installed", helps=("pip install 'pliant[torch]'",)) from None
    return torch
