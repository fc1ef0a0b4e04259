"""The prover against brute force over small sizes, and the proofs that the compiler cannot do without."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.ir.dims import Dim
from pliant.ir.facts import Compare, Fact, Facts, InRange, OneOf

NAMES = ("m", "n", "p")
a, b, c, d, h, i, j, k, m, n, p, s, t = map(Dim.of, "abcdhijkmnpst")


def eq(x: Dim | int, y: Dim | int) -> Fact:
    return Compare("==", x, y)


def le(x: Dim | int, y: Dim | int) -> Fact:
    return Compare("<=", x, y)


def lt(x: Dim | int, y: Dim | int) -> Fact:
    return Compare("<", x, y)


# -- soundness: whatever is proven holds at every assignment that satisfies the facts

RANGE = range(7)
POINTS = [dict(zip(NAMES, values, strict=True)) for values in itertools.product(RANGE, repeat=len(NAMES))]


@st.composite
def dims(draw: st.DrawFn, depth: int = 3) -> Dim:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return Dim.of(draw(st.one_of(st.sampled_from(NAMES), st.integers(-4, 6))))
    left = draw(dims(depth=depth - 1))
    kind = draw(st.sampled_from(["+", "+", "-", "-", "*", "//", "%", "min", "max", "//n"]))
    if kind in ("//", "%"):
        divisor = draw(st.integers(1, 6))
        return left // divisor if kind == "//" else left % divisor
    right = draw(dims(depth=depth - 1))
    if kind == "//n":
        return left if right == 0 else left // right
    if kind in ("min", "max"):
        return (Dim.min if kind == "min" else Dim.max)(left, right)
    return left + right if kind == "+" else left - right if kind == "-" else left * right


symbols = st.sampled_from(NAMES).map(Dim.of)
facts_strategy = st.one_of(
    st.builds(Compare, st.sampled_from(["==", "!=", "<=", "<", ">=", ">"]), dims(depth=2), dims(depth=2)),
    st.builds(lambda x, y: Compare("<=", x, y), symbols, symbols),
    st.builds(lambda x, y, z: Compare("==", x, y + z), symbols, symbols, dims(depth=1)),
    st.builds(lambda x, q, r: Compare("==", x % q, r % q), symbols, st.integers(2, 6), st.integers(0, 2)),
    st.builds(lambda x, lo, size: InRange(x, lo, lo + size), symbols, st.integers(0, 4), st.integers(0, 5)),
    st.builds(lambda x, lo: InRange(x, lo), dims(depth=1), st.integers(0, 4)),
    st.builds(OneOf, symbols, st.lists(st.integers(0, 6), min_size=1, max_size=3)),
)


def satisfying(facts: list[Fact]) -> list[dict[str, int]]:
    return [env for env in POINTS if all(holds(fact, env) for fact in facts)]


def holds(fact: Fact, env: dict[str, int]) -> bool:
    try:
        return fact.holds(env)
    except ZeroDivisionError:
        return False


def defined(fact: Fact, env: dict[str, int]) -> bool:
    return all(value(dim, env) is not None for dim in fact.dims)


def value(dim: Dim, env: dict[str, int]) -> int | None:
    try:
        return dim.evaluate(env)
    except ZeroDivisionError:
        return None


@settings(max_examples=400, deadline=None)
@given(st.lists(facts_strategy, max_size=4), dims(), dims(depth=2), st.integers(1, 6))
def test_what_is_proven_holds(known: list[Fact], x: Dim, y: Dim, divisor: int) -> None:
    facts = Facts(known)
    envs = satisfying(known)
    pairs = [(u, v) for env in envs if (u := value(x, env)) is not None and (v := value(y, env)) is not None]
    if facts.prove_eq(x, y):
        assert all(u == v for u, v in pairs)
    if facts.prove_ne(x, y):
        assert all(u != v for u, v in pairs)
    if facts.prove_le(x, y):
        assert all(u <= v for u, v in pairs)
    if facts.prove_lt(x, y):
        assert all(u < v for u, v in pairs)
    if facts.prove_divisible(x, divisor):
        assert all(u % divisor == 0 for u, _ in pairs)
    if facts.prove_divisible(x, y):
        assert all(v != 0 and u % v == 0 for u, v in pairs)
    lo, hi = facts.bounds(x)
    assert all((lo is None or lo <= u) and (hi is None or u <= hi) for u, _ in pairs)


@settings(max_examples=300, deadline=None)
@given(st.lists(facts_strategy, max_size=4), dims())
def test_simplified_dims_are_equal_and_speak_of_known_symbols(known: list[Fact], x: Dim) -> None:
    simple = Facts(known).simplify(x)
    assert simple.symbols <= set(NAMES)
    for env in satisfying(known):
        expected, found = value(x, env), value(simple, env)
        assert expected is None or found is None or expected == found


@settings(max_examples=300, deadline=None)
@given(st.lists(facts_strategy, min_size=1, max_size=5))
def test_contradictions_are_real_and_smallest(known: list[Fact]) -> None:
    conflict = Facts(known).contradiction()
    if conflict is None:
        return
    assert set(conflict) <= set(known)
    assert not satisfying(list(conflict))
    for fact in conflict:
        assert Facts(f for f in conflict if f != fact).contradiction() is None


@settings(max_examples=200, deadline=None)
@given(st.lists(facts_strategy, max_size=3), st.lists(facts_strategy, min_size=1, max_size=2), dims(), dims(depth=1))
def test_facts_added_later_are_as_sound(known: list[Fact], later: list[Fact], x: Dim, y: Dim) -> None:
    first = Facts(known)
    first.prove_le(x, y)  # builds the solved form that the next one starts from
    facts = first.add(*later)
    for env in satisfying([*known, *later]):
        u, v = value(x, env), value(y, env)
        if u is None or v is None:
            continue
        assert u <= v or not facts.prove_le(x, y)
        assert u == v or not facts.prove_eq(x, y)
        assert u != v or not facts.prove_ne(x, y)


@settings(max_examples=100, deadline=None)
@given(st.lists(facts_strategy, max_size=2), facts_strategy)
def test_a_suggestion_that_reads_unlike_the_goal_implies_it(known: list[Fact], goal: Fact) -> None:
    facts = Facts(known)
    fact = facts.suggest(goal)
    if fact is None:
        return
    assert facts.add(fact).contradiction() is None
    assert all(holds(goal, env) for env in satisfying([*known, fact]) if defined(goal, env))


@settings(max_examples=200, deadline=None)
@given(st.lists(facts_strategy, max_size=3))
def test_every_fact_follows_from_itself(known: list[Fact]) -> None:
    facts = Facts(known)
    if facts.contradiction():
        return
    for fact in known:
        if all("//" not in str(dim) and "%" not in str(dim) for dim in fact.dims):
            assert facts.prove(fact), f"{fact} from {facts}"


# -- completeness: what must be proven

PROVEN: list[tuple[list[Fact], Fact]] = [
    ([le(s, t), le(t, m)], le(s, m)),
    ([le(s + 1, t)], lt(s, t)),
    ([lt(s, t)], Compare("!=", s, t)),
    ([le(a, b), le(c, d)], le(a + c, b + d)),
    ([le(a + b, 10), le(a, b)], le(a, 5)),
    ([eq(t, s + p)], eq(t - s, p)),
    ([eq(t, s + p)], le(s, t)),
    ([eq(t, s + p), InRange(s, 0, 10), InRange(p, 0, 6)], le(t, 16)),
    ([eq(t, s + p), InRange(p, 1)], lt(s, t)),
    ([eq(n, m), eq(m, p)], eq(n * h, p * h)),
    ([eq(n % 8, 0)], eq(8 * (n // 8), n)),
    ([eq(n % 8, 0)], eq((n * h) % 8, 0)),
    ([eq(n % 8, 0)], eq(n % 4, 0)),
    ([eq(n % 8, 3)], eq(n % 4, 3)),
    ([eq(n % 4, 0), eq(m % 6, 0)], eq((n * m) % 24, 0)),
    ([eq(n % 4, 0), eq(m % 4, 0)], eq((3 * n + m) % 4, 0)),
    ([eq((n + m) % 4, 0)], eq((3 * n + 3 * m) % 4, 0)),
    ([eq(n % 4, 0), eq(n % 6, 0)], eq(n % 12, 0)),
    ([eq(h % 16, 0)], eq(16 * n * (h // 16), n * h)),
    ([eq(n % 4, 0)], eq((n * h) // 4, (n // 4) * h)),
    ([eq(h % d, 0)], eq((h // d) * d, h)),
    ([eq(k * d, h)], eq(n * k * d, n * h)),
    ([eq(a * b, c * d)], eq(a * b * n, c * d * n)),
    ([eq(a * b, c * d), eq(c * h, k)], eq(a * b * h, d * k)),
    ([eq(a * b, c * d), eq(a * h, c * k)], eq(b * c * k, c * d * h)),  # by a Groebner basis
    ([eq(2 * a, 3 * b)], eq(a % 3, 0)),
    ([eq(n * h, m * h), InRange(h, 1)], eq(n, m)),
    ([InRange(h, 1), eq(n * h, m * h)], eq(n, m)),
    ([le(n * h, m * h), InRange(h, 1)], le(n, m)),
    ([eq(n * 2, m)], eq((m * h) % 2, 0)),
    ([], eq(a * b * c, (a * c) * b)),
    ([], eq(n // 2 + (n + 1) // 2, n)),
    ([], le((n + 1) // 2, n)),
    ([], le(n, 8 * Dim.ceildiv(n, 8))),
    ([], lt(8 * Dim.ceildiv(n, 8), n + 8)),
    ([], lt(n % 8, 8)),
    ([], le(0, n * m)),
    ([], le(n % 8, n)),
    ([], eq(Dim.max(n, 0), n)),
    ([], le(Dim.min(n, m), n)),
    ([], le(Dim.min(n, m) * 2, n + m)),
    ([], le(n, Dim.max(n, m))),
    ([], le(Dim.max(n, m), n + m)),
    ([le(n, m)], eq(Dim.min(n, m), n)),
    ([le(n, m)], eq(Dim.max(n, m, 0), m)),
    ([le(n, 64), le(m, 64)], le(Dim.max(n, m), 64)),
    ([le(n, m)], le(n * h, m * h)),
    ([le(n, m)], le(n * n, m * m)),
    ([le(n, m)], le(n // 8, m // 8)),
    ([InRange(d, 1)], lt(n % d, d)),
    ([InRange(d, 1)], le(n // d, n)),
    ([InRange(d, 1)], le((n // d) * d, n)),
    ([InRange(n, 1), Compare("!=", h, 0)], Compare("!=", n * h, 0)),
    ([Compare("!=", n, 0)], InRange(n, 1)),
    ([Compare("!=", n, m), le(m, n)], lt(m, n)),
    ([OneOf(n, (8, 16))], eq(n % 8, 0)),
    ([OneOf(n, (8, 16))], Compare("!=", n, 12)),
    ([OneOf(n, (1, 2))], eq((n - 1) * (n - 2), 0)),
    ([OneOf(n, (8, 16, 24))], OneOf(n, (8, 16, 24, 32))),
    ([InRange(n, 3, 4)], OneOf(n, (3, 4, 5))),
    ([InRange(i, 0, n - 1), InRange(j, 0, m - 1)], lt(i * m + j, n * m)),
    ([lt(i, n), lt(j, m), lt(k, p)], lt((i * m + j) * p + k, n * m * p)),
    ([lt(i, n // 64)], le(64 * i + 64, n)),
    ([lt(i, Dim.ceildiv(n, 64))], lt(64 * i, n)),
    ([lt(i, Dim.ceildiv(n, 64))], le(1, Dim.min(64, n - 64 * i))),
    ([], le(64 * i + Dim.min(64, n - 64 * i), n)),
    ([le(s, t)], le(s * h + h, (t + 1) * h)),
    ([InRange(n, 0, 1024)], InRange(n * n + 3, 3, 1048579)),
    ([le(3, n)], le((n - 3) // 2 + 1, n)),
]


@pytest.mark.parametrize(
    ("known", "goal"), PROVEN, ids=lambda v: ", ".join(map(str, v)) if isinstance(v, list) else str(v)
)
def test_must_be_proven(known: list[Fact], goal: Fact) -> None:
    assert Facts(known).prove(goal)
    assert not any("#" in str(fact) for fact in known)


UNPROVEN: list[tuple[list[Fact], Fact]] = [
    ([], eq(n, m)),
    ([le(s, t)], le(t, s)),
    ([le(s, t)], lt(s, t)),
    ([eq(n % 4, 0)], eq(n % 8, 0)),
    ([eq(n * h, m * h)], eq(n, m)),
    ([], Compare("!=", n, 0)),
    ([InRange(n, 0, 9)], le(n, 8)),
    ([OneOf(n, (8, 16))], eq(n, 8)),
    ([], eq(n // 8 * 8, n)),
]


@pytest.mark.parametrize(
    ("known", "goal"), UNPROVEN, ids=lambda v: ", ".join(map(str, v)) if isinstance(v, list) else str(v)
)
def test_must_not_be_proven(known: list[Fact], goal: Fact) -> None:
    assert not Facts(known).prove(goal)


SIMPLIFIED: list[tuple[list[Fact], Dim, Dim]] = [
    ([InRange(j, 0, n - 1)], (i * n + j) // n, i),
    ([InRange(j, 0, n - 1)], (i * n + j) % n, j),
    ([lt(j, 64)], (64 * i + j) // 64, i),
    ([lt(j, 64)], (64 * i + j) % 64, j),
    ([lt(j, 64)], (64 * i + j) // 128, i // 2),
    ([lt(k, m), lt(j, n)], (i * n * m + j * m + k) // (n * m), i),
    ([lt(k, m), lt(j, n)], (i * n * m + j * m + k) // m % n, j),
    ([lt(k, m), lt(j, n)], (i * n * m + j * m + k) % m, k),
    ([lt(i, n)], i % n, i),
    ([lt(i, n)], i // n, Dim.of(0)),
    ([le(n, m)], Dim.min(n, m) + 1, n + 1),
    ([eq(n % 8, 0)], 8 * (n // 8) * h, n * h),
    ([eq(n % 8, 0)], (n + 7) // 8, n // 8),
    ([eq(n % 8, 0)], (n * h) % 8, Dim.of(0)),
    ([eq(t, s + p)], t * h, t * h),
    ([eq(t, s + p)], t - s, p),
    ([eq(m, n)], m * h, m * h),
    ([InRange(n, 0, 1024)], Dim.min(n, 2048), n),
    ([OneOf(n, (8, 16))], n // 32, Dim.of(0)),
    ([eq(n, 5)], n * h, 5 * h),
]


@pytest.mark.parametrize(("known", "dim", "simple"), SIMPLIFIED, ids=str)
def test_simplify(known: list[Fact], dim: Dim, simple: Dim) -> None:
    assert Facts(known).simplify(dim) == simple


BOUNDS: list[tuple[list[Fact], Dim, tuple[int | None, int | None]]] = [
    ([], n, (0, None)),
    ([], n % 8, (0, 7)),
    ([InRange(n, 0, 1024)], 8 * Dim.ceildiv(n, 8), (0, 1024)),
    ([InRange(n, 1, 1024), InRange(m, 0, 3)], n * m - 1, (-1, 3071)),
    ([le(s, t)], t - s, (0, None)),
    ([le(s, t), InRange(t, 0, 9)], s, (0, 9)),
    ([eq(t, s + p), InRange(t, 0, 9)], s + 2 * p, (0, 18)),
    ([eq(t, s + p), InRange(t, 0, 9)], s, (0, 9)),
    ([InRange(n, 3, 9)], Dim.min(n, 5), (3, 5)),
    ([InRange(n, 3, 9)], Dim.max(n, 5), (5, 9)),
    ([OneOf(n, (8, 16))], n + 1, (9, 17)),
    ([lt(a, b), lt(b, c), InRange(c, 0, 8)], a, (0, 6)),
]


@pytest.mark.parametrize(("known", "dim", "expected"), BOUNDS, ids=str)
def test_bounds(known: list[Fact], dim: Dim, expected: tuple[int | None, int | None]) -> None:
    assert Facts(known).bounds(dim) == expected


CONFLICTS: list[tuple[list[Fact], list[int]]] = [
    ([lt(a, b), lt(b, c), InRange(n, 0, 5), lt(c, a)], [0, 1, 3]),
    ([InRange(n, 0, 5), eq(n % 8, 3), eq(n % 4, 2)], [1, 2]),
    ([OneOf(n, (8, 16)), le(n, m), eq(n % 3, 0)], [0, 2]),
    ([OneOf(n, (8, 16)), InRange(n, 9, 15)], [0, 1]),
    ([InRange(n, 0, 1024), InRange(n, 2048)], [0, 1]),
    ([eq(n, m), le(n, 4), Compare("!=", m, n)], [0, 2]),
    ([eq(t, s + p), lt(t, s)], [0, 1]),
    ([lt(n, 0)], [0]),
    ([eq(2 * n, 2 * m + 1)], [0]),
    ([le(n, 3), eq(m, n * n), InRange(m, 10)], [0, 1, 2]),
    ([OneOf(n, ())], [0]),
    ([le(2, n), le(n, 3), Compare("!=", n, 2), Compare("!=", n, 3)], [0, 1, 2, 3]),
    ([eq(n * m, 12), InRange(n, 5), InRange(m, 3)], [0, 1, 2]),
]


@pytest.mark.parametrize(("known", "conflict"), CONFLICTS, ids=str)
def test_contradictions_are_found(known: list[Fact], conflict: list[int]) -> None:
    assert Facts(known).contradiction() == tuple(known[index] for index in conflict)


def test_facts_that_agree_have_no_contradiction() -> None:
    known = [InRange(n, 0, 1024), eq(n % 8, 0), le(n, m), eq(t, s + p), OneOf(h, (64, 128)), lt(s, m)]
    assert Facts(known).contradiction() is None
    assert Facts().contradiction() is None


SUGGESTED: list[tuple[list[Fact], Fact, str]] = [
    ([], eq(n, m), "n == m"),
    ([], eq(n * h, m * h), "n == m"),
    ([], eq(n // 8 * 8, n), "n % 8 == 0"),
    ([], eq(16 * n * (h // 16), n * h), "h % 16 == 0"),
    ([], le(n, m), "n <= m"),
    ([], le(n + 3, m + 4), "n <= m + 1"),
    ([], lt(n, m), "n < m"),
    ([], Compare("!=", n, 0), "n in 1.."),
    ([InRange(n, 1)], Compare("!=", n * h, 0), "h in 1.."),
    ([], InRange(n, 0, 1024), "n <= 1024"),
    ([], le(n, 7), "n <= 7"),
    ([], eq(n % 4, 0), "n % 4 == 0"),
    ([], OneOf(n, (1, 2)), "n in {1, 2}"),
]


@pytest.mark.parametrize(("known", "goal", "text"), SUGGESTED, ids=str)
def test_suggestions(known: list[Fact], goal: Fact, text: str) -> None:
    assert str(Facts(known).suggest(goal)) == text


@pytest.mark.parametrize(
    ("known", "goal"),
    [
        ([], eq(n, n + 1)),
        ([], eq(2 * n, 2 * m + 1)),
        ([], lt(n, 0)),
        ([InRange(n, 3)], le(n, 2)),
        ([eq(n, m)], lt(n, m)),
        ([], eq(Dim.of(3), Dim.of(4))),
    ],
    ids=str,
)
def test_what_cannot_hold_is_not_suggested(known: list[Fact], goal: Fact) -> None:
    assert Facts(known).suggest(goal) is None
    assert Facts(known).advice(goal) == ""


def test_advice_says_all_that_is_missing() -> None:
    goals = (InRange(m, 1), eq(n % m, 0))
    assert Facts().advice(*goals) == "say `where m in 1.., n % m == 0` (checked at every call)"
    assert Facts([InRange(m, 1)]).advice(*goals) == "say `where n % m == 0` (checked at every call)"
    assert Facts([InRange(m, 1), eq(n % m, 0)]).advice(*goals) == ""
    assert Facts([InRange(m, 0, 0)]).advice(*goals) == ""


def test_facts_print_as_they_are_written() -> None:
    assert str(InRange(n, 0, 1024)) == "n in 0..1024"
    assert str(InRange(n, 1)) == "n in 1.."
    assert str(InRange(n, 1, m - 1)) == "n in 1..m - 1"
    assert str(OneOf(n, (16, 8, 8))) == "n in {8, 16}"
    assert str(eq(n % 8, 0)) == "n % 8 == 0"
    assert str(eq(t, s + p)) == "t == p + s"
    assert str(Compare(">", n, m)) == "n > m"


def test_collections_keep_order_and_ignore_repeats() -> None:
    facts = Facts([le(n, m)])
    more = facts.add(le(n, m), lt(m, p))
    assert tuple(more) == (le(n, m), lt(m, p))
    assert facts.add(le(n, m)) is facts
    assert len(facts) == 1
    assert more.symbols == {"n", "m", "p"}
    assert more.holds({"n": 1, "m": 1, "p": 2})
    assert not more.holds({"n": 1, "m": 1, "p": 1})
    assert pickle.loads(pickle.dumps(more)) == more
    assert facts.prove_lt(n, m + 1)
    assert not facts.prove_lt(n, p)
    assert more.prove_lt(n, p)


def test_the_usual_proofs_do_without_sympy() -> None:
    script = (
        "import sys\n"
        "from pliant.ir.facts import Compare, Facts, InRange\n"
        "from pliant.ir.dims import Dim\n"
        "n, m = Dim.of('n'), Dim.of('m')\n"
        "f = Facts([InRange(n, 1, 1024), Compare('==', n % 8, 0), Compare('<=', n, m)])\n"
        "f.prove_eq(n * m, m * 2); f.prove_le(m, n); f.contradiction(); f.simplify(n // 8 * 8); f.bounds(n * m)\n"
        "sys.exit('sympy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_halves_rounded_down_and_up_make_the_whole() -> None:
    """Hermite's identity, of quotients too."""
    n = Dim.of("n")
    for x in (n, n // 3, (n + 3) // 4, n * n):
        for divisor in (2, 4, 8):
            both = x // divisor + (x + divisor // 2) // divisor
            assert Facts().prove_eq(both, x // (divisor // 2))
            assert not Facts().prove_eq(both + n % 3, x // (divisor // 2))


def test_products_of_halves_have_tight_bounds() -> None:
    """A convolution of stride 2 over a plane: the canonical form is four products that have opposite signs."""
    h, w, b = Dim.of("h"), Dim.of("w"), Dim.of("b")
    known = Facts([InRange(h, 3, 96), InRange(w, 32, 95), InRange(b, 1, 4)])
    plane = ((h + 1) // 2) * ((w + 1) // 2)
    assert known.bounds(plane) == (2 * 16, 48 * 48)
    assert known.bounds(64 * b * plane) == (64 * 2 * 16, 64 * 4 * 48 * 48)
    assert known.bounds(plane - 5 * (h // 2)) == (2 * 16 - 5 * 48, 48 * 48 - 5)
