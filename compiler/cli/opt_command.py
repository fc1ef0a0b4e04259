"""`pliant opt`."""

from __future__ import annotations

from pathlib import Path

import click

from ...passes.pass_base import run_passes
from ..passes_by_name import parse_pipeline, read_stage
from . import options, show

EXAMPLES = show.examples(
    ("pliant opt model.ir -p infer,inline,simplify", ""),
    ("pliant opt model.ir -p infer,inline,decompose,lower", "from the graph to loops"),
    ("pliant opt model.ir -p infer,decompose --print-after-all", "every step"),
)


@click.command("opt", epilog=EXAMPLES)
@click.argument("file", type=click.Path(exists=True, allow_dash=True, dir_okay=False))
@click.option("-p", "passes", default="", metavar="PASS,PASS{OPTION=VALUE}", help="What to run, in this order.")
@click.option("--print-after-all", is_flag=True, help="Print the text after every pass.")
@click.option("--verify/--no-verify", default=True, help="Verify between passes.")
@click.option("-o", "output", type=options.Output(dash=True), help="Where to write the text, else standard output.")
def command(file: str, passes: str, print_after_all: bool, verify: bool, output: Path | None) -> None:
    """Run passes over FILE (`-` for standard input): graphs or loops in, text out."""
    ir = read_stage(show.source(file), show.file_name(file))
    hooks = []
    if print_after_all:
        hooks.append(lambda step, made: show.out(f"# ---- after {step}\n{show.any_stage(made)}"))
    result = run_passes(parse_pipeline(passes, ir, verify), ir, hooks)
    if output is not None:
        options.write_text(output, show.any_stage(result))
    elif not print_after_all:
        show.out(show.any_stage(result))
