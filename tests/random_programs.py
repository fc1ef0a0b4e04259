"""Random typed programs of elementwise operators, and arrays of awkward values for them (a hypothesis strategy)."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

FLOATS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, math.inf, -math.inf, math.nan, 3e38, 1e-40)
INTS = (0, 1, -1, 2, 3, -(2**31), 2**31 - 1)
UNARY_F = ("neg", "abs", "floor", "ceil", "round", "trunc", "sign", "relu", "square", "exp", "cos")
UNARY_I = ("neg", "abs", "sign", "square", "bitwise_not")
BINARY_F = ("add", "sub", "mul", "div", "maximum", "minimum")
BINARY_I = ("add", "sub", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor")
CASTS = ("f64", "f16", "bf16", "i32", "i64", "i8", "bool", "f32")


ROUNDED = ("exp", "cos", "div")
"""What is rounded by each implementation in its own way, or tells the zeros apart."""


@st.composite
def programs(draw: st.DrawFn, rounded: bool = True) -> str:
    """The text of `@main(x: f32[n], y: f32[n], i: i32[n], j: i32[n])`, returning some of its values.

    Without `rounded` only of operators whose results are the same in every correct implementation, but for the sign
    of a zero.
    """
    floats, ints = ["x", "y"], ["i", "j"]
    unary_f, binary_f = (tuple(op for op in ops if rounded or op not in ROUNDED) for ops in (UNARY_F, BINARY_F))
    forms = ["unary", "unary", "binary", "literal", "literal", "where", "cast", "alias"] + ["pow"] * rounded
    lines = []
    for number in range(draw(st.integers(1, 12))):
        name = f"v{number}"
        pool, unary, binary, numbers = draw(
            st.sampled_from([(floats, unary_f, binary_f, FLOATS), (ints, UNARY_I, BINARY_I, INTS)])
        )
        value = st.sampled_from(pool)
        form = draw(st.sampled_from(forms))
        if form == "unary":
            lines.append(f"{name} = {draw(st.sampled_from(unary))}({draw(value)})")
        elif form == "binary":
            lines.append(f"{name} = {draw(st.sampled_from(binary))}({draw(value)}, {draw(value)})")
        elif form == "literal":
            pair = [draw(value), str(draw(st.sampled_from(numbers)))]
            if draw(st.booleans()):
                pair.reverse()
            lines.append(f"{name} = {draw(st.sampled_from(binary))}({', '.join(pair)})")
        elif form == "where":
            lines.append(f"{name}c = lt({draw(value)}, {draw(value)})")
            lines.append(f"{name} = where({name}c, {draw(value)}, {draw(value)})")
        elif form == "alias":
            lines.append(f"{name} = {draw(value)}")
        elif form == "pow" and pool is floats:
            lines.append(f"{name} = pow({draw(value)}, {draw(st.sampled_from([1.0, 2.0, 3.0]))})")
        else:
            start = draw(value)
            through = draw(st.lists(st.sampled_from(CASTS), min_size=1, max_size=2))
            for k, dtype in enumerate([*through, "f32" if pool is floats else "i32"]):
                lines.append(f"{name}_{k} = cast({start}, dtype={dtype})")
                start = f"{name}_{k}"
            lines.append(f"{name} = {start}")
        pool.append(name)
    results = draw(st.lists(st.sampled_from(floats + ints), min_size=1, max_size=4))
    types = ", ".join("f32[n]" if r in floats else "i32[n]" for r in results)
    body = "\n".join(f"    {line}" for line in lines)
    head = f"func @main(x: f32[n], y: f32[n], i: i32[n], j: i32[n]) -> {types}"
    return f"{head} {{\n{body}\n    return {', '.join(results)}\n}}\n"


def awkward_arrays(seed: int, size: int = 24) -> list[np.ndarray]:
    """x, y, i, j with every special value among theirs."""
    rng = np.random.default_rng(seed)
    floats = [rng.choice(np.array(FLOATS, np.float32), size) for _ in range(2)]
    return [*floats, *(rng.choice(np.array(INTS, np.int32), size) for _ in range(2))]


def assert_same_bits(got: np.ndarray, want: np.ndarray) -> None:
    """Equal dtype, shape and values; -0.0 is not 0.0, and NaN is NaN."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)
    if want.dtype.kind == "f":
        numbers = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])
