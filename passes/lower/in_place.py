"""Which results may be written over an operand: where each element is read, at its own place, before it is written."""

from __future__ import annotations

from dataclasses import replace

from ...ir.loops import Expr, Index, Kernel
from ..planner import Plan
from .fuse import Group, variables
from .kernel import Scope
from .reads import ONE, at


def may_replace(scope: Scope, group: Group) -> dict[str, tuple[str, ...]]:
    """For the group's only result: the operands (root values) whose memory it may take when they die here."""
    stored = [n for node in group.members for n in node.names if n in scope.fusion.stored]
    if group.kind not in ("map", "row", "contract") or len(stored) != 1:
        return {}
    (result,) = stored
    candidates = {a.name for node in group.members for a in scope.fusion.reads[node.name]} - group.layout.keys()
    fitting = tuple(sorted(name for name in candidates if _only_at_own_place(scope, group, result, name)))
    return {result: fitting} if fitting else {}


def _only_at_own_place(scope: Scope, group: Group, result: str, operand: str) -> bool:
    """Is every read of the operand's memory, by whatever name, at the element that `result` is writing?"""
    flow = scope.flow
    mine, other = flow.types[result], flow.types[operand]
    if operand in flow.alias_of or mine.dtype is not other.dtype or mine.dims != other.dims:
        return False
    for node in group.members:
        for access in scope.fusion.reads[node.name]:
            if flow.root(access.name) != operand:
                continue
            in_product = group.kind == "contract" and node is group.members[0]
            if in_product or access.name != operand or not _same_place(group, node.name, result, access.position):
                return False
    return True


def _same_place(group: Group, reader: str, result: str, position: tuple[Expr, ...]) -> bool:
    layout = group.layout[reader]
    whole = len(layout) == len(position) and None not in layout
    where = dict(zip(layout if whole else range(len(group.dims)), variables(len(position)), strict=False))
    for d, i in zip(group.layout[result], position, strict=True):
        if d is None or group.dims[d] == ONE:
            continue
        if d not in where or not isinstance(i, Index) or not at(i, where[d], group.dims[d]):
            return False
    return True


def mark(kernel: Kernel, plan: Plan) -> Kernel:
    """The kernel with the buffers named that the plan lets overlap."""
    taken = {line.buffer.name: line.in_place_of for line in plan.lines if line.in_place_of is not None}
    names = {b.name for b in kernel.buffers}
    buffers = tuple(
        replace(b, may_alias=taken[b.name]) if b.mode != "in" and taken.get(b.name) in names else b
        for b in kernel.buffers
    )
    return kernel if buffers == kernel.buffers else replace(kernel, buffers=buffers)
