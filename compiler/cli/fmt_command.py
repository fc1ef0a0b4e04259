"""`pliant fmt`."""

from __future__ import annotations

from pathlib import Path

import click

from ...ir.diagnostics import CompileError
from ...ir.format import format_text
from . import options, show

EXAMPLES = show.examples(
    ("pliant fmt model.ir", "rewrite it in place"),
    ("pliant fmt --check *.ir", "say which files would change"),
    ("pliant fmt --types model.ir", "write the type of every value"),
    ("pliant fmt - < model.ir", "from standard input to standard output"),
)


@click.command("fmt", epilog=EXAMPLES)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--check", is_flag=True, help="Write nothing; exit with status 1 if a file would change.")
@click.option("--types", is_flag=True, help="Write the type of every value.")
def command(files: tuple[str, ...], check: bool, types: bool) -> None:
    """Rewrite FILES in canonical form; comments are kept.

    Standard input (`-`) is written to standard output.
    """
    changed = 0
    for name in files:
        text = show.source(name)
        try:
            formatted = format_text(text, show.file_name(name), types=types)
        except CompileError as refused:
            raise CompileError(refused.diagnostics, {show.file_name(name): text, **refused.sources}) from None
        if name == "-" and not check:
            show.out(formatted, newline=False)
        elif formatted != text:
            changed += 1
            if not check:
                options.write_text(Path(name), formatted)
            show.out(f"{'would change' if check else 'changed'}: {show.file_name(name)}")
    if check and changed:
        raise click.exceptions.Exit(1)
