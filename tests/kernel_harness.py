"""Runs hand-made kernels on numpy arrays, through the same ABI as the host program and the runtime."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import llvmlite.binding as llvm
import numpy as np

from pliant.compiler.codegen.kernel import emit_kernels
from pliant.compiler.codegen.llvm import compile_ir, resolve
from pliant.compiler.target import Target
from pliant.ir.loops import Kernel
from pliant.passes.loops.scratch import scratch_bytes

NATIVE = resolve(Target.parse("cpu"))

# A pool without threads: chunks in turn, dealt out to the workers round robin; remembers how many there were.
_POOL = """
define void @test.pool_run(ptr %pool, ptr %fn, ptr %arg, i64 %chunks) {
entry:
  %workers = load i64, ptr %pool
  %seen = getelementptr i64, ptr %pool, i64 1
  store i64 %chunks, ptr %seen
  %some = icmp sgt i64 %chunks, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %worker = urem i64 %i, %workers
  call void %fn(ptr %arg, i64 %i, i64 %worker)
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %chunks
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


class Loaded:
    """Compiled kernels; call one by name with its buffers (numpy arrays, changed in place) and sizes."""

    def __init__(self, *kernels: Kernel, target: Target = NATIVE, first_index: int = 0, workers: int = 1) -> None:
        self.kernels = {k.name: k for k in kernels}
        self.workers = workers
        self.chunks = 0  # of the last parallel loop of the last call; 0 when all ran on the calling thread
        self.error_value = 0  # the context's slot of that name after the last call
        self.text = emit_kernels(kernels, target, first_index)
        machine = llvm.Target.from_triple(NATIVE.triple).create_target_machine(
            cpu=NATIVE.cpu, features=",".join("+" + f for f in NATIVE.features)
        )
        self.engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_POOL), machine)
        self.engine.add_object_file(llvm.ObjectFileRef.from_data(compile_ir(self.text, target)))
        self.engine.finalize_object()

    def __call__(self, name: str, buffers: Mapping[str, np.ndarray], sizes: Mapping[str, int] | None = None) -> int:
        """Runs the kernel; returns the context's error slot."""
        kernel = self.kernels[name]
        sizes = dict(sizes or {})
        stride = -(-scratch_bytes(kernel).evaluate(sizes) // 64) * 64
        scratch = np.empty(stride * self.workers + 64, np.uint8)
        base = -(-scratch.ctypes.data // 64) * 64
        pool = (ctypes.c_int64 * 2)(self.workers, 0)
        run = self.engine.get_function_address("test.pool_run")
        context = (ctypes.c_int64 * 7)(run, ctypes.addressof(pool), self.workers, base, stride, 0, 0)
        pointers = [buffers[b.name].ctypes.data for b in kernel.buffers]
        values = [sizes[s] for s in kernel.sizes]
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_size_t] * (1 + len(pointers)), *[ctypes.c_int64] * len(values))
        function(self.engine.get_function_address(f"k.{name}"))(ctypes.addressof(context), *pointers, *values)
        self.chunks, self.error_value = pool[1], context[6]
        return int(context[5])
