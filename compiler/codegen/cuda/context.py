"""What the emission of one `__global__` function knows and collects."""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.loops import Alloc, For, Kernel, Require
from .expr import emit, integer
from .hazards import Hazards
from .index import ATOM, Int, emit_dim
from .scope import BufferRef, Scope
from .storage import Place, Storage
from .values import bare, memory_type
from .writer import Writer

_BASES = {"shared": "pl_shared", "thread": "pl_thread", "block": "pl_block", "kernel": "pl_scratch"}


@dataclass
class FunctionContext:
    """`mutable` are the buffers and arrays that the kernel stores to; `index` is its position in the program."""

    kernel: Kernel
    index: int
    mutable: frozenset[str]
    storage: Storage
    uses_error: bool = False

    def touched(self, accesses: Hazards) -> Hazards:
        """Accesses that order matters for; buffers that may overlap go by one name."""
        same = {b.may_alias: b.name for b in self.kernel.buffers if b.may_alias is not None}

        def names(used: frozenset[str]) -> frozenset[str]:
            return frozenset(same.get(n, n) for n in used)

        return Hazards(names(accesses.written), names(accesses.read)).only(names(self.mutable))

    def declare(self, w: Writer, alloc: Alloc, place: Place, scope: Scope) -> None:
        """An array, or the pointer to its place."""
        size = emit_dim(self.storage.sizes[alloc], scope.ints).text
        offset = emit_dim(place.offset, scope.ints)
        type_, name = memory_type(alloc.dtype), scope.name(alloc.buffer)
        if place.base == "local":
            w.line(f"{type_} {name}[{size}];" if size != "0" else f"{type_} {name}[1];")
        else:
            start = _BASES[place.base] if offset.constant == 0 else f"({_BASES[place.base]} + {offset.text})"
            w.line(f"{type_}* const {name} = ({type_}*){start};  // [{size}]")
        scope.buffers[alloc.buffer] = BufferRef(name, alloc.dtype)

    def require(self, w: Writer, stmt: Require, scope: Scope) -> None:
        """A check whose first failure is recorded."""
        self.uses_error = True
        code = 1 + (self.index << 16 | stmt.check)
        value = "" if stmt.value is None else f", {bare(integer(stmt.value, scope).text)}"
        w.line(f"pl_require({bare(emit(stmt.ok, scope).text)}, pl_error, {code}ull{value});")


def loop_bounds(w: Writer, loop: For, scope: Scope) -> tuple[Int, Int]:
    """Start and stop of a loop, evaluated once where they are more than a name."""
    bounds = []
    for bound, what in ((loop.start, "start"), (loop.stop, "stop")):
        value = integer(bound, scope)
        if value.constant is None and not (value.level == ATOM and value.text.isidentifier() and value.natural):
            name = scope.name(f"{loop.var}_{what}")
            w.line(f"const long long {name} = {bare(value.text)};")
            value = Int(name, ATOM, value.natural)
        bounds.append(value)
    return bounds[0], bounds[1]
