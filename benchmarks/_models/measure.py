"""One architecture measured: exported, imported, compiled, compared with torch at several sizes."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pliant.compiler.codegen.llvm import resolve
from pliant.compiler.driver import Compilation
from pliant.compiler.target import Target
from pliant.compiler.torch_program import called
from pliant.frontends.torch import import_torch
from pliant.frontends.torch.export import export
from pliant.runtime import Executable

from .case import Case

TOLERANCE = 1e-4
"""Of the largest value of each result."""

Record = dict[str, Any]


def measure(case: Case, keep: Callable[[Record], None]) -> None:
    """Fills a record stage by stage; `keep` is given it after each, so that a stage that ends badly loses nothing."""
    record: Record = {"name": case.name}
    torch.manual_seed(0)
    model = case.build()
    record["parameters"] = sum(p.numel() for p in model.parameters())
    args, kwargs = case.inputs(case.example)
    keep(record)

    start = time.perf_counter()
    export(model, args, kwargs, case.dynamic_shapes())
    record["export_s"] = time.perf_counter() - start
    keep(record)

    start = time.perf_counter()
    imported = import_torch(model, args, kwargs, case.dynamic_shapes())  # which traces it, too
    record |= {
        "import_s": time.perf_counter() - start,
        "ops": len(imported.module.function("main").body.statements),
        "facts": [str(f) for f in imported.module.function("main").facts],
        "notes": list(imported.notes),
    }
    keep(record)

    start = time.perf_counter()
    compilation = Compilation(imported.module, resolve(Target.parse("cpu")))
    artifact = compilation.artifact(imported.weights or None)
    record["compile_s"] = time.perf_counter() - start
    start = time.perf_counter()
    executable = Executable(artifact, lazy=True)
    record["load_s"] = time.perf_counter() - start
    keep(record)
    compiled = called(imported, executable)
    plan = compilation.lowered.plans["main"]
    record["kernels"] = len(executable.inspect()["plan"]["main"]["kernels"])
    record["errors"] = {}
    for sizes in case.sizes:
        record["errors"][", ".join(f"{k} {v}" for k, v in sizes.items())] = compared(case, model, compiled, sizes)
        keep(record)
    record["right"] = all(e <= TOLERANCE for e in record["errors"].values())
    last = dict(case.sizes[-1])
    args, kwargs = case.inputs(last)
    outputs = sum(x.numel() * x.element_size() for x in tensors(compiled(*args, **kwargs)))
    arena = plan.arena_bytes.evaluate(last)
    record |= {"sizes": last, "arena": arena, "outputs": outputs, "torch_peak": torch_peak(model, args, kwargs)}
    record["peak_rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    keep(record)


def compared(case: Case, model: Any, compiled: Any, sizes: Any) -> float:
    """The largest error of all results, each as a part of that result's largest value."""
    args, kwargs = case.inputs(sizes)
    with torch.no_grad():
        wanted = tensors(model(*args, **kwargs))
    got = tensors(compiled(*args, **kwargs))
    if len(got) != len(wanted):
        raise ValueError(f"{len(got)} results, torch has {len(wanted)}")
    worst = 0.0
    for a, b in zip(got, wanted, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError(f"{a.dtype}{list(a.shape)}, torch has {b.dtype}{list(b.shape)}")
        if not b.numel():
            continue
        wrong = (a.double() - b.double()).abs().max().item() / max(b.abs().max().item(), 1e-30)
        worst = max(worst, float("inf") if wrong != wrong else wrong)
    return worst


def tensors(tree: Any) -> list[Any]:
    return [x for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def torch_peak(model: Any, args: Any, kwargs: Any) -> int:
    """Bytes that torch's allocator holds at most during a call, results among them, weights and arguments not."""
    with torch.no_grad():
        model(*args, **kwargs)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            out = model(*args, **kwargs)
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    del out
    return peak
