"""torch models as modules of ours: torch.export's graphs, facts and weights.

    imported = import_torch(model, (x,), dynamic_shapes={"x": {0: Dim("n")}})
    imported.module, imported.weights, imported.notes
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ...ir.diagnostics import error
from . import coverage, dynamo
from .export import import_program, import_torch
from .program import Imported

__all__ = ["Imported", "coverage", "dynamo", "import_program", "import_torch", "load_program"]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch logs of its attempts, tracebacks among it: what comes of them is said once, by us."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


def load_program(path: Path) -> Any:
    """An exported program from a file of torch.export.save; CompileError when it is none."""
    try:
        with _quiet():
            return torch.export.load(str(path))
    except Exception as failure:
        said = str(failure).strip().split("\n")[0]
        why = "" if "warnings above" in said else f": {said}"
        raise error(f"{path} is no file of torch.export.save, or is damaged{why}") from failure
