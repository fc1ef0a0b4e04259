"""torch's element types, and its rule of which one an operation computes in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...ir.diagnostics import error
from ...ir.types import DType, TensorType

DTYPES: Mapping[Any, DType] = {
    torch.float64: DType.f64,
    torch.float32: DType.f32,
    torch.float16: DType.f16,
    torch.bfloat16: DType.bf16,
    torch.int64: DType.i64,
    torch.int32: DType.i32,
    torch.int16: DType.i16,
    torch.int8: DType.i8,
    torch.uint8: DType.u8,
    torch.bool: DType.bool,
}
_TORCH: Mapping[DType, Any] = {ours: theirs for theirs, ours in DTYPES.items()}


def dtype_of(dtype: Any, what: str = "a tensor") -> DType:
    """Our element type for torch's; CompileError when there is none."""
    if dtype not in DTYPES:
        known = ", ".join(map(str, _TORCH))
        raise error(f"{what} has elements of type {dtype}, which is not supported", helps=(f"there are {known}",))
    return DTYPES[dtype]


def promoted(values: Sequence[TensorType | bool | int | float]) -> DType:
    """What torch would compute in: tensors with axes rank above 0-d tensors, those above Python numbers."""
    result = torch.result_type(*(_example(v) for v in values[:2])) if len(values) > 1 else _example(values[0]).dtype
    for value in values[2:]:
        result = torch.result_type(torch.empty((1,), dtype=result, device="meta"), _example(value))
    return dtype_of(result)


def _example(value: TensorType | bool | int | float) -> Any:
    if isinstance(value, TensorType):
        return torch.empty((1,) * min(value.rank, 1), dtype=_TORCH[value.dtype], device="meta")
    return value
