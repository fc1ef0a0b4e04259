"""CPU kernels as LLVM IR: one function `@k.<name>` for each kernel, and one for each parallel loop in it.

The ABI (argument order, the context's slots, scratch) is written in `kernel_abi.py`.  Loops stay scalar here; LLVM
vectorises them, told by metadata which accesses are independent.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.loops import Kernel
from ..target import Target
from .kernel_abi import entry_signature
from .kernel_builder import FunctionBuilder, ModuleBuilder
from .kernel_scope import Scope, alias_sets
from .kernel_stmt import KernelContext, StmtEmitter
from .math import math_parts
from .names import kernel_symbol


def emit_kernels(kernels: Iterable[Kernel], target: Target, first_index: int = 0) -> str:
    """The module's text.  `first_index` is the position of the first kernel in `Program.kernels` (for error records).

    `target` must be resolved (`codegen.llvm.resolve`).  Raises KeyError for a scalar function that does not exist.
    """
    module = ModuleBuilder(target)
    for position, kernel in enumerate(kernels):
        _emit_kernel(module, kernel, first_index + position)
    return _assemble(module)


def _emit_kernel(module: ModuleBuilder, kernel: Kernel, index: int) -> None:
    f = FunctionBuilder(module)
    context = KernelContext(kernel, index, alias_sets(module, kernel))
    emitter = StmtEmitter(f, Scope.of_kernel(kernel, context.aliases), context)
    emitter.body(kernel.body)
    emitter.finish()
    module.functions.append(f.define(f"define void @{kernel_symbol(kernel.name)}({entry_signature(kernel)}) #0"))


def _assemble(module: ModuleBuilder) -> str:
    definitions, needed = math_parts(module.math, fma=module.target.fma)
    declarations = sorted({*needed, *module.declarations})
    width = 8 * module.target.vector_bytes
    parts = [
        *declarations,
        *definitions.values(),
        *module.helpers.values(),
        *module.functions,
        f'attributes #0 = {{ nounwind "prefer-vector-width"="{width}" }}',
        f'attributes #1 = {{ nounwind noinline "prefer-vector-width"="{width}" }}',
        *module.metadata,
    ]
    return "\n".join(parts) + "\n"
