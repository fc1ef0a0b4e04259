"""Programs that are long, deep or hard to prove things of: compiled right, or refused in words, in bounded steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest

import pliant
from pliant.ir import facts as facts_module
from pliant.ir.diagnostics import CompileError
from pliant.ir.dims import MAX_DEPTH, Dim, DimTooComplex
from pliant.ir.facts import Compare, Facts, InRange
from pliant.ir.facts_budget import QUESTION, Budget
from pliant.ir.facts_prove import Prover
from pliant.ir.infer_module import infer_module_all
from pliant.ir.parser import parse_dim, parse_facts, parse_module_all
from pliant.passes.lower.fuse import MAX_MEMBERS


def diagnostics(text: str) -> list[str]:
    module, found = parse_module_all(text)
    if module is not None:
        _, found = infer_module_all(module)
    return [d.message for d in found]


def with_sizes(names: list[str], facts: str) -> str:
    params = ", ".join(f"x_{name}: f32[{name}]" for name in names)
    return f"func @main({params}) -> f32[{names[0]}] where {facts} {{ y = relu(x_{names[0]}) return y }}"


def names(count: int) -> list[str]:
    return [f"s{i}" for i in range(count)]


# ------------------------------------------------------------------------------------------------- proofs

HARD = {
    "product": (["n", "m"], "n in {7}, m == ceildiv(n, m), m * m != m % 4"),
    "minima": ([*names(60), "n"], " + ".join(f"min(s{2 * i}, s{2 * i + 1})" for i in range(30)) + " >= n"),
    "binary": (
        names(16),
        ", ".join(f"s{i} in 0..1" for i in range(16))
        + ", "
        + " + ".join(f"{2**i + 3}*s{i}" for i in range(16))
        + " == 41230",
    ),
    "chain": (names(400), ", ".join(f"s{i} <= s{i + 1}" for i in range(399))),
    "ring": (names(400), ", ".join(f"s{i} == s{(i + 1) % 400}" for i in range(400))),
    "offsets": (names(400), ", ".join(f"s{i} + 1 == s{i + 1}" for i in range(399))),
    "guard": (
        ["a", "b"],
        ("min(max(min((a - b)//2 + b, a), 0) - max(min((a - b)//2, a), 0) - b, 1)*max(min(a, b), a - max(a - b, 0))"
         " <= max(a*min(b, a - b), min(a - b, b)*max(a, b))"),
    ),
}


@pytest.mark.parametrize("case", HARD)
def test_facts_that_are_hard_to_combine_are_taken_as_they_stand(case: str) -> None:
    assert diagnostics(with_sizes(*HARD[case])) == []


CONFLICTS = {
    "ring": (names(200), ", ".join(f"s{i} + 1 == s{(i + 1) % 200}" for i in range(200))),
    "chain": (names(300), ", ".join(f"s{i} <= s{i + 1}" for i in range(299)) + ", s299 < s0"),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_a_long_contradiction_is_found_and_told_shortly(case: str) -> None:
    (message,) = diagnostics(with_sizes(*CONFLICTS[case]))
    assert message.startswith("these facts contradict one another: `s0")
    assert message.endswith("more")
    assert len(message) < 300


def test_listed_values_that_leave_nothing_are_refused() -> None:
    text = with_sizes(["n"], "n == min(min(0, 7), n * n), n in {7}, n in 1..4, n in 3..9")
    assert diagnostics(text) == ["these facts contradict one another: `n == min(0, n*n)`, `n in {7}`"]


def test_many_holes_in_the_values_of_a_size() -> None:
    facts = Facts([Compare("!=", "n", v) for v in reversed(range(500))])
    assert facts.bounds("n")[0] == 500


@pytest.mark.parametrize("budget", [0, 1, 10, 100, 1000, 10_000, QUESTION])
def test_a_proof_within_any_budget_is_true(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against brute force: a question that is cut short may only lose what it would have proven."""
    monkeypatch.setattr(facts_module, "QUESTION", budget)
    texts = ["n <= m, m < k", "n % 4 == 0, n == 2*m", "k == min(n, m), n in 0..6", "n*m == k, m >= 1"]
    goals = [
        "n <= k", "n < k", "m <= n", "k <= n + m", "n % 2 == 0", "max(n, m) >= k", "n != 5", "(n + 3)//4 == m//2",
        "min(n, m)*2 <= n + m", "max(n - m, 0) + min(n, m) == n",
    ]  # fmt: skip
    every = [dict(zip("nmk", values, strict=True)) for values in itertools.product(range(9), repeat=3)]
    for text in texts:
        known = parse_facts(text, "nmk")
        allowed = [values for values in every if all(fact.holds(values) for fact in known)]
        for goal in parse_facts(", ".join(goals), "nmk"):
            if Facts(known).prove(goal):
                assert all(goal.holds(values) for values in allowed), f"{text} does not say {goal}"


def test_what_a_search_learns_past_its_budget_is_forgotten() -> None:
    """A question that ran out must not leave "not proven" behind for one that does not."""
    known = parse_facts("n <= m, m <= k, k <= j", "nmkj")
    prover: Prover = Facts(known)._proves
    goal = Dim.of("j") - "n"
    prover.domain.budget = Budget(1)
    assert not prover.nonnegative(goal)
    prover.domain.budget = Budget(QUESTION)
    assert prover.nonnegative(goal)


def test_learning_past_the_budget_stays_true(monkeypatch: pytest.MonkeyPatch) -> None:
    from pliant.ir import facts_domain

    monkeypatch.setattr(facts_domain, "LEARN", 3)
    monkeypatch.setattr(facts_domain, "LEARN_LEAST", 3)
    known = parse_facts("a == b, b == c + 1, c <= d, d in {2, 5}, min(a, d) >= 1", "abcd")
    facts = Facts(known)
    every = [dict(zip("abcd", v, strict=True)) for v in itertools.product(range(8), repeat=4)]
    allowed = [values for values in every if all(fact.holds(values) for fact in known)]
    assert allowed
    assert facts.contradiction() is None
    for name in "abcd":
        low, high = facts.bounds(name)
        assert (low or 0) <= min(v[name] for v in allowed)
        assert high is None or high >= max(v[name] for v in allowed)


# -------------------------------------------------------------------------------------------------- sizes


def test_a_sum_of_many_symbols_is_a_size() -> None:
    many = names(700)
    total = parse_dim(" + ".join(many), many)
    assert total.evaluate(dict.fromkeys(many, 2)) == 1400
    params = ", ".join(f"x{i}: f32[{s}]" for i, s in enumerate(many))
    operands = ", ".join(f"x{i}" for i in range(700))
    text = f"func @main({params}) -> f32[{total}] {{ y = concat({operands}, axis=0) return y }}"
    assert diagnostics(text) == []


def test_sizes_may_nest_deeper_than_calls_do() -> None:
    assert parse_dim("(" * 5000 + "n" + ")" * 5000, ["n"]) == Dim.of("n")
    assert parse_dim("-" * 5001 + "n", ["n"]) == -Dim.of("n")
    halves = "n"
    for _ in range(60):
        halves = f"ceildiv({halves}, 2)"
    assert parse_dim(halves, ["n"]).evaluate({"n": 5}) == 1
    with pytest.raises(CompileError, match="beyond 64 bits"):
        parse_dim("ceildiv(" * 200 + "n" + ", 2)" * 200, ["n"])


@pytest.mark.parametrize("step", ["ceildiv({} + 1, m + 1)", "max(min({}, m)*2, {} % 7)", "({} + k) // (m + 2)"])
def test_sizes_nested_too_deeply_are_refused_at_their_place(step: str) -> None:
    text = "n"
    for _ in range(8 if step.count("{}") > 1 else 200):
        text = step.format(text, text)
    program = f"func @main(x: f32[n], w: f32[m], v: f32[k], z: f32[{text}]) -> f32[n] {{ y = relu(x) return y }}"
    module, found = parse_module_all(program)
    if step.count("{}") == 1:
        assert module is None
        assert found[0].message.startswith(f"this size has more than {MAX_DEPTH} divisions, minima and maxima inside")
        assert found[0].span is not None
        assert found[0].helps
    else:
        assert module is None or infer_module_all(module)[1] == []


def test_dims_have_limits() -> None:
    with pytest.raises(DimTooComplex, match="too many terms"):
        Dim.sum(map(Dim.of, names(1000))) * Dim.sum(Dim.of(f"t{i}") for i in range(1000))
    with pytest.raises(DimTooComplex, match="factors"):
        Dim.product(["n"] * 1000)
    with pytest.raises(DimTooComplex, match="inside one another"):
        reduce(lambda nested, i: Dim.min(nested * 2, f"m{i}") // (Dim.of("k") + 1), range(1000), Dim.of("n"))


def test_extrema_of_sums_of_extrema_are_equal_to_themselves() -> None:
    total = sum((Dim.min(f"a{i}", f"b{i}") for i in range(12)), Dim.of(0))
    whole = Dim.min(total, "n")
    values = {name: i * 5 % 7 for i, name in enumerate(sorted(whole.symbols))}
    assert whole.evaluate(values) == min(total.evaluate(values), values["n"])


def test_nesting_of_tuples_and_blocks_is_refused_in_words() -> None:
    deep = "(" * 500 + "x," + ",".join([")"] * 500)
    assert any("nested more than" in m for m in diagnostics(f"func @main(x: f32[n]) {{ y = {deep} return x }}"))
    blocks = "if c { " * 300 + "yield x" + " } else { yield x }" * 300
    found = diagnostics(f"func @main(x: f32[n], c: bool[]) -> f32[n] {{ y = {blocks} return y }}")
    assert found
    assert all("RecursionError" not in m and "nested too deeply" not in m for m in found)


# --------------------------------------------------------------------------------------- views and fusion


def chain(step: str, count: int) -> str:
    lines = [f"v{i + 1} = {step.format(f'v{i}', i=i)}" for i in range(count)]
    return "v0 = add(x, 0.0)\n" + "\n".join(lines)


VIEWS: dict[str, tuple[str, str, Callable[[np.ndarray], np.ndarray]]] = {
    "roll": (chain("roll({}, shift=1, axis=0)", 14), "f32[n]", lambda x: np.roll(x, 14)),
    "flip": (chain("flip({}, axis=[0])", 201), "f32[n]", lambda x: x[::-1]),
    "double": (chain("concat({0}, {0}, axis=0)", 8), "f32[256*n]", lambda x: np.tile(x, 256)),
    "append": (
        chain("concat({}, x, axis=0)", 60),
        "f32[61*n]",
        lambda x: np.tile(x, 61),
    ),
    "window": (
        "\n".join(
            f"c{i} = concat({a}, {a}, axis=0) s{i} = slice(c{i}, axis=0, start=1, stop=n + 1)"
            for i, a in enumerate(["x", *(f"s{i}" for i in range(15))])
        )
        + "\nv16 = neg(s15)",
        "f32[n]",
        lambda x: -np.roll(x, -16),
    ),
}


@pytest.mark.parametrize("case", VIEWS)
def test_views_of_views_do_not_double(case: str) -> None:
    body, result, expected = VIEWS[case]
    last = body.split("\n")[-1].split(" = ")[0]
    text = f"func @main(x: f32[n]) -> {result} where n in 1..40 {{\n{body}\nreturn {last}\n}}"
    exe = pliant.compile(text)
    for n in (1, 5, 40):
        x = np.arange(n, dtype=np.float32) + 1
        np.testing.assert_array_equal(np.asarray(exe(x)), expected(x))


def test_a_long_chain_is_several_kernels() -> None:
    count = MAX_MEMBERS * 2 + 10
    text = f"func @main(x: f32[n]) -> f32[n] {{\n{chain('add({}, 1.0)', count)}\nreturn v{count}\n}}"
    exe = pliant.compile(text, opt=0)
    np.testing.assert_array_equal(np.asarray(exe(np.zeros(3, np.float32))), np.full(3, count, np.float32))


# -------------------------------------------------------------------------------------- calls, names, text


def doubling(count: int) -> str:
    functions = ["func @f0(x: f32[n]) -> f32[n] { y = add(x, 1.0) return y }"]
    for i in range(1, count):
        functions.append(f"func @f{i}(x: f32[n]) -> f32[n] {{ a = @f{i - 1}(x) b = @f{i - 1}(a) return b }}")
    return "\n".join(functions)


def test_functions_that_double_are_inlined_to_a_limit() -> None:
    exe = pliant.compile(doubling(5), opt=0)
    np.testing.assert_array_equal(np.asarray(exe["f4"](np.zeros(2, np.float32))), np.full(2, 16, np.float32))
    assert diagnostics(doubling(39)) == []
    with pytest.raises(CompileError, match="calls are compiled in place, and that makes more than 50000 statements"):
        pliant.compile(doubling(39))


def test_a_long_chain_of_functions_is_checked_without_recursion() -> None:
    functions = ["func @f0(x: f32[n], k: i64[]) -> f32[n] { bind m = k y = relu(x) return y }"]
    for i in range(1, 600):
        functions.append(f"func @f{i}(x: f32[n], k: i64[]) -> f32[n] {{ a = @f{i - 1}(x, k) return a }}")
    assert diagnostics("\n".join(functions)) == []
    functions[0] = functions[0].replace("relu(x)", "@f599(x, k)")
    (message,) = diagnostics("\n".join(functions))
    assert message.startswith("recursion: @f0 -> @f599 -> @f598")


@pytest.mark.parametrize("length", [200, 1100, 6000])
def test_names_of_any_length(length: int) -> None:
    a, b, w = ("n" * length + end for end in "abw")
    text = (
        f"weight @{w}: f32[{a}]\n"
        f"func @{a}(x{a}: f32[{b}, {a}]) -> f32[{b}, {a}] {{ y{a} = add(x{a}, @{w}) return y{a} }}\n"
        f"func @{b}(x{a}: f32[{b}, {a}]) -> f32[{b}, {a}] {{ y{a} = mul(x{a}, @{w}) return y{a} }}"
    )
    weight, x = np.arange(3, dtype=np.float32), np.ones((2, 3), np.float32)
    exe = pliant.compile(text, weights={w: weight})
    np.testing.assert_array_equal(np.asarray(exe[a](x)), x + weight)
    np.testing.assert_array_equal(np.asarray(exe[b](x)), x * weight)


def test_many_mistakes_on_one_line_are_told_shortly() -> None:
    text = "func @main(x: f32[n]) -> f32[n] { " + " ".join(f"a{i} = add(x, y{i})" for i in range(2000)) + " return x }"
    with pytest.raises(CompileError) as caught:
        pliant.compile(text + "\n")
    assert len(caught.value.diagnostics) == 2000
    assert len(str(caught.value)) < 40_000
    assert "and 1950 more" in str(caught.value)
    shown = caught.value.diagnostics[1000].render({"<text>": text}).split("\n")
    source, caret = shown[2], shown[3]
    assert source[caret.index("^") :].startswith("y1000")


def test_facts_over_many_symbols_keep_their_bounds() -> None:
    many = names(300)
    facts = Facts([InRange(name, 0, 3) for name in many])
    total = Dim.sum(map(Dim.of, many))
    assert facts.prove_le(total, 900)
    assert not facts.prove_le(total, 899)
    assert Facts([*facts, Compare("<=", total, 1)]).bounds("s7") == (0, 1)
