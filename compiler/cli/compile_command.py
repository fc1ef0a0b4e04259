"""`pliant compile`."""

from __future__ import annotations

from pathlib import Path

import click

from ...ir.diagnostics import error
from ..codegen.llvm import resolve
from ..driver import Compilation
from ..emit import STAGES, emit
from ..target import Target
from . import options, show
from .process import tidied

EXAMPLES = show.examples(
    ("pliant compile model.ir", "writes model.pliant"),
    ("pliant compile model.ir --weights w.safetensors", "keep the weights in it"),
    ("pliant compile model.ir --target cpu:x86-64-v3", "for other machines"),
    ("pliant compile model.ir --emit fused,plan", "look at stages; writes nothing"),
    ("pliant compile model.ir --dim h=768", "for one size of h only"),
)


@click.command("compile", epilog=EXAMPLES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "output", type=options.Output(), help="Where to write the artifact.")
@options.target
@options.dims
@options.weights
@click.option("--emit", "stages", metavar="STAGE,...", help=f"Print stages instead: {', '.join(STAGES)}.")
@click.option("--opt", "level", type=click.IntRange(0, 3), default=2, show_default=True, help="LLVM's level.")
def command(
    file: Path,
    output: Path | None,
    target: str,
    dims: tuple[str, ...],
    weights: str | None,
    stages: str | None,
    level: int,
) -> None:
    """Compile FILE to one artifact for every size its facts allow.

    With --weights the artifact holds them; without, they are given when it is loaded.  --dim makes an artifact for one
    size of a symbol: nothing is ever specialised unasked.
    """
    path = output or file.with_suffix(".pliant")
    if stages is not None:
        if output is not None:
            raise click.UsageError("`--emit` prints stages and writes no artifact: leave out `-o`.")
        if not stages.strip(" ,"):
            raise click.BadParameter(f"it names no stage; stages are {', '.join(STAGES)}", param_hint="--emit")
    elif show.same_file(file, path):
        raise click.UsageError(f"The artifact would take the place of the program {file}: name another file with `-o`.")
    wanted = Target.parse(target)
    given_sizes = options.sizes(dims)
    module = options.specialized(options.read_program(file), given_sizes)
    compilation = Compilation(module, resolve(wanted) if wanted.kind == "cpu" else wanted, level)
    if stages is not None:
        show.out(emit(compilation, stages))
        return
    if wanted.kind != "cpu":
        raise error(f"code for {target} can be printed, not yet run", helps=("add `--emit cuda` to see the CUDA C++",))
    given = None if weights is None else options.read_arrays(weights)
    with show.progress() as compilation.progress:
        artifact = compilation.artifact(given)
    with tidied():
        artifact.save(path)
    functions = ", ".join(f"@{f.name}" for f in artifact.contract.functions)
    show.out(f"{path}: {functions}{f', {show.size(path.stat().st_size)}' if path.is_file() else ''}")
