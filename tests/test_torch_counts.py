"""Operators of torch whose sizes or steps depend on data, and random numbers: what is there, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import pliant  # noqa: E402
from pliant.ir.diagnostics import CompileError  # noqa: E402

AUTO = torch.export.Dim.AUTO


class Model(torch.nn.Module):
    def __init__(self, of: Callable[..., Any]) -> None:
        super().__init__()
        self.of = of

    def forward(self, *given: Any) -> Any:
        return self.of(*given)


def test_bincount_counts_as_many_numbers_as_minlength_says() -> None:
    def counted(x: Any, w: Any) -> Any:
        return torch.bincount(x, minlength=4), torch.bincount(x, w, minlength=5)[:4] / x.shape[0]

    example = torch.tensor([0, 1, 1, 3]), torch.rand(4)
    exe = pliant.from_torch(Model(counted), example, dynamic_shapes=(({0: AUTO}, {0: AUTO}),))
    for x in (example[0], torch.tensor([3, 3, 3]), torch.tensor([2]), torch.randint(0, 4, (99,))):
        w = torch.rand(x.shape[0])
        torch.testing.assert_close(exe(x, w), counted(x, w))
    for wrong in (4, -1):
        with pytest.raises(pliant.PliantError, match="from 0 up to its minlength of 4"):
            exe(torch.tensor([0, wrong]), torch.rand(2))
    with pytest.raises(CompileError, match="depends on data unless `minlength` says"):
        pliant.from_torch(Model(lambda x: torch.bincount(x)), example[:1])


def test_orthogonal_polynomials_of_orders_that_are_data() -> None:
    s = torch.special
    rules = (s.hermite_polynomial_h, s.hermite_polynomial_he, s.laguerre_polynomial_l, s.legendre_polynomial_p)

    def all_of(x: Any, n: Any) -> Any:
        mixed = rules[3](0.3, n), rules[0](x[:, None], n)
        return [*(f(x, n) for f in rules), *(f(x.double(), 3) for f in rules), *mixed]

    example = torch.tensor([0.5, -0.7, 1.0, -1.0, 1.3, 0.0, 0.9]), torch.tensor([0, 1, 2, 3, -1, 8, 130])
    exe = pliant.from_torch(Model(all_of), example, dynamic_shapes=(({0: AUTO}, {0: AUTO}),))
    for size in (7, 1, 4):
        given = tuple(t[-size:] for t in example)
        torch.testing.assert_close(exe(*given), all_of(*given), equal_nan=True, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "draws",
    [
        lambda x: torch.poisson(x),
        lambda x: x + torch.randint(0, 5, (4,)),
        lambda x: x.clone().random_(),
        lambda x: torch._standard_gamma(x),
        lambda x: x[torch.randperm(4)],
        lambda x: torch.nn.functional.dropout(x, 0.5, True),
        lambda x: torch.complex(x, x).clone().normal_(),
    ],
)
def test_random_numbers_are_refused_by_name(draws: Callable[[Any], Any]) -> None:
    with pytest.raises(CompileError, match=r"`aten\.\w+\.\w+`[\s\S]*random numbers are not supported"):
        pliant.from_torch(Model(draws), (torch.rand(4),))
