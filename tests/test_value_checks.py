"""Checks of data: compiled code makes those that the reference interpreter makes, used values or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pliant
from pliant.compiler.codegen.llvm import resolve
from pliant.compiler.driver import Compilation
from pliant.compiler.target import Target
from pliant.ir.graph import Literal
from pliant.ir.interpret import InterpretError, interpret
from pliant.ir.op import CompositeOp, Op
from pliant.ir.registry import registry
from pliant.ir.types import DType, TensorType
from pliant.runtime.errors import KernelError, ShapeError, SizeError

from .op_harness import sample_module

F = np.float32


def zeros(*shape: int, dtype: Any = F) -> np.ndarray:
    return np.zeros(shape, dtype)


def outcome(run: Any, *arrays: np.ndarray) -> Any:
    """The results, or None where the call failed for its data or sizes."""
    try:
        made = run(*(a.copy() for a in arrays))
    except (KernelError, SizeError, ShapeError, InterpretError):
        return None
    return [np.asarray(m) for m in (made if isinstance(made, (list, tuple)) else [made])]


def both(text: str, *arrays: np.ndarray) -> tuple[Any, Any]:
    module = pliant.parse(text)
    return outcome(pliant.compile(module), *arrays), outcome(lambda *a: interpret(module, "main", list(a)), *arrays)


UNUSED = "func @main(x: f32[n, m], i: i64[k], v: f32[k, m]) -> f32[n, m] { u = OP return x }"
USED = "func @main(x: f32[n, m], i: i64[k], v: f32[k, m]) -> TYPE { u = OP return u }"
INDEXED = [
    ("take(x, i)", "f32[k, m]", True),
    ("index_select(x, i)", "f32[k, m]", True),
    ("embedding(x, i)", "f32[k, m]", True),
    ("gather_nd(x, i)", "f32[k, m]", True),
    ("one_hot(i, num_classes=4)", "i64[k, 4]", False),
    ("index_put(x, v, i)", "f32[n, m]", False),
    ("scatter(x, e, v, axis=0)", "f32[n, m]", False),
]


@pytest.mark.parametrize(("op", "type_", "by_element"), INDEXED, ids=[op for op, _, _ in INDEXED])
def test_an_index_out_of_range(op: str, type_: str, by_element: bool) -> None:
    """It fails whether the result is used or not; where no element is read with it only if writes look at all."""
    spread = "e0 = unsqueeze(i, axis=1) e = expand(e0, shape=[k, m]) u = "
    unused, used = (t.replace("TYPE", type_).replace("u = OP", spread + op) for t in (UNUSED, USED))
    for m in (2, 0):
        for index in (0, 99):
            x, i, v = zeros(3, m), np.array([index]), zeros(1, m)
            fails = index == 99 and (m > 0 or (not by_element and "scatter" not in op))
            for text in (unused, used):
                compiled, interpreted = both(text, x, i, v)
                assert (compiled is None, interpreted is None) == (fails, fails), (text, m, index)


@pytest.mark.parametrize("op", ["floordiv", "mod", "fmod"])
@pytest.mark.parametrize("result", ["u", "x"])
def test_a_division_by_zero(op: str, result: str) -> None:
    text = f"func @main(x: i32[n], z: i32[]) -> i32[n] {{ u = {op}(x, z) return {result} }}"
    for n, z, fails in ((3, 0, True), (0, 0, False), (3, 2, False)):
        compiled, interpreted = both(text, np.arange(n, dtype=np.int32), np.array(z, np.int32))
        assert (compiled is None, interpreted is None) == (fails, fails)
        if not fails:
            np.testing.assert_array_equal(compiled[0], interpreted[0])


def test_a_part_that_is_not_read_is_checked_too() -> None:
    for use in ("slice(u, axis=0, start=0, stop=1)", "where(c, u, 0)"):
        text = f"""func @main(x: i64[4], y: i64[4]) -> i64[{1 if "slice" in use else 4}] {{
            u = floordiv(x, y)
            c = ne(y, 0)
            v = {use}
            return v
        }}"""
        assert both(text, np.ones(4, np.int64), np.array([1, 1, 0, 1])) == (None, None)


CHECKED = [
    ("x: f32[n], c: bool[]", "x", (0,), ()),
    ("x: f32[n], c: bool[]", "u", (0,), ()),
    ("x: f32[n], c: bool[n]", "x", (3,), (3,)),
    ("x: f32[n, m], c: bool[m]", "u", (0, 2), (2,)),
    ("x: f32[n, m], c: bool[n, 1]", "u", (2, 0), (2, 1)),
    ("x: f32[], c: bool[]", "x", (), ()),
]


@pytest.mark.parametrize(("params", "result", "shape", "condition"), CHECKED)
def test_checked_looks_at_all_of_its_condition(
    params: str, result: str, shape: tuple[int, ...], condition: tuple[int, ...]
) -> None:
    type_ = params.split("x: ")[1].split(", c:")[0]
    text = f"func @main({params}) -> {type_} {{ u = checked(x, c) return {result} }}"
    fine = np.ones(condition, bool)
    compiled, interpreted = both(text, zeros(*shape), fine)
    np.testing.assert_array_equal(compiled[0], interpreted[0])
    fine.flat[-1:] = False
    assert both(text, zeros(*shape), fine) == (None, None)


def test_a_condition_that_is_known_is_checked() -> None:
    assert both("func @main(x: f32[n]) -> f32[n] { c = lt(1, 0) u = checked(x, c) return x }", zeros(0)) == (None, None)


def test_matrices_without_factors() -> None:
    for op in ("l, fine = cholesky(x)", "p, q, r = lu(x)"):
        names = op.partition(" = ")[0]
        text = f"func @main(x: f32[n, n]) -> f32[n, n] {{ {names} = {op.partition(' = ')[2]} return x }}"
        compiled, interpreted = both(text, -np.ones((2, 2), F))
        assert (compiled is None) == (interpreted is None)


HUGE = 1 << 40
VALUES = [
    ("i64[2]", "add(t, n*m)", False),
    ("i64[2]", "add(t, n + 1)", True),
    ("f32[2]", "mul(t, n*m)", False),
    ("f64[2]", "mul(t, n*m - m)", False),
    ("i32[2]", "add(t, n)", False),
    ("u8[2]", "add(t, n - m)", True),
    ("u8[2]", "add(t, n - m - 1)", False),
    ("i64[2]", "full(shape=[2], value=n*m)", False),
    ("i64[2]", "arange(start=n*m, stop=n*m + 2)", False),
    ("i32[2]", "arange(start=n, stop=n + 2, dtype=i32)", False),
    ("i64[2]", "arange(start=n, stop=n + 2)", True),
]


@pytest.mark.parametrize(("type_", "op", "fine"), VALUES)
@pytest.mark.parametrize("result", ["u", "t"])
def test_a_size_as_a_value_fits_what_it_becomes(type_: str, op: str, fine: bool, result: str) -> None:
    text = f"func @main(x: f32[n, 0], y: f32[m, 0], t: {type_}) -> {type_} {{ u = {op} return {result} }}"
    t = np.ones(2, DType(type_.partition("[")[0]).numpy)
    compiled, interpreted = both(text, zeros(HUGE, 0), zeros(HUGE, 0), t)
    assert (compiled is None, interpreted is None) == (not fine, not fine)
    if fine:
        np.testing.assert_array_equal(compiled[0], interpreted[0])
    compiled, interpreted = both(text, zeros(3, 0), zeros(2, 0), t)
    np.testing.assert_array_equal(compiled[0], interpreted[0])


def test_numbers_of_a_range_are_cast() -> None:
    text = "func @main(x: f32[n]) -> u8[2] { u = arange(start=-2, stop=4, step=3, dtype=u8) return u }"
    for made in both(text, zeros(1)):
        np.testing.assert_array_equal(made[0], np.array([254, 1], np.uint8))


def test_a_returned_size_fits() -> None:
    text = "func @main(x: f32[n, 0], y: f32[m, 0]) -> i64[] { return n*m }"
    assert both(text, zeros(HUGE, 0), zeros(HUGE, 0)) == (None, None)
    compiled, interpreted = both(text, zeros(6, 0), zeros(7, 0))
    assert compiled[0] == interpreted[0] == 42


def test_a_size_that_overflows_is_named() -> None:
    exe = pliant.compile("func @main(x: f32[n, 0], y: f32[m, 0], t: i64[]) -> i64[] { u = add(t, n*m) return u }")
    with pytest.raises(SizeError, match=r"the size m\*n as a value .*does not fit into 64 bits; n = 1099511627776"):
        exe(zeros(HUGE, 0), zeros(HUGE, 0), np.int64(1))


def _declares(op: Op, operands: tuple[Any, ...]) -> bool:
    types = [o if isinstance(o, TensorType) else None for o in operands]
    dtype = next(t.dtype for t in types if t is not None)
    known = [t or TensorType(dtype, ()) for t in types]
    return op.may_fail([Literal(o) if isinstance(o, (bool, int, float)) else None for o in operands], known)  # type: ignore[misc]


def test_operators_that_check_data_say_so() -> None:
    """What declares nothing must lower to kernels without checks, or the check would go with an unused value."""
    for name, cls in registry().items():
        if issubclass(cls, CompositeOp):
            continue
        quiet = [s for s in cls.samples() if s.operands and not _declares(s.op, s.operands)]
        if not quiet or cls.family in ("create",):
            continue
        lowered = Compilation(sample_module(quiet[:6]), resolve(Target.parse("cpu"))).lowered
        assert not [c.message for k in lowered.program.kernels for c in k.checks], name
