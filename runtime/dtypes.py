"""The element types by the names used in contracts."""

from __future__ import annotations

from typing import Any

import numpy as np

_NAMES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "bool": "bool",
}


def is_dtype(name: str) -> bool:
    return name == "bf16" or name in _NAMES


def numpy_dtype(name: str) -> np.dtype[Any]:
    """numpy's dtype object for an element type, always the same one. KeyError for an unknown name."""
    if name == "bf16":
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(_NAMES[name])
