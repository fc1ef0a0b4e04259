"""Arguments as they are written in a call, by position or name, tuples among them, to one array for each parameter.

Host code has no tuples: a parameter `p: (f32[n], i64[])` is two parameters there, `p.0` and `p.1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .contract import Tensor
from .errors import ArgumentError

# How a declared parameter is made of those of host code: the number of one, or a tuple of trees.
Positions = Any


@dataclass(frozen=True)
class Arguments:
    """The declared parameters of a function: name, and tree of positions."""

    function: str
    declared: tuple[tuple[str, Positions], ...]

    @staticmethod
    def of(function: str, params: Sequence[Tensor]) -> Arguments:
        groups: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for index, param in enumerate(params):
            name, *path = param.name.split(".")
            groups.setdefault(name, []).append((tuple(path), index))
        return Arguments(function, tuple((name, _tree(items)) for name, items in groups.items()))

    @property
    def has_tuples(self) -> bool:
        return any(isinstance(tree, tuple) for _, tree in self.declared)

    def has(self, name: str) -> bool:
        """Whether a parameter has that name."""
        return any(name == declared for declared, _ in self.declared)

    def __str__(self) -> str:
        names = ", ".join(name for name, _ in self.declared)
        count = len(self.declared)
        noun = f"argument{'' if count == 1 else 's'}"
        return f"@{self.function} takes {count} {noun} ({names})" if count else f"@{self.function} takes no arguments"

    def declaration(self, params: Sequence[Tensor]) -> str:
        """The parameters as they are declared, `x: f32[n], p: (f32[n], i64[])`."""

        def type_of(tree: Positions) -> str:
            return str(params[tree]) if isinstance(tree, int) else f"({', '.join(map(type_of, tree))})"

        written = {name for name, tree in self.declared if isinstance(tree, int) and params[tree].inout}
        return ", ".join(f"{'inout ' * (name in written)}{name}: {type_of(tree)}" for name, tree in self.declared)

    def bind(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """One value for each parameter of host code; ArgumentError when the call does not fit."""
        names = [name for name, _ in self.declared]
        if len(args) > len(names):
            raise ArgumentError(f"{self}, but {len(args)} were given")
        values = dict(zip(names, args, strict=False))
        for name, value in named.items():
            if name not in names:
                raise ArgumentError(f"{self}; there is no `{name}`")
            if name in values:
                raise ArgumentError(f"{self}; `{name}` was given twice")
            values[name] = value
        missing = [f"`{name}`" for name in names if name not in values]
        if missing:
            raise ArgumentError(f"{self}; missing: {', '.join(missing)}")
        if not self.has_tuples:
            return tuple(values[name] for name in names)
        flat = dict(item for name, tree in self.declared for item in self._flatten(name, tree, values[name]))
        return tuple(flat[index] for index in range(len(flat)))

    def _flatten(self, name: str, tree: Positions, value: Any) -> Iterator[tuple[int, Any]]:
        if isinstance(tree, int):
            yield tree, value
            return
        if not isinstance(value, (tuple, list)) or len(value) != len(tree):
            got = f"{len(value)} items" if isinstance(value, (tuple, list)) else f"a {type(value).__name__}"
            raise ArgumentError(f"argument `{name}` of @{self.function} is a tuple of {len(tree)}, but got {got}")
        for number, (inner, item) in enumerate(zip(tree, value, strict=True)):
            yield from self._flatten(f"{name}.{number}", inner, item)


def _tree(items: list[tuple[tuple[str, ...], int]]) -> Positions:
    if len(items) == 1 and not items[0][0]:
        return items[0][1]
    groups: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for (first, *rest), index in items:
        groups.setdefault(first, []).append((tuple(rest), index))
    return tuple(_tree(group) for group in groups.values())
