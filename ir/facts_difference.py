"""Difference constraints, `x - y <= c`: decided exactly as shortest paths (Bellman, 1958; Ford, 1956).

Chains and cycles of comparisons are the most common facts there are, and long ones cost a search too much.
"""

from __future__ import annotations

from .dims import Dim
from .facts_domain import Domain

ZERO = ""  # the node that stands for 0; no symbol is called so
CHECK = 8  # rounds between two looks for a cycle


def difference_of(dim: Dim) -> tuple[str, str, int] | None:
    """(x, y, c) when dim >= 0 says x - y <= c."""
    plus = minus = None
    for monomial, coefficient in dim.terms:
        if not monomial:
            continue
        name = monomial[0]
        if len(monomial) != 1 or not isinstance(name, str) or abs(coefficient) != 1:
            return None
        if coefficient == 1 and plus is None:
            plus = name
        elif coefficient == -1 and minus is None:
            minus = name
        else:
            return None
    return None if plus is None or minus is None else (minus, plus, dim.constant)


def consistent_differences(domain: Domain) -> tuple[bool, bool]:
    """(consistent, all): whether the difference constraints and bounds agree, and whether there are no others."""
    edges = [edge for dim in domain.ge if (edge := difference_of(dim)) is not None]
    names = {name for x, y, _ in edges for name in (x, y)}
    complete = len(edges) == len(domain.ge) and not (domain.eq or domain.ne or domain.one_of)
    for name in sorted(names):
        lo, hi = domain.symbol(name)
        if lo is not None:
            edges.append((ZERO, name, -lo))
        if hi is not None:
            edges.append((name, ZERO, hi))
    return not _negative_cycle(edges), complete


def _negative_cycle(edges: list[tuple[str, str, int]]) -> bool:
    """x - y <= c is an edge from y to x of length c; a cycle of negative length has no solution."""
    distance = {node: 0 for x, y, _ in edges for node in (x, y)}
    parent: dict[str, str] = {}
    for round_ in range(len(distance) + 1):
        changed = False
        for x, y, length in edges:
            if distance[y] + length < distance[x]:
                distance[x] = distance[y] + length
                parent[x] = y
                changed = True
        if not changed:
            return False
        if round_ % CHECK == CHECK - 1 and _has_cycle(parent):
            return True
    return True


def _has_cycle(parent: dict[str, str]) -> bool:
    """In the graph of last improvements, a cycle is one of negative length."""
    done: set[str] = set()
    for start in parent:
        path: set[str] = set()
        node: str | None = start
        while node is not None and node not in done:
            if node in path:
                return True
            path.add(node)
            node = parent.get(node)
        done |= path
    return False
