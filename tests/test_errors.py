"""One tree of errors, and what they say as data."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

import pliant
from pliant.errors import PliantError
from pliant.passes.pass_base import PassError
from pliant.passes.planner.errors import PlanError

F32 = np.float32
ROWS = """
func @main(x: f32[n, 4], y: f32[n], k: i64[]) -> f32[n]
    where n in 1..8, n % 2 == 0
{
    bind r = k where r <= n
    s = sum(x, axis=1)
    z = add(s, y)
    return z
}
"""


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, F32)


@pytest.fixture(scope="module")
def exe() -> pliant.Executable:
    return pliant.compile(ROWS)


def test_every_error_is_a_pliant_error_and_can_be_had_from_pliant() -> None:
    names = [n for n in dir(pliant) if n.endswith("Error")]
    assert {"CompileError", "PassError", "LoadError", "CallError", "ShapeError", "VerifyError"} <= set(names)
    assert all(issubclass(getattr(pliant, name), pliant.PliantError) for name in names)
    assert issubclass(PlanError, pliant.CompileError)


def test_what_is_public_is_listed_and_described() -> None:
    for name in dir(pliant):
        assert name == "__version__" or (getattr(pliant, name).__doc__ or "").strip(), name
    assert "compile" in dir(pliant)
    assert "TYPE_CHECKING" not in dir(pliant)


def fields(error: Any) -> tuple[Any, ...]:
    return error.argument, error.dimension, error.symbol, error.expected, error.got


@pytest.mark.parametrize(
    ("args", "kind", "wanted"),
    [
        ((ones(2, 4, 1), ones(2), 0), pliant.ShapeError, ("x", None, None, 2, 3)),
        ((ones(2, 5), ones(2), 0), pliant.ShapeError, ("x", 1, None, 4, 5)),
        ((ones(2, 4), ones(4), 0), pliant.ShapeError, ("y", 0, "n", 2, 4)),
        ((ones(10, 4), ones(10), 0), pliant.ShapeError, ("x", 0, "n", "n in 1..8", 10)),
        ((ones(3, 4), ones(3), 0), pliant.ShapeError, ("x", 0, "n", "n % 2 == 0", 3)),
        ((ones(2, 4), ones(2), 3), pliant.ShapeError, ("k", None, "r", "r <= n", 3)),
        ((ones(2, 4).astype(np.float64), ones(2), 0), pliant.DTypeError, ("x", None, None, "float32", "float64")),
        ((ones(2, 4), "no", 0), pliant.ArgumentError, ("y", None, None, "f32[n]", "a str")),
        ((ones(2, 4), ones(2), 1.5), pliant.DTypeError, ("k", None, None, "int64", "float")),
    ],
)
def test_a_refused_call_has_its_parts_as_fields(
    exe: pliant.Executable, args: tuple[Any, ...], kind: type[pliant.RefusalError], wanted: tuple[Any, ...]
) -> None:
    with pytest.raises(kind) as caught:
        exe(*args)
    error = caught.value
    assert fields(error) == wanted
    assert json.loads(json.dumps(error.to_dict())) == {
        "error": kind.__name__,
        "message": str(error),
        **error.fields(),
    }
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert again.to_dict() == error.to_dict()


def test_a_fact_is_told_with_what_bound_its_symbol(exe: pliant.Executable) -> None:
    with pytest.raises(pliant.ShapeError) as caught:
        exe(ones(10, 4), ones(10), 0)
    assert caught.value.fact == "n in 1..8"
    assert caught.value.bound_by == "x: f32[n, 4] at <text>:2:12"


def test_a_refused_weight_has_fields_too() -> None:
    text = "weight @w: f32[h] where h in 1..4 func @main(x: f32[h]) -> f32[h] { y = add(x, @w) return y }"
    with pytest.raises(pliant.LoadError) as caught:
        pliant.compile(text, weights={"w": ones(5)})
    assert fields(caught.value) == ("w", 0, "h", "h in 1..4", 5)
    with pytest.raises(pliant.LoadError) as wrong:
        pliant.compile(text, weights={"w": np.ones(3)})
    assert fields(wrong.value) == ("w", None, None, "float32", "float64")


def test_a_refused_program_has_its_diagnostics_as_data() -> None:
    with pytest.raises(pliant.CompileError) as caught:
        pliant.compile("func @main(x: f32[n]) -> f32[n] { y = rleu(x) return y }")
    data = json.loads(json.dumps(caught.value.to_dict()))
    assert data["error"] == "CompileError"
    assert [(d["line"], d["column"], d["message"]) for d in data["diagnostics"]] == [
        (1, 39, "there is no operator `rleu`")
    ]
    assert PassError("cse", None, "why").to_dict()["pass"] == "cse"
    assert isinstance(caught.value, PliantError)
