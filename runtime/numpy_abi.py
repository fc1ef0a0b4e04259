"""Reading numpy arrays by address: whether that works here, and structs that look like arrays where it does not.

Host code reads sizes, strides' flags and data pointers straight from the array object, which takes nanoseconds where
the same through Python takes microseconds. That relies on CPython's object header and numpy's struct, both stable for
decades but no promise; so they are compared with real arrays first. Elsewhere each array is described by a struct.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from .layout import ARRAY_BYTES, ArrayFlag, ArrayOffset

Array = np.ndarray[Any, Any]


@cache
def arrays_are_readable() -> bool:
    """Whether `id(array)` is the address of a struct with the fields at `ArrayOffset`."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    samples: tuple[Array, ...] = (
        np.zeros((2, 3, 5), np.float32),
        np.zeros((0, 7), np.int64),
        np.zeros((), np.bool_),
        np.zeros((4, 6), np.float64)[::2, 1:],
        np.zeros(9, np.uint8)[1:].view(np.int64),
    )
    return sys.getsizeof(samples[0]) >= ARRAY_BYTES and all(_is_as_expected(a) for a in samples)


def _is_as_expected(array: Array) -> bool:
    raw = ctypes.string_at(id(array), ARRAY_BYTES)
    kind, data, rank = struct.unpack_from("<QQi", raw, ArrayOffset.TYPE)
    dims, strides = struct.unpack_from("<QQ", raw, ArrayOffset.DIMS)
    (descriptor,) = struct.unpack_from("<Q", raw, ArrayOffset.DESCRIPTOR)
    (flags,) = struct.unpack_from("<i", raw, ArrayOffset.FLAGS)
    first = (kind, data, rank) == (id(type(array)), array.ctypes.data, array.ndim)
    if not first or descriptor != id(array.dtype) or flags & _KNOWN != _flags(array):
        return False
    size = 8 * array.ndim
    return not size or (
        struct.unpack(f"<{array.ndim}q", ctypes.string_at(dims, size)) == array.shape
        and struct.unpack(f"<{array.ndim}q", ctypes.string_at(strides, size)) == array.strides
    )


_KNOWN = int(ArrayFlag.C_CONTIGUOUS | ArrayFlag.ALIGNED | ArrayFlag.WRITEABLE)


def _flags(array: Array) -> int:
    flags = ArrayFlag.C_CONTIGUOUS if array.flags.c_contiguous else ArrayFlag(0)
    flags |= ArrayFlag.ALIGNED if array.flags.aligned else ArrayFlag(0)
    return int(flags | (ArrayFlag.WRITEABLE if array.flags.writeable else ArrayFlag(0)))


@dataclass(frozen=True)
class Lookalike:
    """A struct with the fields that host code reads of an array; it keeps the array alive."""

    array: Array
    memory: ctypes.Array[ctypes.c_char]

    @staticmethod
    def of(array: Array) -> Lookalike:
        memory = ctypes.create_string_buffer(ARRAY_BYTES + 16 * array.ndim)
        dims = ctypes.addressof(memory) + ARRAY_BYTES
        struct.pack_into("<QQi", memory, ArrayOffset.TYPE, id(np.ndarray), array.ctypes.data, array.ndim)
        struct.pack_into("<QQ", memory, ArrayOffset.DIMS, dims, dims + 8 * array.ndim)
        struct.pack_into("<Q", memory, ArrayOffset.DESCRIPTOR, id(array.dtype))
        struct.pack_into("<i", memory, ArrayOffset.FLAGS, _flags(array))
        struct.pack_into(f"<{2 * array.ndim}q", memory, ARRAY_BYTES, *array.shape, *array.strides)
        return Lookalike(array, memory)

    @property
    def address(self) -> int:
        return ctypes.addressof(self.memory)
