"""Passes over graphs: types, calls inlined, composites taken apart, values folded, shared and dropped."""

from __future__ import annotations

from .cse import CommonSubexpressions
from .dce import DeadCode
from .decompose import Decompose
from .fold import Fold
from .infer import Infer
from .inline import Inline
from .simplify import Simplify

GRAPH_PASSES = (Infer, Inline, Decompose, Fold, Simplify, CommonSubexpressions, DeadCode)
"""Every pass over graphs, by the order in which they are usually run."""

__all__ = [
    "GRAPH_PASSES",
    "CommonSubexpressions",
    "DeadCode",
    "Decompose",
    "Fold",
    "Infer",
    "Inline",
    "Simplify",
]
