"""How much scratch memory a kernel's `Alloc`s need, as a size the host program can plan."""

from __future__ import annotations

from ...ir.dims import Dim
from ...ir.loops import Alloc, Const, Expr, For, Index, Kernel, Let, Stmt, bodies

ALIGNMENT = 64
STACK_BYTES = 16 * 1024
"""An `Alloc` of a static size up to this lives on the stack, a larger or symbolic one in the worker's scratch."""


def in_scratch(stmt: Alloc) -> bool:
    """Whether the array lives in scratch rather than on the stack."""
    return not stmt.size.is_const or stmt.size.value * stmt.dtype.bytes > STACK_BYTES


def scratch_bytes(kernel: Kernel) -> Dim:
    """Bytes each worker needs, over the kernel's sizes; 0 when everything fits the stack.

    Sizes over loop variables are taken at the end of the range where they are largest.
    """
    return _of_body(kernel.body)


def _of_body(stmts: tuple[Stmt, ...]) -> Dim:
    """All allocations of a body live at once; the bodies inside it take turns."""
    own = Dim.of(0)
    deepest = Dim.of(0)
    sizes: dict[str, Dim] = {}  # `Let`s that sizes may be written with
    for stmt in stmts:
        if isinstance(stmt, Let) and isinstance(stmt.value, Index):
            sizes[stmt.name] = stmt.value.dim.subs(sizes)
        if isinstance(stmt, Alloc) and in_scratch(stmt):
            own = own + Dim.ceildiv(stmt.size.subs(sizes) * stmt.dtype.bytes, ALIGNMENT) * ALIGNMENT
        for body in bodies(stmt):
            inner = _of_body(body)
            if isinstance(stmt, For):
                inner = _largest(inner, stmt)
            inner = inner.subs(sizes)
            deepest = inner if deepest == 0 else deepest if inner == 0 else Dim.max(deepest, inner)
    return own + deepest


def _largest(size: Dim, loop: For) -> Dim:
    """An upper bound of `size` over the loop's range, free of its variable: sizes grow or shrink along a loop."""
    if loop.var not in size.symbols:
        return size
    ends = [_dim(loop.start), _dim(loop.stop) - 1]
    return Dim.max(*(size.subs({loop.var: end}) for end in ends))


def _dim(e: Expr) -> Dim:
    if isinstance(e, Index):
        return e.dim
    if isinstance(e, Const):
        return Dim.of(int(e.value))
    raise ValueError("the size of scratch memory depends on data")
