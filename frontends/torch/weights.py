"""Parameters, buffers and constants of a program as arrays by name, each stored once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...ir.types import DType, TensorType, tensor
from .complexes import is_complex, pair_axis, pairs_of, part_dtype
from .promote import dtype_of

Array = np.ndarray[Any, Any]


def type_of(value: Any, name: str) -> TensorType:
    """The (static) type of a tensor; of a complex one that of its pairs."""
    return tensor(dtype_of(part_dtype(value.dtype), f"`{name}`"), *map(int, value.shape), *pair_axis(value))


def array_of(value: Any) -> Array:
    """The values as a numpy array, sharing memory where the layout allows."""
    plain = (pairs_of(value) if is_complex(value) else value.detach()).cpu().contiguous()
    if plain.dtype is torch.bfloat16:
        return np.asarray(plain.view(torch.int16).numpy().view(DType.bf16.numpy))
    return np.asarray(plain.numpy())


@dataclass
class WeightStore:
    """Weights under their torch names; a tensor that several names share has the first of them."""

    arrays: dict[str, Array] = field(default_factory=dict)
    _names: dict[tuple[Any, ...], str] = field(default_factory=dict)
    _kept: list[Any] = field(default_factory=list)

    def add(self, name: str, value: Any) -> tuple[str, bool]:
        """The weight's name in the program, and whether it is new."""
        key = (value.data_ptr(), tuple(value.shape), value.stride(), value.dtype) if value.numel() else (name,)
        if key in self._names:
            return self._names[key], False
        own = self._free(valid_global(name))
        self._names[key] = own
        self._kept.append(value)  # addresses stay taken while they are compared
        self.arrays[own] = array_of(value)
        return own, True

    def _free(self, name: str) -> str:
        while name in self.arrays:
            name += "_"
        return name


def valid_global(name: str) -> str:
    """The name as the language takes it for weights: words with dots between."""
    words = [re.sub(r"\W", "_", w, flags=re.ASCII) or "_" for w in name.split(".")]
    if not re.match(r"[A-Za-z_]", words[0]):
        words[0] = f"_{words[0]}"
    return ".".join(words)
