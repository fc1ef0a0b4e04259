"""Packing buffers of known sizes, checked by brute force, and the files and tables of the benchmark."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.passes.planner import (
    Buffer,
    Packing,
    PlanError,
    geometric_mean,
    minimalloc_table,
    pack,
    report_file,
    table_text,
)

# -- sizes known


def check_packing(buffers: Sequence[Buffer[int]], packing: Packing[int], alignment: int = 1) -> None:
    assert set(packing.offsets) == {b.id for b in buffers}
    assert all(at >= 0 and at % alignment == 0 for at in packing.offsets.values())
    for a, b in itertools.combinations(buffers, 2):
        if a.lower < b.upper and b.lower < a.upper and a.upper > a.lower and b.upper > b.lower:
            x, y = packing.offsets[a.id], packing.offsets[b.id]
            assert x + a.size <= y or y + b.size <= x, (a, b)
    assert all(packing.offsets[b.id] + b.size <= packing.peak for b in buffers if b.upper > b.lower)
    assert packing.peak >= packing.lower_bound == largest_live_set(buffers, alignment)


def largest_live_set(buffers: Sequence[Buffer[int]], alignment: int = 1) -> int:
    def rounded(size: int) -> int:
        return (size + alignment - 1) // alignment * alignment

    times = {b.lower for b in buffers}
    return max((sum(rounded(b.size) for b in buffers if b.lower <= t < b.upper) for t in times), default=0)


def lowest_peak(buffers: Sequence[Buffer[int]]) -> int:
    """The optimum: some order, each buffer placed at the lowest offset free, reaches it."""
    best = sum(b.size for b in buffers)
    for order in itertools.permutations(buffers):
        placed: list[tuple[Buffer[int], int]] = []
        for b in order:
            near = sorted((at, at + o.size) for o, at in placed if o.lower < b.upper and b.lower < o.upper)
            offset = 0
            for start, end in near:
                if offset + b.size <= start:
                    break
                offset = max(offset, end)
            placed.append((b, offset))
        best = min(best, max((at + b.size for b, at in placed), default=0))
    return best


@st.composite
def buffer_lists(draw: st.DrawFn, most: int = 40, time: int = 12) -> list[Buffer[int]]:
    count = draw(st.integers(0, most))
    result = []
    for k in range(count):
        lower = draw(st.integers(-3, time))
        result.append(Buffer(k, lower, lower + draw(st.integers(0, time)), draw(st.integers(0, 20))))
    return result


@given(buffers=buffer_lists(), alignment=st.sampled_from([1, 4, 64]), seed=st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_random_buffers_do_not_overlap(buffers: list[Buffer[int]], alignment: int, seed: int) -> None:
    packing = pack(buffers, alignment=alignment, budget_s=None, iterations=20, seed=seed)
    check_packing(buffers, packing, alignment)


@given(buffers=buffer_lists(most=6, time=5))
@settings(max_examples=80, deadline=None)
def test_small_cases_are_optimal(buffers: list[Buffer[int]]) -> None:
    assert pack(buffers, budget_s=None, iterations=50).peak == lowest_peak([b for b in buffers if b.upper > b.lower])


def test_optimum_above_the_largest_live_set_is_found_and_proven() -> None:
    lives = [(0, 1, 3), (0, 3, 2), (1, 4, 1), (1, 5, 2), (3, 5, 1), (4, 6, 2), (5, 6, 3)]
    buffers = [Buffer(k, *life) for k, life in enumerate(lives)]
    packing = pack(buffers, budget_s=None, iterations=1000)
    assert (packing.lower_bound, packing.peak) == (5, 6)
    assert packing.peak == lowest_peak(buffers)
    assert packing.iterations == 0  # proven, so that there is nothing left to search


def random_program(count: int, seed: int) -> list[Buffer[int]]:
    rng = random.Random(seed)
    starts = [rng.randrange(count // 2) for _ in range(count)]
    return [Buffer(k, t, t + 1 + int(rng.expovariate(0.1)), rng.randint(1, 1000)) for k, t in enumerate(starts)]


def test_local_search_is_deterministic_and_gains() -> None:
    buffers = random_program(120, 1)
    first = pack(buffers, budget_s=None, iterations=0)
    one, two = (pack(buffers, budget_s=None, iterations=300, seed=5) for _ in range(2))
    assert one == two
    assert one.peak < first.peak
    assert one.iterations <= 300
    check_packing(buffers, one)


def test_search_ends_when_the_lower_bound_is_met() -> None:
    chain = [Buffer(k, k, k + 2, 10) for k in range(50)]
    packing = pack(chain, budget_s=None, iterations=10**9)
    assert (packing.peak, packing.lower_bound, packing.iterations) == (20, 20, 0)


def test_parts_that_share_no_time_share_memory() -> None:
    early = random_program(40, 2)
    late = [Buffer(b.id + 1000, b.lower + 10_000, b.upper + 10_000, b.size) for b in random_program(40, 3)]
    packing = pack([*early, *late], budget_s=None, iterations=100)
    check_packing([*early, *late], packing)
    assert packing.peak < largest_live_set(early) + largest_live_set(late)


def test_nothing_takes_no_memory() -> None:
    assert pack([]).peak == 0
    assert pack([]).ratio == 1.0
    empty = pack([Buffer("a", 0, 5, 0), Buffer("b", 3, 3, 7)])
    assert (dict(empty.offsets), empty.peak, empty.lower_bound) == ({"a": 0, "b": 0}, 0, 0)


@pytest.mark.parametrize(
    ("buffers", "said"),
    [
        ([Buffer("a", 0, 1, -4)], "buffer a has the negative size -4"),
        ([Buffer("a", 3, 1, 4)], "buffer a ends at 1, before it begins at 3"),
        ([Buffer("a", 0, 1, 4), Buffer("a", 1, 2, 4)], "buffer a is given twice"),
    ],
)
def test_bad_buffers_are_named(buffers: list[Buffer[str]], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        pack(buffers)


def test_a_budget_is_needed() -> None:
    with pytest.raises(PlanError, match="budget"):
        pack([], budget_s=None)


# -- files


def write_csv(path, buffers: Iterable[Buffer[int]]):
    lines = ["id,lower,upper,size", *(f"{b.id},{b.lower},{b.upper},{b.size}" for b in buffers)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_files_are_read_and_tabled(tmp_path) -> None:
    first, second = random_program(30, 4), [Buffer(k, k, k + 2, 8) for k in range(9)]
    write_csv(tmp_path / "b.csv", second)
    write_csv(tmp_path / "a.csv", first)
    packing = report_file(tmp_path / "a.csv", budget_s=None, iterations=10)
    check_packing(first, Packing({int(k): v for k, v in packing.offsets.items()}, *_rest(packing)))
    rows = minimalloc_table(tmp_path, [0.0, 0.01])
    assert [(row.name, row.buffers, len(row.packings)) for row in rows] == [("a.csv", 30, 2), ("b.csv", 9, 2)]
    assert rows[1].packings[0].peak == 16
    printed = table_text(rows, [0.0, 0.01])
    mean = geometric_mean([row.packings[1].ratio for row in rows])
    assert f"{mean:.4f}" in printed.splitlines()[-1]
    assert [row.name for row in minimalloc_table([tmp_path / "b.csv"], [0.0])] == ["b.csv"]


def _rest(packing: Packing[str]) -> tuple[int, int, int]:
    return packing.peak, packing.lower_bound, packing.iterations


def test_columns_may_stand_in_any_order(tmp_path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("size, id, upper, note, lower\n16, a, 4, hello, 0\n\n8, b, 5, , 3\n")
    packing = report_file(path)
    assert packing.peak == packing.lower_bound == 24


@pytest.mark.parametrize(
    ("content", "line", "said"),
    [
        ("", 1, "no column `id`"),
        ("id,lower,upper\n", 1, "no column `size`"),
        ("id,lower,upper,size\n0,1,2,3\n1,2,x,4\n", 3, "`upper` is 'x', not an integer"),
        ("id,lower,upper,size\n0,1,2\n", 2, "3 values where the header has 4"),
        ("id,lower,upper,size\n0,5,2,3\n", 2, "before it begins"),
        ("id,lower,upper,size\n0,1,2,-3\n", 2, "negative size"),
        ("id,lower,upper,size\n0,1,2,3\n0,1,2,3\n", 3, "given twice"),
    ],
)
def test_malformed_files_are_refused_with_the_line(tmp_path, content: str, line: int, said: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(PlanError, match=said) as caught:
        report_file(path)
    assert caught.value.line == line
    assert f"bad.csv:{line}:" in str(caught.value)


def test_missing_and_binary_files_are_refused(tmp_path) -> None:
    with pytest.raises(PlanError, match="cannot read"):
        report_file(tmp_path / "absent.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(PlanError, match="not a text file"):
        report_file(tmp_path / "binary.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PlanError, match="no CSV file"):
        minimalloc_table(tmp_path / "empty")
