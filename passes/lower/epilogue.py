"""What is computed from each element of a contraction or block op before it is stored: the rest of its group."""

from __future__ import annotations

from ...ir.loops import Expr
from ...ir.scalar import cast, index
from .emit import Emitter
from .fuse import Group
from .kernel import Scope, store
from .reads import element


class Epilogue:
    """`run` emits, for one element of the group's first member, everything that the group stores for it."""

    def __init__(self, scope: Scope, group: Group, emitter: Emitter) -> None:
        self.scope = scope
        self.group = group
        self.e = emitter
        self.head = group.members[0]
        self.nodes = {n.name: n for n in group.members}
        self.memo: dict[str, Expr] = {}
        self.position: tuple[Expr, ...] = ()

    def run(self, position: tuple[Expr, ...], value: Expr) -> None:
        """`value` is the head's element at `position`, in the type it was accumulated in."""
        self.position = position
        self.memo = {self.head.name: self.e.let(cast(value, self.head.type.dtype))}
        for node in self.group.members:
            if node.name in self.scope.fusion.stored:
                store(self.e, self.scope, node.name, self._at(node.name), self._value(node.name))

    def _at(self, name: str) -> tuple[Expr, ...]:
        """Where the member's element stands in its own shape."""
        return tuple(index(0) if d is None else self.position[d] for d in self.group.layout[name])

    def _read(self, name: str, position: tuple[Expr, ...]) -> Expr:
        return self._value(name) if name in self.nodes else self.scope.load(name, position)

    def _value(self, name: str) -> Expr:
        known = self.memo.get(name)
        if known is None:
            node, inline = self.nodes[name], self.scope.fusion.inline
            value = element(self.scope.flow, node, self.e, self._at(name), inline, self._read)
            known = self.memo[name] = self.e.let(value)
        return known
