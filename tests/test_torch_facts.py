"""What is known of sizes: the same from a module, from its exported program, and from that program stored and loaded.

Every little program is asked at all small sizes: what torch computes there is computed, what it refuses is refused.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim, export, load, save  # noqa: E402

from pliant.compiler.torch_program import compiled  # noqa: E402
from pliant.frontends.torch import import_program, import_torch  # noqa: E402
from pliant.frontends.torch.check import interpreted  # noqa: E402
from pliant.frontends.torch.examples import example_of  # noqa: E402
from pliant.ir.interpret import InterpretError  # noqa: E402
from pliant.ir.printer import print_module  # noqa: E402
from pliant.runtime.errors import PliantError  # noqa: E402

AUTO = Dim.AUTO


class Fn(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, y: Any = None) -> Any:
        return self.function(x) if y is None else self.function(x, y)


def through_a_file(program: Any) -> Any:
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    return load(file)


def facts(imported: Any) -> set[str]:
    return set(map(str, imported.module.function("main").facts))


def types(imported: Any) -> list[str]:
    return [str(p.type) for p in imported.module.function("main").params]


def check(*conditions: Any) -> None:
    for condition in conditions:
        torch._check(condition)


@dataclass(frozen=True)
class Case:
    """A function, the shapes of its example, which sizes are open, and which of them it takes.

    `takes` says it of the sizes of the open axes, in order: where torch computes, broadcasts nothing, and goes the way
    that it went for the example.
    """

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dynamic: tuple[Any, ...]
    takes: Callable[..., bool]
    upto: int = 9

    def example(self) -> tuple[Any, ...]:
        return tuple(torch.randn(s) for s in self.shapes)

    def inputs(self) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
        places = [(i, axis) for i, d in enumerate(self.dynamic) for axis in d]
        for sizes in itertools.product(range(self.upto), repeat=len(places)):
            shapes = [list(s) for s in self.shapes]
            for (i, axis), n in zip(places, sizes, strict=True):
                shapes[i][axis] = n
            yield sizes, tuple(torch.randn(s) for s in shapes)


def ordered(x: Any, y: Any) -> Any:
    check(x.shape[0] <= y.shape[0])
    return x * 2, y + 1


def products(x: Any, y: Any) -> Any:
    check(x.shape[0] * x.shape[1] <= y.shape[0])
    return x * 2, y + 1


def between(x: Any, y: Any) -> Any:
    check(torch.sym_max(x.shape[0], y.shape[0]) <= 7, torch.sym_min(x.shape[0], y.shape[0]) >= 3)
    return x.sum() + y


def in_place(x: Any, y: Any) -> Any:
    """Decomposed in any case; of the max one argument is the larger in the example."""
    check(torch.sym_max(x.shape[0], y.shape[0]) <= 7)
    return x.clone().add_(1), y


OPEN = {0: AUTO}
BOTH = {0: AUTO, 1: AUTO}
PAIR = (OPEN, OPEN)
RANGES = ({0: Dim("p", min=3, max=7)}, {0: Dim("q", max=6)})
CASES = {
    "equal": Case(lambda x, y: x + y, ((4, 3), (4, 3)), PAIR, lambda n, m: n == m),
    "twice": Case(lambda x, y: x.view(2, -1).sum(0) * y, ((8,), (4,)), PAIR, lambda n, m: n == 2 * m),
    "one more": Case(lambda x, y: x[1:] * y, ((8,), (7,)), PAIR, lambda n, m: n == m + 1),
    "decreasing": Case(lambda x, y: torch.cat([x, y]).view(2, 4) * 1, ((3,), (5,)), PAIR, lambda n, m: n + m == 8),
    "divisible": Case(lambda x: x.view(-1, 4).sum(1), ((8,),), (OPEN,), lambda n: n % 4 == 0, 18),
    "a multiple": Case(
        lambda x: x.view(-1, 4).sum(1), ((8,),), ({0: 4 * Dim("k", max=3)},), lambda n: n % 4 == 0 and n <= 12, 18
    ),
    "divisible product": Case(lambda x: x.view(-1, 8) * 2, ((4, 6),), (BOTH,), lambda n, m: n * m % 8 == 0),
    "ordered": Case(ordered, ((4,), (6,)), PAIR, lambda n, m: n <= m),
    "ordered product": Case(products, ((3, 2), (12,)), (BOTH, OPEN), lambda n, m, k: n * m <= k, 7),
    "min and max": Case(between, ((4,), (6,)), PAIR, lambda n, m: max(n, m) <= 7 and min(n, m) >= 3),
    "max, decomposed": Case(in_place, ((4,), (6,)), PAIR, lambda n, m: max(n, m) <= 7),
    "ranges": Case(lambda x, y: x.sum() + y, ((4,), (5,)), RANGES, lambda n, m: 3 <= n <= 7 and m <= 6),
    "slice": Case(lambda x, y: y[: x.shape[0]] + x, ((4,), (6,)), PAIR, lambda n, m: n <= m),
    "broadcast": Case(lambda x, y: x[:, None] * y[None] + 1, ((4,), (6,)), PAIR, lambda n, m: True),
    "square": Case(lambda x: x @ x, ((4, 4),), (BOTH,), lambda n, m: n == m),
    "branch": Case(lambda x: x * 2 if x.shape[0] > 5 else x + 1, ((8,),), (OPEN,), lambda n: n > 5),
    "different": Case(
        lambda x, y: (x * 2, y) if x.shape[0] != y.shape[0] else (x + 1, y), ((4,), (5,)), PAIR, lambda n, m: n != m
    ),
    "remainder": Case(lambda x: x * 2 if x.shape[0] % 3 == 1 else x + 1, ((4,),), (OPEN,), lambda n: n % 3 == 1),
    "disjunction": Case(
        lambda x: x * 2 if (x.shape[0] < 3) | (x.shape[0] > 6) else x + 1,
        ((8,),), (OPEN,), lambda n: n < 3 or n > 6,
    ),
}  # fmt: skip


APART = ("decreasing", "one more")
"""torch's program has sizes made of others for its inputs; of a module's inputs each has a size of its own."""


class Causal(torch.nn.Module):
    """Asks for more than one step, as attention does to know whether it needs a mask, and goes on the same for one."""

    def forward(self, x: Any) -> Any:
        steps = x[: x.shape[0] // 4]
        long = steps.shape[0] > 1
        return steps.cumsum(0) if long or steps.shape[0] == 1 else steps.clone().cumsum(0)


class Doubles(torch.nn.Module):
    """Goes another way for one step."""

    def forward(self, x: Any) -> Any:
        steps = x[: x.shape[0] // 4]
        return steps.cumsum(0) if steps.shape[0] > 1 else steps * 2


@torch.no_grad()
def test_a_branch_is_left_out_where_the_graphs_on_both_sides_are_the_same() -> None:
    x = torch.randn(16)
    served = import_torch(Causal(), (x,), dynamic_shapes={"x": OPEN})
    assert facts(served) == set()
    assert any("the graph is the same without it" in note for note in served.notes)
    kept = import_torch(Doubles(), (x,), dynamic_shapes={"x": OPEN})
    (said,) = [note for note in kept.notes if "the model goes another way" in note]
    assert "steps.shape[0] > 1" in said, "the line of the branch"
    call, model = interpreted(kept), Doubles()
    for n in range(14):
        given = torch.randn(n)
        if n // 4 <= 1:
            with pytest.raises(InterpretError):
                call(given)
        else:
            torch.testing.assert_close(call(given), model(given))


@torch.no_grad()
def test_sizes_that_depend_on_each_other_unsaid_are_tried_together() -> None:
    """torch does not ask for the mask's batch to be the query's: at one of the one, two of the other fail."""

    def attend(q: Any, mask: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, mask[:, None])

    q, mask = torch.randn(3, 2, 4, 8), torch.randn(3, 4, 4)
    program = export(Fn(attend), (q, mask), dynamic_shapes={"x": {0: AUTO}, "y": {0: AUTO}})
    call = interpreted(import_program(program))
    for n in (1, 2, 5):
        given = torch.randn(n, 2, 4, 8), torch.randn(n, 4, 4)
        torch.testing.assert_close(call(*given), attend(*given))


def test_a_program_without_its_example_is_given_one() -> None:
    program = export(Fn(lambda x, y: x[y]), (torch.randn(4, 3), torch.tensor([1, 2])), dynamic_shapes=None)
    program._example_inputs = None
    (x, y), kwargs = example_of(program)
    assert (x.shape, x.dtype, y.shape, y.dtype, kwargs) == ((4, 3), torch.float32, (2,), torch.int64, {})


def same_or_refused(call: Callable[..., Any], function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    try:
        got = call(*given)
    except (PliantError, InterpretError):
        return
    torch.testing.assert_close(got, function(*given))


def asked_everywhere(case: Case, call: Callable[..., Any], more: bool = False) -> None:
    """Where `more`, other sizes may be taken as well, if torch gives the same there."""
    for sizes, given in case.inputs():
        if not case.takes(*sizes):
            if more:
                same_or_refused(call, case.function, given)
            else:
                with pytest.raises((PliantError, InterpretError)):
                    call(*given)
            continue
        got, wanted = call(*given), case.function(*given)
        torch.testing.assert_close(got, wanted, msg=lambda m, s=sizes: f"{m} at {s}")


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_a_module_its_program_and_the_program_from_a_file_know_the_same(name: str) -> None:
    case = CASES[name]
    model, example = Fn(case.function), case.example()
    dynamic = dict(zip("xy", case.dynamic, strict=False))
    program = export(model, example, dynamic_shapes=dynamic)
    stored = through_a_file(program)
    routes = [
        import_torch(model, example, dynamic_shapes=dynamic),
        import_program(program, dynamic),
        import_program(stored, dynamic),
    ]
    if name not in APART:
        assert len(facts(routes[0])) == len(facts(routes[1]))
        assert [t.count(",") for t in types(routes[0])] == [t.count(",") for t in types(routes[1])]
    assert facts(routes[1]) == facts(routes[2])
    assert types(routes[1]) == types(routes[2])
    asked_everywhere(case, compiled(routes[2]))
    texts = {print_module(routes[2].module)}
    for more, imported in zip((True, False), routes, strict=False):
        if print_module(imported.module) not in texts:
            texts.add(print_module(imported.module))
            asked_everywhere(case, interpreted(imported), more)
