"""`pliant ops`."""

from __future__ import annotations

from difflib import get_close_matches
from inspect import cleandoc

import click

from ...ir.describe import call, family, summary
from ...ir.diagnostics import error
from ...ir.registry import registry
from . import show

EXAMPLES = show.examples(
    ("pliant ops", "the table"),
    ("pliant ops softmax", "one operator"),
)


@click.command("ops", epilog=EXAMPLES)
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """The operator table; with NAME, what that operator takes and means."""
    known = registry()
    if name is None:
        rows = sorted((family(op), op.name, call(op), summary(op)) for op in known.values())
        show.table(("family", "operator", "call", "meaning"), rows)
        show.out(f"\n{len(known)} operators")
        return
    if name not in known:
        near = get_close_matches(name, list(known), 1)
        raise error(f"there is no operator `{name}`", helps=(f"did you mean `{near[0]}`?",) if near else ())
    op = known[name]
    show.out(f"{call(op)}\n\n{cleandoc(op.__doc__ or '')}\n")
    samples = [str(o) for o in next(iter(op.samples())).operands]
    show.out(f"family: {family(op)}; for example on {', '.join(samples)}")
