"""Lines of C++, indented by blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Writer:
    """Collects lines."""

    lines: list[str] = field(default_factory=list)
    depth: int = 1

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """`head { ... }` around the lines written inside."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def part(self) -> Writer:
        """An empty writer at the same depth, for lines that are put in later."""
        return Writer(depth=self.depth)

    def take(self, part: Writer) -> None:
        self.lines.extend(part.lines)
