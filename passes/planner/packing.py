"""Packing buffers with known lifetimes and sizes into one arena (dynamic storage allocation).

Two buffers that are live at the same time must not overlap in memory. The peak cannot be lower than the largest live
set, which is reported beside it. Finding the lowest peak is NP-hard; `search` says how a low one is found.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .errors import PlanError
from .search import Budget, Search
from .skyline import Problem

Id = TypeVar("Id", bound=Hashable)


@dataclass(frozen=True)
class Buffer(Generic[Id]):
    """`size` bytes, live at the times t with lower <= t < upper."""

    id: Id
    lower: int
    upper: int
    size: int


@dataclass(frozen=True)
class Packing(Generic[Id]):
    """Offsets in bytes, multiples of the alignment.

    `peak` is the size of the arena and `lower_bound` the largest live set, both with sizes rounded up to the
    alignment; `iterations` counts the orders that local search tried.
    """

    offsets: Mapping[Id, int]
    peak: int
    lower_bound: int
    iterations: int

    @property
    def ratio(self) -> float:
        """Peak over lower bound, 1.0 when nothing is live."""
        return self.peak / self.lower_bound if self.lower_bound else 1.0


def align(size: int, alignment: int) -> int:
    """`size` rounded up to a multiple of the alignment."""
    return -(-size // alignment) * alignment


def pack(
    buffers: Sequence[Buffer[Id]],
    *,
    alignment: int = 1,
    budget_s: float | None = 0.05,
    seed: int = 0,
    iterations: int | None = None,
) -> Packing[Id]:
    """Offsets for the buffers with a peak as low as the budget allows.

    The search ends at once when the peak meets the lower bound, otherwise after `budget_s` seconds or `iterations`
    orders, whichever comes first (None is no limit; at least one is needed). The result depends on nothing but the
    buffers, the seed and the iterations spent. Buffers of no size or an empty lifetime get offset 0.
    Raises PlanError for a negative size, a lifetime that ends before it begins, or an id given twice.
    """
    if budget_s is None and iterations is None:
        raise PlanError("packing needs a budget: seconds, iterations, or both")
    _validate(buffers, alignment)
    budget = Budget.of(budget_s, iterations)
    sized = [(b, align(b.size, alignment)) for b in buffers if b.size and b.upper > b.lower]
    parts = [_problem(part) for part in _parts(sized)]
    searches = [Search(problem, random.Random(seed)) for _, problem in parts]
    # Parts share no time and so may share memory: only the highest counts, and it alone is worked at.
    while searches and not (highest := max(searches, key=lambda s: s.best.peak)).done and budget.take():
        highest.step()
    offsets: dict[Id, int] = {b.id: 0 for b in buffers}
    for (ids, _), found in zip(parts, searches, strict=True):
        offsets.update(zip(ids, found.best.offsets, strict=True))
    peak = max((found.best.peak for found in searches), default=0)
    lower_bound = max((problem.lower_bound for _, problem in parts), default=0)
    return Packing(offsets, peak, lower_bound, budget.spent)


def _validate(buffers: Sequence[Buffer[Id]], alignment: int) -> None:
    if alignment < 1:
        raise PlanError(f"the alignment is {alignment}; it must be at least 1")
    seen: set[Id] = set()
    for buffer in buffers:
        if buffer.size < 0:
            raise PlanError(f"buffer {buffer.id} has the negative size {buffer.size}")
        if buffer.upper < buffer.lower:
            raise PlanError(f"buffer {buffer.id} ends at {buffer.upper}, before it begins at {buffer.lower}")
        if buffer.id in seen:
            raise PlanError(f"buffer {buffer.id} is given twice")
        seen.add(buffer.id)


def _parts(sized: list[tuple[Buffer[Id], int]]) -> list[list[tuple[Buffer[Id], int]]]:
    """The buffers cut wherever nothing is live."""
    parts: list[list[tuple[Buffer[Id], int]]] = []
    end: int | None = None
    for item in sorted(sized, key=lambda item: item[0].lower):
        if end is None or item[0].lower >= end:
            parts.append([])
            end = item[0].upper
        parts[-1].append(item)
        end = max(end, item[0].upper)
    return parts


def _problem(part: list[tuple[Buffer[Id], int]]) -> tuple[list[Id], Problem]:
    """Ids by number, and the problem with times numbered by what begins or ends at them."""
    times = sorted({time for buffer, _ in part for time in (buffer.lower, buffer.upper)})
    number = {time: k for k, time in enumerate(times)}
    problem = Problem(
        lower=tuple(number[b.lower] for b, _ in part),
        upper=tuple(number[b.upper] for b, _ in part),
        size=tuple(size for _, size in part),
        length=tuple(b.upper - b.lower for b, _ in part),
        steps=len(times) - 1,
    )
    return [b.id for b, _ in part], problem
