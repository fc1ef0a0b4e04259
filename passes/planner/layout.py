"""Offsets as formulas: a stacking found for one set of sizes, kept for all others.

Where two storages are live together, the one that lies below stays below, so that its end is a lower bound of the
other's offset. An offset is the greatest of such ends, and holds for every value of the symbols: only how low the peak
is depends on the sizes that the stacking was found for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ir.dims import Dim
from .formulas import Sizes
from .storage import Storage


@dataclass(frozen=True)
class Layout:
    """Offsets by storage, multiples of the alignment, the arena's size, and the peak without padding, all in bytes.

    `peak` is asked of the best layout only: it can cost more proofs than all the rest.
    """

    offsets: tuple[Dim, ...]
    arena: Dim
    peak: Callable[[], Dim]


def stack(storages: Sequence[Storage], found: Sequence[int], sizes: Sequence[Dim], tools: Sizes) -> Layout:
    """Offsets for `sizes` with the storages stacked as at the offsets `found` (for positive sizes)."""
    order = sorted(range(len(storages)), key=lambda i: found[i])
    pad = tools.alignment - 1
    starts: dict[int, tuple[Dim, ...]] = {}
    ends: dict[int, list[Dim]] = {}
    offsets: dict[int, Dim] = {}
    for place, i in enumerate(order):
        below = [j for j in order[:place] if storages[j].overlaps(storages[i])]
        starts[i] = tools.greatest(end for j in below for end in ends[j])
        offsets[i] = tools.aligned(Dim.max(*starts[i]))
        # An offset that is rounded up moves its end by up to `pad` bytes.
        rounding = 0 if all(map(tools.divisible, starts[i])) else pad
        ends[i] = [start + sizes[i] + rounding for start in starts[i]]
    top = tools.greatest(end for i in order for end in ends[i])
    return Layout(
        offsets=tuple(offsets[i] for i in range(len(storages))),
        arena=tools.aligned(Dim.max(*top)),
        peak=lambda: peak(storages, found, sizes, tools),
    )


def peak(storages: Sequence[Storage], found: Sequence[int], sizes: Sequence[Dim], tools: Sizes) -> Dim:
    """The height of the same stacking without padding: at least the bytes live at any step."""
    order = sorted(range(len(storages)), key=lambda i: found[i])
    ends: dict[int, list[Dim]] = {}
    for place, i in enumerate(order):
        below = [j for j in order[:place] if storages[j].overlaps(storages[i])]
        ends[i] = [start + sizes[i] for start in tools.greatest(end for j in below for end in ends[j])]
    return Dim.max(*tools.greatest(end for i in order for end in ends[i]))


def slots(storages: Sequence[Storage], order: Sequence[int], sizes: Sequence[Dim], tools: Sizes) -> Layout:
    """Storages that are never live together share a slot as large as the largest; the slots lie side by side."""
    members: list[list[int]] = []
    extent: list[Dim] = []
    for i in order:
        free = [k for k, slot in enumerate(members) if not any(storages[j].overlaps(storages[i]) for j in slot)]
        fitting = [k for k in free if tools.at_most(sizes[i], extent[k])]
        # Slots that fit are taken smallest first where that is proven; others grow, which beats a slot of their own.
        smallest = [k for k in fitting if all(tools.at_most(extent[k], extent[m]) for m in fitting)]
        chosen = next(iter(smallest or fitting or free), len(members))
        if chosen == len(members):
            members.append([])
            extent.append(Dim.of(0))
        members[chosen].append(i)
        extent[chosen] = Dim.max(*tools.greatest([extent[chosen], sizes[i]]))
    offsets: dict[int, Dim] = {}
    arena = total = Dim.of(0)
    for slot, size in zip(members, extent, strict=True):
        offsets.update(dict.fromkeys(slot, arena))
        arena, total = arena + tools.aligned(size), total + size
    return Layout(tuple(offsets[i] for i in range(len(storages))), arena, lambda: total)
