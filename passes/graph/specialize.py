"""Symbols replaced by sizes: only when a user asks for it (`--dim n=128`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from typing import Any, ClassVar

from ...ir.diagnostics import Span, error
from ...ir.dims import Dim
from ...ir.facts import Compare, InRange, OneOf
from ...ir.graph import Bind, DimValue, Likely, Module
from ...ir.subs import dim_operand

_FACTS = (Compare, InRange, OneOf)


@dataclass(frozen=True)
class Specialize:
    """Replaces symbols of every function and weight; a size that breaks a fact is refused."""

    name: ClassVar[str] = "specialize"
    sizes: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(sizes: Mapping[str, int]) -> Specialize:
        return Specialize(tuple(sorted(sizes.items())))

    def run(self, module: Module) -> Module:
        known = sorted(_symbols(module))
        for name, _ in self.sizes:
            if name not in known:
                near = get_close_matches(name, known, 1)
                raise error(
                    f"there is no symbol `{name}` to give a size to",
                    helps=(f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known) or 'none'}",),
                )
        result = _rewrite(module, dict(self.sizes))
        assert isinstance(result, Module)
        return result


def _rewrite(node: Any, sizes: dict[str, int]) -> Any:
    if isinstance(node, Dim):
        return node.subs(sizes)
    if isinstance(node, tuple):
        kept = (_rewrite(item, sizes) for item in node if not (isinstance(item, Likely) and item.symbol in sizes))
        return tuple(item for item in kept if item is not None)
    if isinstance(node, _FACTS):
        return _fact(node, sizes)
    if not is_dataclass(node) or isinstance(node, (type, Span)):
        return node
    if isinstance(node, Bind) and node.symbol in sizes:
        # The value that comes must be the size, which nothing else says any more.
        fixed = Compare("==", Dim.of(node.symbol), sizes[node.symbol])
        return replace(node, facts=(*_rewrite(node.facts, sizes), fixed))
    changed: Any = replace(node, **{f.name: _rewrite(getattr(node, f.name), sizes) for f in fields(node)})
    return dim_operand(changed) if isinstance(changed, DimValue) else changed


def _fact(fact: Compare | InRange | OneOf, sizes: dict[str, int]) -> Any:
    """A fact that has become a statement about numbers is settled here."""
    new = fact.subs(sizes)
    if new.symbols:
        return new
    if not new.holds({}):
        given = ", ".join(f"{name}={value}" for name, value in sizes.items() if name in fact.symbols)
        raise error(f"{given} contradicts the fact `{fact}`", fact.span)
    return None


def _symbols(node: Any) -> frozenset[str]:
    if isinstance(node, Dim):
        return node.symbols
    if isinstance(node, tuple):
        return frozenset[str]().union(*map(_symbols, node))
    if not is_dataclass(node) or isinstance(node, (type, Span)):
        return frozenset()
    return frozenset[str]().union(*(_symbols(getattr(node, f.name)) for f in fields(node)))
