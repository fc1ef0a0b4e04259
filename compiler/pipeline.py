"""The pipelines: which passes run, in which order.  This file is the architecture's table of contents."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from ..ir.dims import Dim
from ..ir.graph import Module
from ..ir.loops import Contract, HostProgram, Kernel, Launch, Micro, Program, walk_stmts
from ..passes.graph.cse import CommonSubexpressions
from ..passes.graph.dce import DeadCode
from ..passes.graph.decompose import Decompose
from ..passes.graph.fold import Fold
from ..passes.graph.infer import Infer
from ..passes.graph.inline import Inline
from ..passes.graph.simplify import Simplify
from ..passes.loops.parallelize import Parallelize
from ..passes.loops.scratch import scratch_bytes
from ..passes.loops.simplify import Simplify as SimplifyLoops
from ..passes.loops.split import Split
from ..passes.loops.tile import Tile
from ..passes.loops.turn import Turn
from ..passes.loops.vectorize import Vectorize
from ..passes.pass_base import Pass
from .target import Target


def graph_pipeline() -> tuple[Pass[Module], ...]:
    """From parsed text to a typed graph of primitive ops."""
    return (
        Infer(),  # types, facts, every refusal of a program
        Inline(),  # calls become the statements of the callee
        Decompose(),  # composite ops become primitive ones
        Fold(),  # constants; never a symbolic size into a number
        Simplify(),  # algebra that is exact
        CommonSubexpressions(),  # the same value once
        DeadCode(),  # nothing unused
    )


class KernelPass(Protocol):
    """A pass over one kernel."""

    def run(self, kernel: Kernel, /) -> Kernel: ...


def loop_pipeline(target: Target) -> tuple[KernelPass, ...]:
    """From the loops of the lowering to loops that code is generated from, on a CPU."""
    return (
        SimplifyLoops(),  # single iterations go; nests that run through memory in order become one loop
        Tile(target.vector_bytes),  # contractions into packed panels and micro-kernels
        Split(),  # reductions of everything into chunks for the threads
        Turn(target.vector_bytes),  # maps that read across memory into square blocks
        Vectorize(),  # inner loops for the vector units
        Parallelize(),  # outer loops for the threads
    )


def run_loop_passes(program: Program, target: Target) -> Program:
    """Runs the loop pipeline over every kernel, and notes the scratch memory that each host program needs."""
    kernels: list[Kernel] = []
    for kernel in program.kernels:
        for step in loop_pipeline(target):
            kernel = step.run(kernel)
        kernels.append(kernel)
    kernels.sort(key=is_contraction)
    program = replace(program, kernels=tuple(kernels))
    functions = tuple(_with_scratch(f, program) for f in program.functions)
    load = _with_scratch(program.load, program) if program.load is not None else None
    return replace(program, functions=functions, load=load)


def is_contraction(kernel: Kernel) -> bool:
    """Does it use micro-kernels?"""
    return any(isinstance(s, (Micro, Contract)) for s in walk_stmts(kernel.body))


def _with_scratch(host: HostProgram, program: Program) -> HostProgram:
    needs = [Dim.of(0)]
    for step in host.launches:
        if isinstance(step, Launch):
            kernel = program.kernel(step.kernel)
            needs.append(scratch_bytes(kernel).subs(dict(zip(kernel.sizes, step.sizes, strict=True))))
    return replace(host, scratch_bytes=Dim.max(*needs))
