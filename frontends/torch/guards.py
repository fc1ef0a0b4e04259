"""What an exported program was found to ask of its sizes, as torch keeps it: guards with the place in the code that
asked, and guards of a stored program as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from ...ir.diagnostics import CompileError
from ...ir.dims import Dim
from ...ir.facts import Fact, Facts, InRange
from .conditions import Clause, clauses
from .guard_text import GuardText, Unrelated, inputs_of
from .places import Place
from .retrace import asked_by_operators, is_of_data, shape_env
from .sizes import Sizes
from .trace import Questions

_LIBRARY = Path(torch.__file__).parent
_OPERATORS = frozenset(
    {
        *("_ops.py", "_decomp", "_refs", "_prims", "_prims_common"),
        *("_meta_registrations.py", "_subclasses", "_library", "_export"),
    }
)
"""Where torch's operators work out their results' sizes: what they ask decides no graph, unless they are decomposed."""


@dataclass(frozen=True)
class Guard:
    """A condition that torch found the program to need."""

    clause: Clause
    own: bool
    """Asked for by Python code, the model's or torch.nn's, that may go another way; else by an operator."""
    place: Place | None = None


def guards(program: Any, sizes: Sizes, held: bool = False) -> tuple[Guard, ...]:
    """All that is known; CompileError where Python code asked for what has no meaning here.

    That is left out if all are `held`: if torch itself checks them at every call.
    """
    return (*_live(program, sizes, held), *_stored(program, sizes))


def path_conditions(program: Any, asked: Questions, sizes: Sizes) -> tuple[Guard, ...]:
    """What decides that the program is this one: what Python code asked, and sizes that operators made one.

    Where operators find sizes equal, later questions are of one size, and some are not put at all.
    """
    found: list[Guard] = []
    for question in asked:
        if not any(map(is_of_data, question.condition.free_symbols)):
            found += [Guard(c, True, question.place) for c in clauses(question.condition, sizes)]
    seen = {q.condition for q in asked}
    environment = shape_env(program)
    for guard in environment.guards if environment is not None else ():
        if type(guard.expr).__name__ == "Equality" and guard.expr not in seen:
            with suppress(CompileError):
                found += [Guard(c, False) for c in clauses(guard.expr, sizes) if _settles(c)]
    return tuple(found)


def _settles(clause: Clause) -> bool:
    """Whether it says what a size is."""
    return any(f.lhs.name is not None or f.rhs.name is not None for f in clause.facts)


def resolver(program: Any) -> Any:
    """How sizes of a program are written once torch has found some equal."""
    environment = shape_env(program)
    return environment.replace if environment is not None else lambda expr: expr


def _live(program: Any, sizes: Sizes, held: bool) -> Iterator[Guard]:
    environment = shape_env(program)
    for guard in environment.guards if environment is not None else ():
        frame = getattr(guard.sloc, "framework_loc", None)
        own = not _in_operator(frame)
        try:
            for clause in clauses(guard.expr, sizes):
                yield Guard(clause, own, _place(frame))
        except CompileError:
            if own and not held:
                raise


def made_a_number(asked: Questions) -> bool:
    """Whether Python code asked a size, or what was made of sizes, to be a number: `int(n * 0.5)`, `n == 8`."""
    return any(type(q.condition).__name__ == "Equality" and any(a.is_number for a in q.condition.args) for q in asked)


def _place(frame: Any) -> Place | None:
    if not hasattr(frame, "filename"):
        return None
    return Place(frame.filename, int(frame.lineno or 1), (frame.line or "").strip())


def _in_operator(frame: Any) -> bool:
    name = Path(getattr(frame, "filename", None) or str(frame))
    if not name.is_relative_to(_LIBRARY):
        return False
    return name.relative_to(_LIBRARY).parts[0] in _OPERATORS


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
            found = GuardText(text, inputs).clauses(sizes)
        except Unrelated:
            continue
        for clause in found:
            yield Guard(clause, not operators.ask(clause))


@dataclass
class _Operators:
    """The graph is run once more on sizes alone: what torch's operators ask for, they ask for again.

    What is left over came from the model's own code.
    """

    program: Any
    sizes: Sizes

    def ask(self, clause: Clause) -> bool:
        return clause in self._asked or clause.follows(self._known)

    @cached_property
    def _asked(self) -> frozenset[Clause]:
        found: list[Clause] = []
        for expr in asked_by_operators(self.program):
            try:
                found.extend(clauses(expr, self.sizes))
            except CompileError:
                continue
        return frozenset(found)

    @cached_property
    def _known(self) -> Facts:
        told: list[Fact] = list(from_two_on(self.program, self.sizes))
        told += [c.facts[0] for c in self._asked if len(c.facts) == 1]
        return Facts(dict.fromkeys(told))


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
