"""torch models as modules of ours: torch.export's graphs, facts and weights.

    imported = import_torch(model, (x,), dynamic_shapes={"x": {0: Dim("n")}})
    imported.module, imported.weights, imported.notes
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ...ir.diagnostics import error
from . import coverage, dynamo
from .export import import_program, import_torch
from .program import Imported
from .weights import save as save_weights

__all__ = ["Imported", "coverage", "dynamo", "import_program", "import_torch", "load_program", "save_weights"]


def load_program(path: Path) -> Any:
    """An exported program from a file of torch.export.save; CompileError when it is none."""
    try:
        return torch.export.load(str(path))
    except Exception as failure:
        said = str(failure).strip().split("\n")[0]
        raise error(f"{path} is no file of torch.export.save, or is damaged: {said}") from failure
