"""The least value of a linear form under linear constraints, exactly: the last resort of the prover.

A dense simplex over fractions with Bland's rule (Bland, 1977), which cannot cycle. Problems are small (tens of
constraints around one goal), and it is asked only when substitution has failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

from .facts_budget import Budget

K = TypeVar("K")


def minimum(
    goal: Mapping[K, int], constraints: Sequence[tuple[Mapping[K, int], int]], pivots: int, budget: Budget
) -> Fraction | None:
    """The least goal under `sum(coefficient*variable) + constant >= 0` for each constraint, variables of any sign.

    By duality it is the greatest `-sum(constant*weight)` over weights >= 0 of the constraints that combine to the goal:
    any such weights prove the bound, so that stopping after `pivots` steps, or at the end of the budget, is sound. None
    when there is no bound (or none was found), or when the constraints contradict each other.
    """
    variables = sorted({v for row, _ in constraints for v in row} | set(goal), key=repr)
    # One row a variable: sum over constraints of weight*coefficient == goal's coefficient, with an artificial weight.
    rows: list[list[Fraction]] = []
    for variable in variables:
        sign = -1 if goal.get(variable, 0) < 0 else 1
        rows.append(
            [Fraction(sign * row.get(variable, 0)) for row, _ in constraints] + [Fraction(sign * goal.get(variable, 0))]
        )
    width = len(constraints)
    basis: list[int | None] = [None] * len(rows)  # None: the row's artificial weight, not yet driven out
    first = [-sum((row[j] for row in rows), Fraction(0)) for j in range(width + 1)]
    left = _optimise(rows, basis, first, pivots, budget)
    if left is None or first[width] != 0:
        return None
    for i in range(len(rows)):
        if basis[i] is None:
            column = next((j for j in range(width) if rows[i][j] != 0), None)
            if column is not None:
                _pivot(rows, basis, first, i, column)
    rows, basis = [r for r, b in zip(rows, basis, strict=True) if b is not None], [b for b in basis if b is not None]
    second = [Fraction(constant) for _, constant in constraints] + [Fraction(0)]
    for row, column in zip(rows, basis, strict=True):
        if column is not None and second[column]:
            factor = second[column]
            second = [s - factor * r for s, r in zip(second, row, strict=True)]
    if _optimise(rows, basis, second, left, budget) is None:
        return None
    return second[width]


def _optimise(
    rows: list[list[Fraction]], basis: list[int | None], costs: list[Fraction], pivots: int, budget: Budget
) -> int | None:
    """Pivots until no cost is negative; the steps left, or None when unbounded or out of steps."""
    width = len(costs) - 1
    while True:
        column = next((j for j in range(width) if costs[j] < 0), None)
        if column is None:
            return pivots
        best: tuple[Fraction, int, int] | None = None
        for i, row in enumerate(rows):
            if row[column] > 0:
                leaving = basis[i]
                candidate = (row[width] / row[column], -1 if leaving is None else leaving, i)
                if best is None or candidate < best:
                    best = candidate
        if best is None or pivots <= 0 or not budget.spend(len(rows) * width // 2):
            return None
        pivots -= 1
        _pivot(rows, basis, costs, best[2], column)


def _pivot(rows: list[list[Fraction]], basis: list[int | None], costs: list[Fraction], i: int, column: int) -> None:
    pivot = rows[i][column]
    row = rows[i] = [value / pivot for value in rows[i]]
    basis[i] = column
    for other in range(len(rows)):
        if other != i and (factor := rows[other][column]):
            rows[other] = [a - factor * b for a, b in zip(rows[other], row, strict=True)]
    if factor := costs[column]:
        costs[:] = [a - factor * b for a, b in zip(costs, row, strict=True)]
