"""Sizes that satisfy all facts, found by repair: they refute what is false without a search, and show consistency."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from .dims import Dim
from .facts_domain import Domain

# (base, step) of the first guess: symbol i, in the order of names, is base + step*i above its lower bound.
STYLES = ((1, 0), (0, 0), (2, 3), (7, -1), (40, 1))


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


def find_examples(domain: Domain, known: list[Example], accept: Callable[[dict[str, int]], bool]) -> list[Example]:
    """Examples of the domain's symbols, at most one of each style; `known` gives first guesses of some values.

    `accept` has the last word: it gets the values of all symbols, the eliminated ones included.
    """
    if domain.contradictory:
        return []
    found = []
    starts = {example.style: example.values for example in known}
    for style in STYLES:
        values = _repair(domain, _start(domain, style, starts.get(style, {})))
        if values is None:
            continue
        try:
            everything = {**values, **{name: dim.evaluate(values) for name, dim in domain.solved.items()}}
            if accept(everything):
                found.append(Example(everything, style))
        except (ZeroDivisionError, KeyError):
            continue
    return found


def _start(domain: Domain, style: tuple[int, int], known: dict[str, int]) -> dict[str, int]:
    names = {
        name for dims in (domain.ge, domain.ne, domain.eq, domain.solved.values()) for d in dims for name in d.symbols
    }
    names.update(domain.lo, domain.hi, *(dim.symbols for dim, _ in domain.one_of))
    choices = {dim.name: values for dim, values in domain.one_of}
    values = {}
    for index, name in enumerate(sorted(names - domain.solved.keys())):
        lo, hi = domain.symbol(name)
        if name in choices:
            allowed = [v for v in choices[name] if (lo is None or v >= lo) and (hi is None or v <= hi)] or [0]
            value = allowed[guess(style, index) % len(allowed)]
        else:
            value = known.get(name, (lo or 0) + guess(style, index))
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
        if (lo is None or new >= lo) and (hi is None or new <= hi):
            values[name] = new
            return name
    return None
