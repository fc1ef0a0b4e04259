"""Micro-kernels: small dense tiles c (+)= a * b held in vector registers, written as explicit vectors.

One internal function for each number of rows and width, shared by all contractions of a module; a `Micro` statement
calls the one for its rows.  The sum over k runs in one loop, unrolled; with few rows it is split over several sets of
accumulators, since one set would wait for the latency of the multiply-add.  The layout (A broadcast, B a panel as wide
as a few vectors) is that of K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication", 2008.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.loops import Micro
from ...ir.types import DType
from ...passes.loops.packing import micro_rows
from .kernel_builder import FunctionBuilder, ModuleBuilder, memory_type, register_type
from .kernel_convert import convert
from .kernel_expr import ExprEmitter
from .kernel_scope import Scope

MIN_CHAINS = 8  # independent accumulators that keep two multiply-add units of latency 4 busy
UNROLL = 4


def emit_micro(f: FunctionBuilder, expr: ExprEmitter, scope: Scope, stmt: Micro) -> None:
    """Calls the micro-kernel for the tile's number of rows."""
    arguments = []
    for name, offset in ((stmt.a, stmt.a_offset), (stmt.b, stmt.b_offset), (stmt.c, stmt.c_offset)):
        arguments.append(f"ptr {expr.address(scope.buffers[name], offset, scope)}")
    for e in (stmt.a_row, stmt.b_row, stmt.c_row, stmt.inner):
        arguments.append(f"i64 {expr.integer(e, scope).text}")
    column = expr.integer(stmt.a_col, scope)
    unit = column.constant == 1
    arguments.append(f"i64 {column.text}")
    arguments.append(convert(f, expr.emit(stmt.accumulate, scope), DType.bool).typed)
    joined = ", ".join(arguments)
    rows = expr.integer(stmt.rows, scope)
    limit = micro_rows(f.module.target.vector_bytes)
    if rows.constant is not None:
        f.line(f"call void {_kernel(f.module, Shape(rows.constant, stmt.width, stmt.dtype, unit))}({joined})")
        return
    end = f.name("tiled")
    labels = {n: f.name(f"rows{n}") for n in range(1, limit + 1)}
    cases = " ".join(f"i64 {n}, label %{label}" for n, label in labels.items())
    f.line(f"switch i64 {rows.text}, label %{end} [ {cases} ]")
    for n, label in labels.items():
        f.start(label)
        f.line(f"call void {_kernel(f.module, Shape(n, stmt.width, stmt.dtype, unit))}({joined})")
        f.jump(end)
    f.start(end)


def _as_written(module: ModuleBuilder) -> str:
    """Metadata of a loop that is to be left alone: it is in vectors and unrolled already."""
    unroll, vectorized = module.meta('!{!"llvm.loop.unroll.disable"}'), module.meta('!{!"llvm.loop.isvectorized"}')
    return module.meta("!{{self}, " + f"{unroll}, {vectorized}}}", distinct=True)


@dataclass(frozen=True)
class Shape:
    """What a micro-kernel is compiled for; `unit`: the columns of A are adjacent."""

    rows: int
    width: int
    dtype: DType
    unit: bool

    @property
    def name(self) -> str:
        return f"pl.micro.{self.dtype}.{self.rows}x{self.width}{'' if self.unit else '.strided'}"


def _kernel(module: ModuleBuilder, shape: Shape) -> str:
    if shape.name not in module.helpers:
        module.helpers[shape.name] = _MicroEmitter(FunctionBuilder(module), shape).emit()
    return f"@{shape.name}"


@dataclass
class _MicroEmitter:
    f: FunctionBuilder
    shape: Shape

    @property
    def lanes(self) -> int:
        return min(self.f.module.target.vector_bytes // self.shape.dtype.bytes, self.shape.width)

    @property
    def vectors(self) -> int:
        return self.shape.width // self.lanes

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {register_type(self.shape.dtype)}>"

    def emit(self) -> str:
        f, chains = self.f, self.shape.rows * self.vectors
        sets = max(1, min(UNROLL, MIN_CHAINS // chains))
        step = max(UNROLL, sets)
        rows = self._rows("%a", "%a_row")
        main = f.let(f"and i64 %inner, {-step}")
        zeros = ["zeroinitializer"] * chains
        split = self._loop("0", main, step, sets, [z for z in zeros for _ in range(sets)], rows)
        sums = [self._total(split[i * sets : (i + 1) * sets]) for i in range(chains)]
        sums = self._loop(main, "%inner", 1, 1, sums, rows)
        self._finish(sums)
        parameters = "ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %c, i64 %a_row, i64 %b_row, "
        parameters += "i64 %c_row, i64 %inner, i64 %a_col, i1 %accumulate"
        return f.define(f"define internal void @{self.shape.name}({parameters}) #1")

    def _rows(self, base: str, stride: str) -> list[str]:
        pointers = [base]
        for i in range(1, self.shape.rows):
            offset = self.f.let(f"mul i64 {stride}, {i}")
            pointers.append(self._at(base, offset))
        return pointers

    def _at(self, base: str, offset: str | int) -> str:
        return self.f.let(f"getelementptr inbounds {memory_type(self.shape.dtype)}, ptr {base}, i64 {offset}")

    def _loop(self, start: str, stop: str, step: int, sets: int, initial: list[str], rows: list[str]) -> list[str]:
        """k from start to stop by `step`; returns the accumulators afterwards, in the order of `initial`."""
        f = self.f
        body, end, before = f.name("k"), f.name("kend"), f.block
        f.branch(f.let(f"icmp slt i64 {start}, {stop}"), body, end)
        f.start(body)
        k, following = f"%{f.name('k')}", f"%{f.name('k')}"
        current = [f"%{f.name('acc')}" for _ in initial]
        carried = list(current)
        phis = len(f.lines)
        for u in range(step):
            at = k if u == 0 else f.let(f"add nuw nsw i64 {k}, {u}")
            self._step(at, u % sets, sets, current, rows)
        f.line(f"{following} = add nuw nsw i64 {k}, {step}")
        heads = [f"  {k} = phi i64 [ {start}, %{before} ], [ {following}, %{body} ]"]
        for name, first, last in zip(carried, initial, current, strict=True):
            heads.append(f"  {name} = phi {self.vector} [ {first}, %{before} ], [ {last}, %{body} ]")
        f.lines[phis:phis] = heads
        f.branch(f.let(f"icmp slt i64 {following}, {stop}"), body, end, f", !llvm.loop {_as_written(f.module)}")
        f.start(end)
        return [
            f.let(f"phi {self.vector} [ {first}, %{before} ], [ {last}, %{body} ]")
            for first, last in zip(initial, current, strict=True)
        ]

    def _step(self, k: str, part: int, sets: int, sums: list[str], rows: list[str]) -> None:
        """One k: the panel's row times each element of A's column, into accumulator set `part`."""
        f, bytes_ = self.f, self.shape.dtype.bytes
        row = self._at("%b", f.let(f"mul nsw i64 {k}, %b_row"))
        panel = []
        for j in range(self.vectors):
            panel.append(f.let(f"load {self.vector}, ptr {self._at(row, j * self.lanes)}, align {bytes_}"))
        column = k if self.shape.unit else f.let(f"mul nsw i64 {k}, %a_col")
        for i, pointer in enumerate(rows):
            element = f.let(f"load {register_type(self.shape.dtype)}, ptr {self._at(pointer, column)}, align {bytes_}")
            spread = self._splat(element)
            for j in range(self.vectors):
                slot = (i * self.vectors + j) * sets + part
                sums[slot] = self._multiply_add(spread, panel[j], sums[slot])

    def _splat(self, element: str) -> str:
        f = self.f
        single = f.let(f"insertelement {self.vector} poison, {register_type(self.shape.dtype)} {element}, i32 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return f.let(f"shufflevector {self.vector} {single}, {self.vector} poison, {zeros}")

    def _multiply_add(self, a: str, b: str, c: str) -> str:
        f, v = self.f, self.vector
        if self.shape.dtype.is_int:
            return f.let(f"add {v} {c}, {f.let(f'mul {v} {a}, {b}')}")
        if not f.module.target.fma:
            return f.let(f"fadd {v} {c}, {f.let(f'fmul {v} {a}, {b}')}")
        suffix = f"v{self.lanes}{'f64' if self.shape.dtype is DType.f64 else 'f32'}"
        return f.intrinsic(f"fma.{suffix}", v, (f"{v} {a}", f"{v} {b}", f"{v} {c}"))

    def _add(self, a: str, b: str) -> str:
        return self.f.let(f"{'add' if self.shape.dtype.is_int else 'fadd'} {self.vector} {a}, {b}")

    def _total(self, parts: list[str]) -> str:
        while len(parts) > 1:
            parts = [self._add(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def _finish(self, sums: list[str]) -> None:
        f, bytes_ = self.f, self.shape.dtype.bytes
        rows = self._rows("%c", "%c_row")
        slots = [self._at(p, j * self.lanes) for p in rows for j in range(self.vectors)]
        add, store = f.name("add"), f.name("store")
        f.branch("%accumulate", add, store)
        for label, accumulate in ((add, True), (store, False)):
            f.start(label)
            for slot, value in zip(slots, sums, strict=True):
                if accumulate:
                    value = self._add(f.let(f"load {self.vector}, ptr {slot}, align {bytes_}"), value)
                f.line(f"store {self.vector} {value}, ptr {slot}, align {bytes_}")
            f.line("ret void")
