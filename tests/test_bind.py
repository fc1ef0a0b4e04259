"""`bind`: sizes that arguments say. Results against numpy, refusals word for word, text, artifacts, GPU emission."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pliant
from pliant.compiler.codegen.cuda import cuda_module
from pliant.compiler.driver import Compilation
from pliant.compiler.target import Target
from pliant.ir.format import format_text
from pliant.ir.infer_module import infer_module
from pliant.ir.interpret import InterpretError, interpret
from pliant.ir.printer import print_module
from pliant.ir.verify import VerifyError, verify_module
from pliant.passes.graph.specialize import Specialize
from pliant.runtime.errors import DTypeError, LayoutError, PliantError, ShapeError
from tests.cuda_emulator.emulator import Emulator, available
from tests.cuda_emulator.host import HostRun

HEAD = """\
func @main(x: f32[n, 4], count: i64[]) -> f32[k, 4], f32[n, 4], i64[]
    where n in 0..32
{
    bind k = count where k in 0..n
    head = slice(x, axis=0, start=0, stop=k)
    scaled = mul(x, k)
    more = add(count, 2*k)
    return head, scaled, more
}
"""


@pytest.fixture(scope="module")
def head() -> pliant.Executable:
    return pliant.compile(HEAD)


@pytest.mark.parametrize("n", [0, 1, 2, 31, 32])
def test_every_size_up_to_the_bound(head: pliant.Executable, n: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32)
    for k in range(n + 1):
        for count in (k, np.int64(k), np.array(k)):
            first, scaled, more = head(x, count)
            np.testing.assert_array_equal(first, x[:k])
            np.testing.assert_array_equal(scaled, x * np.float32(k))
            assert int(more) == 3 * k


@pytest.mark.parametrize(
    ("count", "error", "message"),
    [
        (
            4,
            ShapeError,
            (
                "argument `count` of @main: its value is 4, but k in 0..n (k is bound by bind k = count at "
                "<text>:4:10; n = 3 is bound by x: f32[n, 4] at <text>:1:12; the fact stands at <text>:4:26)"
            ),
        ),
        (
            -1,
            ShapeError,
            "argument `count` of @main: its value is -1, and sizes are not negative (bind k = count at <text>:4:10)",
        ),
        (2.0, DTypeError, "argument `count` of @main is the float 2.0; i64[] wants int64"),
        (True, DTypeError, "argument `count` of @main is the bool True; i64[] wants int64"),
        (1 << 63, DTypeError, f"argument `count` of @main is {1 << 63}, which int64 cannot hold"),
        (np.array([2]), ShapeError, "argument `count` of @main has rank 1, but i64[] has rank 0"),
        (
            np.float64(2),
            DTypeError,
            (
                "argument `count` of @main has elements of type float64, but i64[] wants int64; nothing is converted "
                "silently: pass x.astype('int64')"
            ),
        ),
    ],
)
def test_what_is_refused(head: pliant.Executable, count: object, error: type[PliantError], message: str) -> None:
    with pytest.raises(error) as refusal:
        head(np.zeros((3, 4), np.float32), count)
    assert str(refusal.value) == message


def test_the_value_is_read_at_every_call_from_memory_of_any_place() -> None:
    exe = pliant.compile("func @main(c: i64[]) -> i64[k] { bind k = c where k <= 9 y = arange(stop=k) return y }")
    block = np.zeros(9, np.uint8)
    unaligned = block[1:].view(np.int64)[0:1].reshape(())
    for k in (0, 3, 9):
        unaligned[...] = k
        assert exe(unaligned).tolist() == list(range(k))
        with pytest.raises(DTypeError, match="nothing is converted silently"):
            exe(np.array(k, np.dtype(np.int64).newbyteorder()))


def test_an_inout_parameter_is_the_size_that_it_came_with() -> None:
    text = """
    func @main(inout c: i64[], x: f32[n]) -> f32[k] where n in 0..8 {
        bind k = c where k < n
        next = add(c, 1)
        update c = next
        y = slice(x, axis=0, start=0, stop=k)
        return y
    }"""
    exe, x, c = pliant.compile(text), np.arange(4, dtype=np.float32), np.array(0)
    for step in range(4):
        assert exe(c, x).tolist() == x[:step].tolist()
        assert c == step + 1
    with pytest.raises(ShapeError, match=r"argument `c` of @main: its value is 4, but k < n"):
        exe(c, x)
    assert c == 4
    with pytest.raises(LayoutError, match="is written to"):
        exe(2, x)


def test_facts_of_several_arguments_are_checked_before_any_kernel() -> None:
    text = """
    func @main(inout x: f32[n], start: i64[], size: i64[]) -> f32[k] where n in 0..64 {
        new = add(x, 1)
        update x = new
        bind s = start
        bind k = size where s + k <= n, k % 2 == 0
        y = slice(new, axis=0, start=s, stop=s + k)
        return y
    }"""
    exe, x = pliant.compile(text), np.arange(8, dtype=np.float32)
    assert exe(x, 2, 4).tolist() == [3, 4, 5, 6]
    for start, size, said in ((5, 4, "k + s <= n does not hold: k + s = 9, n = 8"), (0, 3, "is 3, but k % 2 == 0")):
        with pytest.raises(ShapeError, match=re.escape(said)):
            exe(x, start, size)
    np.testing.assert_array_equal(x, np.arange(1, 9))


def test_sums_of_sizes_are_checked_for_overflow() -> None:
    text = "func @main(a: i64[]) -> i64[] { bind k = a where 4*k >= 0 y = full(shape=[], value=k, dtype=i64) return y }"
    exe = pliant.compile(text)
    assert int(exe(1 << 60)) == 1 << 60
    with pytest.raises(PliantError, match="does not fit into 64 bits"):
        exe(1 << 62)


def test_bounds_of_a_bound_size_plan_memory() -> None:
    def peak(fact: str) -> int:
        body = "a = full(shape=[k, 64], value=1.0) b = exp(a) c = cumsum(b, axis=0) d = cumsum(c, axis=1) return d"
        text = f"func @main(count: i64[]) -> f32[k, 64] {{ bind k = count where {fact} {body} }}"
        made = Compilation(pliant.parse(text), Target.parse("cpu:x86-64-v3"))
        return made.lowered.plans["main"].arena_bytes.value

    assert peak("k in 0..16") == 2 * 16 * 64 * 4
    assert peak("k in 0..32") == 2 * 32 * 64 * 4


def test_saved_and_loaded(head: pliant.Executable, tmp_path: Path) -> None:
    head.save(tmp_path / "head.pliant")
    loaded = pliant.load(tmp_path / "head.pliant")
    x = np.ones((3, 4), np.float32)
    assert loaded(x, 2)[0].shape == (2, 4)
    with pytest.raises(ShapeError, match=r"its value is 4, but k in 0\.\.n"):
        loaded(x, 4)


def test_calls_at_once_keep_their_sizes(head: pliant.Executable) -> None:
    x, wrong = np.ones((32, 4), np.float32), list[int]()

    def many(k: int) -> None:
        wrong.extend(k for _ in range(200) if head(x, k)[0].shape != (k, 4))

    threads = [threading.Thread(target=many, args=(k,)) for k in (0, 7, 32)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


TEXTS = [
    HEAD,
    (
        "func @main(p: (i64[], f32[n])) -> f32[k] { c = p.0 x = p.1 bind k = c where k <= n "
        "y = slice(x, axis=0, start=0, stop=k) return y }"
    ),
    "func @main(c: i64[]) -> f32[3] { bind k = 3 bind j = c where j == k y = full(shape=[k], value=1.0) return y }",
    (
        "func @main(x: f32[n]) -> f32[n] { bind k = n bind m = 2*n where m == 2*k "
        "y = full(shape=[k], value=1.0) return y }"
    ),
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_prints_as_itself(text: str) -> None:
    module = pliant.parse(text)
    typed = infer_module(module)
    verify_module(typed)
    for m in (module, typed):
        assert pliant.parse(print_module(m)) == m
    assert infer_module(pliant.parse(print_module(typed, types=False))) == typed
    assert pliant.parse(format_text(text)) == module
    assert infer_module(typed) == typed


def test_numbers_and_sizes_are_bound_too() -> None:
    x = np.zeros(4, np.float32)
    exe = pliant.compile(TEXTS[3])
    assert exe(x).tolist() == [1, 1, 1, 1]
    exe = pliant.compile(TEXTS[2])
    assert exe(3).tolist() == [1, 1, 1]
    with pytest.raises(ShapeError, match="its value is 4, but j == k"):
        exe(4)


def test_the_interpreter_refuses_what_the_program_refuses() -> None:
    module, x = pliant.parse(HEAD), np.zeros((3, 4), np.float32)
    with pytest.raises(InterpretError, match="bind k = count: k would be -1, which is negative"):
        interpret(module, "main", [x, np.array(-1)])
    with pytest.raises(InterpretError, match=r"the fact `k in 0\.\.n` does not hold: k = 4, n = 3"):
        interpret(module, "main", [x, np.array(4)])


def test_specialised_sizes_are_still_asked_for() -> None:
    exe = pliant.compile(Specialize.of({"k": 2}).run(pliant.parse(HEAD)))
    x = np.ones((3, 4), np.float32)
    assert exe(x, 2)[0].shape == (2, 4)
    with pytest.raises(ShapeError, match="its value is 3, but k == 2"):
        exe(x, 3)


def test_a_symbol_is_bound_once() -> None:
    module = infer_module(pliant.parse("func @main(a: i64[]) -> i64[] { bind k = a bind j = a return a }"))
    text = print_module(module).replace("bind j", "bind k")
    with pytest.raises(pliant.CompileError, match="the size `k` is bound already"):
        pliant.parse(text)
    (function,) = module.functions
    body = replace(function.body, statements=(function.body.statements[0],) * 2)
    with pytest.raises(VerifyError, match="the symbol `k` is bound twice"):
        verify_module(replace(module, functions=(replace(function, body=body),)))


@pytest.mark.skipif(not available(), reason="the emulator is built by g++")
def test_on_the_gpu_the_host_reads_the_value(tmp_path: Path) -> None:
    made = Compilation(pliant.parse(HEAD), Target.parse("cuda:sm_90"))
    program = made.lowered.program
    run = HostRun(program, Emulator(cuda_module(program, made.target), tmp_path))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    (first, scaled, more), failed = run("main", x, np.array(2))
    assert not failed
    np.testing.assert_array_equal(first, x[:2])
    np.testing.assert_array_equal(scaled, 2 * x)
    assert int(more) == 6
