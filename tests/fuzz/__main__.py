"""`python -m tests.fuzz FIRST STOP [--narrow] [--jobs N]`: many seeds, each block of them in a process of its own.

A compiler that ends the process ends one block, which is reported.  The exit status is 1 where anything was wrong.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from .calls import Wrong, check, check_together
from .programs import NARROW, Program, Style, program

NARROW_STYLE = Style((5, 12), NARROW, 3, plain=True)
BLOCK = 50
TOGETHER = 20


def run(first: int, stop: int, narrow: bool) -> tuple[int, list[str]]:
    """Compares the programs of some seeds; how many arrays, and what was wrong."""
    style = NARROW_STYLE if narrow else Style()
    made = [p for p in (program(seed, style) for seed in range(first, stop)) if p is not None]
    if not narrow:
        return _each(made)
    compared, wrong = 0, list[str]()
    for number, i in enumerate(range(0, len(made), TOGETHER)):
        some = made[i : i + TOGETHER]
        opt = 2 if (first // BLOCK + number) % 10 == 0 else 0
        try:
            compared += check_together(some, opt)
        except Wrong:  # one at a time, to tell which
            count, faults = _each(some)
            compared, wrong = compared + count, [*wrong, *(faults or [f"seeds {first}..{stop}: wrong together only"])]
    return compared, wrong


def _each(programs: list[Program]) -> tuple[int, list[str]]:
    compared, wrong = 0, []
    for p in programs:
        try:
            compared += check(p)
        except Wrong as fault:
            wrong.append(str(fault))
    return compared, wrong


def _block(first: int, stop: int, narrow: bool) -> tuple[int, str]:
    """A block in a process of its own: what it compared, and its output where it was wrong."""
    command = [sys.executable, "-m", "tests.fuzz", str(first), str(stop), *(["--narrow"] if narrow else [])]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    count = ended.stdout.rpartition("compared ")[2].split(" ")[0]
    text = "" if ended.returncode == 0 else f"seeds {first}..{stop}, status {ended.returncode}: "
    return int(count) if count.isdigit() else 0, text and text + ended.stdout + ended.stderr[-2000:]


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("stop", type=int)
    parser.add_argument("--narrow", action="store_true", help="small programs of element types with few digits")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    starts = range(given.first, given.stop, BLOCK)
    if len(starts) <= 1:
        compared, wrong = run(given.first, given.stop, given.narrow)
    else:
        with ThreadPoolExecutor(given.jobs) as pool:
            blocks = list(pool.map(lambda s: _block(s, min(s + BLOCK, given.stop), given.narrow), starts))
        compared, wrong = sum(count for count, _ in blocks), [text for _, text in blocks if text]
    summary = f"seeds {given.first}..{given.stop}: compared {compared} arrays, {len(wrong)} wrong"
    sys.stdout.write("\n".join([*wrong, summary, ""]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
