"""Dims against plain Python integers: every form keeps its value, and what prints parses back to the same form."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.ir.dims import Dim, linear

NAMES = ("m", "n", "p")
n, m, a, b, h, i, j = map(Dim.of, ("n", "m", "a", "b", "h", "i", "j"))
Tree = tuple  # (operator, left, right) | ("int", value) | ("sym", name)


# -- an independent reading of the printed text, by Python's own rules


class Reader:
    """Recursive descent over the printed grammar, building dims with the public operators."""

    def __init__(self, text: str) -> None:
        self.tokens = re.findall(r"//|[-+*%(),]|\w+|\S", text)

    def take(self, *tokens: str) -> str | None:
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in tokens else None

    def sum(self) -> Dim:
        left = self.product()
        while op := self.take("+", "-"):
            right = self.product()
            left = left + right if op == "+" else left - right
        return left

    def product(self) -> Dim:
        left = self.unary()
        while op := self.take("*", "//", "%"):
            right = self.unary()
            left = left * right if op == "*" else left // right if op == "//" else left % right
        return left

    def unary(self) -> Dim:
        if self.take("-"):
            return -self.unary()
        if self.take("("):
            inner = self.sum()
            assert self.take(")")
            return inner
        token = self.tokens.pop(0)
        if token in ("min", "max") and self.take("("):
            args = [self.sum()]
            while self.take(","):
                args.append(self.sum())
            assert self.take(")")
            return (Dim.min if token == "min" else Dim.max)(*args)
        assert re.fullmatch(r"\w+", token), token
        return Dim.of(int(token)) if token.isdigit() else Dim.of(token)


def parse(text: str) -> Dim:
    reader = Reader(text)
    dim = reader.sum()
    assert not reader.tokens, (text, reader.tokens)
    return dim


# -- random expressions, as trees that know nothing of dims

leaves = st.one_of(
    st.integers(-9, 9).map(lambda v: ("int", v)),
    st.sampled_from(NAMES).map(lambda s: ("sym", s)),
)
trees = st.recursive(
    leaves,
    lambda inner: st.tuples(st.sampled_from(["+", "-", "*", "//", "%", "min", "max"]), inner, inner),
    max_leaves=9,
)
OPERATORS: dict[str, Callable] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
}


def build(tree: Tree) -> Dim:
    if tree[0] in ("int", "sym"):
        return Dim.of(tree[1])
    left, right = build(tree[1]), build(tree[2])
    if tree[0] in ("min", "max"):
        return (Dim.min if tree[0] == "min" else Dim.max)(left, right)
    return OPERATORS[tree[0]](left, right)


def value(tree: Tree, env: dict[str, int]) -> int:
    if tree[0] == "int":
        return tree[1]
    if tree[0] == "sym":
        return env[tree[1]]
    left, right = value(tree[1], env), value(tree[2], env)
    return (
        (min if tree[0] == "min" else max)(left, right)
        if tree[0] in ("min", "max")
        else OPERATORS[tree[0]](left, right)
    )


class Integers:
    """The algebra of integers: what `fold` must agree with."""

    def __init__(self, env: dict[str, int]) -> None:
        self.env = env

    def const(self, number: int) -> int:
        return number

    def sym(self, name: str) -> int:
        return self.env[name]

    add = staticmethod(lambda x, y: x + y)
    mul = staticmethod(lambda x, y: x * y)
    floordiv = staticmethod(lambda x, y: x // y)
    mod = staticmethod(lambda x, y: x % y)
    min = staticmethod(min)
    max = staticmethod(max)


envs = st.fixed_dictionaries({name: st.integers(-12, 12) for name in NAMES})


def built(tree: Tree) -> Dim | None:
    try:
        return build(tree)
    except ZeroDivisionError:
        return None


@settings(max_examples=600, deadline=None)
@given(trees, st.lists(envs, min_size=4, max_size=4))
def test_every_form_has_the_value_of_the_expression(tree: Tree, points: list[dict[str, int]]) -> None:
    dim = built(tree)
    if dim is None:
        return
    again = parse(str(dim))
    assert again == dim, f"{dim} parses to {again}"
    assert hash(again) == hash(dim)
    assert dim.symbols <= set(NAMES)
    for env in points:
        try:
            expected = value(tree, env)
        except ZeroDivisionError:
            continue  # a division by zero may have been cancelled: the divisor is proven elsewhere
        assert dim.evaluate(env) == expected
        assert dim.fold(Integers(env)) == expected
        assert dim.subs(env) == expected


@settings(max_examples=300, deadline=None)
@given(trees, trees, envs)
def test_substitution_is_evaluation_in_two_steps(tree: Tree, inner: Tree, env: dict[str, int]) -> None:
    dim, part = built(tree), built(inner)
    if dim is None or part is None:
        return
    try:
        outer = {**env, "n": value(inner, env)}
        expected = value(tree, outer)
        replaced = dim.subs({"n": part})
    except ZeroDivisionError:
        return
    assert replaced.evaluate(env) == expected


@settings(max_examples=300, deadline=None)
@given(trees, st.sampled_from(NAMES), envs)
def test_linear_splits_off_a_symbol(tree: Tree, name: str, env: dict[str, int]) -> None:
    dim = built(tree)
    split = None if dim is None else linear(dim, name)
    if split is None:
        return
    coefficient, rest = split
    assert name not in coefficient.symbols | rest.symbols
    assert coefficient * name + rest == dim


@settings(max_examples=300, deadline=None)
@given(trees, trees)
def test_ring_laws_hold_structurally(left: Tree, right: Tree) -> None:
    x, y = built(left), built(right)
    if x is None or y is None:
        return
    assert x + y == y + x
    assert x * y == y * x
    assert (x + y) * (x - y) == x * x - y * y
    assert x - x == 0
    if not (y.is_const and y.value == 0):
        assert y * (x // y) + x % y == x
        assert (x + y) // y == x // y + 1 or not y.is_const
    assert Dim.min(x, y) + 3 == Dim.min(y + 3, x + 3)
    assert Dim.min(x + n, y + n) == Dim.min(x, y) + n
    assert Dim.min(x, x) == x


@settings(max_examples=200, deadline=None)
@given(trees)
def test_pickle_and_copy_keep_the_form(tree: Tree) -> None:
    dim = built(tree)
    if dim is None:
        return
    hash(dim), str(dim)
    for twin in (pickle.loads(pickle.dumps(dim)), copy.copy(dim), copy.deepcopy(dim)):
        assert twin == dim
        assert hash(twin) == hash(dim)
        assert str(twin) == str(dim)


EQUAL = [
    ((4 * a + b) // 4, a + b // 4),
    (8 * (n // 8) + n % 8, n),
    ((n % 8) // 8, Dim.of(0)),
    ((n % 8) % 4, n % 4),
    ((n // 4) // 2, n // 8),
    ((n // 4 + m) // 2, (n + 4 * m) // 8),
    ((6 * n) // 4, (3 * n) // 2),
    ((2 * n + 1) // 2, n),
    ((-n) // 4, -((n + 3) // 4)),
    (Dim.ceildiv(n, 4), (n + 3) // 4),
    ((n - 1) // 4 + 1, (n + 3) // 4),
    (n // 2 + (n + 1) // 2, n),
    ((3 * n) // 4 + (n + 3) // 4, n),
    (n // -4, (-n) // 4),
    (n % -4, -((-n) % 4)),
    ((i * n + j) // n, i + j // n),
    ((i * n + j) % n, j % n),
    ((i * (n + m) + j) // (n + m), i + j // (n + m)),
    ((n * h) // h, n),
    ((n * n + n) // n, n + 1),
    ((n * n - m * m) // (n + m), n - m),
    ((2 * n * h) // (4 * h), n // 2),
    (Dim.min(n + 1, n + 2), n + 1),
    (Dim.max(n, Dim.max(m, n + 3)), Dim.max(m, n + 3)),
    (Dim.min(2 * n, 2 * m), 2 * Dim.min(n, m)),
    (Dim.min(64, n - 64 * i), Dim.min(64 * i + 64, n) - 64 * i),
    (Dim.max(n, m) + Dim.min(n, m), n + m),
    (Dim.max(n, m, a), -Dim.min(-n, -m, -a)),
    (Dim.max(-n, -m) + n + m, Dim.max(n, m)),
    (Dim.min(-Dim.max(n, m), 3 - a), Dim.min(-n, -m, 3 - a)),
]


@pytest.mark.parametrize(("left", "right"), EQUAL, ids=str)
def test_equal_by_form_alone(left: Dim, right: Dim) -> None:
    assert left == right
    for values in itertools.product((-7, -1, 2, 5), repeat=2):
        env = {"n": values[0], "m": values[1], "a": 3, "b": -5, "h": 3, "i": -2, "j": values[1]}
        if env["n"] + env["m"] != 0:
            assert left.evaluate(env) == right.evaluate(env)


PRINTED = [
    (4 * h, "4*h"),
    (n + m, "m + n"),
    (2 * m + n - 1, "2*m + n - 1"),
    (n - 64 * i, "n - 64*i"),
    (-n - 1, "-n - 1"),
    (n % 8, "n % 8"),
    (-(n % 8), "-(n % 8)"),
    (3 * (n % m), "3*(n % m)"),
    ((n % 8) * (m % 4), "(n % 8)*(m % 4)"),
    (-(n // 2), "-(n//2)"),
    ((n + 1) // 2, "(n + 1)//2"),
    ((n - 3) // 2 + 1, "(n + 1)//2 - 1"),
    ((n + 2 * 1 - 3) // 1 + 1, "n"),
    (Dim.ceildiv(n, 8) * 8, "8*((n + 7)//8)"),
    ((3 * n) // 4, "(3*n)//4"),
    (n - n // 4, "n - n//4"),
    (n * n, "n*n"),
    (n // (m + 1), "n//(m + 1)"),
    (Dim.min(n, 64), "min(n, 64)"),
    (Dim.max(n - m, 0), "n - min(m, n)"),
    (Dim.max(n, m), "max(m, n)"),
    (Dim.max(n + 1, m, 3 - 1), "max(m, n + 1, 2)"),
    (Dim.min(n, m) // 2, "min(m, n)//2"),
    (Dim.of(0), "0"),
    (Dim.of(-3), "-3"),
]


@pytest.mark.parametrize(("dim", "text"), PRINTED, ids=lambda v: v if isinstance(v, str) else "")
def test_prints_as_people_write(dim: Dim, text: str) -> None:
    assert str(dim) == text
    assert parse(text) == dim


def test_text_does_not_depend_on_the_hash_seed() -> None:
    script = (
        "from pliant.ir.dims import Dim\n"
        "x = Dim.product(['zeta', 'al', 'q']) + Dim.min('w', 'b', 'c', Dim.of('d') // 'e') % 7 + Dim.of('t') // 3\n"
        "import sys; sys.stdout.write(str(x) + repr(x.terms) + str(sorted(x.symbols)))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1


def test_integers_names_and_dims_mix() -> None:
    assert Dim.of("n") + 1 == 1 + n
    assert 7 - n == -(n - 7)
    assert 7 // Dim.of(2) == 3
    assert 7 % Dim.of(-2) == -1
    assert n * "m" == m * n
    assert Dim.of(3) == 3
    assert n != 3
    assert n != "n"
    assert {n: 1}[Dim.of("n")] == 1
    assert Dim.of(5).value == 5
    assert n.name == "n"
    assert (2 * n).name is None
    assert Dim.product([]) == 1
    assert Dim.product([n, 2, "m"]) == 2 * n * m


def test_errors() -> None:
    with pytest.raises(ZeroDivisionError):
        n // 0
    with pytest.raises(ZeroDivisionError):
        n % Dim.of(0)
    with pytest.raises(ValueError, match="n is not a constant"):
        _ = n.value
    with pytest.raises(KeyError):
        (n + m).evaluate({"n": 1})
    with pytest.raises(ZeroDivisionError):
        (1 // n).evaluate({"n": 0})


@pytest.mark.parametrize("round_up", [True, False])
def test_a_size_halved_again_and_again_is_one_division(round_up: bool) -> None:
    size, n = Dim.of("n"), Dim.of("n")
    for times in range(1, 7):
        size = (size - 1) // 2 + 1 if round_up else size // 2
        assert size == (Dim.ceildiv(n, 2**times) if round_up else n // 2**times)
    assert ((n + 3) // 4 - 1) // 2 + 1 == (n + 7) // 8
    assert (n - n // 2) // 2 == (n + 1) // 4
