"""From the buffers of a program to the storages that need memory: views, loops, and results made in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...ir.dims import Dim
from ...ir.facts import Facts
from .errors import PlanError

# Which results may take an operand's storage: any that fit, only those of the same size, none.
InPlace = Literal["fitting", "equal", "never"]


@dataclass(frozen=True)
class SymBuffer:
    """A value that needs memory from step `first` to step `last`, both included.

    `may_share_with` names operands whose storage the value may be written over, from its first byte on, if they die
    at its first step. `alias_of` names the value that this one is a view of; a view keeps it alive and has no storage.
    `scope` holds the (first, last) steps of the loops around the definition, outermost first: what is defined before a
    loop and last used in it lives to its end, as the next turn uses it again. The arms of a conditional have steps of
    their own, so that their values are never live together.
    """

    name: str
    size_bytes: Dim
    first: int
    last: int
    may_share_with: tuple[str, ...] = ()
    alias_of: str | None = None
    scope: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Storage:
    """Memory for one value and its views, or for several values one after the other, each made in place of the last.

    The first of `members` is the largest. `first..last` are inclusive steps.
    """

    members: tuple[SymBuffer, ...]
    first: int
    last: int

    @property
    def name(self) -> str:
        return self.members[0].name

    @property
    def size(self) -> Dim:
        return self.members[0].size_bytes

    def overlaps(self, other: Storage) -> bool:
        """Whether both are live at some step."""
        return self.first <= other.last and other.first <= self.last


def roots(buffers: Sequence[SymBuffer]) -> dict[str, str]:
    """The value whose storage each buffer is in: itself, or what it is at last a view of."""
    by_name: dict[str, SymBuffer] = {}
    for buffer in buffers:
        if buffer.name in by_name:
            raise PlanError(f"buffer {buffer.name} is given twice")
        if buffer.last < buffer.first:
            raise PlanError(f"buffer {buffer.name} ends at step {buffer.last}, before it begins at {buffer.first}")
        by_name[buffer.name] = buffer
    result: dict[str, str] = {}
    for buffer in buffers:
        seen = [buffer.name]
        while (target := by_name[seen[-1]].alias_of) is not None:
            if target not in by_name:
                raise PlanError(f"buffer {seen[-1]} is a view of {target}, which is not among the buffers")
            if target in seen:
                raise PlanError(f"buffers are views of one another: {' -> '.join([*seen, target])}")
            seen.append(target)
        result[buffer.name] = seen[-1]
    return result


def lifetimes(buffers: Sequence[SymBuffer]) -> list[SymBuffer]:
    """The buffers that have storage of their own, live as long as their views and the loops that use them."""
    root_of = roots(buffers)
    live: dict[str, SymBuffer] = {b.name: b for b in buffers if b.alias_of is None}
    for buffer in buffers:
        root = live[root_of[buffer.name]]
        first, last = min(root.first, buffer.first), max(root.last, buffer.last)
        live[root.name] = replace(root, first=first, last=last)
    # Inner loops first: they may carry a lifetime to a later step of the loop around them.
    loops = sorted({loop for b in buffers for loop in b.scope}, key=lambda loop: loop[1] - loop[0])
    return [_through_loops(buffer, loops) for buffer in live.values()]


def _through_loops(buffer: SymBuffer, loops: Sequence[tuple[int, int]]) -> SymBuffer:
    last = buffer.last
    for start, end in loops:
        if buffer.first < start <= last < end:
            last = end
    return replace(buffer, last=last)


def share_in_place(buffers: Sequence[SymBuffer], facts: Facts, mode: InPlace) -> list[Storage]:
    """Storages in order of their first step; a result joins the storage of an operand that dies where it is made."""
    root_of = roots(buffers)
    loops = {loop for b in buffers for loop in b.scope}
    owned = sorted(lifetimes(buffers), key=lambda b: b.first)
    storages: list[Storage] = []
    holder: dict[str, int] = {}
    for buffer in owned:
        number = None
        for name in buffer.may_share_with if mode != "never" else ():
            at = holder.get(root_of.get(name, name))
            # The operand must be the last in its storage: a second result at this step would write over the first.
            if at is not None and storages[at].members[-1].name == root_of[name]:
                if _may_replace(storages[at].members[-1], buffer, facts, mode, loops):
                    number = at
                    break
        if number is None:
            number = len(storages)
            storages.append(Storage((buffer,), buffer.first, buffer.last))
        else:
            old = storages[number]
            storages[number] = Storage((*old.members, buffer), old.first, max(old.last, buffer.last))
        holder[buffer.name] = number
    return storages


def _may_replace(
    operand: SymBuffer, result: SymBuffer, facts: Facts, mode: InPlace, loops: set[tuple[int, int]]
) -> bool:
    if operand.last != result.first:
        return False
    if any(operand.first < start <= result.first <= end for start, end in loops):
        return False  # the next turn of the loop reads the operand again
    if facts.prove_eq(result.size_bytes, operand.size_bytes):
        return True
    return mode == "fitting" and facts.prove_le(result.size_bytes, operand.size_bytes)
