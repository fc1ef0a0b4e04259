"""The program that runs once, when weights are given: it checks them, makes what depends on them alone, and packs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...ir import graph
from ...ir.facts import Facts
from ...ir.loops import Copy, HostProgram, HostTensor, Kernel, Launch, Ref
from ..loops.packing import pack_kernel
from ..planner import plan
from .host import Given, binding_steps, buffer_refs, launch, placed_copy
from .in_place import mark
from .kernel import Pack, Scope
from .place import Placement, byte_size, use_arena
from .prepare import Prepared


@dataclass(frozen=True)
class Packer:
    """The kernel that makes a pack of the value `root`."""

    kernel: Kernel
    pack: Pack
    root: str

    def as_reader(self, scope: Scope) -> Kernel:
        """The kernel as the planner should see it: it reads the value, and writes nothing of the arena."""
        return replace(self.kernel, buffers=(replace(self.kernel.buffers[0], name=scope.buffer(self.root)),))


def load_host(
    module: graph.Module,
    prepared: Prepared,
    scope: Scope,
    kernels: Sequence[Kernel],
    packs: Mapping[str, Pack],
    functions: Sequence[HostProgram],
    budget_s: float,
) -> tuple[HostProgram, tuple[Kernel, ...]]:
    """The program, and its kernels.

    `kernels` compute the prepared values (`scope` is theirs); `packs` are what the kernels of `functions` want packed.
    """
    where = [f for w in module.weights for f in w.facts]
    given = [Given(w.name, w.type, f"weight @{w.name}: {w.type}", w.span) for w in module.weights]
    steps = binding_steps(given, frozenset(), Facts().add(*where), where, {})
    order = list(_in_order(scope, kernels, _packers(scope, prepared, packs)))
    placed = _placed(module, prepared, scope, functions)
    use_arena(scope, placed, [k.as_reader(scope) if isinstance(k, Packer) else k for k in order], set())
    arena = plan(placed.buffers, scope.facts, budget_s=budget_s)
    refs = buffer_refs(scope, placed, arena)
    launches: list[Launch | Copy] = []
    for k in order:
        if isinstance(k, Packer):
            launches.append(launch(k.kernel, (refs[scope.buffer(k.root)], Ref("output", k.pack.name))))
        else:
            launches.append(launch(k, [refs[b.name] for b in k.buffers]))
    host = HostProgram(
        "load",
        tuple(HostTensor(w.name, w.type.dtype, w.type.dims) for w in module.weights),
        (*placed.outputs, *(HostTensor(p.name, p.dtype, (p.size,)) for p in packs.values())),
        (),
        (),
        tuple(steps),
        (*launches, *(placed_copy(c, arena) for c in placed.copies)),
        arena.arena_bytes,
        single_result=False,
    )
    return host, tuple(k.kernel if isinstance(k, Packer) else mark(k, arena) for k in order)


def _packers(scope: Scope, prepared: Prepared, packs: Mapping[str, Pack]) -> list[Packer]:
    values = dict(_values(prepared))
    found = []
    for p in packs.values():
        root = scope.flow.root(values.get(p.weight, f"@{p.weight}"))
        stored = scope.flow.types[root].dtype
        kernel = pack_kernel(
            f"load.{p.name}", p.inner, p.cols, p.width, p.dtype, source=stored, transposed=p.transposed
        )
        found.append(Packer(kernel, p, root))
    return found


def _values(prepared: Prepared) -> Iterator[tuple[str, str]]:
    """The weight's name and the value's, for all that is prepared."""
    for name, value in zip(prepared.values, prepared.load.body.results, strict=True):
        assert isinstance(value, graph.Var)
        yield name, value.name


def _in_order(scope: Scope, kernels: Sequence[Kernel], packers: Sequence[Packer]) -> Iterator[Kernel | Packer]:
    """Every value is packed as soon as it is there, so that its memory is free for the next."""
    waiting = list(packers)
    for kernel in kernels:
        yield kernel
        written = {b.name for b in kernel.buffers if b.mode != "in"}
        ready = [p for p in waiting if scope.buffer(p.root) in written]
        yield from ready
        waiting = [p for p in waiting if p not in ready]
    yield from waiting


def _placed(module: graph.Module, prepared: Prepared, scope: Scope, functions: Sequence[HostProgram]) -> Placement:
    """Where weights are, and the values that functions read as they are; those that are only packed may go."""
    launched = (s for f in functions for s in f.launches)
    refs = (r for s in launched for r in (s.buffers if isinstance(s, Launch) else (s.source,)))
    wanted = {r.name for r in refs if r.space == "packed"}
    placed = Placement()
    for w in module.weights:
        placed.refs[f"@{w.name}"] = Ref("param", w.name)
    for c in module.consts:
        placed.refs[f"@{c.name}"] = Ref("const", c.name)
    for name, value in _values(prepared):
        if name not in wanted:
            continue
        root, type_ = scope.flow.root(value), scope.flow.types[value]
        output = Ref("output", name)
        placed.outputs.append(HostTensor(name, type_.dtype, type_.dims))
        if placed.refs.setdefault(root, output) != output:
            placed.copies.append(Copy(placed.refs[root], output, byte_size(scope.flow, root)))
    return placed
