"""Planning memory: which buffers share which bytes of the arena.

`pack` places buffers of known sizes; `plan` those whose sizes are dims, under facts; `minimalloc` reads the benchmark's
files.
"""

from __future__ import annotations

from .errors import PlanError
from .minimalloc import Row, geometric_mean, minimalloc_table, report_file, table_text
from .packing import Buffer, Packing, pack
from .storage import SymBuffer
from .symbolic import Plan, plan, with_room_in_use

__all__ = [
    "Buffer",
    "Packing",
    "Plan",
    "PlanError",
    "Row",
    "SymBuffer",
    "geometric_mean",
    "minimalloc_table",
    "pack",
    "plan",
    "report_file",
    "table_text",
    "with_room_in_use",
]
