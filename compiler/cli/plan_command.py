"""`pliant plan`."""

from __future__ import annotations

from pathlib import Path

import click

from ...passes.planner import minimalloc_table, table_text
from . import options, show

EXAMPLES = show.examples(
    ("pliant plan buffers.csv", ""),
    ("pliant plan folder/ --budget 0.05 --budget 3", "two budgets, side by side"),
)


@click.command("plan", epilog=EXAMPLES)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    type=options.Finite(min=0),
    default=(0.05,),
    show_default=True,
    help="Seconds to search, a file; may be given several times.",
)
def command(files: tuple[Path, ...], budgets: tuple[float, ...]) -> None:
    """Pack the buffers of each CSV file (columns id,lower,upper,size) into one arena.

    Prints the peak, the lower bound (the largest live set) and their ratio, and the geometric mean over the files.
    """
    show.out(table_text(minimalloc_table(files, budgets), budgets))
