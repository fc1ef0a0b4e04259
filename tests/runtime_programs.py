"""Hand-written host programs with tiny kernels in LLVM IR, for the tests of the host code and the runtime."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from pliant.compiler.artifact_writer import build_artifact
from pliant.compiler.codegen.host import emit_host
from pliant.compiler.codegen.llvm import compile_ir, resolve
from pliant.compiler.codegen.pool import pool_ir
from pliant.compiler.target import Target
from pliant.ir.diagnostics import Span
from pliant.ir.dims import Dim
from pliant.ir.facts import Fact
from pliant.ir.loops import (
    BindSymbol,
    Buffer,
    CheckFact,
    HostProgram,
    HostStep,
    HostTensor,
    Kernel,
    Launch,
    Program,
    Ref,
    Result,
)
from pliant.ir.types import DType
from pliant.runtime import Artifact, Executable


def span(line: int, column: int = 1) -> Span:
    return Span("test.ir", line, column, line, column + 1)


def tensor(name: str, dtype: str, *dims: int | str | Dim, inout: bool = False) -> HostTensor:
    return HostTensor(name, DType(dtype), tuple(Dim.of(d) for d in dims), inout)


def bind(symbol: str, slot: str | Dim, origin: str, line: int = 1, divisor: int | Dim = 1) -> BindSymbol:
    return BindSymbol(symbol, Dim.of(slot), Dim.of(divisor), origin, span(line))


def fact(which: Fact, line: int = 2) -> CheckFact:
    return CheckFact(which, str(which), span(line))


@cache
def host_target() -> Target:
    return resolve(Target.parse("cpu"))


@cache
def pool_object() -> bytes:
    return compile_ir(pool_ir("x86_64"), host_target())


@cache
def compiled(ir_text: str) -> bytes:
    return compile_ir(ir_text, host_target())


def build(
    program: Program,
    kernels: str = "",
    weights: Mapping[str, Any] | None = None,
    consts: Mapping[str, Any] | None = None,
    pool: bool = True,
) -> Artifact:
    """The artifact of a program whose kernels are given as LLVM IR."""
    code = emit_host(program)
    objects = {"host": compiled(code.ir_text)}
    if kernels:
        objects["kernels"] = compiled(kernels)
    if pool:
        objects["pool"] = pool_object()
    extras = {"plan.json": b"{}"}
    return build_artifact(program, code, objects, weights, consts or {}, host_target(), extras, "test")


def executable(program: Program, kernels: str = "", **rest: Any) -> Executable:
    return Executable(build(program, kernels, **rest))


def single(
    params: tuple[HostTensor, ...],
    outputs: tuple[HostTensor, ...],
    steps: tuple[HostStep, ...],
    launches: tuple[Any, ...],
    kernels: tuple[Kernel, ...] = (),
    arena: Dim | int = 0,
    **rest: Any,
) -> Program:
    """A program of one function @main, whose results are its outputs."""
    results = tuple(Result(t.name) for t in outputs)
    one = len(outputs) == 1
    scratch = Dim.of(rest.pop("scratch", 0))
    main = HostProgram("main", params, outputs, results, (), steps, launches, Dim.of(arena), scratch, one)
    return Program((), (), kernels, None, (main,))


# y[i] = x[i] + 1 for i < size; written as a plain loop
ADD_ONE = """
define void @k.add_one(ptr %ctx, ptr noalias %x, ptr noalias %y, i64 %size) {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%i1, %body]
  %more = icmp slt i64 %i, %size
  br i1 %more, label %body, label %end
body:
  %px = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %px
  %w = fadd float %v, 1.0
  %py = getelementptr float, ptr %y, i64 %i
  store float %w, ptr %py
  %i1 = add i64 %i, 1
  br label %head
end:
  ret void
}
"""


def add_one_kernel() -> Kernel:
    n = Dim.of("size")
    return Kernel(
        "add_one", (Buffer("x", DType.f32, n, "in"), Buffer("y", DType.f32, n, "out")), ("size",), (), origin="add"
    )


def add_one(*facts: Fact, columns: int = 4) -> Program:
    """@main(x: f32[n, columns]) -> f32[n, columns], x + 1."""
    x, y = tensor("x", "f32", "n", columns), tensor("y", "f32", "n", columns)
    steps = (bind("n", "x.0", f"x: f32[n, {columns}]"), *(fact(f) for f in facts))
    launch = Launch("add_one", (Ref("param", "x"), Ref("output", "y")), (Dim.of("n") * columns,))
    return single((x,), (y,), steps, (launch,), (add_one_kernel(),))


def rows(n: int, columns: int = 4) -> np.ndarray[Any, Any]:
    return np.arange(n * columns, dtype=np.float32).reshape(n, columns)
