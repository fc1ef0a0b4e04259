"""Texts that are nearly programs: whatever they are, they are typed or refused with diagnostics, at once."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from pliant.ir.diagnostics import CompileError
from pliant.ir.format import format_text
from pliant.ir.infer_module import infer_module
from pliant.ir.parser import parse_module
from pliant.ir.printer import print_module

ROOT = Path(__file__).resolve().parent.parent
SOURCES = [p.read_text(encoding="utf-8") for p in sorted(ROOT.glob("examples/*.ir"))]
SOURCES += [p.read_text(encoding="utf-8") for p in sorted((ROOT / "tests").glob("*/*.ir"))]
TOKEN = re.compile(r"\s+|[A-Za-z_]\w*|\d+(?:\.\d+)?|->|\.\.|//|[=<>!]=|.", re.DOTALL)
TOKENS = [
    *sorted({t for s in SOURCES for t in TOKEN.findall(s)}),
    *("if", "while", "scan", "bind", "yield", "const", "weight", "func", "inout", "@", "%", "-", "..", "1e400", "nan"),
    *("99999999999999999999999", "\0", "é", "\u2028", '"', "'", "\\", "f32[*]", "()", "[]", "{}", "((((", "min(", "-1"),
]
SLOW = 10.0
"""Seconds: far more than any of these texts takes, far less than a hang."""


def mutated(rng: random.Random) -> str:
    """A source with some tokens dropped, doubled, exchanged, replaced or cut off."""
    tokens = TOKEN.findall(rng.choice(SOURCES))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        if not tokens:
            break
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        form = rng.randrange(7)
        if form == 0:
            del tokens[i : i + rng.randint(1, 4)]
        elif form == 1:
            tokens[i:i] = tokens[j : j + rng.randint(1, 12)]
        elif form == 2:
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif form in (3, 4):
            tokens[i] = rng.choice(TOKENS)
        elif form == 5:
            tokens.insert(i, rng.choice(TOKENS))
        else:
            names = [k for k, t in enumerate(tokens) if t[0].isalnum()]
            if names:
                tokens[rng.choice(names)] = tokens[rng.choice(names)]
    return "".join(tokens)


def assert_handled(text: str) -> bool:
    """Typed (and then printed and read again, equal), or refused by diagnostics that can be shown; True if typed."""
    start = time.monotonic()
    try:
        module = infer_module(parse_module(text, "fuzz.ir"))
    except CompileError as refused:
        assert_shown(refused, text)
        return False
    finally:
        assert time.monotonic() - start < SLOW
    assert infer_module(parse_module(print_module(module))) == module
    return True


def assert_shown(refused: CompileError, text: str) -> None:
    assert refused.diagnostics
    for d in refused.diagnostics:
        assert d.message.strip()
        assert d.render({"fuzz.ir": text})
        assert "Traceback" not in d.message
        assert d.span is None or 1 <= d.span.line <= text.count("\n") + 2


def fuzz(seed: int, count: int) -> None:
    rng = random.Random(seed)
    typed = 0
    for _ in range(count):
        text = mutated(rng)
        try:
            typed += assert_handled(text)
        except Exception as fault:
            raise AssertionError(f"{type(fault).__name__}: {fault}\nfor the text\n{text}") from fault
    assert typed, "not one text was a program: the mutations are too rough"


@pytest.mark.parametrize("seed", range(4))
def test_mutated_texts(seed: int) -> None:
    fuzz(seed, 150)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_mutated_texts(seed: int) -> None:
    fuzz(seed, 1500)


def test_formatting_mutated_texts() -> None:
    rng = random.Random(5)
    for _ in range(200):
        text = mutated(rng)
        try:
            formatted = format_text(text)
        except CompileError:
            continue
        assert format_text(formatted) == formatted, text


NESTED = {
    "parentheses": lambda k: f"func @f(x: f32[{'(' * k}n{')' * k}]) -> f32[n] {{ return x }}",
    "sums": lambda k: f"func @f(x: f32[{'n+' * k}n]) -> f32[n] {{ y = slice(x, axis=0, stop=n) return y }}",
    "min": lambda k: f"func @f(x: f32[n], y: f32[{'min(n, ' * k}n{')' * k}]) -> f32[n] {{ return x }}",
    "products": lambda k: f"func @f(x: f32[n], y: f32[m, {'(n+m)*' * k}1]) -> f32[n] {{ return x }}",
    "quotients": lambda k: f"func @f(x: f32[n], y: f32[{'(' * k}n{'//2)' * k}]) -> f32[n] {{ return x }}",
    "tuples": lambda k: f"func @f(x: {'(' * k}f32[n]{',)' * k}) -> f32[n] {{ return x }}",
    "lists": lambda k: f"const @c: f32[1] = {'[' * k}1{']' * k}",
    "unclosed": lambda k: "func @f(x: f32[" + "(" * k,
    "facts": lambda k: (
        "func @f(x: f32[n]) -> f32[n] where " + ", ".join(f"n <= {i}" for i in range(k)) + " { return x }"
    ),
    "likely": lambda k: "func @f(x: f32[n]) -> f32[n] likely n = " + ", ".join(map(str, range(k))) + " { return x }",
    "statements": lambda k: "func @f(x: f32[n]) -> f32[n] { y = x " + "y = exp(y) " * k + "return y }",
    "branches": lambda k: "func @f(x: f32[n], c: bool[]) -> f32[n] { " + "y = if c { " * k,
}


@pytest.mark.parametrize("size", [3, 60, 2000])
@pytest.mark.parametrize("name", NESTED)
def test_deep_and_long_texts(name: str, size: int) -> None:
    assert_handled(NESTED[name](size))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\n",
        "#",
        "# only a comment\n",
        "\0",
        "\ufeff",
        "func",
        "func @",
        "@",
        "weight @w",
        "}" * 50,
        "\r\n",
        "x = y",
    ],
)
def test_scraps(text: str) -> None:
    assert_handled(text)
