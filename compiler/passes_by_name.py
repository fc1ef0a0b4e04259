"""Passes by name (`pliant opt`): which there are, what they take, and reading the text of any stage."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..ir.diagnostics import error
from ..ir.graph import Apply, CallFunction, Module, targets_of
from ..ir.loops import Kernel, Program
from ..ir.op import CompositeOp
from ..ir.parser import parse_module
from ..ir.parser_loops import parse_program
from ..ir.verify import verify_module
from ..passes.graph.cse import CommonSubexpressions
from ..passes.graph.dce import DeadCode
from ..passes.graph.decompose import Decompose
from ..passes.graph.fold import Fold
from ..passes.graph.infer import Infer
from ..passes.graph.inline import Inline
from ..passes.graph.simplify import Simplify
from ..passes.loops.parallelize import Parallelize
from ..passes.loops.simplify import Simplify as SimplifyLoops
from ..passes.loops.split import Split
from ..passes.loops.tile import Tile
from ..passes.loops.turn import Turn
from ..passes.loops.vectorize import Vectorize
from ..passes.lower import lower
from ..passes.pass_base import Pass, parse_passes

GRAPH_PASSES: tuple[type[Any], ...] = (Infer, Inline, Decompose, Fold, Simplify, CommonSubexpressions, DeadCode)
LOOP_PASSES: tuple[type[Any], ...] = (SimplifyLoops, Tile, Split, Turn, Vectorize, Parallelize)


@dataclass(frozen=True)
class Lower:
    """From a graph to loops.  `vector_bytes` decide how weights are packed; 0 leaves them as they are."""

    name: ClassVar[str] = "lower"
    vector_bytes: int = 32

    def run(self, module: Module) -> Program:
        _require_primitive(module)
        return lower(module, self.vector_bytes or None).program


@dataclass(frozen=True)
class EveryKernel:
    """A pass over kernels as a pass over programs."""

    name: str
    step: Any

    def run(self, program: Program) -> Program:
        kernels: tuple[Kernel, ...] = tuple(self.step.run(k) for k in program.kernels)
        return replace(program, kernels=kernels)


def read_stage(text: str, filename: str) -> Module | Program:
    """A graph or a program of loops, told apart by what they define."""
    if re.search(r"^\s*(kernel|host|load)\s+@", text, re.MULTILINE):
        return parse_program(text, filename)
    return parse_module(text, filename)


def parse_pipeline(text: str, ir: Module | Program, verify: bool = True) -> list[Pass[Any]]:
    """The passes named; CompileError for unknown ones, and for ones that do not take what stands before them."""
    found: list[Any] = parse_passes(text, (*GRAPH_PASSES, Lower, *LOOP_PASSES))
    stage = "loops" if isinstance(ir, Program) else "graph"
    typed = isinstance(ir, Program) or _is_typed(ir)
    steps: list[Any] = []
    for step in found:
        on_loops = type(step) in LOOP_PASSES
        if on_loops != (stage == "loops"):
            way_out = "run `infer,inline,decompose,lower` first" if on_loops else "graph passes come before `lower`"
            raise error(f"the pass `{step.name}` works on {'loops' if on_loops else 'graphs'}", helps=(way_out,))
        typed = typed or isinstance(step, Infer)
        if not typed:
            raise error(f"the pass `{step.name}` wants the types of all values", helps=("begin with `infer`",))
        steps.append(EveryKernel(step.name, step) if on_loops else step)
        if isinstance(step, Lower):
            stage = "loops"
        elif verify and not on_loops:
            steps.append(_Verify())
    return steps


def _is_typed(module: Module) -> bool:
    statements = (s for f in module.functions for s in f.body.statements)
    return all(t.type is not None for s in statements for t in targets_of(s))


def _require_primitive(module: Module) -> None:
    """What `lower` reads: operators that are made of no others, and no calls."""
    for function in module.functions:
        for s in function.body.statements:
            composite = isinstance(s, Apply) and isinstance(s.op, CompositeOp)
            if composite or isinstance(s, CallFunction):
                what, way_out = ("composite operators", "decompose") if composite else ("calls", "inline")
                raise error(f"the pass `lower` reads no {what}", s.span, helps=(f"run `{way_out}` before it",))


@dataclass(frozen=True)
class _Verify:
    name: ClassVar[str] = "verify"

    def run(self, module: Module) -> Module:
        verify_module(module, typed=False)
        return module
