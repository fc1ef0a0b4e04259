"""Compiling keeps nothing: the process is as large after hundreds of programs as after the first few."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

import pliant


def resident() -> int:
    """Bytes of memory that the process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")
def test_compiling_hundreds_of_programs_is_flat() -> None:
    sizes = []
    for i in range(300):
        pliant.compile(
            f"""func @main(x: f32[n, {4 + i % 50}], y: f32[m, n]) -> f32[m, {4 + i % 50}] where n in 1..{100 + i} {{
                a = softmax(x, axis=1)
                b = matmul(y, a)
                c = add(b, {i}.0)
                return c
            }}""",
            opt=0,
        )
        if i % 50 == 49:
            gc.collect()
            sizes.append(resident())
    assert sizes[-1] - sizes[0] < 250 * 20_000  # 300 KB and more a program were kept before
