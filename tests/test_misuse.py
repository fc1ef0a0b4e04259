"""What is no array, no path, no program: refused by errors of ours, whatever foreign objects raise or claim."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pliant
from pliant import ArgumentError, CompileError, LayoutError, LoadError, PliantError, SaveError, ShapeError, SizeError

RELU = "func @main(x: f32[n]) -> f32[n] { y = relu(x) return y }"
F32 = np.float32


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, F32)


@pytest.fixture(scope="module")
def rows() -> pliant.Executable:
    return pliant.compile("""
        func @main(x: f32[n, m], y: f32[n]) -> f32[n] where n in 0..2000, m in 0..2000 {
            s = sum(x, axis=1)
            z = add(s, y)
            return z
        }
    """)


@pytest.fixture(scope="module")
def update() -> pliant.Executable:
    return pliant.compile("""
        func @main(x: f32[n, m], inout c: f32[n]) -> f32[n] where n in 0..2000, m in 0..2000 {
            s = sum(x, axis=1)
            update c = s
            return s
        }
    """)


class Raises:
    """Raises when it is read, by whatever name."""

    def __init__(self, name: str, error: BaseException) -> None:
        self.name, self.error = name, error

    def __getattr__(self, name: str) -> Any:
        if name in (self.name, "__dlpack_device__"):
            raise self.error
        raise AttributeError(name)


def made(**members: Any) -> Any:
    return type("Lies", (), members)()


FOREIGN = [
    made(__array__=lambda *_a, **_k: 3),
    made(__array__=lambda *_a, **_k: (_ for _ in ()).throw(RuntimeError("boom"))),
    made(__dlpack__=lambda *_a, **_k: 3, __dlpack_device__=lambda _s: None),
    made(__dlpack__=lambda *_a, **_k: "x", __dlpack_device__=lambda _s: (1, 0)),
    made(__array_interface__={"shape": (-1,), "typestr": "zz", "version": 3}),
    made(__array_interface__=3),
    Raises("__array_interface__", ZeroDivisionError("boom")),
    Raises("__dlpack__", OSError("boom")),
    np.ndarray,
    int,
    object(),
    None,
    "text",
    [1.0],
    1 + 2j,
    10**400,
    np.array(["a"]),
    np.array([object()]),
    np.datetime64("2020"),
]


@pytest.mark.parametrize("value", FOREIGN, ids=lambda v: type(v).__name__)
def test_what_is_no_array_is_refused_as_argument_buffer_and_weight(rows: pliant.Executable, value: Any) -> None:
    with pytest.raises(pliant.CallError):
        rows(ones(2, 4), value)
    if value is not None:
        with pytest.raises(pliant.CallError):
            rows(ones(2, 4), ones(2), out=value)
    with pytest.raises(LoadError):
        pliant.compile(
            "weight @w: f32[h] func @main(x: f32[h]) -> f32[h] { y = add(x, @w) return y }", weights={"w": value}
        )


def test_what_ends_the_program_is_not_taken_for_a_fault_of_the_argument(rows: pliant.Executable) -> None:
    with pytest.raises(KeyboardInterrupt):
        rows(ones(2, 4), Raises("__dlpack__", KeyboardInterrupt()))


MISUSES: list[tuple[Callable[[pliant.Executable], Any], type[PliantError], str]] = [
    (lambda e: e[3], ArgumentError, "by its name, not by a int"),
    (lambda e: e[None], ArgumentError, "by its name"),
    (lambda _e: pliant.load("a\0b"), LoadError, "NUL"),
    (lambda _e: pliant.load(3), LoadError, "by its path, not by a int"),
    (lambda e: e.save("a\0b"), SaveError, "NUL"),
    (lambda e: e.save(None), SaveError, "by its path"),
    (lambda e: e.with_weights(3), LoadError, "a mapping of names"),
    (lambda _e: pliant.parse(None), CompileError, "a program is text"),
    (lambda _e: pliant.parse(b"x"), CompileError, "a program is text"),
    (lambda _e: pliant.compile(None), CompileError, "not of the type NoneType"),
    (lambda _e: pliant.compile(lambda: 3), CompileError, "not of the type function"),
    (lambda _e: pliant.compile(Path("a\0b")), CompileError, "is no path"),
    (lambda _e: pliant.compile("y = relu(x)"), CompileError, "neither a program nor the path of one"),
    (lambda _e: pliant.compile("missing.ir"), CompileError, "cannot read missing.ir"),
    (lambda _e: pliant.compile(RELU, target=None), CompileError, "a target is text"),
    (lambda _e: pliant.compile(RELU, opt="O3"), CompileError, "`opt` is 0, 1, 2 or 3"),
    (lambda _e: pliant.compile(RELU, opt=9), CompileError, "`opt` is 0, 1, 2 or 3"),
    (lambda _e: pliant.compile(RELU, weights=3), LoadError, "a mapping of names"),
    (lambda _e: pliant.compile(RELU, dims=3), CompileError, "sizes are given by name"),
    (lambda _e: pliant.compile(RELU, dims={"n": -1}), CompileError, "the size of `n` is given as -1"),
    (lambda _e: pliant.compile(RELU, dims={"k": 1}), CompileError, "there is no symbol `k`"),
    (lambda _e: pliant.compile(RELU, progress=3), CompileError, "`progress` is to be called"),
    (lambda _e: pliant.set_num_threads("x"), ArgumentError, "a whole number in 1..1024"),
    (lambda _e: pliant.set_num_threads(2.5), ArgumentError, "a whole number in 1..1024"),
    (lambda _e: pliant.set_num_threads(0), PliantError, "must be in 1..1024"),
]


@pytest.mark.parametrize(("use", "kind", "said"), MISUSES, ids=[said for *_, said in MISUSES])
def test_a_misuse_is_an_error_of_ours(
    rows: pliant.Executable, use: Callable[[pliant.Executable], Any], kind: type[PliantError], said: str
) -> None:
    with pytest.raises(kind, match=said):
        use(rows)


def test_sizes_are_checked_before_an_argument_is_copied(rows: pliant.Executable, update: pliant.Executable) -> None:
    """4 TiB that no memory holds: what is said is the fact, not that there is no memory."""
    for exe in (rows, update):
        with pytest.raises(ShapeError, match=r"dimension 0 is 1048576, but n in 0\.\.2000"):
            exe(np.broadcast_to(F32(1), (1 << 20, 1 << 20)), ones(3))
    with pytest.raises(ShapeError, match="dimension 0 is 3, expected n = 2000"):
        rows(np.broadcast_to(F32(1), (2000, 2000)), ones(3))


def test_a_copy_that_no_memory_holds_is_said() -> None:
    free = pliant.compile("func @main(x: f32[n, m]) -> f32[n] { s = sum(x, axis=1) return s }")
    with pytest.raises(SizeError, match="argument `x` of @main must be copied"):
        free(np.broadcast_to(F32(1), (1 << 10, 1 << 50)))


def test_large_strided_arguments_are_read_as_they_are(rows: pliant.Executable, update: pliant.Executable) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1500, 600)).astype(F32).T
    y = rng.standard_normal(2 * 600).astype(F32)[::2]
    np.testing.assert_allclose(rows(x, y), x.sum(1) + y, rtol=1e-4, atol=1e-4)
    c = ones(600)
    np.testing.assert_allclose(update(x[:, ::-1], c), x.sum(1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(c, x.sum(1), rtol=1e-4, atol=1e-4)
    wide = np.zeros((1500, 1200), F32)
    np.testing.assert_array_equal(rows(wide.T[:600], ones(600)), ones(600))


def test_a_misaligned_array_is_called_misaligned(rows: pliant.Executable, update: pliant.Executable) -> None:
    crooked = np.zeros(4 * 3 + 1, np.uint8)[1:].view(F32)
    for call in (lambda: update(ones(3, 2), crooked), lambda: rows(ones(3, 2), ones(3), out=crooked)):
        with pytest.raises(LayoutError, match="misaligned") as caught:
            call()
        assert "contiguous" not in str(caught.value)
    np.testing.assert_array_equal(rows(ones(3, 2), crooked), 2 * ones(3))


def test_a_python_number_that_the_type_cannot_hold_is_refused() -> None:
    scale = pliant.compile("func @main(x: f32[n], s: f32[]) -> f32[n] { y = mul(x, s) return y }")
    for value in (1e300, -1e300, 3.5e38, 10**400):
        with pytest.raises(pliant.DTypeError, match="float32 cannot hold"):
            scale(ones(2), value)
    assert scale(ones(2), float("inf")).tolist() == [np.inf, np.inf]
    assert np.isnan(scale(ones(2), float("nan"))).all()
    assert scale(ones(2), 1e-300).tolist() == [0.0, 0.0]


def test_views_that_torch_negates_or_conjugates_are_resolved(
    rows: pliant.Executable, update: pliant.Executable
) -> None:
    torch = pytest.importorskip("torch")
    pairs = torch.complex(torch.arange(3.0), torch.arange(3.0, 6.0))
    negated = pairs.conj().imag
    assert negated.is_neg()
    torch.testing.assert_close(rows(torch.ones(3, 2), negated), 2 + negated)
    with pytest.raises(LayoutError, match=r"pass x\.resolve_neg\(\)"):
        update(torch.ones(3, 2), negated)
    with pytest.raises(pliant.DTypeError, match=r"pass x\.to\(torch\.float32\)"):
        rows(torch.ones(3, 2), torch.ones(3).double())
