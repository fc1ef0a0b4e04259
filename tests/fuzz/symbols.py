"""Random symbols and facts of a program, and the bindings at which it is evaluated and called."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from .numbers import Unwanted

CANDIDATES = (0, 1, 2, 3, 4, 5, 6, 8, 9, 12, 17, 33)


def random_facts(rng: random.Random, names: Sequence[str]) -> list[str]:
    """A few facts of each symbol by itself, at times one of two."""
    facts = []
    for n in names:
        most, kind = rng.choice([1, 2, 3, 5, 8, 12, 33]), rng.random()
        if kind < 0.45:
            facts.append(f"{n} in 0..{most}")
        elif kind < 0.6:
            facts.append(f"{n} in {rng.choice([1, 2])}..{most + 2}")
        elif kind < 0.68:
            facts.append(f"{n} in {{{', '.join(map(str, sorted(rng.sample([0, 1, 2, 4, 6, 9], 3))))}}}")
        elif kind < 0.78:
            facts.append(f"{n} in 1..")
        if rng.random() < 0.2:
            facts.append(f"{n} % {rng.choice([2, 3, 4])} == 0")
    if len(names) > 1 and rng.random() < 0.4:
        a, b = rng.sample(list(names), 2)
        facts.append(rng.choice([f"{a} <= {b}", f"{a} == {b}", f"{a} == {b} + 1", f"{a} == 2*{b}", f"{a} != {b}"]))
    return facts


def holds(fact: str, sizes: Mapping[str, int]) -> bool:
    """Read by Python, not by the compiler."""
    names = {**sizes, "min": min, "max": max}
    if found := re.fullmatch(r"(\w+) in \{(.+)\}", fact):
        return sizes[found[1]] in map(int, found[2].split(","))
    if found := re.fullmatch(r"(\w+) in (\d+)\.\.(\d*)", fact):
        return int(found[2]) <= sizes[found[1]] and (not found[3] or sizes[found[1]] <= int(found[3]))
    return bool(eval(fact, {}, names))


def all_bindings(names: Sequence[str], facts: Sequence[str]) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    """Those that the facts allow among small sizes, and those that they forbid."""
    sizes = CANDIDATES if len(names) < 4 else CANDIDATES[:7]
    tried = [dict(zip(names, values, strict=True)) for values in product(sizes, repeat=len(names))]
    allowed = [s for s in tried if all(holds(f, s) for f in facts)]
    return allowed, [s for s in tried if s not in allowed] if len(tried) < 2000 else []


def chosen(rng: random.Random, allowed: Sequence[dict[str, int]], count: int) -> list[dict[str, int]]:
    """The smallest binding, one near 1, the largest that is not too large, and others."""
    if not allowed:
        raise Unwanted
    fitting = [s for s in allowed if np.prod([max(v, 1) for v in s.values()]) <= 2000] or list(allowed)
    picked = [
        min(allowed, key=lambda s: sum(s.values())),
        min(allowed, key=lambda s: sum(abs(v - 1) for v in s.values())),
    ]
    picked.append(max(fitting, key=lambda s: sum(s.values())))
    picked += [rng.choice(fitting) for _ in range(count)]
    return [s for i, s in enumerate(picked) if s not in picked[:i]][:count]
