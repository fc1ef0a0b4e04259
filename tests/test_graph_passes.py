"""Graph passes: each keeps the meaning to the bit, does what it is for, and leaves a graph that verifies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.ir.diagnostics import CompileError
from pliant.ir.graph import Apply, Module, Update
from pliant.ir.infer_module import infer_module
from pliant.ir.interpret import InterpretError, interpret
from pliant.ir.op import CompositeOp
from pliant.ir.parser import parse_module
from pliant.ir.printer import print_module
from pliant.ir.registry import registry
from pliant.ir.types import DType
from pliant.ir.verify import VerifyError, verify_module
from pliant.passes.graph import (
    GRAPH_PASSES,
    CommonSubexpressions,
    DeadCode,
    Decompose,
    Fold,
    Infer,
    Inline,
    Simplify,
)
from pliant.passes.graph.simplify_rules import holds_all
from pliant.passes.pass_base import PassError, parse_passes, run_passes
from tests.op_harness import arguments, assert_matches, references, sample_arrays, sample_function
from tests.random_programs import assert_same_bits, awkward_arrays, programs

OPTIMISE = (Inline(), Fold(), Simplify(), CommonSubexpressions(), DeadCode())


def hook(_: str, module: Module) -> None:
    verify_module(module)
    assert parse_module(print_module(module)) == module


def after(text: str, *passes: object) -> str:
    """The body of the last function after these passes, one statement a line, without types."""
    module = run_passes([Infer(), *passes], parse_module(text), [hook])
    lines = print_module(module, types=False).split("\n")
    start = max(i for i, line in enumerate(lines) if line.startswith("func"))
    return "\n".join(line.strip() for line in lines[start:] if line.startswith("    ") and "where n" not in line)


def body_after(statements: str, *passes: object, head: str = "x: f32[n], y: f32[n], i: i32[n]") -> str:
    return after(f"func @f({head}) -> f32[n] {{\n{statements}\n}}", *passes)


# ------------------------------------------------------------------------------------------------- meaning


@pytest.mark.parametrize("step", OPTIMISE, ids=lambda p: p.name)
@given(text=programs(), seed=st.integers(0, 10))
@settings(max_examples=60)
def test_each_pass_keeps_every_bit(step: object, text: str, seed: int) -> None:
    module = infer_module(parse_module(text))
    new = run_passes([step], module, [hook])
    for got, want in zip(interpret(new, "main", awkward_arrays(seed)), interpret(module, "main", awkward_arrays(seed))):
        assert_same_bits(got, want)


@given(text=programs(), seed=st.integers(0, 10))
@settings(max_examples=60)
def test_all_passes_together_keep_every_bit(text: str, seed: int) -> None:
    module = infer_module(parse_module(text))
    new = run_passes([*OPTIMISE, *OPTIMISE], module, [hook])
    for got, want in zip(interpret(new, "main", awkward_arrays(seed)), interpret(module, "main", awkward_arrays(seed))):
        assert_same_bits(got, want)


# ---------------------------------------------------------------------------------------------------- inline

CALLS = """
func @inner(x: f32[n], inout c: f32[n]) -> f32[n], f32[n] {
    y = add(x, c)
    k: f32[m] = match_cast(y) where m <= n
    update c = y
    return y, x
}
func @outer(x: f32[2*n, 4], inout c: f32[8*n], p: (f32[8*n], f32[])) -> f32[8*n], f32[8*n], f32[8*n] where n <= 9 {
    y = reshape(x, shape=[8*n])
    a, b = @inner(y, c)
    q = p.0
    z = add(a, q)
    return z, b, c
}
"""


def test_inline_leaves_no_call_and_keeps_the_meaning() -> None:
    if "reshape" not in registry():
        pytest.skip("no reshape")
    module = infer_module(parse_module(CALLS))
    inlined = run_passes([Inline()], module, [hook])
    assert "@inner(" not in print_module(inlined).split("func @outer")[1]
    results = []
    for m in (module, inlined):
        rng = np.random.default_rng(0)
        x, c, q = (rng.standard_normal(s).astype(np.float32) for s in ((6, 4), 24, 24))
        got = interpret(m, "outer", [x, c, (q, np.float32(0))])
        results.append([*got, c])
    for a, b in zip(*results):
        np.testing.assert_array_equal(a, b)


def test_inline_renames_values_and_symbols() -> None:
    text = """
    func @g(x: f32[k]) -> f32[k] { t = exp(x) u: f32[j] = match_cast(t) where j <= k return t }
    func @f(t: f32[n]) -> f32[n] { j = @g(t) r = @g(j) return r }
    """
    assert after(text, Inline()) == "\n".join(
        [
            "j = exp(t)",
            "g_u: f32[g_j] = match_cast(j) where g_j <= n",
            "r = exp(j)",
            "g_u_1: f32[g_j_1] = match_cast(r) where g_j_1 <= n",
            "return r",
        ]
    )


# ------------------------------------------------------------------------------------------------- decompose


@pytest.mark.parametrize("name", [n for n, cls in registry().items() if issubclass(cls, CompositeOp)])
def test_decompose_keeps_the_meaning(name: str) -> None:
    for sample in registry()[name].samples():
        module = Module((), (), (sample_function("f", sample),))
        new = run_passes([Decompose()], module, [hook])
        (function,) = new.functions
        assert not any(isinstance(s, Apply) and isinstance(s.op, CompositeOp) for s in function.body.statements)
        for binding in sample.bindings:
            arrays = sample_arrays(sample, binding)
            given = arguments(sample, arrays, binding)
            try:
                wanted = references(sample, arrays, binding)
            except IndexError as refused:
                with pytest.raises(InterpretError, match=str(refused)):
                    interpret(new, "f", given)
                continue
            got = interpret(new, "f", given)
            for g, w in zip(got, wanted, strict=True):
                assert isinstance(g, np.ndarray)
                assert_matches(g, w, sample, f"{name} at {binding}")


def test_decompose_keeps_names() -> None:
    got = body_after("s = softmax(x, axis=-1)\nreturn s", Decompose())
    assert got.endswith("return s")
    assert "softmax" not in got


# ------------------------------------------------------------------------------------------------------ fold


def test_fold_computes_literals_and_constants_but_no_sizes() -> None:
    text = """
    const @c: f32[3] = [1, 2, 3]
    func @f(x: f32[3], y: f32[n]) -> f32[3], f32[n] where n >= 1 {
        a = mul(2.0, 3.0)
        b = mul(@c, a)
        d = add(b, x)
        e = mul(2, n)
        g = cast(e, dtype=f32)
        h = add(y, g)
        return d, h
    }"""
    module = run_passes([Infer(), Fold(), DeadCode()], parse_module(text), [hook])
    assert [(c.name, c.value) for c in module.consts] == [("f.b", (6.0, 12.0, 18.0))]
    lines = print_module(module, types=False)
    assert "e = mul(2, n)" in lines
    assert "d = add(@f.b, x)" in lines


def test_fold_leaves_failures_and_growth_to_the_call() -> None:
    text = """
    func @f(x: f32[2000]) -> i64[], f32[2000] {
        a = floordiv(1, 0)
        b = add(1.0, 2.0)
        return a, x
    }"""
    assert after(text, Fold()) == "a = floordiv(1, 0)\nreturn a, x"


# -------------------------------------------------------------------------------------------------- simplify


@pytest.mark.parametrize(
    ("statements", "left"),
    [
        ("a = mul(x, 1.0)\nreturn a", "return x"),
        ("a = mul(1, x)\nreturn a", "return x"),
        ("a = div(x, 1)\nreturn a", "return x"),
        ("a = sub(x, 0)\nreturn a", "return x"),
        ("a = add(x, -0.0)\nreturn a", "return x"),
        ("a = neg(x)\nb = neg(a)\nreturn b", "return x"),
        ("a = abs(x)\nb = abs(a)\nreturn b", "a = abs(x)\nreturn a"),
        ("a = neg(x)\nb = abs(a)\nreturn b", "b = abs(x)\nreturn b"),
        ("a = pow(x, 2)\nreturn a", "a = square(x)\nreturn a"),
        ("a = maximum(x, x)\nreturn a", "return x"),
        ("a = cast(x, dtype=f32)\nreturn a", "return x"),
        ("a = cast(x, dtype=f64)\nb = cast(a, dtype=f32)\nreturn b", "return x"),
        ("a = cast(x, dtype=f64)\nb = cast(a, dtype=f16)\nc = cast(b, dtype=f32)\nreturn c",
         "b = cast(x, dtype=f16)\nc = cast(b, dtype=f32)\nreturn c"),
        ("c = lt(x, y)\na = where(c, x, x)\nreturn a", "return x"),
        ("a = x\nb = (a, y)\nc = b.1\nreturn c", "return y"),
    ],
)  # fmt: skip
def test_simplify(statements: str, left: str) -> None:
    assert body_after(statements, Simplify(), DeadCode()) == left


@pytest.mark.parametrize(
    "statements",
    [
        "a = add(x, 0.0)\nreturn a",  # -0.0 + 0.0 is 0.0
        "a = sub(x, -0.0)\nreturn a",
        "a = mul(x, 0.0)\nreturn a",  # NaN, infinities
        "a = sub(x, x)\nreturn a",
        "a = div(x, x)\nreturn a",
        "a = cast(x, dtype=f16)\nb = cast(a, dtype=f32)\nreturn b",
        "a = cast(x, dtype=i64)\nb = cast(a, dtype=f32)\nreturn b",
    ],
)
def test_simplify_leaves_what_is_not_exact(statements: str) -> None:
    assert body_after(statements, Simplify(), DeadCode()) == statements


@pytest.mark.parametrize(
    ("statements", "left"),
    [
        (("a = reshape(x, shape=[m, 4, n])\nb = reshape(a, shape=[4*m*n])\n"
         "c = exp(b)\nd = reshape(c, shape=[4*m, n])\nreturn d"),
         "b = reshape(x, shape=[4*m*n])\nc = exp(b)\nd = reshape(c, shape=[4*m, n])\nreturn d"),
        ("a = reshape(x, shape=[m, 4, n])\nb = reshape(a, shape=[4*m, n])\nreturn b", "return x"),
        ("a = unsqueeze(x, axis=0)\nb = squeeze(a, axis=0)\nreturn b", "return x"),
        ("a = permute(x, axes=[1, 0])\nb = permute(a, axes=[1, 0])\nreturn b", "return x"),
        ("a = transpose(x)\nb = transpose(a, axis=[0, 1])\nreturn b", "return x"),
        ("a = expand(x, shape=[4*m, n])\nreturn a", "return x"),
        ("a = slice(x, axis=0, start=0)\nreturn a", "return x"),
        ("a = dim(x, axis=0)\nb = mul(a, 2)\nc = cast(b, dtype=f32)\nd = add(x, c)\nreturn d",
         "b = mul(4*m, 2)\nc = cast(b, dtype=f32)\nd = add(x, c)\nreturn d"),
    ],
)  # fmt: skip
def test_simplify_shapes(statements: str, left: str) -> None:
    text = f"func @f(x: f32[4*m, n]) -> f32[4*m, n] {{\n{statements}\n}}"
    assert after(text, Simplify(), DeadCode()) == left


def test_simplify_composes_permutations() -> None:
    text = """func @f(x: f32[a, b, c]) -> f32[c, b, a] {
        y = permute(x, axes=[1, 2, 0]) z = permute(y, axes=[1, 0, 2]) return z
    }"""
    assert after(text, Simplify(), DeadCode()) == "z = permute(x, axes=[2, 1, 0])\nreturn z"
    module = infer_module(parse_module(text))
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    (got,) = interpret(run_passes([Simplify()], module), "f", [x])
    np.testing.assert_array_equal(got, x.transpose(2, 1, 0))


def test_a_broadcast_is_not_simplified_away() -> None:
    text = "func @f(x: f32[1], y: f32[n]) -> f32[n] { c = lt(y, 0) a = where(c, x, x) return a }"
    assert "where" in after(text, Simplify(), DeadCode())


@pytest.mark.parametrize("narrow", list(DType), ids=str)
@pytest.mark.parametrize("wide", list(DType), ids=str)
def test_holds_all_is_numpys_safe_cast(wide: DType, narrow: DType) -> None:
    if DType.bf16 in (wide, narrow):
        samples = np.arange(-300, 300) if narrow.is_int else np.array([1 + 2**-7, 2.0**100, 2**-100])
        with np.errstate(all="ignore"):
            values = samples.astype(narrow.numpy)
            exact = bool((values.astype(wide.numpy).astype(narrow.numpy) == values).all())
        assert holds_all(wide, narrow) <= exact
    else:
        assert holds_all(wide, narrow) <= np.can_cast(narrow.numpy, wide.numpy, "safe")


# ------------------------------------------------------------------------------------------------ cse and dce


def test_cse_shares_what_is_the_same() -> None:
    got = body_after(
        "a = exp(x)\nb = exp(x)\nc = add(a, b)\nd = add(b, a)\ne = mul(c, d)\nreturn e", CommonSubexpressions()
    )
    assert got == "a = exp(x)\nc = add(a, a)\ne = mul(c, c)\nreturn e"


def test_cse_tells_zeros_and_attributes_apart() -> None:
    statements = "a = maximum(x, 0.0)\nb = maximum(x, -0.0)\nc = sub(a, b)\nd = sub(b, a)\ne = add(c, d)\nreturn e"
    assert body_after(statements, CommonSubexpressions()) == statements
    text = "func @f(x: f32[n, n]) -> f32[n], f32[n] where n >= 1 { a = max(x, axis=0) b = max(x, axis=1) return a, b }"
    assert after(text, CommonSubexpressions()).count("max") == 2


def test_dce_keeps_checks_and_updates() -> None:
    text = """
    const @unused: f32[1] = [1]
    weight @w: f32[h]
    func @f(x: f32[n], inout c: f32[n]) -> f32[n] {
        dead = exp(x)
        dead2 = exp(dead)
        k: f32[m] = match_cast(x)
        e: f32[8] = match_cast(x)
        same: f32[n] = match_cast(x)
        u = neg(x)
        update c = u
        return x
    }"""
    module = run_passes([Infer(), DeadCode()], parse_module(text), [hook])
    names = [t.name for s in module.functions[0].body.statements if hasattr(s, "target") for t in [s.target]]
    assert names == ["k", "e"]
    assert isinstance(module.functions[0].body.statements[-1], Update)
    assert module.consts == ()
    assert len(module.weights) == 1


# ---------------------------------------------------------------------------------------- the pass machinery


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken"

    def run(self, module: Module) -> Module:
        return parse_module(print_module(module).replace("add(x, x)", "exp(x)").replace("f32[n] {", "f32[n, n] {"))


@dataclass(frozen=True)
class Crashing:
    name: ClassVar[str] = "crashing"

    def run(self, module: Module) -> Module:
        raise KeyError("lost")


def test_a_fault_names_its_pass_and_keeps_the_ir() -> None:
    module = infer_module(parse_module("func @f(x: f32[n]) -> f32[n] { a = add(x, x) return a }"))
    for step, reason in ((Broken(), "VerifyError"), (Crashing(), "KeyError")):
        with pytest.raises(PassError) as fault:
            run_passes([DeadCode(), step], module, [hook])
        assert fault.value.pass_name == step.name
        assert reason in str(fault.value)
        assert fault.value.before == module


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("func @f(x: f32[n]) -> f32[n] { a: f32[n] = add(x, x) return a }", ""),
        ("func @f(x: f32[n]) -> f32[n] { a = add(x, x) return a }", "`a` has no type"),
        ("func @f(x: f32[n]) -> f32[n] { a: f32[n] = add(x, 1) return a }", "a literal without a dtype"),
        ("func @f(x: f32[n]) -> f32[n] { a: f32[n, 1] = add(x, x) return a }", "the result of `add` is f32[n]"),
    ],
)
def test_verify_types(text: str, problem: str) -> None:
    module = parse_module(text)
    if not problem:
        verify_module(module)
        return
    with pytest.raises(VerifyError) as fault:
        verify_module(module)
    assert problem in str(fault.value)


def test_verify_names() -> None:
    module = infer_module(parse_module("func @f(x: f32[n]) -> f32[n] { a = exp(x) b = exp(a) return b }"))
    (f,) = module.functions
    from dataclasses import replace

    def with_statements(*statements: object) -> Module:
        return replace(module, functions=(replace(f, body=replace(f.body, statements=statements)),))

    a, b = f.body.statements
    for bad, problem in (
        (with_statements(b, a), "`a` is used before it is defined"),
        (with_statements(a, a, b), "the value `a` is defined twice"),
        (replace(module, functions=(f, f)), "`@f` is defined 2 times"),
    ):
        with pytest.raises(VerifyError, match=problem):
            verify_module(bad)


def test_passes_by_name() -> None:
    assert parse_passes("fold{limit=16}, cse,dce", GRAPH_PASSES) == [Fold(16), CommonSubexpressions(), DeadCode()]
    for text, message in (
        ("flod", "there is no pass `flod`"),
        ("fold{limt=3}", "has no option `limt`"),
        ("fold{limit=x}", "is of type int"),
        ("fold cse", "is no list of passes"),
    ):
        with pytest.raises(CompileError, match=message):
            parse_passes(text, GRAPH_PASSES)
