"""Solving of parameter types: the steps run as a host program would, against all sizes and all symbol values."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.ir.dims import Dim
from pliant.ir.dims_solve import BindSymbol, CheckDim, Solution, Unsolvable, solve
from pliant.ir.facts import Compare, Fact, Facts, InRange

a, b, c, h, k, m, n = map(Dim.of, "abchkmn")


def slots(*patterns: Dim | int) -> list[tuple[str, Dim]]:
    return [(f"x.{index}", Dim.of(pattern)) for index, pattern in enumerate(patterns)]


def run(solution: Solution, values: dict[str, int]) -> dict[str, int] | None:
    """The steps at given sizes and known symbols: the symbols bound, or None for a refused call."""
    env = dict(values)
    for step in solution.steps:
        if isinstance(step, CheckDim):
            if env[step.slot] != step.expected.evaluate(env):
                return None
            continue
        quotient, remainder = divmod(step.numerator.evaluate(env), step.divisor.evaluate(env))
        if remainder or quotient < 0:
            return None
        env[step.symbol] = quotient
    return env


def check_all_sizes(
    patterns: list[tuple[str, Dim]], solution: Solution, known: tuple[str, ...] = (), facts: Facts | None = None
) -> None:
    """A call is accepted just where some values of the symbols give its sizes, and the values bound are those."""
    names = sorted(set().union(*(p.symbols for _, p in patterns)) - set(known))
    for given_values in itertools.product(range(4), repeat=len(known)):
        fixed = dict(zip(known, given_values, strict=True))
        accepted = {}
        for values in itertools.product(range(5), repeat=len(names)):
            env = {**fixed, **dict(zip(names, values, strict=True))}
            if facts is not None and not all(fact.holds(env) for fact in facts if fact.symbols <= env.keys()):
                continue
            sizes = tuple(p.evaluate(env) for _, p in patterns)
            if min(sizes, default=0) >= 0:
                assert sizes not in accepted, "two solutions"
                accepted[sizes] = env
        for sizes, env in accepted.items():
            bound = run(solution, {**fixed, **dict(zip([s for s, _ in patterns], sizes, strict=True))})
            assert bound is not None, (sizes, env)
            assert {name: bound[name] for name in names} == {name: env[name] for name in names}
        if facts is not None:
            continue
        for sizes in itertools.product(range(5), repeat=min(len(patterns), 4)):
            if len(patterns) > 4:
                break
            bound = run(solution, {**fixed, **dict(zip([s for s, _ in patterns], sizes, strict=True))})
            if bound is not None:  # whatever is accepted has the sizes that its types say
                assert tuple(p.evaluate(bound) for _, p in patterns) == sizes


SOLVABLE: list[tuple[list[tuple[str, Dim]], tuple[str, ...]]] = [
    (slots(n), ()),
    (slots(2 * n, n + m), ()),
    (slots(n + m, n - m), ()),
    (slots(h, 4 * h), ()),
    (slots(4 * h, h), ()),
    (slots(n // 2, n), ()),
    (slots(n * m, n, m), ()),
    (slots(n, 3, n + 1, n), ()),
    (slots(a + b, b + c, a + c), ()),
    (slots(a + b, b + c, a + c, a + b + c), ()),
    (slots(2 * n - 2 * m, m), ()),
    (slots(n + h), ("h",)),
    (slots(n * h + m, m, n), ("h",)),
    (slots(h), ("h",)),
    (slots(Dim.max(n, m), n, m + 1), ()),
    (slots(3 - n), ()),
    (slots(2 * a + 3 * b, 3 * a + 5 * b), ()),
    (slots(), ()),
]


@pytest.mark.parametrize(
    ("patterns", "known"), SOLVABLE, ids=lambda v: str([str(p) for _, p in v]) if isinstance(v, list) else ""
)
def test_solved_types_accept_just_the_sizes_they_say(patterns: list[tuple[str, Dim]], known: tuple[str, ...]) -> None:
    solution = solve(patterns, known)
    assert isinstance(solution, Solution), solution
    check_all_sizes(patterns, solution, known)


def test_bare_symbols_bind_first() -> None:
    solution = solve(slots(2 * n, n))
    assert solution == Solution((BindSymbol("n", Dim.of("x.1"), Dim.of(1)), CheckDim("x.0", 2 * n)))


def test_a_size_that_repeats_is_bound_once_and_checked_after() -> None:
    solution = solve([("x.0", n), ("y.0", n)])
    assert solution == Solution((BindSymbol("n", Dim.of("x.0"), Dim.of(1)), CheckDim("y.0", n)))


WITH_FACTS: list[tuple[list[tuple[str, Dim]], tuple[str, ...], list[Fact]]] = [
    (slots(n, n * k), (), [InRange(n, 1)]),
    (slots(h * a + b, a + b), ("h",), [InRange(h, 2)]),
    (slots(n + m), (), [Compare("==", n, m)]),
    (slots(n * h), ("h",), [Compare("!=", h, 0)]),
    (slots(n * h + n), ("h",), []),
]


@pytest.mark.parametrize(("patterns", "known", "facts"), WITH_FACTS, ids=str)
def test_facts_allow_division_by_a_size(
    patterns: list[tuple[str, Dim]], known: tuple[str, ...], facts: list[Fact]
) -> None:
    solution = solve(patterns, known, Facts(facts))
    assert isinstance(solution, Solution)
    check_all_sizes(patterns, solution, known, Facts(facts))


REFUSED: list[tuple[list[tuple[str, Dim]], tuple[str, ...], tuple[str, ...], str]] = [
    (slots(n + m), (), ("m", "n"), "`m + n` leaves it open together with `n`"),
    (slots(n + m, 2 * n + 2 * m), (), ("m", "n"), "leave it open"),
    (slots(a + b, b + c, a + 2 * b + c), (), ("a", "b", "c"), "leave it open"),
    (slots(n // 2), (), ("n",), "`n//2`, and sizes are solved only where they are linear"),
    (slots(n * n), (), ("n",), "linear"),
    (slots(n * m), (), ("m", "n"), "`m*n` leaves it open"),
    (slots(n, n * k), (), ("k",), "only where `n` is not 0: say `where n in 1..`"),
    (slots(h * a + b, a + b), ("h",), ("a", "b"), "only where `h - 1` is not 0: say `where h != 1`"),
    (slots(Dim.min(n, 4)), (), ("n",), "linear"),
    (slots(n * h), ("h",), ("n",), "say `where h in 1..`"),
]


@pytest.mark.parametrize(("patterns", "known", "symbols", "reason"), REFUSED, ids=str)
def test_what_has_no_unique_solution_is_refused_with_the_reason(
    patterns: list[tuple[str, Dim]], known: tuple[str, ...], symbols: tuple[str, ...], reason: str
) -> None:
    refusal = solve(patterns, known)
    assert isinstance(refusal, Unsolvable)
    assert refusal.symbols == symbols
    assert reason in refusal.reasons[0][1]


def test_slots_and_symbols_have_names_of_their_own() -> None:
    with pytest.raises(ValueError, match=r"x\.0 names both"):
        solve([("x.0", Dim.of("x.0") + 1)])


patterns_strategy = st.lists(
    st.tuples(st.integers(-2, 3), st.integers(-2, 3), st.integers(-1, 2), st.integers(0, 3)).map(
        lambda t: a * t[0] + b * t[1] + c * t[2] + t[3]
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=250, deadline=None)
@given(patterns_strategy)
def test_linear_types_are_solved_just_when_the_solution_is_unique(dims: list[Dim]) -> None:
    import numpy as np

    patterns = slots(*dims)
    names = sorted(set().union(*(d.symbols for d in dims)))
    matrix = np.array([[d.coefficient((name,)) for name in names] for d in dims]).reshape(len(dims), len(names))
    unique = len(names) == 0 or np.linalg.matrix_rank(matrix) == len(names)
    result = solve(patterns)
    assert isinstance(result, Solution) == unique
    if isinstance(result, Solution):
        check_all_sizes(patterns, result)
        binds = [step.symbol for step in result.steps if isinstance(step, BindSymbol)]
        assert sorted(binds) == names
        assert len(result.steps) == len(patterns)
