"""Random modules: compiled against interpreted, and every pass and specialisation against the meaning it must keep."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, note, settings
from hypothesis import strategies as st

from pliant.compiler.driver import compile as compile_module
from pliant.compiler.pipeline import graph_pipeline
from pliant.ir.diagnostics import CompileError
from pliant.ir.graph import Module
from pliant.ir.interpret import InterpretError, interpret
from pliant.ir.parser import parse_module
from pliant.ir.printer import print_module
from pliant.ir.verify import verify_module
from pliant.passes.graph import GRAPH_PASSES, Infer
from pliant.passes.graph.specialize import Specialize
from pliant.passes.pass_base import run_passes
from tests.program_harness import agree, allowed, arguments, close, copied, leaves, spread
from tests.random_modules import Made, modules

BINDINGS = tuple({"n": n, "m": m} for n, m in ((0, 4), (3, 0), (1, 1), (1, 8), (6, 4), (5, 3), (8, 8), (20, 68), (70, 36)))
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
@settings(RELAXED, max_examples=40)
def test_compiled_is_interpreted(made: Made) -> None:
    run(made)


@pytest.mark.slow
@given(made=modules(functions=4, steps=25))
@settings(RELAXED, max_examples=250)
def test_compiled_is_interpreted_long(made: Made) -> None:
    run(made)
