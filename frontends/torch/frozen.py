"""Parameters under torch.compile as weights, for who asks for it: packed once, rather than read as arguments.

Changes that torch counts (an optimizer's step, `load_state_dict`, `param.copy_` under no_grad, another tensor in its
place) are seen, and the weights packed anew.  torch does not count what is written through `param.data` or a numpy
array of the same memory, which is why it has to be asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .weights import array_of

_SETS = 4
"""Sets of parameters that are kept packed: a graph may serve several modules of one class."""

Key = tuple[tuple[int, int], ...]


@dataclass
class Frozen:
    """A compiled program whose weights come with each call; `executable` is one that has none yet."""

    executable: Any
    weights: tuple[str, ...]
    loaded: dict[Key, tuple[Any, list[Any]]] = field(default_factory=dict)

    def __call__(self, **given: Any) -> Any:
        parameters = [given.pop(name) for name in self.weights]
        key = tuple((p.data_ptr(), 0 if p.is_inference() else p._version) for p in parameters)
        found = self.loaded.get(key)
        if found is None:
            found = self._load(key, dict(zip(self.weights, parameters, strict=True)))
        return found[0](**given)

    def _load(self, key: Key, parameters: Mapping[str, torch.Tensor]) -> tuple[Any, list[Any]]:
        """Packs them.  Their memory is held, so that no other tensor can come to have their addresses."""
        places = [place for place, _ in key]
        for old in [k for k in self.loaded if [place for place, _ in k] == places] or list(self.loaded)[: 1 - _SETS]:
            self.loaded.pop(old, None)
        arrays = {name: array_of(p) for name, p in parameters.items()}
        made = (self.executable.with_weights(arrays), [p.detach() for p in parameters.values()])
        self.loaded[key] = made
        return made
