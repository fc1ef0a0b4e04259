"""What the operator files share: operands by position, dtype rules, rounding of references, and sample types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from ..build import Builder
from ..dims import Dim
from ..graph import NoneValue, Operand
from ..op import Array, InferContext
from ..rounding import converted
from ..types import DType, TensorType, tensor

T = TypeVar("T")

FLOATS = (DType.f32, DType.f64, DType.f16, DType.bf16)
INTS = (DType.i64, DType.i32, DType.i16, DType.i8, DType.u8)

SIZES: tuple[dict[str, int], ...] = ({"n": 0, "m": 3}, {"n": 1, "m": 1}, {"n": 5, "m": 18}, {"n": 33, "m": 2})
"""Bindings of `n` and `m` that samples run at: empty, one, and sizes that no vector width divides."""

_RTOL = {DType.f64: 1e-9, DType.f32: 1e-5, DType.f16: 2e-3, DType.bf16: 1.6e-2}


def operand(operands: Sequence[T | None], position: int) -> T:
    """An operand that is always given (`infer_apply` has counted them)."""
    value = operands[position]
    assert value is not None
    return value


def optional(operands: Sequence[T | None], position: int) -> T | None:
    """An operand that may be none or left out at the end."""
    return operands[position] if position < len(operands) else None


def rtol(dtype: DType) -> float:
    """The relative tolerance of samples: a few units in the last place of the type, generous for functions."""
    return _RTOL.get(dtype, 0.0)


def given(operands: Sequence[Operand], position: int) -> Operand | None:
    """An operand of a decomposition that may be none or left out at the end."""
    if position >= len(operands) or isinstance(operands[position], NoneValue):
        return None
    return operands[position]


# ---------------------------------------------------------------------------------------------- dtype rules


def want_float(ctx: InferContext, position: int, t: TensorType) -> None:
    """Refuses anything but floating point."""
    ctx.require(
        t.dtype.is_float,
        f"`{ctx.op_name}` takes floating-point tensors; {ctx.name(position)} is {t}",
        help=f"convert it: `cast({ctx.name(position)}, dtype=f32)`",
    )


def want_number(ctx: InferContext, position: int, t: TensorType, instead: str = "") -> None:
    """Refuses bool; `instead` is what to use for it."""
    others = (o.dtype for o in ctx.types if o is not None and not o.dtype.is_bool)
    ctx.require(
        not t.dtype.is_bool,
        f"`{ctx.op_name}` takes numbers; {ctx.name(position)} is {t}",
        help=instead or f"convert it: `cast({ctx.name(position)}, dtype={next(others, DType.i32)})`",
    )


def want_int(ctx: InferContext, position: int, t: TensorType, or_bool: bool = False) -> None:
    """Refuses floating point, and bool unless `or_bool`."""
    ctx.require(
        t.dtype.is_int or (or_bool and t.dtype.is_bool),
        f"`{ctx.op_name}` takes integer{' or bool' if or_bool else ''} tensors; {ctx.name(position)} is {t}",
        help=f"convert it: `cast({ctx.name(position)}, dtype=i32)`",
    )


def want_bool(ctx: InferContext, position: int, t: TensorType) -> None:
    """Refuses anything but bool."""
    ctx.require(
        t.dtype.is_bool,
        f"`{ctx.op_name}` takes bool tensors; {ctx.name(position)} is {t}",
        help=f"compare it: `ne({ctx.name(position)}, 0)`",
    )


# ----------------------------------------------------------------------------------------------- references


def widened(x: Array) -> Array:
    """f16 and bf16 as f32; everything else as it is."""
    return x.astype(DType.of(x.dtype).compute.numpy)


def exact(x: Array) -> Array:
    """Floats as f64, so that a reference's sums carry no error of their own; integers as they are."""
    return x.astype(np.float64) if DType.of(x.dtype).is_float else x


def rounded(value: object, dtype: DType) -> Array:
    """A reference's result in its dtype, 0-d results as arrays."""
    return converted(value, dtype)


def limited(x: Array, low: object = None, high: object = None) -> Array:
    """x where it lies between the limits (of equal ones x, so that its zero keeps its sign), NaN where any is."""
    if low is not None:
        bottom = np.asarray(low, x.dtype)
        x = np.where((x < bottom) | (bottom != bottom), bottom, x)
    if high is not None:
        top = np.asarray(high, x.dtype)
        x = np.where((x > top) | (top != top), top, x)
    return x


# -------------------------------------------------------------------------------------------------- samples


def arrays(
    *makers: Callable[[np.random.Generator, tuple[int, ...]], object] | None, types: Sequence[TensorType | None]
) -> Callable[[np.random.Generator, dict[str, int]], tuple[Array | None, ...]]:
    """A `Sample.make`: one maker an operand, called with the generator and the shape; its result takes the dtype."""

    def make(rng: np.random.Generator, binding: dict[str, int]) -> tuple[Array | None, ...]:
        out: list[Array | None] = []
        for maker, t in zip(makers, types, strict=True):
            if maker is None or t is None:
                out.append(None)
                continue
            shape = tuple(d.evaluate(binding) for d in t.dims)
            out.append(np.asarray(maker(rng, shape)).astype(t.dtype.numpy))
        return tuple(out)

    return make


def uniform(low: float, high: float) -> Callable[[np.random.Generator, tuple[int, ...]], object]:
    """A maker of numbers in a range."""
    return lambda rng, shape: rng.uniform(low, high, shape)


def integers(low: int, high: int, nonzero: bool = False) -> Callable[[np.random.Generator, tuple[int, ...]], object]:
    """A maker of whole numbers in [low, high)."""

    def make(rng: np.random.Generator, shape: tuple[int, ...]) -> object:
        values = rng.integers(low, high, shape)
        return np.where(values == 0, 1, values) if nonzero else values

    return make


def cycled(*values: float) -> Callable[[np.random.Generator, tuple[int, ...]], object]:
    """A maker that repeats the values: for infinities, NaN and signed zeros."""
    return lambda rng, shape: np.resize(np.array(values), shape)


def shapes(dtype: DType) -> Iterable[TensorType]:
    """Types of rank 0 to 3 over `n` and `m`."""
    yield tensor(dtype)
    yield tensor(dtype, "n")
    yield tensor(dtype, "n", 7)
    yield tensor(dtype, "m", 3, "n")


def product_of(sizes: Iterable[int]) -> int:
    total = 1
    for s in sizes:
        total *= s
    return total


def count_of(dims: Sequence[Dim], axes: Iterable[int]) -> Dim:
    """The number of elements along some axes."""
    return Dim.product(dims[a] for a in axes)


# ------------------------------------------------------------------------------------------- decompositions


def one(value: Operand) -> Operand:
    """The one result of a builder call, whose own type allows for several."""
    return value


def raised(b: Builder, x: Operand) -> tuple[Operand, DType]:
    """f16 and bf16 operands converted to f32, and the dtype the result is to be given."""
    dtype = b.type(x).dtype
    return (x if dtype is dtype.compute else b.cast(x, dtype=dtype.compute)), dtype


def lowered(b: Builder, x: Operand, dtype: DType) -> Operand:
    """The result of a decomposition in its dtype."""
    return x if b.type(x).dtype is dtype else b.cast(x, dtype=dtype)


def lowest(dtype: DType) -> float:
    """The most negative finite number: an `initial` for maxima that subtracting from -inf leaves -inf, not NaN."""
    return float(np.finfo(dtype.compute.numpy.name).min)
