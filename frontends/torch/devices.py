"""Tensors without values: those on the meta device, and torch's fake ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ...ir.diagnostics import error


def refuse_valueless(model: Any) -> None:
    """CompileError, naming them, where parameters or buffers of a module or an exported program have no values."""
    empty = [name for name, tensor in _held(model) if isinstance(tensor, FakeTensor) or tensor.is_meta]
    if empty:
        more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
        raise error(
            f"the model's `{empty[0]}`{more} {'are' if more else 'is'} without values (on the meta device, or fake)",
            helps=('give it its values first: `model.to_empty(device="cpu")`, then `model.load_state_dict(...)`',),
        )


def _held(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters, buffers and constants by name."""
    if isinstance(model, torch.nn.Module):
        named: Iterable[tuple[str, Any]] = (*model.named_parameters(), *model.named_buffers())
    else:
        constants: Mapping[str, Any] = getattr(model, "constants", {})
        named = (*model.state_dict.items(), *constants.items())
    yield from ((name, tensor) for name, tensor in named if isinstance(tensor, torch.Tensor))
