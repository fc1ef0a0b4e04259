"""500 symbols in one function: how long do facts take to build, to prove with and to refuse?

Run: python benchmarks/symbols.py [SYMBOLS]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import pairwise

from pliant.ir.dims import Dim
from pliant.ir.dims_solve import Solution, solve
from pliant.ir.facts import Compare, Facts, InRange


def timed(what: str, action: Callable[[], object]) -> object:
    start = time.perf_counter()
    result = action()
    print(f"{what:<66} {1e3 * (time.perf_counter() - start):9.1f} ms")
    return result


def must(outcomes: list[bool], expected: bool = True) -> None:
    wrong = [i for i, outcome in enumerate(outcomes) if outcome is not expected]
    if wrong:
        raise SystemExit(f"{'not proven' if expected else 'wrongly proven'}: {wrong[:10]}")


def chain(count: int) -> None:
    """s0 <= s1 <= ... <= 4096: bounds flow along it, and its ends are compared by one proof of `count` steps."""
    s = [Dim.of(f"s{i}") for i in range(count)]
    known = [Compare("<=", x, y) for x, y in pairwise(s)] + [InRange(s[-1], 0, 4096)]
    facts = Facts(known)
    timed(f"chain of {count} `<=`: learn, first proof", lambda: must([facts.prove_le(s[0], s[1])]))
    timed("chain: its ends compared", lambda: must([facts.prove_le(s[0], s[-1])]))
    timed("chain: bounds of each", lambda: must([facts.bounds(x) == (0, 4096) for x in s]))
    timed("chain: each next pair refused (<)", lambda: must([facts.prove_lt(x, y) for x, y in pairwise(s)], False))
    timed("chain: no contradiction", lambda: must([facts.contradiction() is None]))
    closed = Facts([*known, Compare("<", s[count // 2 + 9], s[count // 2])])
    timed("chain with a cycle of 10: smallest conflict", lambda: must([len(closed.contradiction() or ()) == 10]))


def equalities(count: int) -> None:
    """t[i+1] == t[i] + p[i], and every t in multiples of 8: what concatenation and padding give."""
    t = [Dim.of(f"t{i}") for i in range(count)]
    p = [Dim.of(f"p{i}") for i in range(count)]
    facts = Facts(Compare("==", y, x + q) for x, y, q in zip(t, t[1:], p, strict=False))
    timed(f"sums t[i+1] == t[i] + p[i], {2 * count} symbols: learn", lambda: must([facts.prove_eq(t[1] - t[0], p[0])]))
    timed("sums: t[0] <= t[i] for all i", lambda: must([facts.prove_le(t[0], x) for x in t]))
    timed("sums: t[i] <= t[0] refused for all i", lambda: must([facts.prove_le(x, t[0]) for x in t[1:]], False))


def independent(count: int) -> None:
    """Every symbol with bounds and a divisor, as a big model declares them."""
    n = [Dim.of(f"n{i}") for i in range(count)]
    facts = Facts(f for x in n for f in (InRange(x, 0, 1024), Compare("==", x % 8, 0)))
    timed(f"{count} symbols in 0..1024, multiples of 8: learn", lambda: must([facts.prove_divisible(n[0], 8)]))
    timed("multiples: n[i]*n[i+1] % 64 == 0", lambda: must([facts.prove_divisible(x * y, 64) for x, y in pairwise(n)]))
    timed("multiples: simplify 8*(n//8)", lambda: must([facts.simplify(8 * (x // 8)) == x for x in n]))
    timed("multiples: n[i] == n[i+1] refused", lambda: must([facts.prove_eq(x, y) for x, y in pairwise(n)], False))


def scopes(count: int) -> None:
    """One scope a statement: `add` to a large collection, and a question in each, as type inference asks them."""
    n = [Dim.of(f"n{i}") for i in range(count)]
    facts = Facts([InRange(x, 0, 1024) for x in n])

    def grow() -> None:
        now = facts
        for i, x in enumerate(n):
            k = Dim.of(f"k{i}")
            now = now.add(Compare("<=", k, x))
            must([now.prove_le(k, 1024), not now.prove_eq(k, x)], True)

    timed(f"{count} scopes, one fact and two questions in each", grow)

    def loops() -> None:
        i, j = Dim.of("i"), Dim.of("j")
        for x, y in pairwise(n):
            now = facts.add(Compare("<", i, x), Compare("<", j, y))
            must(
                [
                    now.simplify((i * y + j) // y) == i,
                    now.simplify((i * y + j) % y) == j,
                    now.prove_lt(i * y + j, x * y),
                ]
            )

    timed(f"{count} loop nests: index simplified and bounded", loops)


def parameters(count: int) -> None:
    n = [Dim.of(f"n{i}") for i in range(count)]
    slots = [(f"x{i}.{j}", d) for i, (x, y) in enumerate(pairwise(n)) for j, d in enumerate((x + y, 2 * x))]
    timed(f"{len(slots)} sizes of {count} symbols solved", lambda: must([isinstance(solve(slots), Solution)]))


def arithmetic() -> None:
    n, i, j = map(Dim.of, ("n", "i", "j"))
    index = 64 * i + j
    for what, action in {
        "n + j": lambda: n + j,
        "(64*i + j) * n": lambda: index * n,
        "(64*i + j) // 64": lambda: index // 64,
        "(64*i + j) % 64": lambda: index % 64,
        "min(n, 64*i + j)": lambda: Dim.min(n, index),
    }.items():
        start = time.perf_counter()
        for _ in range(2000):
            action()
        print(f"{what:<66} {1e6 * (time.perf_counter() - start) / 2000:9.2f} us")


if __name__ == "__main__":
    symbols = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    for part in (chain, equalities, independent, scopes, parameters):
        part(symbols)
    arithmetic()
