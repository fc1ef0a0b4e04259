"""Plans for sizes that are dims, checked by evaluating them at many sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.ir.dims import Dim
from pliant.ir.facts import Compare, Facts, InRange
from pliant.passes.planner import Plan, PlanError, SymBuffer, plan

N, M, H = map(Dim.of, ("n", "m", "h"))
Binding = Mapping[str, int]


def value(name: str, size: Dim | int, first: int, last: int, **more) -> SymBuffer:
    return SymBuffer(name, Dim.of(size), first, last, **more)


def check_plan(buffers: Sequence[SymBuffer], found: Plan, bindings: Iterable[Binding], alignment: int = 64) -> None:
    """Live buffers do not overlap, but for views and results made in place, and all lie in the arena."""
    by_name = {b.name: b for b in buffers}

    def root(b: SymBuffer) -> SymBuffer:
        while b.alias_of is not None:
            b = by_name[b.alias_of]
        return b

    tested = 0
    for binding in bindings:
        tested += 1
        at = {name: offset.evaluate(binding) for name, offset in found.offsets.items()}
        size = {b.name: b.size_bytes.evaluate(binding) for b in buffers}
        arena = found.arena_bytes.evaluate(binding)
        assert all(offset >= 0 and offset % alignment == 0 for offset in at.values())
        assert all(at[b.name] + size[b.name] <= arena for b in buffers)
        for a, b in itertools.combinations(buffers, 2):
            if root(a) is root(b):
                assert at[a.name] == at[b.name]
            elif a.first <= b.last and b.first <= a.last:
                x, y = at[a.name], at[b.name]
                if x + size[a.name] <= y or y + size[b.name] <= x:
                    continue
                old, new = sorted((a, b), key=lambda v: v.first)
                shared = {root(by_name[name]).name for name in root(new).may_share_with}
                assert root(old).name in shared, (old, new, binding)
                assert (old.last, x) == (new.first, y), (old, new, binding)
        live = max(live_bytes(buffers, at, size, step) for b in buffers for step in (b.first, b.last))
        assert live <= found.peak_formula.evaluate(binding)
    assert tested


def live_bytes(buffers: Sequence[SymBuffer], at: Mapping[str, int], size: Mapping[str, int], step: int) -> int:
    """Bytes of values live at the step; those at one offset are the same bytes."""
    taken: dict[int, int] = {}
    for b in buffers:
        if b.first <= step <= b.last:
            taken[at[b.name]] = max(taken.get(at[b.name], 0), size[b.name])
    return sum(taken.values())


def grid(**values: Iterable[int]) -> list[Binding]:
    return [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]


def mlp() -> list[SymBuffer]:
    return [
        value("up", 16 * N * H, 0, 1),
        value("act", 16 * N * H, 1, 2, may_share_with=("up",)),
        value("down", 4 * N * H, 2, 5),
        value("view", 4 * N * H, 3, 6, alias_of="down"),
        value("scores", 4 * N * N, 4, 6),
        value("mask", N * N, 5, 7),
        value("row", 4 * N, 6, 8, may_share_with=("scores",)),
    ]


def test_bounded_sizes_get_constant_offsets() -> None:
    facts = Facts([InRange("n", 0, 512), Compare("==", H, 96)])
    found = plan(mlp(), facts)
    assert all(offset.is_const for offset in found.offsets.values())
    assert found.arena_bytes.is_const
    assert found.peak_at_bound == found.arena_bytes.value == found.lower_bound
    assert found.total_without_reuse == found.without_reuse.evaluate({"n": 512, "h": 96})
    assert found.peak_formula.evaluate({"n": 512, "h": 96}) <= found.peak_at_bound
    check_plan(mlp(), found, grid(n=[0, 1, 2, 63, 64, 511, 512], h=[96]))


def test_bounded_peak_formula_is_that_of_the_live_values() -> None:
    facts = Facts([InRange("n", 0, 1024), Compare("==", H, 768)])
    chain = [value("a", 16 * N * H, 0, 1), value("b", 4 * N * H, 1, 2), value("c", 4 * N * H, 2, 3)]
    found = plan(chain, facts)
    assert found.peak_formula == 20 * N * H
    assert found.peak_at_bound == 20 * 1024 * 768


@pytest.mark.parametrize("facts", [Facts(), Facts([Compare("==", H % 16, 0)]), Facts([Compare("<=", N, H)])])
def test_unbounded_sizes_get_formulas(facts: Facts) -> None:
    found = plan(mlp(), facts)
    assert found.peak_at_bound is None
    assert found.lower_bound is None
    bindings = [b for b in grid(n=[0, 1, 2, 7, 33, 100], h=[0, 1, 16, 48, 50, 1000]) if facts.holds(b)]
    check_plan(mlp(), found, bindings)
    large = {"n": 100, "h": 1024}
    assert found.arena_bytes.evaluate(large) < found.without_reuse.evaluate(large) * 0.7


def test_unbounded_sizes_of_one_shape_are_stacked_tightly() -> None:
    # Slots alone would need 16 + 12 + 4 rows here; a stacking needs the largest live set, 16 rows, at every n.
    row = 64 * N
    buffers = [
        value("a", 12 * row, 0, 1),
        value("b", 4 * row, 0, 0),
        value("c", 4 * row, 1, 2),
        value("d", 8 * row, 2, 3),
        value("e", 4 * row, 2, 3),
        value("f", 4 * row, 3, 3),
    ]
    found = plan(buffers, Facts())
    assert found.arena_bytes == 16 * row
    assert found.peak_formula == 16 * row
    check_plan(buffers, found, grid(n=[0, 1, 5, 1000]))


def test_bounded_and_unbounded_sizes_together() -> None:
    facts = Facts([InRange("n", 0, 64)])
    for buffers in (mlp(), [*mlp(), value("big", 1 << 20, 0, 8)]):
        found = plan(buffers, facts)
        assert found.peak_at_bound is None
        check_plan(buffers, found, grid(n=[0, 1, 17, 64], h=[0, 3, 16, 500, 5000]))


def test_a_result_takes_the_storage_of_an_operand_that_dies() -> None:
    facts = Facts([InRange("n", 0, 1000)])
    buffers = [value("x", 4 * N, 0, 1), value("y", 4 * N, 1, 2, may_share_with=("x",)), value("z", 4 * N, 2, 3)]
    found = plan(buffers, facts)
    assert found.offsets["x"] == found.offsets["y"]
    assert found.offsets["z"] != found.offsets["y"]
    assert "in place of x" in found.report()


@pytest.mark.parametrize(
    ("operand", "result"),
    [
        (value("x", 4 * N, 0, 2), value("y", 4 * N, 1, 2, may_share_with=("x",))),  # still used
        (value("x", 4 * N, 0, 1), value("y", 8 * N, 1, 2, may_share_with=("x",))),  # too small
        (value("x", 4 * N, 0, 1), value("y", 4 * M, 1, 2, may_share_with=("x",))),  # not known to fit
        (value("x", 4 * N, 0, 1), value("y", 4 * N, 1, 2)),  # not allowed
    ],
)
@pytest.mark.parametrize("facts", [Facts(), Facts([InRange("n", 1, 1000), InRange("m", 1, 900)])])
def test_a_result_is_not_made_in_place_without_proof(operand: SymBuffer, result: SymBuffer, facts: Facts) -> None:
    found = plan([operand, result], facts)
    assert found.offsets["x"] != found.offsets["y"]
    check_plan([operand, result], found, grid(n=[1, 100, 1000], m=[1, 100, 900]))


def test_proof_by_a_fact_lets_a_smaller_result_be_made_in_place() -> None:
    buffers = [value("x", 4 * M, 0, 1), value("y", 4 * N, 1, 1, may_share_with=("x",))]
    found = plan(buffers, Facts([Compare("<=", N, M)]))
    assert found.offsets["x"] == found.offsets["y"]


def test_two_results_do_not_take_the_same_operand() -> None:
    buffers = [
        value("x", 4 * N, 0, 1),
        value("y", 4 * N, 1, 1, may_share_with=("x",)),
        value("z", 4 * N, 1, 2, may_share_with=("x",)),
    ]
    for facts in (Facts(), Facts([InRange("n", 0, 1000)])):
        found = plan(buffers, facts)
        assert found.offsets["y"] != found.offsets["z"]


def test_views_keep_their_value_alive() -> None:
    buffers = [
        value("x", 4 * N, 0, 1),
        value("v", 4 * N, 1, 2, alias_of="x"),
        value("w", 2 * N, 2, 5, alias_of="v"),
        value("y", 4 * N, 1, 3, may_share_with=("x",)),
        value("z", 4 * N, 4, 5),
    ]
    for facts in (Facts(), Facts([InRange("n", 0, 999)])):
        found = plan(buffers, facts)
        assert found.offsets["x"] == found.offsets["v"] == found.offsets["w"]
        assert found.offsets["z"] == found.offsets["y"]  # x lives on in w, so that z finds only the room of y
        check_plan(buffers, found, grid(n=[0, 1, 50, 999]))


def test_an_operand_dies_with_its_last_view() -> None:
    buffers = [
        value("x", 4 * N, 0, 1),
        value("v", 4 * N, 1, 2, alias_of="x"),
        value("y", 4 * N, 2, 3, may_share_with=("v",)),
    ]
    found = plan(buffers, Facts([InRange("n", 0, 999)]))
    assert found.offsets["y"] == found.offsets["x"]


def test_a_value_used_in_a_loop_lives_to_its_end() -> None:
    loop, inner = (2, 6), (4, 5)
    buffers = [
        value("x", 4 * N, 0, 3),
        value("y", 4 * N, 4, 5, scope=(loop, inner)),
        value("z", 4 * N, 6, 6, scope=(loop,), may_share_with=("x",)),
        value("after", 4 * N, 7, 8),
    ]
    for facts in (Facts(), Facts([InRange("n", 1, 999)])):
        found = plan(buffers, facts)
        assert found.offsets["y"] != found.offsets["x"]
        assert found.offsets["z"] != found.offsets["x"]
        assert found.arena_bytes.evaluate({"n": 100}) <= 2 * 999 * 4 + 128


def test_sizes_above_63_bits_are_refused() -> None:
    facts = Facts([InRange("n", 0, 1 << 31), InRange("h", 0, 64)])
    with pytest.raises(PlanError, match=r"buffer big takes .* 64-bit"):
        plan([value("small", 4 * N, 0, 1), value("big", N * N * H, 0, 1)], facts)
    half = N * N * 2  # 2**63 at the bound; one less is the largest allowed
    with pytest.raises(PlanError, match="buffer a takes"):
        plan([value("a", half, 0, 1)], facts)


def test_bounds_that_no_memory_reaches_are_no_bounds() -> None:
    """Sizes that are small at a call must not fail for what they might have been."""
    facts = Facts([InRange("n", 0, 1 << 31), InRange("h", 0, 64)])
    found = plan([value("a", N * N, 0, 1), value("b", N * N, 0, 1)], facts)
    assert found.arena_bytes.evaluate({"n": 16}) == 512
    kept = plan([value("a", N * H, 0, 1), value("b", N * N, 0, 1)], facts)
    check_plan(
        [value("a", N * H, 0, 1), value("b", N * N, 0, 1)], kept, [{"n": n, "h": h} for n in (0, 5) for h in (0, 64)]
    )


@pytest.mark.parametrize(
    ("buffers", "said"),
    [
        ([value("a", N, 0, 1), value("a", N, 0, 1)], "a is given twice"),
        ([value("a", N, 2, 1)], "a ends at step 1"),
        ([value("a", N, 0, 1, alias_of="b")], "a is a view of b"),
        ([value("a", N, 0, 1, alias_of="b"), value("b", N, 0, 1, alias_of="a")], "views of one another: a -> b -> a"),
    ],
)
def test_contradictory_buffers_are_refused(buffers: list[SymBuffer], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan(buffers, Facts())


def test_no_buffers() -> None:
    found = plan([], Facts())
    assert (found.arena_bytes, found.peak_at_bound, found.lower_bound, found.total_without_reuse) == (0, 0, 0, 0)
    assert found.report()


def test_report_tells_peak_bound_and_sum() -> None:
    found = plan(mlp(), Facts([InRange("n", 0, 512), Compare("==", H, 96)]))
    report = found.report()
    for expected in (str(found.peak_formula), str(found.peak_at_bound), str(found.total_without_reuse), "view of down"):
        assert expected in report
    unbounded = plan(mlp(), Facts())
    assert str(unbounded.arena_bytes) in unbounded.report()


SIZES = [
    4 * N,
    16 * N,
    4 * N * M,
    64 * M,
    4 * (N + M),
    4 * (N // 2),
    4 * (N % 8),
    4 * Dim.max(N, M),
    Dim.of(40),
    4 * N * N,
]


@st.composite
def programs(draw: st.DrawFn) -> list[SymBuffer]:
    result: list[SymBuffer] = []
    for k in range(draw(st.integers(1, 12))):
        first = draw(st.integers(0, 8))
        last = first + draw(st.integers(0, 4))
        earlier = [b for b in result if b.first <= first]
        kind = draw(st.sampled_from(["own", "own", "own", "place", "view"])) if earlier else "own"
        source = draw(st.sampled_from(earlier)) if kind != "own" else None
        size = source.size_bytes if source and draw(st.booleans()) else draw(st.sampled_from(SIZES))
        share = tuple({source.name, earlier[0].name}) if source and kind == "place" else ()
        if source and kind == "view":
            result.append(SymBuffer(f"b{k}", source.size_bytes, first, last, alias_of=source.name))
        else:
            first = source.last if source and share and source.last >= first else first
            result.append(SymBuffer(f"b{k}", size, first, max(first, last), share))
    return result


FACTS = [
    Facts(),
    Facts([InRange("n", 0, 40)]),
    Facts([InRange("n", 0, 40), InRange("m", 1, 9)]),
    Facts([Compare("<=", N, M)]),
    Facts([Compare("==", N % 16, 0), Compare("==", M % 16, 0)]),
]


@given(buffers=programs(), facts=st.sampled_from(FACTS))
@settings(max_examples=120, deadline=None)
def test_random_programs_are_safe_at_every_size(buffers: list[SymBuffer], facts: Facts) -> None:
    found = plan(buffers, facts, budget_s=None, iterations=5)
    bindings = [b for b in grid(n=[0, 1, 2, 5, 16, 32, 40], m=[0, 1, 4, 9, 16, 48]) if facts.holds(b)]
    check_plan(with_lifetimes_of_roots(buffers), found, bindings)
    if found.peak_at_bound is not None:
        assert found.lower_bound is not None
        assert found.total_without_reuse is not None
        assert found.lower_bound <= found.peak_at_bound <= found.total_without_reuse


def with_lifetimes_of_roots(buffers: Sequence[SymBuffer]) -> list[SymBuffer]:
    """Every buffer as long-lived as its root with all its views, so that views count as uses of one value."""
    by_name = {b.name: b for b in buffers}
    family: dict[str, list[SymBuffer]] = {}
    for b in buffers:
        root = b
        while root.alias_of is not None:
            root = by_name[root.alias_of]
        family.setdefault(root.name, []).append(b)
    result = []
    for members in family.values():
        first, last = min(b.first for b in members), max(b.last for b in members)
        result += [SymBuffer(b.name, b.size_bytes, first, last, b.may_share_with, b.alias_of) for b in members]
    return result
