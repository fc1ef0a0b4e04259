"""Factorisations of matrices: one row an overload; what is made of them stands in decompose_linalg.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.dims import Dim
from ...ir.graph import Operand
from ...ir.types import DType
from .context import Args, Context, Result, Row
from .table_shape import transposed


def swapped(t: Context, x: Operand) -> Operand:
    return transposed(x, t, -2, -1)


def stack(t: Context, x: Operand, batch: Sequence[Dim], axes: int = 2) -> Operand:
    """x with `batch` before its last axes."""
    return t.broadcast(x, (*batch, *t.type(x).dims[t.rank(x) - axes :]))


def eye(t: Context, rows: Dim, columns: Dim, batch: Sequence[Dim], dtype: DType) -> Operand:
    return t.broadcast(t.op("eye", n=rows, m=columns, dtype=dtype), (*batch, rows, columns))


def cholesky(check: bool) -> Row:
    def row(t: Context, a: Args) -> Result:
        x = swapped(t, a.self) if a.upper else a.self
        low, info = t.b.cholesky(x, check=check or bool(a.get("check_errors")))
        factor = swapped(t, low) if a.upper else low
        return (factor, info) if len(t.dtypes) > 1 else factor

    return row


def lu_factor(check: bool) -> Row:
    def row(t: Context, a: Args) -> Result:
        if not a.pivot:
            raise t.fail("torch itself has no factors without pivots here", "leave `pivot` out")
        packed, pivots, info = t.b.lu(a.A, check=check or bool(a.get("check_errors")))
        return (packed, t.op("add", pivots, 1), info)[: len(t.dtypes)]

    return row


def lu_unpack(t: Context, a: Args) -> Result:
    """The permutation as a matrix, and both triangles; what is not wanted is empty."""
    *batch, rows, columns = t.type(a.LU_data).dims
    dtype = t.type(a.LU_data).dtype
    p = low = up = t.op("zeros", shape=(0,), dtype=dtype)
    if a.unpack_pivots:
        order = t.op("pivot_order", t.op("sub", a.LU_pivots, 1), rows=rows)
        row = t.op("iota", shape=(rows, Dim.of(1)), axis=0, dtype=DType.i64)
        p = t.to(t.op("eq", t.op("unsqueeze", order, axis=len(batch)), row), dtype)
    if a.unpack_data:
        rank, count = len(batch) + 2, t.b.facts.simplify(Dim.min(rows, columns))
        left = t.op("slice", a.LU_data, axis=rank - 1, start=0, stop=count)
        below = t.op("tril", left, diagonal=-1)
        low = t.op("add", below, t.op("eye", n=rows, m=count, dtype=dtype))
        up = t.op("triu", t.op("slice", a.LU_data, axis=rank - 2, start=0, stop=count), diagonal=0)
    return p, low, up


def ordered(t: Context, x: Operand, pivots: Operand, inverse: bool) -> Operand:
    """The rows of x as pivots (counted from 1) exchange them."""
    dims = t.type(x).dims
    order = t.op("pivot_order", t.op("sub", pivots, 1), rows=dims[-2], inverse=inverse)
    return t.op("gather", x, t.broadcast(t.op("unsqueeze", order, axis=len(dims) - 1), dims), axis=len(dims) - 2)


def lu_solve(t: Context, a: Args) -> Operand:
    """x of A x = b, or with `adjoint` of A' x = b; x of x A = b by transposing, which `adjoint` turns around."""
    batch = t.common(t.type(a.LU).dims[:-2], t.type(a.B).dims[:-2])
    adjoint = a.adjoint if a.left else not a.adjoint
    b = stack(t, a.B if a.left else swapped(t, a.B), batch)
    pivots, packed = stack(t, a.pivots, batch, 1), stack(t, a.LU, batch)
    if adjoint:
        packed = swapped(t, packed)
        y = t.op("solve_triangular", packed, b, lower=True)
        x = ordered(t, t.op("solve_triangular", packed, y, lower=False, unit=True), pivots, inverse=True)
    else:
        y = t.op("solve_triangular", packed, ordered(t, b, pivots, inverse=False), lower=True, unit=True)
        x = t.op("solve_triangular", packed, y, lower=False)
    return x if a.left else swapped(t, x)


def solve_triangular(t: Context, a: Args) -> Operand:
    batch = t.common(t.type(a.self).dims[:-2], t.type(a.B).dims[:-2])
    matrix, b = stack(t, a.self, batch), stack(t, a.B, batch)
    if a.left:
        return t.op("solve_triangular", matrix, b, lower=not a.upper, unit=bool(a.unitriangular))
    turned = swapped(t, matrix), swapped(t, b)
    return swapped(t, t.op("solve_triangular", *turned, lower=bool(a.upper), unit=bool(a.unitriangular)))


def householder_product(t: Context, a: Args) -> Operand:
    *batch, rows, columns = t.type(a.input).dims
    return t.op("reflect", a.input, a.tau, eye(t, rows, columns, batch, t.dtype))


def ormqr(t: Context, a: Args) -> Operand:
    v, tau, x = a.self, a.input2, a.input3
    if a.left:
        return t.op("reflect", v, tau, x, transpose=bool(a.transpose))
    return swapped(t, t.op("reflect", v, tau, swapped(t, x), transpose=not a.transpose))


def qr(t: Context, a: Args) -> Result:
    """R is the upper triangle of what is packed, Q the product of the reflections below it."""
    *batch, rows, _ = t.type(a.A).dims
    packed, tau = t.b.householder_qr(a.A)
    count, axis = t.type(tau).dims[-1], len(batch)
    upper = packed if a.mode == "complete" else t.op("slice", packed, axis=axis, start=0, stop=count)
    right = t.op("triu", upper, diagonal=0)
    if a.mode == "r":
        return t.op("zeros", shape=(0,), dtype=t.dtype), right
    wide = rows if a.mode == "complete" else count
    return t.op("reflect", packed, tau, eye(t, rows, wide, batch, t.dtype)), right


def eigh(t: Context, a: Args) -> Result:
    values, vectors = t.b.eigh(swapped(t, a.A) if a.UPLO.upper() == "U" else a.A)
    return values, vectors if a.compute_v else t.op("zeros", shape=(0,), dtype=t.dtype)


def svd(t: Context, a: Args) -> Result:
    u, values, v = t.b.svd(a.A)
    if not a.compute_uv:
        nothing = t.op("zeros", shape=(0,), dtype=t.dtype)
        return nothing, values, nothing
    rows, columns = t.type(a.A).dims[-2:]
    left, right = (rows, columns) if a.full_matrices else (t.type(values).dims[-1],) * 2
    full = completed(t, u, left) if 0 in t.used else None
    across = swapped(t, completed(t, swapped(t, v), right)) if 2 in t.used else None
    return full, values, across


def completed(t: Context, x: Operand, columns: Dim) -> Operand:
    """Orthonormal columns and some that are 0, those made orthonormal too, and more put behind them.

    The factor Q of x has them all, but for signs, which the diagonal of R tells.
    """
    *batch, rows, count = t.type(x).dims
    packed, tau = t.b.householder_qr(x)
    q = t.op("reflect", packed, tau, eye(t, rows, columns, batch, t.type(x).dtype))
    diagonal = t.op("diagonal", packed, axis=(len(batch), len(batch) + 1), offset=0)
    sign = t.op("where", t.op("lt", diagonal, 0.0), -1.0, t.op("ones", shape=t.type(diagonal).dims, dtype=t.dtype))
    if not t.b.facts.prove_eq(count, columns):
        more = t.op("ones", shape=(*batch, columns - t.type(sign).dims[-1]), dtype=t.dtype)
        sign = t.op("concat", sign, more, axis=len(batch))
    return t.op("mul", q, t.op("unsqueeze", sign, axis=len(batch)))


LINALG: Mapping[str, Row] = {
    "aten.cholesky.default": cholesky(True),
    "aten.linalg_cholesky.default": cholesky(True),
    "aten.linalg_cholesky_ex.default": cholesky(False),
    "aten.linalg_lu_factor.default": lu_factor(True),
    "aten.linalg_lu_factor_ex.default": lu_factor(False),
    "aten.lu_unpack.default": lu_unpack,
    "aten.linalg_lu_solve.default": lu_solve,
    "aten.linalg_solve_triangular.default": solve_triangular,
    "aten.linalg_qr.default": qr,
    "aten.geqrf.default": lambda t, a: t.b.householder_qr(a.self),
    "aten.linalg_householder_product.default": householder_product,
    "aten.ormqr.default": ormqr,
    "aten._linalg_eigh.default": eigh,
    "aten._linalg_svd.default": svd,
}
