"""Complex numbers: two values of the program, the real parts and the imaginary parts.

We have no complex element types.  A complex tensor of torch is a `Complex`, two operands of one shape, from where the
walk meets it to where it is used up, so that arithmetic is arithmetic of its parts, fuses as any other, and what
moves elements about (`permute`, `cat`, an index) is done to either part by the row that real tensors have.  The rows
are those of `table_complex.py`; a call has one of them where an argument or a result of it is complex.

Where complex tensors cross the program's border (arguments, results, buffers, weights) they are what torch calls
`view_as_real`: one tensor of the parts' type with an axis of 2 at the end, which shares the memory of the complex one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ...ir.build import FunctionBuilder
from ...ir.graph import Operand

_PARTS = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}


@dataclass(frozen=True)
class Complex:
    """The parts of a complex tensor."""

    re: Operand
    im: Operand

    def each(self, change: Callable[[Operand], Operand | None]) -> Complex:
        """What `change` makes of either part."""
        re, im = change(self.re), change(self.im)
        assert re is not None
        assert im is not None
        return Complex(re, im)


def part_dtype(dtype: Any) -> Any:
    """torch's type of the parts of complex elements; other types as they are."""
    return _PARTS.get(dtype, dtype)


def is_complex(value: Any) -> bool:
    """Is it complex: a number, a tensor, a node of one, or a list with one of these?"""
    if isinstance(value, torch.fx.Node):
        return is_complex(value.meta.get("val"))
    if isinstance(value, (list, tuple)):
        return any(map(is_complex, value))
    return isinstance(value, complex) or (isinstance(value, torch.Tensor) and value.dtype in _PARTS)


def has_complex(node: Any) -> bool:
    """Whether an argument or a result of a call is complex."""
    return is_complex(node) or is_complex(node.args) or is_complex(tuple(node.kwargs.values()))


def pair_axis(value: Any) -> tuple[int, ...]:
    """What a tensor's shape has at the end more where it crosses the border."""
    return (2,) if is_complex(value) else ()


def split(b: FunctionBuilder, pairs: Operand) -> Complex:
    """The parts of what came across the border."""
    re, im = (b.squeeze(b.slice(pairs, axis=-1, start=i, stop=i + 1), axis=-1) for i in (0, 1))
    return Complex(re, im)


def joined(b: FunctionBuilder, value: Any) -> Any:
    """A complex value as it crosses the border; others as they are."""
    return b.stack(value.re, value.im, axis=-1) if isinstance(value, Complex) else value


def pairs_of(value: torch.Tensor) -> torch.Tensor:
    """A complex tensor as it crosses the border, in the same memory unless it is a conjugated view."""
    return torch.view_as_real(value.detach().resolve_conj())


def from_pairs(value: torch.Tensor) -> torch.Tensor:
    """A result of the program in torch's own type."""
    if not value.numel():  # its strides say nothing
        return torch.empty(value.shape[:-1], dtype=value.dtype.to_complex())
    return torch.view_as_complex(value)
