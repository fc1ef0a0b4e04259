"""What cannot be exported or imported: always a CompileError with torch's reason, the place, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402

from pliant.compiler.torch_program import from_torch  # noqa: E402
from pliant.frontends.torch import import_torch  # noqa: E402
from pliant.ir.diagnostics import CompileError  # noqa: E402
from pliant.runtime.errors import LayoutError  # noqa: E402

HERE = Path(__file__).name
AUTO = Dim.AUTO
EIGHT = torch.ones(8)


class Fn(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, y: Any = None) -> Any:
        return self.function(x) if y is None else self.function(x, y)


def said(function: Any, *args: Any, shapes: Any = None) -> str:
    with pytest.raises(CompileError) as caught:
        import_torch(function if isinstance(function, torch.nn.Module) else Fn(function), args, dynamic_shapes=shapes)
    text = str(caught.value)
    assert "help: " in text
    return text


def fixed(x: Any) -> Any:
    return x * 2 if x.shape[0] == 8 else x


@pytest.mark.parametrize(
    ("function", "by"),
    [
        (lambda x: x.view(4, 2), "`reshape` keeps the number of elements"),
        (lambda x: x + EIGHT, "the sizes of `add` do not match"),
        (fixed, "return x * 2 if x.shape[0] == 8 else x"),
    ],
)
def test_a_size_that_the_model_fixes(function: Any, by: str) -> None:
    text = said(function, torch.randn(8), shapes={"x": {0: Dim("n")}})
    assert "dynamic_shapes leave size 0 of `x` open (n), but torch.export fixed it to 8" in text
    assert by in text
    assert "allow_narrowing=True" in text


@torch.no_grad()
def test_a_number_that_python_makes_of_a_size_moves_with_it() -> None:
    """Run, `int` gives a number, which torch.export then fixes; read, it stays a size."""
    for function in (
        lambda x: x * int(x.shape[0]),
        lambda x: x.new_zeros(int(x.shape[0] * 0.5)) + 1,
        lambda x: x.new_zeros(int(x.shape[0] * 0.3), 2),
        lambda x: x.new_zeros(round(x.shape[0] / 2)),
    ):
        exe = from_torch(Fn(function), (torch.randn(20),), dynamic_shapes={"x": {0: Dim("n", max=256)}})
        for n in (0, 1, 3, 10, 20, 90, 255):
            torch.testing.assert_close(exe(torch.ones(n)), function(torch.ones(n)))


def test_a_size_that_must_move_and_does_not() -> None:
    text = said(lambda x: x + EIGHT, torch.randn(8), shapes={"x": {0: Dim.DYNAMIC}})
    assert "dynamic_shapes leave size 0 of `x` open" in text
    assert "but torch.export fixed it to 8" in text


@torch.no_grad()
@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("kind", ["named", "automatic", "dynamic"])
def test_an_example_of_size_0_or_1_stands_for_every_size(size: int, kind: str) -> None:
    model = Fn(lambda x: (x * 2).sum(0))
    dim = {"named": Dim("n"), "automatic": AUTO, "dynamic": Dim.DYNAMIC}[kind]
    exe = from_torch(model, (torch.randn(size, 3),), dynamic_shapes={"x": {0: dim}})
    for n in (0, 1, 5):
        x = torch.randn(n, 3)
        torch.testing.assert_close(exe(x), model(x))


def test_an_example_of_size_1_is_not_broadcast_when_it_moves() -> None:
    shapes = {"x": {0: Dim("n")}, "y": {0: Dim("m")}}
    text = said(lambda x, y: x + y, torch.randn(1, 3), torch.randn(4, 3), shapes=shapes)
    assert "must match" in text
    assert "a size of 1 in the example that is left open stands for every size, and is not broadcast" in text
    assert f"{HERE}:" in text


PAIR = (torch.zeros(3), torch.zeros(4))


@pytest.mark.parametrize(
    ("shapes", "torchs"),
    [
        (({0: Dim("n")},), "`inputs` has 2 elements, but `dynamic_shapes` has 1 elements"),
        ({"x": {0: Dim("n")}, "z": None}, "here they are ['x', 'z']"),
        ({0: Dim("n")}, "here they are [0]"),
        (([Dim("n"), None], None), "expected 1, but got 2 instead"),
        (({0: "n"}, None), "but got 'n' instead"),
    ],
)
def test_dynamic_shapes_of_another_structure(shapes: Any, torchs: str) -> None:
    text = said(lambda x, y: (x, y * 2), *PAIR, shapes=shapes)
    assert torchs in text
    assert "dynamic_shapes has the structure of the arguments" in text


def test_an_axis_beyond_the_rank() -> None:
    text = said(lambda x, y: (x, y * 2), *PAIR, shapes=({0: Dim("n")}, {5: Dim("m")}))
    assert "dynamic_shapes name axis 5 of `y`, which has rank 1" in text


@pytest.mark.parametrize(
    ("shapes", "torchs", "ours"),
    [
        (({0: Dim("n", max=2)}, None), "not allowed: n in 0..2, but there n = 3", "lie in the bounds of their Dims"),
        (({0: Dim("n", min=4)}, None), "not allowed: n in 4.., but there n = 3", "lie in the bounds of their Dims"),
        (({0: 7}, None), "Static shape constraint of 7", "use a Dim for one that moves"),
    ],
)
def test_examples_outside_what_dynamic_shapes_say(shapes: Any, torchs: str, ours: str) -> None:
    text = said(lambda x, y: (x, y * 2), *PAIR, shapes=shapes)
    assert torchs in text
    assert ours in text


def branches(x: Any) -> Any:
    if x.sum() > 0:
        return x + 1
    return x - 1


@pytest.mark.parametrize(
    ("function", "torchs", "ours"),
    [
        (branches, "Could not guard on data-dependent expression", "use torch.where"),
        (lambda x: x * float(x[0]), "Could not guard on data-dependent expression", "use torch.where"),
        (lambda x: torch.from_numpy(x.numpy()), ".numpy() is not supported", "keep to torch's operators"),
        (lambda x: x @ torch.randn(5, 5), "torch.export failed", "mend that line"),
    ],
)
def test_what_torch_cannot_trace_says_where(function: Any, torchs: str, ours: str) -> None:
    text = said(function, torch.randn(4, 4))
    assert torchs in text
    assert ours in text
    assert f"{HERE}:" in text


def test_arguments_that_are_missing_or_no_data() -> None:
    assert "args and kwargs are an example of every argument" in said(torch.nn.Bilinear(2, 2, 2), torch.zeros(2))
    assert "pass tensors and numbers" in said(lambda x: 1, object())


# -------------------------------------------------------------------------------- arguments that share memory


class Writes(torch.nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        a.add_(1)
        return b * 2


WHOLE = torch.arange(8.0)


@pytest.mark.parametrize("other", [WHOLE, WHOLE[:], WHOLE[2:6], WHOLE.view(2, 4)])
def test_an_example_whose_arguments_share_what_is_written_is_refused_by_name(other: Any) -> None:
    text = said(Writes(), WHOLE, other)
    assert "`a` and `b` share memory, and the model writes to `a`" in text
    assert "pass `b` as a copy" in text


@torch.no_grad()
def test_a_call_whose_arguments_share_what_is_written_is_refused_by_name() -> None:
    exe = from_torch(Writes(), (torch.zeros(4), torch.zeros(4)), dynamic_shapes=({0: AUTO}, {0: AUTO}))
    t = torch.zeros(8)
    for shared in ((t, t), (t[:4], t[3:]), (t[4:], t)):
        with pytest.raises(LayoutError, match="`a` and `b` share memory"):
            exe(*shared)
        with pytest.raises(LayoutError, match="`a` and `b` share memory"):
            exe(*(x.numpy() for x in shared))
    assert not t.any(), "refused before anything was written"
    torch.testing.assert_close(exe(t[:4], t[4:]), torch.zeros(4))
    assert t.tolist() == [1.0] * 4 + [0.0] * 4


@torch.no_grad()
def test_views_that_nothing_writes_to_are_arguments_like_others() -> None:
    model = Fn(lambda x, y: x * 2 + y)
    exe = from_torch(model, (WHOLE[:4], WHOLE[2:6]), dynamic_shapes={"x": {0: AUTO}, "y": {0: AUTO}})
    torch.testing.assert_close(exe(WHOLE[1:4], WHOLE[5:]), WHOLE[1:4] * 2 + WHOLE[5:])


class Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.count += 1
        return x + self.count


@torch.no_grad()
def test_an_argument_that_was_a_buffer_of_the_model_is_an_argument() -> None:
    model = Counts()
    exe = from_torch(model, (model.count,))
    assert exe(torch.full((3,), 5.0)).tolist() == [6.0] * 3
    assert exe(torch.full((3,), 5.0)).tolist() == [7.0] * 3
    assert not model.count.any()
