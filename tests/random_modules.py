"""Random typed modules over most operators and every kind of statement (a hypothesis strategy).

Values are kept from growing, so that they can be compared: what would make a small rounding error large (a comparison,
an index, a step function) is only applied to values that are *exact*, those every correct program computes to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from pliant.ir.build import FunctionBuilder, ModuleBuilder
from pliant.ir.diagnostics import CompileError
from pliant.ir.dims import Dim
from pliant.ir.graph import Module, Operand
from pliant.ir.types import DType, TensorType

UNARY = ("neg", "abs", "relu", "tanh", "sigmoid", "sin", "cos", "gelu", "gelu_tanh", "silu", "softplus", "erf", "atan")
UNARY += ("hardtanh", "hardswish", "hardsigmoid", "leaky_relu", "elu", "asinh", "expm1")
UNARY_EXACT = ("neg", "abs", "relu", "hardtanh", "leaky_relu")
STEPS = ("floor", "ceil", "round", "trunc", "sign")
INTEGER_UNARY = ("neg", "abs", "sign", "bitwise_not")
INTEGER_BINARY = ("add", "sub", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
FLOATS = (DType.f32, DType.f16, DType.bf16)
FACTS = ((), ("n <= m",), ("n % 2 == 0",), ("n in 0..130", "m in 0..130"), ("m % 4 == 0", "n >= 1"), ("n == m",))
SIZES = ("n", "m", "1", "3", "2*n", "n+m", "4")
EXTRA_SHAPES = ("[n, m]", "[m]", "[n]", "[n, 1]", "[1, m]", "[]", "[m, 4]", "[4, n]", "[n, m, 3]", "[2, m, n]", "[n+m]")
EXTRA_DTYPES = ("f32", "f32", "f32", "f32", "i64", "bool", "f16", "bf16", "i32")


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


@dataclass
class Made:
    """A module, and for each function whether its results are exact."""

    module: Module
    exact: dict[str, tuple[bool, ...]] = field(default_factory=dict)


class _Skip(Exception):
    """Nothing in the pool will do for the form drawn."""


class Programs:
    """Draws the statements of one function."""

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
            raise _Skip
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
            raise _Skip from None
        self.add(made, exact)

    def add(self, made: Any, exact: bool) -> None:
        for var in made if isinstance(made, tuple) else (made,):
            self.pool.append(Value(var, self.f.type(var), exact))

    def step(self) -> None:
        form = self.one(FORMS)
        try:
            form(self)
        except _Skip:
            pass

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
        self.emit(op, *(pair if self.draw(st.booleans()) else pair[::-1]), exact=v.exact and op in ("maximum", "minimum"))

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
        scale = [o for o in self.pool if o.rank == 1 and o.type.dtype is v.type.dtype and o.type.dims[0] == v.type.dims[-1]]
        operands = [v] + ([self.one(scale)] if scale and self.draw(st.booleans()) else [])
        # eps is large so that rows of nearly equal values do not make rounding errors visible
        self.emit(op, *operands, eps=0.1, exact=False)

    def scan(self) -> None:
        v = self.real(rank=1)
        op = self.one(("cumsum", "cummax", "cummin"))
        if op == "cumsum":
            v = Value(self.f.mul(v.operand, 0.1), v.type, False)
        self.emit(op, v, axis=self.integer(0, v.rank - 1), exact=v.exact, **({} if op != "cumsum" else {"reverse": self.draw(st.booleans())}))

    def order(self) -> None:
        v = self.value(lambda v: v.rank >= 1 and v.exact and not v.type.dtype.is_bool)
        self.emit("sort", v, axis=self.integer(0, v.rank - 1), exact=True)

    # -- contractions

    def matmul(self) -> None:
        v = self.real(rank=1)
        v = Value(self.f.mul(v.operand, 0.2), v.type, False)
        partners = [o for o in self.pool if o.rank >= 1 and o.type.dtype is v.type.dtype]
        options = [
            (o, ta, tb, swap)
            for o in partners[-12:]
            for ta in (False, True)
            for tb in (False, True)
            for swap in (False, True)
            if _inner(v, o, ta, tb, swap) and not (ta and (o if swap else v).rank < 2) and not (tb and (v if swap else o).rank < 2)
        ]
        if not options:
            raise _Skip
        o, ta, tb, swap = self.one(options)
        a, b = (o, v) if swap else (v, o)
        self.emit("matmul", a, b, transpose_a=ta, transpose_b=tb, exact=False)
        if self.draw(st.booleans()):
            self.emit("relu", self.pool[-1], exact=False)

    def einsum(self) -> None:
        v = self.value(lambda v: v.type.dtype is DType.f32 and v.rank == 2)
        scaled = Value(self.f.mul(v.operand, 0.2), v.type, False)
        o = self.value(lambda o: o.type.dtype is DType.f32 and o.rank in (1, 2))
        equation = self.one(("ij,kj->ik", "ij,ij->i", "ij,ij->ji", "ij,kj->ki", "ij,ik->jk") if o.rank == 2 else ("ij,j->i", "ij,k->ikj", "ij,i->j"))
        self.emit("einsum", scaled, o, equation=equation, exact=False)

    # -- views

    def permute(self) -> None:
        v = self.value(lambda v: v.rank >= 2)
        self.emit("permute", v, axes=self.draw(st.permutations(range(v.rank))), exact=v.exact)

    def reshape(self) -> None:
        v = self.value()
        dims = list(v.type.dims)
        shapes = [[*dims, Dim.of(1)], [Dim.of(1), *dims]]
        if len(dims) >= 2:
            shapes += [dims[::-1], [dims[0] * dims[1], *dims[2:]], [*dims[:-2], dims[-2] * dims[-1]]]
        one, two = self.f.dim("n"), Dim.of(2)
        if dims and dims[0] == one * 2:
            shapes += [[two, one, *dims[1:]], [one, two, *dims[1:]]]
        if dims and dims[-1] == Dim.of(4):
            shapes.append([*dims[:-1], two, two])
        self.emit("reshape", v, shape=self.one(shapes), exact=v.exact)

    def squeeze(self) -> None:
        v = self.value(lambda v: any(d == Dim.of(1) for d in v.type.dims))
        self.emit("squeeze", v, axis=self.one(i for i, d in enumerate(v.type.dims) if d == Dim.of(1)), exact=v.exact)

    def unsqueeze(self) -> None:
        v = self.value(lambda v: v.rank <= 3)
        self.emit("unsqueeze", v, axis=self.integer(0, v.rank), exact=v.exact)

    def expand(self) -> None:
        v = self.value(lambda v: v.rank <= 3)
        dims = [self.size() if d == Dim.of(1) else d for d in v.type.dims]
        if self.draw(st.booleans()) and v.rank <= 2:
            dims = [self.size(), *dims]
        self.emit("broadcast_to", v, shape=dims, exact=v.exact)

    def slice(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        axis = self.integer(0, v.rank - 1)
        size = v.type.dims[axis]
        bounds = [None, 0, 1, 2, -1, -2, size // 2, size - 1, self.f.dim("n"), 100]
        start, stop = self.one(bounds), self.one(bounds)
        self.emit("slice", v, axis=axis, start=start, stop=stop, step=self.one((1, 1, 2, 3, -1, -2)), exact=v.exact)

    def concat(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        axis = self.integer(0, v.rank - 1)
        others = [o for o in self.pool if o.type.dtype is v.type.dtype and o.rank == v.rank and _equal_but(o, v, axis)]
        parts = [v, *(self.one(others) for _ in range(self.integer(1, 2)))]
        self.emit("concat", *parts, axis=axis, exact=all(p.exact for p in parts))

    def stack(self) -> None:
        v = self.value(lambda v: v.rank <= 3)
        o = self.value(lambda o: o.type == v.type)
        self.emit("stack", v, o, axis=self.integer(0, v.rank), exact=v.exact and o.exact)

    def split(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        axis = self.integer(0, v.rank - 1)
        size = v.type.dims[axis]
        if size == Dim.of(4):
            self.emit("split", v, sections=2, axis=axis, exact=v.exact)
        else:
            self.emit("split", v, sizes=[size // 2, size - size // 2], axis=axis, exact=v.exact)

    def pad(self) -> None:
        v = self.value(lambda v: 1 <= v.rank <= 3)
        pads = [(self.integer(-1, 2), self.integer(0, 2)) for _ in range(v.rank)]
        value = 0 if v.type.dtype.is_bool else self.one((0, 1))
        self.emit("pad", v, pads=pads, value=value, exact=v.exact)

    def flip(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        self.emit("flip", v, axis=self.axes(v), exact=v.exact)

    def roll(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        self.emit("roll", v, shift=self.one((1, -1, 2)), axis=self.integer(0, v.rank - 1), exact=v.exact)

    def repeat(self) -> None:
        v = self.value(lambda v: 1 <= v.rank <= 3)
        self.emit("repeat", v, repeats=[self.integer(1, 2) for _ in range(v.rank)], exact=v.exact)

    def triangle(self) -> None:
        v = self.value(lambda v: v.rank >= 2)
        self.emit(self.one(("tril", "triu")), v, diagonal=self.integer(-1, 1), exact=v.exact)

    # -- indices and creation

    def indices(self, size: Dim) -> Value:
        """Indices that lie in 0..size, whatever it is."""
        made = self.f.arange(stop=size)
        if self.draw(st.booleans()):
            made = self.f.flip(made, axis=0)
        return Value(made, self.f.type(made), True)

    def take(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        axis = self.integer(0, v.rank - 1)
        self.emit("take", v, self.indices(v.type.dims[axis]), axis=axis, exact=v.exact)

    def embedding(self) -> None:
        table = self.value(lambda v: v.is_float and v.rank == 2)
        self.emit("embedding", table, self.indices(table.type.dims[0]), exact=table.exact)

    def gather(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        axis = self.integer(0, v.rank - 1)
        chosen = self.f.iota(shape=v.type.dims, axis=axis)
        if self.draw(st.booleans()):
            chosen = self.f.flip(chosen, axis=axis)
        self.emit("gather", v, chosen, axis=axis, exact=v.exact)

    def index_put(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        o = self.value(lambda o: o.type == v.type)
        self.emit("index_put", v, o, self.indices(v.type.dims[0]), exact=v.exact and o.exact)

    def create(self) -> None:
        shape = [self.size() for _ in range(self.integer(1, 2))]
        form = self.integer(0, 3)
        if form == 0:
            self.emit("full", shape=shape, value=self.one((0.0, 1.5, 2)), exact=True)
        elif form == 1:
            self.emit("iota", shape=shape, axis=self.integer(0, len(shape) - 1), exact=True)
        elif form == 2:
            self.emit("eye", n=shape[0], m=shape[-1], exact=True)
        else:
            self.emit("arange", start=1, stop=shape[0] + 3, step=2, dtype=DType.f32, exact=True)

    def size_of(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        self.emit("dim_", v, axis=self.integer(0, v.rank - 1), exact=True)

    # -- statements

    def match_cast(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        axis = self.integer(0, v.rank - 1)
        symbol = f"q{self.casts}"
        self.casts += 1
        dims = [symbol if i == axis else str(d) for i, d in enumerate(v.type.dims)]
        try:
            made = self.f.match_cast(v.operand, f"{v.type.dtype}[{', '.join(dims)}]", where=[f"{symbol} >= 0"])
        except CompileError:
            raise _Skip from None
        self.add(made, v.exact)


def _inner(v: Value, o: Value, ta: bool, tb: bool, swap: bool) -> bool:
    a, b = (o, v) if swap else (v, o)
    ka = a.type.dims[-1] if a.rank == 1 else a.type.dims[-2 if ta else -1]
    kb = b.type.dims[-1] if b.rank == 1 else b.type.dims[-1 if tb else -2]
    return ka == kb


def _equal_but(o: Value, v: Value, axis: int) -> bool:
    return all(i == axis or a == b for i, (a, b) in enumerate(zip(o.type.dims, v.type.dims, strict=True)))


_P = Programs
FORMS: tuple[Callable[[Programs], None], ...] = (
    *(_P.unary, _P.unary, _P.safe_unary, _P.exponential, _P.step_function, _P.binary, _P.binary, _P.binary, _P.divide),
    *(_P.literal, _P.literal, _P.by_size, _P.integers, _P.compare, _P.logical, _P.where, _P.cast, _P.fma),
    *(_P.reduction, _P.reduction, _P.reduction, _P.integer_reduction, _P.argument, _P.softmax, _P.softmax, _P.norm),
    *(_P.norm, _P.scan, _P.order, _P.matmul, _P.matmul, _P.matmul, _P.einsum, _P.permute, _P.permute, _P.reshape),
    *(_P.reshape, _P.squeeze, _P.unsqueeze, _P.expand, _P.slice, _P.slice, _P.concat, _P.stack, _P.split, _P.pad),
    *(_P.flip, _P.roll, _P.repeat, _P.triangle, _P.take, _P.embedding, _P.gather, _P.index_put, _P.create),
    *(_P.size_of, _P.match_cast),
)


@st.composite
def modules(draw: st.DrawFn, functions: int = 3, steps: int = 10) -> Made:
    """A module of some functions, the later of which may call the earlier ones; `@f0`, `@f1`, ..."""
    builder = ModuleBuilder()
    made = Made(Module((), (), ()))
    for number in range(draw(st.integers(1, functions))):
        _function(draw, builder, f"f{number}", steps, made)
    made.module = builder.build()
    return made


def _function(draw: st.DrawFn, builder: ModuleBuilder, name: str, steps: int, made: Made) -> None:
    params = {"x": "f32[n, m]"}
    for i in range(draw(st.integers(0, 3))):
        params[f"p{i}"] = draw(st.sampled_from(EXTRA_DTYPES)) + draw(st.sampled_from(EXTRA_SHAPES))
    inout = draw(st.booleans())
    if inout:
        params["c"] = "inout f32[n, m]"
    f = builder.function(name, params, where=draw(st.sampled_from(FACTS)))
    pool = [Value(f[p], f.type(f[p]), True) for p in params]
    drawn = Programs(draw, f, pool)
    for _ in range(draw(st.integers(1, steps))):
        drawn.step()
    for earlier in list(made.exact):
        if draw(st.booleans()):
            _call(drawn, builder, earlier, made)
    if inout:
        fitting = [v for v in pool if str(v.type) == "f32[n, m]"]
        f.update("c", draw(st.sampled_from(fitting[::-1])).operand)
    results = draw(st.lists(st.sampled_from(pool[::-1]), min_size=1, max_size=4))
    if len(results) > 2 and draw(st.booleans()):
        f.returns(results[0].operand, tuple(r.operand for r in results[1:]))
    else:
        f.returns(*(r.operand for r in results))
    made.exact[name] = tuple(r.exact for r in results)


def _call(drawn: Programs, builder: ModuleBuilder, name: str, made: Made) -> None:
    """Calls a function built before with its own kind of operands, where there are some."""
    callee = next(f.function() for f in builder._functions if f.name == name)
    if any(p.inout for p in callee.params) or any(not isinstance(r, TensorType) for r in callee.results):
        return
    operands = []
    for p in callee.params:
        fitting = [v for v in drawn.pool if v.exact and str(v.type) == str(p.type)]
        if not fitting:
            return
        operands.append(drawn.one(fitting).operand)
    try:
        results = drawn.f.call(name, *operands, results=len(callee.results))
    except CompileError:
        return
    for var, exact in zip(results if isinstance(results, tuple) else (results,), made.exact[name], strict=True):
        drawn.add(var, exact)
