"""LLVM: from IR text to an object file, by llvmlite, in processes of its own (`workers`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import llvmlite.binding as llvm

from ...ir.diagnostics import error
from ..target import NATIVE, Target
from .machine_code import Job, initialize
from .workers import WORKERS, Built, Fault, Workers


class CompilerFaultWarning(RuntimeWarning):
    """LLVM failed on a part of the program, which was compiled with less optimisation instead."""


def resolve(target: Target) -> Target:
    """The target with the compiling machine's processor and features in place of `native`."""
    if target.kind != "cpu" or target.cpu != NATIVE:
        return target
    initialize()
    features = tuple(sorted(name for name, on in llvm.get_host_cpu_features().items() if on))
    # LLVM knows the name of every processor, but under a hypervisor the features tell the truth.
    wide = {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= set(features)
    vector_bytes = 64 if wide else 32 if "avx2" in features else 16
    return replace(
        target,
        triple=llvm.get_default_triple(),
        cpu=llvm.get_host_cpu_name(),
        features=features,
        vector_bytes=vector_bytes,
    )


def compile_ir(ir_text: str, target: Target, opt: int = 2) -> bytes:
    """A relocatable ELF object; RuntimeError when the text is not valid IR (a fault of ours)."""
    return compile_many([ir_text], target, [opt])[0]


def optimized_ir(ir_text: str, target: Target, opt: int = 2) -> str:
    """The module after optimisation, as text (`--emit llvm`)."""
    return compile_many([ir_text], target, [opt], form="ir")[0].decode()


def assembly(ir_text: str, target: Target, opt: int = 2) -> str:
    """The machine code, as text (`--emit asm`)."""
    return compile_many([ir_text], target, [opt], form="assembly")[0].decode()


def compile_many(
    ir_texts: Sequence[str],
    target: Target,
    levels: Sequence[int],
    *,
    form: str = "object",
    workers: Workers = WORKERS,
    done: Callable[[int], None] = lambda _number: None,
) -> list[bytes]:
    """One object for each text, optimised at the level beside it; they are compiled side by side.

    `done` is called with the number of each text when its object is there.

    Where LLVM fails, the part is compiled with less optimisation and a CompilerFaultWarning; CompileError when that
    fails too.
    """
    target = resolve(target)
    features = ",".join(f"+{name}" for name in target.features)
    jobs = [
        Job(form, text, target.triple, target.cpu, features, level)
        for text, level in zip(ir_texts, levels, strict=True)
    ]
    return [_data(built) for built in (workers.build(jobs, done) if jobs else ())]


def _data(built: Built) -> bytes:
    if built.fault is not None:
        _report(built.fault)
    if built.data is None:
        raise RuntimeError(built.problem)
    return built.data


def _report(fault: Fault) -> None:
    kept = f"this is a fault in the compiler, not in the program; the LLVM IR is kept in {fault.keep()} for a report"
    message = f"LLVM failed on a part of the program ({fault.said})"
    if fault.served is None:
        raise error(message, notes=(kept,))
    how = "unoptimised" if fault.served.level == 0 else "without LLVM's loop vectoriser"
    warnings.warn(f"{message}, which was compiled {how}; {kept}", CompilerFaultWarning, stacklevel=2)
