"""A plan as text, for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.dims import Dim
from .storage import SymBuffer

if TYPE_CHECKING:
    from .symbolic import Plan


@dataclass(frozen=True)
class Line:
    """One buffer: its offset, its size at the bound if there is one, and the operand it is made in place of."""

    buffer: SymBuffer
    offset: Dim
    bound: int | None
    in_place_of: str | None


def text(plan: Plan) -> str:
    """The totals, then a table of the buffers."""
    return "\n".join([*_totals(plan), *_table(plan.lines)])


def _totals(plan: Plan) -> list[str]:
    lines = [f"peak           {plan.peak_formula} bytes"]
    if plan.peak_at_bound is None:
        lines.append(f"arena          {plan.arena_bytes} bytes, computed at each call")
        lines.append(f"without reuse  {plan.without_reuse} bytes")
        return lines
    bound = plan.lower_bound or 0
    ratio = f" (peak is {plan.peak_at_bound / bound:.3f} of it)" if bound else ""
    lines.append(f"at the bound   {plan.peak_at_bound} bytes")
    lines.append(f"lower bound    {bound} bytes, the largest live set{ratio}")
    lines.append(f"without reuse  {plan.total_without_reuse} bytes: {plan.without_reuse}")
    return lines


def _table(lines: Sequence[Line]) -> list[str]:
    rows = [("buffer", "offset", "bytes", "steps", "")]
    for line in lines:
        buffer = line.buffer
        note = f"view of {buffer.alias_of}" if buffer.alias_of else ""
        note = f"in place of {line.in_place_of}" if line.in_place_of else note
        rows.append((buffer.name, str(line.offset), str(buffer.size_bytes), f"{buffer.first}..{buffer.last}", note))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    return [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[4]]).rstrip() for row in rows
    ]
