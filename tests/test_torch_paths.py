"""Models whose sizes move, at every size: what eager gives is given, or the size is refused with the line that asks."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim, export, load, save  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from pliant.frontends.torch import import_program, import_torch  # noqa: E402
from pliant.frontends.torch.check import interpreted  # noqa: E402
from pliant.ir.diagnostics import CompileError  # noqa: E402
from pliant.ir.interpret import InterpretError  # noqa: E402

H, SMALL = Dim("H", max=60), Dim("h", max=40)


class Fn(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def imported(function: Any, shapes: Sequence[tuple[int, ...]], dims: Sequence[Any], **options: Any) -> Any:
    model = function if isinstance(function, torch.nn.Module) else Fn(function)
    dynamic = tuple(dims) if isinstance(function, torch.nn.Module) else (tuple(dims),)
    return import_torch(model, tuple(map(torch.randn, shapes)), dynamic_shapes=dynamic, **options)


def types(made: Any) -> list[str]:
    main = made.module.function("main")
    return [*(str(p.type) for p in main.params), *map(str, main.results)]


def facts(made: Any) -> list[str]:
    return list(map(str, made.module.function("main").facts))


@torch.no_grad()
def as_eager(made: Any, function: Callable[..., Any], shapes: Sequence[Sequence[tuple[int, ...]]]) -> list[int]:
    """Positions of the shapes that are refused; at all others the results are eager's."""
    call, refused = interpreted(made), []
    for at, given in enumerate(shapes):
        args = tuple(map(torch.randn, given))
        try:
            got = call(*args)
        except InterpretError:
            refused.append(at)
            continue
        wanted = function(*args)
        assert type(got) is type(wanted)
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
    return refused


def pairs(*sizes: tuple[int, int]) -> list[list[tuple[int, ...]]]:
    return [[(a, 3), (b, 3)] for a, b in sizes]


def test_a_window_in_the_middle() -> None:
    def middle(x: Any, y: Any) -> Any:
        return x.narrow(0, (x.shape[0] - y.shape[0]) // 2, y.shape[0]) * 1

    made = imported(middle, [(9, 3), (4, 3)], [{0: H}, {0: SMALL}])
    assert types(made)[-1] == "f32[h, 3]"
    assert facts(made) == ["H in 0..60", "h in 0..40", "h <= H"]
    assert as_eager(made, middle, pairs((9, 4), (4, 4), (7, 0), (0, 0), (60, 40), (3, 4))) == [5]


@pytest.mark.parametrize("start", [-1, 0])
def test_as_many_rows_from_the_end(start: int) -> None:
    if start:

        def last(x: Any, y: Any) -> Any:
            return x[-y.shape[0] :] * 1

        sizes = pairs((9, 4), (4, 4), (3, 4), (7, 0), (0, 3), (0, 0), (1, 1))
        assert as_eager(imported(last, [(9, 3), (4, 3)], [{0: H}, {0: SMALL}]), last, sizes) == []
        return

    def rest(x: Any, y: Any) -> Any:
        return x[x.shape[0] - y.shape[0] :]

    made = imported(rest, [(9, 3), (4, 3)], [{0: H}, {0: SMALL}])
    assert types(made)[-1] == "f32[h, 3]", "a size computed of sizes is no data"
    assert as_eager(made, rest, pairs((9, 4), (4, 4), (7, 0), (0, 0))) == []


BOUNDS = (None, 0, 1, 2, -1, -2, 5, -5)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_slices_of_everything(step: int) -> None:
    def parts(x: Any) -> Any:
        return [x[a:b:step] * 2 for a, b in itertools.product(BOUNDS, repeat=2)]

    made = imported(parts, [(9,)], [{0: SMALL}])
    assert as_eager(made, parts, [[(n,)] for n in (0, 1, 2, 3, 4, 5, 6, 9)]) == []


def test_pools_at_every_height() -> None:
    def pool(x: Any) -> Any:
        return F.avg_pool2d(x, 2, 2, 1, ceil_mode=True)

    made = imported(pool, [(1, 2, 11, 8)], [{2: H}])
    assert facts(made) == ["H in 0..60"]
    assert as_eager(made, pool, [[(1, 2, n, 8)] for n in range(1, 14)]) == []

    def padded(x: Any) -> Any:
        return F.max_pool2d(F.pad(x, (0, 0, 0, -x.shape[2] % 4)), 2)

    made = imported(padded, [(1, 2, 10, 8)], [{2: SMALL}])
    assert as_eager(made, padded, [[(1, 2, n, 8)] for n in range(1, 10)]) == []


def test_an_example_of_ones_stands_for_all_sizes() -> None:
    model = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    made = imported(model, [(1, 1, 16)], [{0: Dim("n", max=16), 1: Dim("t", max=16)}])
    assert facts(made) == ["n in 0..16", "t in 0..16"]
    assert as_eager(made, model, [[(n, t, 16)] for n, t in ((1, 1), (0, 3), (3, 0), (5, 7), (1, 4))]) == []


def test_a_part_of_what_there_is() -> None:
    def head(x: Any) -> Any:
        return x[:10] * 1

    made = imported(head, [(20, 3)], [{0: Dim.AUTO}])
    assert facts(made) == []
    assert as_eager(made, head, [[(n, 3)] for n in (0, 1, 9, 10, 11, 30)]) == []


@pytest.mark.parametrize("factor", [1 / 3, 0.7, 1.1, 0.29, 2.5, 1.9999])
def test_sizes_scaled_by_real_numbers_are_those_of_eager(factor: float) -> None:
    def scaled(x: Any) -> Any:
        return F.interpolate(x, scale_factor=factor)

    made = imported(scaled, [(1, 1, 29)], [{2: Dim("n", max=400)}])
    sizes = [n for n in (4, 5, 6, 9, 10, 29, 90, 100, 170, 199, 200, 399) if int(n * factor)]
    assert as_eager(made, scaled, [[(1, 1, n)] for n in sizes]) == []


def test_images_in_another_size_down_to_one_element() -> None:
    def scaled(x: Any) -> Any:
        return F.interpolate(x, scale_factor=1.5, mode="linear", align_corners=True)

    made = imported(scaled, [(2, 3, 8)], [{2: Dim("n", max=64)}])
    assert as_eager(made, scaled, [[(2, 3, n)] for n in (1, 2, 3, 8, 64)]) == []


SPLITS: dict[str, Callable[..., Any]] = {
    "chunk": lambda x: [c * 1 for c in x.chunk(4)],
    "split": lambda x: [c * 1 for c in x.split(4)],
    "tensor_split": lambda x: [c * 1 for c in x.tensor_split(3)],
    "unbind": lambda x: [c * 1 for c in x.unbind(0)],
}


@pytest.mark.parametrize("name", SPLITS)
def test_the_number_of_results_is_eagers_or_the_size_is_refused(name: str) -> None:
    function = SPLITS[name]
    made = imported(function, [(16,)], [{0: Dim("n", max=64)}], allow_narrowing=True)
    sizes = range(20)
    call, taken = interpreted(made), []
    for n in sizes:
        x = torch.randn(n)
        try:
            got = call(x)
        except InterpretError:
            continue
        taken.append(n)
        torch.testing.assert_close(got, function(x))
    same = [n for n in sizes if len(function(torch.randn(n))) == len(function(torch.randn(16)))]
    assert set(same) - {0} <= set(taken), "all sizes of that many parts but, perhaps, none"
    if name not in ("tensor_split",):
        with pytest.raises(CompileError, match="allow_narrowing"):
            imported(function, [(16,)], [{0: Dim("n", max=64)}])


def test_an_axis_that_may_be_1_is_not_dropped_silently() -> None:
    with pytest.raises(CompileError, match="would drop an axis of size 1"):
        imported(lambda x: x.squeeze(0), [(1, 4)], [{0: Dim("n", max=16)}])
    made = imported(lambda x: x.squeeze(0) * 1, [(3, 4)], [{0: Dim("n", min=2, max=16)}])
    assert as_eager(made, lambda x: x.squeeze(0) * 1, [[(3, 4)], [(2, 4)], [(1, 4)]]) == [2]


def test_what_is_written_into_a_part() -> None:
    def write(out: Any, x: Any) -> Any:
        out[: x.shape[0]] = x * 2
        return out + 0

    made = imported(write, [(8,), (5,)], [{0: Dim("t", max=40)}, {0: Dim("n", max=40)}])
    assert facts(made) == ["t in 0..40", "n in 0..40", "n <= t"]


def test_a_batch_of_one_that_is_written_is_no_other_program() -> None:
    """torch drops leading axes of size 1 of what is assigned: the graph looks different there."""

    def write(cache: Any, x: Any) -> Any:
        cache = cache * 1
        cache[:, 0] = x.sum(1)
        cache[:, 1:3] = x[:, :2]
        return cache

    b = Dim("b", max=8)
    made = imported(write, [(3, 4), (3, 5)], [{0: b}, {0: b}])
    assert facts(made) == ["b in 0..8"]
    assert as_eager(made, write, [[(b, 4), (b, 5)] for b in (0, 1, 2, 5)]) == []


@pytest.mark.parametrize("causal", [False, True])
def test_attention_that_is_causal_for_more_than_one_query_is_one_program(causal: bool) -> None:
    """As transformers has it: torch takes no symbolic truth value there, so a length of 1 is traced as a number."""

    def attend(x: Any, mask: Any = None) -> Any:
        hides = x.shape[-2] > 1 and mask is None and causal
        return F.scaled_dot_product_attention(x, x, x, mask, is_causal=hides)

    made = imported(attend, [(2, 3, 5, 8)], [{0: Dim("batch", max=4), 2: Dim("length", max=16)}])
    assert facts(made) == ["batch in 0..4", "length in 0..16"]
    assert as_eager(made, attend, [[(b, 3, n, 8)] for b, n in ((1, 1), (2, 1), (2, 5), (1, 16), (3, 2))]) == []


def test_two_dims_that_must_be_equal_are_an_error_by_their_names() -> None:
    dims = [{0: Dim("rows")}, {0: Dim("others")}]
    with pytest.raises(CompileError, match=r"right for `.* == .*` only"):
        imported(lambda x, y: x + y, [(5, 3), (5, 3)], dims)
    assert types(imported(lambda x, y: x + y, [(5, 3), (5, 3)], dims, allow_narrowing=True))[:2] == [
        "f32[rows, 3]",
        "f32[others, 3]",
    ]


class Steps(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step = 0

    def forward(self, x: Any) -> Any:
        self.step += 1
        return x * self.step


def test_the_users_model_stays_as_it_is() -> None:
    model = Steps()
    with pytest.raises(CompileError, match=r"changes its attribute `step` \(from 0 to 1\)"):
        import_torch(model, (torch.randn(4),), dynamic_shapes=({0: Dim("n")},))
    assert model.step == 0


@torch.no_grad()
def test_an_exported_program_is_taken_where_it_is_right() -> None:
    def thirds(x: Any) -> Any:
        return [c.sum() for c in x.chunk(3)]

    program = export(Fn(thirds), (torch.randn(9),), dynamic_shapes=(({0: Dim.AUTO},),))
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    for given in (program, load(file)):
        call = interpreted(import_program(given))
        for n in (3, 5, 6, 9, 10):
            x = torch.randn(n)
            torch.testing.assert_close(call(x), thirds(x))
        with pytest.raises(InterpretError):
            call(torch.randn(4))
