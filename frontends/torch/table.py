"""The operator table: which overloads of torch's operators are imported as they are, and what each becomes.

What has a row is kept; everything else is decomposed by torch until rows are reached, or is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch

from .complexes import is_complex
from .context import Row
from .decompose import EXTRA
from .decompose_algebra import ALGEBRA
from .decompose_linalg import LINALG as MADE_OF_FACTORS
from .decompose_sampling import SAMPLING
from .decompose_special import SPECIAL
from .table_adaptive import ADAPTIVE
from .table_complex import COMPLEX, MADE_COMPLEX
from .table_direct import DIRECT, in_inference
from .table_index import INDEX
from .table_linalg import LINALG
from .table_nn import NN
from .table_pointwise import POINTWISE
from .table_reduce import REDUCE
from .table_resample import RESAMPLE
from .table_scan import SCAN
from .table_shape import SHAPE

TABLE: Mapping[str, Row] = {**POINTWISE, **SHAPE, **REDUCE, **SCAN, **NN, **ADAPTIVE, **INDEX, **LINALG, **RESAMPLE}
_OTHER_NAMES = {
    "true_divide": "div", "divide": "div", "multiply": "mul", "subtract": "sub", "negative": "neg", "absolute": "abs",
    "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne", "clip": "clamp",
    "fix": "trunc", "concat": "cat", "concatenate": "cat", "arccos": "acos", "arcsin": "asin", "arctan": "atan",
    "arccosh": "acosh", "arcsinh": "asinh", "arctanh": "atanh", "arctan2": "atan2",
}  # fmt: skip
"""torch's other names of operators, with the same arguments."""


def _under_other_names(rows: Mapping[str, Row]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for name, row in rows.items():
        space, own, overload = name.split(".", 2)
        found.update({f"{space}.{n}.{overload}": row for n, meant in _OTHER_NAMES.items() if meant == own})
    return found


ROWS: Mapping[str, Row] = {**_under_other_names(TABLE), **DIRECT, **TABLE}
"""What is known to mean something where it stands in a program that was not decomposed."""

HANDLES: Mapping[str, Callable[[Any], bool]] = {"aten.batch_norm.default": in_inference}
"""Rows that compute some calls only: which, by the node."""

_RANDOM = "random numbers are not supported: draw them outside and pass them in"
_DRAWN = (
    "rand randn rand_like randn_like randint randint_like randperm native_dropout bernoulli normal normal_functional "
    "uniform multinomial rrelu_with_noise_functional geometric exponential cauchy log_normal"
)
_DATA = "its sizes depend on data, which is not supported yet"
_BACKWARD = "a derivative: this compiles inference"

LEFT_OUT: Mapping[str, str] = {
    **{f"aten.{n}.default": _RANDOM for n in _DRAWN.split()},
    **{f"prims.{n}.default": _RANDOM for n in ("normal", "uniform")},
    "aten.bernoulli.p": _RANDOM,
    "aten.nonzero.default": _DATA,
    "aten.masked_select.default": _DATA,
    "aten._unique2.default": _DATA,
    "aten.unique_consecutive.default": _DATA,
    "aten._local_scalar_dense.default": "a value of a tensor as a Python number: " + _DATA,
    "aten.bincount.default": "its size depends on data unless `minlength` says how many numbers are counted",
    "aten.repeat_interleave.Tensor": _DATA,
    "aten._native_batch_norm_legit.default": "it changes running statistics in place: export in inference mode",
    "aten.atan2.out": "it writes into a tensor given: exported programs do not",
    "aten.resize_.default": "it changes a tensor's memory in place: exported programs do not",
    "higher_order.cond": "control flow is not supported yet",
    "higher_order.while_loop": "control flow is not supported yet",
    "higher_order.scan": "control flow is not supported yet",
    "higher_order.map_impl": "control flow is not supported yet",
    "higher_order.associative_scan": "control flow is not supported yet",
}
"""Operators that are known and not supported, with the reason."""

SIZES = frozenset(
    {
        "aten.sym_numel.default",
        "aten.sym_size.default",
        "aten.sym_size.int",
        "aten.sym_storage_offset.default",  # in assertions that tracing adds
        "aten.sym_stride.int",
    }
)
"""Operators whose results are sizes: torch's own shape propagation has them."""

IGNORED = frozenset(
    {
        "aten._assert_scalar.default",  # a fact (facts.py)
        "aten.sym_constrain_range_for_size.default",
        "aten.sym_constrain_range.default",
        "aten._assert_tensor_metadata.default",
    }
)


ASSERTIONS = frozenset({"aten._assert_async.msg", "aten._assert_async.default"})
"""Operators that check data: the results of the program are given only where they hold."""


def reason(target: str) -> str | None:
    """Why an operator is left out, None when there is no reason but that no one has written its row."""
    if target in LEFT_OUT:
        return LEFT_OUT[target]
    if "_backward" in target:
        return _BACKWARD
    space, name, overload = (*target.split("."), "", "")[:3]
    op = getattr(getattr(getattr(torch.ops, space, None), name, None), overload, None) if space == "aten" else None
    return _RANDOM if torch.Tag.nondeterministic_seeded in getattr(op, "tags", ()) else None


@cache
def core_overloads() -> tuple[str, ...]:
    """The overloads that torch tags as core, by name."""
    found = []
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        if space != "aten":
            continue
        overload = schema.overload_name or "default"
        packet = getattr(torch.ops.aten, name, None)
        if packet is not None and overload in packet.overloads():
            if torch.Tag.core in getattr(packet, overload).tags:
                found.append(f"aten.{name}.{overload}")
    return tuple(sorted(set(found)))


def decompositions() -> dict[Any, Any]:
    """torch's decompositions, of all but what has a row."""
    from torch._decomp import global_decomposition_table

    table = dict(torch.export.default_decompositions())
    for op, rule in global_decomposition_table["post_autograd"].items():
        table.setdefault(op, rule)
    for own in (EXTRA, ALGEBRA, SAMPLING, SPECIAL, MADE_OF_FACTORS):
        table.update(own)
    # What is core and has a row, or neither row nor rule but a reason, stays for the walk to meet.
    kept = {*TABLE, *SIZES, *MADE_COMPLEX}
    return {op: _of_reals(rule) if str(op) in COMPLEX else rule for op, rule in table.items() if str(op) not in kept}


def _of_reals(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition of what has a row for complex numbers, which are left to it."""

    def own(*args: Any, **kwargs: Any) -> Any:
        return NotImplemented if is_complex([*args, *kwargs.values()]) else rule(*args, **kwargs)

    return own
