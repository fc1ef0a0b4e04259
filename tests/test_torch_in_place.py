"""Writes in place: followed where the tensor is the program's own and has one name, left to torch where not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import pliant  # noqa: E402
from pliant.frontends.torch import export as importer  # noqa: E402
from pliant.frontends.torch.in_place import followed  # noqa: E402


class Model(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function
        self.norm = torch.nn.BatchNorm1d(4)
        self.drop = torch.nn.Dropout(0.5, inplace=True)

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


def old_and_new(_m: Any, x: Any) -> Any:
    y = x + 1
    before = y * 2
    y.mul_(3)
    after = y * 2
    y.add_(x)
    return before, after, y


def items(_m: Any, x: Any) -> Any:
    values, places = torch.topk(x, 2)
    doubled = values * 2
    values.div_(values.sum(-1, keepdim=True))
    return values, places, doubled


def view_before(_m: Any, x: Any) -> Any:
    y = x + 1
    part = y[:, 1:]
    y.mul_(3)
    return part * 1, y


def view_written(_m: Any, x: Any) -> Any:
    y = x + 1
    y[:, 0] = 7
    return y


def argument(_m: Any, x: Any) -> Any:
    return x.relu_() * 2


FOLLOWED = {
    "relu_": lambda _m, x: torch.relu_(x * 2) + 1,
    "old and new": old_and_new,
    "items": items,
    "norm": lambda m, x: m.norm(x).relu_(),
    "dropout of a view": lambda m, x: m.drop(x.flatten(1)) + 1,
    "view afterwards": lambda _m, x: (x + 1).mul_(2)[:, 1:],
    "another kind": lambda _m, x: torch.exp(x).mul_(2).add_(torch.ones(4, dtype=torch.int64)),
}
LEFT = {"view before": view_before, "view written": view_written, "argument": argument}


def model_and_program(function: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = Model(function).eval()
    model.norm.running_mean.normal_()
    shapes = ({0: torch.export.Dim("n", max=16)},)
    return model, torch.export.export(model, (torch.randn(3, 4),), dynamic_shapes=shapes)


def check(model: Any, compiled: Any) -> None:
    for n in (0, 1, 5, 16):
        x = torch.randn(n, 4)
        ours, theirs = x.clone(), x.clone()
        with torch.no_grad():
            torch.testing.assert_close(compiled(ours), model(theirs))
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", FOLLOWED)
def test_writes_that_need_no_second_trace(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, program = model_and_program(FOLLOWED[name])

    def refused(_program: Any) -> Any:
        raise AssertionError("traced again")

    monkeypatch.setattr(importer, "decomposed", refused)
    check(model, pliant.from_torch(program))


@pytest.mark.parametrize("name", LEFT)
def test_writes_that_torch_must_undo(name: str) -> None:
    model, program = model_and_program(LEFT[name])
    assert followed(program.graph_module) is None
    check(model, pliant.from_torch(program))
