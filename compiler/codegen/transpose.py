"""Packing of a transposed operand: square blocks are turned on their side in vector registers.

n vectors of n elements become their transpose by log2(n) perfect shuffles: each step interleaves vector i with vector
i + n/2 (H. Stone, "Parallel processing with the perfect shuffle", 1971).
"""

from __future__ import annotations

from ...ir.loops import Transpose
from .kernel_builder import FunctionBuilder, ModuleBuilder, memory_type
from .kernel_expr import ExprEmitter
from .kernel_scope import Scope


def emit_transpose(f: FunctionBuilder, expr: ExprEmitter, scope: Scope, stmt: Transpose) -> None:
    """Calls the function for the panel's width and type."""
    source = expr.address(scope.buffers[stmt.source], stmt.source_offset, scope)
    target = expr.address(scope.buffers[stmt.target], stmt.target_offset, scope)
    stride, length = expr.integer(stmt.source_row, scope), expr.integer(stmt.length, scope)
    name = f"pl.transpose.{stmt.dtype}.{stmt.width}"
    if name not in f.module.helpers:
        f.module.helpers[name] = _define(f.module, name, stmt)
    f.line(f"call void @{name}(ptr {source}, i64 {stride.text}, ptr {target}, i64 {length.text})")


def _define(module: ModuleBuilder, name: str, stmt: Transpose) -> str:
    f, type_, width = FunctionBuilder(module), memory_type(stmt.dtype), stmt.width
    # Narrow elements take part of a vector: their squares would be many shuffles, and few of them full.
    lanes = min(module.target.vector_bytes // max(stmt.dtype.bytes, 4), width)
    rows = [f.let(f"getelementptr {type_}, ptr %source, i64 {f.let(f'mul i64 %stride, {j}')}") for j in range(width)]
    whole = f.let(f"and i64 %length, {-lanes}")

    def block(i: str) -> None:
        for first in range(0, width, lanes):
            vectors = []
            for row in rows[first : first + lanes]:
                pointer = f.let(f"getelementptr {type_}, ptr {row}, i64 {i}")
                vectors.append(f.let(f"load <{lanes} x {type_}>, ptr {pointer}, align {stmt.dtype.bytes}"))
            start = f.let(f"getelementptr {type_}, ptr %target, i64 {f.let(f'mul i64 {i}, {width}')}")
            for down, vector in enumerate(_turned(f, vectors, lanes, type_)):
                pointer = f.let(f"getelementptr {type_}, ptr {start}, i64 {down * width + first}")
                f.line(f"store <{lanes} x {type_}> {vector}, ptr {pointer}, align {stmt.dtype.bytes}")

    def single(i: str) -> None:
        start = f.let(f"getelementptr {type_}, ptr %target, i64 {f.let(f'mul i64 {i}, {width}')}")
        for j, row in enumerate(rows):
            value = f.let(f"load {type_}, ptr {f.let(f'getelementptr {type_}, ptr {row}, i64 {i}')}")
            f.line(f"store {type_} {value}, ptr {f.let(f'getelementptr {type_}, ptr {start}, i64 {j}')}")

    for begin, end, step, body in (("0", whole, lanes, block), (whole, "%length", 1, single)):
        inside, after, before = f.name("loop"), f.name("after"), f.block
        f.branch(f.let(f"icmp slt i64 {begin}, {end}"), inside, after)
        f.start(inside)
        i, following = f"%{f.name('i')}", f"%{f.name('i')}"
        f.line(f"{i} = phi i64 [ {begin}, %{before} ], [ {following}, %{inside} ]")
        body(i)
        f.line(f"{following} = add nuw nsw i64 {i}, {step}")
        f.branch(f.let(f"icmp slt i64 {following}, {end}"), inside, after)
        f.start(after)
    f.line("ret void")
    parameters = "ptr noalias readonly %source, i64 %stride, ptr noalias %target, i64 %length"
    return f.define(f"define internal void @{name}({parameters}) #1")


def _turned(f: FunctionBuilder, vectors: list[str], lanes: int, type_: str) -> list[str]:
    """The transpose of a square of vectors."""
    half = lanes // 2
    vector = f"<{lanes} x {type_}>"
    masks = []
    for start in (0, half):
        picked = ", ".join(f"i32 {start + p // 2 + (lanes if p % 2 else 0)}" for p in range(lanes))
        masks.append(f"<{lanes} x i32> <{picked}>")
    for _ in range(lanes.bit_length() - 1):
        pairs = [(vectors[i], vectors[i + half]) for i in range(half)]
        vectors = [f.let(f"shufflevector {vector} {a}, {vector} {b}, {m}") for a, b in pairs for m in masks]
    return vectors
