"""Inference over whole functions: facts in scope, calls, match_cast, in-place parameters, recursion."""

from __future__ import annotations

import pytest

from pliant.ir.diagnostics import CompileError, Diagnostic
from pliant.ir.dims import Dim
from pliant.ir.graph import targets_of
from pliant.ir.infer_module import infer_module, infer_module_all
from pliant.ir.infer_scope import function_facts
from pliant.ir.parser import parse_module
from pliant.ir.types import Type, tensor


def types_of(text: str, function: str = "f") -> dict[str, Type | None]:
    f = infer_module(parse_module(text)).function(function)
    return {t.name: t.type for s in f.body.statements for t in targets_of(s)}


def refusals(text: str) -> list[Diagnostic]:
    typed, problems = infer_module_all(parse_module(text, "t.ir"))
    assert (typed is None) == bool(problems)
    return problems


def test_the_sizes_of_an_mlp() -> None:
    got = types_of("""
        weight @up: f32[h, 4*h] where h % 16 == 0
        weight @down: f32[4*h, h]
        func @f(x: f32[n, h]) -> f32[n, h] {
            a = matmul(x, @up) b = gelu(a) c = matmul(b, @down) return c
        }""")
    h = Dim.of("h")
    assert got == {"a": tensor("f32", "n", 4 * h), "b": tensor("f32", "n", 4 * h), "c": tensor("f32", "n", h)}


def test_written_types_are_proven_under_the_facts() -> None:
    got = types_of("""
        func @f(x: f32[n, 8], y: f32[t, 8], u: f32[s], v: f32[p]) -> f32[s + p, 8] where t == s + p, t == n {
            a: f32[s + p, 8] = add(x, y)
            return a
        }""")
    assert got["a"] == tensor("f32", Dim.of("s") + "p", 8)


def test_literals_take_their_dtypes() -> None:
    got = types_of("""
        func @f(x: f16[n], i: i8[n]) {
            a = add(x, 1) b = add(i, 1) c = eq(x, 0.5) d = 3 e = 2.5 g = true
            h = n  j = mul(x, n) k = (x, 1) l = k.1 m = add(f64(1), 2)
        }""")
    assert {k: str(v) for k, v in got.items()} == {
        "a": "f16[n]", "b": "i8[n]", "c": "bool[n]", "d": "i64[]", "e": "f32[]", "g": "bool[]",
        "h": "i64[]", "j": "f16[n]", "k": "(f16[n], i64[])", "l": "i64[]", "m": "f64[]",
    }  # fmt: skip


def test_a_match_cast_binds_symbols_and_gives_facts() -> None:
    got = types_of("""
        func @f(x: f32[n, m], y: f32[k, 4]) -> f32[k, 4] where m == 4 {
            a: f32[k, 4] = match_cast(x)
            b = add(a, y)
            c: f32[2*j, 4] = match_cast(b)
            d: f32[n, m] = mul(c, x)
            e: f32[k, 4] = d
            return e
        }""")
    assert got["e"] == tensor("f32", "k", 4)


def test_sizes_in_parameter_types_are_not_negative() -> None:
    module = parse_module("func @f(x: f32[n - 3]) -> f32[n - 3] where n <= 9 { return x }")
    facts = function_facts(module, module.functions[0])
    assert facts.bounds(Dim.of("n")) == (3, 9)


def test_calls_solve_the_symbols_of_the_callee() -> None:
    text = """
        func @g(x: f32[2*a, a + b], inout c: f32[b]) -> f32[a + b], f32[2*a] where b % 2 == 0, a in 1..100 {
            s = sum(x, axis=[1])
            t = sum(x, axis=[0])
            u = mul(c, 2)
            update c = u
            return t, s
        }
        func @f(y: f32[2*n, n + 4*m], inout c: f32[4*m]) -> f32[4*m + n] where n in 1..50 {
            v, w = @g(y, c)
            return v
        }"""
    assert types_of(text) == {"v": tensor("f32", 4 * Dim.of("m") + "n"), "w": tensor("f32", 2 * Dim.of("n"))}


@pytest.mark.parametrize(
    ("caller", "message"),
    [
        ("func @f(y: f32[k, k]) { a = @g(y, y) }", "`@g` takes (x: f32[2*n, m]), 2 operands given"),
        ("func @f(y: f32[k]) { a = @g(y) }", "`x` of `@g` is f32[2*n, m], and `y` is f32[k]"),
        ("func @f(y: f16[k, k]) { a = @g(y) }", "`x` of `@g` is f32[2*n, m], and `y` is f16[k, k]"),
        ("func @f(y: f32[k, j]) where j <= 8 { a = @g(y) }", "its size `n` must be a whole number, here `k % 2 == 0`"),
        ("func @f(y: f32[2*k, j]) { a = @g(y) }", "its fact `m <= 8`, here `j <= 8`"),
        ("func @f(y: f32[2*k, j]) where j <= 8 { a, b = @g(y) }", "`@g` has 1 result, 2 named"),
    ],
)
def test_refused_calls(caller: str, message: str) -> None:
    callee = """func @g(x: f32[2*n, m]) -> f32[n] where m <= 8 {
        s = sum(x, axis=[1]) y: f32[n] = match_cast(s) return y
    }"""
    (problem,) = refusals(callee + caller)
    assert message in problem.message


def test_a_refused_call_says_the_fact_that_makes_it_right() -> None:
    callee = "func @g(x: f32[2*n, m]) -> f32[2*n] where m <= 8 { s = sum(x, axis=[1]) return s }"
    (problem,) = refusals(f"{callee} func @f(y: f32[k, j]) where j <= 8 {{ a = @g(y) }}")
    assert problem.helps == ("say `where k % 2 == 0` (checked at every call)",)
    assert not refusals(f"{callee} func @f(y: f32[k, j]) where j <= 8, k % 2 == 0 {{ a = @g(y) }}")


@pytest.mark.parametrize(
    ("statements", "messages"),
    [
        ("z = add(x, y)", ["the sizes of `add` do not match: n against m"]),
        ("z = add(x, i)", ["the dtypes of `add` do not match: f32 against i64"]),
        ("z = add(x, y)\nw = exp(z)\nv = add(w, z)", ["the sizes of `add` do not match: n against m"]),
        ("z: f32[n] = add(x, y)\nw = exp(z)\nv = add(w, y)", ["the sizes of `add` do not match: n against m"] * 2),
        ("z: f32[n, 1] = exp(x)", ["the result of `exp` is f32[n], not f32[n, 1]"]),
        ("z: f32[m] = exp(x)", ["the result of `exp` is f32[n], not f32[m]"]),
        ("z, w = exp(x)", ["`exp` has 1 result, 2 named"]),
        ("z = add(x)", ["`add` takes (x, y), 1 operand given"]),
        ("z = add(x, none)", ["operand 1 of `add` may not be none"]),
        ("z = add(i, 1.5)", ["the literal 1.5 is not an i64"]),
        ("z = add(p, 1)", ["`add` takes tensors; p is a tuple"]),
        ("z = p.2", ["`p` has 2 fields, counted from 0"]),
        ("z = x.0", ["`x` is no tuple, but f32[n]"]),
        ("z = exp(u)", ["`exp` needs the rank of u, which is f32[*]"]),
        ("z: f32[3, 3] = match_cast(x)", ["this match_cast never holds: f32[n] and f32[3, 3] differ in rank"]),
        ("z: i64[n] = match_cast(x)", ["match_cast asserts sizes; f32[n] has other elements than i64[n]"]),
        ("z: f32[k*j] = match_cast(x)", ["the sizes of this match_cast do not determine `j`"]),
        ("z: f32[9] = match_cast(x)", ["this match_cast never holds: the size n is never 9"]),
        ("z: f32[n] = match_cast(x) where n >= 7", ["these facts contradict one another: `n in 0..6`, `n >= 7`"]),
        ("update c = y", ["the update of `c` is f32[m], not f32[n]"]),
        ("update c = x\nupdate c = x", ["`c` is updated twice"]),
        ("bind k = i", ["`bind` makes a size of an i64[], and `i` is i64[n]"]),
        (
            "k = sum(i)\nbind s = k",
            ["`bind` of a value that is computed is not there yet: it comes in a later version"],
        ),
    ],
)
def test_refused_statements(statements: str, messages: list[str]) -> None:
    head = "x: f32[n], y: f32[m], i: i64[n], p: (f32[], i64[]), u: f32[*], inout c: f32[n]"
    got = refusals(f"func @f({head}) where n in 0..6 {{\n{statements}\n}}")
    assert [d.message for d in got] == messages
    assert all(d.span is not None for d in got)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func @f(x: f32[n*m]) {}", "the sizes of the arguments do not determine `m`"),
        (
            "func @f(x: f32[n]) where n <= 3, n >= 1, n >= 5 {}",
            "these facts contradict one another: `n <= 3`, `n >= 5`",
        ),
        ("func @f(x: f32[n]) where n < 0 {}", "no size can satisfy `n < 0`"),
        ("func @f(x: f32[n]) -> f32[n] { }", "`@f` returns 0 values, and its head says 1"),
        ("func @f(x: f32[n]) { return x }", "`@f` returns 1 value, and its head says none"),
        ("func @f(x: f32[n]) -> f32[n, 1] { return x }", "`x` is f32[n], not f32[n, 1]"),
        ("func @f(x: f32[n]) -> i64[] { return 1.5 }", "the literal 1.5 is not an i64"),
        ("weight @w: f32[h] where h >= 9, h <= 3", "these facts contradict one another: `h >= 9`, `h <= 3`"),
        ("func @f(x: f32[n]) { a = @f(x) }", "recursion: @f -> @f"),
    ],
)
def test_refused_functions(text: str, message: str) -> None:
    assert message in [d.message for d in refusals(text)][0]


def test_recursion_names_its_cycle() -> None:
    call = "func @{0}(x: f32[n]) -> f32[n] {{ y = @{1}(x) return y }}"
    (problem,) = refusals("\n".join([call.format("a", "b"), call.format("b", "c"), call.format("c", "b")]))
    assert problem.message == "recursion: @b -> @c -> @b"
    assert problem.span is not None
    assert problem.span.line == 3


def test_an_inout_parameter_passed_on_is_updated() -> None:
    callee = "func @g(inout c: f32[n]) { d = mul(c, 2) update c = d }\n"
    assert not refusals(callee + "func @f(inout c: f32[m]) { @g(c) }")
    assert refusals(callee + "func @f(inout c: f32[m]) { @g(c) @g(c) }")[0].message == "`c` is updated twice"
    message = refusals(callee + "func @f(c: f32[m]) { @g(c) }")[0].message
    assert message == "`c` of `@g` is updated in place; `c` is no inout parameter"


def test_every_function_is_checked() -> None:
    got = refusals("\n".join(f"func @f{i}(x: f32[n], y: f32[m]) {{ z = add(x, y) w = mul(x, y) }}" for i in range(3)))
    assert [d.span.line for d in got if d.span] == [1, 1, 2, 2, 3, 3]


def test_the_error_says_where_symbols_were_bound() -> None:
    text = "func @f(x: f32[n, 64],\n        y: f32[m, 64]) {\n    z = add(x, y)\n}"
    with pytest.raises(CompileError) as refused:
        infer_module(parse_module(text, "attention.ir"))
    (problem,) = refused.value.diagnostics
    assert problem.render({"attention.ir": text}).split("\n") == [
        "error: the sizes of `add` do not match: n against m",
        "  --> attention.ir:3:9",
        " 3 |     z = add(x, y)",
        "   |         ^^^ dimension 0: x is [n, 64], y is [m, 64]",
        "   = m was bound by y: f32[m, 64] at attention.ir:2:9",
        "   = n was bound by x: f32[n, 64] at attention.ir:1:9",
        "   = help: say `where n == m` (checked at every call), or broadcast one of them",
    ]


def test_the_help_compiles_when_pasted() -> None:
    text = "func @f(x: f32[n, 64], y: f32[m, 64]) {0} {{ z = add(x, y) }}"
    help = refusals(text.format(""))[0].helps[0]
    fact = help.split("`")[1]
    assert not refusals(text.format(fact))
