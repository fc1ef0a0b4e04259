"""Cheap values that only other kernels read are computed there again, rather than stored beside what they come from.

After fusion, `y = add(a, b)` and `square(y)` may stand in one kernel because both are at hand there, while the next
kernel reads both from memory.  Where y is stored anyway, its reader squares it for less than loading the square costs.
"""

from __future__ import annotations

from ...ir.loops import Expr, walk_expr
from ...ir.op import AliasOp, ElementOp, Pointwise, ReduceOp
from .costs import HEAVY, cost_of
from .emit import PureContext
from .fuse import Fuser, Group, positions
from .nodes import Node
from .reads import element


def recompute_cheap(fuser: Fuser) -> None:
    """Moves such values into their readers; their groups lose what nobody in them needs."""
    changed = True
    while changed:
        stored = fuser.stored()
        placed = [(group, node) for group in fuser.groups.values() for node in group.members]
        changed = sum(_move(fuser, group, node, stored) for group, node in placed) > 0


def _move(fuser: Fuser, group: Group, node: Node, stored: set[str]) -> bool:
    name = node.name
    if name not in stored or name in fuser.needs_buffer or name in fuser.inline:
        return False
    if not isinstance(node.op, Pointwise) or node is group.members[0] or not group.is_full(name):
        return False
    readers = [
        n for n in fuser.flow.order if n.name in fuser.reads and any(a.name == name for a in fuser.reads[n.name])
    ]
    outside = [n for n in readers if fuser.group_of[n.name].id != group.id]
    if not all(isinstance(n.op, (ElementOp, AliasOp, ReduceOp)) for n in outside):
        return False
    if not all(_at_hand(fuser, a.name, stored) for a in fuser.reads[name]) or not _is_cheap(fuser, node):
        return False
    fuser.inline |= {name}
    if len(outside) == len(readers):
        group.members.remove(node)
        del group.layout[name], fuser.group_of[name], fuser.reads[name]
    for reader in outside:
        fuser.trace_again(reader)
    return True


def _at_hand(fuser: Fuser, name: str, stored: set[str]) -> bool:
    root = fuser.flow.root(name)
    return root in fuser.flow.sources or root in stored


def _is_cheap(fuser: Fuser, node: Node) -> bool:
    ctx = PureContext(fuser.facts)

    def read(name: str, position: tuple[Expr, ...]) -> Expr:
        return fuser.load(name, position)

    value = element(fuser.flow, node, ctx, positions(node.type.dims), fuser.inline, read)
    return not ctx.impure and sum(map(cost_of, walk_expr(value))) < HEAVY
