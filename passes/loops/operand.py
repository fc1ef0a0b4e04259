"""What an operand of a contraction is in memory: read in place, packed already, or to be computed into a panel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ir.dims import Dim, linear
from ...ir.loops import Contract, Expr, Index, Load, Name, Store
from ...ir.types import DType
from .packing import PREFIX, packed_base


@dataclass(frozen=True)
class Strided:
    """`buffer[base + row * i + col * j]` for element (i, j), of the dtype that is multiplied."""

    buffer: str
    base: Dim
    row: Dim
    col: Dim


@dataclass(frozen=True)
class Packed:
    """Panels in `buffer`, the first at element `base`."""

    buffer: str
    base: Dim


def strided(e: Expr, contract: Contract, row: str, col: str) -> Strided | None:
    """The operand as a plain matrix, if it is one."""
    if not (isinstance(e, Load) and isinstance(e.index, Index) and e.dtype is contract.dtype):
        return None
    return _matrix(e.buffer, e.index.dim, row, col)


def plain_output(contract: Contract, buffers: Mapping[str, DType]) -> Strided | None:
    """Where the accumulators go, when all that the epilogue does is store them in rows of one of `buffers`."""
    if len(contract.epilogue) != 1 or not isinstance(contract.epilogue[0], Store):
        return None
    store = contract.epilogue[0]
    if store.value != Name(contract.acc, contract.dtype) or not isinstance(store.index, Index):
        return None
    if buffers.get(store.buffer) is not contract.dtype:
        return None
    matrix = _matrix(store.buffer, store.index.dim, contract.m, contract.n)
    return matrix if matrix is not None and matrix.col == 1 else None


def _matrix(buffer: str, index: Dim, row: str, col: str) -> Strided | None:
    by_row = linear(index, row)
    by_col = linear(by_row[1], col) if by_row is not None else None
    if by_row is None or by_col is None or col in by_row[0].symbols:
        return None
    return Strided(buffer, by_col[1], by_row[0], by_col[0])


def packed(contract: Contract, width: int) -> Packed | None:
    """The right operand as a packed matrix, if it is one."""
    e = contract.rhs
    if not (isinstance(e, Load) and isinstance(e.index, Index) and e.dtype is contract.dtype):
        return None
    if not e.buffer.startswith(PREFIX):
        return None
    base = packed_base(e.index.dim, contract.k, contract.n, contract.inner, width)
    return None if base is None else Packed(e.buffer, base)
