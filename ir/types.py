"""Types of values: tensors with symbolic shapes, and tuples of types."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from .dims import Dim


class DType(enum.Enum):
    """The element types; the value is the name used in the text."""

    f64 = "f64"
    f32 = "f32"
    f16 = "f16"
    bf16 = "bf16"
    i64 = "i64"
    i32 = "i32"
    i16 = "i16"
    i8 = "i8"
    u8 = "u8"
    bool = "bool"

    def __str__(self) -> str:
        return self.value

    __repr__ = __str__

    @property
    def bytes(self) -> int:
        """Size of one element in bytes."""
        return _BYTES[self.value]

    @property
    def bits(self) -> int:
        return 8 * _BYTES[self.value]

    @property
    def is_float(self) -> _bool:
        return self.value in ("f64", "f32", "f16", "bf16")

    @property
    def is_int(self) -> _bool:
        return self.value in ("i64", "i32", "i16", "i8", "u8")

    @property
    def is_signed(self) -> _bool:
        return self.is_float or self.value in ("i64", "i32", "i16", "i8")

    @property
    def is_bool(self) -> _bool:
        return self is DType.bool

    @property
    def compute(self) -> DType:
        """The type arithmetic is done in: f16 and bf16 are stored as such and computed in f32."""
        return DType.f32 if self in (DType.f16, DType.bf16) else self

    @property
    def numpy(self) -> np.dtype[np.generic]:
        if self is DType.bf16:
            import ml_dtypes

            bfloat16: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
            return bfloat16
        return np.dtype(_NUMPY[self.value])

    def holds_more_than(self, other: DType) -> _bool:
        """Does a conversion to this dtype lose less than one to the other?"""
        return (self.is_float, not self.is_bool, self.bits) > (other.is_float, not other.is_bool, other.bits)

    @property
    def with_article(self) -> str:
        """The name in a sentence: an i32, an f32, a bf16."""
        return f"{'an' if self.value[0] in 'if' else 'a'} {self.value}"

    @staticmethod
    def of(dtype: object) -> DType:
        """From a numpy dtype (or what numpy takes for one); ValueError when there is no such element type."""
        name = np.dtype(dtype).name  # type: ignore[call-overload]
        for value, known in _NUMPY.items():
            if known == name:
                return DType(value)
        raise ValueError(f"no element type for numpy's {name}")


_bool = bool
_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1}
_NUMPY = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "bool": "bool",
}


@dataclass(frozen=True)
class TensorType:
    """`dtype[dims]`; `shape` is None when the rank is unknown (`f32[*]`)."""

    dtype: DType
    shape: tuple[Dim, ...] | None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype}[*]"
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The shape of a tensor whose rank is known (checked before any op sees it)."""
        assert self.shape is not None, "rank unknown"
        return self.shape

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def size(self) -> Dim:
        """Number of elements."""
        return product(self.dims)


@dataclass(frozen=True)
class TupleType:
    items: tuple[Type, ...]

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.items))
        return f"({inner},)" if len(self.items) == 1 else f"({inner})"


Type = TensorType | TupleType


def product(dims: tuple[Dim, ...]) -> Dim:
    """The product of sizes, 1 for none."""
    total = Dim.of(1)
    for d in dims:
        total = total * d
    return total


def tensor(dtype: DType | str, *dims: Dim | int | str) -> TensorType:
    """Shorthand: `tensor("f32", "n", 64)`."""
    return TensorType(DType(dtype) if isinstance(dtype, str) else dtype, tuple(Dim.of(d) for d in dims))
