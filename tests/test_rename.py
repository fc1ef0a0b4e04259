"""Symbols under other names: the same program, wherever a symbol may stand."""

from __future__ import annotations

import pytest

from pliant.ir.diagnostics import CompileError
from pliant.ir.parser import parse_module
from pliant.ir.printer import print_module
from pliant.passes.graph.rename import rename_symbols

PROGRAM = """
weight @w: f32[A, 4*B] where A in 1..64

func @main(x: f32[B + A, A], y: f32[*], t: i64[], inout cache: f32[B, 2]) -> f32[A, B + A]
    where B in 0..32, B % 2 == 0, A <= B + 8
    likely B = 2, 4
{
    bind C = t where C in 0..B
    r = match_cast(y) : f32[D, A]
    p = permute(x, axes=[1, 0])
    z = slice(p, axis=1, start=0, stop=B + A)
    s = mul(z, B)
    n = add(s, C)
    return n
}
"""
PROGRAM = PROGRAM.replace("r = match_cast(y) : f32[D, A]", "r: f32[D, A] = match_cast(y) where D <= B")


def named(**names: str) -> str:
    text = PROGRAM
    for old, new in names.items():
        text = text.replace(old, new)
    return print_module(parse_module(text))


def test_every_place_of_a_symbol_is_renamed() -> None:
    old = parse_module(named(A="s1", B="s2", C="u0", D="u1"))
    new = rename_symbols(old, {"s1": "h", "s2": "length", "u0": "start", "u1": "rows"})
    assert print_module(new) == named(A="h", B="length", C="start", D="rows")


def test_names_may_be_exchanged() -> None:
    old = parse_module(named(A="a", B="b", C="c", D="d"))
    swapped = rename_symbols(old, {"a": "b", "b": "a"})
    step = rename_symbols(rename_symbols(rename_symbols(old, {"a": "q"}), {"b": "a"}), {"q": "b"})
    assert swapped == step
    assert swapped != old


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"k": "n1"}, "there is no symbol `k` to rename"),
        ({"a": "b"}, "`a` cannot be called `b`"),
        ({"a": "x"}, "`a` cannot be called `x`"),
        ({"a": "q", "b": "q"}, "cannot be called `q`"),
    ],
)
def test_a_name_that_is_taken_or_unknown_is_refused(names: dict[str, str], said: str) -> None:
    with pytest.raises(CompileError, match=said):
        rename_symbols(parse_module(named(A="a", B="b", C="c", D="d")), names)
