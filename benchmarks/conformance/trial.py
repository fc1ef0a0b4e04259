"""Samples of one operator: exported, imported, compiled, run and compared with torch."""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pliant.compiler.driver import compile as compile_module
from pliant.compiler.torch_program import called
from pliant.frontends.torch.export import decomposed, export, import_program
from pliant.ir.diagnostics import CompileError
from pliant.runtime import PliantError

AUTO = torch.export.Dim.AUTO
Tensors = tuple[torch.Tensor, ...]
KNOWN = Path(__file__).with_name("known_failures.toml")

UNDEFINED = frozenset({"empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided", "empty_permuted"})
"""Operators whose values are whatever the memory held: only element type and shape are compared."""

LISTED = frozenset({"nn.functional.embedding_bag", "_segment_reduce.lengths", "_segment_reduce.offsets"})
"""Operators whose integers must rise or add up, so that they cannot be repeated to make longer ones."""

SORTED = frozenset({"bucketize", "searchsorted"})
"""Operators whose floats must rise, which longer ones made of them do once they are sorted."""

UP_TO_SIGN = frozenset({"linalg.eigh"})
"""Operators whose results are vectors of which mathematics leaves the sign open: columns are compared without it."""

TOLERANCES: Mapping[str, tuple[float, float]] = {
    "matrix_exp": (1e-3, 1e-3),  # torch's own result is as far from torch's in float64; ours is computed in it
}
"""rtol and atol of operators that need other than 1e-4 and 1e-5, with the reason beside each."""

_OF_DTYPE = {torch.float16: (2e-3, 2e-3), torch.bfloat16: (1.6e-2, 1.6e-2)}


@dataclass(frozen=True)
class Outcome:
    """What became of a sample: pass, skip (torch does not export it, nothing is there to compare), or what failed."""

    status: str
    reason: str = ""
    sizes: int = 1
    """At how many sizes it was run."""


class Call(torch.nn.Module):
    """A sample: the operator with its tensors as arguments, all else fixed."""

    def __init__(self, op: Any, sample: Any) -> None:
        super().__init__()
        leaves, self.spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.op = op
        self.fixed = [None if isinstance(x, torch.Tensor) else x for x in leaves]
        self.places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        self.tensors: Tensors = tuple(leaves[i].detach() for i in self.places)

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.fixed)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.op(*args, **kwargs)


class Together(torch.nn.Module):
    """Several samples as one model, which costs one export and one compilation."""

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__()
        self.calls = list(calls)
        self.tensors: Tensors = tuple(t for c in calls for t in c.tensors)

    def forward(self, *tensors: torch.Tensor) -> Any:
        results, rest = [], tensors
        for call in self.calls:
            given, rest = rest[: len(call.tensors)], rest[len(call.tensors) :]
            results.append(call(*given))
        return results


def full_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def operators() -> dict[str, Any]:
    """Every entry of op_db that has float32 samples on a CPU, by name."""
    from torch.testing._internal.common_methods_invocations import op_db

    found = {full_name(op): op for op in op_db if torch.float32 in op.dtypes and not op.name.startswith("jiterator")}
    return dict(sorted(found.items()))


def verdict(outcomes: Sequence[Outcome]) -> str:
    """pass when every sample that torch exports passes; skip when there is none."""
    failed = [o.status for o in outcomes if o.status not in ("pass", "skip")]
    return failed[0] if failed else "pass" if any(o.status == "pass" for o in outcomes) else "skip"


def known(dynamic: bool) -> dict[str, str]:
    """What is known not to pass, with the reason of each; what stands under `both` does in neither mode."""
    read = tomllib.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    return {**read.get("both", {}), **read.get("dynamic" if dynamic else "static", {})}


def samples_of(op: Any, limit: int) -> list[Call]:
    """The operator's own samples for the CPU in float32, always the same ones."""
    torch.manual_seed(0)
    random.seed(0)
    found = op.sample_inputs("cpu", torch.float32, requires_grad=False)
    return [Call(op.op, sample) for _, sample in zip(range(limit), found, strict=False)]


def try_operator(name: str, op: Any, limit: int, dynamic: bool) -> list[Outcome]:
    """All samples, together where that works."""
    try:
        calls = samples_of(op, limit)
    except Exception as failure:  # noqa: BLE001
        return [Outcome("skip", f"samples: {line(failure)}")]
    outcomes = {call: reason for call in calls if (reason := _unfit(call)) is not None}
    fit = [call for call in calls if call not in outcomes]
    Parted(Trial(name, dynamic), outcomes).run(fit)
    return [outcomes[call] for call in calls]


@dataclass
class Parted:
    """Samples tried in one program as long as that works, else in two of half as many each."""

    trial: Trial
    outcomes: dict[Call, Outcome]
    single: Counter[Outcome] = field(default_factory=Counter)

    def run(self, calls: Sequence[Call]) -> None:
        if not calls:
            return
        again = next((o for o, n in self.single.items() if n >= _ENOUGH), None)
        if again is not None:
            self.outcomes.update((call, again) for call in calls)
            return
        try:
            found = self.trial.run(Together(calls), calls)
        except Exception as failure:  # noqa: BLE001
            found = [Outcome("crash", f"{type(failure).__name__}: {line(failure)}")] * len(calls)
        if len(calls) > 1 and found[0].status != "pass" and len(set(found)) == 1:
            half = len(calls) // 2
            self.run(calls[:half])
            self.run(calls[half:])
            return
        self.outcomes.update(zip(calls, found, strict=True))
        if len(calls) == 1 and found[0].status not in ("pass", "skip"):
            self.single[found[0]] += 1


_ENOUGH = 4
"""So many samples that fail by themselves with the same words speak for those not tried yet."""


def _unfit(call: Call) -> Outcome | None:
    try:
        expected = call(*copies(call.tensors))
    except Exception as failure:  # noqa: BLE001
        return Outcome("skip", f"torch: {line(failure)}")
    if not any(isinstance(x, torch.Tensor) for x in pytree.tree_leaves(expected)):
        return Outcome("skip", "no tensor comes out")
    return None


@dataclass(frozen=True)
class Trial:
    """How an operator's samples are tried."""

    name: str
    dynamic: bool

    def run(self, model: Together, calls: Sequence[Call]) -> list[Outcome]:
        """One outcome a call; what fails before anything runs is that of all."""

        def all_are(status: str, failure: BaseException) -> list[Outcome]:
            return [Outcome(status, line(failure))] * len(calls)

        shapes = (tuple({i: AUTO for i, n in enumerate(t.shape) if n > 1} for t in model.tensors),)
        try:
            program = export(model, copies(model.tensors), None, shapes if self.dynamic and model.tensors else None)
        except Exception as failure:  # noqa: BLE001
            return all_are("skip", failure)
        try:
            core = decomposed(program)
        except Exception as failure:  # noqa: BLE001
            return all_are("skip" if _undecomposable(program) else "refused", failure)
        try:
            imported = import_program(core, run_decompositions=False)
            compiled = compile_module(imported.module, weights=imported.weights or None, opt=1)
        except CompileError as failure:
            return all_are("refused", failure)
        exe = called(imported, compiled)
        outcomes = self.compare(exe, program, calls, model.tensors)
        if not self.dynamic:
            return outcomes
        return [
            self.elsewhere(exe, program, calls, model.tensors, at) if o.status == "pass" else o
            for at, o in enumerate(outcomes)
        ]

    def compare(self, exe: Any, program: Any, calls: Sequence[Call], tensors: Tensors) -> list[Outcome]:
        """Results, and arguments that the operator writes, against torch's."""
        ours, theirs = copies(tensors), copies(tensors)
        wanted, at = [], 0
        for call in calls:
            wanted.append(call(*theirs[at : at + len(call.tensors)]))
            at += len(call.tensors)
        try:
            got = exe(*ours)
        except PliantError as failure:
            return [Outcome("refused at run time", line(failure))] * len(calls)
        outcomes, at = [], 0
        for position, call in enumerate(calls):
            span = slice(at, at + len(call.tensors))
            at = span.stop
            outcome = self.agree((got[position], ours[span]), (wanted[position], theirs[span]))
            if outcome.status != "pass":
                outcome = self._torchs_own_fault(program, tensors, position, wanted[position], outcome)
            outcomes.append(outcome)
        return outcomes

    def _torchs_own_fault(self, program: Any, tensors: Tensors, at: int, wanted: Any, outcome: Outcome) -> Outcome:
        """Where torch's exported program, run by torch, differs from torch as well, there is nothing to compare."""
        try:
            exported = program.module(check_guards=False)(*copies(tensors))[at]
        except Exception as failure:  # noqa: BLE001
            return Outcome("skip", f"torch.export's program fails: {line(failure)}")
        if self.agree(exported, wanted).status != "pass":
            return Outcome("skip", f"torch.export's program differs from the operator: {outcome.reason}"[:200])
        return outcome

    def agree(self, got: Any, wanted: Any) -> Outcome:
        mine, own = pytree.tree_leaves(got), pytree.tree_leaves(wanted)
        if len(mine) != len(own):
            return Outcome("wrong", f"{len(mine)} results, not {len(own)}")
        for a, b in zip(mine, own, strict=True):
            if not isinstance(b, torch.Tensor):
                if type(a) is not type(b) or a != b:
                    return Outcome("wrong", f"{a!r}, not {b!r}")
                continue
            rtol, atol = _OF_DTYPE.get(b.dtype, TOLERANCES.get(self.name, (1e-4, 1e-5)))
            a = a if isinstance(a, torch.Tensor) else torch.as_tensor(a)
            if self.name in UP_TO_SIGN and b.dim() >= 2 and a.shape == b.shape:
                a = a * torch.where((a * b).sum(-2, keepdim=True) < 0, -1.0, 1.0).to(a.dtype)
            if self.name in UNDEFINED and a.shape == b.shape and a.dtype == b.dtype:
                continue
            try:
                torch.testing.assert_close(a, b.detach(), rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as failure:
                return Outcome("wrong", line(failure))
        return Outcome("pass")

    def elsewhere(self, exe: Any, program: Any, calls: Sequence[Call], tensors: Tensors, at: int) -> Outcome:
        """One call at another size, the first of some that torch and its guards accept; the others as they were."""
        start = sum(len(c.tensors) for c in calls[:at])
        span = slice(start, start + len(calls[at].tensors))
        guarded = program.module(check_guards=True)
        for grown in other_inputs(program, tensors, span, self.name in LISTED):
            if self.name in SORTED:
                grown = tuple(t.sort().values if t.is_floating_point() and t.dim() else t for t in grown)
            try:
                calls[at](*copies(grown[span]))
                guarded(*copies(grown))
            except Exception:  # noqa: BLE001
                continue  # not a size of this program, whatever torch raises to say so
            found = self.compare(exe, program, calls, grown)[at]
            return Outcome(found.status, f"at another size: {found.reason}" if found.reason else "", 2)
        return Outcome("skip", "there is no second size that torch accepts")


_CHANGES: tuple[Callable[[int], int], ...] = (lambda n: n + 1, lambda n: 2 * n, lambda n: n + 2, lambda n: 3 * n)


def _undecomposable(program: Any) -> bool:
    """Do torch's own decompositions fail as well?"""
    try:
        program.run_decompositions()
    except Exception:  # noqa: BLE001
        return True
    return False


def other_inputs(program: Any, tensors: Tensors, span: slice, listed: bool) -> Iterator[Tensors]:
    """Arguments with the free sizes of those in `span` changed, all together, then one at a time.

    Where integers are `listed`, offsets and the like, their sizes stay.
    """
    metas = [n.meta["val"] for n in program.graph.nodes if n.op == "placeholder"]
    metas = metas[len(metas) - len(tensors) :]
    hints: dict[Any, int] = {}
    for meta, tensor in zip(metas[span], tensors[span], strict=True):
        if listed and not tensor.dtype.is_floating_point:
            continue
        for d, n in zip(meta.shape, tensor.shape, strict=True):
            if isinstance(d, torch.SymInt) and d.node.expr.is_Symbol:
                hints[d.node.expr] = n
    chosen = [list(hints), *([s] for s in hints)] if len(hints) > 1 else [list(hints)]
    for symbols in chosen:
        for change in _CHANGES if symbols else ():
            values = hints | {s: change(hints[s]) for s in symbols}
            grown = list(tensors)
            try:
                grown[span] = [_resized(m, t, values) for m, t in zip(metas[span], tensors[span], strict=True)]
            except (TypeError, RuntimeError):
                continue  # a size made of symbols that no argument has by itself
            yield tuple(grown)


def _resized(meta: Any, tensor: torch.Tensor, values: Mapping[Any, int]) -> torch.Tensor:
    """The tensor's own elements, repeated, in the shape that the symbols' values give."""
    shape = [int(d.node.expr.subs(values)) if isinstance(d, torch.SymInt) else d for d in meta.shape]
    if shape == list(tensor.shape):
        return tensor
    count = torch.Size(shape).numel()
    if not tensor.numel():
        return torch.zeros(shape, dtype=tensor.dtype)
    flat = tensor.reshape(-1)
    times = -(-count // flat.numel())
    repeated = flat.repeat(times)[:count]
    if tensor.dtype.is_floating_point and not _exact(tensor):
        # No two alike, whose order would be open; towards 0, which leaves few functions' domains.
        repeated = repeated * (1 - torch.arange(times).repeat_interleave(flat.numel())[:count] / 128).to(tensor.dtype)
    return repeated.reshape(shape).contiguous()


def _exact(tensor: torch.Tensor) -> bool:
    """Whole numbers in a float tensor mean something that must not change."""
    return bool((tensor == tensor.round()).all())


def copies(tensors: Sequence[torch.Tensor]) -> Tensors:
    return tuple(t.detach().clone() for t in tensors)


def line(failure: BaseException) -> str:
    """What an exception says, on one line; of an error of ours, every message and its first help."""
    text = str(failure) or type(failure).__name__
    if isinstance(failure, CompileError):
        text = "; ".join(" (".join((d.message, *d.helps[:1])) + ")" * len(d.helps[:1]) for d in failure.diagnostics)
    return " ".join(text.split()).removeprefix("error: ")[:300]


def beyond_core(op: Any, limit: int) -> list[str] | None:
    """Operators outside core ATen that torch's own decompositions leave of the samples; None where it exports none."""
    found: set[str] = set()
    exported = False
    fit = [call for call in samples_of(op, limit) if _unfit(call) is None]
    if not fit:
        return None
    for group in ([fit], [[call] for call in fit]):
        for calls in group:
            try:
                model = Together(calls)
                program = export(model, copies(model.tensors), None, None).run_decompositions()
            except Exception:  # noqa: BLE001  the group falls apart into single samples
                continue
            exported = True
            found |= {str(n.target) for n in program.graph.nodes if n.op == "call_function" and not _is_core(n.target)}
        if exported:
            break
    return sorted(found) if exported else None


CHECKS = frozenset({"aten._assert_scalar.default", "aten._assert_tensor_metadata.default"})
"""What torch puts beside the operators of a program: it asks something of sizes or types, and computes nothing."""


def _is_core(target: Any) -> bool:
    return str(target) in CHECKS or not isinstance(target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)) or (
        isinstance(target, torch._ops.OpOverload) and torch.Tag.core in target.tags
    )
