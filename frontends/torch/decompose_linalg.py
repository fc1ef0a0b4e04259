"""Linear algebra made of factorisations that have rows: written in torch's own operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

aten = torch.ops.aten


def _eye_like(x: Any) -> Any:
    return torch.eye(x.shape[-1], dtype=x.dtype).expand(x.shape)


def _vector(a: Any, b: Any) -> bool:
    """Is the right side a vector a matrix, as torch decides?"""
    return b.dim() == 1 or (a.dim() - 1 == b.dim() and tuple(b.shape) == tuple(a.shape[:-1]))


def solve_ex(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    packed, pivots, info = aten.linalg_lu_factor_ex(a, check_errors=check_errors)
    vector = _vector(a, b)
    out = aten.linalg_lu_solve(packed, pivots, b.unsqueeze(-1) if vector else b, left=left or vector)
    return out.squeeze(-1) if vector else out, packed, pivots, info


def solve(a: Any, b: Any, *, left: bool = True) -> Any:
    return solve_ex(a, b, left=left, check_errors=True)[0]


def inv_ex(a: Any, *, check_errors: bool = False) -> Any:
    packed, pivots, info = aten.linalg_lu_factor_ex(a, check_errors=check_errors)
    return aten.linalg_lu_solve(packed, pivots, _eye_like(a)), info


def inv(a: Any) -> Any:
    return inv_ex(a, check_errors=True)[0]


def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of a tensor as a matrix from its axes from `ind` on to those before."""
    before, after = a.shape[:ind], a.shape[ind:]
    return inv(a.reshape(math.prod(after), math.prod(before))).reshape(*after, *before)


def _parity(pivots: Any, dtype: Any) -> Any:
    """1 for an even number of exchanges, -1 for an odd one."""
    moved = pivots != torch.arange(1, pivots.shape[-1] + 1)
    return torch.where(moved, -1.0, 1.0).to(dtype).prod(-1)


def det(a: Any) -> Any:
    packed, pivots, _ = aten.linalg_lu_factor_ex(a)
    return packed.diagonal(0, -2, -1).prod(-1) * _parity(pivots, a.dtype), packed, pivots


def slogdet(a: Any) -> Any:
    packed, pivots, _ = aten.linalg_lu_factor_ex(a)
    diagonal = packed.diagonal(0, -2, -1)
    sign = diagonal.sign().prod(-1) * _parity(pivots, a.dtype)
    return sign, diagonal.abs().log().sum(-1), packed, pivots


def lu(a: Any, *, pivot: bool = True) -> Any:
    packed, pivots, _ = aten.linalg_lu_factor_ex(a, pivot=pivot)
    return aten.lu_unpack(packed, pivots)


def triangular(b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    if transpose:
        a, upper = a.mT, not upper
    return aten.linalg_solve_triangular(a, b, upper=upper, unitriangular=unitriangular), a.clone()


def cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    low = factor.mT if upper else factor
    half = aten.linalg_solve_triangular(low, b, upper=False)
    return aten.linalg_solve_triangular(low.mT, half, upper=True)


def cholesky_inverse(factor: Any, upper: bool = False) -> Any:
    return cholesky_solve(_eye_like(factor), factor, upper)


def pinv(a: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """From the singular values (or eigenvalues) above max(atol, rtol * the largest)."""
    rows, columns = a.shape[-2:]
    if hermitian:
        values, right = aten._linalg_eigh(a)
        left, size = right.mT, values.abs()
    else:
        u, values, v = aten._linalg_svd(a)
        left, right, size = u.mT, v.mT, values
    if rtol is None:
        rtol = torch.finfo(a.dtype).eps * torch.sym_max(rows, columns) if atol is None else 0.0
    top = torch.cat([size, size.new_zeros((*size.shape[:-1], 1))], -1).amax(-1, keepdim=True)  # of none 0
    least = top * (rtol.unsqueeze(-1) if isinstance(rtol, torch.Tensor) else rtol)
    if atol is not None:
        least = torch.maximum(least, atol.unsqueeze(-1))
    share = torch.where(size > least, 1.0 / values, 0.0).to(a.dtype)
    return torch.matmul(right * share.unsqueeze(-2), left)


_TERMS, _SQUARINGS = 12, 20


def matrix_exp(a: Any) -> Any:
    """Scaling and squaring (Higham, 2005) with a Taylor polynomial: at norms up to 1/2 its error is below 1e-13.

    How often is squared depends on the data: as often as any matrix may need, where it is not needed with no effect.
    """
    if a.dtype is torch.float32:
        return matrix_exp(a.double()).float()  # squaring doubles an error every time
    norm = a.abs().sum(-2, keepdim=True).amax(-1, keepdim=True)
    times = torch.clamp(torch.ceil(torch.log2(norm)) + 1, 0, _SQUARINGS)
    scaled = a / torch.exp2(times)
    one = _eye_like(a)
    out = one + scaled / _TERMS
    for n in range(_TERMS - 1, 0, -1):
        out = one + torch.matmul(scaled, out) / n
    for n in range(_SQUARINGS):
        out = torch.where(times > n, torch.matmul(out, out), out)
    return out


LINALG: Mapping[Any, Callable[..., Any]] = {
    aten._linalg_solve_ex.default: solve_ex,
    aten.linalg_solve.default: solve,
    aten.linalg_inv_ex.default: inv_ex,
    aten.linalg_inv.default: inv,
    aten.linalg_tensorinv.default: tensorinv,
    aten._linalg_det.default: det,
    aten._linalg_slogdet.default: slogdet,
    aten.linalg_lu.default: lu,
    aten.triangular_solve.default: triangular,
    aten.cholesky_solve.default: cholesky_solve,
    aten.cholesky_inverse.default: cholesky_inverse,
    aten.linalg_pinv.atol_rtol_tensor: pinv,
    aten.linalg_matrix_exp.default: matrix_exp,
}
