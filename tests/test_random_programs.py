"""Random modules: compiled against interpreted, and every pass and specialisation against the meaning it must keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from pliant.compiler.driver import compile as compile_module
from pliant.compiler.pipeline import graph_pipeline
from pliant.ir.graph import Module
from pliant.ir.infer_module import infer_module
from pliant.ir.interpret import interpret
from pliant.ir.parser import parse_module
from pliant.ir.printer import print_module
from pliant.ir.verify import verify_module
from pliant.passes.graph import GRAPH_PASSES
from pliant.passes.graph.specialize import Specialize
from pliant.passes.pass_base import Pass, run_passes
from tests.program_harness import agree, allowed, arguments, close, copied, leaves, spread
from tests.random_modules import Made, modules
from tests.random_programs import awkward_arrays, programs

BINDINGS = tuple(
    {"n": n, "m": m} for n, m in ((0, 4), (3, 0), (1, 1), (1, 8), (6, 4), (5, 3), (8, 8), (20, 68), (70, 36))
)
RELAXED = settings(suppress_health_check=list(HealthCheck), print_blob=True)


def run(made: Made) -> None:
    """Every function at every binding that its facts allow."""
    note(print_module(made.module, types=False))
    executable = compile_module(made.module, opt=1)
    for name, exact in made.exact.items():
        for number, binding in enumerate(BINDINGS):
            if allowed(made.module.function(name), binding):
                agree(made.module, executable, name, binding, exact, seed=number)


@given(made=modules())
@settings(RELAXED, max_examples=25)
def test_compiled_is_interpreted(made: Made) -> None:
    run(made)


@pytest.mark.slow
@given(made=modules(functions=4, steps=25))
@settings(RELAXED, max_examples=120)
def test_compiled_is_interpreted_long(made: Made) -> None:
    run(made)


@given(text=programs(rounded=False), seed=st.integers(0, 9))
@settings(RELAXED, max_examples=15)
def test_awkward_values(text: str, seed: int) -> None:
    """Infinities, NaN, zeros, the ends of the integers: elementwise programs are computed to the bit."""
    module = infer_module(parse_module(text))
    executable = compile_module(module, opt=1)
    arrays = awkward_arrays(seed, size=67)
    got = executable(*copied(arrays))
    for g, w in zip(leaves(got), leaves(interpret(module, "main", arrays)), strict=True):
        close(g, w, 0.0, text)


# ------------------------------------------------------------------------------------------------- same meaning


def same(made: Made, after: Module, binding: Mapping[str, int]) -> None:
    """The functions of both modules give the same results and the same updates, by the interpreter."""
    for name, exact in made.exact.items():
        function = made.module.function(name)
        if not allowed(function, binding):
            continue
        given_ = arguments(function, binding)
        first, second = copied(given_), copied(given_)
        want, got = interpret(made.module, name, first), interpret(after, name, second)
        slack = spread(made.module, name, given_, want, first, None)
        inouts = [p.name for p in function.params if p.inout]
        pairs = zip(
            [*leaves(got), *(second[p] for p in inouts)], [*leaves(want), *(first[p] for p in inouts)], strict=True
        )
        for i, ((g, w), tolerance) in enumerate(zip(pairs, slack, strict=True)):
            close(g, w, 0.0 if i < len(exact) and exact[i] else tolerance, f"@{name} at {dict(binding)}, array {i}")


def hook(_name: str, module: Module) -> None:
    verify_module(module)
    assert infer_module(parse_module(print_module(module))) == module


PIPELINES: dict[str, Sequence[Pass[Module]]] = {p.name: (p(),) for p in GRAPH_PASSES}
PIPELINES["the pipeline"] = graph_pipeline()
PIPELINES["the pipeline twice"] = (*graph_pipeline(), *graph_pipeline())


@pytest.mark.parametrize("name", PIPELINES)
@given(made=modules(functions=2, steps=15), binding=st.sampled_from(BINDINGS))
@settings(RELAXED, max_examples=15)
def test_passes_keep_the_meaning(name: str, made: Made, binding: Mapping[str, int]) -> None:
    note(print_module(made.module, types=False))
    after = run_passes(PIPELINES[name], made.module, [hook])
    note(print_module(after, types=False))
    same(made, after, binding)


@given(
    made=modules(functions=1, steps=15), binding=st.sampled_from(BINDINGS), symbols=st.sampled_from(("n", "m", "nm"))
)
@settings(RELAXED, max_examples=25)
def test_specialised_is_symbolic(made: Made, binding: Mapping[str, int], symbols: str) -> None:
    note(print_module(made.module, types=False))
    if not all(allowed(f, binding) for f in made.module.functions):
        return
    special = Specialize.of({s: binding[s] for s in symbols}).run(made.module)
    same(made, special, binding)
    executable = compile_module(special, opt=1)
    for name, exact in made.exact.items():
        agree(infer_module(special), executable, name, binding, exact)
