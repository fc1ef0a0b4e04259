"""`pliant inspect`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ...runtime import Artifact
from ...runtime.contract import Step
from . import show

EXAMPLES = show.examples(
    ("pliant inspect model.pliant", ""),
    ("pliant inspect model.pliant --ir source", "the program it was made from"),
    ("pliant inspect model.pliant --json", "for scripts"),
)


@click.command("inspect", epilog=EXAMPLES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@click.option("--ir", "stage", metavar="STAGE", help="Print a stage kept in the artifact: source, graph.")
def command(file: Path, as_json: bool, stage: str | None) -> None:
    """Show what FILE, an artifact, holds: contract, memory plan, kernels, sizes."""
    artifact = Artifact.open(file)
    if stage is not None:
        member = f"ir/{stage}.ir"
        kept = ", ".join(m.removeprefix("ir/").removesuffix(".ir") for m in artifact.members if m.startswith("ir/"))
        if member not in artifact.members:
            raise click.BadParameter(f"it keeps {kept or 'no stage'}", param_hint="--ir")
        click.echo(bytes(artifact.members[member]).decode())
        return
    plans = json.loads(bytes(artifact.members.get("plan.json", b"{}")))
    if as_json:
        click.echo(json.dumps({**artifact.inspect(), "plan": plans}, indent=2))
        return
    contract = artifact.contract
    machine = contract.machine
    click.echo(f"{file}: for {machine.triple}, {machine.cpu} with {len(machine.features)} features (--json lists them)")
    for w in contract.weights:
        click.echo(f"  weight @{w.name}: {w}{' (in the artifact)' if w.member else ' (to be given at load)'}")
    for f in contract.functions:
        params = ", ".join(f"{'inout ' if p.inout else ''}{p.name}: {p}" for p in f.params)
        click.echo(f"\n@{f.name}({params}) -> {', '.join(str(o) for o in f.outputs)}")
        for step in f.steps:
            click.echo(f"    {_step(step)}")
        _plan(plans.get(f.name, {}))
    _sizes(artifact)


def _step(step: Step) -> str:
    """One thing that is bound or checked at every call."""
    if step.kind == "bind":
        text = f"{step.symbol} = {step.value}" + (f" // {step.divisor}, exactly" if step.divisor != "1" else "")
    else:
        text = f"{step.value} == {step.expected}" if step.kind == "equal" else step.value
    return f"{text:28} {step.origin if step.kind != 'fact' else ''} {f'({step.at})' if step.at else ''}".rstrip()


def _plan(plan: dict[str, Any]) -> None:
    if not plan:
        return
    click.echo("  memory")
    click.echo(f"    peak arena:      {plan['peak_formula']} bytes; at the bound {show.size(plan['peak_at_bound'])}")
    click.echo(f"    lower bound:     {show.size(plan['lower_bound'])} (the largest live set at the bound)")
    click.echo(
        f"    without reuse:   {plan['without_reuse']} bytes; at the bound {show.size(plan['total_without_reuse'])}"
    )
    if plan["scratch"] != "0":
        click.echo(f"    scratch:         {plan['scratch']} bytes a thread")
    click.echo(f"  kernels            {len(plan['kernels'])}")
    for kernel in plan["kernels"]:
        click.echo(f"    {kernel['name']}: {kernel['origin']}")


def _sizes(artifact: Artifact) -> None:
    click.echo("\nsizes")
    for name, data in sorted(artifact.members.items()):
        click.echo(f"  {name:32} {show.size(memoryview(data).nbytes)}")
