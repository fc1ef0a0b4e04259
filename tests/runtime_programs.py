"""Hand-written host programs with tiny kernels in LLVM IR, for the tests of the host code and the runtime."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from pliant.compiler.artifact_writer import build_artifact, describe, sealed
from pliant.compiler.codegen.host import emit_host
from pliant.compiler.codegen.llvm import compile_ir, resolve
from pliant.compiler.codegen.pool import pool_ir
from pliant.compiler.target import Target
from pliant.ir.diagnostics import Span
from pliant.ir.dims import Dim
from pliant.ir.facts import Compare, Fact
from pliant.ir.loops import (
    BindSymbol,
    Buffer,
    Check,
    CheckFact,
    Copy,
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
    contract = describe(program, code, host_target(), "test")
    objects = {"host": compiled(sealed(code, contract))}
    if kernels:
        objects["kernels"] = compiled(kernels)
    if pool:
        objects["pool"] = pool_object()
    extras = {"plan.json": b"{}"}
    return build_artifact(contract, objects, weights, consts or {}, extras)


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


def loop(name: str, arguments: str, body: str, after: str = "") -> str:
    """A kernel that runs `body` for every %i below %size; `after` stands behind the loop."""
    return f"""
define void @k.{name}(ptr %ctx, {arguments}, i64 %size) {{
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%i1, %body]
  %more = icmp slt i64 %i, %size
  br i1 %more, label %body, label %end
body:
{body}
  %i1 = add i64 %i, 1
  br label %head
end:
{after}
  ret void
}}
"""


def element(name: str, array: str, type_: str = "float") -> str:
    """Loads `array[i]` into %name; %p<name> is its address."""
    return f"  %p{name} = getelementptr {type_}, ptr %{array}, i64 %i\n  %{name} = load {type_}, ptr %p{name}\n"


def buffers(*specs: tuple[str, str, str]) -> tuple[Buffer, ...]:
    """Buffers (name, dtype, mode) of `size` elements."""
    return tuple(Buffer(name, DType(dtype), Dim.of("size"), mode) for name, dtype, mode in specs)


def kernel(name: str, *specs: tuple[str, str, str], **rest: Any) -> Kernel:
    return Kernel(name, buffers(*specs), ("size",), (), **rest)


# total[i] = a0[i] + a1[i] + ... for `count` arrays
def sum_ir(count: int) -> str:
    names = [f"a{i}" for i in range(count)]
    body = "".join(element(f"v{i}", name) for i, name in enumerate(names))
    total = "%v0"
    for i in range(1, count):
        body += f"  %s{i} = fadd float {total}, %v{i}\n"
        total = f"%s{i}"
    body += f"  %py = getelementptr float, ptr %y, i64 %i\n  store float {total}, ptr %py\n"
    return loop("sum", ", ".join(f"ptr %{n}" for n in [*names, "y"]), body)


def sum_of(count: int) -> Program:
    """@main(a0: f32[n], a1: f32[n], ...) -> f32[n], their sum."""
    params = tuple(tensor(f"a{i}", "f32", "n") for i in range(count))
    specs = [(p.name, "f32", "in") for p in params]
    launch = Launch("sum", (*(Ref("param", p.name) for p in params), Ref("output", "y")), (Dim.of("n"),))
    steps = (bind("n", "a0.0", "a0: f32[n]"),)
    return single(params, (tensor("y", "f32", "n"),), steps, (launch,), (kernel("sum", *specs, ("y", "f32", "out")),))


def doubled_twice() -> Program:
    """@main(x: f32[n]) -> f32[n], x + 2 by way of two places in the arena."""
    x, y = tensor("x", "f32", "n"), tensor("y", "f32", "n")
    n, room = Dim.of("n"), Dim.ceildiv(Dim.of("n") * 4, 64) * 64
    first, second = Ref("arena", "first"), Ref("arena", "second", room)
    launches = (
        Launch("add_one", (Ref("param", "x"), first), (n,)),
        Launch("add_one", (first, second), (n,)),
        Copy(second, Ref("output", "y"), n * 4),
    )
    return single((x,), (y,), (bind("n", "x.0", "x: f32[n]"),), launches, (add_one_kernel(),), arena=2 * room)


# Runs chunks on the pool; each writes its scratch, waits a little, and adds what it finds there to its element.
SCRATCH = """
define internal void @chunk(ptr %arg, i64 %chunk, i64 %worker) {
entry:
  %ctx = load ptr, ptr %arg
  %yp = getelementptr ptr, ptr %arg, i64 1
  %y = load ptr, ptr %yp
  %bp = getelementptr i64, ptr %ctx, i64 3
  %base = load ptr, ptr %bp
  %sp = getelementptr i64, ptr %ctx, i64 4
  %stride = load i64, ptr %sp
  %off = mul i64 %stride, %worker
  %mine = getelementptr i8, ptr %base, i64 %off
  store volatile i64 %chunk, ptr %mine
  br label %spin
spin:
  %i = phi i64 [0, %entry], [%i1, %spin]
  %i1 = add i64 %i, 1
  %v = load volatile i64, ptr %mine
  %more = icmp slt i64 %i1, 300
  br i1 %more, label %spin, label %end
end:
  %p = getelementptr i64, ptr %y, i64 %chunk
  store i64 %v, ptr %p
  ret void
}
define void @k.scratch(ptr %ctx, ptr noalias %y, i64 %size) {
  %arg = alloca [2 x ptr]
  store ptr %ctx, ptr %arg
  %a1 = getelementptr ptr, ptr %arg, i64 1
  store ptr %y, ptr %a1
  %run = load ptr, ptr %ctx
  %pp = getelementptr i64, ptr %ctx, i64 1
  %pool = load ptr, ptr %pp
  call void %run(ptr %pool, ptr @chunk, ptr %arg, i64 %size)
  ret void
}
"""


def scratch() -> Program:
    """@main(x: f32[n]) -> i64[n], 0 1 2 ... computed in parallel through each worker's scratch."""
    n = Dim.of("n")
    launch = Launch("scratch", (Ref("output", "y"),), (n,))
    outputs = (tensor("y", "i64", "n"),)
    which = kernel("scratch", ("y", "i64", "out"))
    return single((tensor("x", "f32", "n"),), outputs, (bind("n", "x.0", "x: f32[n]"),), (launch,), (which,), scratch=8)


# y[i] = x[index[i]]; records check 1 of kernel 0 where the index is out of range
TAKE = loop(
    "take",
    "ptr %x, ptr %index, ptr %y",
    element("j", "index", "i64")
    + """  %low = icmp sge i64 %j, 0
  %high = icmp slt i64 %j, %size
  %fine = and i1 %low, %high
  %safe = select i1 %fine, i64 %j, i64 0
  %px = getelementptr float, ptr %x, i64 %safe
  %v = load float, ptr %px
  %py = getelementptr float, ptr %y, i64 %i
  store float %v, ptr %py
  %pe = getelementptr i64, ptr %ctx, i64 5
  %old = load i64, ptr %pe
  %new = select i1 %fine, i64 %old, i64 2
  store i64 %new, ptr %pe
  %pv = getelementptr i64, ptr %ctx, i64 6
  store i64 %j, ptr %pv
""",
)


def take() -> Program:
    """@main(x: f32[n], index: i64[n]) -> f32[n], with a check of the indices."""
    checks = (Check("not this one"), Check("index {value} is out of range for n = {n} {odd}", "take", span(5, 9)))
    which = kernel("take", ("x", "f32", "in"), ("index", "i64", "in"), ("y", "f32", "out"), checks=checks)
    params = (tensor("x", "f32", "n"), tensor("index", "i64", "n"))
    launch = Launch("take", (Ref("param", "x"), Ref("param", "index"), Ref("output", "y")), (Dim.of("n"),))
    return single(params, (tensor("y", "f32", "n"),), (bind("n", "x.0", "x: f32[n]"),), (launch,), (which,))


# y[i] = packed[i] * x[0] and, at load, packed[i] = up[i] + up[i]
SCALE = loop(
    "scale",
    "ptr %p, ptr %x, ptr %y",
    element("a", "p")
    + "  %b = load float, ptr %x\n  %c = fmul float %a, %b\n"
    + "  %py = getelementptr float, ptr %y, i64 %i\n  store float %c, ptr %py\n",
)
PACK = loop(
    "pack",
    "ptr %up, ptr %packed",
    element("a", "up")
    + "  %b = fadd float %a, %a\n  %pq = getelementptr float, ptr %packed, i64 %i\n  store float %b, ptr %pq\n",
)


def weighted() -> Program:
    """weight @up: f32[h, 2*k]; const bias: f32[]; @main(x: f32[]) -> (f32[h, 2*k], f32[]), (2*up * x, bias)."""
    h, k = Dim.of("h"), Dim.of("k")
    size = h * k * 2
    up, bias = tensor("up", "f32", h, 2 * k), tensor("bias", "f32")
    origin = "@up: f32[h, 2*k]"
    steps = (bind("h", "up.0", origin), bind("k", "up.1", origin, divisor=2), fact(Compare("==", h % 2, 0)))
    packed = tensor("panels", "f32", h, 2 * k)
    pack = Launch("pack", (Ref("weight", "up"), Ref("packed", "panels")), (size,))
    load = HostProgram("load", (up,), (packed,), (Result("panels"),), (), steps, (pack,), Dim.of(0))
    scale = Launch("scale", (Ref("packed", "panels"), Ref("param", "x"), Ref("output", "y")), (size,))
    main = HostProgram(
        "main",
        (tensor("x", "f32"),),
        (tensor("y", "f32", h, 2 * k), tensor("z", "f32")),
        (Result((Result("y"), Result("z"))),),
        ("h", "k"),
        (),
        (scale, Copy(Ref("const", "bias"), Ref("output", "z"), Dim.of(4))),
        Dim.of(0),
    )
    pack_kernel = kernel("pack", ("up", "f32", "in"), ("packed", "f32", "out"))
    scale_kernel = Kernel(
        "scale",
        (
            Buffer("p", DType.f32, Dim.of("size"), "in"),
            Buffer("x", DType.f32, Dim.of(1), "in"),
            Buffer("y", DType.f32, Dim.of("size"), "out"),
        ),
        ("size",),
        (),
    )
    return Program((up,), (bias,), (pack_kernel, scale_kernel), load, (main,))


def weighted_artifact(weights: Mapping[str, Any] | None = None) -> Artifact:
    return build(weighted(), SCALE + PACK, weights, {"bias": np.float32(7)})
