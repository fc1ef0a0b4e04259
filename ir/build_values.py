"""Python values as attributes and constants, for the builder."""

from __future__ import annotations

import math
import types as python_types
from functools import cache
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from .diagnostics import error
from .dims import Dim
from .rounding import converted
from .types import DType, TensorType

if TYPE_CHECKING:
    from .op import Op


@cache
def attribute_hints(cls: type[Op]) -> dict[str, Any]:
    """The annotations of an op's fields, evaluated."""
    return get_type_hints(cls)


def attribute(cls: type[Op], name: str, value: object) -> object:
    """A value for a field: lists become tuples, `"f32"` a DType where one is wanted, numbers sizes where they are."""
    return _convert(value, attribute_hints(cls)[name])


def _convert(value: object, hint: Any) -> object:
    options = get_args(hint) if get_origin(hint) in (Union, python_types.UnionType) else (hint,)
    if isinstance(value, (list, tuple)):
        items = next((o for o in options if get_origin(o) is tuple), None)
        args = get_args(items) if items is not None else (Any, ...)
        hints = args if len(args) == len(value) and ... not in args else (args[0],) * len(value) if args else ()
        return tuple(_convert(v, h) for v, h in zip(value, hints, strict=True))
    if isinstance(value, str) and DType in options and str not in options:
        return DType(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool):
        if Dim in options and int not in options:
            return Dim.of(value)
        if float in options and int not in options:
            return float(value)
    return value


def nested(name: str, value: object, t: TensorType) -> object:
    """The nested tuples of a constant; CompileError when the value has another shape or does not fit its dtype."""
    array = np.asarray(value)
    if not all(d.is_const for d in t.dims) or array.shape != tuple(d.value for d in t.dims):
        raise error(f"the value of `@{name}` has the shape {list(array.shape)}, its type is {t}")
    stored = converted(array, t.dtype)
    if not t.dtype.is_float and not np.array_equal(stored, array):
        raise error(f"the value of `@{name}` does not fit {t.dtype}")
    return numbers(stored, t.dtype)


def numbers(array: np.ndarray, dtype: DType) -> object:
    """Nested tuples of numbers, as `Const` holds them."""
    if array.ndim:
        return tuple(numbers(item, dtype) for item in array)
    return number(array[()], dtype)


def number(value: Any, dtype: DType) -> bool | int | float:
    """A numpy scalar as the Python number that the IR holds."""
    if dtype.is_bool:
        return bool(value)
    if dtype.is_int:
        return int(value)
    real = float(value)
    return math.nan if math.isnan(real) else real  # one object, so that equal modules compare equal
