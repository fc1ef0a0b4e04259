"""What a measured architecture is: how to build it, its inputs at any size, and which sizes move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Case:
    """One architecture.

    `inputs` makes the arguments (positional, by name) at given sizes; `bounds` are the least and the largest value of
    every size that moves; `axes` says which axes of which argument those are; `sizes` are the sizes that are compared.
    """

    name: str
    build: Callable[[], Any]
    inputs: Callable[[Sizes], tuple[tuple[Any, ...], dict[str, Any]]]
    bounds: Mapping[str, tuple[int, int]]
    axes: Any
    sizes: tuple[Sizes, ...]
    example: Sizes = field(default_factory=dict)

    @property
    def bound(self) -> dict[str, int]:
        return {name: hi for name, (_, hi) in self.bounds.items()}

    def dynamic_shapes(self) -> Any:
        """`axes` with torch's Dims in place of the names."""
        dims = {name: torch.export.Dim(name, min=lo, max=hi) for name, (lo, hi) in self.bounds.items()}
        return _named(self.axes, dims)


def _named(axes: Any, dims: Mapping[str, Any]) -> Any:
    if isinstance(axes, str):
        # `cached + 1` and the like: a size that follows from another.
        name, _, rest = axes.partition(" + ")
        return dims[name] + int(rest) if rest else dims[name]
    if isinstance(axes, dict):
        return {key: _named(value, dims) for key, value in axes.items()}
    if isinstance(axes, (list, tuple)):
        return type(axes)(_named(value, dims) for value in axes)
    return axes


def randomised(model: Any, seed: int = 0) -> Any:
    """The model in inference mode, with parameters and statistics that are not the 0 and 1 of a fresh one."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in model.parameters():
            if value.ndim <= 1:
                value.add_(0.1 * torch.randn(value.shape, generator=generator))
            elif value.ndim == 4:
                # Convolutions keep the scale of their input (He et al. 2015): it would be lost after many layers.
                value.copy_((2 / value[0].numel()) ** 0.5 * torch.randn(value.shape, generator=generator))
        for name, value in model.named_buffers():
            if name.endswith("running_mean"):
                value.copy_(0.1 * torch.randn(value.shape, generator=generator))
            elif name.endswith("running_var"):
                value.copy_(0.5 + torch.rand(value.shape, generator=generator))
    return model.eval()


BATCH_LENGTH = tuple({"batch": b, "length": n} for b, n in ((1, 1), (1, 64), (3, 17), (8, 33), (8, 64)))
"""Batch 1, length 1 and the bound among them."""
