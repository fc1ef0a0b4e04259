"""Random typed modules over most operators and every kind of statement (a hypothesis strategy)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from hypothesis import strategies as st

from pliant.ir.build import ModuleBuilder
from pliant.ir.diagnostics import CompileError
from pliant.ir.graph import Module
from pliant.ir.types import TensorType
from tests.random_drawing import Skip, Value
from tests.random_windows import Windows

FACTS = ((), ("n <= m",), ("n % 2 == 0",), ("n in 0..130", "m in 0..130"), ("m % 4 == 0", "n >= 1"), ("n == m",))
EXTRA_SHAPES = ("[n, m]", "[m]", "[n]", "[n, 1]", "[1, m]", "[]", "[m, 4]", "[4, n]", "[n, m, 3]", "[2, m, n]", "[n+m]")
EXTRA_SHAPES += ("[n, 4, m]", "[n, 4, m]", "[2, 4, n, m]")
EXTRA_DTYPES = ("f32", "f32", "f32", "f32", "i64", "bool", "f16", "bf16", "i32")


@dataclass
class Made:
    """A module, and for each function whether its results are exact."""

    module: Module
    exact: dict[str, tuple[bool, ...]] = field(default_factory=dict)


class Programs(Windows):
    """Draws the statements of one function."""

    def step(self) -> None:
        form = self.one(FORMS)
        form = self.one(FORMS)
        with suppress(Skip):
            form(self)

    def match_cast(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        axis = self.integer(0, v.rank - 1)
        symbol = f"q{self.casts}"
        self.casts += 1
        dims = [symbol if i == axis else str(d) for i, d in enumerate(v.type.dims)]
        try:
            made = self.f.match_cast(v.operand, f"{v.type.dtype}[{', '.join(dims)}]", where=[f"{symbol} >= 0"])
        except CompileError:
            raise Skip from None
        self.add(made, v.exact)


_P = Programs
FORMS: tuple[Callable[[Programs], None], ...] = (
    *(_P.unary, _P.unary, _P.safe_unary, _P.exponential, _P.step_function, _P.binary, _P.binary, _P.binary, _P.divide),
    *(_P.literal, _P.literal, _P.by_size, _P.integers, _P.compare, _P.logical, _P.where, _P.cast, _P.fma),
    *(_P.reduction, _P.reduction, _P.reduction, _P.integer_reduction, _P.argument, _P.softmax, _P.softmax, _P.norm),
    *(_P.norm, _P.scan, _P.order, _P.matmul, _P.matmul, _P.matmul, _P.einsum, _P.permute, _P.permute, _P.reshape),
    *(_P.reshape, _P.squeeze, _P.unsqueeze, _P.expand, _P.slice, _P.slice, _P.concat, _P.stack, _P.split, _P.pad),
    *(_P.flip, _P.roll, _P.repeat, _P.triangle, _P.take, _P.embedding, _P.gather, _P.index_put, _P.create),
    *(_P.size_of, _P.match_cast, _P.conv, _P.conv_transpose, _P.pool_, _P.adaptive, _P.attention, _P.group_norm),
    *(_P.batch_norm, _P.topk, _P.scatter, _P.slice_scatter, _P.diagonal, _P.one_hot, _P.products, _P.shifts),
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
