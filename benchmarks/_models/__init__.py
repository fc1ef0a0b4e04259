"""Real architectures with random weights, small but with all their parts."""

from __future__ import annotations

from .case import Case
from .text import TEXT
from .towers import TOWERS
from .vision import VISION
from .whole import WHOLE

CASES: dict[str, Case] = {case.name: case for case in (*TEXT, *VISION, *TOWERS)}
FULL_SIZE: dict[str, Case] = {case.name: case for case in WHOLE}

__all__ = ["CASES", "FULL_SIZE", "Case"]
