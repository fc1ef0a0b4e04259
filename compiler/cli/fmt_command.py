"""`pliant fmt`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from ...ir.format import format_text
from . import show

EXAMPLES = show.examples(
    ("pliant fmt model.ir", "rewrite it in place"),
    ("pliant fmt --check *.ir", "say which files would change"),
    ("pliant fmt --types model.ir", "write the type of every value"),
)


@click.command("fmt", epilog=EXAMPLES)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="Write nothing; exit with status 1 if a file would change.")
@click.option("--types", is_flag=True, help="Write the type of every value.")
def command(files: tuple[Path, ...], check: bool, types: bool) -> None:
    """Rewrite FILES in canonical form; comments are kept."""
    changed = 0
    for path in files:
        text = show.source(str(path))
        formatted = format_text(text, str(path), types=types)
        if formatted == text:
            continue
        changed += 1
        click.echo(f"{'would change' if check else 'changed'}: {path}")
        if not check:
            _replace(path, formatted)
    if check and changed:
        raise click.exceptions.Exit(1)


def _replace(path: Path, text: str) -> None:
    """Writes a temporary file beside the old one and moves it into place: nothing is lost on the way."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, path.stat().st_mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
