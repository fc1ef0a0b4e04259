"""The loop IR: kernels of loops over scalars, and one host program per function.

    Program   = kernels hosts load?
    Kernel    = name buffers sizes body                  sizes are i64 arguments, buffers are flat arrays
    Stmt      = Let(name, value) | Local(name, init) | Assign(name, value)
              | Store(buffer, index, value) | Alloc(buffer, dtype, size)
              | For(var, start, stop, kind, body) | If(condition, then, otherwise) | While(condition, body)
              | Require(ok, check, value) | Contract(...)
    Expr      = Const | Index(dim) | Name | Load(buffer, index) | Apply(fn, args) | Cast(value) | Select(c, a, b)

Indices are element offsets into flat buffers.  An index that is a polynomial in loop variables and sizes is an
`Index` over a `Dim` (loop variables are symbols of it), so that it simplifies with the prover of the shapes; what
depends on data (a loaded index) is built of `Apply` nodes of dtype i64.

`Contract` is a matrix product with expressions for its operands: the accumulator at (m, n) is the sum over k of
`lhs * rhs`, and `epilogue` is run for each (m, n) with the accumulator bound to `acc`.  Targets tile it: the CPU into
packed panels and micro-kernels, the GPU into shared-memory tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Union

from .diagnostics import Span
from .dims import Dim
from .facts import Fact
from .types import DType

# ---------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, eq=False)
class Const:
    value: bool | int | float
    dtype: DType

    def __eq__(self, other: object) -> bool:
        """0.0 is not -0.0 (kernels that are equal are one), and NaN is itself."""
        return isinstance(other, Const) and self.dtype is other.dtype and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash((repr(self.value), self.dtype))


@dataclass(frozen=True)
class Index:
    """An integer (i64) polynomial over loop variables, sizes and i64 `Let` names."""

    dim: Dim

    @property
    def dtype(self) -> DType:
        return DType.i64


@dataclass(frozen=True)
class Name:
    """The value of a `Let` or `Local`."""

    name: str
    dtype: DType


@dataclass(frozen=True)
class Load:
    """`buffer[index]`, in the type the buffer is stored in."""

    buffer: str
    index: Expr
    dtype: DType


@dataclass(frozen=True)
class Apply:
    """A scalar function by name, the pointwise op's name where there is one (`add`, `exp`, `lt`, ...).

    Arithmetic is done in `dtype.compute`; the result has `dtype`; comparisons give bool.
    """

    fn: str
    args: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True)
class Cast:
    """Conversion: float to int truncates, int to float rounds to nearest even, to bool is `!= 0`."""

    value: Expr
    dtype: DType


@dataclass(frozen=True)
class Select:
    """`a` where `condition`, else `b`; both are evaluated unless they contain loads (those are guarded)."""

    condition: Expr
    a: Expr
    b: Expr

    @property
    def dtype(self) -> DType:
        return self.a.dtype


Expr = Union[Const, Index, Name, Load, Apply, Cast, Select]

# ----------------------------------------------------------------------------------------------- statements


@dataclass(frozen=True)
class Let:
    name: str
    value: Expr


@dataclass(frozen=True)
class Local:
    """A scalar that `Assign` may change."""

    name: str
    init: Expr


@dataclass(frozen=True)
class Assign:
    name: str
    value: Expr


@dataclass(frozen=True)
class Store:
    buffer: str
    index: Expr
    value: Expr


@dataclass(frozen=True)
class Alloc:
    """A scratch array of this iteration (of each thread where the loop around it is parallel), not initialised."""

    buffer: str
    dtype: DType
    size: Dim


@dataclass(frozen=True)
class For:
    """`kind`: serial | parallel (iterations are independent) | vector (independent, or a reduction into a Local)."""

    var: str
    start: Expr
    stop: Expr
    body: tuple[Stmt, ...]
    kind: str = "serial"


@dataclass(frozen=True)
class If:
    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


@dataclass(frozen=True)
class While:
    condition: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Require:
    """The call fails with `Kernel.checks[check]` unless `ok`; the kernel goes on (indices are kept in range).

    `value` is an i64 that the message may tell: what was found instead.
    """

    ok: Expr
    check: int
    value: Expr | None = None


@dataclass(frozen=True)
class Contract:
    """For all m < `rows`, n < `cols`: acc = sum over k < `inner` of lhs(m, k) * rhs(k, n); then `epilogue`.

    `m`, `n`, `k` are the names the expressions use; `acc` is a Name in the epilogue, of dtype `dtype` (f32, f64 or
    an integer type).  lhs and rhs are converted to `dtype` before they are multiplied.
    """

    m: str
    n: str
    k: str
    rows: Dim
    cols: Dim
    inner: Dim
    acc: str
    dtype: DType
    lhs: Expr
    rhs: Expr
    epilogue: tuple[Stmt, ...]


@dataclass(frozen=True)
class Micro:
    """One tile of a contraction on the CPU: c[i, j] (+)= sum over k of a[i, k] * b[k, j].

    `rows` (an Expr of value 1..limit of the target) by `width` columns; `a` at element offset `a_offset` with strides
    (`a_row`, `a_col`), `b` a packed panel [inner][width] at `b_offset` with row stride `b_row`, `c` a tile
    with row stride `c_row`; `accumulate` adds to what c holds.
    """

    rows: Expr
    width: int
    inner: Expr
    a: str
    a_offset: Expr
    a_row: Expr
    a_col: Expr
    b: str
    b_offset: Expr
    b_row: Expr
    c: str
    c_offset: Expr
    c_row: Expr
    accumulate: Expr
    dtype: DType


@dataclass(frozen=True)
class Transpose:
    """Packs contiguous rows as columns of a panel: target[i * width + j] = source[i + j * source_row].

    For all i < `length` and j < `width`, from the offsets on; both buffers are of `dtype`.
    """

    width: int
    length: Expr
    source: str
    source_offset: Expr
    source_row: Expr
    target: str
    target_offset: Expr
    dtype: DType


Stmt = Union[Let, Local, Assign, Store, Alloc, For, If, While, Require, Contract, Micro, Transpose]

# -------------------------------------------------------------------------------------------------- kernels


@dataclass(frozen=True)
class Buffer:
    """A flat array argument.  `mode`: in | out | inout; buffers do not overlap unless `may_alias` names the other."""

    name: str
    dtype: DType
    size: Dim
    mode: str
    may_alias: str | None = None


@dataclass(frozen=True)
class Check:
    """What to say when a `Require` fails: `message` may use {expressions} of the host program's sizes, and {value}."""

    message: str
    op: str = ""
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Kernel:
    """`facts` hold whenever the kernel is launched.  `origin` says which ops it came from (for people)."""

    name: str
    buffers: tuple[Buffer, ...]
    sizes: tuple[str, ...]
    body: tuple[Stmt, ...]
    facts: tuple[Fact, ...] = ()
    checks: tuple[Check, ...] = ()
    origin: str = ""


# --------------------------------------------------------------------------------------------- host program


@dataclass(frozen=True)
class HostTensor:
    """A parameter, output, weight or constant as the host sees it: row-major contiguous, `dims` over symbols."""

    name: str
    dtype: DType
    dims: tuple[Dim, ...]
    inout: bool = False


@dataclass(frozen=True)
class BindSymbol:
    """symbol = numerator // divisor; fails unless the division is exact and the result not negative.

    The numerator is over slots and symbols bound before.  Slots are written `name.d`, dimension d of tensor `name`;
    of a tensor without dimensions, which is an i64, `name.0` is its value.
    """

    symbol: str
    numerator: Dim
    divisor: Dim
    origin: str  # "x: f32[n, 64]" for messages
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class CheckEqual:
    """Fails unless slot `actual` (`name.d`, or a size expression for a match_cast) equals `expected`."""

    actual: Dim
    expected: Dim
    origin: str
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class CheckFact:
    """Fails unless the fact holds."""

    fact: Fact
    origin: str
    span: Span | None = field(default=None, compare=False)


HostStep = Union[BindSymbol, CheckEqual, CheckFact]


@dataclass(frozen=True)
class Ref:
    """Where a buffer argument lives: `space` is param | output | weight | const | packed | arena.

    In the arena `offset` is in bytes; elsewhere it is 0 and `name` says which.
    """

    space: str
    name: str
    offset: Dim = Dim.of(0)


@dataclass(frozen=True)
class Launch:
    """One kernel call; `buffers` in the order of the kernel's, `sizes` likewise (expressions over bound symbols)."""

    kernel: str
    buffers: tuple[Ref, ...]
    sizes: tuple[Dim, ...]


@dataclass(frozen=True)
class Copy:
    """Copies `bytes` from one place to another (a result that is an input, an `update` that is not in place)."""

    source: Ref
    target: Ref
    bytes: Dim


@dataclass(frozen=True)
class Result:
    """How the function's results are made of outputs: an output's name, or a tuple of results."""

    item: str | tuple[Result, ...]


IN_USE = "in.use"
"""A symbol of offsets and of the arena's size: 1 where a call has no room for what is planned at the bound and lays
memory out by its own sizes, else 0.  The host code has it from the runtime; no user can write such a name."""


@dataclass(frozen=True)
class HostProgram:
    """The host side of one function: bind and check (`steps`), then `launches` in order.

    `inherited` are symbols bound at load (by weights), available to every expression here.  `scratch_bytes` is what
    each thread needs for the `Alloc`s of the kernels launched here, beside the arena.
    """

    name: str
    params: tuple[HostTensor, ...]
    outputs: tuple[HostTensor, ...]
    results: tuple[Result, ...]
    inherited: tuple[str, ...]
    steps: tuple[HostStep, ...]
    launches: tuple[Launch | Copy, ...]
    arena_bytes: Dim
    scratch_bytes: Dim = Dim.of(0)
    single_result: bool = True


@dataclass(frozen=True)
class Program:
    """`load` runs once, when weights are given: it binds their symbols and makes the `packed` buffers (its outputs)."""

    weights: tuple[HostTensor, ...]
    consts: tuple[HostTensor, ...]
    kernels: tuple[Kernel, ...]
    load: HostProgram | None
    functions: tuple[HostProgram, ...]

    def kernel(self, name: str) -> Kernel:
        for k in self.kernels:
            if k.name == name:
                return k
        raise KeyError(name)


# ------------------------------------------------------------------------------------------------ traversal


def children(node: Expr) -> tuple[Expr, ...]:
    """The sub-expressions of an expression."""
    if isinstance(node, Load):
        return (node.index,)
    if isinstance(node, Apply):
        return node.args
    if isinstance(node, Cast):
        return (node.value,)
    if isinstance(node, Select):
        return (node.condition, node.a, node.b)
    return ()


def map_expr(node: Expr, fn: Callable[[Expr], Expr | None]) -> Expr:
    """Rewrites bottom-up: `fn` gets each node with rewritten children and returns a replacement or None to keep it."""
    new: Expr = node
    if isinstance(node, Load):
        new = replace(node, index=map_expr(node.index, fn))
    elif isinstance(node, Apply):
        new = replace(node, args=tuple(map_expr(a, fn) for a in node.args))
    elif isinstance(node, Cast):
        new = replace(node, value=map_expr(node.value, fn))
    elif isinstance(node, Select):
        new = Select(map_expr(node.condition, fn), map_expr(node.a, fn), map_expr(node.b, fn))
    return fn(new) or new


def expressions(stmt: Stmt) -> Iterator[Expr]:
    """The expressions a statement holds directly (not those of its bodies)."""
    for f in fields(stmt):
        value = getattr(stmt, f.name)
        if isinstance(value, (Const, Index, Name, Load, Apply, Cast, Select)):
            yield value


def bodies(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The statement lists inside a statement."""
    if isinstance(stmt, (For, While)):
        return (stmt.body,)
    if isinstance(stmt, If):
        return (stmt.then, stmt.otherwise)
    if isinstance(stmt, Contract):
        return (stmt.epilogue,)
    return ()


def walk_stmts(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer before inner."""
    for stmt in body:
        yield stmt
        for inner in bodies(stmt):
            yield from walk_stmts(inner)


def walk_expr(node: Expr) -> Iterator[Expr]:
    """Every sub-expression, outer first."""
    yield node
    for child in children(node):
        yield from walk_expr(child)


def map_stmt(stmt: Stmt, fn: Callable[[Expr], Expr | None]) -> Stmt:
    """Rewrites every expression of a statement and of its bodies with `map_expr`."""
    assert is_dataclass(stmt)
    changes: dict[str, object] = {}
    for f in fields(stmt):
        value = getattr(stmt, f.name)
        if isinstance(value, (Const, Index, Name, Load, Apply, Cast, Select)):
            changes[f.name] = map_expr(value, fn)
        elif isinstance(value, tuple) and f.name in ("body", "then", "otherwise", "epilogue"):
            changes[f.name] = tuple(map_stmt(s, fn) for s in value)
    return replace(stmt, **changes)  # type: ignore[arg-type]
