"""What an exported program was found to need of its sizes, as torch keeps it: guards with the place in the code that
asked, guards of a stored program as text, and run-time assertions in the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from ...ir.diagnostics import CompileError
from ...ir.dims import Dim
from ...ir.facts import Compare, Fact, Facts, InRange
from .guard_text import GuardText, Unrelated, inputs_of
from .retrace import asked_by_operators, is_of_data, shape_env
from .sizes import Sizes

_LIBRARY = Path(torch.__file__).parent


@dataclass(frozen=True)
class Guard:
    """A fact that torch found the program to need."""

    fact: Compare
    own: bool  # asked for by the model's own code, rather than by torch's operators


def guards(program: Any, sizes: Sizes) -> tuple[Guard, ...]:
    """All that is known; CompileError where the model's own code asked for what has no meaning here."""
    return (*_live(program, sizes), *_stored(program, sizes), *_asserted(program, sizes))


def resolver(program: Any) -> Any:
    """How sizes of a program are written once torch has found some equal."""
    environment = shape_env(program)
    return environment.replace if environment is not None else lambda expr: expr


def _live(program: Any, sizes: Sizes) -> Iterator[Guard]:
    environment = shape_env(program)
    for guard in environment.guards if environment is not None else ():
        own = not _in_library(guard.sloc)
        try:
            for fact in sizes.facts(guard.expr):
                yield Guard(fact, own)
        except CompileError:
            if own:
                raise


def _in_library(location: Any) -> bool:
    frame = getattr(location, "framework_loc", None)
    name = getattr(frame, "filename", None) or str(frame)
    return Path(name).is_relative_to(_LIBRARY) or "/torch/" in name


def _asserted(program: Any, sizes: Sizes) -> Iterator[Guard]:
    """Run-time assertions on sizes that stand in the graph."""
    for node in program.graph.nodes:
        if node.op == "call_function" and str(node.target) == "aten._assert_scalar.default":
            condition = node.args[0]
            value = condition.meta["val"] if hasattr(condition, "meta") else condition
            # A size of data is refused where it is used: what is asserted of it adds nothing.
            if isinstance(value, torch.SymBool) and not any(map(is_of_data, value.node.expr.free_symbols)):
                for fact in sizes.facts(value.node.expr):
                    yield Guard(fact, True)


# ------------------------------------------------------------------------------------- guards of a stored program


def is_stored(program: Any) -> bool:
    """Whether it comes from a file: torch then has its guards as text only, and not where its sizes come from."""
    environment = shape_env(program)
    return environment is not None and not environment.var_to_sources


def _stored(program: Any, sizes: Sizes) -> Iterator[Guard]:
    """Guards of a program from a file, which does not say who asked for them."""
    texts = getattr(program, "_guards_code", None)
    if not texts or not is_stored(program):
        return
    inputs, operators = inputs_of(program), _Operators(program, sizes)
    for text in texts:
        try:
            found = GuardText(text, inputs).facts(sizes)
        except Unrelated:
            continue
        for fact in found:
            yield Guard(fact, not operators.ask(fact))


@dataclass
class _Operators:
    """The graph is run once more on sizes alone: what torch's operators ask for, they ask for again.

    What is left over came from the model's own code.
    """

    program: Any
    sizes: Sizes

    def ask(self, fact: Compare) -> bool:
        return self._known.prove(fact)

    @cached_property
    def _known(self) -> Facts:
        found: list[Fact] = list(from_two_on(self.program, self.sizes))
        for expr in asked_by_operators(self.program):
            try:
                found.extend(self.sizes.facts(expr))
            except CompileError:
                continue
        return Facts(dict.fromkeys(found))


def from_two_on(program: Any, sizes: Sizes) -> tuple[InRange, ...]:
    """torch's 0/1 rule: sizes of inputs are 2 and more, and so is what they are made of."""
    found = input_sizes(program, sizes)
    return tuple(InRange(d, 2) for d in dict.fromkeys((*found, *(Dim.of(s) for d in found for s in sorted(d.symbols)))))


def input_sizes(program: Any, sizes: Sizes) -> tuple[Any, ...]:
    """The sizes of the user's inputs that are not fixed, each once."""
    metas = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    signature = getattr(program, "graph_signature", None)
    listed = metas.values() if signature is None else [
        metas.get(getattr(s.arg, "name", "")) for s in signature.input_specs if s.kind.name == "USER_INPUT"
    ]  # fmt: skip
    found = [sizes.dim(d) for v in listed if isinstance(v, torch.Tensor) for d in v.shape]
    return tuple(dict.fromkeys(d for d in found if not d.is_const))
