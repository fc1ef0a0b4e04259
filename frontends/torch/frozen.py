"""Parameters under torch.compile as weights, for who asks for it: packed once, rather than read as arguments.

At every call they are compared with what was packed, byte by byte, and packed anew where they differ. torch counts
changes (`_version`), but not those of fused optimizers, of a batch norm's statistics, of inference mode, of
`param.data`, or of a numpy array of the same memory. The comparison reads the parameters once, and the copy once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .weights import array_of

_SETS = 4
"""Sets of parameters that are kept packed: a graph may serve several modules of one class."""

Places = tuple[int, ...]


@dataclass
class Frozen:
    """A compiled program whose weights come with each call; `executable` is one that has none yet."""

    executable: Any
    weights: tuple[str, ...]
    loaded: dict[Places, tuple[Any, list[torch.Tensor]]] = field(default_factory=dict)

    def __call__(self, **given: Any) -> Any:
        parameters = [given.pop(name) for name in self.weights]
        places = tuple(p.data_ptr() for p in parameters)
        found = self.loaded.get(places)
        if found is None or not all(map(_same, parameters, found[1])):
            found = self._load(places, dict(zip(self.weights, parameters, strict=True)))
        return found[0](**given)

    def _load(self, places: Places, parameters: Mapping[str, torch.Tensor]) -> tuple[Any, list[torch.Tensor]]:
        """Packs a copy of them, which is what later calls compare with."""
        self.loaded.pop(places, None)
        for old in list(self.loaded)[: max(0, len(self.loaded) + 1 - _SETS)]:
            self.loaded.pop(old)
        copies = [p.detach().clone(memory_format=torch.contiguous_format) for p in parameters.values()]
        arrays = {name: array_of(copy) for name, copy in zip(parameters, copies, strict=True)}
        made = (self.executable.with_weights(arrays), copies)
        self.loaded[places] = made
        return made


def _same(parameter: torch.Tensor, copy: torch.Tensor) -> bool:
    """Whether all bytes are the same: NaN is itself."""
    if parameter.shape != copy.shape or parameter.dtype != copy.dtype:
        return False
    return bool(torch.equal(*(x.detach().contiguous().reshape(-1).view(torch.uint8) for x in (parameter, copy))))
