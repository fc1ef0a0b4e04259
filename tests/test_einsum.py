"""`einsum` sums products: of nothing the sum is 0, and inf and NaN are what the products make of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pliant.compiler.driver import compile
from pliant.ir.build import ModuleBuilder
from pliant.ir.interpret import interpret

EQUATIONS = {
    "a,c->": ("n", "m"),
    "ab,c->a": ("nm", "n"),
    "ab,bc->": ("nm", "mn"),
    "ab,bc->a": ("nm", "mn"),
    "abc,bd->ad": ("nmn", "mn"),
    "ab,cd->ac": ("nm", "mn"),
    "ab,ab->b": ("nm", "nm"),
    "ii,j->i": ("nn", "m"),
    "...a,b...->...": ("nm", "nn"),
}
SPECIAL = np.array([np.inf, -np.inf, 0, 1, -1, 2, np.nan], np.float32)


def sum_of_products(equation: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Element by element, by the definition."""
    left, result = equation.replace("...", "z").split("->")
    labels = left.split(",")
    sizes = {c: s for term, array in zip(labels, (x, y), strict=True) for c, s in zip(term, array.shape, strict=True)}
    out = np.zeros([sizes[c] for c in result])
    for point in itertools.product(*(range(s) for s in sizes.values())):
        at = dict(zip(sizes, point, strict=True))
        a, b = (array[tuple(at[c] for c in term)] for term, array in zip(labels, (x, y), strict=True))
        out[tuple(at[c] for c in result)] += float(a) * float(b)
    return out


@pytest.mark.parametrize("equation", EQUATIONS)
def test_special_values_and_empty_operands(equation: str) -> None:
    shapes = EQUATIONS[equation]
    builder = ModuleBuilder()
    params = {f"x{i}": f"f32[{', '.join(shape)}]" for i, shape in enumerate(shapes)} | {"z": "f32[n, m]"}
    f = builder.function("main", params=params)
    f.returns(f.einsum(f.x0, f.x1, equation=equation))
    module = builder.build()
    exe = compile(module, opt=1)
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        for n, m in [(2, 0), (0, 2), (1, 1), *((2, 3),) * 20]:
            arrays = [rng.choice(SPECIAL, [{"n": n, "m": m}[c] for c in shape]) for shape in shapes]
            given = [*arrays, np.zeros((n, m), np.float32)]
            want = sum_of_products(equation, *arrays)
            np.testing.assert_array_equal(exe(*given), want)
            np.testing.assert_array_equal(interpret(module, "main", given)[0], want)


def test_the_sum_of_nothing_is_not_infinite() -> None:
    exe = compile("""
        func @main(x: f32[n], y: f32[m]) -> f32[] {
            s = einsum(x, y, equation="a,c->")
            return s
        }""")
    assert exe(np.array([np.inf], np.float32), np.zeros(0, np.float32)) == 0
    assert exe(np.array([3e38, 3e38], np.float32), np.array([0.1], np.float32)) == np.float32(6e37)
