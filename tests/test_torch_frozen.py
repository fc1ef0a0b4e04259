"""Parameters that torch.compile packs once: results follow every change, those that torch does not count too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pliant.runtime.errors import PliantError  # noqa: E402


def step(model: Any) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5, fused=True)
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def statistics(model: Any) -> None:
    model.train()
    with torch.no_grad():
        model(torch.randn(64, 4) * 5 + 2)
    model.eval()


def in_inference(model: Any) -> None:
    with torch.inference_mode():
        for p in model.parameters():
            p.mul_(2)


def by_data(model: Any) -> None:
    for p in model.parameters():
        p.data += 1


def by_numpy(model: Any) -> None:
    for p in model.parameters():
        p.detach().numpy()[...] += 1


CHANGES: tuple[Callable[[Any], None], ...] = (step, statistics, in_inference, by_data, by_numpy)


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_results_follow_what_torch_does_not_count(change: Callable[[Any], None]) -> None:
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).eval()
    fast = torch.compile(model, backend="pliant", options={"freeze": True})
    x = torch.randn(5, 4)
    with torch.no_grad():
        before = fast(x)
        torch.testing.assert_close(before, model(x))
    change(model)
    with torch.no_grad():
        after = model(x)
        assert not torch.allclose(before, after)
        torch.testing.assert_close(fast(x), after)


def test_a_mode_of_inductors_is_refused() -> None:
    torch._dynamo.reset()
    fast = torch.compile(lambda x: x * 2, backend="pliant", mode="reduce-overhead")
    with torch.no_grad(), pytest.raises(Exception, match="the backend has no mode `reduce-overhead`") as caught:
        fast(torch.randn(3))
    assert isinstance(caught.value, PliantError) or "CompileError" in str(caught.value)


@torch.no_grad()
def test_a_slice_by_an_integer_of_either_sign() -> None:
    torch._dynamo.reset()
    x = torch.randn(64, 3)
    fast = torch.compile(lambda x, k: x[k:] * 2, backend="pliant", dynamic=True)
    for k in (3, 5, -1, 0, 64, 62, 63, -64):
        torch.testing.assert_close(fast(x, k), x[k:] * 2)


@torch.no_grad()
def test_other_names_of_operators() -> None:
    torch._dynamo.reset()

    def function(x: Any) -> Any:
        y = torch.true_divide(x, 3) + torch.multiply(x, 2) - torch.absolute(x)
        return torch.concatenate([y, torch.clip(torch.negative(x), 0, 1)]), torch.greater(x, 0)

    x = torch.randn(5)
    torch.testing.assert_close(torch.compile(function, backend="pliant")(x), function(x))
