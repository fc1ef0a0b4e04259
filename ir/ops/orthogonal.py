"""Orthogonal polynomials, of an order that each element has for itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..loops import Expr
from ..op import Array, Array1, InferContext, KernelBuilder, KernelOp, Refused, Sample
from ..scalar import add, apply, cast, const, index, mul, select, sub
from ..types import DType, TensorType, tensor
from ._common import SIZES, arrays, integers, operand, rtol, uniform, want_float
from ._matrix import WIDE
from ._shape import COPIED, tiles

KINDS = ("hermite_h", "hermite_he", "laguerre_l", "legendre_p")
_LONGEST = {DType.f32: 128, DType.f64: 512}
"""The order above which Hermite polynomials are NaN, for they leave the range of the type."""


@dataclass(frozen=True)
class OrthogonalPolynomial(KernelOp):
    """The polynomial of order n at x: Hermite's (`hermite_h`, `hermite_he`), Laguerre's or Legendre's; 0 for n below 0.

    Of an order that is no whole number its whole part counts.  Computed by the recurrence of three terms, as many
    steps as the order says (Abramowitz and Stegun, 22.7), in the type of x.
    """

    name: ClassVar[str] = "orthogonal_polynomial"
    family: ClassVar[str] = "special"
    signature: ClassVar[tuple[str, ...]] = ("x", "n")

    kind: str

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x, n = operand(operands, 0), operand(operands, 1)
        ctx.require(self.kind in KINDS, f"the kind of `{self.name}` is one of {', '.join(KINDS)}, not {self.kind}")
        want_float(ctx, 0, x)
        ctx.require(x.dtype in WIDE, f"`{self.name}` takes f32 or f64; {ctx.name(0)} is {x}")
        ctx.same_dtype(x, n)
        same = x.rank == n.rank and all(map(ctx.facts.prove_eq, x.dims, n.dims))
        ctx.require(same, f"the operands of `{self.name}` differ in shape: {x} against {n}")
        return x

    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None:
        (out,), x, n = outputs, operand(inputs, 0), operand(inputs, 1)
        dtype = x.type.dtype

        def one(i: Expr) -> None:
            order = k.let(cast(k.load(n.buffer, i, dtype), DType.i64))
            k.store(out.buffer, i, self._value(k, k.let(k.load(x.buffer, i, dtype)), order, dtype))

        tiles(k, x.type.size, COPIED, lambda start, stop: k.loop("i", start, stop, one))

    def _value(self, k: KernelBuilder, x: Expr, order: Expr, dtype: DType) -> Expr:
        one, nan = const(1.0, dtype), const(float("nan"), dtype)
        before, value = k.local(one), k.local(self._first(x, dtype))
        hermite = self.kind.startswith("hermite")
        last = k.let(apply("minimum", order, index(_LONGEST[dtype]))) if hermite else order

        def step(j: Expr) -> None:
            after = k.let(self._next(x, cast(j, dtype), before, value, dtype))
            k.assign(before, value)
            k.assign(value, after)

        k.loop("j", index(1), last, step)
        made: Expr = select(apply("eq", order, index(0)), one, value)
        if hermite:
            made = select(apply("gt", order, index(_LONGEST[dtype])), nan, made)
        return select(apply("lt", order, index(0)), const(0.0, dtype), made)

    def _first(self, x: Expr, dtype: DType) -> Expr:
        if self.kind == "laguerre_l":
            return sub(const(1.0, dtype), x)
        return add(x, x) if self.kind == "hermite_h" else x

    def _next(self, x: Expr, j: Expr, before: Expr, value: Expr, dtype: DType) -> Expr:
        """The polynomial of order j + 1 from those of j - 1 and j."""
        one = const(1.0, dtype)
        if self.kind == "hermite_h":
            return sub(mul(add(x, x), value), mul(add(j, j), before))
        if self.kind == "hermite_he":
            return sub(mul(x, value), mul(j, before))
        twice = add(add(j, j), one)
        slope = sub(twice, x) if self.kind == "laguerre_l" else mul(twice, x)
        return apply("div", sub(mul(slope, value), mul(j, before)), add(j, one))

    def reference(self, *operands: Array | None) -> Array:
        x, n = operand(operands, 0), operand(operands, 1)
        family = {
            "hermite_h": np.polynomial.hermite.hermval,
            "hermite_he": np.polynomial.hermite_e.hermeval,
            "laguerre_l": np.polynomial.laguerre.lagval,
            "legendre_p": np.polynomial.legendre.legval,
        }[self.kind]
        out = np.zeros(x.shape)
        for at in np.ndindex(x.shape):
            order = int(n[at])
            if order >= 0:
                out[at] = family(float(x[at]), np.eye(order + 1)[order])
        return out.astype(x.dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in WIDE:
            t = tensor(dtype, "n", "m")
            make = arrays(uniform(-2, 2), integers(-2, 9), types=(t, t))
            for kind in KINDS:
                yield Sample(cls(kind), (t, t), SIZES, make=make, rtol=20 * rtol(dtype), atol=1e-3)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x = tensor("f32", "n")
        yield Refused(cls("jacobi"), (x, x), "the kind of `orthogonal_polynomial` is one of")
        own, half = cls("legendre_p"), tensor("f16", 2)
        yield Refused(own, (x, tensor("f32", "m")), "the operands of `orthogonal_polynomial` differ in shape")
        yield Refused(own, (half, half), "`orthogonal_polynomial` takes f32 or f64")
