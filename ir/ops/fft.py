"""Discrete Fourier transforms.  Complex numbers are two operands, the real and the imaginary parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dims import Dim
from ..facts import Compare
from ..loops import Expr, Select
from ..op import Array, Array1, InferContext, KernelBuilder, KernelOp, Refused, Sample
from ..scalar import apply, const, index, mul, select, sub
from ..types import DType, TensorType, tensor
from ._common import arrays, operand, optional, uniform, want_float
from ._fourier import Lines, transformed
from ._matrix import WIDE
from ._shape import Size, require_fact, whole

_SIZES: tuple[dict[str, int], ...] = (
    {"n": 1, "m": 1}, {"n": 2, "m": 0}, {"n": 5, "m": 3}, {"n": 12, "m": 18}, {"n": 64, "m": 2}, {"n": 77, "m": 33},
)  # fmt: skip


def _want(ctx: InferContext, axis: int, *operands: TensorType | None) -> TensorType:
    """The first operand, once all are known to be floats of one type and shape."""
    x = operand(operands, 0)
    for i, t in enumerate(operands):
        if t is None:
            continue
        want_float(ctx, i, t)
        ctx.require(
            t.dtype in WIDE,
            f"`{ctx.op_name}` takes f32 or f64; {ctx.name(i)} is {t}",
            help=f"convert it: `cast({ctx.name(i)}, dtype=f32)`",
        )
        same = t.rank == x.rank and all(map(ctx.facts.prove_eq, t.dims, x.dims))
        ctx.require(same, f"the real and imaginary parts of `{ctx.op_name}` differ in shape: {x} against {t}")
    ctx.same_dtype(*(t for t in operands if t is not None))
    ctx.axis(axis, x.rank)
    return x


def _sized(t: TensorType, axis: int, size: Dim) -> TensorType:
    at = axis % t.rank
    return TensorType(t.dtype, (*t.dims[:at], size, *t.dims[at + 1 :]))


def _parts(z: Array, dtype: np.dtype) -> tuple[Array, Array]:
    return np.asarray(z.real).astype(dtype), np.asarray(z.imag).astype(dtype)


@dataclass(frozen=True)
class Fft(KernelOp):
    """The discrete Fourier transform along `axis`: real and imaginary parts of sum over j of x[j] exp(-2 pi i j k / n).

    Without `im` the imaginary part is 0.  `inverse` turns the other way round; neither is divided by n.
    """

    name: ClassVar[str] = "fft"
    family: ClassVar[str] = "fft"
    signature: ClassVar[tuple[str, ...]] = ("re", "im?")
    results: ClassVar[int] = 2

    axis: int = -1
    inverse: bool = False

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> tuple[TensorType, ...]:
        x = _want(ctx, self.axis, *operands)
        return x, x

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (out_re, out_im), re, im = outputs, operand(inputs, 0), optional(inputs, 1)
        t, axis = re.type, self.axis % re.type.rank

        def read(lines: Lines, v: Expr, i: Expr) -> tuple[Expr, Expr]:
            at = lines.at(v, i)
            return k.load(re.buffer, at, t.dtype), const(0.0, t.dtype) if im is None else k.load(im.buffer, at, t.dtype)

        def write(at: Expr, real: Expr, imaginary: Expr) -> None:
            k.store(out_re.buffer, at, real)
            k.store(out_im.buffer, at, imaginary)

        transformed(k, t, t, axis, t.dims[axis], self.inverse, read, write)

    def reference(self, *operands: Array | None) -> tuple[Array, ...]:
        re, im = operand(operands, 0), optional(operands, 1)
        z = re.astype(np.complex128) + (0 if im is None else 1j * im.astype(np.float64))
        size = re.shape[self.axis]
        if size:
            z = np.fft.ifft(z, axis=self.axis) * size if self.inverse else np.fft.fft(z, axis=self.axis)
        return _parts(z, re.dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in WIDE:
            tolerance = 1e-4 if dtype is DType.f32 else 1e-11
            for shape, axis in ((("m", "n"), -1), (("n", "m"), 0), ((2, "n", 3), 1), (("n",), 0)):
                t = tensor(dtype, *shape)
                make = arrays(uniform(-1, 1), uniform(-1, 1), types=(t, t))
                for inverse in (False, True):
                    yield Sample(cls(axis, inverse), (t, t), _SIZES, make=make, rtol=1e-5, atol=tolerance)
                alone = arrays(uniform(-1, 1), types=(t,))
                yield Sample(cls(axis), (t,), _SIZES, make=alone, rtol=1e-5, atol=tolerance)
        fixed = tensor("f32", 3, 30)
        yield Sample(
            cls(), (fixed, fixed), make=arrays(uniform(-1, 1), uniform(-1, 1), types=(fixed, fixed)), atol=1e-4
        )

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n", "m")
        yield Refused(cls(2), (x, x), "axis 2 of `fft` is out of range for rank 2")
        yield Refused(cls(), (x, tensor("f32", "m", "n")), "the real and imaginary parts of `fft` differ in shape")
        yield Refused(cls(), (tensor("f16", "n"),), "`fft` takes f32 or f64")


@dataclass(frozen=True)
class Rfft(KernelOp):
    """The first n // 2 + 1 elements of the transform of real numbers along `axis`; the others mirror them."""

    name: ClassVar[str] = "rfft"
    family: ClassVar[str] = "fft"
    results: ClassVar[int] = 2

    axis: int = -1

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> tuple[TensorType, ...]:
        x = _want(ctx, self.axis, *operands)
        size = x.dims[self.axis]
        require_fact(ctx, Compare("<=", 1, size), f"`rfft` of no elements has no value, and {size} may be 0")
        half = _sized(x, self.axis, size // 2 + 1)
        return half, half

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (re, im), x = outputs, operand(inputs, 0)
        axis, dtype = self.axis % x.type.rank, x.type.dtype

        def write(at: Expr, real: Expr, imaginary: Expr) -> None:
            k.store(re.buffer, at, real)
            k.store(im.buffer, at, imaginary)

        transformed(
            k, x.type, re.type, axis, x.type.dims[axis], False,
            lambda lines, v, i: (k.load(x.buffer, lines.at(v, i), dtype), const(0.0, dtype)), write,
        )  # fmt: skip

    def reference(self, *operands: Array | None) -> tuple[Array, ...]:
        x = operand(operands, 0)
        return _parts(np.fft.rfft(x.astype(np.float64), axis=self.axis), x.dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        facts = (Compare("<=", 1, Dim.of("n")),)
        for dtype in WIDE:
            for shape, axis in ((("m", "n"), -1), (("n", "m"), 0), ((2, "n", 3), 1), (("n",), 0), ((3, 400), 1)):
                t = tensor(dtype, *shape)
                make = arrays(uniform(-1, 1), types=(t,))
                atol = 1e-4 if dtype is DType.f32 else 1e-11
                yield Sample(cls(axis), (t,), _SIZES, facts if "n" in shape else (), make=make, rtol=1e-5, atol=atol)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(1), (tensor("f32", "n"),), "axis 1 of `rfft` is out of range for rank 1")
        yield Refused(cls(), (tensor("f32", "n"),), "`rfft` of no elements has no value, and n may be 0")
        yield Refused(cls(), (tensor("i32", 4),), "`rfft` takes floating-point tensors")


@dataclass(frozen=True)
class Irfft(KernelOp):
    """`n` real numbers along `axis` from the first n // 2 + 1 elements of their transform, times n.

    The imaginary parts of the first element, and of the middle one where n is even, count as 0.
    """

    name: ClassVar[str] = "irfft"
    family: ClassVar[str] = "fft"
    signature: ClassVar[tuple[str, ...]] = ("re", "im")

    n: Size
    axis: int = -1

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, size = _want(ctx, self.axis, *operands), Dim.of(self.n)
        require_fact(ctx, Compare("<=", 1, size), f"the length of `irfft` must be 1 or more; it is {size}")
        ctx.require_equal(
            x.dims[self.axis], size // 2 + 1, f"`irfft` to {size} elements takes n // 2 + 1, and the sizes"
        )
        return _sized(x, self.axis, size)

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (out,), re, im = outputs, operand(inputs, 0), operand(inputs, 1)
        axis, dtype, size = self.axis % re.type.rank, re.type.dtype, Dim.of(self.n)
        zero = const(0.0, dtype)

        def read(lines: Lines, v: Expr, i: Expr) -> tuple[Expr, Expr]:
            twice, n = mul(i, index(2)), index(size)
            mirrored = apply("gt", twice, n)
            at = lines.at(v, k.let(Select(mirrored, sub(n, i), i)))
            turned = k.let(k.load(im.buffer, at, dtype))
            real = apply("logical_or", apply("eq", i, index(0)), apply("eq", twice, n))
            return k.load(re.buffer, at, dtype), select(real, zero, select(mirrored, apply("neg", turned), turned))

        transformed(k, re.type, out.type, axis, size, True, read, lambda at, real, _: k.store(out.buffer, at, real))

    def reference(self, *operands: Array | None) -> Array:
        re, im = operand(operands, 0), operand(operands, 1)
        z = re.astype(np.complex128) + 1j * im.astype(np.float64)
        return np.asarray(np.fft.irfft(z, whole(self.n), axis=self.axis) * whole(self.n)).astype(re.dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        n = Dim.of("n")
        for dtype in WIDE:
            for shape, axis in ((("m", "n"), -1), (("n", "m"), 0), ((2, "n", 3), 1)):
                t = tensor(dtype, *shape)
                make = arrays(uniform(-1, 1), uniform(-1, 1), types=(t, t))
                atol = 1e-4 if dtype is DType.f32 else 1e-11
                for size, least in ((2 * n - 1, 1), (2 * n - 2, 2)):
                    bindings = tuple(b for b in _SIZES if b["n"] >= least)
                    facts = (Compare("<=", least, n),)
                    yield Sample(cls(size, axis), (t, t), bindings, facts, make=make, rtol=1e-5, atol=atol)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "m", 5)
        yield Refused(cls(7), (x, x), "`irfft` to 7 elements takes n // 2 + 1, and the sizes do not match: 5 against 4")
        yield Refused(cls(0), (x, x), "the length of `irfft` must be 1 or more; it is 0")
