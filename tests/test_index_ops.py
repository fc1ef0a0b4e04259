"""References of the operators on shapes and indices against torch, and what compiled ones do where data is wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pliant
from pliant.compiler.codegen.llvm import resolve
from pliant.compiler.driver import Compilation
from pliant.compiler.target import Target
from pliant.ir.loops import Copy
from pliant.ir.op import Op
from pliant.ir.ops.create import Arange, Eye, Full
from pliant.ir.ops.index import Embedding, Gather, IndexSelect, OneHot, Take
from pliant.ir.ops.join import Concat, Split, Stack
from pliant.ir.ops.pad import Pad, Tril, Triu
from pliant.ir.ops.put import IndexPut, SliceScatter
from pliant.ir.ops.scan import Cummax, Cummin, Cumprod, Cumsum
from pliant.ir.ops.scatter import Scatter
from pliant.ir.ops.shape import BroadcastTo, Expand, Flatten, Permute, Reshape, Squeeze, Transpose, Unsqueeze
from pliant.ir.ops.slice import Flip, Repeat, Roll, Slice
from pliant.ir.ops.sort import Argsort, Sort, Topk

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 5, 6)).astype(np.float32)
FEW = RNG.integers(-3, 4, (5, 40))  # many equal elements
NAN = np.array([[2, np.nan, -1, np.inf, np.nan, 0, -np.inf, 2]], np.float32)
AT = np.array([3, 0, 2, 0])
DEEP = RNG.integers(0, 4, (3, 5, 6))
UPDATES = RNG.standard_normal((3, 5, 6)).astype(np.float32)
WHOLE = RNG.integers(-9, 9, (4, 5, 6))

CASES: list[tuple[Op, list[np.ndarray], Callable[..., object]]] = [
    (Reshape((20, -1)), [X], lambda x: x.reshape(20, -1)),
    (Flatten(1), [X], lambda x: torch.flatten(x, 1)),
    (Flatten(), [X], torch.flatten),
    (Flatten(), [np.float32(3)], torch.flatten),
    (Squeeze((0, 2)), [X[:1, :, :1]], lambda x: torch.squeeze(x, (0, 2))),
    (Unsqueeze(-1), [X], lambda x: torch.unsqueeze(x, -1)),
    (Unsqueeze(0), [X], lambda x: torch.unsqueeze(x, 0)),
    (Permute((2, 0, 1)), [X], lambda x: x.permute(2, 0, 1)),
    (Transpose((0, -1)), [X], lambda x: x.transpose(0, -1)),
    (Expand((7, 4, -1, 6)), [X[:, :1]], lambda x: x.expand(7, 4, -1, 6)),
    (BroadcastTo((2, 4, 5, 6)), [X], lambda x: torch.broadcast_to(x, (2, 4, 5, 6))),
    (Slice(1, 1, -1, 2), [X], lambda x: x[:, 1:-1:2]),
    (Slice((0, 2), (-3, None), (None, 4)), [X], lambda x: x[-3:, :, :4]),
    (Slice(0, 3, 1), [X], lambda x: x[3:1]),
    (Flip((0, 2)), [X], lambda x: torch.flip(x, (0, 2))),
    (Roll((2, -1), (0, 1)), [X], lambda x: torch.roll(x, (2, -1), (0, 1))),
    (Roll(17, 2), [X], lambda x: torch.roll(x, 17, 2)),
    (Repeat((2, 1, 3, 2)), [X], lambda x: x.repeat(2, 1, 3, 2)),
    (Concat(1), [X, X[:, :2]], lambda *xs: torch.cat(xs, 1)),
    (Stack(2), [X, X], lambda *xs: torch.stack(xs, 2)),
    (Split((1, 3, 1), axis=1), [X], lambda x: torch.split(x, [1, 3, 1], 1)),
    (Split(sections=3, axis=-1), [X], lambda x: torch.split(x, 2, -1)),
    (Pad(((0, 0), (2, 1), (-1, 3)), value=2.5), [X], lambda x: torch.nn.functional.pad(x, (-1, 3, 2, 1), value=2.5)),
    (Pad(((0, 0), (0, 0), (5, 2)), "reflect"), [X], lambda x: torch.nn.functional.pad(x, (5, 2), "reflect")),
    (Pad(((0, 0), (0, 0), (9, 2)), "replicate"), [X], lambda x: torch.nn.functional.pad(x, (9, 2), "replicate")),
    (Tril(1), [X], lambda x: torch.tril(x, 1)),
    (Triu(-2), [X], lambda x: torch.triu(x, -2)),
    (Take(1), [X, AT[None]], lambda x, i: x[:, i]),
    (IndexSelect(-1), [X, AT], lambda x, i: torch.index_select(x, -1, i)),
    (Embedding(), [X[0], AT[:, None]], lambda x, i: torch.nn.functional.embedding(i, x)),
    (Gather(0), [X, DEEP], lambda x, i: torch.gather(x, 0, i)),
    (Gather(1), [X, DEEP[:, :, :4]], lambda x, i: torch.gather(x, 1, i)),
    (OneHot(5), [AT], lambda i: torch.nn.functional.one_hot(i, 5)),
    (Scatter(0), [X, DEEP[:, :1], UPDATES[:, :1]], lambda x, i, u: x.scatter(0, i, u)),
    (Scatter(1, "add"), [X, DEEP, UPDATES], lambda x, i, u: x.scatter_add(1, i, u)),
    (Scatter(0, "max"), [X, DEEP, UPDATES], lambda x, i, u: x.scatter_reduce(0, i, u, "amax")),
    (Scatter(0, "min"), [X, DEEP, UPDATES], lambda x, i, u: x.scatter_reduce(0, i, u, "amin")),
    (Scatter(2, "mean"), [X, DEEP, UPDATES], lambda x, i, u: x.scatter_reduce(2, i, u, "mean")),
    (Scatter(0, "mean"), [WHOLE, DEEP, WHOLE[:3]], lambda x, i, u: x.scatter_reduce(0, i, u, "mean")),
    (IndexPut(), [X, UPDATES[0], np.array(2)], lambda x, v, i: x.index_put((i,), v)),
    (IndexPut(True), [X, UPDATES[0, :4], AT, AT], lambda x, v, i, j: x.index_put((i, j), v, accumulate=True)),
    (IndexPut(True), [X, UPDATES[1, 0], AT[:, None], AT], lambda x, v, i, j: x.index_put((i, j), v, accumulate=True)),
    (SliceScatter(1, 1, 2), [X, X[:, :2]], lambda x, y: torch.slice_scatter(x, y, 1, 1, 5, 2)),
    (Cumsum(1), [X], lambda x: torch.cumsum(x, 1)),
    (Cumprod(0), [X], lambda x: torch.cumprod(x, 0)),
    (Cumsum(0, reverse=True), [X], lambda x: x.flip(0).cumsum(0).flip(0)),
    (Cumsum(2, exclusive=True), [X], lambda x: torch.cumsum(x, 2) - x),
    (Cummax(1), [NAN], lambda x: torch.cummax(x, 1).values),
    (Cummin(2), [X], lambda x: torch.cummin(x, 2).values),
    (Sort(), [FEW], lambda x: torch.sort(x, stable=True)),
    (Sort(0, True), [FEW], lambda x: torch.sort(x, dim=0, descending=True, stable=True)),
    (Sort(), [NAN], lambda x: torch.sort(x, stable=True)),
    (Sort(descending=True), [NAN], lambda x: torch.sort(x, descending=True, stable=True)),
    (Argsort(0), [FEW], lambda x: torch.argsort(x, dim=0, stable=True)),
    (Topk(3, 1), [X], lambda x: torch.topk(x, 3, 1)),
    (Topk(4, largest=False), [X], lambda x: torch.topk(x, 4, largest=False)),
    (Arange(11, 2, 3), [], lambda: torch.arange(2, 11, 3)),
    (Full((2, 3), 1.5), [], lambda: torch.full((2, 3), 1.5)),
    (Eye(3, 4), [], lambda: torch.eye(3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: f"{i}-{CASES[i][0].name}")
def test_references_agree_with_torch(case: int) -> None:
    op, arrays, theirs = CASES[case]
    want = theirs(*(torch.from_numpy(np.array(a)) for a in arrays))
    wanted = list(want) if isinstance(want, (tuple, list)) else [want]
    got = op.reference(*map(np.asarray, arrays))
    for g, w in zip(got if isinstance(got, tuple) else (got,), wanted, strict=True):
        assert g.dtype == w.numpy().dtype
        np.testing.assert_allclose(g, w.numpy(), rtol=1e-6, atol=1e-6)


# --------------------------------------------------------------------------------------------------- compiled


def test_an_index_out_of_range_is_an_error_that_says_which_and_names_the_operator_the_axis_and_its_size() -> None:
    exe = pliant.compile("func @main(x: f32[n, 4], i: i64[m]) -> f32[m, 4] { r = take(x, i, axis=0) return r }")
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(exe(x, np.array([-1, 0])), x[[-1, 0]])
    for wrong in (3, -4):
        said = rf"an index of `take` is {wrong}, out of range for axis 0 of size n = 3 \(-3\.\.2\)"
        with pytest.raises(pliant.PliantError, match=said):
            exe(x, np.array([0, wrong]))
    with pytest.raises(pliant.PliantError, match=r"is 0, out of range for axis 0 of size n = 0"):
        exe(x[:0], np.array([0]))
    assert exe(x[:0], np.array([], np.int64)).shape == (0, 4)


CACHE = """
func @main(inout cache: f32[t, 4], y: f32[n, 4], at: i64[n]) -> i64[] {
    c = index_put(cache, y, at)
    update cache = c
    size = dim(cache, axis=0)
    return size
}
func @slice(inout cache: f32[2, t, 4], y: f32[2, n, 4], past: u8[p]) -> f32[2, p + n, 4] where p + n <= t {
    c = slice_scatter(cache, y, axis=1, start=p)
    update cache = c
    seen = slice(c, axis=1, start=0, stop=p + n)
    return seen
}
"""


def test_a_cache_is_written_in_place() -> None:
    exe = pliant.compile(CACHE)
    cache = np.zeros((6, 4), np.float32)
    y = np.arange(8, dtype=np.float32).reshape(2, 4)
    exe["main"](cache, y, np.array([4, -6]))
    want = np.zeros((6, 4), np.float32)
    want[[4, -6]] = y
    np.testing.assert_array_equal(cache, want)
    with pytest.raises(pliant.PliantError, match="`index_put` is 6, out of range for axis 0 of size t = 6"):
        exe["main"](cache, y + 50, np.array([0, 6]))
    np.testing.assert_array_equal(cache, want)  # nothing was written


@pytest.mark.parametrize(("past", "new"), [(0, 3), (2, 1), (3, 0), (1, 4)])
def test_a_slice_of_a_cache_is_written_in_place(past: int, new: int) -> None:
    exe = pliant.compile(CACHE)
    rng = np.random.default_rng(1)
    cache, y = rng.standard_normal((2, 5, 4)).astype(np.float32), rng.standard_normal((2, new, 4)).astype(np.float32)
    want = cache.copy()
    want[:, past : past + new] = y
    got = exe["slice"](cache, y, np.zeros(past, np.uint8))
    np.testing.assert_array_equal(cache, want)
    np.testing.assert_array_equal(got, want[:, : past + new])


def test_large_arrays_take_the_tiled_and_the_parallel_paths() -> None:
    text = """
    func @rows(x: f32[n, m], i: i64[k, m], u: f32[k, m]) -> f32[n, m] {
        r = scatter(x, i, u, axis=0, reduce="add")
        return r
    }
    func @sum(x: f32[n, m]) -> f32[n, m] { r = cumsum(x, axis=0) return r }
    func @sort(x: f32[n, m]) -> (f32[n, m], i64[n, m]) { v, i = sort(x, axis=1)  return (v, i) }
    func @top(x: f32[n, m]) -> (f32[n, 9], i64[n, 9]) where m >= 9 { v, i = topk(x, k=9)  return (v, i) }
    """
    exe = pliant.compile(text)
    rng = np.random.default_rng(2)
    x = rng.integers(0, 50, (150, 3001)).astype(np.float32)
    i, u = rng.integers(-150, 150, (40, 3001)), rng.integers(0, 9, (40, 3001)).astype(np.float32)
    want = x.copy()
    np.add.at(want, (np.where(i < 0, i + 150, i), np.arange(3001)[None]), u)
    np.testing.assert_array_equal(exe["rows"](x, i, u), want)
    np.testing.assert_array_equal(exe["sum"](x), np.cumsum(x, 0))
    order = np.argsort(x, axis=1, kind="stable")
    values, indices = exe["sort"](x)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.sort(x, 1))
    order = np.argsort(-x, axis=1, kind="stable")[:, :9]
    values, indices = exe["top"](x)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("name", ["reshape(x, shape=[n, -1])", "slice(x, axis=[0, 1], start=[none, -2], step=[-1, 1])",
    "pad(x, pads=[[1, n], [0, -1]], mode=\"constant\", value=0.5)", "roll(x, shift=[n, 1], axis=[0, 1])",
    "tril(x, diagonal=n - 2)", "expand(x, shape=[2, n, 8])", "cumsum(x, axis=0, exclusive=true)",
])  # fmt: skip
def test_attributes_are_printed_and_parsed_back(name: str) -> None:
    module = pliant.parse(f"func @main(x: f32[n, 8]) -> f32[*] where n in 2..9 {{ y = {name}  return y }}")
    from pliant.ir.printer import print_module

    assert pliant.parse(print_module(module)) == module


def test_nothing_is_copied_around_a_write_in_place() -> None:
    program = Compilation(pliant.parse(CACHE), resolve(Target.parse("cpu")), 1).lowered.program
    for host in program.functions:
        assert not any(isinstance(step, Copy) for step in host.launches)
    for name in ("main.0.index_put", "slice.0.slice_scatter"):
        assert [b.name for b in program.kernel(name).buffers if b.mode != "in"] == ["cache"]
