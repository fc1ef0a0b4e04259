"""Symbols under other names: those of an exported file (`s77`) say nothing to its readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ...ir.diagnostics import Span, error
from ...ir.dims import Dim
from ...ir.graph import Bind, Likely, Module


def rename_symbols(module: Module, names: Mapping[str, str]) -> Module:
    """The module with its symbols renamed, all at once; CompileError for an unknown name, or one that is taken."""
    words = set(_words(module))
    symbols = sorted(_symbols(module))
    for old, new in names.items():
        if old not in symbols:
            raise error(f"there is no symbol `{old}` to rename", helps=(f"there are {', '.join(symbols) or 'none'}",))
        if new in words - names.keys() or list(names.values()).count(new) > 1:
            raise error(f"`{old}` cannot be called `{new}`, for something else is", helps=("choose another name",))
    made = _renamed(module, dict(names), {old: Dim.of(new) for old, new in names.items()})
    assert isinstance(made, Module)
    return made


def _renamed(node: Any, names: dict[str, str], dims: dict[str, Dim]) -> Any:
    if isinstance(node, Dim):
        return node.subs(dims)
    if isinstance(node, tuple):
        return tuple(_renamed(item, names, dims) for item in node)
    if not is_dataclass(node) or isinstance(node, (type, Span)):
        return node
    changed: Any = replace(node, **{f.name: _renamed(getattr(node, f.name), names, dims) for f in fields(node)})
    if isinstance(node, (Bind, Likely)):
        changed = replace(changed, symbol=names.get(node.symbol, node.symbol))
    return changed


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    if isinstance(node, tuple):
        for item in node:
            yield from _nodes(item)
    elif is_dataclass(node) and not isinstance(node, (type, Span, Dim)):
        for f in fields(node):
            yield from _nodes(getattr(node, f.name))


def _symbols(module: Module) -> set[str]:
    found = {s for node in _nodes(module) if isinstance(node, Dim) for s in node.symbols}
    return found | {node.symbol for node in _nodes(module) if isinstance(node, (Bind, Likely))}


def _words(module: Module) -> Iterator[str]:
    """Names in use: symbols, and values and whatever else is called something."""
    yield from _symbols(module)
    yield from (node for node in _nodes(module) if isinstance(node, str))
