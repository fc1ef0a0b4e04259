"""torch's own operator samples (op_db), imported, compiled and compared with torch.

    python benchmarks/conformance/opdb.py                     every operator, 20 samples each: a table and the totals
    python benchmarks/conformance/opdb.py --dynamic           every size above 1 symbolic, run at two sizes
    python benchmarks/conformance/opdb.py --only softmax,cat  some operators
    python benchmarks/conformance/opdb.py --shard 0/4         a part of them, to run several at once
    python benchmarks/conformance/opdb.py --write             also update known.json: what fails, and why

Needs torch and expecttest.  CPU, float32, forward.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pliant.compiler.torch_program import compiled
from pliant.frontends.torch.export import decomposed, import_program
from pliant.ir.diagnostics import CompileError
from pliant.runtime import PliantError

KNOWN = Path(__file__).parent / "known.json"


@dataclass(frozen=True)
class Outcome:
    """pass, skip (torch itself does not export it, or there is nothing to compare), or what failed."""

    status: str
    reason: str = ""


class Call(torch.nn.Module):
    """A sample as a module of its tensors."""

    def __init__(self, op: Any, leaves: list[Any], spec: Any) -> None:
        super().__init__()
        self.op, self.spec = op, spec
        self.fixed = [None if isinstance(x, torch.Tensor) else x for x in leaves]
        self.places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.fixed)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.op(*args, **kwargs)


def run_sample(op: Any, sample: Any, dynamic: bool) -> Outcome:
    """One sample from export to comparison."""
    leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    tensors = tuple(x.detach() for x in leaves if isinstance(x, torch.Tensor))
    call = Call(op, leaves, spec)
    try:
        expected = call(*(t.clone() for t in tensors))
    except Exception as failure:
        return Outcome("skip", f"torch: {_line(failure)}")
    if not any(isinstance(x, torch.Tensor) for x in pytree.tree_leaves(expected)):
        return Outcome("skip", "no tensor comes out")
    shapes = tuple({i: torch.export.Dim.AUTO for i, n in enumerate(t.shape) if n > 1} for t in tensors)
    try:
        program = torch.export.export(call, tensors, dynamic_shapes=(shapes,) if dynamic else None)
        core = decomposed(program)
    except Exception as failure:
        return Outcome("skip", f"torch.export: {_line(failure)}")
    try:
        exe = compiled(import_program(core, run_decompositions=False))
    except CompileError as failure:
        return Outcome("refused", _line(failure))
    except Exception as failure:
        return Outcome("crash", f"{type(failure).__name__}: {_line(failure)}")
    outcome = compare(exe, tensors, expected)
    if outcome.status == "pass" and dynamic:
        return other_size(exe, call, program, tensors)
    return outcome


def compare(exe: Any, tensors: tuple[torch.Tensor, ...], expected: Any) -> Outcome:
    """The compiled program's results against torch's."""
    try:
        got = exe(*(t.clone() for t in tensors))
    except PliantError as failure:
        return Outcome("refused at run time", _line(failure))
    except Exception as failure:
        return Outcome("crash", f"{type(failure).__name__}: {_line(failure)}")
    pairs = list(zip(pytree.tree_leaves(got), pytree.tree_leaves(expected), strict=True))
    for a, b in pairs:
        try:
            if isinstance(b, torch.Tensor):
                a = a if isinstance(a, torch.Tensor) else torch.as_tensor(a)
                torch.testing.assert_close(a, b.detach(), rtol=1e-4, atol=1e-5, equal_nan=True)
            elif a != b:
                return Outcome("wrong", f"{a!r} against {b!r}")
        except AssertionError as failure:
            return Outcome("wrong", _line(failure))
    return Outcome("pass")


def other_size(exe: Any, call: Call, program: Any, tensors: tuple[torch.Tensor, ...]) -> Outcome:
    """The same artifact at another size, when there is one that torch and its guards accept."""
    for grown in other_inputs(program, tensors):
        try:
            expected = call(*(t.clone() for t in grown))
        except Exception:
            continue
        try:
            program.module(check_guards=True)(*grown)
        except Exception:
            continue
        return compare(exe, grown, expected)
    return Outcome("pass")


def other_inputs(program: Any, tensors: tuple[torch.Tensor, ...]) -> Iterator[tuple[torch.Tensor, ...]]:
    """Inputs with every free size one, or two times, larger."""
    metas = [n.meta["val"] for n in program.graph.nodes if n.op == "placeholder"]
    metas = metas[len(metas) - len(tensors) :]
    symbols = {s for m in metas for d in m.shape if isinstance(d, torch.SymInt) for s in d.node.expr.free_symbols}
    hints: dict[Any, int] = {}
    for meta, tensor in zip(metas, tensors, strict=True):
        for d, n in zip(meta.shape, tensor.shape, strict=True):
            if isinstance(d, torch.SymInt) and d.node.expr.is_Symbol:
                hints[d.node.expr] = n
    for change in (lambda n: n + 1, lambda n: 2 * n, lambda n: n + 2):
        values = {s: change(hints[s]) for s in symbols if s in hints}
        if not values:
            return
        yield tuple(_resized(m, t, values) for m, t in zip(metas, tensors, strict=True))


def _resized(meta: Any, tensor: torch.Tensor, values: dict[Any, int]) -> torch.Tensor:
    shape = [int(d.node.expr.subs(values)) if isinstance(d, torch.SymInt) else d for d in meta.shape]
    if list(shape) == list(tensor.shape) or tensor.numel() == 0:
        return tensor.expand(shape) if tensor.numel() else torch.zeros(shape, dtype=tensor.dtype)
    count = 1
    for n in shape:
        count *= n
    flat = tensor.reshape(-1)
    return flat.repeat(-(-count // flat.numel()))[:count].reshape(shape).contiguous()


def _line(failure: BaseException) -> str:
    text = " ".join(str(failure).split())
    return text.removeprefix("error: ")[:200]


def operators(only: set[str]) -> Iterator[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    for op in sorted(op_db, key=lambda o: (o.name, o.variant_test_name)):
        if only and op.name not in only:
            continue
        if torch.float32 in op.dtypes and not op.name.startswith(("jiterator", "sparse.")):
            yield op


def full_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def run_operator(op: Any, dynamic: bool, limit: int) -> list[Outcome]:
    """All samples of one operator, at most `limit`."""
    torch.manual_seed(0)
    outcomes = []
    try:
        samples = op.sample_inputs("cpu", torch.float32, requires_grad=False)
        for _, sample in zip(range(limit), samples, strict=False):
            outcomes.append(run_sample(op.op, sample, dynamic))
    except Exception as failure:
        outcomes.append(Outcome("skip", f"samples: {_line(failure)}"))
    return outcomes


def verdict(outcomes: list[Outcome]) -> str:
    """pass when every sample that torch exports passes; skip when there is none."""
    counted = Counter(o.status for o in outcomes)
    tried = sum(n for status, n in counted.items() if status != "skip")
    if not tried:
        return "skip"
    return "pass" if counted["pass"] == tried else next(o.status for o in outcomes if o.status not in ("pass", "skip"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    at, of = map(int, options.shard.split("/"))
    chosen = list(operators(set(filter(None, options.only.split(",")))))[at::of]
    totals: Counter[str] = Counter()
    failed: dict[str, str] = {}
    start = time.perf_counter()
    for op in chosen:
        torch._dynamo.reset()
        outcomes = run_operator(op, options.dynamic, options.samples)
        result = verdict(outcomes)
        totals[result] += 1
        passed = sum(o.status == "pass" for o in outcomes)
        why = next((f"{o.status}: {o.reason}" for o in outcomes if o.status not in ("pass", "skip")), "")
        why = why or next((o.reason for o in outcomes if o.status == "skip"), "")
        print(f"{full_name(op):48} {result:8} {passed:3}/{len(outcomes):<3} {why}", flush=True)
        if result not in ("pass", "skip"):
            failed[full_name(op)] = why
    seconds = time.perf_counter() - start
    print(f"\n{len(chosen)} operators in {seconds:.0f} s: " + ", ".join(f"{n} {s}" for s, n in totals.most_common()))
    if options.write:
        key = "dynamic" if options.dynamic else "static"
        known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
        known[key] = dict(sorted(failed.items()))
        KNOWN.write_text(json.dumps(known, indent=2) + "\n")
    sys.exit(0)


if __name__ == "__main__":
    main()
