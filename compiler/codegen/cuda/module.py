"""CUDA C++ of a program's kernels, for NVRTC: a prelude, then the functions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ....ir.facts import Facts
from ....ir.loops import Kernel, Program
from ....passes.loops.simplify import Simplify
from ...target import Target
from .function import FunctionEmitter
from .launch import CudaKernel, CudaModule
from .nest import phases
from .scope import identifier
from .storage import Arena, allocation_sizes

MARK = "// kernel "
"""Begins the comment above a kernel's functions."""


def emit_cuda(program: Program, target: Target) -> str:
    """The source of all kernels of a program that was lowered for a GPU (`lower(graph, vector_bytes=None)`).

    It needs no headers.  Sizes are arguments; what launches the functions is told by `cuda_module`.
    Raises KeyError for a scalar function that does not exist, CompileError for scratch whose size depends on data.
    """
    return cuda_module(program, target).source


def cuda_module(program: Program, target: Target) -> CudaModule:
    """The source, and the launches of each kernel."""
    taken: set[str] = set()
    kernels = tuple(_kernel(kernel, index, taken) for index, kernel in enumerate(program.kernels))
    head = f"// Made by pliant for {target}.\n"
    return CudaModule(kernels, "\n".join([head + prelude(), *(k.source for k in kernels)]))


def prelude() -> str:
    """What comes before the kernels."""
    return Path(__file__).with_name("prelude.cuh").read_text(encoding="utf-8")


def _kernel(kernel: Kernel, index: int, taken: set[str]) -> CudaKernel:
    kernel = Simplify().run(kernel)
    facts = Facts().add(*kernel.facts)
    parts = phases(kernel, facts)
    stem = _stem(kernel.name, taken)
    arena, sizes = Arena(), allocation_sizes(kernel)
    made = []
    for number, phase in enumerate(parts):
        name = stem if len(parts) == 1 else f"{stem}_{number}"
        made.append(FunctionEmitter(kernel, index, phase, name, facts, arena, sizes).run())
    # An array that a later function placed moves the blocks' parts behind it; so the functions are made once more.
    if len(parts) > 1 and arena.places:
        made = [
            FunctionEmitter(kernel, index, phase, launch.function, facts, arena, sizes).run()
            for phase, (launch, _) in zip(parts, made, strict=True)
        ]
    launches = tuple(replace(launch, kernel_scratch=arena.bytes) for launch, _ in made)
    origin = f": {kernel.origin}" if kernel.origin else ""
    source = "\n".join([f"{MARK}{kernel.name}{origin}", *(text for _, text in made), ""])
    return CudaKernel(kernel.name, launches, source)


def _stem(name: str, taken: set[str]) -> str:
    stem = text = f"k_{identifier(name)}"
    count = 1
    while text in taken:
        count += 1
        text = f"{stem}_v{count}"
    taken.add(text)
    return text
