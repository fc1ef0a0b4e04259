"""Statements that the threads of a block run together.

Values are the same in all threads: every thread computes them.  Loops of independent iterations and reductions are
shared: thread t takes the iterations t, t + block, ...; a reduction's partial results are combined at the end of the
loop.  What has other effects is done by thread 0.  Barriers stand where one thread's memory access must follow
another's, and are found by tracking what was touched since the last one (`Hazards`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.loops import (
    Alloc,
    Assign,
    For,
    If,
    Let,
    Local,
    Require,
    Stmt,
    Store,
    While,
    walk_stmts,
)
from ....ir.types import DType
from ....passes.loops.rewrite import assigned
from .context import FunctionContext, loop_bounds
from .expr import emit
from .hazards import NONE, Hazards, accesses, loads
from .index import ATOM, Int
from .reductions import Best, Fold, Reduction, combiner, neutral, shared_loops, shared_reductions
from .scalar import emit_apply
from .scope import Scope
from .thread import ThreadEmitter, assign, condition, let, local, store
from .values import Value, bare, literal, register_type
from .writer import Writer

Emission = Callable[[Writer, Hazards], Hazards]


@dataclass(frozen=True)
class BlockEmitter:
    """`private` are arrays of which every thread uses its own elements only."""

    context: FunctionContext
    private: frozenset[str] = NONE

    @property
    def thread(self) -> ThreadEmitter:
        return ThreadEmitter(self.context)

    def body(self, w: Writer, stmts: tuple[Stmt, ...], scope: Scope, state: Hazards) -> Hazards:
        """Statements in a scope of their own; gives the hazards after them."""
        scope = scope.inner()
        for stmt in stmts:
            state = self.stmt(w, stmt, scope, state)
        return state

    def repeated(self, w: Writer, state: Hazards, emission: Emission, carried: Callable[[Hazards], Hazards]) -> Hazards:
        """A loop's text, such that its hazards hold for the second iteration as for the first.

        `carried` says which of the hazards at the end of an iteration matter to the next.
        """
        entry = state
        while True:
            part = w.part()
            after = entry.joined(carried(emission(part, entry)))
            if after == entry:
                w.take(part)
                return entry
            entry = after

    def stmt(self, w: Writer, stmt: Stmt, scope: Scope, state: Hazards) -> Hazards:
        if isinstance(stmt, (For, While, If)):
            return self._nested(w, stmt, scope, state)
        if isinstance(stmt, Alloc):
            self.context.declare(w, stmt, self.context.storage.of_block(stmt), scope)
            return state
        state = self.ordered(w, accesses((stmt,)), state)
        match stmt:
            case Let(name, value):
                let(w, name, value, scope)
            case Local(name, init):
                local(w, name, init, scope)
            case Assign(name, value):
                assign(w, name, value, scope)
            case Store(buffer, index, value):
                w.line(f"if (threadIdx.x == 0) {store(buffer, index, value, scope)}")
            case Require():
                self.context.require(w, stmt, scope)
            case _:
                raise TypeError(f"{type(stmt).__name__} in kernel `{self.context.kernel.name}` is not for the GPU")
        return state

    def ordered(self, w: Writer, used: Hazards, state: Hazards) -> Hazards:
        """A barrier before these accesses if they need one; the hazards with them."""
        used = self.context.touched(used).without(self.private)
        if state.forbid(used):
            w.line("__syncthreads();")
            state = Hazards()
        return state.joined(used)

    # -- control flow

    def _nested(self, w: Writer, stmt: For | While | If, scope: Scope, state: Hazards) -> Hazards:
        reductions = shared_reductions(stmt) if isinstance(stmt, For) else None
        if isinstance(stmt, For) and reductions is not None:
            return self._shared(w, stmt, reductions, scope, state)
        if not any(shared_loops((stmt,))):
            return self._single(w, stmt, scope, state)
        if isinstance(stmt, For):
            return self._uniform_for(w, stmt, scope, state)
        if isinstance(stmt, While):
            return self._uniform_while(w, stmt, scope, state)
        state = self.ordered(w, Hazards(read=loads(stmt.condition)), state)
        with w.block(f"if ({condition(stmt.condition, scope)})"):
            then = self.body(w, stmt.then, scope, state)
        if not stmt.otherwise:
            return state.joined(then)
        with w.block("else"):
            return then.joined(self.body(w, stmt.otherwise, scope, state))

    def _single(self, w: Writer, stmt: Stmt, scope: Scope, state: Hazards) -> Hazards:
        """Nothing to share: all threads do it where only values come of it, else thread 0, who tells the others."""
        used = accesses((stmt,))
        state = self.ordered(w, used, state)
        if not used.written:
            self.thread.stmt(w, stmt, scope)
            return state
        with w.block("if (threadIdx.x == 0)"):
            self.thread.stmt(w, stmt, scope.inner())
        own = {s.name for s in walk_stmts((stmt,)) if isinstance(s, Local)}
        for name in sorted(assigned((stmt,)) - own):
            value = scope.values[name]
            w.line(f"{value.text} = pl_broadcast<{value.type}>({value.text});")
            state = Hazards()
        return state

    def _uniform_for(self, w: Writer, loop: For, scope: Scope, state: Hazards) -> Hazards:
        """A loop in which all threads go along, since something inside is shared."""
        state = self.ordered(w, Hazards(read=loads(loop.start, loop.stop)), state)
        start, stop = loop_bounds(w, loop, scope)
        inner = scope.inner()
        name = inner.name(loop.var)
        inner.let_int(loop.var, Int(name, ATOM, start.natural))

        def emission(part: Writer, entry: Hazards) -> Hazards:
            with part.block(f"for (long long {name} = {start.text}; {name} < {stop.text}; ++{name})"):
                return self.body(part, loop.body, inner, entry)

        return self.repeated(w, state, emission, lambda after: after)

    def _uniform_while(self, w: Writer, loop: While, scope: Scope, state: Hazards) -> Hazards:
        def emission(part: Writer, entry: Hazards) -> Hazards:
            with part.block("while (true)"):
                entry = self.ordered(part, Hazards(read=loads(loop.condition)), entry)
                part.line(f"if (!({condition(loop.condition, scope)})) break;")
                return self.body(part, loop.body, scope, entry)

        # The hazards when it ends are those at the condition: what was carried, and what the condition reads.
        state = self.repeated(w, state, emission, lambda after: after)
        return state.joined(self.context.touched(Hazards(read=loads(loop.condition))))

    # -- shared loops

    def _shared(self, w: Writer, loop: For, reductions: tuple[Reduction, ...], scope: Scope, state: Hazards) -> Hazards:
        state = self.ordered(w, accesses((loop,)), state)
        start, stop = loop_bounds(w, loop, scope)
        inner = scope.inner()
        for reduction in reductions:
            self._partial(w, reduction, scope, inner)
        name = inner.name(loop.var)
        inner.let_int(loop.var, Int(name, ATOM, start.natural))
        first = "threadIdx.x" if start.constant == 0 else f"{start.text} + threadIdx.x"
        with w.block(f"for (long long {name} = {first}; {name} < {stop.text}; {name} += blockDim.x)"):
            self.thread.body(w, loop.body, inner)
        for reduction in reductions:
            self._combine(w, reduction, scope, inner)
        return Hazards() if reductions else state

    def _partial(self, w: Writer, reduction: Reduction, scope: Scope, inner: Scope) -> None:
        """This thread's accumulator, which the loop's body takes for the local."""
        if isinstance(reduction, Fold):
            starts = {reduction.local: neutral(reduction.fn, reduction.dtype)}
        else:
            worst = neutral("maximum" if reduction.largest else "minimum", reduction.dtype)
            starts = {reduction.value: worst, reduction.position: neutral("add", DType.i64)}
        for name, init in starts.items():
            text = scope.name(f"{name}_part")
            inner.taken.add(text)
            w.line(f"{register_type(init.dtype)} {text} = {bare(emit(init, scope).text)};")
            inner.let_value(name, Value(text, scope.values[name].dtype))

    def _combine(self, w: Writer, reduction: Reduction, scope: Scope, inner: Scope) -> None:
        """The threads' accumulators into the local, in every thread."""
        if isinstance(reduction, Best):
            self._combine_best(w, reduction, scope, inner)
            return
        fn, dtype = reduction.fn, reduction.dtype
        target, part = scope.values[reduction.local], inner.values[reduction.local]
        none = literal(neutral(fn, dtype).value, dtype)
        w.line(f"{part.text} = pl_block_reduce<{combiner(fn, dtype)}, {none.type}>({part.text}, {bare(none.text)});")
        w.line(f"{target.text} = {bare(emit_apply(fn, (target, part), dtype).text)};")

    def _combine_best(self, w: Writer, best: Best, scope: Scope, inner: Scope) -> None:
        value, position = scope.values[best.value].text, scope.values[best.position].text
        part, there = inner.values[best.value].text, inner.values[best.position].text
        types = f"{'true' if best.largest else 'false'}, {register_type(best.dtype)}"
        w.line(f"pl_block_select<{types}>({part}, {there});")
        with w.block(f"if (pl_comes_first<{types}>({part}, {there}, {value}, {position}))"):
            w.line(f"{value} = {part};")
            w.line(f"{position} = {there};")
