"""`checked`: a value is given where a condition on data holds, and the call fails where it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pliant
from pliant.ir.infer_module import infer_module
from pliant.ir.interpret import Interpreter, InterpretError
from pliant.ir.parser import parse_module
from pliant.runtime.errors import KernelError

TEXT = """
func @main(x: f32[n], limit: f32[]) -> f32[n] {
    top = max(x, initial=0.0)
    fine = lt(top, limit)
    y = checked(x, fine, message="x reaches {limit}")
    z = mul(y, 2.0)
    return z
}
"""


def test_a_call_fails_where_the_condition_does_not_hold() -> None:
    exe = pliant.compile(TEXT)
    for n in (0, 1, 5, 70):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(exe(x, np.float32(100)), 2 * x)
    with pytest.raises(KernelError, match=r"x reaches \{limit\}"):
        exe(np.arange(70, dtype=np.float32), np.float32(69))


def test_the_interpreter_fails_too() -> None:
    module = infer_module(parse_module(TEXT))
    machine = Interpreter(module, {})
    given = {"x": np.arange(7, dtype=np.float32), "limit": np.float32(6)}
    with pytest.raises(InterpretError, match="x reaches"):
        machine.call(module.function("main"), given)


def test_assertions_of_torch_on_data_are_checked() -> None:
    torch: Any = pytest.importorskip("torch")

    class OneHot(torch.nn.Module):  # type: ignore[misc]
        def forward(self, i: Any) -> Any:
            return torch.nn.functional.one_hot(i, 5)

    model = OneHot()
    exe = pliant.from_torch(model, (torch.tensor([1, 4]),), dynamic_shapes=({0: torch.export.Dim("n")},))
    for given in ([0, 4, 2, 2], [3], []):
        i = torch.tensor(given, dtype=torch.int64)
        assert torch.equal(exe(i), model(i))
    for given in ([0, 5], [-1]):
        with pytest.raises(KernelError, match="Class values must be"):
            exe(torch.tensor(given))
