"""Kernels for maps and row reductions.

A group's space is split into outer dimensions and the reduced `axes` (the row).  For every outer position the row is
read in *stages*: all values that are ready are computed in one pass, reductions accumulate, and what depends on their
results waits for the next pass.  So softmax is three passes over a row in cache, layer norm three, a map one.

Where the last dimension is not reduced, rows are strided; then a tile of neighbouring rows is reduced together
(`lanes`), so that memory is still read along the last dimension.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, ExitStack

from ...ir.dims import Dim
from ...ir.loops import Alloc, Const, Expr, Index, Kernel, Load, Name, Select, walk_expr
from ...ir.op import ReduceOp
from ...ir.scalar import apply, cast, const, index, sub
from ...ir.types import DType, product
from .costs import HEAVY, cost_of
from .emit import Emitter, PureContext, linear_index
from .fuse import Group
from .kernel import Scope, close, store
from .nodes import Node
from .reads import element, operands

LANES = 64
"""Rows reduced together where memory runs across them: a tile of f32 accumulators fits the registers and L1."""


def emit_rows(scope: Scope, group: Group, name: str) -> Kernel:
    """The kernel of a map or row group."""
    return _Rows(scope, group, name).run()


class _Rows:
    def __init__(self, scope: Scope, group: Group, name: str) -> None:
        self.scope = scope
        self.group = group
        self.name = name
        self.e = Emitter(scope.facts, scope.taken, group.members[0].op.title, group.members[0].statement.span)
        self.flow = scope.flow
        self.inline = scope.fusion.inline
        self.stored = scope.fusion.stored
        self.nodes = {n.name: n for n in group.members}
        self.rank = len(group.dims)
        self.vars = [self.e.fresh(f"i{d}") for d in range(self.rank)]
        self.lanes = bool(group.axes) and self.rank - 1 not in group.axes
        self.lane_base: Expr = index(0)
        self.stage: dict[str, int] = {}
        self.memo: dict[str, Expr] = {}
        self.reduced: dict[str, Expr | str] = {}
        self.scratch: dict[str, str] = {}
        self.rows: dict[str, tuple[DType, Dim]] = {}
        self.current = 0

    # -- structure

    def run(self) -> Kernel:
        self._stages()
        outer = [d for d in range(self.rank) if d not in self.group.axes]
        if self.lanes:
            outer.remove(self.rank - 1)
        with ExitStack() as loops:
            if self.group.axes:
                for d in outer:
                    loops.enter_context(self._loop(d, "parallel"))
                if self.lanes:
                    self._lane_tiles(loops)
                self._passes()
            else:
                for d in outer[:-1]:
                    loops.enter_context(self._loop(d, "parallel"))
                if outer:
                    loops.enter_context(self._loop(outer[-1], "vector"))
                self._stores(0)
        return close(self.scope, self.e, self.name, self.group)

    def _loop(self, d: int, kind: str) -> AbstractContextManager[None]:
        return self.e.for_(self.vars[d], index(0), index(self.group.dims[d]), kind)

    def _lane_tiles(self, loops: ExitStack) -> None:
        tile = self.e.fresh("tile")
        size = self.group.dims[-1]
        loops.enter_context(self.e.for_(tile, index(0), index(Dim.ceildiv(size, LANES)), "parallel"))
        self.lane_base = index(Dim.of(tile) * LANES)

    def _lane_loop(self) -> AbstractContextManager[None]:
        assert isinstance(self.lane_base, Index)
        stop = Dim.min(self.group.dims[-1], self.lane_base.dim + LANES)
        return self.e.for_(self.vars[-1], self.lane_base, index(stop), "vector")

    def _passes(self) -> None:
        for row, (dtype, size) in self.rows.items():
            self.e.emit(Alloc(row, dtype, size))
        last = max(self.stage.values())
        for self.current in range(last + 1):
            self._pass()

    def _pass(self) -> None:
        t = self.current
        reductions = [n for n in self.group.members if isinstance(n.op, ReduceOp) and self.stage[n.name] == t]
        kept = [n for n in self.group.members if self.stage[n.name] == t and n.name in self.scratch]
        full = [
            n
            for n in self.group.members
            if self.stage[n.name] == t
            and self.group.is_full(n.name)
            and not isinstance(n.op, ReduceOp)
            and n.name in self.stored
        ]
        if reductions or kept or full:
            running = {n.name: self._start(n) for n in reductions}
            self._row_loops(reductions, running)
            self._finish(reductions, running)
        self._between(t)

    def _row_loops(self, reductions: list[Node], running: dict[str, _Running]) -> None:
        with ExitStack() as loops:
            axes = list(self.group.axes)
            for d in axes[:-1]:
                loops.enter_context(self._loop(d, "serial"))
            argmax = any(r.position is not None for r in running.values())
            loops.enter_context(self._loop(axes[-1], "serial" if self.lanes or argmax else "vector"))
            if self.lanes:
                loops.enter_context(self._lane_loop())
            self.memo = {}
            for n in self.group.members:
                if n.name in self.scratch and self.stage[n.name] == self.current:
                    self.e.store(self.scratch[n.name], self._row_offset(), self._value(n.name))
            self._stores(self.current)
            for n in reductions:
                self._accumulate(n, running[n.name])
        self.memo = {}

    def _stores(self, stage: int) -> None:
        """Stores the full members of this pass that have buffers."""
        for n in self.group.members:
            if n.name in self.stored and self.stage[n.name] == stage and self.group.is_full(n.name):
                if not (isinstance(n.op, ReduceOp) and self.group.axes):
                    store(self.e, self.scope, n.name, self._position(n.name), self._value(n.name))

    def _between(self, t: int) -> None:
        """Values with one element a row, computed after the pass their inputs come from."""
        todo = [
            n
            for n in self.group.members
            if self.stage[n.name] == t and (isinstance(n.op, ReduceOp) or not self.group.is_full(n.name))
        ]
        if not todo:
            return
        with ExitStack() as loops:
            if self.lanes:
                loops.enter_context(self._lane_loop())
            self.memo = {}
            for n in todo:
                value = self._value(n.name) if isinstance(n.op, ReduceOp) else self._compute(n)
                if not isinstance(n.op, ReduceOp):
                    value = self._keep(n.name, value)
                if n.name in self.stored:
                    store(self.e, self.scope, n.name, self._position(n.name), value)
        self.memo = {}

    # -- values

    def _position(self, name: str) -> tuple[Expr, ...]:
        """Where the member's element of this iteration stands in its own shape."""
        return tuple(index(0) if d is None else index(self.vars[d]) for d in self.group.layout[name])

    def _here(self) -> tuple[Expr, ...]:
        return tuple(index(v) for v in self.vars)

    def _row_offset(self) -> Expr:
        axes = self.group.axes
        return linear_index(tuple(self.group.dims[d] for d in axes), tuple(index(self.vars[d]) for d in axes))

    def _read(self, name: str, position: tuple[Expr, ...]) -> Expr:
        if name in self.nodes:
            return self._value(name)
        return self.scope.load(name, position)

    def _value(self, name: str) -> Expr:
        """The member's element of this iteration."""
        if name not in self.memo:
            for first in self._missing(name):
                self.memo[first] = self._fetch(first)
        return self.memo[name]

    def _missing(self, name: str) -> list[str]:
        """The members that `name` is made of and that have no value yet, each after its own, `name` last.

        So that each finds its operands at hand: computing them on demand would nest as deep as the longest chain.
        """
        order: dict[str, None] = {}
        opened: set[str] = set()
        waiting = [name]
        while waiting:
            top = waiting[-1]
            if top in opened or top in self.memo:
                waiting.pop()
                if top in opened:
                    order.setdefault(top)
                continue
            opened.add(top)
            if not self._at_hand(top):
                inputs = (v for v in self.nodes[top].inputs if isinstance(v, str) and v in self.nodes)
                waiting += [v for v in inputs if v not in opened and v not in self.memo][::-1]
        return list(order)

    def _at_hand(self, name: str) -> bool:
        """Is it read from where an earlier pass has put it?"""
        earlier = bool(self.group.axes) and self.stage[name] < self.current
        return name in self.reduced or (earlier and (name in self.scratch or name in self.stored))

    def _fetch(self, name: str) -> Expr:
        if name in self.reduced:
            place = self.reduced[name]
            if not isinstance(place, str):
                return place
            lane = sub(index(self.vars[-1]), self.lane_base)
            return self.e.let(Load(place, lane, self.flow.types[name].dtype))
        node = self.nodes[name]
        if self.group.axes and self.stage[name] < self.current:
            if name in self.scratch:
                return self.e.let(Load(self.scratch[name], self._row_offset(), node.type.dtype))
            if name in self.stored:
                return self.e.let(self.scope.load(name, self._position(name)))
        return self._compute(node)

    def _compute(self, node: Node) -> Expr:
        self.e.op, self.e.span = node.op.title, node.statement.span
        if isinstance(node.op, ReduceOp):
            return self._reduce_nothing(node, node.op)
        return self.e.let(element(self.flow, node, self.e, self._position(node.name), self.inline, self._read))

    def _reduce_nothing(self, node: Node, op: ReduceOp) -> Expr:
        """A reduction over no axes: every element on its own."""
        if op.combiner in ("argmax", "argmin"):
            return const(0, DType.i64)
        source = operands(self.flow, node, self.inline, self.e.facts, self._read)[0]
        assert source is not None
        value = cast(op.before(self.e, source(*self._here())), op.accumulator(source.type.dtype))
        return self.e.let(cast(op.after(self.e, value, Dim.of(1), node.type.dtype), node.type.dtype))

    def _keep(self, name: str, value: Expr) -> Expr:
        """Makes a reduced value available to later passes."""
        if not self.lanes:
            self.reduced[name] = value
            self.memo[name] = value
            return value
        array = self.reduced[name]
        assert isinstance(array, str)
        self.e.store(array, sub(index(self.vars[-1]), self.lane_base), value)
        self.memo[name] = value
        return value

    # -- reductions

    def _start(self, node: Node) -> _Running:
        op = node.op
        assert isinstance(op, ReduceOp)
        source = self._source_type(node)
        arg = op.combiner in ("argmax", "argmin")
        dtype = source.compute if arg else op.accumulator(source)
        init = initial(
            "maximum" if op.combiner == "argmax" else "minimum" if op.combiner == "argmin" else op.combiner, dtype
        )
        return _Running(self._cell(dtype, init), self._cell(DType.i64, const(0, DType.i64)) if arg else None, dtype)

    def _cell(self, dtype: DType, init: Expr) -> Expr | str:
        if not self.lanes:
            return self.e.local(init)
        array = self.e.alloc(dtype, Dim.of(LANES))
        with self._lane_loop():
            self.e.store(array, sub(index(self.vars[-1]), self.lane_base), init)
        return array

    def _get(self, cell: Expr | str, dtype: DType) -> Expr:
        if isinstance(cell, str):
            return Load(cell, sub(index(self.vars[-1]), self.lane_base), dtype)
        return cell

    def _set(self, cell: Expr | str, value: Expr) -> None:
        if isinstance(cell, str):
            self.e.store(cell, sub(index(self.vars[-1]), self.lane_base), value)
        else:
            self.e.assign(cell, value)

    def _accumulate(self, node: Node, r: _Running) -> None:
        op = node.op
        assert isinstance(op, ReduceOp)
        source = operands(self.flow, node, self.inline, self.e.facts, self._read)[0]
        assert source is not None
        value = cast(op.before(self.e, source(*self._here())), r.dtype)
        if r.position is None:
            self._set(r.best, apply(op.combiner, self._get(r.best, r.dtype), value))
            return
        value = self.e.let(value)
        best = self._get(r.best, r.dtype)
        better = _better(op.combiner, value, best, self._get(r.position, DType.i64), self._row_offset())
        better = self.e.let(better)
        self._set(r.best, Select(better, value, best))
        self._set(r.position, Select(better, self._row_offset(), self._get(r.position, DType.i64)))

    def _finish(self, reductions: list[Node], running: dict[str, _Running]) -> None:
        if not reductions:
            return
        count = product(tuple(self.group.dims[d] for d in self.group.axes))
        if self.lanes:
            for n in self.group.members:
                reduced = isinstance(n.op, ReduceOp) or not self.group.is_full(n.name)
                if reduced and n.name not in self.reduced:
                    self.reduced[n.name] = self.e.alloc(n.type.dtype, Dim.of(LANES))
        with ExitStack() as loops:
            if self.lanes:
                loops.enter_context(self._lane_loop())
            for n in reductions:
                assert isinstance(n.op, ReduceOp)
                r = running[n.name]
                total = self._get(
                    r.position if r.position is not None else r.best, DType.i64 if r.position is not None else r.dtype
                )
                value = n.op.after(self.e, self._frozen(total), count, n.type.dtype)
                self._keep(n.name, self.e.let(cast(value, n.type.dtype)))
        self.memo = {}

    def _frozen(self, total: Expr) -> Expr:
        """A local's value now: it must not be read again after other assignments."""
        return self.e.let_copy(total) if isinstance(total, Name) else self.e.let(total)

    def _source_type(self, node: Node) -> DType:
        source = operands(self.flow, node, self.inline, self.e.facts, self._read)[0]
        assert source is not None
        return source.type.dtype

    # -- stages and costs

    def _stages(self) -> None:
        for n in self.group.members:
            stage = 0
            full = isinstance(n.op, ReduceOp) or self.group.is_full(n.name)
            for a in self.scope.fusion.reads[n.name]:
                if a.name in self.nodes:
                    after_row = isinstance(self.nodes[a.name].op, ReduceOp) or not self.group.is_full(a.name)
                    waits = self.group.axes and full and after_row
                    stage = max(stage, self.stage[a.name] + (1 if waits else 0))
            self.stage[n.name] = stage
        if self.group.axes and not self.lanes:
            self._choose_scratch()

    def _choose_scratch(self) -> None:
        cost: dict[str, int] = {}
        for n in self.group.members:
            if isinstance(n.op, ReduceOp) or not self.group.is_full(n.name):
                continue
            reads = [a.name for a in self.scope.fusion.reads[n.name] if a.name in cost and a.name not in self.scratch]
            cost[n.name] = self._own_cost(n) + sum(cost[r] for r in reads)
            later = any(
                self.stage[m.name] > self.stage[n.name]
                and any(a.name == n.name for a in self.scope.fusion.reads[m.name])
                for m in self.group.members
            )
            if later and cost[n.name] >= HEAVY and n.name not in self.stored:
                size = product(tuple(self.group.dims[d] for d in self.group.axes))
                self.scratch[n.name] = self.e.fresh("row")
                self.rows[self.scratch[n.name]] = (n.type.dtype, size)

    def _own_cost(self, node: Node) -> int:
        ctx = PureContext(self.scope.facts)
        expr = element(self.flow, node, ctx, self._position(node.name), self.inline, self.scope.load)
        return sum(cost_of(x) for x in walk_expr(expr)) + (HEAVY if ctx.impure else 0)


class _Running:
    """The accumulators of one reduction: a Local, or an array over lanes."""

    def __init__(self, best: Expr | str, position: Expr | str | None, dtype: DType) -> None:
        self.best = best
        self.position = position
        self.dtype = dtype


def _better(combiner: str, value: Expr, best: Expr, position: Expr, here: Expr) -> Expr:
    """Does `value` replace `best`?  The first of equals stays, and NaN wins, as in numpy."""
    wins = apply("gt" if combiner == "argmax" else "lt", value, best)
    if not value.dtype.is_float:
        return wins
    nan_first = apply("logical_and", apply("isnan", value), apply("logical_not", apply("isnan", best)))
    return apply("logical_or", wins, nan_first)


def initial(combiner: str, dtype: DType) -> Const:
    """The neutral element."""
    if combiner in ("add", "logical_or"):
        return const(0, dtype)
    if combiner in ("mul", "logical_and"):
        return const(1, dtype)
    low = combiner == "maximum"
    if dtype.is_float:
        return const(-math.inf if low else math.inf, dtype)
    if dtype.is_bool:
        return const(not low, dtype)
    bits = dtype.bits - (1 if dtype.is_signed else 0)
    return const((-(2**bits) if dtype.is_signed else 0) if low else 2**bits - 1, dtype)
