"""Small models of real architectures, exported once, compiled once, compared with torch at several sizes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

from pliant.compiler.torch_program import from_torch  # noqa: E402

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def agree(compiled: Any, model: Any, args: Any, kwargs: Any) -> None:
    """Values, shapes, element types, and the structure of the results; errors as parts of each one's largest value."""
    with torch.no_grad():
        wanted, got = model(*args, **kwargs), compiled(*args, **kwargs)
    a, spec = pytree.tree_flatten(got)
    b, same = pytree.tree_flatten(wanted)
    assert spec == same
    for x, y in zip(a, b, strict=True):
        if isinstance(y, torch.Tensor):
            scale = y.double().abs().max().item() if y.numel() else 1.0
            torch.testing.assert_close(x, y, rtol=0, atol=1e-4 * scale)


class Patches(nn.Module):
    """ConvNeXt's block between two downsamplings: norms over channels, which stand last for them alone."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, 4)
        self.norm = nn.LayerNorm(8)
        self.down = nn.Conv2d(8, 8, 2, 2)
        self.depthwise = nn.Conv2d(8, 8, 7, padding=3, groups=8)
        self.up, self.back = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        x = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = self.down(x)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.back(nn.functional.gelu(self.up(y))).permute(0, 3, 1, 2)
        return (x + y).mean([-2, -1])


def test_an_example_with_one_column_of_pixels_does_not_bound_the_width() -> None:
    """torch asks whether a size is 1 to choose a convolution's memory format: no fact of the program."""
    model = Patches().eval()
    height, width = Dim("height", min=8, max=64), Dim("width", min=8, max=64)
    shapes = {"x": {0: Dim("batch", min=1, max=4), 2: height, 3: width}}
    compiled = from_torch(model, (torch.randn(2, 3, 24, 12),), dynamic_shapes=shapes)
    assert {str(f) for f in compiled.module.function("main").facts} == {
        "batch in 1..4", "height in 8..64", "width in 8..64",
    }  # fmt: skip
    for size in ((1, 3, 8, 8), (2, 3, 24, 12), (4, 3, 64, 64), (3, 3, 33, 17)):
        agree(compiled, model, (torch.randn(size),), {})


class Residual(nn.Module):
    """A residual network's stride-2 block: the shortcut's size is another expression of the same value."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.pool = nn.Conv2d(3, 8, 7, 2, 3), nn.MaxPool2d(3, 2, 1)
        self.first, self.second = nn.Conv2d(8, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 1, 1)
        self.norm, self.short = nn.BatchNorm2d(8), nn.Conv2d(8, 8, 1, 2)

    def forward(self, x: Any) -> Any:
        x = self.pool(torch.relu(self.stem(x)))
        return torch.relu(self.norm(self.second(torch.relu(self.first(x)))) + self.short(x))


def test_sizes_halved_in_several_ways_are_proven_equal() -> None:
    model = Residual().eval()
    shapes = {"x": {2: Dim("height", min=4, max=64), 3: Dim("width", min=4, max=64)}}
    compiled = from_torch(model, (torch.randn(1, 3, 24, 32),), dynamic_shapes=shapes)
    assert not [note for note in compiled.notes if "run time" in note]
    for height, width in ((4, 4), (5, 64), (17, 33), (64, 64)):
        agree(compiled, model, (torch.randn(1, 3, height, width),), {})


def _cases() -> dict[str, Any]:
    """The architectures of benchmarks/_models."""
    spec = importlib.util.spec_from_file_location(
        "_models", BENCHMARKS / "_models" / "__init__.py", submodule_search_locations=[str(BENCHMARKS / "_models")]
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["_models"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.CASES)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["BERT", "GPT-2, decode", "Llama, prefill", "T5, encoder", "Mixtral", "ViT", "ConvNeXt", "DLRM-like", "LSTM"],
)
def test_architectures(name: str) -> None:
    pytest.importorskip("transformers")
    case = _cases()[name]
    torch.manual_seed(0)
    model = case.build()
    args, kwargs = case.inputs(case.example)
    compiled = from_torch(model, args, kwargs, case.dynamic_shapes())
    for sizes in case.sizes:
        args, kwargs = case.inputs(sizes)
        agree(compiled, model, args, kwargs)


def test_a_program_whose_operators_all_have_rows_is_not_traced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv1d(4, 8, 3, padding=1), nn.LayerNorm(8)

        def forward(self, x: Any, mask: Any) -> Any:
            y = self.norm(self.conv(x).transpose(1, 2)).to(torch.float64)
            both = (mask.to(torch.bool) & y.new_ones(y.shape[:2], dtype=torch.bool)) | (mask > 2)
            return torch.softmax(y, -1, dtype=torch.float32), both, nn.functional.log_softmax(y, 1)

    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise AssertionError("decomposed")

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", refuse)
    model = Block().eval()
    batch, length = Dim("batch", max=4), Dim("length", max=16)
    shapes = {"x": {0: batch, 2: length}, "mask": {0: batch, 1: length}}
    compiled = from_torch(model, (torch.randn(2, 4, 5), torch.randint(0, 4, (2, 5))), dynamic_shapes=shapes)
    for b, n in ((1, 1), (4, 16), (3, 7)):
        agree(compiled, model, (torch.randn(b, 4, n), torch.randint(0, 4, (b, n))), {})


def test_a_program_that_writes_in_place_is_decomposed() -> None:
    class Writes(nn.Module):
        def forward(self, x: Any) -> Any:
            y = x * 2
            row = y[0]
            row.add_(1)
            return y, row

    model = Writes().eval()
    compiled = from_torch(model, (torch.randn(2, 4),), dynamic_shapes={"x": {1: Dim("n", max=64)}})
    for n in (1, 9, 64):
        agree(compiled, model, (torch.randn(2, n),), {})
