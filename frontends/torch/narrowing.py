"""What an import found to be needed of sizes, next to what the user's Dims allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.diagnostics import CompileError, Diagnostic
from ...ir.dims import Dim
from ...ir.facts import Compare, Fact, InRange
from .names import UserSizes
from .places import Place


@dataclass(frozen=True)
class Found:
    """A fact that the program needs, why, and the line that asks for it."""

    fact: Fact
    why: str
    place: Place | None
    narrows: bool
    """Whether the model does something else where the fact does not hold, rather than fail."""

    def __str__(self) -> str:
        return f"{self.fact}: {self.why}" + (f" (at {self.place})" if self.place is not None else "")


def report(found: Sequence[Found], promised: frozenset[str], user: UserSizes, allowed: bool) -> tuple[str, ...]:
    """Notes on all that was found; CompileError for what keeps out sizes that the user's Dims allow.

    `promised` are the sizes of which the user has said that they move.
    """
    moving = [f for f in found if not f.fact.symbols.isdisjoint(promised)]
    wrong = [f for f in moving if (f.narrows and _narrow(f.fact)) or _number(f.fact) is not None]
    if wrong and not allowed:
        raise CompileError(tuple(_refusal(f, user) for f in wrong))
    return tuple(map(str, found))


def _narrow(fact: Fact) -> bool:
    """Whether it narrows one size, or makes two of them one; an order of sizes is the model's own."""
    if len(fact.symbols) == 1:
        return True
    return isinstance(fact, Compare) and fact.op == "==" and None not in (fact.lhs.name, fact.rhs.name)


def _refusal(f: Found, user: UserSizes) -> Diagnostic:
    names = ", ".join(f"`{n}`" for n in sorted(f.fact.symbols))
    notes = [f.why]
    if f.place is not None:
        notes.append(f"asked for at {f.place}")
    number = _number(f.fact)
    if number is not None:
        where = user.where(min(f.fact.symbols))
        message = (
            f"dynamic_shapes leave {where} open ({min(f.fact.symbols)}), but torch.export fixed it to {number}: the "
            "model, or the example, works for that number only"
        )
        help = "use x.shape in the model instead of a number, and an example size that stands for others"
    else:
        message = f"the program is right for `{f.fact}` only, and dynamic_shapes allow more of {names}"
        help = _help(f.fact)
    keep = "or take it so, and have every call checked: `allow_narrowing=True`"
    return Diagnostic(message, None, "", tuple(notes), (help, keep))


def _number(fact: Fact) -> int | None:
    if isinstance(fact, Compare) and fact.op == "==":
        for a, b in ((fact.lhs, fact.rhs), (fact.rhs, fact.lhs)):
            if a.name is not None and b.is_const:
                return int(b.value)
    return None


def _help(fact: Fact) -> str:
    """What to write as Dims."""
    if isinstance(fact, InRange) and fact.dim.name is not None and fact.lo.is_const:
        return f'say `Dim("{fact.dim.name}", min={fact.lo}, ..)`'
    if isinstance(fact, Compare):
        sides = (fact.lhs, fact.rhs)
        if fact.op == "==" and None not in (sides[0].name, sides[1].name):
            return f'give both sizes one Dim: `Dim("{sides[0]}")`'
        bound = _bound(fact)
        if bound is not None:
            return bound
        if fact.op == "!=" and sides[1] in (Dim.of(0), Dim.of(1)) and sides[0].name is not None:
            return f'say `Dim("{sides[0]}", min={int(sides[1].value) + 1}, ..)`'
    return "say so by the Dims, or by torch._check in the model"


def _bound(fact: Compare) -> str | None:
    flip = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
    name, op, number = fact.lhs.name, str(fact.op), fact.rhs
    if name is None:
        name, op, number = fact.rhs.name, flip.get(op, ""), fact.lhs
    if name is None or not number.is_const or op not in flip:
        return None
    value = int(number.value) + {">": 1, "<": -1}.get(op, 0)
    return f'say `Dim("{name}", {"min" if op[0] == ">" else "max"}={value}, ..)`'
