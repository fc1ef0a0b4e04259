"""What torch.export says when it fails, and what we know to do about it."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...ir.diagnostics import CompileError, error

_BENEATH = (Path(torch.__file__).parent, Path(__file__).parent, Path(traceback.__file__).parent)
"""torch, this package, Python's own modules: what is none of the model's code."""

_STRUCTURE = (
    "dynamic_shapes has the structure of the arguments: a tuple for args, or a dict by the names of forward's "
    "parameters; for every tensor None or {axis: Dim}, with an axis below its rank"
)
_VALUES = "a branch or size of the model depends on values; use torch.where, or masks of a fixed size"

_ADVICE: tuple[tuple[str, str], ...] = (
    (
        "specialized",
        (
            "the model's code fixes that size (a Python number made of it, a buffer of that length); make the code use "
            "x.shape, or leave the size out of dynamic_shapes"
        ),
    ),
    ("Constraints violated", "take the relation that torch suggests into dynamic_shapes, or use Dim.AUTO"),
    ("Static shape constraint", "a number in dynamic_shapes is the size of the example; use a Dim for one that moves"),
    ("not in range", "the sizes of the example lie in the bounds of their Dims: change the example, or min and max"),
    ("dynamic_shapes", _STRUCTURE),
    ("dynamic shape", _STRUCTURE),
    ("not matching the current structure", _STRUCTURE),
    ("list assignment index out of range", _STRUCTURE),
    ("missing a required argument", "args and kwargs are an example of every argument that the model needs"),
    ("Unsupported input type", "pass tensors and numbers, in tuples, lists, dicts or registered dataclasses"),
    (".numpy()", "keep to torch's operators: what numpy computes cannot be traced"),
    ("data-dependent", _VALUES),
    ("Data-dependent", _VALUES),
    ("alias", "give the export separate tensors (x.clone()) for arguments that may differ later"),
    ("training", "call model.eval() first"),
)
_NOISE = ("The error above occurred when calling torch.export.export", "For more information about this error, see")
"""How paragraphs and lines begin that are of no help here."""


def export_advice(
    failure: Exception, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> CompileError:
    """torch's own words (their first paragraph), where in the model it was, and what to do where we know."""
    text = str(failure).strip() or type(failure).__name__
    said = ["\n".join(line for line in p.split("\n") if not line.startswith(_NOISE)) for p in text.split("\n\n")]
    paragraphs = [p.strip() for p in said if p.strip()] or [text]
    helps = list(dict.fromkeys(advice for key, advice in _ADVICE if key in text))[:2]
    if "must match" in text and _has_one(args, kwargs):
        helps.insert(
            0,
            "a size of 1 in the example that is left open stands for every size, and is not broadcast: fix it (leave "
            "it out of dynamic_shapes), or choose another example",
        )
    place = _place(failure)
    notes = (*paragraphs[1:2], *([f"at {place}"] if place else ()))
    if not helps:
        helps = ["torch cannot export the model as it is: mend that line, or leave it out of what is exported"]
    return error(f"torch.export failed: {paragraphs[0]}", notes=notes, helps=tuple(helps))


def _has_one(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> bool:
    leaves = pytree.tree_leaves((tuple(args), dict(kwargs or {})))
    return any(isinstance(x, torch.Tensor) and 1 in x.shape for x in leaves)


def _place(failure: BaseException) -> str | None:
    """The innermost line outside torch and outside this package."""
    for frame in reversed(traceback.extract_tb(failure.__traceback__)):
        if frame.filename.startswith("<") or any(Path(frame.filename).is_relative_to(p) for p in _BENEATH):
            continue
        return f"{frame.filename}:{frame.lineno}: {frame.line}"
    return None
