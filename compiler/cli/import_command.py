"""`pliant import`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from ...ir.parser import parse_type
from ...ir.printer import print_module
from ...passes.graph.rename import rename_symbols
from ...runtime.weights import write_safetensors
from ..torch_program import frontend
from . import options, show

EXAMPLES = show.examples(
    ("pliant import model.pt2 -o model.ir --weights model.safetensors", ""),
    ("pliant import model.pt2 --rename s77=n --rename s27=length", "the names of sizes"),
    ("pliant import model.pt2 --coverage", "which operators it uses, and what becomes of them"),
    ("pliant import --coverage", "the same for all of core ATen"),
)


_RENAMED = re.compile(r"\w+")


@click.command("import", epilog=EXAMPLES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
@click.option("-o", "output", type=options.Output(), help="Where to write the program.")
@click.option("--weights", type=options.Output(), help="Where to write the weights.")
@click.option("--coverage", is_flag=True, help="Print the operator table for FILE, or for all of core ATen.")
@click.option("--rename", "renames", multiple=True, metavar="OLD=NEW", help="Call a symbol otherwise; repeatable.")
def command(
    file: Path | None, output: Path | None, weights: Path | None, coverage: bool, renames: tuple[str, ...]
) -> None:
    """Turn FILE, a program of torch.export.save (.pt2), into a program of the language and its weights.

    A file does not keep the names of torch's Dims: sizes are called s77 and the like there, until they are renamed.
    """
    if coverage:
        torch = frontend()
        rows = torch.coverage.core_rows() if file is None else torch.coverage.program_rows(torch.load_program(file))
        show.table(("operator", "used", "imported", "why not, or where"), rows)
        show.out(f"\n{torch.coverage.summary(rows)}")
        return
    if file is None:
        raise click.UsageError("Missing argument 'FILE'.")
    path = output or file.with_suffix(".ir")
    held = weights or path.with_suffix(".safetensors")
    for written in (path, held):
        if show.same_file(file, written):
            raise click.UsageError(f"What is written would take the place of {file}: use `-o` and `--weights`.")
    if path.resolve() == held.resolve():
        raise click.UsageError(f"The program and its weights would both be written to {path}.")
    torch = frontend()
    names = _names(renames)
    imported = torch.import_program(torch.load_program(file))
    module = rename_symbols(imported.module, names)
    arrays = {**imported.weights, **imported.state}
    # The weights first: where they cannot be written, no program is left that asks for them.
    if arrays:
        with options.writing(held) as into:
            write_safetensors(into, arrays)
    options.write_text(path, print_module(module, types=False))
    for note in dict.fromkeys(imported.notes):
        show.out(f"note: {_RENAMED.sub(lambda word: names.get(word[0], word[0]), note)}")
    for name in imported.state:
        show.out(f"note: the buffer `{name}` is changed by the program: pass it (it starts as in {held})")
    show.out(f"{path}: {len(imported.weights)} weights{f', in {held}' if arrays else ''}")


def _names(renames: tuple[str, ...]) -> dict[str, str]:
    """`s77=n` pairs as a mapping."""
    found: dict[str, str] = {}
    for item in renames:
        old, equals, new = (part.strip() for part in item.partition("="))
        if not equals or not old or not re.fullmatch(r"[A-Za-z_]\w*", new, re.ASCII) or old in found:
            raise click.BadParameter(f"`{item}` is not of the form OLD=NEW, once for each name", param_hint="--rename")
        parse_type(f"f32[{new}]")  # refuses the words of the language
        found[old] = new
    return found
