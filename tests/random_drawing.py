"""Drawing the statements of a random function: the pool of values, pointwise operators and reductions.

Values are kept from growing, so that they can be compared: what would make a small rounding error large (a comparison,
an index, a step function) is only applied to values that are *exact*, those every correct program computes to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from pliant.ir.build import FunctionBuilder
from pliant.ir.diagnostics import CompileError
from pliant.ir.dims import Dim
from pliant.ir.graph import Operand
from pliant.ir.types import DType, TensorType

UNARY = ("neg", "abs", "relu", "tanh", "sigmoid", "sin", "cos", "gelu", "gelu_tanh", "silu", "softplus", "erf", "atan")
UNARY += ("hardtanh", "hardswish", "hardsigmoid", "leaky_relu", "elu", "asinh", "expm1")
UNARY_EXACT = ("neg", "abs", "relu", "hardtanh", "leaky_relu")
STEPS = ("floor", "ceil", "round", "trunc", "sign")
INTEGER_UNARY = ("neg", "abs", "sign", "bitwise_not")
INTEGER_BINARY = ("add", "sub", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
FLOATS = (DType.f32, DType.f16, DType.bf16)
SIZES = ("n", "m", "1", "3", "2*n", "n+m", "4")


@dataclass(frozen=True)
class Value:
    operand: Operand
    type: TensorType
    exact: bool

    @property
    def is_float(self) -> bool:
        return self.type.dtype.is_float

    @property
    def rank(self) -> int:
        return len(self.type.dims)


class Skip(Exception):
    """Nothing in the pool will do for the form drawn."""


class Drawing:
    """Draws the statements of one function: from what they are drawn, and those that need no loops of their own."""

    def __init__(self, draw: st.DrawFn, f: FunctionBuilder, pool: list[Value]) -> None:
        self.draw, self.f, self.pool = draw, f, pool
        self.casts = 0

    # -- drawing

    def one(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def value(self, fits: Callable[[Value], bool] = lambda v: True) -> Value:
        fitting = [v for v in self.pool if fits(v)]
        if not fitting:
            raise Skip
        return self.one(reversed(fitting))

    def real(self, rank: int = 0, exact: bool = False) -> Value:
        return self.value(lambda v: v.is_float and v.rank >= rank and (v.exact or not exact))

    def axes(self, v: Value) -> list[int]:
        return sorted(self.draw(st.sets(st.integers(0, v.rank - 1), min_size=1)))

    def size(self) -> Dim:
        return self.f.dim(self.one(SIZES))

    def emit(self, op: str, *operands: Any, exact: bool, **attributes: Any) -> None:
        """Appends the op; does nothing where its type rule refuses."""
        given = [o.operand if isinstance(o, Value) else o for o in operands]
        try:
            made = getattr(self.f, op)(*given, **attributes)
        except CompileError:
            raise Skip from None
        self.add(made, exact)

    def add(self, made: Any, exact: bool) -> None:
        for var in made if isinstance(made, tuple) else (made,):
            self.pool.append(Value(var, self.f.type(var), exact))

    # -- pointwise

    def unary(self) -> None:
        v = self.real()
        op = self.one(UNARY)
        self.emit(op, v, exact=v.exact and op in UNARY_EXACT)

    def safe_unary(self) -> None:
        """Functions of a limited domain, on a value made to lie in it."""
        v = self.real()
        positive = self.f.add(self.f.abs(v.operand), 0.5)
        made = getattr(self.f, self.one(("sqrt", "rsqrt", "log", "log2", "reciprocal", "log1p")))(positive)
        self.add(made, False)

    def exponential(self) -> None:
        v = self.real()
        self.add(self.f.exp(self.f.clamp(v.operand, -4.0, 2.0)), False)

    def step_function(self) -> None:
        self.emit(self.one(STEPS), self.real(exact=True), exact=True)

    def partner(self, v: Value, exact: bool = False) -> Value:
        return self.value(lambda o: o.type.dtype is v.type.dtype and (o.exact or not exact))

    def binary(self) -> None:
        v = self.real()
        o = self.partner(v)
        op = self.one(("add", "sub", "mul", "maximum", "minimum", "add", "mul"))
        exact = v.exact and o.exact and op in ("maximum", "minimum")
        if op == "mul":
            v = Value(self.f.hardtanh(v.operand, min_val=-3.0, max_val=3.0), v.type, False)
        self.emit(op, *(self.one([(v, o), (o, v)])), exact=exact)

    def divide(self) -> None:
        v = self.real()
        o = self.partner(v)
        self.emit("div", v, self.f.add(self.f.abs(o.operand), 0.5), exact=False)

    def literal(self) -> None:
        v = self.real()
        op = self.one(("add", "sub", "mul", "maximum", "minimum"))
        pair = [v, self.one((0, 1, -1.5, 0.5, 2))]
        self.emit(
            op, *(pair if self.draw(st.booleans()) else pair[::-1]), exact=v.exact and op in ("maximum", "minimum")
        )

    def by_size(self) -> None:
        v = self.real()
        self.emit(self.one(("add", "sub")), v, self.f.dim(self.one(("n", "m", "n+m", "2*n"))), exact=False)
        self.emit("mul", self.pool[-1], 0.01, exact=False)

    def integers(self) -> None:
        v = self.value(lambda v: v.type.dtype.is_int)
        if self.draw(st.booleans()):
            self.emit(self.one(INTEGER_UNARY), v, exact=True)
        elif self.draw(st.booleans()):
            self.emit(self.one(("floordiv", "mod", "add", "mul")), v, self.one((2, 3, -3, 7)), exact=True)
        else:
            self.emit(self.one(INTEGER_BINARY), v, self.partner(v), exact=True)

    def compare(self) -> None:
        v = self.value(lambda v: v.exact and not v.type.dtype.is_bool)
        other = self.partner(v, exact=True) if self.draw(st.booleans()) else 0
        self.emit(self.one(COMPARE), v, other, exact=True)

    def logical(self) -> None:
        v = self.value(lambda v: v.type.dtype.is_bool)
        if self.draw(st.booleans()):
            self.emit("logical_not", v, exact=True)
        else:
            self.emit(self.one(("logical_and", "logical_or", "logical_xor")), v, self.partner(v), exact=True)

    def where(self) -> None:
        condition = self.value(lambda v: v.type.dtype.is_bool)
        v = self.value()
        o = self.partner(v) if self.draw(st.booleans()) else self.one((0, 1))
        self.emit("where", condition, v, o, exact=v.exact and (not isinstance(o, Value) or o.exact))

    def cast(self) -> None:
        v = self.value()
        if v.is_float:
            self.emit("cast", v, dtype=self.one(FLOATS), exact=v.exact)
        else:
            self.emit("cast", v, dtype=self.one((DType.i32, DType.i64, DType.bool, DType.f32)), exact=True)

    def fma(self) -> None:
        v = self.real()
        self.emit("fma", v, 0.5, self.partner(v), exact=False)

    # -- reductions and rows

    def reduction(self) -> None:
        v = self.real(rank=1)
        op = self.one(("sum", "mean", "max", "min", "logsumexp", "norm", "var", "std", "sum", "max"))
        axis = self.one((None, self.axes(v)))
        keep = self.draw(st.booleans())
        more: dict[str, Any] = {}
        if op in ("max", "min"):
            more["initial"] = -3.0
        if op in ("sum", "norm"):
            scaled = self.f.mul(v.operand, 0.05)
            v = Value(scaled, v.type, False)
        if op == "std":
            op = "var"
        self.emit(op, v, axis=axis, keepdims=keep, **more, exact=v.exact and op in ("max", "min"))

    def integer_reduction(self) -> None:
        v = self.value(lambda v: v.rank >= 1 and v.exact and not v.is_float)
        ops = ("any", "all") if v.type.dtype.is_bool else ("sum", "sum", "any", "all")
        self.emit(self.one(ops), v, axis=self.one((None, self.axes(v))), keepdims=self.draw(st.booleans()), exact=True)

    def argument(self) -> None:
        v = self.value(lambda v: v.rank >= 1 and v.exact and not v.type.dtype.is_bool)
        axis = self.integer(0, v.rank - 1)
        self.emit(self.one(("argmax", "argmin")), v, axis=axis, keepdims=self.draw(st.booleans()), exact=True)

    def softmax(self) -> None:
        v = self.real(rank=1)
        self.emit(self.one(("softmax", "log_softmax")), v, axis=self.integer(-v.rank, v.rank - 1), exact=False)

    def norm(self) -> None:
        v = self.real(rank=1)
        op = self.one(("layer_norm", "rms_norm"))
        scale = [
            o for o in self.pool if o.rank == 1 and o.type.dtype is v.type.dtype and o.type.dims[0] == v.type.dims[-1]
        ]
        operands = [v] + ([self.one(scale)] if scale and self.draw(st.booleans()) else [])
        # eps is large so that rows of nearly equal values do not make rounding errors visible
        self.emit(op, *operands, eps=0.1, exact=False)

    def scan(self) -> None:
        v = self.real(rank=1)
        op = self.one(("cumsum", "cummax", "cummin"))
        if op == "cumsum":
            v = Value(self.f.mul(v.operand, 0.1), v.type, False)
        self.emit(
            op,
            v,
            axis=self.integer(0, v.rank - 1),
            exact=v.exact,
            **({} if op != "cumsum" else {"reverse": self.draw(st.booleans())}),
        )

    def order(self) -> None:
        v = self.value(lambda v: v.rank >= 1 and v.exact and not v.type.dtype.is_bool)
        self.emit("sort", v, axis=self.integer(0, v.rank - 1), exact=True)
