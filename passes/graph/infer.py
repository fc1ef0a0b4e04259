"""Types of all values, proven and written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...ir.graph import Module
from ...ir.infer_module import infer_module


@dataclass(frozen=True)
class Infer:
    """Fills in every type and the dtype of every literal; CompileError with every refusal."""

    name: ClassVar[str] = "infer"

    def run(self, module: Module) -> Module:
        return infer_module(module)
