"""`pliant compile`."""

from __future__ import annotations

from pathlib import Path

import click

from ...ir.diagnostics import error
from ..codegen.llvm import resolve
from ..driver import Compilation, read_source
from ..emit import STAGES, emit
from ..target import Target
from . import options, show

EXAMPLES = show.examples(
    ("pliant compile model.ir", "writes model.pliant"),
    ("pliant compile model.ir --weights w.safetensors", "keep the weights in it"),
    ("pliant compile model.ir --target cpu:x86-64-v3", "for other machines"),
    ("pliant compile model.ir --emit fused,plan", "look at stages; writes nothing"),
    ("pliant compile model.ir --dim h=768", "for one size of h only"),
)


@click.command("compile", epilog=EXAMPLES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "output", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the artifact.")
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
    wanted = Target.parse(target)
    module = options.specialized(read_source(file), options.sizes(dims))
    compilation = Compilation(module, resolve(wanted) if wanted.kind == "cpu" else wanted, level)
    if stages:
        click.echo(emit(compilation, stages))
        return
    if wanted.kind != "cpu":
        raise error(f"code for {target} can be printed, not yet run", helps=("add `--emit cuda` to see the CUDA C++",))
    given = options.read_arrays(weights) if weights else None
    with show.progress() as compilation.progress:
        artifact = compilation.artifact(given)
        path = output or file.with_suffix(".pliant")
        artifact.save(path)
    functions = ", ".join(f"@{f.name}" for f in artifact.contract.functions)
    click.echo(f"{path}: {functions}, {show.size(path.stat().st_size)}")
