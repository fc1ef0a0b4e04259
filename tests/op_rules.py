"""Runs what an operator says of its lowering (element rules, roles of a contraction, decomposition) in numpy.

It stands between an op's file and the compiler: a rule that disagrees with the op's `reference` is found without any
code generation.  Expressions are evaluated for a whole iteration space at once; an element read out of bounds where it
is not guarded by a `Select` is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pliant.ir import scalar
from pliant.ir.build import Builder
from pliant.ir.dims import Dim
from pliant.ir.facts import Facts
from pliant.ir.graph import Apply as ApplyStatement
from pliant.ir.graph import DimValue, Literal, NoneValue, Operand, Var
from pliant.ir.infer import infer_apply
from pliant.ir.loops import Apply, Cast, Const, Expr, Index, Load, Name, Select
from pliant.ir.op import CompositeOp, ContractOp, ElementOp, Op, ReduceOp, Sample
from pliant.ir.ops.activation import Gelu, GeluTanh, Relu, sigmoid_array
from pliant.ir.ops.select import Cast as CastOp
from pliant.ir.ops.select import fma_array
from pliant.ir.ops.unary import erf_array
from pliant.ir.types import DType, TensorType

Array = np.ndarray
NAMES = ("x", "y", "z", "u", "v", "w", "a", "b", "c", "d")


# ------------------------------------------------------------------------------------------------- samples


def inferred(
    op: Op, operands: Sequence[object], facts: Sequence[Any] = ()
) -> tuple[tuple[Operand, ...], tuple[TensorType, ...], dict[str, TensorType], Facts]:
    """Typed operands, result types, the types of the names used, and the facts they hold under."""
    known = Facts().add(*facts) if facts else Facts()
    types: dict[str, TensorType] = {}
    given: list[Operand] = []
    for name, o in zip(NAMES, operands, strict=False):
        if isinstance(o, TensorType):
            types[name] = o
            given.append(Var(name))
        else:
            given.append(NoneValue() if o is None else Literal(o))  # type: ignore[arg-type]
    typed, results = infer_apply(op, given, lambda v: types[v.name], known)  # type: ignore[union-attr]
    return typed, results, types, known


def drawn(sample: Sample, binding: dict[str, int], seed: int = 0) -> list[Array | None]:
    """One array an operand; literals in the dtype that inference gives them."""
    rng = np.random.default_rng(seed)
    typed = inferred(sample.op, sample.operands, sample.facts)[0]
    made = sample.make(rng, binding) if sample.make else (None,) * len(sample.operands)
    out: list[Array | None] = []
    for o, given, literal in zip(sample.operands, made, typed, strict=True):
        if isinstance(o, TensorType):
            shape = tuple(d.evaluate(binding) for d in o.dims)
            if given is None:
                given = rng.standard_normal(shape) if o.dtype.is_float else rng.integers(0, 2, shape)
            out.append(np.asarray(given).astype(o.dtype.numpy))
        elif o is None:
            out.append(None)
        else:
            assert isinstance(literal, (Literal, DimValue))
            assert literal.dtype is not None
            out.append(np.asarray(o, dtype=literal.dtype.numpy))
    return out


# --------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True)
class Fold:
    """`ElementContext.reduce` as an expression."""

    kind: str
    names: tuple[str, ...]
    ranges: tuple[tuple[Expr, Expr], ...]
    body: Expr
    init: Expr

    @property
    def dtype(self) -> DType:
        return self.init.dtype


@dataclass
class Context:
    """An ElementContext that names nothing and keeps the requirements for later."""

    facts: Facts
    required: list[tuple[Expr, str]] = field(default_factory=list)
    count: int = 0

    def simplify(self, value: Expr) -> Expr:
        return value

    def let(self, value: Expr) -> Expr:
        return value

    def require(self, ok: Expr, message: str, value: Expr | None = None) -> None:
        assert value is None or value.dtype is DType.i64
        self.required.append((ok, message))

    def reduce(self, kind: str, ranges: Sequence[tuple[Expr, Expr]], body: Callable[..., Expr], init: Expr) -> Expr:
        names = tuple(f"fold{self.count + i}" for i in range(len(ranges)))
        self.count += len(ranges)
        return Fold(kind, names, tuple(ranges), body(*map(scalar.index, names)), init)  # type: ignore[return-value]


@dataclass(frozen=True)
class Operand_:
    """An `Input`: flat row-major reads."""

    buffer: str
    type: TensorType

    def __call__(self, *index: Expr) -> Expr:
        assert len(index) == self.type.rank, f"{len(index)} indices into {self.type}"
        flat: Expr = scalar.index(0)
        for i, size in zip(index, self.type.dims, strict=True):
            flat = scalar.add(scalar.mul(flat, scalar.index(size)), i)
        return Load(self.buffer, flat, self.type.dtype)


class _Numbers:
    """Dims over arrays."""

    def __init__(self, env: dict[str, Any]) -> None:
        self.env = env

    def const(self, value: int) -> Any:
        return np.int64(value)

    def sym(self, name: str) -> Any:
        return np.asarray(self.env[name], dtype=np.int64)

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def mul(self, a: Any, b: Any) -> Any:
        return a * b

    def floordiv(self, a: Any, b: Any) -> Any:
        return np.floor_divide(a, b)

    def mod(self, a: Any, b: Any) -> Any:
        return np.mod(a, b)

    def min(self, a: Any, b: Any) -> Any:
        return np.minimum(a, b)

    def max(self, a: Any, b: Any) -> Any:
        return np.maximum(a, b)


def _round(x: Array) -> Array:
    return np.rint(x)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": np.floor_divide,
    "mod": np.mod, "fmod": np.fmod, "pow": np.power, "maximum": np.maximum, "minimum": np.minimum,
    "atan2": np.arctan2, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "neg": np.negative, "round": _round, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": erf_array,
    "sigmoid": sigmoid_array, "fma": fma_array, "gelu": Gelu().exact, "gelu_tanh": GeluTanh().exact,
    "softplus": lambda x: np.logaddexp(x, 0), "clamp_min": np.maximum, "clamp_max": np.minimum, "relu": Relu().exact,
}  # fmt: skip
PLAIN = (
    "logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not left_shift "
    "right_shift abs sign floor ceil trunc sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh isnan "
    "isinf isfinite"
)
FUNCTIONS |= {name: getattr(np, name) for name in PLAIN.split()}


@dataclass
class Evaluator:
    """Values of expressions over `env` (symbols, loop variables and names) and flat `buffers`."""

    env: dict[str, Any]
    buffers: dict[str, Array]

    def __call__(self, e: Any, live: Any = True) -> Any:
        with np.errstate(all="ignore"):
            return self.value(e, live)

    def value(self, e: Any, live: Any) -> Any:
        if isinstance(e, Const):
            return np.asarray(e.value, dtype=e.dtype.numpy)
        if isinstance(e, Index):
            return e.dim.fold(_Numbers(self.env))
        if isinstance(e, Name):
            return self.env[e.name]
        if isinstance(e, Load):
            return self.load(e, live)
        if isinstance(e, Cast):
            return CastOp(e.dtype).reference(np.asarray(self.value(e.value, live)))
        if isinstance(e, Select):
            assert e.a.dtype is e.b.dtype, (e.a.dtype, e.b.dtype)
            condition = self.value(e.condition, live)
            assert condition.dtype == np.bool_
            return np.where(condition, self.value(e.a, live & condition), self.value(e.b, live & ~condition))
        if isinstance(e, Fold):
            return self.folded(e, live)
        assert isinstance(e, Apply), e
        return self.apply(e, [np.asarray(self.value(a, live)) for a in e.args])

    def apply(self, e: Apply, args: list[Array]) -> Array:
        dtypes = {a.dtype for a in e.args}
        assert len(dtypes) == 1, f"{e.fn} of {dtypes}"
        compute = next(iter(dtypes)).compute.numpy
        return np.asarray(FUNCTIONS[e.fn](*(a.astype(compute) for a in args))).astype(e.dtype.numpy)

    def load(self, e: Load, live: Any) -> Array:
        data = self.buffers[e.buffer]
        assert data.dtype == e.dtype.numpy
        at, live = np.broadcast_arrays(np.asarray(self.value(e.index, live)), np.asarray(live))
        inside = (at >= 0) & (at < data.size)
        assert (inside | ~live).all(), f"{e.buffer} is read out of bounds"
        if data.size == 0:
            return np.zeros(at.shape, data.dtype)
        return data[np.where(inside, at, 0)]

    def folded(self, e: Fold, live: Any) -> Array:
        ranges = [(np.asarray(self.value(a, live)), np.asarray(self.value(b, live))) for a, b in e.ranges]
        total = self.value(e.init, live)
        spans = [range(int(a.min()), int(b.max())) if a.size and b.size else range(0) for a, b in ranges]
        for point in np.ndindex(*(len(s) for s in spans)):
            at = [span[p] for span, p in zip(spans, point, strict=True)]
            inside = np.asarray(True)
            for i, (a, b) in zip(at, ranges, strict=True):
                inside = inside & (a <= i) & (i < b)
            self.env |= dict(zip(e.names, at, strict=True))
            value = self.value(e.body, live & inside)
            assert value.dtype == e.dtype.numpy, (value.dtype, e.dtype)
            total = np.where(inside, FUNCTIONS[e.kind](total, value), total)
        return total


# --------------------------------------------------------------------------------------------------- rules


@dataclass(frozen=True)
class Case:
    """One op on arrays: `types` of the operands that are there, the result types, sizes by symbol."""

    op: Op
    types: tuple[TensorType | None, ...]
    results: tuple[TensorType, ...]
    arrays: tuple[Array | None, ...]
    sizes: dict[str, int]
    facts: Facts

    def inputs(self) -> list[Operand_ | None]:
        return [None if t is None else Operand_(f"%{i}", t) for i, t in enumerate(self.types)]

    def evaluator(self, extra: dict[str, Any]) -> Evaluator:
        buffers = {f"%{i}": a.reshape(-1) for i, a in enumerate(self.arrays) if a is not None}
        return Evaluator({**self.sizes, **extra}, buffers)


def _grid(
    sizes: Sequence[int], prefix: str, before: int = 0, after: int = 0
) -> tuple[tuple[Expr, ...], dict[str, Array]]:
    """Index expressions and their values, broadcastable over `before` + sizes + `after` axes."""
    env = {}
    for axis, n in enumerate(sizes):
        shape = [1] * (before + len(sizes) + after)
        shape[before + axis] = n
        env[f"{prefix}{axis}"] = np.arange(n).reshape(shape)
    return tuple(scalar.index(name) for name in env), env


def _extents(dims: Sequence[Dim], sizes: dict[str, int]) -> list[int]:
    return [d.evaluate(sizes) for d in dims]


def run_rule(case: Case) -> Array | None:
    """The result by the op's own rule; None for kinds that have none here (kernels, aliases)."""
    if isinstance(case.op, ElementOp):
        return _run_element(case, case.op)
    if isinstance(case.op, ReduceOp):
        return _run_reduce(case, case.op)
    if isinstance(case.op, ContractOp):
        return _run_contract(case, case.op)
    if isinstance(case.op, CompositeOp):
        return _run_composite(case, case.op)
    return None


def _run_element(case: Case, op: ElementOp) -> Array:
    (out,) = case.results
    ctx = Context(case.facts)
    extents = _extents(out.dims, case.sizes)
    index, env = _grid(extents, "i")
    value = op.element(ctx, out, index, *case.inputs())
    assert value.dtype is out.dtype, f"{op.name} gives {value.dtype}, not {out.dtype}"
    evaluate = case.evaluator(env)
    live = np.asarray(bool(math.prod(extents)))
    result = np.broadcast_to(evaluate(value, live), extents)
    for ok, message in ctx.required:
        assert not live or np.all(evaluate(ok, live)), message
    return result


def _run_reduce(case: Case, op: ReduceOp) -> Array:
    (x,), (out,) = case.types, case.results
    assert x is not None
    ctx = Context(case.facts)
    axes = op.reduced_axes(x.rank)
    extents = _extents(x.dims, case.sizes)
    index, env = _grid(extents, "i")
    accumulator = op.accumulator(x.dtype)
    x_input = case.inputs()[0]
    assert x_input is not None
    element = scalar.cast(op.before(ctx, x_input(*index)), accumulator)
    values = np.broadcast_to(case.evaluator(env)(element, np.asarray(bool(math.prod(extents)))), extents)
    total = _combine(op, values, axes)
    dtype = DType.i64 if op.combiner in ("argmax", "argmin") else accumulator
    total = total.astype(dtype.numpy)
    final = op.after(ctx, Name("total", dtype), Dim.product(x.dims[a] for a in axes), out.dtype)
    assert final.dtype is out.dtype
    result = np.asarray(case.evaluator({"total": total})(final))
    return result if op.keeps_dims else result.reshape([n for i, n in enumerate(extents) if i not in axes])


@np.errstate(all="ignore")
def _combine(op: ReduceOp, values: Array, axes: tuple[int, ...]) -> Array:
    if op.combiner in ("argmax", "argmin"):
        kept = [a for a in range(values.ndim) if a not in axes]
        rows = values.transpose(*kept, *axes).reshape([values.shape[a] for a in kept] + [-1])
        return np.expand_dims(getattr(np, op.combiner)(rows, axis=-1), axes)
    wide = values.astype(np.float64) if values.dtype.kind == "f" else values
    if op.combiner in ("maximum", "minimum"):
        sign = -1 if op.combiner == "maximum" else 1
        info = np.iinfo(wide.dtype) if wide.dtype.kind in "iu" else None
        bound = sign * math.inf if info is None else info.min if sign < 0 else info.max
        return np.asarray(FUNCTIONS[op.combiner].reduce(wide, axis=axes, keepdims=True, initial=bound))  # type: ignore[attr-defined]
    return np.asarray(FUNCTIONS[op.combiner].reduce(wide, axis=axes, keepdims=True, dtype=wide.dtype))  # type: ignore[attr-defined]


def _run_contract(case: Case, op: ContractOp) -> Array:
    (out,) = case.results
    types = [t for t in case.types if t is not None]
    ctx, plan = Context(case.facts), op.contraction(out, *types)
    roles = [_extents(r, case.sizes) for r in (plan.batch, plan.rows, plan.cols, plan.inner)]
    index, env, before = [], {}, 0
    total_rank = sum(map(len, roles))
    for prefix, extents in zip("bmnk", roles, strict=True):
        i, e = _grid(extents, prefix, before, total_rank - before - len(extents))
        index.append(i)
        env |= e
        before += len(extents)
    b, m, n, k = index
    inputs = [i for i in case.inputs() if i is not None]
    evaluate = case.evaluator(env)
    every = [x for r in roles for x in r]
    live = np.asarray(bool(math.prod(every)))
    wide = np.float64 if plan.accumulator.is_float else plan.accumulator.numpy
    lhs = np.asarray(evaluate(op.lhs(ctx, b, m, k, *inputs), live)).astype(wide)
    rhs = np.asarray(evaluate(op.rhs(ctx, b, k, n, *inputs), live)).astype(wide)
    product = np.broadcast_to(lhs * rhs, every)
    inner = tuple(range(total_rank - len(roles[3]), total_rank))
    result = product.sum(axis=inner, dtype=wide)
    assert sorted(plan.out_order) == list(range(total_rank - len(roles[3])))
    return np.transpose(result, plan.out_order).astype(out.dtype.numpy)


def _run_composite(case: Case, op: CompositeOp) -> Array:
    types = {NAMES[i]: t for i, t in enumerate(case.types) if t is not None}
    values = {NAMES[i]: a for i, a in enumerate(case.arrays) if a is not None}
    builder = Builder(case.facts, dict(types), {})
    given = [NoneValue() if t is None else Var(NAMES[i]) for i, t in enumerate(case.types)]
    result = op.decompose(builder, *given)
    assert not isinstance(result, tuple)
    for statement in builder.statements:
        assert isinstance(statement, ApplyStatement)
        arrays = tuple(_value(o, values, case.sizes) for o in statement.operands)
        got = _sized(statement.op, case.sizes).reference(*arrays)
        for target, a in zip(statement.targets, got if isinstance(got, tuple) else (got,), strict=True):
            assert isinstance(target.type, TensorType)
            assert list(a.shape) == _extents(target.type.dims, case.sizes), (statement.op, a.shape, target.type)
            values[target.name] = a
    assert builder.type(result) == case.results[0], (builder.type(result), case.results[0])
    out = _value(result, values, case.sizes)
    assert out is not None
    return out


def _value(o: Operand, values: dict[str, Array], sizes: dict[str, int]) -> Array | None:
    if isinstance(o, Var):
        return values[o.name]
    if isinstance(o, Literal):
        assert o.dtype is not None
        return np.asarray(o.value, dtype=o.dtype.numpy)
    if isinstance(o, DimValue):
        assert o.dtype is not None
        return np.asarray(o.dim.evaluate(sizes), dtype=o.dtype.numpy)
    assert isinstance(o, NoneValue)
    return None


def _sized(op: Op, sizes: dict[str, int]) -> Op:
    """The op with the symbols of its attributes replaced by their values."""
    from dataclasses import fields, replace

    def put(value: object) -> object:
        if isinstance(value, Dim):
            return value.subs(sizes)
        return tuple(map(put, value)) if isinstance(value, tuple) else value

    changes = {f.name: put(getattr(op, f.name)) for f in fields(op)}
    return replace(op, **changes)  # type: ignore[arg-type]


def case_of(sample: Sample, binding: dict[str, int]) -> Case:
    """A sample at one binding."""
    typed, results, types, facts = inferred(sample.op, sample.operands, sample.facts)
    given: list[TensorType | None] = []
    for o in typed:
        if isinstance(o, Var):
            given.append(types[o.name])
        elif isinstance(o, (Literal, DimValue)):
            assert o.dtype is not None
            given.append(TensorType(o.dtype, ()))
        else:
            given.append(None)
    op = sample.op
    return Case(op, tuple(given), results, tuple(drawn(sample, binding)), binding, facts)
