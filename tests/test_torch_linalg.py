"""Linear algebra from torch: symbolic sizes, what has no inverse, vectors of what is not of full rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pliant  # noqa: E402

AUTO = torch.export.Dim.AUTO


class Calls(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Any) -> Any:
        return self.function(*tensors)


def imported(function: Callable[..., Any], *example: Any) -> Any:
    shapes = (tuple(dict.fromkeys(range(x.dim()), AUTO) for x in example),)
    return pliant.from_torch(Calls(function), example, dynamic_shapes=shapes)


def close(got: Any, want: Any, atol: float = 1e-4) -> None:
    torch.testing.assert_close(got, want, rtol=1e-3, atol=atol)


def equations(a: Any, b: Any) -> Any:
    square = a @ a.mT + torch.eye(a.shape[-1])
    factor = torch.linalg.cholesky(square)
    return (
        torch.linalg.solve(a, b),
        torch.linalg.inv(a),
        torch.linalg.det(a),
        torch.linalg.slogdet(a),
        torch.cholesky_solve(b, factor),
        torch.linalg.solve_triangular(a, b.mT, upper=True, left=False),
        torch.linalg.lu(a),
        torch.linalg.eigvalsh(square),
    )


def test_square_matrices_at_every_size() -> None:
    torch.manual_seed(0)
    exe = imported(equations, torch.randn(2, 4, 4), torch.randn(2, 4, 3))
    for batch, n, m in ((2, 4, 3), (1, 1, 1), (3, 17, 70), (0, 3, 2)):
        a, b = torch.randn(batch, n, n) / 4 + 2 * torch.eye(n), torch.randn(batch, n, m)
        close(exe(a, b), equations(a, b))


def factors(a: Any) -> Any:
    q, r = torch.linalg.qr(a)
    u, s, v = torch.linalg.svd(a, full_matrices=False)
    whole, _, _ = torch.linalg.svd(a, full_matrices=True)
    return q, r, s, (u * s) @ v, whole @ whole.mT, torch.linalg.pinv(a), torch.linalg.matrix_norm(a, "nuc")


@pytest.mark.parametrize("example", [(5, 3), (3, 5)])
def test_long_and_wide_matrices(example: tuple[int, int]) -> None:
    torch.manual_seed(1)
    exe = imported(factors, torch.randn(example))
    sizes = ((5, 3), (9, 8), (12, 1)) if example[0] > example[1] else ((3, 5), (1, 12), (8, 9))
    for shape in sizes:
        a = torch.randn(shape)
        close(exe(a), factors(a), atol=1e-3)


def test_vectors_of_a_matrix_of_lower_rank_are_orthonormal() -> None:
    exe = imported(lambda a: torch.linalg.svd(a, full_matrices=False), torch.randn(6, 4))
    a = torch.outer(torch.arange(1.0, 7), torch.ones(4))
    u, s, v = exe(a)
    close(u.mT @ u, torch.eye(4))
    close((u * s) @ v, a)
    close(s[1:], torch.zeros(3))


def test_what_has_no_inverse_fails_the_call() -> None:
    inverse = imported(torch.linalg.inv, torch.randn(2, 3, 3))
    with pytest.raises(pliant.PliantError, match="a matrix of `lu` is singular: it has no pivot at step 3"):
        inverse(torch.tensor([[1.0, 2, 3], [4, 5, 6], [0, 0, 0]]).expand(2, 3, 3).contiguous())
    factor = imported(torch.linalg.cholesky, torch.eye(3))
    with pytest.raises(pliant.PliantError, match="is not positive-definite: its leading block of order 2 is not"):
        factor(torch.diag(torch.tensor([1.0, -1.0, 1.0])))
    said = imported(torch.linalg.cholesky_ex, torch.eye(3))
    assert said(torch.diag(torch.tensor([1.0, -1.0, 1.0])))[1] == 2


def test_products_of_no_elements_in_a_stack() -> None:
    """One matrix of a stack with neither rows nor columns: nothing to divide positions by."""
    x = np.zeros((1, 1, 0, 0), np.float32)
    exe = pliant.from_torch(Calls(torch.matmul), (torch.zeros(1, 1, 0, 0), torch.zeros(1, 1, 0, 0)))
    assert exe(x, x).shape == (1, 1, 0, 0)
