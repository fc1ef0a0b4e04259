"""Kernels of ops that write their own loops."""

from __future__ import annotations

from ...ir.dims import Dim
from ...ir.loops import Expr, Kernel
from ...ir.op import Array1, BlockOp, KernelOp
from ...ir.scalar import index
from ...ir.types import TensorType
from .emit import Emitter
from .epilogue import Epilogue
from .fuse import Group
from .kernel import Scope, close
from .reads import operands


def emit_irregular(scope: Scope, group: Group, name: str) -> Kernel:
    """The kernel of a KernelOp, over whole buffers."""
    (node,) = group.members
    op = node.op
    assert isinstance(op, KernelOp)
    e = Emitter(scope.facts, scope.taken, op.name, node.statement.span)
    outputs = tuple(Array1(scope.buffer(n), t) for n, t in zip(node.names, node.types, strict=True))
    inputs: list[Array1 | None] = []
    for value in node.inputs:
        if value is None:
            inputs.append(None)
        elif isinstance(value, str):
            inputs.append(Array1(scope.buffer(value), scope.flow.types[value]))
        else:
            inputs.append(_spilled(e, value))
    op.kernel(e, outputs, *inputs)
    return close(scope, e, name, group)


def emit_blocks(scope: Scope, group: Group, name: str) -> Kernel:
    """The kernel of a BlockOp, which reads its operands by element, and of what is computed from its result."""
    head = group.members[0]
    op = head.op
    assert isinstance(op, BlockOp)
    e = Emitter(scope.facts, scope.taken, op.name, head.statement.span)
    inputs = operands(scope.flow, head, scope.fusion.inline, scope.facts, scope.load)
    op.blocks(e, head.type, Epilogue(scope, group, e).run, *inputs)
    return close(scope, e, name, group)


def _spilled(e: Emitter, value: Expr) -> Array1:
    """A scalar operand as a one-element array, so that the op need not know the difference."""
    buffer = e.alloc(value.dtype, Dim.of(1))
    e.store(buffer, index(0), value)
    return Array1(buffer, TensorType(value.dtype, ()))
