"""Planning the memory of a program whose sizes are dims.

Storages whose sizes have an upper bound under the facts are packed at that bound, at constant offsets. The others
follow above them, or all together, at offsets that are formulas for the host program to evaluate at each call. Several
ways (which results are made in place, how the others are stacked) are tried, and the smallest arena is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...ir.dims import Dim
from ...ir.facts import Facts
from ...ir.loops import IN_USE
from .errors import PlanError
from .formulas import Sizes
from .layout import Layout, peak, slots, stack
from .packing import Buffer, align, pack
from .report import Line, text
from .storage import InPlace, Storage, SymBuffer, lifetimes, roots, share_in_place

LARGEST = (1 << 63) - 1

RESERVABLE = 1 << 44
"""Bytes of address space that a call can count on getting; a bound beyond says nothing of sizes that fit in memory."""
# What a symbol without an upper bound is taken to be above its lower bound, when plans are compared.
USUAL_EXTENTS = (64, 1024)


@dataclass(frozen=True)
class Plan:
    """Where every buffer lies in the arena; all sizes and offsets in bytes.

    offsets             by buffer, views included; multiples of the alignment, constants when every size has a bound
    arena_bytes         what must be reserved at a call; a constant when every size has an upper bound
    peak_formula        an upper bound, in the symbols, of the bytes live at any step, padding not counted
    peak_at_bound       the arena when every size is at its upper bound, None when some have none
    lower_bound         the largest live set at the bound: no plan that reuses no more in place can do with less
    without_reuse       the sum of all sizes, as a formula; total_without_reuse at the bound
    """

    offsets: Mapping[str, Dim]
    arena_bytes: Dim
    peak_formula: Dim
    peak_at_bound: int | None
    lower_bound: int | None
    total_without_reuse: int | None
    without_reuse: Dim
    lines: tuple[Line, ...] = ()

    def report(self) -> str:
        """The plan as text: the totals, then a line per buffer."""
        return text(self)


@dataclass(frozen=True)
class _Trial:
    storages: Sequence[Storage]
    offsets: Mapping[str, Dim]
    arena: Dim
    peak: Callable[[], Dim]


def plan(
    buffers: Sequence[SymBuffer],
    facts: Facts,
    alignment: int = 64,
    budget_s: float | None = 1.0,
    *,
    iterations: int | None = 200,
    samples: Sequence[Mapping[str, int]] = (),
) -> Plan:
    """The memory plan of the buffers.

    The budget is that of `pack`, per way tried; where the seconds do not run out, the same buffers give the same plan.
    `samples` are values of symbols (likely sizes) that plans are compared at where sizes have no upper bound.
    Raises PlanError for contradictory buffers, and for sizes above 2**63 - 1 bytes at the bound.
    """
    tools = Sizes(facts, alignment)
    planner = _Planner(tools, budget_s, iterations, _bindings(buffers, facts, samples))
    owned = lifetimes(buffers)
    bounds = {b.name: planner.bound(b) for b in owned}
    best: _Trial | None = None
    modes: tuple[InPlace, ...] = ("fitting", "equal", "never")
    seen: list[list[Storage]] = []
    for mode in modes:
        storages = share_in_place(buffers, facts, mode)
        if storages in seen:
            continue
        seen.append(storages)
        trial = planner.try_storages(storages, bounds)
        if best is None or planner.score(trial.arena) < planner.score(best.arena):
            best = trial
    assert best is not None  # the first mode is always tried
    return _finish(buffers, owned, best, bounds, seen[0], alignment)


EASY = 1 << 30
"""Bytes of address space that hardly any process is without."""


def with_room_in_use(
    found: Plan, buffers: Sequence[SymBuffer], facts: Facts, budget_s: float | None, alignment: int = 64
) -> Plan:
    """A plan at the bound that a call can do without: where IN_USE is 1, everything lies by the sizes of that call.

    Nothing is made in place there, so that buffers overlap only where they do in the plan given.
    """
    if not found.arena_bytes.is_const or found.arena_bytes.value <= EASY:
        return found
    planner = _Planner(Sizes(facts, alignment), budget_s, 0, _bindings(buffers, facts, ()))
    storages = share_in_place(buffers, facts, "never")
    layout = planner.at_formulas(storages)
    at = dict(zip((s.name for s in storages), layout.offsets, strict=True))
    root_of = roots(buffers)
    in_use = Dim.of(IN_USE)
    offsets = {name: offset + in_use * (at[root_of[name]] - offset) for name, offset in found.offsets.items()}
    return replace(found, offsets=offsets, arena_bytes=found.arena_bytes + in_use * (layout.arena - found.arena_bytes))


class _Planner:
    def __init__(
        self, tools: Sizes, budget_s: float | None, iterations: int | None, bindings: Sequence[Mapping[str, int]]
    ) -> None:
        self.tools, self.budget_s, self.iterations, self.bindings = tools, budget_s, iterations, bindings

    def bound(self, buffer: SymBuffer) -> int | None:
        """The size at its upper bound, rounded up; None if there is no bound, or none that can be reserved."""
        _, high = self.tools.facts.bounds(buffer.size_bytes)
        if high is None:
            return None
        size = align(max(high, 0), self.tools.alignment)
        if size > LARGEST:
            raise PlanError(
                f"buffer {buffer.name} takes {buffer.size_bytes} bytes, up to {high}: more than 64-bit sizes can hold",
                helps=("give its dimensions lower upper bounds",),
            )
        return size if size <= RESERVABLE else None

    def score(self, size: Dim) -> float:
        """The mean order of magnitude over the bindings; the lower the better."""
        return sum(math.log(max(1, _evaluate(size, binding))) for binding in self.bindings) / len(self.bindings)

    def try_storages(self, storages: Sequence[Storage], bounds: Mapping[str, int | None]) -> _Trial:
        bounded = [s for s in storages if bounds[s.name] is not None]
        unbounded = [s for s in storages if bounds[s.name] is None]
        lower = self.at_constants(bounded, bounds)
        upper = self.at_formulas(unbounded)
        offsets = dict(zip((s.name for s in bounded), lower.offsets, strict=True))
        offsets |= {s.name: lower.arena + at for s, at in zip(unbounded, upper.offsets, strict=True)}
        apart = _Trial(storages, offsets, lower.arena + upper.arena, lambda: lower.peak() + upper.peak())
        if not bounded or not unbounded:
            return apart
        # Constant offsets cost the sum of both; all at formulas, the bounded ones lie in the room of the others.
        mixed = self.at_formulas(storages)
        together = dict(zip((s.name for s in storages), mixed.offsets, strict=True))
        one = _Trial(storages, together, mixed.arena, mixed.peak)
        return min(apart, one, key=lambda trial: self.score(trial.arena))

    def at_constants(self, storages: Sequence[Storage], bounds: Mapping[str, int | None]) -> Layout:
        """Sizes at their bounds, packed."""
        sizes = [bounds[s.name] or 0 for s in storages]
        found = self.pack(storages, sizes)
        top = max((at + size for at, size in zip(found, sizes, strict=True)), default=0)
        if top > LARGEST:
            last = max(range(len(sizes)), key=lambda i: found[i] + sizes[i])
            raise PlanError(
                f"the arena would take {top} bytes up to the end of buffer {storages[last].name}: "
                "more than 64-bit sizes can hold",
                helps=("give its dimensions lower upper bounds",),
            )
        return Layout(tuple(map(Dim.of, found)), Dim.of(top), lambda: self._peak(storages, sizes, found))

    def _peak(self, storages: Sequence[Storage], sizes: Sequence[int], found: Sequence[int]) -> Dim:
        # Storages that may be empty at the bound have nothing to stack: they would make the order ambiguous.
        real = [i for i, size in enumerate(sizes) if size]
        sums = [self.tools.nonnegative(storages[i].size) for i in real]
        return peak([storages[i] for i in real], [found[i] for i in real], sums, self.tools)

    def at_formulas(self, storages: Sequence[Storage]) -> Layout:
        """The best of several stackings and slots."""
        sizes = [self.tools.nonnegative(s.size) for s in storages]
        layouts = []
        for binding in self.bindings:
            at_binding = [align(max(1, _evaluate(size, binding)), self.tools.alignment) for size in sizes]
            layouts.append(stack(storages, self.pack(storages, at_binding), sizes, self.tools))
            by_size = sorted(range(len(sizes)), key=lambda i: -at_binding[i])
            layouts.append(slots(storages, by_size, sizes, self.tools))
        layouts.append(slots(storages, range(len(sizes)), sizes, self.tools))
        return min(layouts, key=lambda layout: (self.score(layout.arena), len(str(layout.arena))))

    def pack(self, storages: Sequence[Storage], sizes: Sequence[int]) -> list[int]:
        buffers = [
            Buffer(i, s.first, s.last + 1, size) for i, (s, size) in enumerate(zip(storages, sizes, strict=True))
        ]
        packing = pack(buffers, alignment=self.tools.alignment, budget_s=self.budget_s, iterations=self.iterations)
        return [packing.offsets[i] for i in range(len(buffers))]


def _bindings(buffers: Sequence[SymBuffer], facts: Facts, samples: Sequence[Mapping[str, int]]) -> list[dict[str, int]]:
    """Values for all symbols: upper bounds where there are any, usual extents (or the samples') elsewhere."""
    names = sorted(frozenset().union(*(b.size_bytes.symbols for b in buffers)))
    bounds = {name: facts.bounds(name) for name in names}
    result: list[dict[str, int]] = []
    for extent in USUAL_EXTENTS:
        usual = {name: high if high is not None else (low or 0) + extent for name, (low, high) in bounds.items()}
        for binding in [{**usual, **sample} for sample in samples] or [usual]:
            if binding not in result:
                result.append(binding)
    return result


def _evaluate(size: Dim, binding: Mapping[str, int]) -> int:
    """The size at values that need not satisfy the facts, and so may divide by zero: it counts as nothing then."""
    try:
        return size.evaluate(binding)
    except ZeroDivisionError:
        return 0


def _finish(
    buffers: Sequence[SymBuffer],
    owned: Sequence[SymBuffer],
    best: _Trial,
    bounds: Mapping[str, int | None],
    most_shared: Sequence[Storage],
    alignment: int,
) -> Plan:
    at = {member.name: best.offsets[s.name] for s in best.storages for member in s.members}
    root_of = roots(buffers)
    offsets = {b.name: at[root_of[b.name]] for b in buffers}
    in_place = {b.name: a.name for s in best.storages for a, b in zip(s.members, s.members[1:], strict=False)}
    known = {name: size for name, size in bounds.items() if size is not None}
    bounded = len(known) == len(bounds)
    total = Dim.of(0)
    for buffer in owned:
        total = total + buffer.size_bytes
    return Plan(
        offsets=offsets,
        arena_bytes=best.arena,
        peak_formula=best.peak(),
        peak_at_bound=best.arena.value if bounded else None,
        lower_bound=_largest_live_set(most_shared, known) if bounded else None,
        total_without_reuse=sum(known.values()) if bounded else None,
        without_reuse=total,
        lines=tuple(Line(b, offsets[b.name], bounds.get(b.name), in_place.get(b.name)) for b in buffers),
    )


def _largest_live_set(storages: Sequence[Storage], bounds: Mapping[str, int]) -> int:
    """Bytes live at once, at the bound; where values made in place of one another meet, only the larger counts."""
    live: dict[int, int] = {}
    steps = sorted({step for s in storages for m in s.members for step in (m.first, m.last)})
    for storage in storages:
        for step in steps:
            if storage.first <= step <= storage.last:
                largest = max((bounds[m.name] for m in storage.members if m.first <= step <= m.last), default=0)
                live[step] = live.get(step, 0) + largest
    return max(live.values(), default=0)
