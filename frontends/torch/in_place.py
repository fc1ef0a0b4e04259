"""Operators that write into a tensor which the program itself made (`relu_`, `add_`): later readers see the new value.

Programs with no other writes need not be traced again, which is what torch's functionalisation does.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch

_NEW = frozenset(
    {
        *(f"aten.conv{n}d.default" for n in (1, 2, 3)),
        "aten.batch_norm.default",
        "aten.group_norm.default",
        "aten.layer_norm.default",
        "aten.linear.default",
        "aten.matmul.default",
        "aten.scaled_dot_product_attention.default",
        "aten.softmax.int",
    }
)
"""Operators made of others whose result is always a tensor of its own; others may return what they were given."""

_DROPOUT = ("aten.dropout_.default", "aten.alpha_dropout_.default", "aten.feature_dropout_.default")

Writes = Mapping[Any, Any]
"""Every node that is a tensor written in place, the writing ones among them, to the node that made the tensor."""


def functional(target: Any) -> Any:
    """The operator that computes what one in place writes, `aten.add.Tensor` of `aten.add_.Tensor`; else itself."""
    if not isinstance(target, torch._ops.OpOverload) or not target._schema.is_mutable:
        return target
    name = target._schema.name.split("::")[1]
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None) if target.namespace == "aten" else None
    return getattr(packet, target._overloadname, target)


def followed(graph_module: Any) -> Writes | None:
    """The program's writes; None where one changes an argument, or a tensor that is seen under another name too."""
    made: dict[Any, Any] = {}  # tensors of their own: each node to the one that made the tensor
    items: dict[tuple[Any, Any], Any] = {}
    seen: set[Any] = set()  # makers of tensors that have views
    written: set[Any] = set()
    for node in graph_module.graph.nodes:
        if node.op != "call_function":
            continue
        if node.target is operator.getitem:
            if node.args[0] in made:
                made[node] = items.setdefault(node.args, node)
            continue
        if not isinstance(node.target, torch._ops.OpOverload):
            if isinstance(node.target, torch._ops.HigherOrderOperator):
                return None
            continue
        if node.target._schema.is_mutable and not _writes_nothing(node):
            root = made.get(node.args[0]) if _writes_first(node.target) else None
            if root is None or root in seen:
                return None
            made[node] = root
            written.add(root)
        elif _is_new(node.target):
            made[node] = node
        else:
            seen.update(made[a] for a in node.all_input_nodes if a in made)
    return {node: root for node, root in made.items() if root in written}


def _writes_nothing(node: Any) -> bool:
    name = str(node.target)
    return name == "aten.detach_.default" or (name in _DROPOUT and not node.args[2])


def _writes_first(target: Any) -> bool:
    written = [a.alias_info is not None and a.alias_info.is_write for a in target._schema.arguments]
    return written[0] and not any(written[1:])


def _is_new(target: Any) -> bool:
    """Whether its results are tensors of their own."""
    if any(r.alias_info is not None for r in target._schema.returns):
        return False
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd")
    return str(target) in _NEW or not composite
