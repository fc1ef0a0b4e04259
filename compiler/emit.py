"""Printing the stages of a compilation (`--emit`)."""

from __future__ import annotations

import json
from typing import Any

from ..ir.diagnostics import error
from ..ir.loops import Launch
from ..ir.printer import print_module, print_statement
from ..ir.printer_loops import print_program
from .driver import Compilation

STAGES = ("graph", "fused", "loops", "llvm", "asm", "plan", "cuda")


def emit(compilation: Compilation, stages: str) -> str:
    """The stages named in a list separated by commas, under headings where there are several."""
    names = [s.strip() for s in stages.split(",") if s.strip()]
    for name in names:
        if name not in STAGES:
            raise error(f"there is no stage `{name}`", helps=(f"stages are {', '.join(STAGES)}",))
        if name in ("llvm", "asm") and compilation.target.kind != "cpu":
            raise error(f"the stage `{name}` is for CPU targets", helps=("`--emit cuda` prints the CUDA C++",))
    texts = [_STAGE[name](compilation) for name in names]
    if len(texts) == 1:
        return texts[0]
    return "\n".join(f"# ---- {name}\n{text}" for name, text in zip(names, texts, strict=True))


def _graph(c: Compilation) -> str:
    return print_module(c.graph)


def _fused(c: Compilation) -> str:
    """Every function with its statements in the order they run, under the kernel that computes them."""
    lines: list[str] = []
    for function, groups in c.lowered.fused.items():
        lines.append(f"# @{function}: {len(groups)} kernels")
        for name, group in groups:
            shape = ", ".join(map(str, group.dims))
            lines.append(
                f"# kernel {name}: {group.kind} over [{shape}]{f', reduced {group.axes}' if group.axes else ''}"
            )
            for node in group.members:
                lines.extend(print_statement(node.statement, "    "))
        lines.append("")
    return "\n".join(lines)


def _loops(c: Compilation) -> str:
    return print_program(c.program if c.target.kind == "cpu" else c.lowered.program)


def _llvm(c: Compilation) -> str:
    return "\n".join(f"; ---- {name}\n{text}" for name, text in c.optimized().items())


def _asm(c: Compilation) -> str:
    return "\n".join(f"# ---- {name}\n{text}" for name, text in c.assembly().items())


def _plan(c: Compilation) -> str:
    return "\n\n".join(f"@{name}\n{plan.report()}" for name, plan in c.lowered.plans.items())


def _cuda(c: Compilation) -> str:
    return c.cuda


_STAGE = {"graph": _graph, "fused": _fused, "loops": _loops, "llvm": _llvm, "asm": _asm, "plan": _plan, "cuda": _cuda}


def plan_json(c: Compilation) -> bytes:
    """What `pliant inspect` says of the memory and the kernels of each function."""
    found: dict[str, Any] = {}
    for host in c.program.functions:
        plan = c.lowered.plans[host.name]
        launched = [c.program.kernel(step.kernel) for step in host.launches if isinstance(step, Launch)]
        found[host.name] = {
            "arena_bytes": str(plan.arena_bytes),
            "peak_formula": str(plan.peak_formula),
            "peak_at_bound": plan.peak_at_bound,
            "lower_bound": plan.lower_bound,
            "without_reuse": str(plan.without_reuse),
            "total_without_reuse": plan.total_without_reuse,
            "scratch": str(host.scratch_bytes),
            "buffers": [
                {
                    "name": b.buffer.name,
                    "bytes": str(b.buffer.size_bytes),
                    "offset": str(b.offset),
                    "first": b.buffer.first,
                    "last": b.buffer.last,
                }
                for b in plan.lines
            ],
            "kernels": [{"name": k.name, "origin": k.origin} for k in launched],
        }
    return json.dumps(found, indent=1).encode()
