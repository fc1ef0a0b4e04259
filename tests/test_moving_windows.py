"""Convolutions all of whose sizes move, the kernel's too: divisions by sizes under the conditions of guarded reads."""

from __future__ import annotations

import numpy as np
import pytest

from pliant.compiler.driver import compile as compile_module
from pliant.ir.interpret import interpret
from pliant.ir.parser import parse_module

TRANSPOSED = """
func @main(x: f32[1, c, s], w: f32[c, d, k]) -> f32[1, d, s + k - 1]
    where 1 <= k
{
    y = conv_transpose(x, w)
    return y
}
"""

SAME = """
func @main(x: f32[b, 2, s], w: f32[d, 1, k]) -> f32[b, d, s]
    where 1 <= k, d % 2 == 0
{
    wide = pad(x, pads=[[0, 0], [0, 0], [k - 1, k - 1]])
    y = conv(wide, w, dilation=[2], groups=2)
    return y
}
"""


@pytest.mark.parametrize("opt", [0, 1])
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (TRANSPOSED, [((1, 5, 6), (5, 9, 4)), ((1, 12, 15), (12, 24, 9)), ((1, 1, 1), (1, 1, 1))]),
        (SAME, [((2, 2, 4), (2, 1, 4)), ((4, 2, 9), (4, 1, 8)), ((3, 2, 5), (6, 1, 1))]),
    ],
)
def test_a_window_whose_size_moves(text: str, shapes: list[tuple[tuple[int, ...], ...]], opt: int) -> None:
    module = parse_module(text)
    exe = compile_module(module, opt=opt)
    rng = np.random.default_rng(0)
    for sizes in shapes:
        given = [rng.normal(size=s).astype(np.float32) for s in sizes]
        (want,) = interpret(module, "main", given)
        np.testing.assert_allclose(exe(*given), want, rtol=1e-4, atol=1e-4)
