"""Values as numpy computes them, in f64 or in their integers, and how far a correct program may be from them.

A program is evaluated several times: once plainly, and a few times with every rounding moved at random.  What the moved
runs differ by, a correct program may differ by; where they choose differently (a comparison of two nearly equal sums),
nothing can be said and nothing is compared.  A value is *known* when every correct program has its very bits:
arguments, what only moves elements, and arithmetic that rounds once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pliant.ir.types import DType

Array = np.ndarray

EPSILON = {DType.f64: 2.0**-52, DType.f32: 2.0**-23, DType.f16: 2.0**-10, DType.bf16: 2.0**-7}
LARGEST = {DType.f64: 1e6, DType.f32: 1e5, DType.f16: 2e3, DType.bf16: 1e5}
"""Beyond these no value is let grow: what follows would overflow, or have no digits left to compare."""
STEP = 2.0**-8
RUNS = 3
"""How often a program is evaluated with its roundings moved."""


class Unwanted(Exception):
    """The statement is left out: its types were refused, or its values cannot be compared."""


@dataclass(frozen=True)
class Number:
    """A tensor's elements, in its dtype."""

    array: Array
    known: bool

    @property
    def dtype(self) -> DType:
        return DType.of(self.array.dtype)


def stored(value: object, dtype: DType) -> Array:
    """Rounded once to the dtype (integers wrap around); bf16 by its bits, since ml_dtypes rounds f64 twice."""
    with np.errstate(all="ignore"):
        array = np.asarray(value)
        if dtype is not DType.bf16 or array.dtype in (np.float32, dtype.numpy):
            return array.astype(dtype.numpy)
        wide = array.astype(np.float64)
        exponent = np.floor(np.log2(np.abs(np.where((wide == 0) | ~np.isfinite(wide), 1.0, wide))))
        unit = 2.0 ** (np.maximum(exponent, -126.0) - 7)
        return np.where(np.isfinite(wide), np.rint(wide / unit) * unit, wide).astype(np.float32).astype(dtype.numpy)


def on_a_grid(*terms: Array) -> bool:
    """Whether sums of these terms are exact in f32 in any order: multiples of a step, and not too large."""
    finite = [t[np.isfinite(t)] for t in terms]
    return (
        all(bool((t / STEP == np.floor(t / STEP)).all()) for t in finite)
        and sum(np.abs(t).sum() for t in finite) < 2**14
    )


@dataclass
class Numpy:
    """One run: without `rng` the plain one."""

    rng: np.random.Generator | None = None

    def wide(self, x: Number) -> Array:
        """The elements in f64 (integers and bools as they are), moved by less than their rounding unless known."""
        if not x.dtype.is_float:
            return x.array
        wide = x.array.astype(np.float64)
        if self.rng is None or x.known:
            return wide
        unit = min(EPSILON[x.dtype], EPSILON[DType.f32])
        return wide * (1 + 0.5 * unit * self.rng.uniform(-1, 1, wide.shape))

    def once(self, dtype: DType, value: object, *sources: Number) -> Number:
        """Arithmetic that rounds once (or is exact): known where its sources are."""
        array = np.asarray(value)
        known = not dtype.is_float or all(s.known for s in sources)
        return Number(stored(array if known else self._moved(array, dtype), dtype), known)

    def about(self, dtype: DType, value: object) -> Number:
        """What implementations round in their own ways."""
        array = np.asarray(value)
        return Number(stored(self._moved(array, dtype) if dtype.is_float else array, dtype), not dtype.is_float)

    def total(
        self, dtype: DType, value: object, sizes: object, terms: Sequence[Array] = (), sources: Sequence[Number] = ()
    ) -> Number:
        """A sum of terms in any order; `sizes` are the sums of their absolute values, of which the roundings are parts.

        It is known where its sources are and the terms lie on a grid.  Which zero comes out is open.
        """
        if not dtype.is_float:
            return self.once(dtype, value)
        if terms and all(s.known for s in sources) and on_a_grid(*terms):
            return self.open_zero(self.once(dtype, value, *sources))
        return self.open_zero(self.about(dtype, self.summed(dtype, value, sizes)))

    def summed(self, dtype: DType, value: object, sizes: object) -> Array:
        """A sum before it is rounded to its dtype: the accumulator of 16-bit floats is an f32."""
        array = np.asarray(value)
        if self.rng is None:
            return array
        unit = EPSILON[dtype if dtype is DType.f64 else DType.f32]
        return np.asarray(array + unit * np.asarray(sizes) * self.rng.uniform(-1, 1, array.shape))

    def open_zero(self, x: Number) -> Number:
        """The sign of a zero is anyone's."""
        if self.rng is None or not x.dtype.is_float or not x.array.size:
            return x
        signs = np.where(self.rng.random(x.array.shape) < 0.5, -0.0, 0.0).astype(x.array.dtype)
        return Number(np.where(x.array == 0, signs, x.array).astype(x.array.dtype), x.known)

    def _moved(self, array: Array, dtype: DType) -> Array:
        if self.rng is None:
            return array
        return np.asarray(array * (1 + 2 * EPSILON[dtype] * self.rng.uniform(-1, 1, array.shape)))


def same(array: Array, *sources: Number) -> Number:
    """Elements that were only moved."""
    return Number(np.ascontiguousarray(array).reshape(np.shape(array)), all(s.known for s in sources))


def sure(array: object, dtype: DType) -> Number:
    """What everyone computes alike."""
    return Number(stored(array, dtype), True)


def certain(x: Number) -> Number:
    """For what makes a small difference large: Unwanted of a float that is not known."""
    if x.dtype.is_float and not x.known:
        raise Unwanted
    return x


# --------------------------------------------------------------------------------------------------- comparing


@dataclass(frozen=True)
class Expected:
    """The plain run's elements, how far each may be off, and which cannot be compared."""

    array: Array
    tolerance: Array | None
    open: Array

    def differs(self, got: Array) -> str:
        """What is wrong with an array, empty if nothing is."""
        if (got.dtype, got.shape) != (self.array.dtype, self.array.shape):
            return f"{got.dtype}{list(got.shape)} instead of {self.array.dtype}{list(self.array.shape)}"
        if self.tolerance is None:
            bad = (got != self.array) & ~self.open
        else:
            want, have = self.array.astype(np.float64), got.astype(np.float64)
            both = np.isfinite(want) & np.isfinite(have)
            with np.errstate(invalid="ignore"):
                alike = (want == have) | (np.isnan(want) & np.isnan(have))
                near = np.abs(np.where(both, want, 0) - np.where(both, have, 0)) <= self.tolerance
            bad = ~np.where(both, near, alike) & ~self.open
        if not bad.any():
            return ""
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        allowed = "" if self.tolerance is None else f" give or take {self.tolerance[at]:.3g}"
        return f"{int(bad.sum())} of {bad.size} are wrong: at {at} {got[at]!r} instead of {self.array[at]!r}{allowed}"


def expected(plain: Number, moved: Sequence[Number | None]) -> Expected:
    """From the plain run and the moved ones (None: a run that went another way)."""
    array = plain.array
    others = [m.array for m in moved if m is not None and m.array.shape == array.shape]
    unsure = np.full(array.shape, len(others) < len(moved))
    if not plain.dtype.is_float:
        for other in others:
            unsure |= other != array
        return Expected(array, None, unsure)
    wide = array.astype(np.float64)
    spread = np.zeros(array.shape)
    for other in (o.astype(np.float64) for o in others):
        both = np.isfinite(other) & np.isfinite(wide)
        unsure |= ~both & ~((np.isnan(other) & np.isnan(wide)) | (other == wide))
        spread = np.maximum(spread, np.abs(np.where(both, other, 0) - np.where(both, wide, 0)))
    certain = spread[~unsure]
    if certain.size:
        spread = np.maximum(spread, 0.3 * np.median(certain))
    ulp = 0.0 if plain.known else 8 * EPSILON[plain.dtype]
    return Expected(array, 30 * spread + ulp * np.abs(np.where(np.isfinite(wide), wide, 0)), unsure)


# ----------------------------------------------------------------------------------------------------- drawing


def random_array(rng: np.random.Generator, dtype: DType, shape: Sequence[int], special: bool = False) -> Array:
    """Small numbers, half of them on a grid; integers of the whole range at times; `special` are infinities and NaN."""
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_int:
        bounds = np.iinfo(dtype.numpy.name)
        if rng.random() < 0.6:
            return rng.integers(-3 if dtype.is_signed else 0, 4, shape).astype(dtype.numpy)
        return rng.integers(bounds.min, bounds.max, shape, dtype=dtype.numpy, endpoint=True)
    values = rng.integers(-4, 5, shape) / rng.choice([1, 2]) if rng.random() < 0.5 else rng.uniform(-2, 2, shape)
    values = np.asarray(values, np.float64)
    if special:
        awkward = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], values.shape)
        values = np.where(rng.random(values.shape) < 0.2, awkward, values)
    return stored(values, dtype)
