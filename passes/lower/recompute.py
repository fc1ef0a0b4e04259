"""Cheap values that only other kernels read are computed there again, rather than stored.

After fusion, `y = add(a, b)` and `square(y)` may stand in one kernel because both are at hand there, while the next
kernel reads both from memory.  Where y is stored anyway, its reader squares it for less than loading the square costs.
And `neg(x)` that is read at another place (rotary embeddings concatenate it) has a kernel of its own, which is not
worth a launch and two trips through memory.
"""

from __future__ import annotations

from ...ir.loops import Load, walk_expr
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
    alone = group.kind == "map" and len(group.members) == 1
    if not isinstance(node.op, Pointwise) or not group.is_full(name) or (node is group.members[0] and not alone):
        return False
    placed = (n for n in fuser.flow.order if n.name in fuser.reads)
    readers = [n for n in placed if any(a.name == name for a in fuser.reads[n.name])]
    outside = [n for n in readers if fuser.group_of[n.name].id != group.id]
    if not all(isinstance(n.op, (ElementOp, AliasOp, ReduceOp)) for n in outside):
        return False
    if not all(_at_hand(fuser, a.name, stored) for a in fuser.reads[name]):
        return False
    if not _is_cheap(fuser, node, len(outside) if alone else 0):
        return False
    fuser.inline |= {name}
    if len(outside) == len(readers):
        fuser.remove(group, node)
    for reader in outside:
        fuser.trace_again(reader)
    return True


def _at_hand(fuser: Fuser, name: str, stored: set[str]) -> bool:
    root = fuser.flow.root(name)
    return root in fuser.flow.sources or root in stored


def _is_cheap(fuser: Fuser, node: Node, readers: int) -> bool:
    """Is computing it again little work, and (where that saves its kernel) loading its operands in every reader too?"""
    ctx = PureContext(fuser.facts)
    value = element(fuser.flow, node, ctx, positions(node.type.dims), fuser.inline, fuser.load)
    parts = list(walk_expr(value))
    loads = len({x for x in parts if isinstance(x, Load)})
    return not ctx.impure and sum(map(cost_of, parts)) < HEAVY and loads * readers <= 1 + loads + readers
