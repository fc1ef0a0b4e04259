"""The printer is the parser's inverse, and its layout is canonical."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings

from pliant.ir.build import ModuleBuilder
from pliant.ir.graph import Const, DimValue, Literal, Module
from pliant.ir.infer_module import infer_module
from pliant.ir.op import Op
from pliant.ir.parser import parse_module
from pliant.ir.printer import print_float, print_module
from pliant.ir.registry import registry
from pliant.ir.strip import strip_types
from pliant.ir.types import DType, tensor
from tests.op_harness import sample_function
from tests.random_programs import programs

PROGRAM = """weight @up: f32[h, 4*h] where h % 16 == 0
weight @down: f32[4*h, h]
const @table: f32[2, 2] = [[1.0, -0.0], [nan, -inf]]

func @mlp(x: f32[n, h]) -> f32[n, h]
    where n in 0..1024
    likely n = 1, 128
{
    a = matmul(x, @up)
    b = gelu(a)
    c = matmul(b, @down)
    return c
}

func @main(x: f32[n, h], inout cache: f32[n, h], p: (f32[n], (i64[],))) -> f32[n, h], (f32[k], i64[])
    where n <= 64, n in {1, 2, 64}
{
    y = @mlp(x)
    q = p.0
    z: f32[k] = match_cast(q) where k in 1..
    r = clamp(y, none, 1.0)
    s: f32[n, 1] = sum(r, axis=[-1], keepdims=true)
    t = mul(y, (n + 7)//8)
    update cache = t
    return y, (z, 3)
}

func @nothing() {
}
"""


def round_trip(module: Module) -> None:
    text = print_module(module)
    assert parse_module(text) == module, text
    assert print_module(parse_module(text)) == text


def test_canonical_text_is_left_as_it_is() -> None:
    assert print_module(parse_module(PROGRAM)) == PROGRAM


def test_white_space_does_not_matter() -> None:
    squeezed = " ".join(PROGRAM.split())
    assert print_module(parse_module(squeezed)) == PROGRAM


def test_control_flow_round_trips() -> None:
    text = """func @f(x: f32[n], c: bool[], i: i64[]) -> f32[n] {
    y: f32[n] = if c {
        a = add(x, x)
        yield a
    } else {
        yield x
    }
    k, z = while (k = 0, w = x) {
        t = lt(k, 3)
        yield t
    } do {
        k2 = add(k, 1)
        yield k2, w
    }
    bind l = i where l in 0..9
    return z
}
"""
    assert print_module(parse_module(text)) == text
    round_trip(parse_module(text))


def test_types_can_be_written_and_left_out() -> None:
    typed = infer_module(parse_module(PROGRAM))
    round_trip(typed)
    assert "    a: f32[n, 4*h] = matmul(x, @up)\n" in print_module(typed)
    plain = print_module(typed, types=False)
    assert "    a = matmul(x, @up)\n" in plain
    assert infer_module(parse_module(plain)) == typed
    round_trip(strip_types(typed))


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, 1e-5, 1e16, 1e300, 5e-324, math.inf, -math.inf, 0.1])
def test_floats(value: float) -> None:
    text = f"func @f(x: f32[]) {{ a = add(x, {print_float(value)}) }}"
    (literal,) = parse_module(text).functions[0].body.statements[0].operands[1:]
    assert literal.value == value
    assert math.copysign(1, literal.value) == math.copysign(1, value)


def test_nan_is_equal_to_itself() -> None:
    round_trip(Module((), (Const("c", tensor("f32", 1), (math.nan,)),), ()))
    round_trip(parse_module("func @f(x: f32[n]) { a = add(x, nan) b = clamp(x, -inf, f64(nan)) }"))


def test_literals_say_their_dtype_once_they_have_one() -> None:
    text = "func @f(x: f16[n]) { a = add(x, f16(1.0)) b = mul(x, f16(n)) c = add(i64(n), i64(2)) }"
    operands = [s.operands for s in parse_module(text).functions[0].body.statements]
    assert operands[0][1] == Literal(1.0, DType.f16)
    assert isinstance(operands[1][1], DimValue)
    assert operands[1][1].dtype is DType.f16
    round_trip(parse_module(text))


@pytest.mark.parametrize("cls", registry().values(), ids=lambda cls: cls.name)
def test_every_operator_reads_back(cls: type[Op]) -> None:
    samples = list(cls.samples())
    assert samples
    for sample in samples:
        round_trip(Module((), (), (sample_function("f", sample),)))


@given(programs())
@settings(max_examples=60)
def test_random_programs_round_trip(text: str) -> None:
    module = parse_module(text)
    round_trip(module)
    typed = infer_module(module)
    round_trip(typed)
    assert infer_module(parse_module(print_module(typed, types=False))) == typed


def test_what_the_builder_makes_is_what_the_text_says() -> None:
    m = ModuleBuilder()
    w = m.weight("up", "f32[h, 4*h]", where=["h % 16 == 0"])
    c = m.const("bias", "f32[1]", [0.5])
    f = m.function("main", {"x": "f32[n, h]", "cache": "inout f32[n]"}, ["n in 0..1024"], {"n": [1, 128]})
    y = f.add(f.gelu(f.matmul(f.x, w)), c)
    s = f.sum(y, axis=[1])
    f.update("cache", s)
    k = f.match_cast(s, "f32[k]", where=["k <= n"])
    z = f.div(k, f.dim("2*k"))
    f.returns(y, (f.cast(z, dtype="f16"), 1.0))
    assert (
        print_module(m.build(), types=False)
        == """weight @up: f32[h, 4*h] where h % 16 == 0
const @bias: f32[1] = [0.5]

func @main(x: f32[n, h], inout cache: f32[n]) -> f32[n, 4*h], (f16[k], f32[])
    where n in 0..1024
    likely n = 1, 128
{
    t0 = matmul(x, @up)
    t1 = gelu(t0)
    t2 = add(t1, @bias)
    t3 = sum(t2, axis=[1])
    update cache = t3
    t4: f32[k] = match_cast(t3) where k <= n
    t5 = div(t4, 2*k)
    t6 = cast(t5, dtype=f16)
    return t2, (t6, f32(1.0))
}
"""
    )


def test_a_number_beside_bools_becomes_one_of_them() -> None:
    text = "func @main(x: bool[n]) -> bool[n] { y = where(x, x, 1) return y }"
    typed = infer_module(parse_module(text))
    assert parse_module(print_module(typed)) == typed
