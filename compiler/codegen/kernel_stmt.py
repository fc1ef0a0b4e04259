"""Statements of the loop IR as LLVM instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...ir.loops import (
    Alloc,
    Assign,
    Contract,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Local,
    Micro,
    Require,
    Stmt,
    Store,
    Transpose,
    While,
)
from ...ir.types import DType
from ...passes.loops.rewrite import is_innermost, trip_limit
from ...passes.loops.scratch import in_scratch
from ...passes.loops.tile import plain_loops
from .kernel_abi import SCRATCH, SCRATCH_STRIDE, load_slot, record_error
from .kernel_builder import FunctionBuilder, memory_type, register_type
from .kernel_convert import convert
from .kernel_divisions import divisions_before
from .kernel_expr import ExprEmitter
from .kernel_index import Int
from .kernel_scope import BufferRef, LocalVar, LoopFrame, Scope
from .micro import emit_micro
from .transpose import emit_transpose

SHORT_LOOP = 64
"""A loop of at most this many iterations takes one vector at a time."""

VERY_SHORT_LOOP = 8
"""A loop of fewer iterations is unrolled as it is; vectors would not be full."""

LEAST = str(-(2**63))


@dataclass(frozen=True)
class KernelContext:
    """The kernel that functions are emitted for, its position in the program, and its buffers' alias metadata."""

    kernel: Kernel
    index: int
    aliases: Mapping[str, tuple[str, str]]


@dataclass
class StmtEmitter:
    """Emits one LLVM function: a kernel, or the body of one of its parallel loops."""

    f: FunctionBuilder
    scope: Scope
    context: KernelContext
    flags: dict[int, str] = field(default_factory=dict)  # check -> stack slot that is not 0 when it failed
    details: dict[int, str] = field(default_factory=dict)  # check -> stack slot of the largest value that failed it

    @property
    def expr(self) -> ExprEmitter:
        return ExprEmitter(self.f)

    def body(self, stmts: tuple[Stmt, ...]) -> None:
        """Statements in a scope of their own."""
        outer, self.scope = self.scope, self.scope.inner()
        for stmt in stmts:
            self.stmt(stmt)
        self.scope = outer

    def finish(self) -> None:
        """Reports failed checks once, at the end, so that loops stay free of side exits."""
        for check, slot in sorted(self.flags.items()):
            failed = self.f.let(f"icmp ne i32 {self.f.let(f'load i32, ptr {slot}')}, 0")
            value = self.f.let(f"load i64, ptr {self.details[check]}") if check in self.details else None
            record_error(self.f, failed, 1 + (self.context.index << 16 | check), value)
        self.f.line("ret void")

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Let(name, value):
                self._let(name, value)
            case Local(name, init):
                self._local(name, init)
            case Assign(name, value):
                self._assign(name, value)
            case Store(buffer, index, value):
                self.expr.store(buffer, index, self.expr.emit(value, self.scope), self.scope)
            case Alloc():
                self._alloc(stmt)
            case For():
                self._for(stmt)
            case If():
                self._if(stmt)
            case While(condition, body):
                self._while(condition, body)
            case Require():
                self._require(stmt)
            case Contract():
                self.body(plain_loops(stmt))
            case Micro():
                emit_micro(self.f, self.expr, self.scope, stmt)
            case Transpose():
                emit_transpose(self.f, self.expr, self.scope, stmt)

    def _let(self, name: str, value: Expr) -> None:
        if value.dtype is DType.i64:
            self.scope.ints[name] = self.expr.integer(value, self.scope)
            self.scope.values.pop(name, None)
        else:
            self.scope.values[name] = self.expr.emit(value, self.scope)

    def _local(self, name: str, init: Expr) -> None:
        value = self.expr.emit(init, self.scope)
        slot = self.f.alloca(value.type)
        self.scope.values[name] = LocalVar(slot, value.dtype, len(self.scope.loops))
        self.scope.ints.pop(name, None)
        self.f.line(f"store {value.typed}, ptr {slot}")

    def _assign(self, name: str, value: Expr) -> None:
        local = self.scope.values[name]
        assert isinstance(local, LocalVar), f"{name} is not a Local"
        vector = any(loop.kind == "vector" for loop in self.scope.loops[local.depth :])
        result = self.expr.emit(value, self.scope, name if vector else None)
        result = convert(self.f, result, local.dtype)
        self.f.line(f"store {register_type(local.dtype)} {result.text}, ptr {local.pointer}")

    def _require(self, stmt: Require) -> None:
        """Notes a failure in ways that LLVM knows as reductions, so that loops with checks are vectorised."""
        f = self.f
        ok = self.expr.emit(stmt.ok, self.scope).text
        slot = self._noted(self.flags, stmt.check, "i32", "0")
        bad = f.let(f"zext i1 {f.let(f'xor i1 {ok}, true')} to i32")
        before = f.let(f"load i32, ptr {slot}")
        f.line(f"store i32 {f.let(f'or i32 {before}, {bad}')}, ptr {slot}")
        if stmt.value is not None:
            # The largest, since signed extrema of i64 are cheap without AVX-512 too, and those of u64 are not.
            value = self.expr.integer(stmt.value, self.scope).text
            slot = self._noted(self.details, stmt.check, "i64", LEAST)
            wrong = f.let(f"select i1 {ok}, i64 {LEAST}, i64 {value}")
            largest = f.let(f"load i64, ptr {slot}")
            largest = f.intrinsic("smax.i64", "i64", (f"i64 {largest}", f"i64 {wrong}"))
            f.line(f"store i64 {largest}, ptr {slot}")

    def _noted(self, slots: dict[int, str], check: int, type_: str, start: str) -> str:
        """The stack slot of a check; it is set at entry, as the check may stand in a branch that is never taken."""
        if check not in slots:
            slots[check] = self.f.alloca(type_, "check")
            self.f.allocas.append(f"  store {type_} {start}, ptr {slots[check]}")
        return slots[check]

    # -- memory

    def _alloc(self, stmt: Alloc) -> None:
        own, others = self.context.aliases[stmt.buffer]
        depth = len(self.scope.loops)
        bytes_ = stmt.dtype.bytes
        if not in_scratch(stmt):
            count = max(1, stmt.size.value)
            pointer = self.f.alloca(f"[{count} x {memory_type(stmt.dtype)}]", "stack", 64)
        else:
            size = self.expr.integer(Index(stmt.size), self.scope).text
            pointer = self._scratch(size, bytes_)
        self.scope.buffers[stmt.buffer] = BufferRef(pointer, stmt.dtype, own, others, depth, 64)

    def _scratch(self, size: str, bytes_: int) -> str:
        """Memory from this worker's scratch, behind what is in use there."""
        f = self.f
        base = load_slot(f, SCRATCH, "ptr")
        stride = load_slot(f, SCRATCH_STRIDE)
        offset = f.let(f"add i64 {f.let(f'mul i64 {self.scope.worker}, {stride}')}, {self.scope.scratch}")
        raised = f.let(f"add i64 {f.let(f'mul i64 {size}, {bytes_}')}, 63")
        self.scope.scratch = f.let(f"add i64 {self.scope.scratch}, {f.let(f'and i64 {raised}, -64')}")
        return f.let(f"getelementptr inbounds i8, ptr {base}, i64 {offset}", "scratch")

    # -- control flow

    def _if(self, stmt: If) -> None:
        f = self.f
        condition = convert(f, self.expr.emit(stmt.condition, self.scope), DType.bool)
        then, otherwise, end = f.name("then"), f.name("else"), f.name("endif")
        f.branch(condition.text, then, otherwise if stmt.otherwise else end)
        f.start(then)
        self.body(stmt.then)
        f.jump(end)
        if stmt.otherwise:
            f.start(otherwise)
            self.body(stmt.otherwise)
            f.jump(end)
        f.start(end)

    def _while(self, condition: Expr, body: tuple[Stmt, ...]) -> None:
        f = self.f
        test, inside, end = f.name("while"), f.name("do"), f.name("endwhile")
        f.jump(test)
        f.start(test)
        value = convert(f, self.expr.emit(condition, self.scope), DType.bool)
        f.branch(value.text, inside, end)
        f.start(inside)
        self.loop_body(LoopFrame("serial", None), body, {})
        f.jump(test)
        f.start(end)

    def _for(self, stmt: For) -> None:
        start, stop = (self.expr.integer(e, self.scope) for e in (stmt.start, stmt.stop))
        if stmt.kind == "parallel" and not self.scope.parallel:
            from .kernel_parallel import emit_parallel

            emit_parallel(self, stmt, start, stop)
        else:
            self.loop(stmt, start, stop)

    def loop(self, stmt: For, start: Int, stop: Int) -> None:
        """A loop in this function."""
        f = self.f
        if is_innermost(stmt):
            named, stmt = divisions_before(stmt)
            for let in named:
                self.stmt(let)
        inside, latch_end = f.name("loop"), f.name("after")
        some = f.let(f"icmp slt i64 {start.text}, {stop.text}")
        before = f.block
        f.branch(some, inside, latch_end)
        f.start(inside)
        var, following = f"%{f.name('iv')}", f"%{f.name('iv')}"
        phi = len(f.lines)
        f.line("")
        group = f.module.meta("!{}", distinct=True) if stmt.kind in ("parallel", "vector") else None
        self.loop_body(LoopFrame(stmt.kind, group), stmt.body, {stmt.var: Int(var, start.natural)})
        f.lines[phi] = f"  {var} = phi i64 [ {start.text}, %{before} ], [ {following}, %{f.block} ]"
        f.line(f"{following} = add nsw{' nuw' if start.natural else ''} i64 {var}, 1")
        again = f.let(f"icmp slt i64 {following}, {stop.text}")
        f.branch(again, inside, latch_end, self._loop_metadata(stmt, group))
        f.start(latch_end)

    def loop_body(self, frame: LoopFrame, body: tuple[Stmt, ...], ints: dict[str, Int]) -> None:
        outer, self.scope = self.scope, self.scope.inner()
        self.scope.loops = (*outer.loops, frame)
        self.scope.ints.update(ints)
        for name in ints:
            self.scope.values.pop(name, None)
        for stmt in body:
            self.stmt(stmt)
        self.scope = outer

    def _loop_metadata(self, loop: For, group: str | None) -> str:
        module = self.f.module
        items = ["{self}", module.meta('!{!"llvm.loop.mustprogress"}')]
        if group is not None:
            items.append(module.meta('!{!"llvm.loop.parallel_accesses", ' + group + "}"))
            if is_innermost(loop):
                # Two vectors at a time; more (LLVM takes up to four) gain little and leave longer scalar tails.
                limit = trip_limit(loop)
                count = 1 if limit is not None and limit <= SHORT_LOOP else 2
                items.append(module.meta('!{!"llvm.loop.interleave.count", i32 ' + f"{count}}}"))
                if limit is not None and VERY_SHORT_LOOP <= limit <= SHORT_LOOP:
                    # LLVM would unroll the loop into scalars before it looks for vectors.
                    items.append(module.meta('!{!"llvm.loop.unroll.disable"}'))
        return ", !llvm.loop " + module.meta("!{" + ", ".join(items) + "}", distinct=True)
