"""The smallest conflicting part of a set of constraints, by few checks (QuickXplain; Junker, AAAI 2004)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar


class _HasSymbols(Protocol):
    @property
    def symbols(self) -> frozenset[str]: ...


F = TypeVar("F", bound=_HasSymbols)


def minimal_conflict(facts: Sequence[F], conflicting: Callable[[Sequence[F]], bool]) -> tuple[F, ...] | None:
    """Facts, in their order, that conflict while none of them can be left out; None when all agree.

    Facts that share no symbols cannot conflict, so that each connected part is checked on its own.
    """
    for part in _connected(facts):
        if conflicting(part):
            chosen = _explain([], False, part, conflicting)
            return tuple(_thin([fact for fact in part if fact in chosen], conflicting))
    return None


def _thin(facts: list[F], conflicting: Callable[[Sequence[F]], bool]) -> list[F]:
    """An incomplete check may miss a conflict among more facts that it finds among fewer: what can still go, goes."""
    for fact in facts:
        rest = [other for other in facts if other != fact]
        if conflicting(rest):
            return _thin(rest, conflicting)
    return facts


def _explain(
    background: list[F], grown: bool, facts: Sequence[F], conflicting: Callable[[Sequence[F]], bool]
) -> list[F]:
    if grown and conflicting(background):
        return []
    if len(facts) == 1:
        return list(facts)
    half = len(facts) // 2
    left, right = facts[:half], facts[half:]
    second = _explain([*background, *left], bool(left), right, conflicting)
    first = _explain([*background, *second], bool(second), left, conflicting)
    return first + second


def _connected(facts: Sequence[F]) -> list[list[F]]:
    """The facts in groups that share symbols, in order."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            leader[name] = name = leader[leader[name]]
        return name

    for fact in facts:
        names = sorted(fact.symbols)
        for name in names[1:]:
            leader[find(name)] = find(names[0])
    groups: dict[str, list[F]] = {}
    for fact in facts:
        groups.setdefault(find(min(fact.symbols)) if fact.symbols else "", []).append(fact)
    return list(groups.values())
