"""What a call costs above its kernels: `python benchmarks/overhead.py`.

Calls functions whose kernels have nothing to do (empty arrays, then four elements) with one and with eight arguments,
checks and allocation of the result included, and prints microseconds: the median and the least over interleaved rounds.
numpy's `x + 1`, and torch's if it is installed, stand beside them for scale.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.runtime_programs import executable, rows, sum_ir, sum_of

# Short rounds fit into a time slice, so that a busy machine spoils few of them.
ROUNDS, CALLS = 201, 200


def measure(cases: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Microseconds for each call, by case, one number for each round."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                case()
            times[name].append((time.perf_counter() - start) / CALLS * 1e6)
    return times


def cases() -> dict[str, Callable[[], Any]]:
    one, eight = executable(sum_of(1), sum_ir(1)), executable(sum_of(8), sum_ir(8))
    x, empty = rows(1).reshape(-1), rows(0).reshape(-1)
    out = np.empty_like(x)
    found: dict[str, Callable[[], Any]] = {
        "nothing (a call of a lambda)": lambda: None,
        "numpy x + 1": lambda: x + 1,
        "1 argument, empty": lambda: one(empty),
        "1 argument": lambda: one(x),
        "1 argument, by name": lambda: one(a0=x),
        "1 argument, out=": lambda: one(x, out=out),
        "8 arguments, empty": lambda: eight(*[empty] * 8),
        "8 arguments": lambda: eight(x, x, x, x, x, x, x, x),
    }
    try:
        import torch
    except ImportError:
        return found
    t = torch.from_numpy(x)
    found["torch x + 1"] = lambda: t + 1
    found["1 argument, torch"] = lambda: one(t)
    found["8 arguments, torch"] = lambda: eight(t, t, t, t, t, t, t, t)
    return found


def main() -> None:
    times = measure(cases())
    print(f"{'microseconds a call':32} {'median':>8} {'least':>8}")
    for name, values in times.items():
        print(f"{name:32} {statistics.median(values):8.2f} {min(values):8.2f}")


if __name__ == "__main__":
    main()
