"""The parser: what it accepts, what it refuses and with which words; never a traceback."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.ir.diagnostics import CompileError
from pliant.ir.dims import Dim
from pliant.ir.facts import Compare, InRange, OneOf
from pliant.ir.graph import (
    Apply,
    Assign,
    Bind,
    CallFunction,
    DimValue,
    Field,
    If,
    Literal,
    MatchCast,
    NoneValue,
    TupleValue,
    Update,
    Var,
    While,
)
from pliant.ir.parser import parse_dim, parse_facts, parse_module, parse_module_all, parse_type
from pliant.ir.types import DType, TensorType, TupleType, tensor

n, m = Dim.of("n"), Dim.of("m")


def body(statements: str, head: str = "x: f32[n, m], i: i64[n]") -> tuple:
    function = parse_module(f"func @f({head}) {{\n{statements}\n}}").functions[0]
    return function.body.statements


def messages(text: str) -> list[str]:
    module, diagnostics = parse_module_all(text, "t.ir")
    assert (module is None) == bool(diagnostics)
    return [d.message for d in diagnostics]


def test_heads() -> None:
    module = parse_module("""
        weight @layer.0.up: f32[h, 4*h] where h % 16 == 0   # a comment
        const @c: i64[2, 2] = [[1, -2], [3, 4]]
        const @s: f32[] = -inf
        func @main(x: f32[n, h], inout cache: bf16[*], p: (f32[], (i8[n],))) -> f32[n], (f32[], bool[])
            where n in 0..1024, n in 1.., n in {8, 16, 8}, n <= h, n + 1 != 3
            likely n = 1, 128 likely h = 64
        { }
    """)
    weight = module.weights[0]
    assert (weight.name, weight.type, weight.facts) == (
        "layer.0.up",
        tensor("f32", "h", 4 * Dim.of("h")),
        (Compare("==", Dim.of("h") % 16, 0),),
    )
    assert module.consts[0].value == ((1, -2), (3, 4))
    assert module.consts[1].value == -math.inf
    f = module.functions[0]
    assert f.params[1].inout
    assert f.params[1].type == TensorType(DType.bf16, None)
    assert f.params[2].type == TupleType((tensor("f32"), TupleType((tensor("i8", "n"),))))
    assert f.results == (tensor("f32", "n"), TupleType((tensor("f32"), tensor("bool"))))
    h = Dim.of("h")
    assert f.facts == (
        InRange(n, 0, 1024), InRange(n, 1), OneOf(n, (8, 16)), Compare("<=", n, h), Compare("!=", n + 1, 3)
    )  # fmt: skip
    assert [(x.symbol, x.values) for x in f.likely] == [("n", (1, 128)), ("h", (64,))]


@pytest.mark.parametrize(
    ("text", "dim"),
    [
        ("4*n + 1", 4 * n + 1),
        ("-n//2", (-n) // 2),
        ("-(n//2)", -(n // 2)),
        ("n//2*3", n // 2 * 3),
        ("n - 1 - m", n - 1 - m),
        ("n % 3 + m", n % 3 + m),
        ("(n + m)*n", (n + m) * n),
        ("min(n, m, 3)", Dim.min(n, m, 3)),
        ("max(n, min(m, 4))", Dim.max(n, Dim.min(m, 4))),
        ("ceildiv(n, 8)", Dim.ceildiv(n, 8)),
        ("7//-2", Dim.of(-4)),
    ],
)
def test_sizes(text: str, dim: Dim) -> None:
    assert parse_dim(text, {"n", "m"}) == dim


def test_statements() -> None:
    got = body("""
        a = add(x, 1.5)
        b: f32[n, m] = mul(a, n)
        c = sum(b, axis=[-1], keepdims=true)
    """)
    assert [type(s) for s in got] == [Apply, Apply, Apply]
    assert got[0].operands == (Var("x"), Literal(1.5))
    assert got[1].targets[0].type == tensor("f32", "n", "m")
    assert got[1].operands == (Var("a"), DimValue(n))
    assert got[2].op.axis == (-1,)
    assert got[2].op.keepdims is True


def test_other_statements() -> None:
    got = (
        parse_module("""
        func @g(y: f32[n, m]) -> f32[n, m] { return y }
        func @f(x: f32[n, m], inout c: f32[n, m]) {
        y: f32[k, 4] = match_cast(x) where k <= n, k in 1..
        p = (y, (x,), 2, n + 1)
        q = p.1
        r = q.0
        update c = x
        @g(x)
        z = @g(x)
        l = f16(2)
        e = ceildiv(n, 2)
        s = ceildiv(4, 3)
        }""")
        .functions[1]
        .body.statements
    )
    k = Dim.of("k")
    assert got[0] == MatchCast(got[0].target, Var("x"), (Compare("<=", k, n), InRange(k, 1)))
    assert got[1].operand == TupleValue((Var("y"), TupleValue((Var("x"),)), Literal(2), DimValue(n + 1)))
    assert got[2] == Field(got[2].target, Var("p"), 1)
    assert got[4] == Update("c", Var("x"))
    assert got[5] == CallFunction((), "g", (Var("x"),))
    assert got[6].targets[0].name == "z"
    assert got[7].operand == Literal(2.0, DType.f16)
    assert got[8].operand == DimValue(Dim.ceildiv(n, 2))
    assert got[9].operand == Literal(2)
    assert isinstance(got[9], Assign)


def test_literals() -> None:
    got = body("a = add(x, -1e-5)\nb = add(x, inf)\nc = add(x, -inf)\nd = add(x, nan)\ne = add(x, -3)\nf = add(x, 2*3)")
    values = [s.operands[1].value for s in got]
    assert values[:3] == [-1e-5, math.inf, -math.inf]
    assert math.isnan(values[3])
    assert values[4:] == [-3, 6]


def test_an_absent_operand() -> None:
    assert body("a = clamp(x, none, 1.0)")[0].operands[1] == NoneValue()


def test_an_open_range_ends_before_the_next_statement() -> None:
    got = body("y: f32[k] = match_cast(i) where k in 1..\nz = add(x, x)")
    assert got[0].facts == (InRange(Dim.of("k"), 1),)
    assert got[1].targets[0].name == "z"


def test_control_flow_is_parsed() -> None:
    got = body(
        """
        y = if c { a = add(x, x) yield a } else { yield x }
        k, z = while (k = 0, z = x) { t = lt(k, 3) yield t } do { k2 = add(k, 1) yield k2, z }
        bind l = i where l in 0..9
    """,
        "x: f32[n], c: bool[], i: i64[]",
    )
    assert [type(s) for s in got] == [If, While, Bind]
    assert got[0].then.results == (Var("a"),)
    assert [name for name, _ in got[1].inits] == ["k", "z"]
    assert got[2].facts == (InRange(Dim.of("l"), 0, 9),)


def test_places() -> None:
    module = parse_module("func @f(x: f32[n]) {\n  a = add(x, 1)\n}", "t.ir")
    statement = module.functions[0].body.statements[0]
    assert str(statement.span) == "t.ir:2:7"
    assert str(statement.targets[0].span) == "t.ir:2:3"
    assert str(statement.operands[1].span) == "t.ir:2:14"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("a = sotfmax(x)", "there is no operator `sotfmax`"),
        ("a = add(x, y)", "there is no value `y` here"),
        ("a = add(x, @w)", "there is no weight or constant `@w`"),
        ("a = sum(x, axes=[0])", "`sum` has no attribute `axes`"),
        ("a = sum(x, axis=1.5)", "the attribute `axis` of `sum` takes"),
        ("a = sum(x, keepdims=1)", "the attribute `keepdims` of `sum` takes `true` or `false`, not `1`"),
        ("a = sum(x, axis=0, axis=1)", "the attribute `axis` is given twice"),
        ("a = sum(axis=0, x)", "operands come before attributes"),
        ("a = cast(x)", "`cast` needs the attribute `dtype`"),
        ("a = add(mul(x, x), x)", "an operand is a value, not a call"),
        ("a = add(x, [1])", "a list is no operand"),
        ('a = add(x, "s")', "expected a value, found the string"),
        ("a = x * 2", "`+ - * // %` work on sizes; `x` is a value"),
        ("a = add(x, n + 1.5)", "`+ - * // %` work on sizes; `1.5` is a value"),
        ("a = add(x, x)\na = add(x, x)", "the value `a` is defined twice"),
        ("n = add(x, x)", "`n` is a size of this function already; it cannot be a value too"),
        ("a: f32[x] = match_cast(x)", "`x` is a value of this function already; it cannot be a size too"),
        ("a: f32[k] = add(x, x)", "there is no size `k` here"),
        ("a: f32[n] = add(x, x) where n <= 3", "`where` has no meaning at this statement"),
        ("a = match_cast(x)", "`match_cast` needs one result with a type"),
        ("update x = x", "`x` is not an inout parameter"),
        ("update z = x", "there is no inout parameter `z`"),
        ("a = @g(x)", "there is no function `@g`"),
        ("a = f32(x)", "`f32(...)` gives a literal its type; `x` is none"),
        ("a = i8(300)", "the literal 300 does not fit i8"),
        ("a = add(x, 99999999999999999999)", "this number does not fit 64 bits"),
        ("a = add(x, 1e999)", "this number does not fit an f64"),
        ("a = add(x, n//0)", "division by zero"),
        ("a = none", "`none` is no value"),
        ("a, b = x", "2 names for one value"),
        ("inf = add(x, x)", "`inf` is a word of the language"),
        ("a = scan (c = x) over (e = x) { yield c }", "`scan` is not there yet: it comes in a later version"),
        ("a = if x { return x } else { yield x }", "expected `yield`, found `return`"),
    ],
)
def test_refused_statements(statement: str, message: str) -> None:
    got = messages(f"func @f(x: f32[n, m]) {{\n{statement}\n}}")
    assert len(got) == 1
    assert got[0].startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func @f(x: float32[n]) {}", "expected a type, found `float32`"),
        ("func @f(x: f32[n) {}", "expected `]`, found `)`"),
        ("func @f(x: f32[n]) where n = 3 {}", "expected `in` or a comparison"),
        ("func @f(x: f32[n]) {", "the file ends where"),
        ("func @f(x: f32[n]) { a = add(x, 1.) }", "unexpected character `.`"),
        ('func @f(x: f32[n]) { a = pad(x, mode="edge) }', "this string does not end"),
        ("funk @f() {}", "expected `func`, `weight` or `const`, found `funk`"),
        ("func @f() {} func @f() {}", "`@f` is defined twice"),
        ("func @f(x: f32[n], x: f32[n]) {}", "the value `x` is defined twice"),
        ("func @f(x: f32[n]) where k <= n {}", "there is no size `k` here"),
        ("func @f(x: f32[n]) likely k = 3 {}", "there is no size `k` here"),
        ("func @f(x: f32[n]) -> f32[k] { return x }", "there is no size `k` here"),
        ("const @c: f32[2] = [1]", "expected a list of 2, found one of 1"),
        ("const @c: i8[1] = [1.5]", "the literal 1.5 is not an i8"),
        ("const @c: f32[n] = [1]", "there is no size `n` here"),
        ("weight @w: f32[*]", "a weight or constant is a tensor of known rank"),
        ("weight @w: f32[n] where m <= n", "there is no size `m` here"),
    ],
)
def test_refused_heads(text: str, message: str) -> None:
    got = messages(text)
    assert len(got) == 1
    assert got[0].startswith(message)


def test_several_mistakes_are_reported_at_once_and_cause_no_others() -> None:
    text = """func @f(x: f32[n]) -> f32[n] {
    a = add(x x)
    b = mull(a, x)
    c = add(b, a)
    d = add(c,
    e = add(d, x)
    gelu(e)
    return e
}
func @g(x: f32[n]) -> f32[n] {
    y = add(z, 1)
    return y
}
"""
    _, diagnostics = parse_module_all(text, "t.ir")
    assert [(d.span.line, d.message) for d in diagnostics if d.span] == [
        (2, "expected `)` or `,`, found `x`"),
        (3, "there is no operator `mull`"),
        (7, "expected `)` or `,`, found `gelu`"),
        (8, "expected a value, found `return`"),
        (11, "there is no value `z` here"),
    ]


def test_the_error_holds_the_source() -> None:
    with pytest.raises(CompileError) as refused:
        parse_module("func @f(x: f32[n]) {\n    a = gleu(x)\n}", "t.ir")
    assert str(refused.value).split("\n") == [
        "error: there is no operator `gleu`",
        "  --> t.ir:2:9",
        " 2 |     a = gleu(x)",
        "   |         ^^^^",
        "   = help: did you mean `gelu`?",
    ]


def test_types_and_facts_alone() -> None:
    assert parse_type("(f32[n, 4*m], i64[])") == TupleType((tensor("f32", n, 4 * m), tensor("i64")))
    assert parse_facts("n <= m, n % 2 == 0", {"n", "m"}) == (Compare("<=", n, m), Compare("==", n % 2, 0))
    for refused in (lambda: parse_type("f32[n"), lambda: parse_facts("n <= k", {"n"}), lambda: parse_dim("f32", {"n"})):
        with pytest.raises(CompileError):
            refused()


def test_deep_nesting_is_refused_in_words() -> None:
    assert messages(f"func @f(x: f32[{'-' * 50000}n]) {{ }}") == []


PIECES = [
    "func", "@f", "(", ")", "x", ":", "f32", "[", "]", "n", ",", "->", "{", "}", "=", "add", "return", "where", "in",
    "0", "..", "1.5", "match_cast", "update", "weight", "const", "likely", "if", "else", "while", "do", "yield", "*",
    "//", "%", "-", "+",
    "<=", "==", "inout", '"s"', "true", "none", ".0", "#c\n", "\n", "bind", "scan", "over", "é", '"',
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=40))
@settings(max_examples=300)
def test_any_tokens_give_a_module_or_diagnostics(pieces: list[str]) -> None:
    module, diagnostics = parse_module_all(" ".join(pieces))
    assert (module is None) == bool(diagnostics)
    for diagnostic in diagnostics:
        assert diagnostic.render({"<text>": " ".join(pieces)})


SEED = """weight @w: f32[h, 4*h] where h % 16 == 0
func @main(x: f32[n, h], inout c: f32[n]) -> f32[n, 4*h] where n in 0..1024 likely n = 1, 128
{
    a = matmul(x, @w)
    s: f32[k] = match_cast(c) where k in 1..
    b = sum(a, axis=[-1], keepdims=true)
    update c = s
    return a
}
"""


@given(st.integers(0, len(SEED)), st.integers(0, 30), st.text(alphabet='(){}[],.=:@xn0 \n#"-*', max_size=5))
@settings(max_examples=300)
def test_damaged_programs_give_a_module_or_diagnostics(start: int, length: int, new: str) -> None:
    module, diagnostics = parse_module_all(SEED[:start] + new + SEED[start + length :])
    assert (module is None) == bool(diagnostics)
