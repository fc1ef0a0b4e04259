"""Weights as they are given: a mapping of arrays (numpy, torch, DLPack), or a `.safetensors` file, which is mapped."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from . import arrays
from .arrays import Array, Parameter
from .contract import Tensor
from .dtypes import numpy_dtype
from .errors import CallError, LoadError
from .files import contents

Weights = Mapping[str, Any] | str | os.PathLike[str]

_SAFETENSORS = {
    "F64": "f64",
    "F32": "f32",
    "F16": "f16",
    "BF16": "bf16",
    "I64": "i64",
    "I32": "i32",
    "I16": "i16",
    "I8": "i8",
    "U8": "u8",
    "BOOL": "bool",
}
_MAX_HEADER = 100_000_000


def given_weights(weights: Weights | None, *, mapped: bool = True) -> Mapping[str, Any]:
    """The arrays by name; LoadError when the file cannot be read."""
    if weights is None:
        return {}
    if isinstance(weights, Mapping):
        return weights
    try:
        path = Path(weights)
    except TypeError:
        kind = type(weights).__name__
        said = f"weights are given as a {kind}; a mapping of names to arrays or a .safetensors file is needed"
        raise LoadError(said) from None
    return read_safetensors(path, mapped=mapped)


def as_weight(tensor: Tensor, value: Any) -> Array:
    """A weight as a contiguous array of the declared type; LoadError if it has another. Sizes are checked natively."""
    what, dtype = f"weight @{tensor.name}", numpy_dtype(tensor.dtype)
    param = Parameter(what, str(tensor), dtype, len(tensor.dims), False, tensor.name)
    torch_parameter = getattr(value, "requires_grad", False) is True
    try:
        # Parameters of a module require gradients; their values are what is wanted here.
        return arrays.accept(param, value.detach() if torch_parameter else value)
    except CallError as error:
        raise LoadError(str(error), **error.fields()) from error


def read_safetensors(path: Path, *, mapped: bool = True) -> dict[str, Array]:
    """The arrays of a safetensors file, read-only views of the mapped file, or of its bytes in memory.

    Arrays of unknown types are left out.

    The format: eight bytes with the length of a JSON header, the header, the data; offsets count from the data's start.
    """
    try:
        whole = contents(path, mapped=mapped)
        if len(whole) < 8:
            raise ValueError("it is too short")
        (length,) = struct.unpack_from("<Q", whole)
        if length > min(len(whole) - 8, _MAX_HEADER):
            raise ValueError("its header is longer than the file")
        header = json.loads(bytes(whole[8 : 8 + length]))
        data = whole[8 + length :]
        return {
            name: _array(name, entry, data)
            for name, entry in header.items()
            if name != "__metadata__" and entry["dtype"] in _SAFETENSORS
        }
    except FileNotFoundError:
        raise LoadError(f"{path} does not exist") from None
    except OSError as error:
        raise LoadError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, struct.error, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LoadError(f"{path} is no safetensors file, or is damaged: {error}") from error


def write_safetensors(file: BinaryIO, given: Mapping[str, Array]) -> None:
    """Writes arrays as a safetensors file, those of larger elements first, so that all are aligned."""
    names = {numpy_dtype(own): name for name, own in _SAFETENSORS.items()}
    ordered = sorted(given, key=lambda name: (-given[name].dtype.itemsize, name))
    header, position = {}, 0
    for name in ordered:
        array = given[name]
        end = position + array.nbytes
        shape = list(array.shape)
        header[name] = {"dtype": names[array.dtype], "shape": shape, "data_offsets": [position, end]}
        position = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for name in ordered:
        file.write(np.ascontiguousarray(given[name]).reshape(-1).view(np.uint8).data)


def _array(name: str, entry: Any, data: memoryview) -> Array:
    dtype = numpy_dtype(_SAFETENSORS[entry["dtype"]])
    shape = tuple(entry["shape"])
    start, end = entry["data_offsets"]
    if not all(type(n) is int and n >= 0 for n in (*shape, start, end)) or not start <= end <= len(data):
        raise ValueError(f"`{name}` lies outside the file")
    if math.prod(shape) * dtype.itemsize != end - start:
        raise ValueError(f"`{name}` has {end - start} bytes, which is not the size of its shape {list(shape)}")
    return np.frombuffer(data[start:end], np.uint8).view(dtype).reshape(shape)
