"""Frozen dataclasses to plain data (JSON) and back, checking every type on the way in."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

# How results are made of outputs, `str | tuple[Tree, ...]`. Written as Any, which `decode` takes for such a tree.
Tree = Any


class MalformedError(ValueError):
    """The data has not the form that was asked for; the message says where."""


def encode(value: object) -> Any:
    """Plain data for a dataclass or anything that it may contain."""
    if is_dataclass(value):
        return {f.name: encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): encode(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(v) for v in value]
    return value


def decode(kind: type[T], data: object, where: str = "contract") -> T:
    """A `kind` from plain data. Unknown keys are ignored, so that later versions may add some."""
    result: T = _decode(kind, data, where)
    return result


def _decode(kind: Any, data: Any, where: str) -> Any:
    if kind is Any:
        return _tree(data, where)
    if is_dataclass(kind):
        return _decode_class(kind, data, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        (inner,) = (a for a in arguments if a is not type(None))
        return None if data is None else _decode(inner, data, where)
    if origin is tuple:
        return _decode_tuple(arguments, data, where)
    if origin is dict:
        _require(isinstance(data, dict), where, "an object")
        return {key: _decode(arguments[1], value, f"{where}.{key}") for key, value in data.items()}
    # bool is an int in Python, not here.
    _require(type(data) is kind, where, getattr(kind, "__name__", str(kind)))
    return data


def _decode_class(kind: Any, data: Any, where: str) -> Any:
    _require(isinstance(data, dict), where, "an object")
    values = {}
    for name, hint in _hints(kind).items():
        _require(name in data, where, f"an object with `{name}`")
        values[name] = _decode(hint, data[name], f"{where}.{name}")
    return kind(**values)


def _decode_tuple(arguments: tuple[Any, ...], data: Any, where: str) -> Any:
    _require(isinstance(data, list), where, "a list")
    if arguments[-1] is Ellipsis:
        return tuple(_decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    _require(len(data) == len(arguments), where, f"a list of {len(arguments)}")
    return tuple(_decode(a, item, f"{where}[{i}]") for i, (a, item) in enumerate(zip(arguments, data, strict=True)))


def _tree(data: Any, where: str, depth: int = 0) -> Tree:
    _require(depth < 100, where, "a tree of less depth")
    if isinstance(data, str):
        return data
    _require(isinstance(data, list), where, "a name or a list")
    return tuple(_tree(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(data))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _require(condition: bool, where: str, wanted: str) -> None:
    if not condition:
        raise MalformedError(f"{where} is not {wanted}")
