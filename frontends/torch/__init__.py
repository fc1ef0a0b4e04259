"""torch models as modules of ours: torch.export's graphs, facts and weights.

    imported = import_torch(model, (x,), dynamic_shapes={"x": {0: Dim("n")}})
    imported.module, imported.weights, imported.notes
"""

from __future__ import annotations

from .export import import_program, import_torch
from .program import Imported

__all__ = ["Imported", "import_program", "import_torch"]
