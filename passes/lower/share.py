"""Kernels that are the same but for names are compiled once.

Layers repeat, so this is most of a model's compile time.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

from ...ir.dims import Dim
from ...ir.loops import Alloc, Contract, For, HostProgram, Kernel, Launch, Let, Local, Program, walk_stmts


def share_kernels(program: Program) -> Program:
    """Replaces kernels equal up to the names of buffers, sizes and locals by the first of them."""
    first: dict[object, Kernel] = {}
    chosen: dict[str, tuple[str, dict[str, str]]] = {}
    kept: list[Kernel] = []
    for kernel in program.kernels:
        normal, sizes = _normal(kernel)
        known = first.setdefault(normal, kernel)
        if known is kernel:
            kept.append(kernel)
        chosen[kernel.name] = (known.name, {})
        if known is not kernel:
            _, known_sizes = _normal(known)
            back = {v: k for k, v in sizes.items()}
            chosen[kernel.name] = (known.name, {s: back[known_sizes[s]] for s in known.sizes})
    hosts = tuple(_relaunch(h, program, chosen) for h in program.functions)
    load = _relaunch(program.load, program, chosen) if program.load is not None else None
    return replace(program, kernels=tuple(kept), functions=hosts, load=load)


def _relaunch(host: HostProgram, program: Program, chosen: dict[str, tuple[str, dict[str, str]]]) -> HostProgram:
    launches = []
    for step in host.launches:
        if isinstance(step, Launch):
            name, sizes = chosen[step.kernel]
            if sizes:
                old = dict(zip(program.kernel(step.kernel).sizes, step.sizes, strict=True))
                values = tuple(old[sizes[s]] for s in program.kernel(name).sizes)
                step = Launch(name, step.buffers, values)
            elif name != step.kernel:
                step = replace(step, kernel=name)
        launches.append(step)
    return replace(host, launches=tuple(launches))


def _normal(kernel: Kernel) -> tuple[object, dict[str, str]]:
    """A key equal for kernels that differ in names only, and the names its sizes were given."""
    names: dict[str, str] = {}
    for i, b in enumerate(kernel.buffers):
        names[b.name] = f"b{i}"
    order = _size_order(kernel)
    sizes = {s: f"s{i}" for i, s in enumerate(order)}
    names.update(sizes)
    for s in walk_stmts(kernel.body):
        for name in _defined(s):
            names.setdefault(name, f"v{len(names)}")
    renamed = {old: Dim.of(new) for old, new in names.items()}
    key = (
        tuple((b.dtype, b.size.subs(renamed), b.mode, names.get(b.may_alias or "")) for b in kernel.buffers),
        tuple(_rename(s, names, renamed) for s in kernel.body),
        kernel.checks,
        tuple((c.op, c.span) for c in kernel.checks),
    )
    return key, sizes


def _size_order(kernel: Kernel) -> list[str]:
    """Sizes in the order in which buffers and loops first use them, so that renamed kernels agree."""
    seen: list[str] = []
    for b in kernel.buffers:
        seen.extend(s for s in sorted(b.size.symbols) if s in kernel.sizes and s not in seen)
    return seen + [s for s in kernel.sizes if s not in seen]


def _defined(stmt: object) -> tuple[str, ...]:
    if isinstance(stmt, (Let, Local)):
        return (stmt.name,)
    if isinstance(stmt, For):
        return (stmt.var,)
    if isinstance(stmt, Alloc):
        return (stmt.buffer,)
    if isinstance(stmt, Contract):
        return (stmt.m, stmt.n, stmt.k, stmt.acc)
    return ()


def _rename(node: object, names: dict[str, str], dims: dict[str, Dim]) -> object:
    """The node with every name replaced; fields that are no names (kinds, functions) are left."""
    if isinstance(node, Dim):
        return node.subs(dims)
    if isinstance(node, tuple):
        return tuple(_rename(x, names, dims) for x in node)
    if not is_dataclass(node):
        return node
    changes: dict[str, object] = {}
    for f in fields(node):
        value = getattr(node, f.name)
        if isinstance(value, str):
            if f.name not in ("fn", "kind"):
                changes[f.name] = names.get(value, value)
        else:
            changes[f.name] = _rename(value, names, dims)
    return replace(node, **changes)  # type: ignore[type-var]
