"""A contraction with the loops around it, and how its extents are cut: what the ways of tiling it share."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.dims import Dim
from ...ir.loops import Contract, Expr, For, Index, Let, Micro, Stmt
from .operand import Strided

PAD = 16
"""Elements between packed rows of A beyond their length, so that rows do not fall into the same cache set."""


@dataclass(frozen=True)
class Nest:
    """A contraction, the parallel loops right around it (a batch), and the `Let`s between.

    `output` is set where all that the epilogue does is to store: then full tiles are stored by the micro-kernel.
    """

    loops: tuple[For, ...]
    lets: tuple[Stmt, ...]
    contract: Contract
    output: Strided | None = None

    @property
    def extents(self) -> tuple[Dim, ...]:
        return tuple(loop.stop.dim for loop in self.loops if isinstance(loop.stop, Index))

    @property
    def count(self) -> Dim:
        """Matrices in the batch."""
        return Dim.product(self.extents)

    def name(self, name: str) -> str:
        """A name of this contraction's own; its accumulator keeps them apart from others'."""
        return f"{self.contract.acc}.{name}"

    def let(self, name: str, value: Dim) -> Let:
        """A name of its own for a value."""
        return Let(self.name(name), Index(value))

    def decode(self, index: Dim) -> list[Stmt]:
        """The loops' variables from one running index, the last loop fastest."""
        found: list[Stmt] = []
        for position in reversed(range(len(self.loops))):
            extent = self.extents[position]
            value = index if position == 0 else index % extent
            found.append(Let(self.loops[position].var, Index(value)))
            index = index // extent
        return found[::-1]


@dataclass(frozen=True)
class Blocking:
    """Panel width, rows of a tile, and the blocks: rows (a multiple of the tile's), k, and panels."""

    width: int
    rows: int
    row_block: int
    inner_block: int
    panels: int


def micro(
    rows: Dim, inner: Dim, left: Strided, panel: Strided, out: Strided, *, width: int, accumulate: Expr, c: Contract
) -> Micro:
    """One tile of `c`: `rows` of A times a panel, into C."""
    return Micro(
        rows=Index(rows),
        width=width,
        inner=Index(inner),
        a=left.buffer,
        a_offset=Index(left.base),
        a_row=Index(left.row),
        a_col=Index(left.col),
        b=panel.buffer,
        b_offset=Index(panel.base),
        b_row=Index(panel.row),
        c=out.buffer,
        c_offset=Index(out.base),
        c_row=Index(out.row),
        accumulate=accumulate,
        dtype=c.dtype,
    )
