"""The smallest conflicting part of a set of constraints, by few checks (QuickXplain; Junker, AAAI 2004)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from .facts_budget import CONFLICT, EXPLAIN, Budget


class _HasSymbols(Protocol):
    @property
    def symbols(self) -> frozenset[str]: ...


F = TypeVar("F", bound=_HasSymbols)


def minimal_conflict(
    facts: Sequence[F], conflicting: Callable[[Sequence[F], Budget], bool]
) -> tuple[F, ...] | None:
    """Facts, in their order, that conflict while none of them can be left out; None when all agree.

    Facts that share no symbols cannot conflict, so that each connected part is checked on its own. Past the budget of
    the search those that are returned still conflict, but some could be left out.
    """
    for part in _connected(facts):
        if conflicting(part, Budget(CONFLICT)):
            search = _Search(conflicting, Budget(CONFLICT), Budget(EXPLAIN))
            chosen = set(map(id, search.explain([], False, part)))
            return tuple(search.thin([fact for fact in part if id(fact) in chosen]))
    return None


@dataclass
class _Search(Generic[F]):
    conflicting: Callable[[Sequence[F], Budget], bool]
    budget: Budget
    sizes: Budget

    def check(self, facts: Sequence[F]) -> bool:
        return self.conflicting(facts, self.budget)

    def may_check(self, facts: Sequence[F]) -> bool:
        return self.sizes.spend(len(facts)) and not self.budget.out

    def explain(self, background: list[F], grown: bool, facts: Sequence[F]) -> list[F]:
        """Those of the facts that conflict with the background, as all of them do."""
        if not self.may_check(background):
            return list(facts)
        if grown and self.check(background):
            return []
        if len(facts) == 1:
            return list(facts)
        half = len(facts) // 2
        left, right = facts[:half], facts[half:]
        second = self.explain([*background, *left], bool(left), right)
        first = self.explain([*background, *second], bool(second), left)
        return first + second

    def thin(self, facts: list[F]) -> list[F]:
        """An incomplete check may miss a conflict among more facts that it finds among fewer: what can go, goes."""
        for fact in list(facts):
            rest = [other for other in facts if other is not fact]
            if self.may_check(rest) and self.check(rest):
                facts = rest
        return facts


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
