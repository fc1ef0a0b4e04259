"""LLVM: from IR text to an object file, by llvmlite.

Every module is compiled in a context of its own, so that several can be compiled at once; see `compile_many`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from ..target import NATIVE, Target


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def resolve(target: Target) -> Target:
    """The target with the compiling machine's processor and features in place of `native`."""
    if target.kind != "cpu" or target.cpu != NATIVE:
        return target
    _initialize()
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


def _machine(target: Target, opt: int) -> Any:
    """A target machine for position-independent code that reaches its own data within 2 GiB."""
    _initialize()
    target = resolve(target)
    features = ",".join(f"+{name}" for name in target.features)
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=features, opt=opt, reloc="pic", codemodel="small"
    )


def _unlocked(name: str) -> Any:
    """LLVM's entry point without llvmlite's global lock, where llvmlite keeps it in the known place.

    The lock would make threads take turns; modules in contexts of their own need none once LLVM is initialised.
    """
    entry = getattr(ffi.lib, name)
    return getattr(entry, "_cfn", entry)


def _optimize(module: Any, machine: Any, opt: int) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=opt)
    options.loop_vectorization = options.loop_interleaving = options.loop_unrolling = opt > 0
    options.slp_vectorization = False  # straight-line code here is already vectors where it matters
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    _unlocked("LLVMPY_RunNewModulePassManager")(passes, module, builder)


def _emit(module: Any, machine: Any, as_object: bool) -> bytes:
    """Machine code of a module, as an object file or as text."""
    with ffi.OutputString() as problem:
        buffer = _unlocked("LLVMPY_TargetMachineEmitToMemory")(machine, module, int(as_object), problem)
        if not buffer:
            raise RuntimeError(str(problem))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _prepare(ir_text: str, target: Target, opt: int) -> tuple[Any, Any]:
    """Module (optimised) and machine; RuntimeError when the text is not valid IR (a fault of ours)."""
    machine = _machine(target, opt)
    module = llvm.parse_assembly(ir_text, llvm.create_context())
    module.verify()
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    if opt > 0:
        _optimize(module, machine, opt)
    return module, machine


def compile_ir(ir_text: str, target: Target, opt: int = 2) -> bytes:
    """A relocatable ELF object."""
    module, machine = _prepare(ir_text, target, opt)
    return _emit(module, machine, as_object=True)


def optimized_ir(ir_text: str, target: Target, opt: int = 2) -> str:
    """The module after optimisation, as text (`--emit llvm`)."""
    return str(_prepare(ir_text, target, opt)[0])


def assembly(ir_text: str, target: Target, opt: int = 2) -> str:
    """The machine code, as text (`--emit asm`)."""
    module, machine = _prepare(ir_text, target, opt)
    return _emit(module, machine, as_object=False).decode()


def compile_many(
    ir_texts: Sequence[str], target: Target, levels: Sequence[int], workers: int | None = None
) -> list[bytes]:
    """One object for each text, optimised at the level beside it, compiled in `workers` threads (None: all cores)."""
    jobs = list(zip(ir_texts, levels, strict=True))
    if len(jobs) < 2:
        return [compile_ir(text, target, level) for text, level in jobs]
    _initialize()
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda job: compile_ir(job[0], target, job[1]), jobs))
