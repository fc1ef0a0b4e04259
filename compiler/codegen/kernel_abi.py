"""The calling convention between kernels, the host program and the runtime.

A kernel is `void @k.<name>(ptr ctx, ptr buffers..., i64 sizes...)`.  `ctx` points to 8-byte slots:

    0 pool_run        void(ptr pool, ptr fn, ptr arg, i64 chunks); calls fn(arg, chunk, worker) for each chunk
    1 pool
    2 workers         at least 1; every worker number is below it, and the caller is worker 0
    3 scratch         base address, 64-byte aligned
    4 scratch_stride  bytes for each worker, a multiple of 64
    5 error           0, or 1 + (kernel << 16 | check) of a `Require` that failed
    6 error_value     the `Require`'s value where it failed, if it has one
"""

from __future__ import annotations

from ...ir.loops import Kernel
from .kernel_builder import FunctionBuilder
from .names import symbol

POOL_RUN, POOL, WORKERS, SCRATCH, SCRATCH_STRIDE, ERROR, ERROR_VALUE = range(7)


def entry_signature(kernel: Kernel) -> str:
    """Parameters of `@k.<name>`; buffers that may overlap another are not `noalias`."""
    aliased = {b.name for b in kernel.buffers if b.may_alias} | {b.may_alias for b in kernel.buffers if b.may_alias}
    buffers = [f"ptr {'' if b.name in aliased else 'noalias '}%{quoted('b.' + b.name)}" for b in kernel.buffers]
    sizes = [f"i64 %{quoted('s.' + s)}" for s in kernel.sizes]
    return ", ".join(["ptr %ctx", *buffers, *sizes])


def quoted(name: str) -> str:
    """A name as LLVM accepts it."""
    name = symbol(name)
    return name if name.replace(".", "").replace("_", "").isalnum() else f'"{name}"'


def context_slot(f: FunctionBuilder, slot: int) -> str:
    """Address of a slot."""
    return f.let(f"getelementptr inbounds i64, ptr %ctx, i64 {slot}")


def load_slot(f: FunctionBuilder, slot: int, type_: str = "i64") -> str:
    return f.let(f"load {type_}, ptr {context_slot(f, slot)}, align 8, !invariant.load !{{}}")


def record_error(f: FunctionBuilder, failed: str, code: int, value: str | None) -> None:
    """Stores `code`, and the i64 `value` if there is one, where `failed` (i1), unless another check failed before.

    Workers may race here: one of them finds the slot empty, and what it records is true.
    """
    yes, done = f.name("failed"), f.name("checked")
    f.branch(failed, yes, done)
    f.start(yes)
    slot = context_slot(f, ERROR)
    previous = f.let(f"cmpxchg ptr {slot}, i64 0, i64 {code} monotonic monotonic")
    if value is not None:
        first = f.name("first")
        f.branch(f.let(f"extractvalue {{ i64, i1 }} {previous}, 1"), first, done)
        f.start(first)
        f.line(f"store i64 {value}, ptr {context_slot(f, ERROR_VALUE)}, align 8")
    f.jump(done)
    f.start(done)
