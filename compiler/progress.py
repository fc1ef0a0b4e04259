"""What a compilation says of how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """A stage that begins, or goes on: `done` of `total` kernels, where it goes through kernels; 0 of 0 elsewhere.

    As text it is made for people: `compiling: 3 of 12 kernels`.
    """

    name: str
    done: int = 0
    total: int = 0

    def __str__(self) -> str:
        return f"{self.name}: {self.done} of {self.total} kernels" if self.total else self.name


Progress = Callable[[Stage], object]
"""Called with each `Stage` when it begins, and with how far it is as its kernels are done."""
