"""Divisions that stay the same in a loop, computed before it.

LLVM would do that itself, but for those that stand under a condition: where it vectorises the loop it keeps such a
division under the condition of the first lane, and takes the quotient, undefined where that lane is left out, for the
addresses of all of them (LLVM 20, a masked load at an address with a `udiv` by a value).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.dims import Dim
from ...ir.loops import Assign, Expr, For, Index, Let, Local, map_stmt, walk_stmts


def divisions_before(loop: For) -> tuple[tuple[Let, ...], For]:
    """The quotients by sizes (not by numbers) that no iteration changes, named, and the loop that reads the names."""
    changed = {loop.var}
    for stmt in walk_stmts(loop.body):
        if isinstance(stmt, (Let, Local, Assign)):
            changed.add(stmt.name)
        elif isinstance(stmt, For):
            changed.add(stmt.var)
    named = _Named(frozenset(changed))

    def replaced(node: Expr) -> Expr | None:
        return Index(node.dim.fold(named)) if isinstance(node, Index) else None

    body = tuple(map_stmt(s, replaced) for s in loop.body)
    if not named.found:
        return (), loop
    return tuple(named.found.values()), For(loop.var, loop.start, loop.stop, body, loop.kind)


@dataclass
class _Named:
    """The algebra of sizes, but for quotients of what stays the same."""

    changed: frozenset[str]
    found: dict[Dim, Let] = field(default_factory=dict)

    def const(self, value: int) -> Dim:
        return Dim.of(value)

    def sym(self, name: str) -> Dim:
        return Dim.of(name)

    def add(self, a: Dim, b: Dim) -> Dim:
        return a + b

    def mul(self, a: Dim, b: Dim) -> Dim:
        return a * b

    def floordiv(self, a: Dim, b: Dim) -> Dim:
        quotient = a // b
        if b.is_const or quotient.symbols & self.changed:
            return quotient
        return Dim.of(self.found.setdefault(quotient, Let(f"({quotient})", Index(quotient))).name)

    def mod(self, a: Dim, b: Dim) -> Dim:
        return a - b * self.floordiv(a, b)

    def min(self, a: Dim, b: Dim) -> Dim:
        return Dim.min(a, b)

    def max(self, a: Dim, b: Dim) -> Dim:
        return Dim.max(a, b)
