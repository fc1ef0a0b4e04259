"""Where values live: in the caller's outputs, in a parameter that is updated, or in the planned arena."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...ir.diagnostics import error
from ...ir.dims import Dim
from ...ir.facts import Facts
from ...ir.loops import Copy, HostTensor, Kernel, Ref, Result
from ...ir.op import ElementOp, KernelOp
from ..planner import SymBuffer
from .fuse import Fusion, Group, positions
from .in_place import may_replace
from .kernel import Scope
from .nodes import Dataflow, ResultTree
from .reads import trace_element


def adopt_updates(flow: Dataflow, fusion: Fusion, facts: Facts) -> None:
    """Lets the new value of an inout parameter be computed in the parameter's own buffer, where nobody reads the old.

    The value becomes an alias of the parameter; what cannot is copied when the function ends.
    """
    wanted_old = {flow.root(v) for v in flow.result_values() if isinstance(v, str)} | _updated(flow)
    for param, value in flow.updates:
        if not isinstance(value, str) or param in wanted_old:
            continue
        root = flow.root(value)
        group = fusion.group_of.get(root)
        if group is None or flow.types[root].dtype is not flow.types[param].dtype:
            continue
        if flow.types[root].size != flow.types[param].size or _may_fail(flow, fusion, facts, group):
            continue
        if _last_reader(flow, fusion, param, group):
            flow.alias_of[root] = param


def _may_fail(flow: Dataflow, fusion: Fusion, facts: Facts, group: Group) -> bool:
    """Does the group check data while it writes?  When the check fails, the parameter must be as it was.

    A KernelOp checks before it writes.
    """
    elements = [n for n in group.members if isinstance(n.op, ElementOp)]
    return any(trace_element(flow, facts, fusion.inline, n, positions(n.type.dims)).checks for n in elements)


def _last_reader(flow: Dataflow, fusion: Fusion, param: str, group: Group) -> bool:
    """Is the old value of `param` out of use when `group` has run (and not read by it at other places)?"""
    position = fusion.groups.index(group)
    for i, g in enumerate(fusion.groups):
        reads = any(flow.root(a.name) == param for n in g.members for a in fusion.reads[n.name])
        if reads and i > position:
            return False
        if reads and g is group and not _works_in_place(flow, group, param):
            return False
    return True


def _works_in_place(flow: Dataflow, group: Group, param: str) -> bool:
    (node, *others) = group.members
    if others or not isinstance(node.op, KernelOp) or node.op.in_place is None:
        return False
    uses = [i for i, v in enumerate(node.inputs) if isinstance(v, str) and flow.root(v) == param]
    return uses == [node.op.in_place]


@dataclass
class Placement:
    """`refs`: root value -> place; `copies` end the function."""

    refs: dict[str, Ref] = field(default_factory=dict)
    outputs: list[HostTensor] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    buffers: list[SymBuffer] = field(default_factory=list)


def place(scope: Scope, kernels: list[Kernel], spaces: Mapping[str, str]) -> Placement:
    """Everything but the arena's offsets, which `buffers` asks the planner for.  `spaces` say where globals are."""
    flow = scope.flow
    p = Placement()
    for name in flow.sources:
        p.refs[name] = Ref(spaces[name[1:]], name[1:]) if name.startswith("@") else Ref("param", name)
    waiting: list[tuple[str, HostTensor]] = []
    for tree in flow.results:
        p.results.append(_result(flow, p, tree, waiting))
    use_arena(scope, p, kernels, {root for root, _ in waiting} | _updated(flow))
    for root, tensor in waiting:
        p.copies.append(Copy(p.refs[root], Ref("output", tensor.name), byte_size(flow, root)))
    _copy_updates(flow, p, len(kernels))
    return p


def _copy_updates(flow: Dataflow, p: Placement, end: int) -> None:
    """New values that were not computed in place; one that is another parameter's old value is set aside first."""
    changed = {param for param, _ in flow.updates}
    last: list[Copy] = []
    for param, value in flow.updates:
        if not isinstance(value, str):
            raise error(f"`update {param}` needs a tensor value", helps=("make one of the number with `full`",))
        root = flow.root(value)
        source, size = p.refs[root], byte_size(flow, root)
        if root == param:
            continue
        if root in changed:
            kept = Ref("arena", f"old.{root}.{param}")
            p.buffers.append(SymBuffer(kept.name, size, end, end))
            p.copies.append(Copy(source, kept, size))
            source = kept
        last.append(Copy(source, p.refs[param], size))
    p.copies.extend(last)


def _updated(flow: Dataflow) -> set[str]:
    return {flow.root(v) for _, v in flow.updates if isinstance(v, str)}


def byte_size(flow: Dataflow, name: str) -> Dim:
    return flow.types[name].size * flow.types[name].dtype.bytes


def _result(flow: Dataflow, p: Placement, tree: ResultTree, waiting: list[tuple[str, HostTensor]]) -> Result:
    """A result is computed in the caller's buffer, or copied there when its value lives elsewhere already."""
    if isinstance(tree, tuple):
        return Result(tuple(_result(flow, p, t, waiting) for t in tree))
    assert isinstance(tree, str), "numbers were given names"
    type_ = flow.types[tree]
    tensor = HostTensor(f"result.{len(p.outputs)}", type_.dtype, type_.dims)
    p.outputs.append(tensor)
    root = flow.root(tree)
    if root in p.refs:
        waiting.append((root, tensor))
    else:
        p.refs[root] = Ref("output", tensor.name)
    return Result(tensor.name)


def use_arena(scope: Scope, p: Placement, kernels: list[Kernel], until_end: set[str]) -> None:
    """Puts what has no place yet into the arena: the lifetimes, in steps of one kernel."""
    flow = scope.flow
    roots = {scope.buffer(n): flow.root(n) for n in flow.types}
    replaceable: dict[str, tuple[str, ...]] = {}
    for group in scope.fusion.groups:
        replaceable |= may_replace(scope, group)
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for step, kernel in enumerate(kernels):
        for b in kernel.buffers:
            root = roots.get(b.name)
            if root is not None and root not in p.refs:
                first.setdefault(root, step)
                last[root] = step
    for root in until_end & set(first):
        last[root] = len(kernels)
    for root in first:
        p.refs[root] = Ref("arena", root)
        over = replaceable.get(root, ())
        p.buffers.append(SymBuffer(root, byte_size(flow, root), first[root], last[root], may_share_with=over))
