"""Reductions and selections of nothing: as eager, with one artifact for every size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pliant  # noqa: E402


class Wrapped(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def compare(function: Callable[..., Any], example: Any, sizes: tuple[int, ...] = (0, 1, 2, 5)) -> None:
    """At every size along axis 0; where eager refuses a size, so must the artifact."""
    model = Wrapped(function).eval()
    exe = pliant.from_torch(model, (example,), dynamic_shapes=({0: torch.export.Dim("n", min=0, max=16)},))
    for n in sizes:
        x = torch.arange(n * 3).reshape(n, 3) * 7 % 5 - 2
        x = x.to(example.dtype)
        try:
            wanted = model(x)
        except (RuntimeError, IndexError):
            with pytest.raises(pliant.PliantError):
                exe(x)
            continue
        got = exe(x)
        for a, b in zip(wanted, got, strict=True) if isinstance(wanted, tuple) else [(wanted, got)]:
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(b.double().numpy(), a.double().numpy(), rtol=1e-5, atol=1e-6)


_MORE = ("float64", "float16", "int32", "int16", "int8", "uint8")


@pytest.mark.parametrize("dtype", ["float32", "int64", *(pytest.param(d, marks=pytest.mark.slow) for d in _MORE)])
def test_the_median_of_nothing(dtype: str) -> None:
    def function(x: Any) -> Any:
        return torch.median(x), torch.nanmedian(x)

    compare(function, torch.ones(4, 3, dtype=getattr(torch, dtype)))


def test_medians_with_nan_are_as_before() -> None:
    model = Wrapped(lambda x: (torch.median(x), torch.nanmedian(x))).eval()
    exe = pliant.from_torch(model, (torch.ones(4),), dynamic_shapes=({0: torch.export.Dim("n", min=0, max=16)},))
    for values in ([], [np.nan], [np.nan, 1], [3, np.nan, 1, 2], [np.nan, np.nan], [4, 1, 3, 2], [5, 1, 4]):
        x = torch.tensor(values, dtype=torch.float32)
        for a, b in zip(model(x), exe(x), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
