"""Integer arguments of torch programs, exported and under torch.compile: as sizes, as values, negative, checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from click.testing import CliRunner  # noqa: E402
from torch.export import Dim, export, save  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import pliant  # noqa: E402
from pliant.compiler.cli.app import group  # noqa: E402
from pliant.compiler.driver import compile as compile_module  # noqa: E402
from pliant.compiler.torch_program import from_torch  # noqa: E402
from pliant.frontends.torch.dynamo import backend  # noqa: E402
from pliant.ir.graph import Bind, Module  # noqa: E402
from pliant.ir.printer import print_module  # noqa: E402
from pliant.runtime.errors import ArgumentError, DTypeError, ShapeError  # noqa: E402

INT, AUTO = Dim.DYNAMIC, Dim.AUTO


class Fn(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, k: int) -> Any:
        return self.function(x, k)


class Positions(torch.nn.Module):
    """Adds the embeddings of the places from `start` on, as decoders do."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(32, 4)

    def forward(self, x: Any, start: int) -> Any:
        return x + self.table.weight[start : start + x.shape[0]]


class Cached(torch.nn.Module):
    """Attention over a cache that is filled from `start` on."""

    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(4, 12)

    def forward(self, x: Any, keys: Any, values: Any, start: int) -> Any:
        n = x.shape[0]
        q, k, v = self.project(x).chunk(3, -1)
        keys[start : start + n], values[start : start + n] = k, v
        mask = torch.hstack([torch.zeros(n, start), torch.full((n, n), -torch.inf).triu(1)])
        return torch.softmax(q @ keys[: start + n].T + mask, -1) @ values[: start + n]


def rows(n: int) -> Any:
    return torch.randn(n, 4, generator=torch.Generator().manual_seed(n))


def assert_same(got: Any, wanted: Any) -> None:
    a, spec = pytree.tree_flatten(got)
    b, same = pytree.tree_flatten(wanted)
    assert spec == same
    for x, y in zip(a, b, strict=True):
        assert type(x) is type(y)
        if isinstance(y, torch.Tensor):
            torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-6)
        else:
            assert x == y


def exported(function: Any, example: int = 3) -> Any:
    model = function if isinstance(function, torch.nn.Module) else Fn(function)
    return from_torch(model.eval(), (rows(8), example), dynamic_shapes=({0: AUTO}, INT))


def binds(exe: Any) -> list[str]:
    return [s.symbol for s in exe.module.function("main").body.statements if isinstance(s, Bind)]


# ------------------------------------------------------------------------------------------------------- exported

CASES: dict[str, tuple[Any, list[tuple[int, int]]]] = {
    "first": (lambda x, k: x[:k] * 2, [(5, 2), (5, 5), (5, 0), (0, 0), (1, 1), (1, 0)]),
    "last": (lambda x, k: x[k:] + 1, [(5, 2), (5, 5), (5, 0), (1, 1)]),
    "window": (lambda x, k: x[k : k + 2] * k, [(5, 2), (5, 0), (5, 3), (2, 0)]),
    "new": (lambda x, k: x.new_zeros(k, x.shape[0]) + k, [(2, 4), (1, 1), (0, 3), (3, 0)]),
    "places": (lambda x, k: torch.arange(k, k + x.shape[0]) + x[:, 0].long(), [(5, 2), (1, 0), (0, 7)]),
    "row": (lambda x, k: x[k] * 2, [(5, 2), (5, 4), (1, 0)]),
    "positions": (Positions(), [(2, 4), (1, 0), (1, 31), (2, 30), (32, 0)]),
    "groups": (lambda x, k: x.reshape(-1, k, 4).sum(0), [(6, 3), (6, 2), (3, 3), (4, 1)]),
}


@pytest.mark.parametrize("name", CASES)
def test_an_exported_integer_that_is_a_size(name: str) -> None:
    model, calls = CASES[name]
    exe = exported(model, example=2)
    assert binds(exe)
    for n, k in calls:
        for given in (k, torch.tensor(k)):
            with torch.no_grad():
                assert_same(exe(rows(n), given), model(rows(n), k))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, k: x * k,
        lambda x, k: (x * (k * k - 3 * k + x.shape[0]), k // 3, -k, x + k % 5, x + (k % 5) / 2),
        lambda x, k: (x + abs(k), max(k, 2), torch.full_like(x, k), x / k, x.clamp(min=k)),
        lambda x, k: torch.where(x > k, x, k),
    ],
)
def test_an_exported_integer_that_is_a_value_only_may_be_negative(function: Any) -> None:
    exe = exported(function)
    assert not binds(exe)
    for n, k in ((5, 2), (1, 7), (0, 1), (5, -4), (3, -1), (2, 1 << 20)):
        assert_same(exe(rows(n), k), function(rows(n), k))


def test_what_is_known_of_an_integer_is_checked() -> None:
    def branches(x: Any, k: int) -> Any:
        return x + k if k > 3 else x - k

    exe = exported(branches, example=5)
    assert_same(exe(rows(3), 4), branches(rows(3), 4))
    with pytest.raises(ShapeError, match=r"argument `k` of @main: its value is 3, but s\d+ in 4\.\."):
        exe(rows(3), 3)
    exe = exported(lambda x, k: x[:k])
    assert_same(exe(rows(8), 9), rows(8)[:9])
    with pytest.raises(ShapeError, match="argument `k` of @main: its value is -1, and sizes are not negative"):
        exe(rows(8), -1)
    with pytest.raises(DTypeError, match=r"argument `k` of @main is the float 2.0; i64\[\] wants int64"):
        exe(rows(8), 2.0)


def test_an_integer_that_a_tensor_has_as_a_size_is_checked_equal() -> None:
    def same(x: Any, k: int) -> Any:
        torch._check(x.shape[0] == k)
        return x.reshape(k, 2, 2) + k

    exe = exported(same, example=8)
    for n in (5, 1, 0):
        assert_same(exe(rows(n), n), rows(n).reshape(n, 2, 2) + n)
    with pytest.raises(ShapeError, match=r"argument `k` of @main: its value is 4, but k_size == s\d+"):
        exe(rows(5), 4)


def test_integers_by_keyword_and_alone() -> None:
    class Keyword(torch.nn.Module):
        def forward(self, x: Any, *, n: int) -> Any:
            return x.new_ones(n, 2), n + 1

    exe = from_torch(Keyword(), (rows(8),), {"n": 3}, {"x": {0: AUTO}, "n": INT})
    for n in (0, 1, 5):
        assert_same(exe(rows(2), n=n), Keyword()(rows(2), n=n))

    class Alone(torch.nn.Module):
        def forward(self, n: int) -> Any:
            return torch.ones(n, 2)

    exe = from_torch(Alone(), (4,), dynamic_shapes=(INT,))
    for n in (0, 1, 5):
        assert_same(exe(n), torch.ones(n, 2))  # a tensor, though no argument is one


def test_a_fixed_integer_is_still_refused_when_it_changes() -> None:
    exe = from_torch(Fn(lambda x, k: x[:k]), (rows(8), 3), dynamic_shapes=({0: AUTO}, None))
    assert_same(exe(rows(5), 3), rows(5)[:3])
    with pytest.raises(ArgumentError, match=r"`k` is 4, but the model was exported for 3"):
        exe(rows(5), 4)


@pytest.mark.parametrize("name", ["first", "positions", "value"])
def test_from_a_file(name: str, tmp_path: Path) -> None:
    model = {"positions": Positions(), "value": Fn(lambda x, k: x * k)}.get(name) or Fn(lambda x, k: x[:k])
    save(export(model, (rows(8), 3), dynamic_shapes=({0: AUTO}, INT)), tmp_path / "m.pt2")

    def run(*args: object) -> str:
        result = CliRunner().invoke(group, [str(a) for a in args])
        assert result.exit_code == 0, result.output
        return result.output

    run("import", tmp_path / "m.pt2", "-o", tmp_path / "m.ir", "--weights", tmp_path / "m.safetensors")
    weights = ["--weights", tmp_path / "m.safetensors"] if name == "positions" else []
    assert "agrees with the reference" in run("run", tmp_path / "m.ir", *weights, "--check")
    np.save(tmp_path / "x.npy", rows(5).numpy())
    np.save(tmp_path / "k.npy", np.int64(2))
    inputs = ["--input", tmp_path / "x.npy", "--input", tmp_path / "k.npy", "--output", tmp_path / "y.npz"]
    run("run", tmp_path / "m.ir", *weights, *inputs)
    with torch.no_grad():
        np.testing.assert_allclose(np.load(tmp_path / "y.npz")["result0"], model(rows(5), 2).numpy(), rtol=1e-5)


def decoded(step: Callable[..., Any], model: Any) -> None:
    """A prompt, then a few tokens: the results and the cache as eager has them."""
    caches, own, start = [torch.zeros(16, 4) for _ in range(2)], [torch.zeros(16, 4) for _ in range(2)], 0
    with torch.no_grad():
        for n in (5, 1, 1, 3, 1, 5):
            assert_same(step(rows(n), *caches, start), model(rows(n), *own, start))
            assert_same(caches, own)
            start += n


def test_decoding_with_a_cache_that_is_exported() -> None:
    model = Cached().eval()
    example = (rows(4), torch.zeros(16, 4), torch.zeros(16, 4), 3)
    exe = from_torch(model, example, dynamic_shapes=({0: AUTO}, None, None, INT))
    decoded(exe, model)
    with pytest.raises(ShapeError, match="argument `start` of @main: its value is 14"):
        exe(rows(3), *example[1:3], 14)


# -------------------------------------------------------------------------------------------------- torch.compile


def test_decoding_with_a_cache_under_torch_compile() -> None:
    torch._dynamo.reset()
    counting, model = Counting(), Cached().eval()
    decoded(torch.compile(model, backend=counting.backend), model)
    assert len(counting.modules) <= 3


class Counting:
    """The backend, counting what it compiles."""

    def __init__(self) -> None:
        self.modules: list[Module] = []
        self.backend = backend(self._compile)

    def _compile(self, module: Module) -> Callable[..., Any]:
        self.modules.append(module)
        return compile_module(module)


def compiled(function: Any, calls: list[tuple[Any, ...]], **options: Any) -> list[Module]:
    """Compares every call with eager; the modules that were compiled."""
    torch._dynamo.reset()
    counting = Counting()
    fast = torch.compile(function, backend=counting.backend, **options)
    with torch.no_grad():
        for args in calls:
            assert_same(fast(*args), function(*args))
    return counting.modules


def test_an_integer_that_changes_compiles_once_more() -> None:
    modules = compiled(lambda x, k: x[:k] * 2, [(rows(8), k) for k in (3, 5, 7, 2, 8, 6)])
    assert len(modules) == 2  # for 3, and for any
    assert "bind" in print_module(modules[1])


def test_a_value_may_change_its_sign() -> None:
    def scaled(x: Any, k: int) -> Any:
        return x * k, k + 1, k * x.shape[0], x / k + k

    for order in ((3, 5, -5, 1, 11), (-2, -7, 4, 1)):
        modules = compiled(scaled, [(rows(8), k) for k in order])
        assert len(modules) == 2
        assert "bind" not in print_module(modules[1])


@pytest.mark.parametrize("order", [(3, 5, 0, -3, -4, 11), (-3, -5, 0, 11, -4), (1, 0, 2, -1)])
def test_places_from_any_start(order: tuple[int, ...]) -> None:
    """torch asks for no sign of `start`; sizes here are not negative, so that each sign has a program."""
    modules = compiled(lambda x, s: torch.arange(s, s + x.shape[0]) + x[:, 0].long(), [(rows(8), s) for s in order])
    assert len(modules) <= 4


def test_slices_from_the_end() -> None:
    modules = compiled(lambda x, k: x[k:] * 2, [(rows(8), k) for k in (-3, -5, -2, -7, -8, 4, 6)])
    assert len(modules) <= 4


@pytest.mark.parametrize(
    ("function", "dynamic"),
    [
        (lambda x, k: x.view(-1)[k:], None),
        (lambda x, k: x.view(-1)[k:], True),
        (lambda x, k: (x[k:].reshape(-1)[1:], x + 1), True),
        (lambda x, k: x.t()[1:, k:], True),
        (lambda x, k: (x[k:] * 2)[1:], True),
        (lambda x, k: x, True),
    ],
)
def test_views_of_arguments(function: Any, dynamic: bool | None) -> None:
    """AOTAutograd makes such results anew of the argument, at the place that the graph's own result has."""
    parts = rows(20)
    calls = [(rows(8), 3), (rows(6), 4), (parts[3:11], 2), (parts[5:12], 4), (rows(9), 1)]
    compiled(function, calls, dynamic=dynamic)


def test_integers_and_sizes_together() -> None:
    def mixed(x: Any, k: int) -> Any:
        return x.reshape(k, -1)[: k // 2] + k, x[k // 2 :]

    calls = [(rows(n), k) for n, k in ((8, 4), (6, 3), (9, 3), (4, 2), (12, 6), (10, 5))]
    assert len(compiled(mixed, calls)) <= 5
    assert len(compiled(mixed, calls[:3:-1])) <= 5


def test_an_integer_of_the_size_of_a_tensor() -> None:
    modules = compiled(lambda x, k: x.reshape(k, 2, 2) + k, [(rows(n), n) for n in (8, 6, 3, 12)])
    assert len(modules) == 2
    assert "_size ==" in print_module(modules[1])


def test_a_decoder_with_a_start_position() -> None:
    model = Positions().eval()
    calls = [(rows(n), start) for n, start in ((5, 2), (2, 7), (2, 9), (2, 11), (3, 0), (2, 30), (4, 14))]
    modules = compiled(model, calls)
    assert len(modules) <= 4


def test_integers_without_tensors() -> None:
    modules = compiled(lambda k, m: torch.ones(k, m + 1) * k, [(3, 4), (5, 6), (7, 2), (5, 4)])
    assert len(modules) <= 3


def test_integers_that_are_dynamic_from_the_start() -> None:
    calls = [(rows(n), k) for n, k in ((8, 3), (6, 5), (4, 2), (9, 9))]
    modules = compiled(lambda x, k: x[:k] + k, calls, dynamic=True)
    assert len(modules) <= 2


def test_the_registered_backend() -> None:
    torch._dynamo.reset()
    fast = torch.compile(lambda x, k: x[:k] * k, backend="pliant")
    with torch.no_grad():
        for k in (3, 5, 6):
            assert_same(fast(rows(8), k), rows(8)[:k] * k)
    assert pliant.__version__


# --------------------------------------------------------------------------------------------- parameters as weights


class Tied(torch.nn.Module):
    """Two layers of one weight, a buffer, and a result that is a parameter's."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("shift", torch.arange(4.0))

    def forward(self, x: Any, k: int) -> Any:
        return self.second(self.first(x)[:k]) + self.shift * k, self.first.weight[1:]


def frozen(model: Any) -> tuple[Any, Counting]:
    torch._dynamo.reset()
    counting = Counting()
    return torch.compile(model, backend=counting.backend, options={"freeze": True}), counting


def test_frozen_parameters_are_weights_until_they_change() -> None:
    model = Tied(0).eval()
    fast, counting = frozen(model)
    with torch.no_grad():
        for k in (3, 5, 2):
            assert_same(fast(rows(8), k), model(rows(8), k))
        assert [len(m.weights) for m in counting.modules] == [4, 4]  # the tied weight is one
        model.first.weight.mul_(2)
        model.shift.add_(1)
        assert_same(fast(rows(8), 5), model(rows(8), 5))
        model.load_state_dict(Tied(1).state_dict())
        assert_same(fast(rows(8), 5), model(rows(8), 5))
        model.second.bias.data = torch.full((4,), 7.0)  # another tensor in its place
        assert_same(fast(rows(8), 4), model(rows(8), 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model(rows(8), 5)[0].sum().backward()
    optimizer.step()
    with torch.no_grad():
        assert_same(fast(rows(8), 5), model(rows(8), 5))
    assert len(counting.modules) == 2


def test_one_graph_serves_several_modules() -> None:
    models = [Tied(seed).eval() for seed in range(6)]

    def call(model: Any, x: Any) -> Any:
        return model(x, 3)

    fast, _ = frozen(call)
    with torch.no_grad():
        for _ in range(2):
            for model in models:
                assert_same(fast(model, rows(8)), call(model, rows(8)))


def test_options_of_the_backend() -> None:
    torch._dynamo.reset()
    fast = torch.compile(Tied(0).eval(), backend=backend(compile_module), options={"frozen": True})
    with torch.no_grad(), pytest.raises(Exception, match="the backend has one option, `freeze`"):
        fast(rows(8), 3)
