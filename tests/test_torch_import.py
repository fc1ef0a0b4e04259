"""Whole torch programs: sizes and what is known of them, arguments and results, state, errors, the command line."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from click.testing import CliRunner  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402
from torch.export import Dim, export, load, save  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import pliant  # noqa: E402
from pliant.compiler.cli.app import group  # noqa: E402
from pliant.compiler.torch_program import compiled, from_torch  # noqa: E402
from pliant.frontends.torch import import_program, import_torch  # noqa: E402
from pliant.ir.diagnostics import CompileError  # noqa: E402
from pliant.ir.parser import parse_module  # noqa: E402
from pliant.ir.printer import print_module  # noqa: E402
from pliant.runtime.errors import ArgumentError  # noqa: E402

AUTO = Dim.AUTO


class Fn(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def agree(exe: Any, model: Any, *args: Any, **kwargs: Any) -> None:
    wanted, got = model(*args, **kwargs), exe(*args, **kwargs)
    a, spec = pytree.tree_flatten(got)
    b, same = pytree.tree_flatten(wanted)
    assert spec == same
    for x, y in zip(a, b, strict=True):
        if isinstance(y, torch.Tensor):
            torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)
        else:
            assert x == y
            assert type(x) is type(y)


def facts(imported: Any) -> set[str]:
    return set(map(str, imported.module.function("main").facts))


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.MultiheadAttention(16, 4, batch_first=True)
        self.norm = torch.nn.LayerNorm(16)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 16))

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        x = x + self.inner(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm(x))


# ----------------------------------------------------------------------------------------------------- sizes


@torch.no_grad()
def test_a_transformer_block_at_every_size() -> None:
    model = Attention().eval()
    b, s = Dim("b", max=8), Dim("s", max=64)
    exe = pliant.from_torch(model, (torch.randn(2, 5, 16),), dynamic_shapes=({0: b, 1: s},))
    assert str(exe.module.function("main").params[0].type) == "f32[b, s, 16]"
    assert facts(exe.imported) == {"b in 0..8", "s in 0..64"}
    for sizes in ((2, 5), (1, 1), (8, 64), (3, 0), (0, 4), (5, 33)):
        agree(exe, model, torch.randn(*sizes, 16))
    with pytest.raises(pliant.PliantError, match=r"b in 0\.\.8"):
        exe(torch.randn(9, 5, 16))


@torch.no_grad()
def test_zero_and_one_are_served_where_only_torch_kept_them_out() -> None:
    model = Fn(lambda x, y: (x + y).softmax(-1) @ y.t())
    example = (torch.randn(4, 6), torch.randn(4, 6))
    program = export(model, example, dynamic_shapes=(({0: AUTO, 1: AUTO},) * 2,))
    assert {v.lower for v in program.range_constraints.values()} == {2}
    imported = import_program(program)
    assert any("may be 0 and 1" in note for note in imported.notes)
    exe = compiled(imported)
    for n, m in ((4, 6), (1, 1), (0, 3), (1, 5), (3, 1)):
        agree(exe, model, torch.randn(n, m), torch.randn(n, m))


@torch.no_grad()
def test_a_branch_of_the_model_on_a_size_keeps_out_the_sizes_that_differ() -> None:
    """Whatever the example: of positive numbers both branches give the same."""
    model, shapes = Fn(lambda x: torch.relu(x) if x.shape[0] > 1 else x + 0), (({0: Dim("n")},),)
    with pytest.raises(CompileError, match=r"right for `n in 2\.\.` only") as caught:
        from_torch(model, (torch.rand(4, 3),), dynamic_shapes=shapes)
    assert "torch.relu(x) if x.shape[0] > 1 else x + 0" in str(caught.value), "the line of the branch"
    assert 'say `Dim("n", min=2, ..)`' in str(caught.value)
    for exe in (
        from_torch(model, (torch.rand(4, 3),), dynamic_shapes=shapes, allow_narrowing=True),
        from_torch(model, (torch.rand(4, 3),), dynamic_shapes=(({0: Dim("n", min=2)},),)),
    ):
        agree(exe, model, torch.randn(2, 3))
        with pytest.raises(pliant.PliantError, match=r"n in 2\.\."):
            exe(torch.randn(1, 3))
    same = Fn(lambda x: x.cumsum(0) if x.shape[0] != 1 else x.clone().cumsum(0))
    exe = from_torch(same, (torch.randn(4, 3),), dynamic_shapes=(({0: Dim("n")},),))
    for n in (0, 1, 2, 9):
        agree(exe, same, torch.randn(n, 3))


@torch.no_grad()
def test_derived_sizes_divisibility_and_order_come_along() -> None:
    def function(x: Any, y: Any, z: Any) -> Any:
        torch._check(x.shape[0] <= z.shape[0])
        return x.view(-1, 4).sum(1), y[1 : x.shape[0] + 1] + x, z[: x.shape[0]] * x

    n = Dim("n", min=4, max=64)
    example = torch.randn(8), torch.randn(9), torch.randn(12)
    model = Fn(function)
    exe = from_torch(model, example, dynamic_shapes=(({0: 4 * Dim("k", max=16)}, {0: AUTO}, {0: AUTO}),))
    known = facts(exe.imported)
    assert any("<=" in f for f in known), known
    assert any("% 4" in f or "k" in f for f in known), known
    for k in (2, 1, 16):
        agree(exe, model, torch.randn(4 * k), torch.randn(4 * k + 1), torch.randn(4 * k + 3))
    agree(exe, model, torch.randn(8), torch.randn(10), torch.randn(12))  # torch takes a longer y as well
    for wrong in ((8, 8, 12), (8, 9, 7), (6, 7, 8)):
        with pytest.raises(pliant.PliantError):
            exe(*(torch.randn(w) for w in wrong))
    shorter = Fn(lambda x, y: x[1:] * y)
    exe = from_torch(shorter, (torch.randn(8), torch.randn(7)), dynamic_shapes=(({0: n}, {0: n - 1}),))
    agree(exe, shorter, torch.randn(4), torch.randn(3))
    with pytest.raises(pliant.PliantError):
        exe(torch.randn(8), torch.randn(8))


def test_facts_of_a_stored_program_are_read_from_its_guards(tmp_path: Path) -> None:
    def function(x: Any, y: Any) -> Any:
        torch._check(x.shape[0] <= y.shape[0])
        return x.view(-1, 4), y * 2

    example = torch.randn(8), torch.randn(12)
    program = export(Fn(function), example, dynamic_shapes=(({0: AUTO}, {0: AUTO}),))
    save(program, tmp_path / "m.pt2")
    imported = import_program(load(tmp_path / "m.pt2"))
    known = facts(imported)
    assert any("% 4 == 0" in f for f in known), known
    exe = compiled(imported)
    with pytest.raises(pliant.PliantError):
        exe(torch.randn(8), torch.randn(4))


SIZES = [
    (lambda n, m: (n + 3) // 2, "floor division"),
    (lambda n, m: -(-n // 3), "ceiling"),
    (lambda n, m: (n * 7 - m) % 5, "modulus"),
    (lambda n, m: max(n, m, 3), "max"),
    (lambda n, m: min(n, m + 2), "min"),
    (lambda n, m: math.trunc(n / 2), "truncation"),
    (lambda n, m: math.ceil(n / 4), "math.ceil"),
    (lambda n, m: math.floor(n * 1.5), "a literal float"),
    (lambda n, m: math.floor(n * 1.7) + math.ceil(m * 0.6), "floats next to fractions"),
    (lambda n, m: n * n - m, "power"),
]


@pytest.mark.parametrize("at", range(len(SIZES)), ids=[s[1] for s in SIZES])
def test_arithmetic_of_sizes(at: int) -> None:
    formula = SIZES[at][0]

    def function(x: Any) -> Any:
        n, m = x.shape
        named = {3: lambda: torch.sym_max(n, torch.sym_max(m, 3)), 4: lambda: torch.sym_min(n, m + 2)}
        size = named.get(at, lambda: formula(n, m))()
        return torch.full((1,), 1.0) * size, size + 1

    exe = from_torch(Fn(function), (torch.randn(9, 4),), dynamic_shapes=(({0: Dim("n", min=3), 1: Dim("m", max=9)},),))
    for n, m in ((9, 4), (3, 0), (10, 9), (17, 2)):
        tensor, number = exe(torch.randn(n, m))
        assert tensor.item() == formula(n, m)
        assert number == formula(n, m) + 1
        assert type(number) is int


def test_sizes_as_real_numbers() -> None:
    model = Fn(lambda x: (x * (x.shape[0] ** 0.5), x.shape[0] / x.shape[1], torch.arange(x.shape[0]) / x.shape[1]))
    exe = from_torch(model, (torch.randn(9, 4),), dynamic_shapes=(({0: Dim("n"), 1: Dim("m", min=1)},),))
    for n, m in ((9, 4), (0, 1), (5, 2)):
        agree(exe, model, torch.randn(n, m))


def test_a_fact_that_torch_checks_when_running_is_one_of_the_program() -> None:
    exe = from_torch(Fn(lambda x: x.amax(0)), (torch.randn(4, 3),), dynamic_shapes=(({0: Dim("n")},),))
    assert any("n in 1.." in note for note in exe.notes)
    with pytest.raises(pliant.PliantError, match=r"n in 1\.\."):
        exe(torch.randn(0, 3))


# ------------------------------------------------------------------------------ arguments, results and state


@dataclasses.dataclass
class Output:
    value: Any
    extra: Any = None


pytree.register_dataclass(Output)


class Nested(torch.nn.Module):
    def forward(self, pair: Any, named: dict[str, Any], *, scale: int, mask: Any = None) -> Any:
        a, b = pair
        total = a + b[0] + named["c"] * scale
        if mask is not None:
            total = total * mask
        return Output(total, {"none": None, "n": a.shape[0], "list": [b[0], 7]}), named["c"]


def test_trees_of_arguments_and_results() -> None:
    def given(n: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        a, b, c = (torch.randn(n, 2) for _ in range(3))
        return ((a, [b]), {"c": c}), {"scale": 3, "mask": torch.ones(n, 1)}

    args, kwargs = given(4)
    n = Dim("n")
    shapes = {"pair": ({0: n}, [{0: n}]), "named": {"c": {0: n}}, "scale": None, "mask": {0: n}}
    model = Nested()
    exe = from_torch(model, args, kwargs, shapes)
    for size in (4, 1, 0, 7):
        args, kwargs = given(size)
        agree(exe, model, *args, **kwargs)
    agree(exe, model, *args, **dict(reversed(kwargs.items())))
    with pytest.raises(ArgumentError, match="`scale` is 4, but the model was exported for 3"):
        exe(*args, **{**kwargs, "scale": 4})


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("hidden", torch.full((2,), 3.0), persistent=False)
        self.scale = torch.tensor([1.0, 2.0])
        self.first = torch.nn.Linear(2, 2, bias=False)
        self.second = torch.nn.Linear(2, 2, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Any, cache: Any) -> Any:
        self.count += self.hidden
        cache[:, 0] = x.sum(1)
        return self.second(self.first(x)) * self.scale + self.count


@torch.no_grad()
def test_buffers_and_arguments_that_the_model_changes() -> None:
    model, twin = Counter().eval(), Counter().eval()
    twin.load_state_dict(model.state_dict())
    n = Dim("n")
    exe = from_torch(model, (torch.randn(4, 2), torch.zeros(4, 3)), dynamic_shapes=({0: n}, {0: n}))
    assert sorted(exe.imported.weights) == ["first.weight", "hidden", "scale"] or len(exe.imported.weights) == 3
    for size in (4, 1, 6):
        x, cache, other = torch.randn(size, 2), torch.zeros(size, 3), torch.zeros(size, 3)
        torch.testing.assert_close(exe(x, cache), twin(x, other))
        torch.testing.assert_close(cache, other)
    assert model.count.sum() == 0, "the model itself is not touched"


def test_arguments_that_were_one_tensor_stay_apart() -> None:
    x = torch.randn(3)
    exe = from_torch(Fn(lambda a, b: a * 2 + b), (x, x), dynamic_shapes=(({0: Dim("n")}, {0: AUTO}),))
    torch.testing.assert_close(exe(torch.ones(2), torch.zeros(2)), torch.full((2,), 2.0))


def test_weights_and_text_survive(tmp_path: Path) -> None:
    imported = import_torch(Attention().eval(), (torch.randn(2, 5, 16),), dynamic_shapes=({0: Dim("b")},))
    text = print_module(imported.module)
    assert parse_module(text) == imported.module
    assert set(imported.weights) == {w.name for w in imported.module.weights}


def test_half_precision_weights() -> None:
    model = torch.nn.Linear(8, 4).bfloat16().eval()
    with torch.no_grad():
        exe = from_torch(model, (torch.randn(3, 8).bfloat16(),), dynamic_shapes=({0: Dim("n")},))
        x = torch.randn(5, 8).bfloat16()
        torch.testing.assert_close(exe(x), model(x), rtol=2e-2, atol=2e-2)


# ---------------------------------------------------------------------------------------------------- errors


def refused(function: Any, *args: Any, dynamic_shapes: Any = None) -> str:
    with pytest.raises(CompileError) as caught:
        import_torch(Fn(function), args, dynamic_shapes=dynamic_shapes)
    return str(caught.value)


@torch.library.custom_op("plianttest::one", mutates_args=())
def one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@torch.library.custom_op("plianttest::two", mutates_args=())
def two(x: torch.Tensor) -> torch.Tensor:
    return x + 2


one.register_fake(torch.empty_like)
two.register_fake(torch.empty_like)


def test_missing_operators_are_listed_together_with_their_lines() -> None:
    said = refused(lambda x: one(x) + two(x) + two(x.exp()), torch.eye(3))
    assert said.count("is not supported") == 2
    assert "`plianttest.two.default` is not supported (2 in the model)" in said
    assert f"{Path(__file__).name}:" in said


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,)), "control flow is not supported"),
        (lambda x: x.nonzero(), "depends on data|depend on data"),
        (lambda x: x[x > 0], "depends on data|depend on data"),
        (lambda x: torch.rand(4) + x, "random numbers"),
        (lambda x: torch.complex(x, x).prod(), "`aten.prod.default` of complex numbers is not supported"),
    ],
)
def test_what_is_left_out_is_refused_by_name(function: Any, says: str) -> None:
    import re

    assert re.search(says, refused(function, torch.randn(4)))


def test_errors_of_export_come_with_advice() -> None:
    said = refused(lambda x: x.view(4, 2), torch.randn(8), dynamic_shapes=(({0: Dim("n")},),))
    assert "leave size 0 of `args_0` open (n), but torch.export fixed it to 8" in said
    assert "help:" in said
    said = refused(lambda x: x + (1 if x.sum() > 0 else 2), torch.randn(8))
    assert "torch.export failed" in said
    assert "help: a branch or size of the model depends on values" in said


@torch.no_grad()
def test_bounds_stay_the_users_where_torch_asks_for_more() -> None:
    def function(x: Any, y: Any) -> Any:
        y[:, :, torch.arange(2)] = x[:, :, :2]
        return y.clone(), x[: x.shape[0] // 2]

    b = Dim("b", min=1, max=4)
    example = torch.randn(2, 3, 5), torch.randn(2, 3, 7)
    exe = from_torch(Fn(function), example, dynamic_shapes=(({0: b}, {0: b}),))
    assert facts(exe.imported) == {"b in 1..4"}
    for n in (1, 2, 4):
        x, y = torch.randn(n, 3, 5), torch.randn(n, 3, 7)
        wanted = function(x, y.clone())
        torch.testing.assert_close(exe(x, y), wanted)
    with pytest.raises(pliant.PliantError, match=r"b in 1\.\.4"):
        exe(torch.randn(5, 3, 5), torch.randn(5, 3, 7))


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(CompileError, match=r"no torch\.nn\.Module"):
        import_torch(3)


# ------------------------------------------------------------------------------------- command line, dynamo


@torch.no_grad()
def test_the_command_line(tmp_path: Path) -> None:
    model = Attention().eval()
    program = export(model, (torch.randn(2, 5, 16),), dynamic_shapes=({0: Dim("b"), 1: Dim("s", max=9)},))
    save(program, tmp_path / "model.pt2")
    run = CliRunner().invoke
    files = [f"{tmp_path}/model.pt2", "-o", f"{tmp_path}/m.ir", "--weights", f"{tmp_path}/w.safetensors"]
    done = run(group, ["import", *files])
    assert done.exit_code == 0, done.output
    exe = pliant.compile(tmp_path / "m.ir", weights=load_file(tmp_path / "w.safetensors"))
    x = torch.randn(3, 4, 16)
    torch.testing.assert_close(exe(x), model(x), rtol=1e-4, atol=1e-5)
    covered = run(group, ["import", f"{tmp_path}/model.pt2", "--coverage"])
    assert covered.exit_code == 0
    assert "aten.layer_norm.default" in covered.output
    everything = run(group, ["import", "--coverage"])
    assert "of 193 operators" in everything.output or " operators: " in everything.output
    (tmp_path / "bad.pt2").write_bytes(b"nothing")
    bad = run(group, ["import", f"{tmp_path}/bad.pt2"])
    assert bad.exit_code == 1
    assert "Traceback" not in bad.output


def test_torch_is_not_imported_unless_asked_for() -> None:
    code = "import sys, pliant, pliant.compiler.torch_program; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@torch.no_grad()
def test_dynamo_keeps_its_sizes_symbolic() -> None:
    from pliant.compiler.torch_backend import pliant as backend

    made = []

    def counting(graph: Any, inputs: Any) -> Any:
        made.append(graph)
        return backend(graph, inputs)

    torch._dynamo.reset()
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()

    def function(x: Any) -> Any:
        return layer(x) * x.shape[1], x.mean(1)

    fast = torch.compile(function, backend=counting, dynamic=True)
    before = None
    for sizes in ((2, 5), (3, 7), (4, 9)):
        x = torch.randn(*sizes, 16)
        for a, b in zip(fast(x), function(x), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        assert before in (None, len(made)), "compiled again for another size"
        before = len(made)
    torch._dynamo.reset()


def test_dynamo_says_that_derivatives_are_not_compiled() -> None:
    from pliant.compiler.torch_backend import pliant as backend

    torch._dynamo.reset()
    layer = torch.nn.Linear(2, 2)
    with pytest.raises(Exception, match="no_grad"):
        torch.compile(layer, backend=backend)(torch.randn(3, 2))
    torch._dynamo.reset()


def test_numpy_arrays_work_too() -> None:
    exe = from_torch(Fn(lambda x: x * 2), (torch.randn(3),), dynamic_shapes=(({0: Dim("n")},),))
    got = exe(np.ones(4, np.float32))
    assert isinstance(got, np.ndarray)
    np.testing.assert_array_equal(got, np.full(4, 2, np.float32))


def test_tensors_made_of_numbers_are_constants_under_compile() -> None:
    def scaled(x: Any) -> Any:
        empty = torch.tensor([], dtype=x.dtype)
        return torch.cat([empty, x * torch.tensor([1.0, 2.0, 3.0])]), torch.tensor(7)

    torch._dynamo.reset()
    compiled = torch.compile(scaled, backend="pliant", dynamic=True)
    with torch.no_grad():
        for n in (3, 3, 3):
            x = torch.randn(n)
            for ours, theirs in zip(compiled(x), scaled(x), strict=True):
                torch.testing.assert_close(ours, theirs)


def test_a_size_is_tried_with_indices_that_it_allows() -> None:
    class Rows(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, i: Any) -> Any:
            return x[i]

    n, m = torch.export.Dim("n"), torch.export.Dim("m")
    given = (torch.randn(7, 2), torch.tensor([6, 5]))
    compiled = pliant.from_torch(Rows(), given, dynamic_shapes=({0: n}, {0: m}))
    x = torch.randn(1, 2)
    assert torch.equal(compiled(x, torch.tensor([0, -1, 0])), x[[0, 0, 0]])
