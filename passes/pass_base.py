"""What a pass is: a frozen dataclass whose fields are its options, from a module to a module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from ..ir.diagnostics import CompileError

M = TypeVar("M")


class Pass(Protocol[M]):
    """`run` must not change its argument.  A user's mistake raises CompileError; anything else is a fault."""

    name: ClassVar[str]

    def run(self, module: M, /) -> M: ...


@dataclass(eq=False)
class PassError(Exception):
    """A fault of the compiler, not of the program: which pass failed, on what (`before`, the IR it was given)."""

    pass_name: str
    before: object
    reason: str

    def __str__(self) -> str:
        return f"the pass `{self.pass_name}` failed: {self.reason}"


Hook = Callable[[str, M], None]
"""Called with a pass's name and the IR it made: to print it, or to verify it."""


def run_passes(passes: Sequence[Pass[M]], module: M, hooks: Sequence[Hook[M]] = ()) -> M:
    """Runs passes in order, and the hooks after each; a fault becomes a PassError that names its pass."""
    for step in passes:
        before = module
        try:
            module = step.run(module)
            for hook in hooks:
                hook(step.name, module)
        except (CompileError, PassError):
            raise
        except Exception as fault:
            raise PassError(step.name, before, f"{type(fault).__name__}: {fault}") from fault
    return module
