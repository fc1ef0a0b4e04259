"""Lowering a module: every function becomes kernels and a host program."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import graph
from ...ir.facts import Facts
from ...ir.loops import HostTensor, Kernel, Program
from ..planner import Plan
from .contract import emit_contract
from .fuse import Fuser, Group
from .host import function_host
from .in_place import mark
from .irregular import emit_blocks, emit_irregular
from .kernel import Pack, Scope
from .load import load_host
from .nodes import Dataflow, dataflow
from .place import adopt_updates
from .prepare import prepare
from .recompute import recompute_cheap
from .rows import emit_rows
from .share import share_kernels


@dataclass(frozen=True)
class Lowered:
    """The program, and per function what the reports are made of."""

    program: Program
    plans: dict[str, Plan]
    fused: dict[str, list[tuple[str, Group]]]


def lower(module: graph.Module, vector_bytes: int | None, budget_s: float = 0.05) -> Lowered:
    """Lowers a typed module that is free of calls and composite ops.

    `vector_bytes` of the target decide how weights are packed; None reads weights as they are.
    `budget_s`: seconds the memory planner may search, a function.
    """
    kernels: list[Kernel] = []
    hosts = []
    plans: dict[str, Plan] = {}
    fused: dict[str, list[tuple[str, Group]]] = {}
    packs: dict[str, Pack] = {}
    prepared = prepare(module)
    for function in prepared.module.functions:
        scope, fused[function.name], made = _lower_function(prepared.module, function, vector_bytes, packs)
        host, plan = function_host(prepared.module, scope, made, prepared.values, budget_s)
        plans[function.name] = plan
        kernels.extend(mark(k, plan) for k in made)
        hosts.append(host)
    load = None
    if module.weights or packs or prepared.values:
        scope, named, made = _lower_function(module, prepared.load, None, {})
        fused |= {prepared.load.name: named} if named else {}
        load, load_kernels = load_host(module, prepared, scope, made, packs, hosts, budget_s)
        kernels.extend(load_kernels)
    program = Program(
        tuple(HostTensor(w.name, w.type.dtype, w.type.dims) for w in module.weights),
        tuple(HostTensor(c.name, c.type.dtype, c.type.dims) for c in module.consts),
        tuple(kernels),
        load,
        tuple(hosts),
    )
    return Lowered(share_kernels(program), plans, fused)


def _lower_function(
    module: graph.Module, function: graph.Function, vector_bytes: int | None, packs: dict[str, Pack]
) -> tuple[Scope, list[tuple[str, Group]], list[Kernel]]:
    """The groups of a function by the names of their kernels, and the kernels, in order."""
    scope = _scope(module, function, vector_bytes, packs)
    named = [(f"{function.name}.{i}.{_label(g)}", g) for i, g in enumerate(scope.fusion.groups)]
    return scope, named, [_emit(scope, g, name) for name, g in named]


def _scope(module: graph.Module, function: graph.Function, vector_bytes: int | None, packs: dict[str, Pack]) -> Scope:
    flow = dataflow(module, function)
    known = (*(f for w in module.weights for f in w.facts), *function.facts, *(f for c in flow.casts for f in c.facts))
    facts = Facts().add(*known)
    fuser = Fuser(flow, facts)
    fuser.place()
    recompute_cheap(fuser)
    fusion = fuser.finish()
    adopt_updates(flow, fusion, facts)
    return Scope(flow, fusion, facts, known, _taken(flow, facts), vector_bytes, packs)


def _taken(flow: Dataflow, facts: Facts) -> frozenset[str]:
    names = set(flow.types) | flow.bound.keys()
    for t in flow.types.values():
        for d in t.dims:
            names |= d.symbols
    for node in flow.order:
        names |= node.op.dims()
    return frozenset(names)


def _emit(scope: Scope, group: Group, name: str) -> Kernel:
    if group.kind == "contract":
        return emit_contract(scope, group, name)
    if group.kind == "block":
        return emit_blocks(scope, group, name)
    if group.kind == "kernel":
        return emit_irregular(scope, group, name)
    return emit_rows(scope, group, name)


def _label(group: Group) -> str:
    """A short name for people: the first and last op."""
    names = [n.op.name for n in group.members]
    return names[0] if len(names) == 1 else f"{names[0]}_{names[-1]}"
