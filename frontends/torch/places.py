"""Lines of the model's own code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ...ir.diagnostics import Span

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\w+)\n\s*(.*)')


@dataclass(frozen=True)
class Place:
    """A line of code."""

    file: str
    line: int
    code: str

    @property
    def span(self) -> Span:
        return Span(self.file, self.line, 1, self.line, 1)

    @property
    def is_own(self) -> bool:
        """Whether it is the model's, not torch's."""
        return "/torch/" not in self.file

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.code}" if self.code else f"{self.file}:{self.line}"


def place_of(node: Any) -> Place | None:
    """The innermost line of the model that made a node: outside torch, if there is one."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [f for f in frames if "/torch/" not in f[0]] or frames
    return Place(own[-1][0], int(own[-1][1]), own[-1][3].strip()) if own else None
