"""Packed matrices: the right operand of a contraction as panels that a micro-kernel reads in order.

A matrix [K, N] becomes [ceil(N / width)][K][width], the last panel filled up with zeros.  Weights are packed once, at
load, by `pack_kernel`; a buffer of them has a name that starts with `PREFIX`.
"""

from __future__ import annotations

from ...ir.dims import Dim
from ...ir.loops import Apply, Buffer, Cast, Const, Expr, For, Index, Kernel, Load, Select, Store
from ...ir.types import DType

PREFIX = "packed."


def panel_width(vector_bytes: int, dtype: DType) -> int:
    """Columns of a panel whose elements are multiplied as `dtype`: two vectors (of 32-bit elements at the least)."""
    return 2 * vector_bytes // max(dtype.bytes, 4)


def micro_rows(vector_bytes: int) -> int:
    """The most rows of a tile two vectors wide.

    With 16 registers 6 rows leave room for B and A; with 32 more would fit, but 8 row pointers are what general
    registers hold, and 8 rows keep two multiply-add units busy.
    """
    return 8 if vector_bytes >= 64 else 6


def packed_index(k: Dim | str, n: Dim | str, inner: Dim, width: int) -> Dim:
    """Element offset of (k, n) in a packed matrix of `inner` rows."""
    row, column = Dim.of(k), Dim.of(n)
    return ((column // width) * inner + row) * width + column % width


def packed_size(inner: Dim, cols: Dim, width: int) -> Dim:
    """Elements of a packed matrix, the filled-up columns included."""
    return Dim.ceildiv(cols, width) * width * inner


def packed_base(index: Dim, k: str, n: str, inner: Dim, width: int) -> Dim | None:
    """What is left of `index` when the packed offset of (k, n) is taken away; None when it is not of that form."""
    rest = index - packed_index(k, n, inner, width)
    return None if {k, n} & rest.symbols else rest


def pack_kernel(
    name: str,
    inner: Dim,
    cols: Dim,
    width: int,
    dtype: DType,
    *,
    source: DType | None = None,
    transposed: bool = False,
    batch: Dim | None = None,
) -> Kernel:
    """The kernel that packs `batch` matrices.

    Its buffers are `w`: `source` (default `dtype`) elements [batch, inner, cols], or [batch, cols, inner] when
    `transposed`; and `packed.w`: `dtype` elements, `batch * packed_size` of them.  Its sizes are the symbols, sorted.
    """
    stored = source or dtype
    count = batch if batch is not None else Dim.of(1)
    b, p, k, j = (Dim.of(x) for x in ("b", "p", "k", "j"))
    column = p * width + j
    offset = (b * cols + column) * inner + k if transposed else (b * inner + k) * cols + column
    element: Expr = Load("w", Index(offset), stored)
    if stored is not dtype:
        element = Cast(element, dtype)
    zero = Const(0 if dtype.is_int else 0.0, dtype)
    inside = Apply("lt", (Index(column), Index(cols)), DType.bool)
    target = b * packed_size(inner, cols, width) + (p * inner + k) * width + j
    store = Store(PREFIX + "w", Index(target), Select(inside, element, zero))
    loops = For("k", _index(0), Index(inner), (For("j", _index(0), _index(width), (store,)),))
    panels = For("p", _index(0), Index(Dim.ceildiv(cols, width)), (loops,), "parallel")
    body = For("b", _index(0), Index(count), (panels,), "parallel")
    sizes = sorted(inner.symbols | cols.symbols | count.symbols)
    return Kernel(
        name,
        (
            Buffer("w", stored, count * inner * cols, "in"),
            Buffer(PREFIX + "w", dtype, count * packed_size(inner, cols, width), "out"),
        ),
        tuple(sizes),
        (body,),
        origin="pack a weight",
    )


def _index(value: int) -> Index:
    return Index(Dim.of(value))
