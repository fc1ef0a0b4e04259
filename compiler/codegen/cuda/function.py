"""One phase of a kernel as a `__global__` function."""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.dims import Dim
from ....ir.facts import Facts
from ....ir.loops import Alloc, Buffer, Contract, Kernel, Stmt
from ....passes.loops.rewrite import trip_limit
from .block import BlockEmitter
from .context import FunctionContext
from .contract import THREADS, ContractEmitter, tiles
from .grid import decode, extents, named, product, task_name
from .hazards import Hazards, accesses, thread_private
from .index import ATOM, Int, emit_dim
from .launch import CudaLaunch
from .nest import Nest, Phase
from .reductions import shared_loops
from .scope import BufferRef, Scope
from .storage import Arena, Storage
from .thread import ThreadEmitter, let
from .values import memory_type
from .writer import Writer

MAP_THREADS = 256
MOST_THREADS = 256
"""Of a block that shares loops: enough to hide latency with a few blocks on a multiprocessor."""


@dataclass
class FunctionEmitter:
    """Emits `phase` as the function `name`; `arena` holds the scratch arrays that all the kernel's phases see."""

    kernel: Kernel
    index: int
    phase: Phase
    name: str
    facts: Facts
    arena: Arena
    sizes: dict[Alloc, Dim]

    def run(self) -> tuple[CudaLaunch, str]:
        """The rule of its launch, and its text."""
        mutable = accesses(self.kernel.body).written
        storage = Storage(self.sizes, self.facts, self.arena)
        self.context = FunctionContext(self.kernel, self.index, mutable, storage)
        scope, parameters = self._parameters()
        w = Writer()
        blocks, threads = self._body(w, scope)
        launch = CudaLaunch(
            self.name,
            tuple(b.name for b in self._used()),
            self.kernel.sizes,
            storage.uses_scratch,
            self.context.uses_error,
            blocks,
            threads,
            storage.shared.bytes,
            self.arena.bytes,
            storage.block_scratch(threads),
        )
        if launch.uses_scratch:
            parameters.append("unsigned char* __restrict__ pl_scratch")
        if launch.uses_error:
            parameters.append("unsigned long long* __restrict__ pl_error")
        head = f'extern "C" __global__ void __launch_bounds__({threads}) {self.name}({", ".join(parameters)})'
        lines = [*self._scratch(storage, scope, threads), *w.lines]
        return launch, "\n".join([f"{head} {{", *lines, "}"])

    # -- parameters

    def _used(self) -> list[Buffer]:
        used = accesses(self.phase.all)
        names = used.read | used.written
        return [b for b in self.kernel.buffers if b.name in names]

    def _parameters(self) -> tuple[Scope, list[str]]:
        scope = Scope()
        written = accesses(self.phase.all).written
        aliased = {b.may_alias for b in self.kernel.buffers} | {
            b.name for b in self.kernel.buffers if b.may_alias is not None
        }
        parameters: list[str] = []
        for b in self._used():
            text = scope.name(b.name)
            scope.buffers[b.name] = BufferRef(text, b.dtype)
            const = "" if b.name in written else "const "
            restrict = " " if b.name in aliased else " __restrict__ "
            parameters.append(f"{const}{memory_type(b.dtype)}*{restrict}{text}")
        for s in self.kernel.sizes:
            text = scope.name(s)
            scope.let_int(s, Int(text, ATOM, True))
            parameters.append(f"long long {text}")
        return scope, parameters

    def _scratch(self, storage: Storage, scope: Scope, threads: int) -> list[str]:
        """Where this block's and this thread's parts of the scratch memory begin."""
        w = Writer()
        per_block = storage.block_scratch(threads)
        if per_block != 0:
            self._part(w, scope, "pl_block", "pl_scratch", self.arena.bytes, "blockIdx.x", per_block)
        if storage.thread.places:
            self._part(w, scope, "pl_thread", "pl_block", storage.block.bytes, "threadIdx.x", storage.thread.bytes)
        return w.lines

    def _part(self, w: Writer, scope: Scope, name: str, base: str, first: Dim, position: str, each: Dim) -> None:
        start = base if first == 0 else f"{base} + {emit_dim(first, scope.ints).text}"
        w.line(f"unsigned char* const {name} = {start} + (long long){position} * ({emit_dim(each, scope.ints).text});")

    # -- bodies

    def _body(self, w: Writer, scope: Scope) -> tuple[Dim | None, int]:
        """Writes the body; the number of blocks with a task for each, and of threads in a block."""
        phase = self.phase
        inside = {id(s) for s in phase.stmts}
        used = accesses(phase.all)
        for alloc in self.kernel.body:
            if isinstance(alloc, Alloc) and id(alloc) not in inside and alloc.buffer in used.read | used.written:
                self.context.declare(w, alloc, self.context.storage.of_kernel(alloc), scope)
        for stmt in phase.lets:
            let(w, stmt.name, stmt.value, scope)
        if phase.nest is None:
            self._one_block(w, scope)
            return Dim.of(1), self._threads(phase.stmts)
        if phase.contract is not None:
            return self._contract(w, scope, phase.nest, phase.contract)
        if phase.nest.by_blocks:
            return self._by_blocks(w, scope, phase.nest)
        return self._by_threads(w, scope, phase.nest)

    def _threads(self, stmts: tuple[Stmt, ...]) -> int:
        """A power of two that the longest shared loop can keep busy; one warp where there is none."""
        limits = [trip_limit(loop) for loop in shared_loops(stmts)]
        longest = max((MOST_THREADS if limit is None else limit for limit in limits), default=1)
        return int(min(MOST_THREADS, max(32, 1 << (longest - 1).bit_length())))

    def _one_block(self, w: Writer, scope: Scope) -> None:
        """The grid may be larger: the other blocks have nothing to do."""
        stmts = self.phase.stmts
        with w.block("if (blockIdx.x == 0)"):
            private = thread_private(stmts, frozenset(self.kernel.sizes))
            BlockEmitter(self.context, private).body(w, stmts, scope, Hazards())

    def _by_threads(self, w: Writer, scope: Scope, nest: Nest) -> tuple[Dim | None, int]:
        sizes = extents(w, scope, nest)
        count = product(w, scope, "tasks", *sizes)
        task = task_name(nest, scope)
        first, step = f"blockIdx.x * {MAP_THREADS}ll + threadIdx.x", f"gridDim.x * {MAP_THREADS}ll"
        with w.block(f"for (long long {task} = {first}; {task} < {count.text}; {task} += {step})"):
            decode(w, scope, nest, sizes, task)
            ThreadEmitter(self.context).body(w, (*nest.prefix, *nest.body), scope)
        points = nest.count
        return (None if points is None else Dim.ceildiv(points, MAP_THREADS)), MAP_THREADS

    def _by_blocks(self, w: Writer, scope: Scope, nest: Nest) -> tuple[Dim | None, int]:
        stmts = (*nest.prefix, *nest.body)
        emitter = BlockEmitter(self.context, thread_private(stmts, frozenset(self.kernel.sizes)))
        arrays = frozenset(alloc.buffer for alloc in self.sizes)
        sizes = extents(w, scope, nest)
        count = product(w, scope, "tasks", *sizes)
        task = task_name(nest, scope)

        def emission(part: Writer, entry: Hazards) -> Hazards:
            inner = scope.inner()
            with part.block(f"for (long long {task} = blockIdx.x; {task} < {count.text}; {task} += gridDim.x)"):
                decode(part, inner, nest, sizes, task)
                return emitter.body(part, stmts, inner, entry)

        # Tasks are independent but for the block's own arrays, which the next task uses again.
        emitter.repeated(w, Hazards(), emission, lambda after: after.only(arrays))
        return nest.count, self._threads(stmts)

    def _contract(self, w: Writer, scope: Scope, nest: Nest, c: Contract) -> tuple[Dim | None, int]:
        emitter = ContractEmitter(self.context, c)
        emitter.declare(w)
        over_m = named(w, scope, f"tiles_{c.m}", emit_dim(tiles(c.rows), scope.ints))
        over_n = named(w, scope, f"tiles_{c.n}", emit_dim(tiles(c.cols), scope.ints))
        sizes = extents(w, scope, nest)
        count = product(w, scope, "tasks", *sizes, over_m, over_n)
        task, tile_m, tile_n, point = (scope.name(x) for x in ("task", f"tile_{c.m}", f"tile_{c.n}", "point"))
        m, n = over_m.at(ATOM), over_n.at(ATOM)
        with w.block(f"for (long long {task} = blockIdx.x; {task} < {count.text}; {task} += gridDim.x)"):
            w.line(f"const long long {tile_n} = {task} % {n}, {tile_m} = {task} / {n} % {m};")
            if nest.loops:
                w.line(f"const long long {point} = {task} / {n} / {m};")
                decode(w, scope, nest, sizes, point)
            for stmt in nest.prefix:
                ThreadEmitter(self.context).stmt(w, stmt, scope)
            emitter.emit(w, scope, tile_m, tile_n)
        points = nest.count
        return (None if points is None else points * tiles(c.rows) * tiles(c.cols)), THREADS
