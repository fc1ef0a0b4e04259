"""Loops as text: reading back what was printed gives the same program, at every stage."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.compiler.pipeline import graph_pipeline, run_loop_passes
from pliant.compiler.target import Target
from pliant.ir.diagnostics import CompileError
from pliant.ir.dims import Dim
from pliant.ir.facts import Compare, InRange
from pliant.ir.loops import (
    Alloc,
    Apply,
    Assign,
    BindSymbol,
    Buffer,
    Cast,
    Check,
    CheckEqual,
    CheckFact,
    Const,
    Contract,
    Copy,
    Expr,
    For,
    HostProgram,
    HostTensor,
    If,
    Index,
    Kernel,
    Launch,
    Let,
    Load,
    Local,
    Micro,
    Name,
    Program,
    Ref,
    Require,
    Result,
    Select,
    Store,
    While,
)
from pliant.ir.op import Op
from pliant.ir.parser_loops import parse_program
from pliant.ir.printer_loops import print_program
from pliant.ir.registry import registry
from pliant.ir.types import DType
from pliant.passes.lower import lower
from pliant.passes.pass_base import run_passes
from tests.op_harness import sample_module

n, i = Dim.of("n"), Index(Dim.of("i"))
f32, i64 = DType.f32, DType.i64


def round_trip(program: Program) -> str:
    text = print_program(program)
    assert parse_program(text) == program, text
    assert print_program(parse_program(text)) == text
    return text


def kernel(*body: object, **more: object) -> Program:
    buffers = (
        Buffer("x", f32, n, "in"),
        Buffer("weight", DType.f16, 2 * n, "out", "x"),
        Buffer("h.0", i64, n, "inout"),
    )
    made = Kernel("main.0.f", buffers, ("n",), body, **more)  # type: ignore[arg-type]
    return Program((), (), (made,), None, ())


EXPRESSIONS: list[Expr] = [
    *(Const(v, d) for v in (0.0, -0.0, 1.5, math.inf, -math.inf, math.nan) for d in (f32, DType.f64, DType.bf16)),
    *(Const(v, d) for v in (0, 3, -7) for d in (i64, DType.i8)),
    Const(True, DType.bool),
    Const(False, DType.bool),
    Index(Dim.of(0)),
    Index(-(n // 2) + Dim.min(n, 3) % 2),
    Index(Dim.of("v")),
    Name("v", i64),
    Name("v", f32),
    Name("unknown", f32),
    Load("x", Index(2 * n - 1), f32),
    Load("x", Name("v", i64), f32),
    Load("x", Load("h.0", i, i64), f32),
    Load("x", i, DType.f64),
    Load("unknown", i, f32),
    Apply("add", (Name("a", f32), Const(1.0, f32)), f32),
    Apply("lt", (i, Index(n)), DType.bool),
    Apply("lt", (i, Index(n)), i64),
    Apply("min", (i, Index(n)), i64),
    Apply("min", (Const(1.0, f32), Const(2.0, f32)), f32),
    Apply("select", (i, i, i), i64),
    Apply("random", (), f32),
    Cast(i, f32),
    Cast(Const(2.5, f32), i64),
    Cast(Const(True, DType.bool), f32),
    Select(Apply("isnan", (Const(1.0, f32),), DType.bool), i, Index(n)),
]


@pytest.mark.parametrize("node", EXPRESSIONS, ids=repr)
def test_every_expression(node: Expr) -> None:
    round_trip(kernel(Let("v", node), Store("weight", node, node), Let("w", Name("v", node.dtype))))


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> Expr:
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(EXPRESSIONS))
    part = expressions(depth - 1)
    kind = draw(st.sampled_from(["apply", "cast", "select", "load"]))
    if kind == "apply":
        fn = draw(st.sampled_from(["add", "lt", "max", "ceildiv", "isnan", "exp2", "select"]))
        return Apply(fn, tuple(draw(st.lists(part, max_size=3))), draw(st.sampled_from(list(DType))))
    if kind == "cast":
        return Cast(draw(part), draw(st.sampled_from(list(DType))))
    if kind == "load":
        return Load(draw(st.sampled_from(["x", "h.0"])), draw(part), draw(st.sampled_from([f32, i64])))
    return Select(draw(part), draw(part), draw(part))


@given(expressions())
@settings(max_examples=200)
def test_nested_expressions(node: Expr) -> None:
    round_trip(kernel(Let("a", Const(1.0, f32)), Let("v", node), Store("weight", i, Name("v", node.dtype))))


def test_every_statement() -> None:
    v = Name("v", f32)
    one = Const(1.0, f32)
    true = Const(True, DType.bool)
    body = (
        Local("v", one),
        Alloc("row", DType.f64, 4 * n),
        For("i", Index(Dim.of(0)), Index(n), (Assign("v", Apply("add", (v, one), f32)), Store("row", i, v)), "vector"),
        For("v", i, Index(n), (Store("row", Index(Dim.of("v")), one),), "parallel"),
        For("j", Load("h.0", i, i64), Index(n), (), "serial"),
        If(true, (Store("weight", i, v),), (Assign("v", one), If(true, ()))),
        While(Apply("lt", (v, one), DType.bool), (Assign("v", one),)),
        Require(true, 1),
        Require(true, 0, i),
        Require(true, 0, Apply("add", (Load("y", i, i64), Const(1, i64)), i64)),
        Contract("m", "k", "v", n, Dim.of(4), 2 * n, "acc", f32, Load("x", i, f32), one, (Let("z", Name("acc", f32)),)),
        Micro(
            Index(Dim.of(6)), 16, Index(n), "x", i, i, Index(Dim.of(1)), "weight", i, i, "row", i, i, true, f32
        ),
        Store("weight", i, v),
    )  # fmt: skip
    facts = (InRange(n, 0, 1024), InRange(n, 1), Compare("==", n % 8, 0))
    checks = (Check('an "index" {n}\n', "take"), Check("no op"))
    text = round_trip(kernel(*body, facts=facts, checks=checks, origin="add, mul"))
    assert "    for i in 0..n vector {\n        v = add(v, 1.0)\n" in text
    assert "`weight`[i] = v" in text


def test_host_programs() -> None:
    x, arena = Ref("param", "x"), Ref("arena", "b", 64 * n)
    tensor = HostTensor("x", f32, (n, Dim.of(4)))
    host = HostProgram(
        "main",
        (tensor, HostTensor("cache.0.1", DType.bf16, (), True)),
        (HostTensor("result.0", f32, (n,)),),
        (Result("result.0"), Result((Result("result.0"),)), Result((Result("result.0"), Result(())))),
        ("h", "k"),
        (
            BindSymbol("n", Dim.of("x.0") - 1, Dim.of(2), 'x: f32[2*n + 1, "4"]'),
            CheckEqual(Dim.of("x.1"), Dim.of(4), ""),
            CheckFact(Compare("<=", n, 9), "n <= 9"),
        ),
        (Launch("main.0.f", (x, arena), (n, 2 * n)), Copy(arena, x, 4 * n), Launch("main.0.f", (), ())),
        64 * n,
        Dim.of(128),
        False,
    )
    load = HostProgram("load", (), (), (), (), (), (), Dim.of(0))
    round_trip(Program((tensor,), (tensor,), (), load, (host, load)))
    round_trip(Program((), (), (), None, ()))


GRAPH = """
weight @up: f32[h, 4*h] where h % 16 == 0
func @main(x: f32[n, h], i: i64[m], inout c: f32[n, 4*h], p: (f32[n], f32[])) -> f32[n, 4*h], (f32[m, 4*h], f32[n])
    where n in 0..1024
{
    a = matmul(x, @up)
    b = gelu(a)
    s = softmax(b, axis=-1)
    t = take(s, i, axis=0)
    u = add(b, c)
    update c = u
    q = p.0
    r = cumsum(q, axis=0)
    return s, (t, r)
}
"""


@pytest.mark.parametrize("target", [Target("cpu", vector_bytes=16), Target("cpu", vector_bytes=64)], ids=["16", "64"])
def test_lowered_programs_at_every_stage(target: Target) -> None:
    from pliant.ir.parser import parse_module

    text = GRAPH if "cumsum" in registry() else GRAPH.replace("cumsum(q, axis=0)", "exp(q)")
    module = run_passes(graph_pipeline(), parse_module(text))
    program = lower(module, target.vector_bytes).program
    round_trip(program)
    round_trip(run_loop_passes(program, target))


@pytest.mark.parametrize("cls", registry().values(), ids=lambda cls: cls.name)
def test_the_loops_of_every_operator(cls: type[Op]) -> None:
    target = Target("cpu", vector_bytes=32)
    module = run_passes(graph_pipeline(), sample_module(list(cls.samples())[:1]))
    program = lower(module, target.vector_bytes).program
    round_trip(program)
    round_trip(run_loop_passes(program, target))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel @k() {}", "expected `;`, `in`, `inout` or `out`, found `)`"),
        ("kernel @k(; ) { let v = y[0] }", "there is no buffer `y` here"),
        ("kernel @k(; ) { turbo(a=1) }", "there is no statement `turbo`"),
        ("kernel @k(; ) { micro(rows=1) }", "`micro` has the fields rows, width"),
        ("kernel @k(; ) { let v = exp() }", "say the dtype"),
        ("kernel @k(; ) { let v = 1 + exp(1.0) }", "expected a size, found a call of `exp`"),
        ("host @f() { copy param x }", "expected `->`, found `}`"),
    ],
)
def test_refused_text(text: str, message: str) -> None:
    with pytest.raises(CompileError) as refused:
        parse_program(text, "t")
    assert message in refused.value.diagnostics[0].message


PIECES = [
    "kernel", "@k", "(", ")", "{", "}", "[", "]", ";", ",", "in", "x", ":", "f32", "n", "let", "v", "=", "1", "1.5",
    "..", "for", "if", "host", "return", "arena", "launch", "-", "+", "require", "else", "micro", "contract",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=30))
@settings(max_examples=200)
def test_any_tokens_give_a_program_or_diagnostics(pieces: list[str]) -> None:
    try:
        parse_program(" ".join(pieces))
    except CompileError as refused:
        assert refused.diagnostics  # noqa: PT017 (either outcome is right)
