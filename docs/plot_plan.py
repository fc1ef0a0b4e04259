"""Draws a memory plan as SVG: every intermediate result as wide as it lives, as high as it is large, at its offset.

    python docs/plot_plan.py [FILE.ir [FUNCTION]] [-o OUT.svg]

Without arguments it draws what README.md shows. The file has no scripts and no fonts of its own, and follows the
colours of the page it stands on, light or dark.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from pliant.compiler.driver import read_source
from pliant.compiler.pipeline import graph_pipeline
from pliant.passes.lower import lower
from pliant.passes.pass_base import run_passes
from pliant.passes.planner import Plan

DOCS = Path(__file__).resolve().parent
EXAMPLE = DOCS.parent / "examples" / "transformer_block.ir"
PICTURE = DOCS / "img" / "transformer_block_plan.svg"
WIDTH, HEIGHT = 900, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 40
VECTOR_BYTES = 32  # fixed, so that the picture is the same wherever it is drawn
SEARCH_S = 60.0  # more than the search takes: its number of steps ends it, so that it finds the same plan everywhere

STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #24292f }
.small { font-size: 10px }
.box { stroke: #ffffff; stroke-width: 1 }
.line { stroke: #8c959f; stroke-width: 1; fill: none }
.peak { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 5 3; fill: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .box { stroke: #0d1117 }
  .in { fill: #0d1117 }
}"""


@dataclass(frozen=True)
class Box:
    """A buffer: steps `first..last`, both included, and bytes.

    Where a result is made in place of an operand, the kernel that does it is shared half and half.
    """

    name: str
    first: int
    last: int
    offset: int
    size: int
    in_place: bool = False
    replaced: bool = False

    @property
    def start(self) -> float:
        return self.first + 0.5 * self.in_place

    @property
    def stop(self) -> float:
        return self.last + 1 - 0.5 * self.replaced


def plan_of(path: Path, function: str = "main") -> Plan:
    """The plan of a function, searched to the end."""
    module = run_passes(graph_pipeline(), read_source(path))
    return lower(module, VECTOR_BYTES, SEARCH_S).plans[function]


def boxes(plan: Plan) -> list[Box]:
    """What has memory of its own; ValueError where a size has no upper bound."""
    found, replaced = [], {line.in_place_of for line in plan.lines}
    for line in plan.lines:
        if line.bound is None or not line.offset.is_const:
            raise ValueError(f"`{line.buffer.name}` has no upper bound: say one in `where` to draw it")
        b = line.buffer
        if b.alias_of is None and line.bound:
            in_place = line.in_place_of is not None
            found.append(Box(b.name, b.first, b.last, line.offset.value, line.bound, in_place, b.name in replaced))
    return found


def svg(plan: Plan, title: str) -> str:
    """The picture."""
    listed = boxes(plan)
    steps = max(box.last for box in listed) + 1
    peak = max(box.offset + box.size for box in listed)
    wide, high = (WIDTH - LEFT - RIGHT) / steps, (HEIGHT - TOP - BOTTOM) / peak
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        *_axes(plan, title, steps, peak, wide, high),
        *(part for i, box in enumerate(listed) for part in _box(box, i, wide, high)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _y(offset: float, high: float) -> float:
    return HEIGHT - BOTTOM - offset * high


def _axes(plan: Plan, title: str, steps: int, peak: int, wide: float, high: float) -> Iterator[str]:
    total = plan.total_without_reuse or peak
    yield f'<text x="{LEFT}" y="20">{escape(title)}: {_bytes(peak)}, without reuse {_bytes(total)}</text>'
    unit = _unit(peak)
    for mark in range(0, peak + 1, unit):
        y = _y(mark, high)
        yield f'<path class="line" d="M{LEFT - 4} {y:.1f}H{LEFT}"/>'
        yield f'<text class="small" x="{LEFT - 8}" y="{y + 3:.1f}" text-anchor="end">{_bytes(mark)}</text>'
    base = _y(0, high)
    yield f'<path class="line" d="M{LEFT} {TOP}V{base:.1f}H{WIDTH - RIGHT}"/>'
    for step in range(steps):
        x = LEFT + (step + 0.5) * wide
        yield f'<text class="small" x="{x:.1f}" y="{base + 14:.1f}" text-anchor="middle">{step}</text>'
    yield _right(HEIGHT - 8, "kernels, in the order they run")
    if plan.lower_bound:
        y = _y(plan.lower_bound, high)
        yield f'<path class="peak" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        yield _right(y - 5, f"the largest live set: no plan can do with less than {_bytes(plan.lower_bound)}")


def _right(y: float, words: str) -> str:
    return f'<text class="small" x="{WIDTH - RIGHT}" y="{y:.1f}" text-anchor="end">{escape(words)}</text>'


def _box(box: Box, index: int, wide: float, high: float) -> Iterator[str]:
    x, width = LEFT + box.start * wide, (box.stop - box.start) * wide
    height = box.size * high
    y = _y(box.offset + box.size, high)
    color = f"hsl({index * 137 % 360} 45% 70%)"  # the golden angle: neighbours differ
    yield f'<rect class="box" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}">'
    tip = f"{box.name}: {box.size} bytes at {box.offset}, kernels {box.first} to {box.last}"
    yield f"<title>{escape(tip)}</title></rect>"
    if height >= 11 and width >= 7 * len(box.name):
        at = f'x="{x + width / 2:.1f}" y="{y + height / 2 + 3:.1f}" text-anchor="middle"'
        yield f'<text class="small in" {at}>{escape(box.name)}</text>'


def _unit(peak: int) -> int:
    """A power of two that gives four to eight marks."""
    return 1 << max(0, (peak // 4).bit_length() - 1)


def _bytes(count: int) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.2f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{count} bytes" if count else "0"


def picture() -> str:
    """What README.md shows."""
    return svg(plan_of(EXAMPLE), f"the arena of {EXAMPLE.name}, every size at its bound")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=EXAMPLE)
    parser.add_argument("function", nargs="?", default="main")
    parser.add_argument("-o", "--output", type=Path, default=PICTURE)
    given = parser.parse_args()
    title = f"the arena of {given.file.name}, every size at its bound"
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(svg(plan_of(given.file, given.function), title), encoding="utf-8")
    print(f"written: {given.output}")


if __name__ == "__main__":
    main()
