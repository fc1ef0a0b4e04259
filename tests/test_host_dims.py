"""Sizes in native code against Python's integers: the same value, or a flag; never a wrong value without one."""

import ctypes
import random
from functools import cache

import pytest

from pliant.compiler.codegen.host_dims import DECLARATIONS, DimEmitter, Lines
from pliant.ir.dims import Dim
from pliant.runtime.link import Image, link

from .runtime_programs import compiled

SYMBOLS = ("a", "b", "c")
COUNT = 60


def random_dim(rng: random.Random, depth: int) -> Dim:
    if depth == 0 or rng.random() < 0.15:
        return Dim.of(rng.choice(SYMBOLS)) if rng.random() < 0.7 else Dim.of(rng.randint(-9, 9))
    left, right = random_dim(rng, depth - 1), random_dim(rng, depth - 1)
    kind = rng.choice(("add", "sub", "mul", "div", "mod", "min", "max"))
    if kind == "add":
        return left + right
    if kind == "sub":
        return left - right
    if kind == "mul":
        return left * right
    if kind in ("div", "mod"):
        divisor = right if rng.random() < 0.4 and right != 0 else Dim.of(rng.choice((-8, -3, -1, 2, 3, 4, 7, 16)))
        return left // divisor if kind == "div" else left % divisor
    return Dim.min(left, right) if kind == "min" else Dim.max(left, right)


@cache
def dims() -> tuple[Dim, ...]:
    rng = random.Random(7)
    return tuple(random_dim(rng, 3) for _ in range(COUNT))


@cache
def image() -> Image:
    """For each dim i `f<i>(values, result)`, which returns 1 for an overflow and 2 for a division by zero."""
    parts = [DECLARATIONS]
    for number, dim in enumerate(dims()):
        out = Lines()
        out.label("entry")
        emitter = DimEmitter(out)
        for i, name in enumerate(SYMBOLS):
            place = out.let(f"getelementptr i64, ptr %values, i64 {i}")
            emitter.bind(name, out.let(f"load i64, ptr {place}"))
        value = emitter.emit(dim)
        overflow, zero = emitter.take_flags()
        out.do(f"store i64 {value}, ptr %result")
        flag = out.let(f"zext i1 {overflow or 'false'} to i64")
        code = out.let(f"select i1 {zero or 'false'}, i64 2, i64 {flag}")
        out.do(f"ret i64 {code}")
        body = "\n".join(out.lines)
        parts.append(f"define i64 @f{number}(ptr %values, ptr %result) {{\n{body}\n}}\n")
    return link({"dims": compiled("\n".join(parts))})


def run(number: int, values: tuple[int, ...]) -> tuple[int, int]:
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(image().address(f"f{number}"))
    block, result = (ctypes.c_int64 * 3)(*values), ctypes.c_int64()
    return function(ctypes.addressof(block), ctypes.addressof(result)), result.value


@pytest.mark.parametrize("number", range(COUNT))
def test_small_sizes_have_pythons_value(number: int) -> None:
    rng = random.Random(number)
    for _ in range(40):
        values = tuple(rng.randint(0, 40) for _ in SYMBOLS)
        flag, got = run(number, values)
        try:
            expected = dims()[number].evaluate(dict(zip(SYMBOLS, values, strict=True)))
        except ZeroDivisionError:
            assert flag == 2
            continue
        if flag != 2:  # a division by zero may stand in a product that Python never computes
            assert (flag, got) == (0, expected), f"{dims()[number]} at {values}"


@pytest.mark.parametrize("number", range(COUNT))
def test_huge_sizes_are_right_or_flagged(number: int) -> None:
    rng = random.Random(number)
    edges = (0, 1, 2**31, 2**32 + 1, 2**62, 2**63 - 1, -(2**63), -1)
    for _ in range(40):
        values = tuple(rng.choice(edges) for _ in SYMBOLS)
        flag, got = run(number, values)
        if flag:
            continue
        assert got == dims()[number].evaluate(dict(zip(SYMBOLS, values, strict=True))), f"{dims()[number]} at {values}"


def test_an_overflow_is_flagged() -> None:
    number = dims().index(next(d for d in dims() if d.is_const is False and len(d.terms) > 1))
    assert run(number, (1, 1, 1))[0] in (0, 2)
    out = Lines()
    emitter = DimEmitter(out, {"a": "%a"})
    emitter.emit(Dim.of("a") * "a")
    assert emitter.take_flags()[0] is not None
    assert emitter.take_flags() == (None, None)


def test_a_constant_that_does_not_fit_is_flagged() -> None:
    emitter = DimEmitter(Lines())
    emitter.emit(Dim.of(2**63))
    assert emitter.take_flags()[0] == "true"


def test_equal_expressions_are_computed_once() -> None:
    out = Lines()
    emitter = DimEmitter(out, {"a": "%a", "b": "%b"})
    product = Dim.of("a") * "b"
    first = emitter.emit(product)
    length = len(out.lines)
    assert emitter.emit(product) == first
    emitter.emit(product + 1)
    assert sum("smul" in line for line in out.lines) == 1
    assert len(out.lines) > length
