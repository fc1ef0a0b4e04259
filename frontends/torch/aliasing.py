"""Arguments that share memory, of which one is written: torch sees the new values through the other, an artifact not.

Arguments are separate in a compiled program.  Sharing is harmless while nothing is written to; otherwise it is refused,
in the example of an export (torch.export forgets it) and, by the runtime, in every call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...ir.diagnostics import error

Span = tuple[int, int]


def span_of(value: Any) -> Span | None:
    """Addresses of the first byte and of the one after the last, None of what has no elements in memory."""
    if isinstance(value, torch.Tensor):
        if value.numel() == 0 or value.device.type != "cpu":
            return None
        size = value.element_size()
        return _span(value.data_ptr(), value.shape, [s * size for s in value.stride()], size)
    if isinstance(value, np.ndarray) and value.size:
        return _span(value.__array_interface__["data"][0], value.shape, value.strides, value.itemsize)
    return None


def _span(address: int, shape: Sequence[int], strides: Sequence[int], size: int) -> Span:
    """`strides` and `size` in bytes."""
    ways = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return address + sum(w for w in ways if w < 0), address + sum(w for w in ways if w > 0) + size


def shared(values: Iterable[tuple[str, Any]], written: frozenset[str]) -> tuple[str, str] | None:
    """The names of a written value and of another that has part of its memory, if there are such."""
    spans = sorted((span, name) for name, value in values if (span := span_of(value)) is not None)
    for i, ((_, end), name) in enumerate(spans):
        for (start, _), other in spans[i + 1 :]:
            if start >= end:
                break
            if name in written or other in written:
                return (name, other) if name in written else (other, name)
    return None


def refuse_shared(program: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """CompileError for example arguments that share memory which the program writes to."""
    signature = program.graph_signature
    written = frozenset(signature.user_inputs_to_mutate.values())
    names = [getattr(s.arg, "name", "") for s in signature.input_specs if s.kind.name == "USER_INPUT"]
    leaves = pytree.tree_leaves((tuple(args), dict(kwargs)))
    found = shared(zip(names, leaves, strict=False), written) if written else None
    if found:
        wrote, other = found
        raise error(
            f"the example's arguments `{wrote}` and `{other}` share memory, and the model writes to `{wrote}`: torch "
            f"would see that through `{other}`, where arguments of a compiled program are separate",
            helps=(f"pass `{other}` as a copy (x.clone())",),
        )
