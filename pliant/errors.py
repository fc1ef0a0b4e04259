"""The root of every error of pliant; it stands below all folders, so that each may derive its own from it."""

from __future__ import annotations

from typing import Any


class PliantError(Exception):
    """The base of every error that pliant raises: while compiling, at load, at a call."""

    def to_dict(self) -> dict[str, Any]:
        """The error as plain data (what JSON can hold): its class under `error`, its text, and what fields it has."""
        return {"error": type(self).__name__, "message": str(self)}
