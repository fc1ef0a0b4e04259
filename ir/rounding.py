"""Conversion of numpy arrays to the element types, as `cast` and literals mean it: rounded once, to nearest even."""

from __future__ import annotations

from typing import Any

import numpy as np

from .types import DType


def converted(value: object, dtype: DType) -> np.ndarray[Any, Any]:
    """An array (or number) in the dtype; floats out of an integer's range are the caller's affair."""
    array = np.asarray(value)
    with np.errstate(all="ignore"):
        if array.dtype == object:  # a Python integer beyond 64 bits
            array = array.astype(np.float64)
        if dtype is DType.bf16 and array.dtype.itemsize > 2 and array.dtype != np.float32:
            array = _to_odd(array.astype(np.float64))
        return array.astype(dtype.numpy)


def _to_odd(wide: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """f64 as f32 whose last bit is set where something was cut off, so that rounding once more is rounding once.

    ml_dtypes converts to bf16 by way of f32, to nearest both times.  (S. Boldo and G. Melquiond, 2008.)
    """
    near = wide.astype(np.float32)
    inexact = np.isfinite(near) & (near != wide)
    toward_zero = np.where(np.abs(near) > np.abs(wide), np.nextafter(near, np.float32(0)), near)
    return np.where(inexact, (toward_zero.view(np.uint32) | 1).view(np.float32), near).astype(np.float32)
