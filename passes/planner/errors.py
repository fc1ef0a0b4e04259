"""What the planner refuses."""

from __future__ import annotations

from ...ir.diagnostics import CompileError, Diagnostic, Span


class PlanError(CompileError):
    """Buffers that cannot be planned, or a malformed file of buffers; `message` says which one and why."""

    def __init__(self, message: str, span: Span | None = None, helps: tuple[str, ...] = ()) -> None:
        super().__init__((Diagnostic(message, span, helps=helps),))
        self.message = message
        self.line = span.line if span is not None else None
