"""Random programs against numpy: compiled, interpreted, after every pass, specialised to the sizes of a call.

More of them: `python -m tests.fuzz FIRST STOP`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pliant
from pliant.compiler.pipeline import graph_pipeline
from pliant.ir.graph import Module
from pliant.ir.infer_module import infer_module
from pliant.ir.infer_scope import symbols_of
from pliant.ir.interpret import interpret
from pliant.ir.parser import parse_module
from pliant.ir.printer import print_module
from pliant.ir.verify import verify_module
from pliant.passes.graph import GRAPH_PASSES
from pliant.passes.graph.specialize import Specialize
from pliant.passes.pass_base import Pass, run_passes
from tests.fuzz.__main__ import NARROW_STYLE, run
from tests.fuzz.calls import called, check, check_together, interpreted, leaves, told
from tests.fuzz.programs import Program, Style, program
from tests.program_harness import close, copied
from tests.random_programs import awkward_arrays, programs

RELAXED = settings(suppress_health_check=list(HealthCheck), print_blob=True)
SMALL = Style((6, 14), bindings=3)


def made(seeds: Sequence[int], style: Style) -> list[Program]:
    found = [p for p in (program(seed, style) for seed in seeds) if p is not None]
    assert found
    return found


@pytest.mark.parametrize("seed", range(6))
def test_programs_mean_what_numpy_says(seed: int, tmp_path: Path) -> None:
    """Called with arrays of every layout, saved and loaded, refused where a fact does not hold."""
    assert sum(check(p, tmp_path) for p in made([seed], Style())) > 0


@pytest.mark.parametrize("first", [0, 15, 30])
def test_narrow_types(first: int) -> None:
    """f16, bf16, i8, u8 and bool, where rounding and wrapping show."""
    assert check_together(made(range(first, first + 15), NARROW_STYLE), opt=0) > 60


@pytest.mark.slow
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("first", range(1000, 1400, 25))
def test_many_programs(first: int, narrow: bool) -> None:
    _, wrong = run(first, first + 25, narrow)
    assert not wrong, "\n".join(wrong)


def test_a_program_is_the_same_for_the_same_seed() -> None:
    (first,), (second,) = made([3], SMALL), made([3], SMALL)
    assert first.text == second.text
    assert infer_module(parse_module(first.text)) == first.module


@given(text=programs(rounded=False), seed=st.integers(0, 9))
@settings(RELAXED, max_examples=15)
def test_awkward_values(text: str, seed: int) -> None:
    """Infinities, NaN, zeros, the ends of the integers: elementwise programs are computed to the bit."""
    arrays = awkward_arrays(seed, size=67)
    got = pliant.compile(text, opt=1)(*copied(arrays))
    for g, w in zip(leaves(got), leaves(interpret(parse_module(text), "main", arrays)), strict=True):
        close(g, w, 0.0, text)


# ------------------------------------------------------------------------------------------------- same meaning


def hook(_name: str, module: Module) -> None:
    verify_module(module)
    assert infer_module(parse_module(print_module(module))) == module


PIPELINES: dict[str, Sequence[Pass[Module]]] = {p.name: (p(),) for p in GRAPH_PASSES}
PIPELINES["the pipeline"] = graph_pipeline()
PIPELINES["the pipeline twice"] = (*graph_pipeline(), *graph_pipeline())


@pytest.mark.parametrize("name", PIPELINES)
def test_passes_keep_the_meaning(name: str) -> None:
    for p in made(range(100, 105), SMALL):
        with told(p):
            after = replace(p, module=run_passes(PIPELINES[name], p.module, [hook]))
            for i in range(len(p.bindings)):
                interpreted(after, i)


@pytest.mark.parametrize("seed", range(200, 204))
def test_specialised_is_symbolic(seed: int) -> None:
    """With some or all symbols replaced by the sizes of a call."""
    rng = random.Random(seed)
    for p in made([seed], SMALL):
        bound = {s for t in p.module.function("main").params for s in symbols_of(t.type)}
        i = rng.randrange(len(p.bindings))
        fixed = {s: v for s, v in p.bindings[i].items() if s in bound and s != "h" and rng.random() < 0.7}
        special = replace(p, module=infer_module(Specialize.of(fixed).run(p.module)))
        with told(p):
            interpreted(special, i)
            called(special, i, pliant.compile(special.module, weights=p.weights[i] or None, opt=1)["main"], rng)
