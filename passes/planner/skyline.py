"""Placing buffers one above the other on a skyline, in an order of preference.

The arena is a strip: time runs along it, addresses go up. The skyline is the first free address at each step. Each
turn takes the lowest segment of the skyline and puts on it the most preferred buffer whose lifetime fits within the
segment; when none fits, the segment is lifted to its lower neighbour, and what lies below is wasted for good (nothing
unplaced could ever have used it). This is the best-fit heuristic of Burke, Kendall and Whitwell, "A new placement
heuristic for the orthogonal stock-cutting problem" (2004), used for memory by Sekiyama et al., "Profile-guided memory
optimization for deep neural networks" (2018).

Waste is the only way to a high peak: the bytes live at a step plus the waste at that step is the height there. So a
placement aims at a peak given beforehand, keeps the slack that each step has left, gives up as soon as one has less
than none, and passes over a buffer that would leave a gap beside it, too narrow for any other, that the slack of the
steps below it cannot pay.

Sets of buffers are bits of an integer, the most preferred lowest, so that the choice among hundreds is a few
operations on machine words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

# Above any address: the walls at both ends of time.
WALL = 1 << 80
# How many candidates are looked at before the segment is lifted instead: more cost time and gain nothing.
CANDIDATES = 8


@dataclass(frozen=True)
class Problem:
    """Buffers 0..n-1 with half-open lifetimes [lower, upper) on the steps 0..steps-1, sizes in bytes.

    `length` is the lifetime in the caller's own unit of time; steps are only the times at which something changes.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    size: tuple[int, ...]
    length: tuple[int, ...]
    steps: int

    @cached_property
    def live(self) -> list[int]:
        """Bytes live at each step."""
        change = [0] * (self.steps + 1)
        for low, high, size in zip(self.lower, self.upper, self.size, strict=True):
            change[low] += size
            change[high] -= size
        total, live = 0, []
        for step in range(self.steps):
            total += change[step]
            live.append(total)
        return live

    @cached_property
    def lower_bound(self) -> int:
        """The largest live set: no plan has a lower peak."""
        return max(self.live, default=0)

    @cached_property
    def at_step(self) -> list[list[int]]:
        """The buffers live at each step."""
        result: list[list[int]] = [[] for _ in range(self.steps)]
        for buffer, (low, high) in enumerate(zip(self.lower, self.upper, strict=True)):
            for step in range(low, high):
                result[step].append(buffer)
        return result


@dataclass(frozen=True)
class Placement:
    """Offsets by buffer, their peak, and how far below `peak` each step stays."""

    offsets: list[int]
    peak: int
    slack: list[int]


class Skyline:
    """The skyline while one order is placed; segment k covers steps starts[k]..ends[k]-1 at heights[k]."""

    __slots__ = ("ending_by", "ends", "heights", "left", "order", "problem", "slack", "starting_from", "starts")

    def __init__(self, problem: Problem, order: Sequence[int], target: int) -> None:
        self.problem, self.order = problem, order
        self.starts, self.ends, self.heights = [0], [problem.steps], [0]
        self.slack = [target - bytes_live for bytes_live in problem.live]
        self.left = (1 << len(order)) - 1
        self._index()

    def _index(self) -> None:
        """Bit sets of the buffers that start at or after, and that end at or before, each time."""
        steps, lower, upper = self.problem.steps, self.problem.lower, self.problem.upper
        starting, ending = [0] * (steps + 1), [0] * (steps + 1)
        bit = 1
        for buffer in self.order:
            starting[lower[buffer]] |= bit
            ending[upper[buffer]] |= bit
            bit <<= 1
        bits = 0
        for step in range(steps, -1, -1):
            starting[step] = bits = bits | starting[step]
        bits = 0
        for step in range(steps + 1):
            ending[step] = bits = bits | ending[step]
        self.starting_from, self.ending_by = starting, ending

    def choose(self, segment: int) -> int:
        """The bit of the preferred buffer for the segment, 0 when there is none that the slack can pay."""
        start, end, height = self.starts[segment], self.ends[segment], self.heights[segment]
        left, slack, starting, ending = self.left, self.slack, self.starting_from, self.ending_by
        lower, upper, size, order = self.problem.lower, self.problem.upper, self.problem.size, self.order
        candidates = left & starting[start] & ending[end]
        if not candidates:
            return 0
        before = (self.heights[segment - 1] if segment else WALL) - height
        after = (self.heights[segment + 1] if segment + 1 < len(self.heights) else WALL) - height
        for _ in range(CANDIDATES):
            bit = candidates & -candidates
            buffer = order[bit.bit_length() - 1]
            low, high, rise = lower[buffer], upper[buffer], size[buffer]
            # A gap beside the buffer that no other fits in will be lifted to the lower of its two sides.
            gap = low > start and not left & starting[start] & ending[low]
            bad = gap and min(slack[start:low]) < min(before, rise)
            if not bad:
                gap = high < end and not left & starting[high] & ending[end]
                if not (gap and min(slack[high:end]) < min(after, rise)):
                    return bit
            candidates ^= bit
            if not candidates:
                break
        return 0

    def place(self, segment: int, bit: int) -> None:
        """Put the buffer on the segment, which falls into up to three."""
        buffer = self.order[bit.bit_length() - 1]
        self.left ^= bit
        starts, ends, heights = self.starts, self.ends, self.heights
        start, end, height = starts[segment], ends[segment], heights[segment]
        low, high = self.problem.lower[buffer], self.problem.upper[buffer]
        top = height + self.problem.size[buffer]
        new_starts, new_ends, new_heights = [low], [high], [top]
        if low > start:
            new_starts, new_ends, new_heights = [start, low], [low, high], [height, top]
        elif segment and heights[segment - 1] == top:
            segment -= 1
            new_starts[0] = starts[segment]
            del starts[segment], ends[segment], heights[segment]
        if high < end:
            new_starts.append(high)
            new_ends.append(end)
            new_heights.append(height)
        elif segment + 1 < len(heights) and heights[segment + 1] == top:
            new_ends[-1] = ends[segment + 1]
            del starts[segment + 1], ends[segment + 1], heights[segment + 1]
        starts[segment : segment + 1] = new_starts
        ends[segment : segment + 1] = new_ends
        heights[segment : segment + 1] = new_heights

    def lift(self, segment: int) -> bool:
        """Raise the segment to its lower neighbour and join them; False when some step cannot pay the waste."""
        starts, ends, heights = self.starts, self.ends, self.heights
        start, end = starts[segment], ends[segment]
        before = heights[segment - 1] if segment else WALL
        after = heights[segment + 1] if segment + 1 < len(heights) else WALL
        waste = min(before, after) - heights[segment]
        paid = [slack - waste for slack in self.slack[start:end]]
        if min(paid) < 0:
            return False
        self.slack[start:end] = paid
        if before <= after:
            ends[segment - 1] = end if before < after else ends[segment + 1]
            last = segment + (before == after)
            del starts[segment : last + 1], ends[segment : last + 1], heights[segment : last + 1]
        else:
            starts[segment + 1] = start
            del starts[segment], ends[segment], heights[segment]
        return True


def place(problem: Problem, order: Sequence[int], target: int = WALL) -> Placement | None:
    """The buffers placed in that order of preference; None when the peak would be above `target`."""
    skyline = Skyline(problem, order, target)
    offsets = [0] * len(order)
    heights = skyline.heights
    while skyline.left:
        height = min(heights)
        segment = heights.index(height)
        bit = skyline.choose(segment)
        if bit:
            offsets[order[bit.bit_length() - 1]] = height
            skyline.place(segment, bit)
        elif not skyline.lift(segment):
            return None
    spare = min(skyline.slack, default=0)
    return Placement(offsets, target - spare, [slack - spare for slack in skyline.slack])
