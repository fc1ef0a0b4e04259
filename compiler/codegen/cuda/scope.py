"""What names mean at a point of a kernel, and the identifiers that are taken there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ....ir.types import DType
from .index import Int
from .values import Value

_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq threadIdx blockIdx blockDim gridDim warpSize linux unix
"""
_RESERVED = frozenset(_WORDS.split())


def identifier(name: str) -> str:
    """The name as a C++ identifier; different names may give the same one."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name)
    text = re.sub(r"__+", "_", text).lstrip("_") or "v"  # two underscores are the compiler's
    if text[0].isdigit() or text in _RESERVED or text.startswith("pl_"):
        text = f"v_{text}"
    return text


def unused(name: str, taken: Iterable[str]) -> str:
    """An identifier for `name` that is not taken."""
    text = stem = identifier(name)
    count = 1
    while text in taken:
        count += 1
        text = f"{stem}_{count}"
    return text


@dataclass(frozen=True)
class BufferRef:
    """A pointer expression and the type of the elements."""

    text: str
    dtype: DType


@dataclass
class Scope:
    """Copied at every body, so that names end where their block ends.

    `values` are `Let`s and `Local`s other than i64 `Let`s; `ints` are sizes, loop variables and i64 `Let`s.
    """

    values: dict[str, Value] = field(default_factory=dict)
    ints: dict[str, Int] = field(default_factory=dict)
    buffers: dict[str, BufferRef] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def inner(self) -> Scope:
        return replace(
            self, values=dict(self.values), ints=dict(self.ints), buffers=dict(self.buffers), taken=set(self.taken)
        )

    def name(self, name: str) -> str:
        """Takes an identifier for `name`."""
        text = unused(name, self.taken)
        self.taken.add(text)
        return text

    def let_int(self, name: str, value: Int) -> None:
        self.ints[name] = value
        self.values.pop(name, None)

    def let_value(self, name: str, value: Value) -> None:
        self.values[name] = value
        self.ints.pop(name, None)
