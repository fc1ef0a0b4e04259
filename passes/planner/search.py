"""Searching for an order of preference with a low peak.

First the good orders by rule, each placed once. Then local search: buffers that are live where the peak is (and a few
others) change places with buffers that live at the same time, and the new order is kept when its peak is no higher.
The placement gives up as soon as it must exceed the peak in hand, so that a bad neighbour costs little. Now and then a
slightly higher peak is accepted, and a walk that leads nowhere goes back to the best order.

Small problems are solved exactly, by the canonical search of Moffitt, "MiniMalloc: a lightweight memory allocator for
hardware-accelerated machine learning" (2023): buffers are placed by increasing offset, each right on top of one below.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from .skyline import WALL, Placement, Problem, place

EXACT_BUFFERS = 10
EXACT_NODES = 20_000
# Sizes of a change: mostly one or two pairs, now and then many, to get out of a hollow.
PAIRS = (1, 2, 3, 5, 8)
# The share of changes that begin at a step where the peak is.
AT_PEAK = 0.6
# The share of iterations that may accept a peak up to 1 % above the best, and how many without gain lead back to it.
LENIENCE = 0.02
PATIENCE = 300


@dataclass
class Budget:
    """What a search may spend: seconds on the clock, iterations, or both; None is no limit."""

    deadline: float | None
    iterations: int | None
    spent: int = 0

    @staticmethod
    def of(seconds: float | None, iterations: int | None) -> Budget:
        return Budget(None if seconds is None else time.perf_counter() + seconds, iterations)

    def take(self) -> bool:
        """Whether one more iteration may be made; counts it."""
        if self.iterations is not None and self.spent >= self.iterations:
            return False
        if self.deadline is not None and time.perf_counter() >= self.deadline:
            return False
        self.spent += 1
        return True


def orders(problem: Problem) -> list[list[int]]:
    """Orders by rule, without repetition: by lifetime, area, size, contention, and contention first."""
    steps = [high - low for low, high in zip(problem.lower, problem.upper, strict=True)]
    size, length = problem.size, problem.length
    spans = [problem.live[low:high] for low, high in zip(problem.lower, problem.upper, strict=True)]
    pressure = [sum(span) for span in spans]
    contention = [max(span) for span in spans]
    rules: tuple[Callable[[int], object], ...] = (
        lambda i: -length[i],
        lambda i: -steps[i],
        lambda i: -steps[i] * size[i],
        lambda i: -length[i] * size[i],
        lambda i: -size[i],
        lambda i: -pressure[i],
        lambda i: (-contention[i], -steps[i]),
        lambda i: (-contention[i], -steps[i] * size[i]),
    )
    result: list[list[int]] = []
    for rule in rules:
        order = sorted(range(len(size)), key=rule)  # type: ignore[arg-type]
        if order not in result:
            result.append(order)
    return result


class Search:
    """A search in progress: `best` is there at once, `step` tries to better it. `done` when it is proven optimal."""

    def __init__(self, problem: Problem, rng: random.Random) -> None:
        self.problem, self.rng = problem, rng
        ruled = orders(problem)
        self.best = self.current = _placed(problem, ruled[0])
        self.order = self.best_order = ruled[0]
        self.idle = 0
        # Without a target no candidate is passed over; with the best peak as target some are: both find good plans.
        for aimed in (False, True):
            for order in ruled:
                if not self.done:
                    self._try(order, self.best.peak if aimed else WALL)
        self.proven = False
        if len(problem.size) <= EXACT_BUFFERS and not self.done:
            self.best, self.proven = solve_exactly(problem, self.best)

    proven = False

    @property
    def done(self) -> bool:
        return self.proven or self.best.peak <= self.problem.lower_bound

    def _try(self, order: list[int], target: int) -> None:
        placement = place(self.problem, order, target)
        if placement is not None and placement.peak <= self.best.peak:
            self.best = self.current = placement
            self.best_order = self.order = order

    def step(self) -> None:
        """One iteration of local search."""
        self.idle += 1
        if self.idle > PATIENCE:
            self.order, self.current, self.idle = self.best_order, self.best, 0
        peaks = [step for step, slack in enumerate(self.current.slack) if not slack]
        order = exchange(self.problem, self.order, self.rng.choice(peaks), self.rng)
        target = self.current.peak
        if self.rng.random() < LENIENCE:
            target = self.best.peak + self.best.peak // 100
        placement = place(self.problem, order, target)
        if placement is None:
            return
        self.order, self.current = order, placement
        if placement.peak < self.best.peak:
            self.best, self.best_order, self.idle = placement, order, 0


def _placed(problem: Problem, order: list[int]) -> Placement:
    placement = place(problem, order)
    if placement is None:
        raise AssertionError("a placement without a target cannot miss it")
    return placement


def exchange(problem: Problem, order: list[int], step: int, rng: random.Random) -> list[int]:
    """A neighbour of the order: a few buffers change places with others that live at the same time."""
    order = list(order)
    for _ in range(rng.choice(PAIRS)):
        one = rng.choice(problem.at_step[step]) if rng.random() < AT_PEAK else rng.randrange(len(order))
        shared = rng.randrange(problem.lower[one], problem.upper[one])
        other = rng.choice(problem.at_step[shared])
        at, to = order.index(one), order.index(other)
        order[at], order[to] = other, one
    return order


def solve_exactly(problem: Problem, best: Placement) -> tuple[Placement, bool]:
    """(the best placement, whether it is proven optimal); bounded by a number of nodes, so that it always ends."""
    solver = _Exact(problem, best)
    solver.descend([0] * len(problem.size), [None] * len(problem.size), 0)
    return solver.best, solver.nodes < EXACT_NODES


class _Exact:
    """Depth-first search over the orders of increasing offset, pruned by the best peak."""

    def __init__(self, problem: Problem, best: Placement) -> None:
        self.problem, self.best, self.nodes = problem, best, 0
        lives = list(zip(problem.lower, problem.upper, strict=True))
        self.overlapping = [
            [j for j, (start, end) in enumerate(lives) if j != i and start < high and low < end]
            for i, (low, high) in enumerate(lives)
        ]

    def descend(self, floors: list[int], offsets: list[int | None], last: int) -> None:
        """`floors`: the lowest offset open to each unplaced buffer; offsets do not decrease along a branch."""
        self.nodes += 1
        size = self.problem.size
        unplaced = [i for i, offset in enumerate(offsets) if offset is None]
        if not unplaced:
            self.accept([offset or 0 for offset in offsets])
            return
        # Above the lowest top that an unplaced buffer could have, that buffer would have room to move down.
        lowest_top = min(floors[i] + size[i] for i in unplaced)
        if any(max(floors[i], last) + size[i] >= self.best.peak for i in unplaced):
            return
        for i in sorted(unplaced, key=lambda i: (floors[i], -size[i])):
            if self.nodes >= EXACT_NODES or self.best.peak <= self.problem.lower_bound or floors[i] >= lowest_top:
                return
            if floors[i] < last:
                continue  # it rests on nothing at the offsets still open: another branch has it lower
            raised, placed = list(floors), list(offsets)
            placed[i] = at = floors[i]
            for j in self.overlapping[i]:
                if offsets[j] is None:
                    raised[j] = max(raised[j], at + size[i])
            self.descend(raised, placed, at)

    def accept(self, offsets: list[int]) -> None:
        peak = max(offset + size for offset, size in zip(offsets, self.problem.size, strict=True))
        if peak < self.best.peak:
            # The slack is not kept along the branches; an optimum needs none, and local search restarts from the order.
            self.best = Placement(offsets, peak, [0] * self.problem.steps)
