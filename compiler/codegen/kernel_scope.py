"""What names mean at a point of a kernel: values, locals, buffers; and the loops around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...ir.loops import Alloc, Kernel, walk_stmts
from ...ir.types import DType
from .kernel_abi import quoted
from .kernel_builder import ModuleBuilder, Value
from .kernel_index import Int


@dataclass(frozen=True)
class LocalVar:
    """A mutable scalar in a stack slot (which LLVM turns into a register)."""

    pointer: str
    dtype: DType
    depth: int


@dataclass(frozen=True)
class BufferRef:
    """A buffer's address, alias metadata, and the number of loops around its allocation (0: an argument).

    `certain` elements are there at every call.
    """

    pointer: str
    dtype: DType
    alias: str
    noalias: str
    depth: int = 0
    align: int = 0
    certain: int = 0


@dataclass(frozen=True)
class LoopFrame:
    """A loop around the point: its kind and, where iterations are independent, its access group."""

    kind: str
    group: str | None


@dataclass
class Scope:
    """Copied at every body, so that names end where their block ends."""

    values: dict[str, Value | LocalVar] = field(default_factory=dict)
    ints: dict[str, Int] = field(default_factory=dict)
    buffers: dict[str, BufferRef] = field(default_factory=dict)
    loops: tuple[LoopFrame, ...] = ()
    scratch: str = "0"  # bytes of this worker's scratch in use (an i64 text)
    worker: str = "0"
    parallel: bool = False  # inside a parallel loop already

    def inner(self) -> Scope:
        return replace(self, values=dict(self.values), ints=dict(self.ints), buffers=dict(self.buffers))

    @staticmethod
    def of_kernel(kernel: Kernel, aliases: Mapping[str, tuple[str, str]]) -> Scope:
        """The kernel's arguments."""
        scope = Scope()
        for b in kernel.buffers:
            certain = b.size.value if b.size.is_const else 0
            pointer = f"%{quoted('b.' + b.name)}"
            scope.buffers[b.name] = BufferRef(pointer, b.dtype, *aliases[b.name], certain=certain)
        for s in kernel.sizes:
            scope.ints[s] = Int(f"%{quoted('s.' + s)}", natural=True)
        return scope


def alias_sets(module: ModuleBuilder, kernel: Kernel) -> dict[str, tuple[str, str]]:
    """(alias.scope list, noalias list) of each buffer of a kernel and of each `Alloc` in it."""
    partners: dict[str, set[str]] = {b.name: set() for b in kernel.buffers}
    for b in kernel.buffers:
        if b.may_alias is not None:
            partners[b.name].add(b.may_alias)
            partners.setdefault(b.may_alias, set()).add(b.name)
    for stmt in walk_stmts(kernel.body):
        if isinstance(stmt, Alloc):
            partners.setdefault(stmt.buffer, set())
    domain = module.meta('!{{self}, !"' + kernel.name + '"}', distinct=True)
    scopes = {n: module.meta("!{{self}, " + domain + "}", distinct=True) for n in partners}
    result = {}
    for name, overlapping in partners.items():
        others = [s for n, s in scopes.items() if n != name and n not in overlapping]
        own = module.meta("!{" + scopes[name] + "}")
        result[name] = (own, module.meta("!{" + ", ".join(others) + "}"))
    return result
