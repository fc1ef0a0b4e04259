"""Interleaved timing in one process: rounds that alternate between the contestants, medians and their ratios."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping

_SLOWING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def without_slow_blas() -> None:
    """Starts the script again without the variables that make numpy's BLAS pick an old kernel."""
    if any(name in os.environ for name in _SLOWING):
        kept = {k: v for k, v in os.environ.items() if k not in _SLOWING}
        os.execve(sys.executable, [sys.executable, *sys.argv], kept)


def interleaved(
    contestants: Mapping[str, Callable[[], object]], rounds: int = 15, target_s: float = 0.02
) -> dict[str, float]:
    """Median seconds a call of each; every round times each contestant for about `target_s`."""
    repeats = {}
    for name, call in contestants.items():
        call()
        start = time.perf_counter()
        call()
        once = max(time.perf_counter() - start, 1e-7)
        repeats[name] = max(1, int(target_s / once))
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            count = repeats[name]
            call()
            start = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append((time.perf_counter() - start) / count)
    return {name: statistics.median(found) for name, found in times.items()}
