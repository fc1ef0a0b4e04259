"""How torch is asked for a graph: the one place that knows torch's settings, and what stands in for those it lacks.

Tried with torch 2.13.  Two things settle sizes by those of the example, and are kept from it:

- torch's 0/1 rule, that sizes are neither 0 nor 1: `backed_size_oblivious` is torch's own setting (since 2.8);
- its stand-in for a convolution, which asks which backend would run it, and so fixes a size that is 1 in the example.
  There is no setting; the stand-in is taken out for the time of a trace, and torch falls back on its meta kernel, which
  asks nothing (strides are of no concern here).

A third keeps an account: what Python code asks of sizes decides which graph this is. torch keeps a guard of that only
where its answer was not clear from what operators had asked before, so the questions are noted as they are put.
"""

from __future__ import annotations

import copy
import linecache
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from .places import Place
from .retrace import Range, reopened
from .sizes import answered
from .table import decompositions


@dataclass(frozen=True)
class Asked:
    """A question of Python code: torch's condition, as it was answered, and the line."""

    condition: Any
    place: Place | None


Questions = tuple[Asked, ...]


def exported(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    shapes: Any,
    strict: bool = False,
    oblivious: bool = True,
) -> tuple[Any, Questions]:
    """torch.export's program, and what was asked on the way; whatever torch raises where it fails.

    `strict` reads the code instead of running it: what Python's `int` makes of a size stays a size.  Unless `oblivious`
    torch takes all sizes for at least 2, and asks nothing where that decides.
    """
    args, kwargs = _apart(model, args, kwargs)
    with quiet(), every_size(oblivious), _noted() as asked:
        program = torch.export.export(model, tuple(args), dict(kwargs), dynamic_shapes=shapes, strict=strict)
    return program, tuple(asked.values())


def in_core(
    program: Any,
    ranges: Mapping[str, Range],
    hints: Mapping[str, int] | None = None,
    oblivious: bool = True,
    apart: bool = False,
) -> tuple[Any, Questions]:
    """The program in operators that have rows, as far as torch can decompose it, and what decomposing it asked.

    `ranges` are all that is known of its sizes, by torch's symbols; `hints` stand for the sizes of the example.  Sizes
    that torch found equal are one, unless `apart`.
    """
    with quiet(), every_size(oblivious), _noted() as asked:
        core = reopened(program, ranges, hints, apart).run_decompositions(decompositions())
    return core, tuple(asked.values())


@contextmanager
def _noted() -> Iterator[dict[Any, Asked]]:
    """The questions of Python code, by condition.  torch has no setting for it: its evaluation is wrapped meanwhile."""
    found: dict[Any, Asked] = {}
    evaluate = ShapeEnv.evaluate_expr

    def noting(self: Any, expr: Any, *args: Any, **kwargs: Any) -> Any:
        answer = evaluate(self, expr, *args, **kwargs)
        if getattr(expr, "free_symbols", None):
            frame = _asking()
            if frame is not None:
                condition = answered(expr, answer)
                found.setdefault(condition, Asked(condition, _line(frame)))
        return answer

    ShapeEnv.evaluate_expr = noting
    try:
        yield found
    finally:
        ShapeEnv.evaluate_expr = evaluate


_WITHIN = tuple(f"/torch/_subclasses/{name}.py" for name in ("fake_tensor", "fake_impls", "functional_tensor"))
_LAYOUT = ("contiguous", "channels_last", "non_overlapping", "stride")
"""Words in the names of torch's functions that ask for strides, which nothing here depends on."""

_TRACER = ("/torch/fx/experimental/proxy_tensor.py",)
_BETWEEN = tuple(f"/torch/{n}" for n in ("fx/experimental/", "utils/_stats.py", "__init__.py", "_ops.py"))


def _asking() -> FrameType | None:
    """The frame of Python code that asks; None where an operator works out the sizes of its own results.

    An operator does so inside a fake tensor's dispatch; a decomposition runs inside the tracer's.
    """
    frame: FrameType | None = sys._getframe(2)
    first: FrameType | None = None
    while frame is not None:
        name = frame.f_code.co_filename
        if name.endswith(_WITHIN) or (first is None and any(w in frame.f_code.co_name for w in _LAYOUT)):
            return None
        if name.endswith(_TRACER):
            return first
        if first is None and not any(b in name for b in _BETWEEN):
            first = frame
        frame = frame.f_back
    return first


def _line(frame: FrameType) -> Place:
    name, line = frame.f_code.co_filename, frame.f_lineno
    return Place(name, line, linecache.getline(name, line).strip())


@contextmanager
def every_size(oblivious: bool = True) -> Iterator[None]:
    """Without what would settle sizes by the example's; unless `oblivious` the 0/1 rule stays."""
    from torch._subclasses import fake_impls
    from torch.fx.experimental import _config

    known = oblivious and hasattr(_config, "backed_size_oblivious")
    patched = _config.patch(backed_size_oblivious=True) if known else nullcontext()
    stand_ins = getattr(fake_impls, "op_implementations_dict", {})
    held = {op: stand_ins.pop(op) for op in (torch.ops.aten.convolution.default,) if op in stand_ins}
    try:
        with patched:
            yield
    finally:
        stand_ins.update(held)


@contextmanager
def quiet() -> Iterator[None]:
    """Without torch's warnings about itself, and its account of failures that are handled here."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def own_copy(model: Any) -> Any:
    """The model with Python attributes of its own, and the same parameters and buffers.

    Tracing runs the model's code, which may change its attributes; the user's model stays as it is.  A model that
    cannot be copied is used as it is.
    """
    shared = {id(t): t for t in (*model.parameters(), *model.buffers())}
    try:
        return copy.deepcopy(model, shared)
    except Exception:  # noqa: BLE001  whatever the model's own parts raise when they are copied
        return model


def _apart(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """The example's arguments, none of them the same tensor as another, or as a parameter or buffer of the model."""
    seen = set(map(id, (*model.parameters(), *model.buffers())))

    def own(x: Any) -> Any:
        if id(x) in seen:
            return x.detach().clone()
        seen.add(id(x))
        return x

    made: tuple[Sequence[Any], dict[str, Any]] = pytree.tree_map_only(torch.Tensor, own, (tuple(args), dict(kwargs)))
    return made
