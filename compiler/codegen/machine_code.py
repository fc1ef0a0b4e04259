"""Machine code of LLVM IR, and the process that makes it.

LLVM ends the process when an assertion of its own fails, so this runs in one that nobody else needs (`workers`).  The
file imports nothing of ours, so that such a process starts in a few hundredths of a second.  Every module is compiled
in a context of its own, so that several can be at once.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import resource
import select
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import IO, Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi

IDLE_S = 60.0
"""Seconds without work after which a worker ends."""

LENGTH = struct.Struct("@q")


@dataclass(frozen=True)
class Job:
    """Text to compile: `form` is object | assembly | ir, the machine as LLVM names it, the level 0 to 3."""

    form: str
    text: str
    triple: str
    cpu: str
    features: str
    level: int
    vectorize: bool = True


@cache
def initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def build(job: Job) -> bytes:
    """An object file, or a text; RuntimeError when the IR is not valid."""
    initialize()
    # Position-independent code that reaches its own data within 2 GiB.
    machine = llvm.Target.from_triple(job.triple).create_target_machine(
        cpu=job.cpu, features=job.features, opt=job.level, reloc="pic", codemodel="small"
    )
    module = llvm.parse_assembly(job.text, llvm.create_context())
    module.verify()
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    if job.level > 0:
        _optimize(module, machine, job)
    return str(module).encode() if job.form == "ir" else _emit(module, machine, job.form == "object")


def _unlocked(name: str) -> Any:
    """LLVM's entry point without llvmlite's global lock, where llvmlite keeps it in the known place.

    The lock would make threads take turns; modules in contexts of their own need none once LLVM is initialised.
    """
    entry = getattr(ffi.lib, name)
    return getattr(entry, "_cfn", entry)


def _optimize(module: Any, machine: Any, job: Job) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=job.level)
    options.loop_vectorization = options.loop_interleaving = job.vectorize
    options.loop_unrolling = True
    options.slp_vectorization = False  # straight-line code here is already vectors where it matters
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    _unlocked("LLVMPY_RunNewModulePassManager")(passes, module, builder)


def _emit(module: Any, machine: Any, as_object: bool) -> bytes:
    with ffi.OutputString() as problem:
        buffer = _unlocked("LLVMPY_TargetMachineEmitToMemory")(machine, module, int(as_object), problem)
        if not buffer:
            raise RuntimeError(str(problem))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


# ------------------------------------------------------------------------------------------------ the process


def send(stream: IO[bytes], value: object) -> None:
    data = pickle.dumps(value)
    stream.write(LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """The next value; EOFError when the other side is gone."""
    head = stream.read(LENGTH.size)
    size = LENGTH.unpack(head)[0] if len(head) == LENGTH.size else 0
    data = stream.read(size)
    if not data or len(data) < size:
        raise EOFError
    return pickle.loads(data)


def serve(source: IO[bytes], target: IO[bytes]) -> None:
    """Answers lists of jobs, as tuples of the fields of `Job`, by (position, data or None, problem), as they are done.

    Ends when the other side does, or has nothing to do for long.
    """
    lock = threading.Lock()

    def one(position: int, fields: tuple[Any, ...]) -> None:
        try:
            answer: tuple[int, bytes | None, str] = (position, build(Job(*fields)), "")
        except RuntimeError as problem:
            answer = (position, None, str(problem))
        with lock:
            send(target, answer)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        while select.select([source], [], [], IDLE_S)[0]:
            try:
                jobs = receive(source)
            except EOFError:
                return
            list(pool.map(one, range(len(jobs)), jobs))


def main() -> None:
    """The whole of a worker process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what LLVM prints must not come between the answers
    with os.fdopen(0, "rb") as source:
        serve(source, answers)
