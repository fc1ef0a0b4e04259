"""From a compiled program to an artifact: what the runtime must know, as plain data, and the code and data it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from ..ir.diagnostics import Span
from ..ir.dims import Dim
from ..ir.facts import Compare, Fact, Facts, OneOf
from ..ir.loops import (
    IN_USE,
    BindSymbol,
    CheckEqual,
    CheckFact,
    HostProgram,
    HostStep,
    HostTensor,
    Launch,
    Program,
    Result,
)
from ..ir.loops import Kernel as LoopKernel
from ..runtime import Artifact
from ..runtime.artifact import raw_bytes
from ..runtime.contract import Check, Contract, Frame, Function, Kernel, Machine, Step, Tensor
from ..runtime.dtypes import numpy_dtype
from ..runtime.layout import FRAME_ABI
from .codegen.host import HostCode, HostFunction
from .codegen.host_layout import FrameLayout, slots_of

POOL_OBJECT = "pool"


class TargetInfo(Protocol):
    """What the contract says of the machine; features are LLVM's names."""

    @property
    def triple(self) -> str: ...
    @property
    def cpu(self) -> str: ...
    @property
    def features(self) -> tuple[str, ...]: ...


def describe(program: Program, host_code: HostCode, target_info: TargetInfo, producer: str = "") -> Contract:
    """What the runtime must know of a program; the members that hold code and data come later, in `build_artifact`."""
    return Contract(
        producer,
        FRAME_ABI,
        Machine(target_info.triple, target_info.cpu, tuple(target_info.features)),
        tuple(_tensor(t) for t in program.weights),
        tuple(_tensor(t, f"consts/{t.name}") for t in program.consts),
        tuple(_kernel(k) for k in program.kernels),
        None if host_code.load is None else _function(host_code.load),
        tuple(_function(f) for f in host_code.functions),
        (),
        None,
        {},
    )


def sealed(host_code: HostCode, contract: Contract) -> str:
    """The text of the host code, with the symbol by which the runtime knows that the contract is its own."""
    return f'{host_code.ir_text}\n@"{contract.seal}" = constant i8 0\n'


def build_artifact(
    contract: Contract,
    objects: Mapping[str, bytes],
    weights: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] | None,
    consts: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]],
    extras: Mapping[str, bytes] | None = None,
) -> Artifact:
    """Puts an artifact together in memory.

    `objects` are relocatable objects by name, linked with one another when the artifact is loaded: the host code, the
    kernels, and under the name `pool` the thread pool, which a process loads once. `weights` go into the artifact, if
    there are any; `consts` must hold every constant of the program. `extras` are further members (`plan.json`,
    `ir/fused.ir`). LoadError when a weight has another type than the program says.
    """
    members = {f"objects/{name}.o": data for name, data in objects.items()}
    pool = f"objects/{POOL_OBJECT}.o" if POOL_OBJECT in objects else None
    shapes = {}
    stored: dict[str, memoryview] = {}
    for const in contract.consts:
        array = np.asarray(consts[const.name], numpy_dtype(const.dtype))
        assert const.member is not None
        stored[const.member], shapes[const.member] = raw_bytes(array), array.shape
    code = tuple(name for name in members if name != pool)
    contract = replace(contract, objects=code, pool=pool, shapes=shapes)
    artifact = Artifact(contract, {**members, **stored, **(extras or {})})
    return artifact if weights is None else artifact.with_weights(weights)


def _tensor(tensor: HostTensor, member: str | None = None) -> Tensor:
    return Tensor(tensor.name, str(tensor.dtype), tuple(map(str, tensor.dims)), tensor.inout, member)


def _kernel(kernel: LoopKernel) -> Kernel:
    return Kernel(kernel.name, kernel.origin, tuple(Check(c.message, c.op, _place(c.span)) for c in kernel.checks))


def _function(function: HostFunction) -> Function:
    program = function.program
    slots = {f"{p.name}.{i}": (p.name, i) for p in program.params for i in slots_of(p)}
    return Function(
        program.name,
        tuple(_tensor(p) for p in program.params),
        tuple(_tensor(t) for t in program.outputs),
        tuple(_tree(r) for r in program.results),
        program.single_result,
        program.inherited,
        tuple(_step(s, slots, program) for s in function.steps),
        str(program.arena_bytes.subs({IN_USE: 0})),
        IN_USE in program.arena_bytes.symbols,
        str(program.scratch_bytes),
        tuple(item.kernel if isinstance(item, Launch) else "copy" for item in program.launches),
        function.prepare,
        function.run,
        _frame(function.layout),
    )


def _tree(result: Result) -> object:
    return result.item if isinstance(result.item, str) else tuple(_tree(r) for r in result.item)


def _frame(layout: FrameLayout) -> Frame:
    return Frame(
        layout.slots,
        layout.arguments,
        layout.outputs,
        layout.descriptors,
        layout.data,
        layout.tables,
        dict(layout.symbols),
        layout.shapes,
    )


def _step(step: HostStep, slots: Mapping[str, tuple[str, int]], program: HostProgram) -> Step:
    at = _place(step.span)
    if isinstance(step, BindSymbol):
        used = _used((step.numerator, step.divisor), slots)
        return Step("bind", step.symbol, str(step.numerator), str(step.divisor), "", *used, step.origin, at)
    if isinstance(step, CheckEqual):
        used = _used((step.actual, step.expected), slots)
        return Step("equal", "", str(step.actual), "", str(step.expected), *used, step.origin, at)
    used = _used(step.fact.dims, slots)
    return Step("fact", "", str(step.fact), "", _allowed(step.fact, program), *used, step.origin, at)


def _allowed(fact: Fact, program: HostProgram) -> str:
    """What a fact of one symbol allows a size computed with it: `8*g with g in 1..5 allows 8..40 in steps of 8`.

    Empty where the symbol is a size as it stands, or where that cannot be said in a few words.
    """
    sizes = [d for p in program.params for d in p.dims if d.symbols == fact.symbols]
    if len(fact.symbols) != 1 or not sizes or any(d.name is not None for d in sizes):
        return ""
    symbol, size = next(iter(fact.symbols)), sizes[0]
    step = size.coefficient((symbol,))
    if step <= 0 or size - step * Dim.of(symbol) != size.constant:
        return ""
    known = [s.fact for s in program.steps if isinstance(s, CheckFact) and s.fact.symbols == fact.symbols]
    if isinstance(fact, OneOf):
        return f"{size} with {fact} allows {', '.join(str(size.evaluate({symbol: v})) for v in fact.values)}"
    low, high = Facts(known).bounds(symbol)
    if isinstance(fact, Compare) and (fact.op in ("==", "!=") or fact.lhs.name is None or not fact.rhs.is_const):
        return f"{size} with {fact}"
    first = size.evaluate({symbol: low or 0})
    steps = f" in steps of {step}" if step > 1 else ""
    if high is None:
        return f"{size} with {fact} allows {first} and more{steps}"
    return f"{size} with {symbol} in {low or 0}..{high} allows {first}..{size.evaluate({symbol: high})}{steps}"


def _used(
    dims: tuple[Dim, ...], slots: Mapping[str, tuple[str, int]]
) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...]]:
    """The dimensions of arguments, and the symbols, that expressions depend on."""
    names = list(_names(dims))
    return tuple(slots[n] for n in names if n in slots), tuple(n for n in names if n not in slots)


def _names(dims: tuple[Dim, ...]) -> Iterator[str]:
    seen = set[str]()
    for dim in dims:
        new = dim.symbols - seen
        seen |= new
        yield from sorted(new)


def _place(span: Span | None) -> str:
    return "" if span is None else str(span)
