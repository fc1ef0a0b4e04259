"""The settings a process is started with: the one place of the runtime that reads the environment."""

from __future__ import annotations

import os
from operator import index

from .errors import ArgumentError, PliantError

THREADS_VARIABLE = "PLIANT_NUM_THREADS"
MAX_THREADS = 1024


def threads_at_start() -> int:
    """PLIANT_NUM_THREADS, or as many threads as there are processors that this process may use.

    PliantError when the variable is no number in 1..1024.
    """
    text = os.environ.get(THREADS_VARIABLE, "").strip()
    if not text:
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(count, MAX_THREADS)
    if not text.isdecimal():
        raise PliantError(f"{THREADS_VARIABLE} is `{text}`; it must be a number in 1..{MAX_THREADS}")
    return checked_threads(int(text), THREADS_VARIABLE)


def checked_threads(count: int, what: str) -> int:
    """`count` if it is a possible number of threads; PliantError otherwise, ArgumentError for no whole number."""
    try:
        count = index(count)
    except TypeError:
        kind = type(count).__name__
        raise ArgumentError(f"{what} is a {kind}; it must be a whole number in 1..{MAX_THREADS}") from None
    if not 1 <= count <= MAX_THREADS:
        raise PliantError(f"{what} is {count}; it must be in 1..{MAX_THREADS}")
    return count
