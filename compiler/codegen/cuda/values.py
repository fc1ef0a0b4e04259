"""Values as C++ expressions: their types, literals and conversions.

A value lives in a register in its compute type: f16 and bf16 as `float` (rounded when stored or cast), bool as `bool`.
In memory they are `pl_f16`, `pl_bf16` and one byte.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ....ir.rounding import converted
from ....ir.types import DType

_REGISTER = {
    "f64": "double", "f32": "float", "f16": "float", "bf16": "float", "i64": "long long", "i32": "int",
    "i16": "short", "i8": "signed char", "u8": "unsigned char", "bool": "bool",
}  # fmt: skip
_MEMORY = {"f16": "pl_f16", "bf16": "pl_bf16", "bool": "unsigned char"}


def register_type(dtype: DType) -> str:
    """C++ type of a value."""
    return _REGISTER[dtype.value]


def memory_type(dtype: DType) -> str:
    """C++ type of an element in memory."""
    return _MEMORY.get(dtype.value, _REGISTER[dtype.value])


@dataclass(frozen=True)
class Value:
    """An expression that binds as tightly as a call (it is in parentheses where it must be)."""

    text: str
    dtype: DType

    @property
    def type(self) -> str:
        return register_type(self.dtype)


def bare(text: str) -> str:
    """The expression without parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else text
    return text


def literal(value: bool | int | float, dtype: DType) -> Value:
    """A constant, rounded to its dtype."""
    if dtype.is_bool:
        return Value("true" if value else "false", dtype)
    if dtype.is_int:
        return Value(_integer(int(value), dtype), dtype)
    return Value(_float(float(converted(value, dtype)), dtype), dtype)


def _integer(value: int, dtype: DType) -> str:
    value &= (1 << dtype.bits) - 1
    if dtype.is_signed and value >> (dtype.bits - 1):
        value -= 1 << dtype.bits
    if dtype is DType.i64:
        return "(-9223372036854775807ll - 1)" if value == -(2**63) else f"({value}ll)" if value < 0 else f"{value}ll"
    if dtype is DType.i32:
        return "(-2147483647 - 1)" if value == -(2**31) else f"({value})" if value < 0 else str(value)
    return f"(({register_type(dtype)}){value})"


def _float(value: float, dtype: DType) -> str:
    if math.isnan(value) or math.isinf(value):
        text = "pl_nan()" if math.isnan(value) else "pl_infinity()" if value > 0 else "(-pl_infinity())"
        return f"((double){text})" if dtype is DType.f64 else text
    # The shortest decimals that give the same number back.
    text = repr(value) if dtype is DType.f64 else f"{np.float32(value)!s}f"
    return f"({text})" if math.copysign(1.0, value) < 0 else text


def convert(value: Value, dtype: DType) -> Value:
    """`Cast`: floats to integers truncate and saturate (NaN gives 0), wider integers wrap, bool is `!= 0`."""
    source = value.dtype
    if source is dtype:
        return value
    if dtype.is_bool:
        return Value(f"({value.text} != 0)", dtype)
    if dtype.is_float:
        return _to_float(value, dtype)
    if source.is_float:
        return Value(f"pl_to_int<{register_type(dtype)}>({bare(value.text)})", dtype)
    return Value(f"(({register_type(dtype)}){value.text})", dtype)


def _to_float(value: Value, dtype: DType) -> Value:
    source = value.dtype
    if dtype in (DType.f16, DType.bf16):
        # f16, bf16, f32 and integers of 16 bits are exact in f32; the others must not be rounded twice.
        wide = source is DType.f64 or (source.is_int and source.bits > 16)
        narrow = value.text if value.type == "float" else f"(float){value.text}"
        text = f"pl_round_to_odd({bare(value.text)})" if wide else narrow
        return from_memory(to_memory(Value(text, dtype)), dtype)
    return Value(value.text if value.type == register_type(dtype) else f"(({register_type(dtype)}){value.text})", dtype)


def from_memory(element: str, dtype: DType) -> Value:
    """The value of an element that was read in its memory type."""
    if dtype in (DType.f16, DType.bf16):
        return Value(f"pl_load({bare(element)})", dtype)
    return Value(f"({element} != 0)" if dtype.is_bool else element, dtype)


def to_memory(value: Value) -> str:
    """What is stored for a value."""
    if value.dtype in (DType.f16, DType.bf16):
        return f"pl_to_{value.dtype}({bare(value.text)})"
    return f"(unsigned char){value.text}" if value.dtype.is_bool else value.text
