"""`pliant inspect`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ...runtime import Artifact, LoadError
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
    if as_json and stage is not None:
        raise click.UsageError("`--json` and `--ir` print different things: give one of them.")
    artifact = Artifact.open(file)
    if stage is not None:
        show.out(_stage(artifact, stage))
        return
    facts = artifact.inspect()
    if as_json:
        show.out(json.dumps(facts, indent=2))
        return
    try:
        text = "\n".join(_text(file, artifact, facts["plan"] or {}))
    except (KeyError, TypeError, AttributeError, ValueError) as fault:
        raise LoadError(f"{file} is damaged: the memory plan in it has another form: {fault!r}") from None
    show.out(text)


def _stage(artifact: Artifact, stage: str) -> str:
    """The text of a stage kept in the artifact."""
    member = f"ir/{stage}.ir"
    kept = ", ".join(m.removeprefix("ir/").removesuffix(".ir") for m in artifact.members if m.startswith("ir/"))
    if member not in artifact.members:
        raise click.BadParameter(f"it keeps {kept or 'no stage'}", param_hint="--ir")
    return artifact.text(member)


def _text(file: Path, artifact: Artifact, plans: dict[str, Any]) -> Iterator[str]:
    contract = artifact.contract
    machine = contract.machine
    yield (f"{file}: for {machine.triple}, {machine.cpu} with {len(machine.features)} features (--json lists them)")
    for w in contract.weights:
        yield (f"  weight @{w.name}: {w}{' (in the artifact)' if w.member else ' (to be given at load)'}")
    for f in contract.functions:
        params = ", ".join(f"{'inout ' if p.inout else ''}{p.name}: {p}" for p in f.params)
        yield (f"\n@{f.name}({params}) -> {', '.join(str(o) for o in f.outputs)}")
        for step in f.steps:
            yield (f"    {_step(step)}")
        yield from _plan(plans.get(f.name, {}))
    yield from _sizes(artifact)


def _step(step: Step) -> str:
    """One thing that is bound or checked at every call."""
    if step.kind == "bind":
        text = f"{step.symbol} = {step.value}" + (f" // {step.divisor}, exactly" if step.divisor != "1" else "")
    else:
        text = f"{step.value} == {step.expected}" if step.kind == "equal" else step.value
    return f"{text:28} {step.origin if step.kind != 'fact' else ''} {f'({step.at})' if step.at else ''}".rstrip()


def _plan(plan: dict[str, Any]) -> Iterator[str]:
    if not plan:
        return
    yield ("  memory")
    yield (f"    peak arena:      {plan['peak_formula']} bytes; at the bound {show.size(plan['peak_at_bound'])}")
    yield (f"    lower bound:     {show.size(plan['lower_bound'])} (the largest live set at the bound)")
    yield (
        f"    without reuse:   {plan['without_reuse']} bytes; at the bound {show.size(plan['total_without_reuse'])}"
    )
    if plan["scratch"] != "0":
        yield (f"    scratch:         {plan['scratch']} bytes a thread")
    yield (f"  kernels            {len(plan['kernels'])}")
    for kernel in plan["kernels"]:
        yield (f"    {kernel['name']}: {kernel['origin']}")


def _sizes(artifact: Artifact) -> Iterator[str]:
    yield ("\nsizes")
    for name, data in sorted(artifact.members.items()):
        yield (f"  {name:32} {show.size(memoryview(data).nbytes)}")
