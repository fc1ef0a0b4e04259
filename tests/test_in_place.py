"""Results written over operands: where it is legal the plan does it, and answers stay right."""

from __future__ import annotations

import numpy as np
import pytest

import pliant
from pliant.compiler.codegen.llvm import resolve
from pliant.compiler.driver import Compilation
from pliant.compiler.target import Target
from pliant.ir.interpret import interpret


def compilation(body: str) -> Compilation:
    text = f"weight @w : f32[64, 64]\nfunc @main(x: f32[n, 64]) -> f32[n, 64] where n in 0..300 {{ {body} }}"
    return Compilation(pliant.parse(text), resolve(Target.parse("cpu")), opt=1)


def in_place(c: Compilation) -> dict[str, str]:
    return {line.buffer.name: line.in_place_of for line in c.lowered.plans["main"].lines if line.in_place_of}


RESIDUAL = """
  a = matmul(x, @w)
  s = softmax(a)
  b = matmul(s, @w)
  r = add(a, b)
  c = layer_norm(r)
  d = matmul(c, @w)
  return d
"""
TRANSPOSED = """
  a = matmul(x, @w)
  p = matmul(a, @w)
  t = permute(a, axes=[1, 0])
  u = matmul(t, p)
  v = matmul(p, u)
  return v
"""
SQUARE = """
  a = matmul(x, @w)
  b = matmul(a, @w)
  c = add(a, b)
  d = matmul(c, @w)
  return d
"""
FLIPPED = """
  a = matmul(x, @w)
  f = flip(a, axis=[0])
  b = add(a, f)
  c = softmax(b, axis=0)
  d = matmul(c, @w)
  return d
"""


@pytest.mark.parametrize("body", [RESIDUAL, TRANSPOSED, SQUARE, FLIPPED])
def test_answers(body: str) -> None:
    c = compilation(body)
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((64, 64)).astype(np.float32) / 8}
    exe = pliant.Executable(c.artifact(weights))
    for n in (0, 1, 7, 300):
        x = rng.standard_normal((n, 64)).astype(np.float32)
        (want,) = interpret(c.module, "main", [x], weights)
        np.testing.assert_allclose(exe(x), want, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(want).max(initial=0))))


def test_residual_is_added_in_place() -> None:
    assert in_place(compilation(RESIDUAL)) == {"r": "a", "c": "r"}


def test_operand_of_the_product_is_not_overwritten() -> None:
    # The sum is the epilogue of `matmul(a, @w)`, which still reads other rows of a.
    assert in_place(compilation(SQUARE)) == {}


def test_value_read_elsewhere_too_is_not_overwritten() -> None:
    assert "b" not in in_place(compilation(FLIPPED))
