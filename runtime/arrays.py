"""Arrays of any library in, and results of the caller's own kind out.

numpy arrays need nothing. Tensors of torch and whatever speaks DLPack are read in place. What cannot be read in place
(strides, alignment) is copied when it is only read, and refused when it would be written.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .dtypes import numpy_dtype
from .errors import ArgumentError, CallError, DeviceError, DTypeError, LayoutError, ShapeError, SizeError

_FOREIGN_KIND = "V"  # numpy's kind of types that it does not know: bf16
_LARGE_COPY = 1 << 20  # bytes; what is smaller is copied before its sizes are checked, which is the shorter way
_NOWHERE = 1 << 46  # an aligned address of which no array is
Array = np.ndarray[Any, Any]
Export = Callable[[Array], Any]


@dataclass(frozen=True)
class Parameter:
    """What an argument must be: `what` names it in messages, `type` is its declared type."""

    what: str
    type: str
    dtype: np.dtype[Any]
    rank: int
    inout: bool
    name: str | None = None
    """Of the argument, for the errors' fields; None where it is a buffer for a result."""


def accept(param: Parameter, value: Any) -> Array:
    """The argument as a numpy array that native code can read. Its rank and sizes are not looked at."""
    return fit(param, as_array(param, value)[0])


def fit(param: Parameter, array: Array) -> Array:
    """The array with the parameter's very dtype object, contiguous and aligned."""
    if array.dtype is not param.dtype:
        if array.dtype != param.dtype:
            raise _wrong_dtype(param, array.dtype)
        array = array.view(param.dtype)
    if param.inout and not array.flags.writeable:
        raise LayoutError(f"{_written(param)}, but the array is read-only", argument=param.name)
    if not (array.flags.c_contiguous and array.flags.aligned):
        if param.inout:
            raise LayoutError(f"{_written(param)}, but the array {_unfit(array)}", argument=param.name)
        array = _copied(param, array)
    return array


class _Shape:
    """An array of a shape at an address where nothing is: its sizes can be read, its elements not."""

    def __init__(self, array: Array) -> None:
        bits = f"<u{array.itemsize}"
        self.__array_interface__ = {"shape": array.shape, "typestr": bits, "data": (_NOWHERE, True), "version": 3}


def is_large_copy(param: Parameter, array: Array) -> bool:
    """Whether `fit` would make a copy that asks for much memory."""
    as_it_is = param.inout or array.dtype is not param.dtype or (array.flags.c_contiguous and array.flags.aligned)
    return not as_it_is and array.nbytes >= _LARGE_COPY


def stand_in(array: Array) -> Array:
    """A contiguous array of the same type and shape without memory, for native code that reads its sizes only."""
    return np.asarray(_Shape(array)).view(array.dtype)


def _written(param: Parameter) -> str:
    """Why an array must be writable as it is."""
    return f"{param.what} is written to" + ("" if param.name is None else f" ({param.type} is inout)")


def _unfit(array: Array) -> str:
    """Why native code cannot write to an array, and the way out."""
    if array.flags.c_contiguous:
        address, size = array.ctypes.data, array.dtype.alignment
        return f"is misaligned: it starts at the address {address}, no multiple of {size}; pass an aligned array"
    return (
        f"is not contiguous: its shape is {array.shape} and its strides are {array.strides} bytes; "
        "pass a contiguous array"
    )


def _copied(param: Parameter, array: Array) -> Array:
    try:
        return np.array(array, order="C", copy=True)
    except (MemoryError, ValueError) as error:
        raise SizeError(
            f"{param.what} must be copied to be read (its strides are {array.strides} bytes), "
            f"and there is no memory for that: {error}",
            argument=param.name,
        ) from error


def _wrong_dtype(param: Parameter, dtype: np.dtype[Any], convert: str | None = None) -> DTypeError:
    convert = convert or f"x.astype({param.dtype.name!r})"
    said = f"{param.what} has elements of type {dtype}, but {param.type} wants {param.dtype.name}"
    said = f"{said}; nothing is converted silently: pass {convert}"
    return DTypeError(said, argument=param.name, expected=param.dtype.name, got=str(dtype))


def as_array(param: Parameter, value: Any) -> tuple[Array, Export | None]:
    """The argument as a numpy array, of whatever type and layout, and how results become the caller's kind of array.

    It shares the argument's memory wherever the parameter is written; CallError when that is not possible.
    """
    if type(value) is np.ndarray:
        return value, None
    torch: Any = sys.modules.get("torch")  # whoever passes a tensor has imported it
    if torch is not None and isinstance(value, torch.Tensor):
        return _from_torch(param, value, torch), to_torch
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            said = f"{param.what} is a masked array, and the mask would be lost: pass x.filled(...)"
            raise ArgumentError(said, argument=param.name)
        return value.view(np.ndarray), None
    if isinstance(value, np.generic):
        return np.asarray(value), None
    if isinstance(value, (bool, int, float)):
        return _from_scalar(param, value), None
    if isinstance(value, type):
        raise _no_array(param, f"the class {value.__name__}")
    try:
        if hasattr(value, "__dlpack__"):
            return _from_dlpack(param, value)
        if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
            return _converted(param, value), None
    except CallError:
        raise
    except Exception as error:  # whatever a foreign object's methods raise
        name, said = type(value).__name__, f"{type(error).__name__}: {error}"
        raise ArgumentError(
            f"{param.what}: this {name} cannot be read as an array: {said}", argument=param.name
        ) from error
    raise _no_array(param, f"a {type(value).__name__}")


def _no_array(param: Parameter, what: str) -> ArgumentError:
    return ArgumentError(
        f"{param.what} is {what}; {param.type} wants an array: pass numpy.asarray(x, {param.dtype.name!r})",
        argument=param.name,
        expected=param.type,
        got=what,
    )


def _from_scalar(param: Parameter, value: bool | int | float) -> Array:
    if param.inout:
        raise LayoutError(f"{_written(param)}, so that it must be an array", argument=param.name)
    name, kind = type(value).__name__, param.dtype.kind
    if param.rank:
        said = f"{param.what} is a {name}; {param.type} wants an array of rank {param.rank}"
        raise ArgumentError(said, argument=param.name, expected=param.rank, got=0)
    # bf16 is of no kind that numpy knows
    fits = {"b": bool, "i": int, "u": int}.get(kind, (int, float))
    if not isinstance(value, fits) or (isinstance(value, bool) and kind != "b"):
        said = f"{param.what} is the {name} {value}; {param.type} wants {param.dtype.name}"
        raise DTypeError(said, argument=param.name, expected=param.dtype.name, got=name)
    try:
        with np.errstate(over="ignore"):
            made: Array = np.array(value, param.dtype)
        if kind not in "biu" and math.isfinite(value) and not math.isfinite(float(made)):
            raise OverflowError
        return made
    except OverflowError:
        said = f"{param.what} is {value}, which {param.dtype.name} cannot hold"
        raise DTypeError(said, argument=param.name, expected=param.dtype.name, got=name) from None


# -- torch


def _from_torch(param: Parameter, tensor: Any, torch: Any) -> Array:
    if not tensor.is_cpu:
        said = f"{param.what} is on {tensor.device}; this executable runs on the CPU: pass x.cpu()"
        raise DeviceError(said, argument=param.name, expected="cpu", got=str(tensor.device))
    if tensor.requires_grad:
        if torch.is_grad_enabled():
            raise ArgumentError(
                f"{param.what} requires a gradient, and none is computed here: "
                "pass x.detach(), or call under torch.no_grad()",
                argument=param.name,
            )
        tensor = tensor.detach()
    try:
        tensor = _resolved(param, tensor)
        if tensor.dtype is torch.bfloat16:
            bits: Array = tensor.view(torch.int16).numpy()
            return bits.view(numpy_dtype("bf16"))
        array: Array = tensor.numpy()
    except (TypeError, RuntimeError) as error:
        said = f"{param.what}: this tensor cannot be read as an array: {error}"
        raise ArgumentError(said, argument=param.name) from error
    if array.dtype != param.dtype:
        named = {"bool": "torch.bool"}.get(param.dtype.name, f"torch.{param.dtype.name}")
        raise _wrong_dtype(param, array.dtype, f"x.to({named})")
    return array


def _resolved(param: Parameter, tensor: Any) -> Any:
    """The values of a view that torch negates or conjugates when it is read, in memory of their own."""
    if not (tensor.is_neg() or tensor.is_conj()):
        return tensor
    if param.inout:
        said = f"{_written(param)}, but the tensor is a negated or conjugated view: pass x.resolve_neg()"
        raise LayoutError(said, argument=param.name)
    return tensor.resolve_conj().resolve_neg()


def view_of(value: Any) -> Array | None:
    """The memory of a numpy array or a torch tensor on the CPU, whatever its element type; None of anything else."""
    if isinstance(value, np.ndarray):
        return value
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or not value.is_cpu:
        return None
    size, bits = value.element_size(), {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    made: Array | None = value.detach().view(bits[size]).numpy() if size in bits else None
    return made


def to_torch(array: Array) -> Any:
    torch: Any = sys.modules["torch"]
    if array.dtype.kind == _FOREIGN_KIND:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


# -- complex tensors of an imported model: the program has one axis more, for the real and the imaginary parts


def as_pairs(argument: str, value: Any, part: str, written: bool) -> Any:
    """A complex argument of numpy or torch as a program takes it, whose parts have the element type `part`."""
    wanted = f"complex{16 * numpy_dtype(part).itemsize}"
    given = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
    is_torch = not isinstance(value, (np.ndarray, np.generic))
    if given != wanted:
        way = f"x.to(torch.{wanted})" if is_torch else f"x.astype({wanted!r})"
        said = f"argument `{argument}` has elements of type {given}, but the model wants {wanted}: pass {way}"
        raise DTypeError(said, argument=argument, expected=wanted, got=given)
    if is_torch:
        if written and value.is_conj():
            said = f"argument `{argument}` is written to, but is a conjugated view: pass x.resolve_conj()"
            raise LayoutError(said, argument=argument)
        return sys.modules["torch"].view_as_real(value.detach().resolve_conj())
    if written and not value.flags.c_contiguous:
        said = f"argument `{argument}` is written to, but is not contiguous: pass x.copy()"
        raise LayoutError(said, argument=argument)
    return np.ascontiguousarray(value).reshape(*value.shape, 1).view(numpy_dtype(part))


def from_pairs(value: Any) -> Any:
    """A complex result in the caller's kind of array."""
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value).view(np.result_type(value.dtype, np.complex64))[..., 0]
    torch: Any = sys.modules["torch"]
    if not value.numel():  # its strides say nothing
        return torch.empty(value.shape[:-1], dtype=value.dtype.to_complex())
    return torch.view_as_complex(value)


# -- DLPack

_CPU_DEVICES = (1, 3, 11)  # kDLCPU, kDLCUDAHost, kDLROCMHost


def _from_dlpack(param: Parameter, value: Any) -> tuple[Array, Export | None]:
    device = value.__dlpack_device__()[0] if hasattr(value, "__dlpack_device__") else 1
    if int(device) not in _CPU_DEVICES:
        said = f"{param.what} is not in the memory of the CPU, where this executable runs"
        raise DeviceError(said, argument=param.name, expected="cpu")
    try:
        array: Array = np.from_dlpack(value)
    except (TypeError, RuntimeError, BufferError, ValueError) as error:
        # numpy's DLPack knows no bf16; the arrays of JAX do when asked for numpy's.
        if not hasattr(value, "__array__"):
            said = f"{param.what}: this array cannot be read by DLPack: {error}"
            raise ArgumentError(said, argument=param.name) from error
        array = _converted(param, value)
    return array, _exporter(value)


def _converted(param: Parameter, value: Any) -> Array:
    """numpy's reading of an object, which may be a copy."""
    if param.inout:
        name = type(value).__name__
        raise LayoutError(f"{_written(param)}, which a {name} may not show: pass a numpy array", argument=param.name)
    made: Array = np.asarray(value)
    if made.dtype.hasobject:
        raise _no_array(param, f"a {type(value).__name__}")
    return made


def _exporter(value: Any) -> Export | None:
    """The `from_dlpack` of the caller's library, by the array API or by the module of its arrays."""
    if hasattr(value, "__array_namespace__"):
        found = getattr(value.__array_namespace__(), "from_dlpack", None)
        return found if callable(found) else None
    module = sys.modules.get(type(value).__module__.partition(".")[0])
    found = getattr(module, "from_dlpack", None)
    return found if callable(found) else None


# -- where results go


def output_buffer(what: str, value: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """A buffer that the caller gave for a result, as an array; CallError unless it is just as the result."""
    if type(value) is np.ndarray and value.dtype is dtype and value.shape == shape:
        flags = value.flags
        if flags.c_contiguous and flags.writeable and flags.aligned:
            return value
    param = Parameter(what, f"the result, {dtype.name}{list(shape)},", dtype, len(shape), True)
    if isinstance(value, (bool, int, float, np.generic)):
        raise ArgumentError(f"{what} is a number; an array that can be written to is needed")
    array = accept(param, value)
    if array.shape != shape:
        said = f"{what} has the shape {array.shape}, but the result has {shape}"
        raise ShapeError(said, expected=list(shape), got=list(array.shape))
    return array


def overlapping(arrays: list[tuple[str, Array]], others: list[tuple[str, Array]]) -> CallError | None:
    """An error when memory that is written belongs to another array as well."""
    for i, (what, array) in enumerate(arrays):
        for other_what, other in [*arrays[:i], *others]:
            if array.size and other.size and np.may_share_memory(array, other):
                return LayoutError(f"{what} shares memory with {other_what}; results need memory of their own")
    return None
