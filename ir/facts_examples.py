"""Sizes that satisfy all facts, found by repair: they refute what is false without a search, and show consistency."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .dims import Dim
from .facts_domain import Domain

# (base, step) of the first guess: symbol i, in the order of names, is base + step*i above its lower bound.
STYLES = ((1, 0), (0, 0), (2, 3), (7, -1), (40, 1))

LARGEST = 1 << 24  # products of symbols would make values grow without end


@dataclass
class Example:
    """Values of the symbols that facts speak of; any other symbol of a dim may have any, and gets one by style."""

    values: dict[str, int]
    style: tuple[int, int]

    def value(self, dim: Dim) -> int | None:
        """The dim's value; None where it divides by zero."""
        values = self.values
        unknown = sorted(dim.symbols - values.keys())
        if unknown:
            values = {**values, **{name: guess(self.style, i) for i, name in enumerate(unknown)}}
        try:
            return dim.evaluate(values)
        except ZeroDivisionError:
            return None


def guess(style: tuple[int, int], index: int) -> int:
    return max(0, style[0] + style[1] * index)


def find_examples(domain: Domain, symbols: frozenset[str], accept: Callable[[dict[str, int]], bool]) -> list[Example]:
    """Examples of `symbols` and of those that the domain brought in, at most one of each style.

    `accept` has the last word: it gets the values of all symbols, the eliminated ones included.
    """
    if domain.contradictory:
        return []
    found = []
    for style in STYLES:
        values = _repair(domain, _start(domain, symbols, style))
        if values is not None and _complete(domain, values) and accept(values):
            found.append(Example(values, style))
    return found


def extend_examples(
    domain: Domain, known: list[Example], names: list[str], accept: Callable[[dict[str, int]], bool]
) -> list[Example]:
    """Examples from those of fewer facts: only the new symbols `names` get values, and `accept` checks what is new."""
    found = []
    for example in known:
        for offset in (guess(example.style, 0), 0):
            values = dict(example.values)
            for name in names:
                if name not in domain.solved:
                    lo, hi = domain.symbol(name)
                    value = (lo or 0) + offset
                    values[name] = value if hi is None else min(value, hi)
            if _complete(domain, values, names) and accept(values):
                found.append(Example(values, example.style))
                break
    return found


def _complete(domain: Domain, values: dict[str, int], names: Iterable[str] | None = None) -> bool:
    """Adds the values of eliminated symbols; False when that divides by zero or needs a symbol without a value."""
    try:
        for name in domain.solved if names is None else names:
            if name in domain.solved:
                values[name] = domain.solved[name].evaluate(values)
    except (ZeroDivisionError, KeyError):
        return False
    return True


def _start(domain: Domain, symbols: frozenset[str], style: tuple[int, int]) -> dict[str, int]:
    names = symbols.union(domain.lo, domain.hi, *(dim.symbols for dim in domain.solved.values()))
    choices = {dim.name: values for dim, values in domain.one_of}
    values = {}
    for index, name in enumerate(sorted(names - domain.solved.keys())):
        lo, hi = domain.symbol(name)
        if name in choices:
            allowed = [v for v in choices[name] if (lo is None or v >= lo) and (hi is None or v <= hi)] or [0]
            value = allowed[guess(style, index) % len(allowed)]
        else:
            value = (lo or 0) + guess(style, index)
        value = value if hi is None else min(value, hi)
        values[name] = value if lo is None else max(value, lo)
    return values


def _repair(domain: Domain, values: dict[str, int]) -> dict[str, int] | None:
    """Moves symbols until every constraint holds; None when that does not settle soon."""
    queue = deque(domain.ge)
    budget = 8 * len(queue) + 64
    try:
        while queue:
            dim = queue.popleft()
            missing = -dim.evaluate(values)
            if missing <= 0:
                continue
            budget -= 1
            moved = _move(domain, dim, missing, values) if budget else None
            if moved is None:
                return None
            queue.extend(domain.by_symbol.get(moved, ()))
    except ZeroDivisionError:
        return None
    return values


def _move(domain: Domain, dim: Dim, missing: int, values: dict[str, int]) -> str | None:
    """Raises or lowers one symbol by what the constraint `dim` >= 0 misses, within the symbol's bounds."""
    for monomial, coefficient in sorted(dim.terms, key=lambda term: term[1] < 0):
        if len(monomial) != 1 or not isinstance(monomial[0], str):
            continue
        name = monomial[0]
        step = -(-missing // abs(coefficient))
        new = values[name] + (step if coefficient > 0 else -step)
        lo, hi = domain.symbol(name)
        if (lo is None or new >= lo) and (hi is None or new <= hi) and abs(new) <= LARGEST:
            values[name] = new
            return name
    return None
