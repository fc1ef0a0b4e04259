"""Every check of a call: what it lets pass, and what it says."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pliant.compiler.codegen.host import emit_host
from pliant.ir.dims import Dim
from pliant.ir.facts import Compare, InRange, OneOf
from pliant.ir.loops import CheckEqual, Launch, Program, Ref
from pliant.runtime import ArgumentError, DTypeError, Executable, LayoutError, ShapeError, SizeError

from .runtime_programs import (
    ADD_ONE,
    add_one,
    add_one_kernel,
    bind,
    element,
    executable,
    fact,
    kernel,
    loop,
    rows,
    single,
    span,
    sum_ir,
    sum_of,
    tensor,
)

n, m = Dim.of("n"), Dim.of("m")


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)


def message(exe: Executable, kind: type[Exception], *args: Any, **named: Any) -> str:
    with pytest.raises(kind) as caught:
        exe(*args, **named)
    return str(caught.value)


@pytest.fixture(scope="module")
def bounded() -> Executable:
    return executable(add_one(InRange("n", 0, 1024)), ADD_ONE)


@pytest.mark.parametrize("size", [0, 1, 2, 17, 1024])
def test_every_size_within_the_bounds(bounded: Executable, size: int) -> None:
    x = rows(size)
    np.testing.assert_array_equal(bounded(x), x + 1)


def test_above_the_bound(bounded: Executable) -> None:
    assert message(bounded, ShapeError, floats(2000, 4)) == (
        "argument `x` of @main: dimension 0 is 2000, but n in 0..1024 "
        "(n is bound by x: f32[n, 4] at test.ir:1:1; the fact stands at test.ir:2:1)"
    )


def test_a_static_size_the_rank_and_the_type(bounded: Executable) -> None:
    assert message(bounded, ShapeError, floats(3, 5)) == (
        "argument `x` of @main: dimension 1 is 5, expected 4 (x: f32[n, 4] at test.ir:1:1)"
    )
    assert message(bounded, ShapeError, floats(4)) == ("argument `x` of @main has rank 1, but f32[n, 4] has rank 2")
    assert "elements of type float64, but f32[n, 4] wants float32" in message(bounded, DTypeError, np.zeros((3, 4)))


def test_arguments_by_name_and_their_number(bounded: Executable) -> None:
    np.testing.assert_array_equal(bounded(x=rows(2)), rows(2) + 1)
    assert message(bounded, ArgumentError) == "@main takes 1 argument (x); missing: `x`"
    assert message(bounded, ArgumentError, 1, 2) == "@main takes 1 argument (x), but 2 were given"
    assert "there is no `y`" in message(bounded, ArgumentError, y=rows(2))
    assert "given twice" in message(bounded, ArgumentError, rows(2), x=rows(2))


def test_sizes_shared_by_arguments_are_checked_without_being_asked_for() -> None:
    exe = executable(sum_of(3), sum_ir(3))  # the host program has no step for a1 and a2
    a = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(exe(a, a, a), 3 * a)
    said = message(exe, ShapeError, a, floats(5), floats(4))
    assert said.startswith("argument `a2` of @main: dimension 0 is 4, expected n = 5 (a2: f32[n]")
    assert "n is bound by a0: f32[n] at test.ir:1:1" in said


def solved() -> Program:
    """@main(x: f32[2*n, n + m]) -> f32[m, n] with nothing in it."""
    x, y = tensor("x", "f32", 2 * n, n + m), tensor("y", "f32", m, n)
    origin = "x: f32[2*n, m + n]"
    steps = (bind("n", "x.0", origin, divisor=2), bind("m", Dim.of("x.1") - n, origin))
    return single((x,), (y,), steps, ())


def test_symbols_are_solved_for() -> None:
    exe = executable(solved())
    assert exe(floats(6, 8)).shape == (5, 3)
    assert exe(floats(0, 0)).shape == (0, 0)
    assert message(exe, ShapeError, floats(7, 8)) == (
        "argument `x` of @main: dimension 0: 2 does not divide x.0 = 7, so that there is no n "
        "(x: f32[2*n, m + n] at test.ir:1:1)"
    )
    assert "m would be -1, and sizes are not negative" in message(exe, ShapeError, floats(6, 2))


@pytest.mark.parametrize(
    ("which", "good", "bad", "said"),
    [
        (Compare("==", n % 8, 0), 16, 12, "dimension 0 is 12, but n % 8 == 0"),
        (Compare("<=", n, 8), 8, 9, "dimension 0 is 9, but n <= 8"),
        (Compare("<", n, 8), 7, 8, "dimension 0 is 8, but n < 8"),
        (Compare(">=", n, 8), 8, 7, "dimension 0 is 7, but n >= 8"),
        (Compare(">", n, 8), 9, 8, "dimension 0 is 8, but n > 8"),
        (Compare("!=", n, 8), 9, 8, "dimension 0 is 8, but n != 8"),
        (InRange("n", 3, None), 3, 2, "dimension 0 is 2, but n in 3.."),
        (InRange(n * n, 0, 100), 10, 11, "dimension 0 is 11, but n*n in 0..100"),
        (OneOf("n", (8, 16)), 16, 9, "dimension 0 is 9, but n in {8, 16}"),
    ],
)
def test_facts_of_one_symbol(which: Any, good: int, bad: int, said: str) -> None:
    exe = executable(add_one(which), ADD_ONE)
    np.testing.assert_array_equal(exe(rows(good)), rows(good) + 1)
    assert said in message(exe, ShapeError, floats(bad, 4))


def test_a_fact_of_several_symbols_shows_both_sides() -> None:
    names = ("t", "s", "p")
    params = tuple(tensor(f"a{i}", "f32", name) for i, name in enumerate(names))
    steps = (
        *(bind(name, f"a{i}.0", f"a{i}: f32[{name}]", line=i + 1) for i, name in enumerate(names)),
        fact(Compare("==", "t", Dim.of("s") + "p"), line=9),
    )
    exe = executable(single(params, (), steps, ()))
    assert exe(floats(7), floats(3), floats(4)) is None
    said = message(exe, ShapeError, floats(5), floats(3), floats(4))
    assert said.startswith("@main: t == p + s does not hold: t = 5, p + s = 7")
    assert "s = 3 is bound by a1: f32[s] at test.ir:2:1" in said
    assert said.endswith("the fact stands at test.ir:9:1)")


def test_the_order_of_checks_is_that_of_the_steps() -> None:
    steps = (bind("n", "x.0", "x"), CheckEqual(n // 2, Dim.of(3), "y = match_cast", span(7)), fact(InRange("n", 7)))
    exe = executable(single((tensor("x", "f32", "n"),), (), steps, ()))
    assert exe(floats(7)) is None
    assert "n in 7.." in message(exe, ShapeError, floats(6))
    assert message(exe, ShapeError, floats(8)).startswith(
        "@main: n//2 = 4, expected 3 (y = match_cast at test.ir:7:1; n = 8 is bound by x"
    )


def test_a_negative_size_of_a_result() -> None:
    y = tensor("y", "f32", n - 5)
    exe = executable(single((tensor("x", "f32", "n"),), (y,), (bind("n", "x.0", "x"),), ()))
    assert exe(floats(5)).shape == (0,)
    assert message(exe, ShapeError, floats(3)) == (
        "@main: the result f32[n - 5] would have the size n - 5 = -2, which is negative"
    )


def huge(*shape: int) -> np.ndarray[Any, Any]:
    """An array with sizes that no memory holds: it is empty."""
    return np.zeros(shape, np.float32)


def test_sizes_that_overflow_are_refused() -> None:
    x = tensor("x", "f32", "n", "m")
    steps = (bind("n", "x.0", "x"), bind("m", "x.1", "x"))
    big = 2**40
    for outputs, rest in (
        ((tensor("y", "f32", m, m),), {}),
        ((), {"arena": m * m}),
        ((), {"scratch": m * m}),
    ):
        exe = executable(single((x,), outputs, steps, (), **rest))
        exe(huge(0, 3))
        assert "does not fit into 64 bits" in message(exe, SizeError, huge(0, big))
    checked = single((x,), (), (*steps, fact(Compare(">=", m * m, 0))), ())
    assert "does not fit into 64 bits; n = 0, m = " in message(executable(checked), SizeError, huge(0, big))


def test_sizes_of_launches_that_overflow_are_refused() -> None:
    launch = Launch("add_one", (Ref("param", "x"), Ref("param", "x")), (m * m * n,))
    x = tensor("x", "f32", "n", "m")
    steps = (bind("n", "x.0", "x"), bind("m", "x.1", "x"))
    exe = executable(single((x,), (), steps, (launch,), (add_one_kernel(),)), ADD_ONE)
    assert "intermediate result does not fit" in message(exe, SizeError, huge(0, 2**40))


def test_a_division_by_a_size_that_is_zero() -> None:
    x, y = tensor("x", "f32", "n", "m"), tensor("y", "f32", n // m)
    steps = (bind("n", "x.0", "x"), bind("m", "x.1", "x"))
    exe = executable(single((x,), (y,), steps, ()))
    assert exe(floats(7, 2)).shape == (3,)
    assert "the size of the result f32[n//m] divides by zero; n = 7, m = 0" in message(exe, SizeError, floats(7, 0))


def test_memory_that_is_not_there() -> None:
    exe = executable(single((tensor("x", "f32", "n"),), (), (bind("n", "x.0", "x"),), (), arena=n * 2**59))
    assert "bytes of memory for intermediate results" in message(exe, SizeError, floats(7))
    assert exe(floats(0)) is None


def test_results_that_no_memory_holds() -> None:
    size = n * n * n
    exe = executable(single((tensor("x", "u8", "n"),), (tensor("y", "f32", size),), (bind("n", "x.0", "x"),), ()))
    x = np.zeros(2**20, np.uint8)
    for given in ({}, {"out": None}, {"x": x}):
        args = () if "x" in given else (x,)
        assert "there is no memory for the result" in message(exe, SizeError, *args, **given)
    torch = pytest.importorskip("torch")
    assert "there is no memory for the result" in message(exe, SizeError, torch.from_numpy(x))


# -- parameters that are written


ACCUMULATE = loop(
    "accumulate",
    "ptr %cache, ptr %x",
    element("a", "cache") + element("b", "x") + "  %s = fadd float %a, %b\n  store float %s, ptr %pa\n",
)


def accumulate() -> Program:
    """@main(inout cache: f32[n], x: f32[n]) adds x to the cache."""
    params = (tensor("cache", "f32", "n", inout=True), tensor("x", "f32", "n"))
    launch = Launch("accumulate", (Ref("param", "cache"), Ref("param", "x")), (n,))
    which = kernel("accumulate", ("cache", "f32", "inout"), ("x", "f32", "in"))
    return single(params, (), (bind("n", "cache.0", "cache: f32[n]"),), (launch,), (which,))


def test_a_written_parameter_is_updated_in_place() -> None:
    exe = executable(accumulate(), ACCUMULATE)
    cache, x = np.ones(4, np.float32), np.arange(4, dtype=np.float32)
    exe(cache, x)
    exe(cache=cache, x=x)
    np.testing.assert_array_equal(cache, 1 + 2 * x)


def test_a_written_parameter_must_be_writable_and_contiguous() -> None:
    exe = executable(accumulate(), ACCUMULATE)
    x = floats(4)
    frozen = floats(4)
    frozen.flags.writeable = False
    assert "the array is read-only" in message(exe, LayoutError, frozen, x)
    exe(x, frozen)  # what is only read may be
    assert "not contiguous: its shape is (4,) and its strides are (8,) bytes" in message(
        exe, LayoutError, floats(8)[::2], x
    )
    assert "must be an array" in message(exe, LayoutError, 1.0, x)


def test_an_input_that_overlaps_a_written_parameter_is_copied() -> None:
    exe = executable(accumulate(), ACCUMULATE)
    memory = np.arange(6, dtype=np.float32)
    expected = memory[2:] + memory[:4]
    exe(memory[2:], memory[:4])
    np.testing.assert_array_equal(memory[2:], expected)
    same = np.arange(4, dtype=np.float32)
    exe(same, same)
    np.testing.assert_array_equal(same, 2 * np.arange(4))


def test_two_written_parameters_must_not_overlap() -> None:
    params = (tensor("a", "f32", "n", inout=True), tensor("b", "f32", "n", inout=True))
    exe = executable(single(params, (), (bind("n", "a.0", "a"),), ()))
    memory = floats(8)
    assert exe(memory[:4], memory[4:]) is None
    assert exe(memory[:0], memory[:0]) is None
    assert message(exe, LayoutError, memory[:4], memory[3:7]) == (
        "argument `a` of @main and argument `b` of @main are both written to, and share memory"
    )


# -- programs that are not closed: faults of the compiler, found before anything runs


def test_host_programs_that_are_not_closed() -> None:
    x = tensor("x", "f32", "n")
    steps = (bind("n", "x.0", "x"),)
    launch = Launch("add_one", (Ref("param", "x"), Ref("param", "x")), (n,))
    for program, said in (
        (single((x,), (), (), ()), "'n'"),
        (single((x,), (tensor("y", "f32", "m"),), steps, ()), "'m'"),
        (single((x,), (), steps, (launch,)), "'add_one'"),
        (single((x,), (), steps, (replace(launch, buffers=launch.buffers[:1]),), (add_one_kernel(),)), "add_one"),
        (single((x,), (), steps, (replace(launch, buffers=(Ref("param", "z"),) * 2),), (add_one_kernel(),)), "'z'"),
    ):
        with pytest.raises(ValueError, match=said):
            emit_host(program)
