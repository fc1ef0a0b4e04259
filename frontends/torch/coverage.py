"""Which of torch's operators are imported: for a program, or for all of core ATen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from .export import decomposed
from .places import place_of
from .table import SIZES, TABLE, core_overloads, decompositions, reason
from .table_complex import MADE_COMPLEX
from .walk import calls, target_name

CoverageRow = tuple[str, str, str, str]
"""Operator, how often it is used, `as it is` | `decomposed` | `size` | `no`, and why or where."""


def program_rows(program: Any) -> list[CoverageRow]:
    """The operators of a program as exported, after decomposition; those that are missing with their places."""
    core = decomposed(program)
    uses: dict[str, list[Any]] = {}
    for node in calls(core.graph_module):
        uses.setdefault(target_name(node.target), []).append(node)
    rows: list[CoverageRow] = []
    for name, nodes in sorted(uses.items()):
        status, why = status_of(name)
        place = place_of(nodes[0])
        where = f"{place.file}:{place.line}" if place and status == "no" else ""
        rows.append((name, str(len(nodes)), status, "; ".join(filter(None, (why, where)))))
    return rows


def core_rows() -> list[CoverageRow]:
    """Every overload that torch tags as core."""
    return [(name, "", *status_of(name)) for name in core_overloads()]


def status_of(name: str) -> tuple[str, str]:
    if name in TABLE or name in MADE_COMPLEX:
        return "as it is", ""
    if name in SIZES:
        return "size", ""
    why = reason(name)
    if why:
        return "no", why
    if name in _decomposed_names():
        return "decomposed", ""
    return "no", "no row yet"


def _decomposed_names() -> frozenset[str]:
    return frozenset(map(str, decompositions()))


def summary(rows: Sequence[CoverageRow]) -> str:
    """The totals in words."""
    count = {s: sum(r[2] == s for r in rows) for s in ("as it is", "decomposed", "size", "no")}
    done = len(rows) - count["no"]
    return f"{done} of {len(rows)} operators: {count['as it is']} as they are, {count['decomposed']} by decomposition"


def unsupported(rows: Iterable[CoverageRow]) -> list[str]:
    return [r[0] for r in rows if r[2] == "no"]


def version() -> str:
    return str(torch.__version__)
