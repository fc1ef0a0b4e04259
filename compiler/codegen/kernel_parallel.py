"""Parallel loops: the body becomes a function over a range of iterations, run in chunks by the runtime's pool.

    @k.<name>.p<i>(ctx, captured..., lo, hi, worker)     the loop, over lo..hi
    @k.<name>.c<i>(arg, chunk, worker)                   one chunk: unpacks `arg` and calls the loop

Little work runs here and now: waking the pool costs more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...ir.loops import (
    Alloc,
    Contract,
    Expr,
    For,
    Index,
    Load,
    Micro,
    Name,
    Stmt,
    Store,
    Transpose,
    expressions,
    walk_expr,
    walk_stmts,
)
from .kernel_abi import POOL, POOL_RUN, WORKERS, load_slot
from .kernel_builder import FunctionBuilder, Value
from .kernel_index import Int
from .kernel_scope import LocalVar, Scope
from .kernel_work import loop_work
from .names import kernel_symbol

if TYPE_CHECKING:
    from .kernel_stmt import StmtEmitter

SERIAL_BELOW = 200_000
"""Work (in tenths of a nanosecond, see `kernel_work`) below which a loop runs on the calling thread."""

CHUNKS_PER_WORKER = 4


@dataclass(frozen=True)
class Captured:
    """A value from outside that the body reads: its typed argument, and the parameter it becomes."""

    name: str
    type: str
    argument: str
    parameter: str


def emit_parallel(outer: StmtEmitter, stmt: For, start: Int, stop: Int) -> None:
    """Replaces the loop by a call of the pool, or of the body's function where there is little work."""
    f = outer.f
    work = loop_work(outer.expr, outer.scope, stmt, start, stop)
    scope, captured = _capture(outer, stmt)
    name = f"{kernel_symbol(outer.context.kernel.name)}.{f.name('p')}"
    _define_body(outer, stmt, name, scope, captured, start)
    _define_chunk(outer, name, captured)
    _dispatch(f, name, captured, start, stop, work)


def _dispatch(f: FunctionBuilder, name: str, captured: list[Captured], start: Int, stop: Int, work: str) -> None:
    trips = f.let(f"sub i64 {stop.text}, {start.text}")
    some, serial, parallel, done = (f.name(x) for x in ("some", "serial", "parallel", "joined"))
    f.branch(f.let(f"icmp sgt i64 {trips}, 0"), some, done)
    f.start(some)
    workers = load_slot(f, WORKERS)
    by_work = f.let(f"udiv i64 {work}, {SERIAL_BELOW // 2}")
    most = f.let(f"mul i64 {workers}, {CHUNKS_PER_WORKER}")
    chunks = trips
    for limit in (by_work, most):
        chunks = f.intrinsic("umin.i64", "i64", (f"i64 {chunks}", f"i64 {limit}"))
    enough = f.let(f"icmp ugt i64 {chunks}, 1")
    threads = f.let(f"icmp ugt i64 {workers}, 1")
    f.branch(f.let(f"and i1 {enough}, {threads}"), parallel, serial)
    f.start(serial)
    arguments = ", ".join(f"{c.type} {c.argument}" for c in captured)
    f.line(
        f"call void @{name}(ptr %ctx, {arguments + ', ' if arguments else ''}i64 {start.text}, i64 {stop.text}, i64 0)"
    )
    f.jump(done)
    f.start(parallel)
    values = [("ptr", "%ctx"), ("i64", start.text), ("i64", trips), ("i64", chunks)]
    values += [(c.type, c.argument) for c in captured]
    block = f.alloca(f"[{len(values)} x i64]", "arg", 8)
    for slot, (type_, text) in enumerate(values):
        f.line(f"store {type_} {text}, ptr {f.let(f'getelementptr inbounds i64, ptr {block}, i64 {slot}')}, align 8")
    run, pool = load_slot(f, POOL_RUN, "ptr"), load_slot(f, POOL, "ptr")
    f.line(f"call void {run}(ptr {pool}, ptr @{name}.chunk, ptr {block}, i64 {chunks})")
    f.jump(done)
    f.start(done)


def _define_chunk(outer: StmtEmitter, name: str, captured: list[Captured]) -> None:
    f = FunctionBuilder(outer.f.module)
    types = ["ptr", "i64", "i64", "i64", *(c.type for c in captured)]
    loaded = []
    for slot, type_ in enumerate(types):
        pointer = f.let(f"getelementptr inbounds i64, ptr %arg, i64 {slot}")
        loaded.append(f.let(f"load {type_}, ptr {pointer}, align 8"))
    ctx, start, trips, chunks, *rest = loaded
    bounds = []
    for chunk in ("%chunk", f.let("add i64 %chunk, 1")):
        # trips * chunk does not overflow: a loop of 2**50 iterations would not end anyway.
        share = f.let(f"udiv i64 {f.let(f'mul i64 {trips}, {chunk}')}, {chunks}")
        bounds.append(f.let(f"add i64 {start}, {share}"))
    arguments = "".join(f"{c.type} {text}, " for c, text in zip(captured, rest, strict=True))
    f.line(f"call void @{name}(ptr {ctx}, {arguments}i64 {bounds[0]}, i64 {bounds[1]}, i64 %worker)")
    f.line("ret void")
    f.module.functions.append(
        f.define(f"define internal void @{name}.chunk(ptr %arg, i64 %chunk, i64 %worker) nounwind")
    )


def _define_body(outer: StmtEmitter, stmt: For, name: str, scope: Scope, captured: list[Captured], start: Int) -> None:
    from .kernel_stmt import StmtEmitter

    f = FunctionBuilder(outer.f.module)
    emitter = StmtEmitter(f, scope, outer.context)
    emitter.loop(stmt, Int("%lo", start.natural), Int("%hi"))
    emitter.finish()
    parameters = "".join(f"{c.type} {c.parameter}, " for c in captured)
    head = f"define internal void @{name}(ptr %ctx, {parameters}i64 %lo, i64 %hi, i64 %worker) #1"
    f.module.functions.append(f.define(head))


# ------------------------------------------------------------------------------------------------ captured values


def _capture(outer: StmtEmitter, stmt: For) -> tuple[Scope, list[Captured]]:
    """The scope of the body's function, and what must be handed to it."""
    scope = Scope(parallel=True, worker="%worker", loops=(), scratch="%scratch.used")
    captured = [Captured("", "i64", outer.scope.scratch, "%scratch.used")]
    names, buffers = _used(stmt.body)
    for name in sorted(names):
        if name in outer.scope.ints:
            value = outer.scope.ints[name]
            if value.constant is not None:
                scope.ints[name] = value
                continue
            parameter = f"%v.{len(captured)}"
            scope.ints[name] = replace(value, text=parameter)
            captured.append(Captured(name, "i64", value.text, parameter))
        elif name in outer.scope.values:
            captured.append(_capture_value(outer, scope, name, f"%v.{len(captured)}"))
    for name in sorted(buffers):
        if name in outer.scope.buffers:
            buffer = outer.scope.buffers[name]
            parameter = f"%b.{len(captured)}"
            scope.buffers[name] = replace(buffer, pointer=parameter, depth=0)
            captured.append(Captured(name, "ptr", buffer.pointer, parameter))
    return scope, captured


def _capture_value(outer: StmtEmitter, scope: Scope, name: str, parameter: str) -> Captured:
    """A `Let`, or the present value of a `Local` (iterations are independent, so none of them assigns to it)."""
    value = outer.scope.values[name]
    current = outer.expr.named(name, outer.scope) if isinstance(value, LocalVar) else value
    scope.values[name] = Value(parameter, current.dtype)
    return Captured(name, current.type, current.text, parameter)


def _used(body: tuple[Stmt, ...]) -> tuple[set[str], set[str]]:
    """Names (symbols too) and buffers that occur in a body; those bound inside it are not in the outer scope."""
    names: set[str] = set()
    buffers: set[str] = set()
    for stmt in walk_stmts(body):
        for root in expressions(stmt):
            for e in walk_expr(root):
                _note(e, names, buffers)
        if isinstance(stmt, Store):
            buffers.add(stmt.buffer)
        elif isinstance(stmt, Alloc):
            names |= stmt.size.symbols
        elif isinstance(stmt, Micro):
            buffers |= {stmt.a, stmt.b, stmt.c}
        elif isinstance(stmt, Transpose):
            buffers |= {stmt.source, stmt.target}
        elif isinstance(stmt, Contract):
            names |= stmt.rows.symbols | stmt.cols.symbols | stmt.inner.symbols
    return names, buffers


def _note(e: Expr, names: set[str], buffers: set[str]) -> None:
    if isinstance(e, Index):
        names |= e.dim.symbols
    elif isinstance(e, Name):
        names.add(e.name)
    elif isinstance(e, Load):
        buffers.add(e.buffer)
