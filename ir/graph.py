"""The graph IR: a module of weights, constants and functions of statements.

    Module    = weights consts functions
    Function  = name params results facts likely body
    Param     = name type inout?
    Block     = statements results
    Statement = Apply(targets, op, operands)            v, i = topk(x, k=5)
              | CallFunction(targets, function, operands)     w = @f(x, y)
              | MatchCast(target: type, operand, facts)        y: f32[k] = match_cast(x) where k <= n
              | Field(target, operand, index)                  a = y.0
              | Update(param, operand)                         update cache = c2
              | Bind(symbol, operand, facts)                   bind k = t where k in 0..n
              | If(targets, condition, then, otherwise) | While(targets, inits, condition, body)
    Operand   = Var | GlobalRef | Literal | DimValue | TupleValue | NoneValue

Everything is a frozen dataclass that compares without its span, so `parse(print(m)) == m` is a plain comparison.
Types on targets are None until the `infer` pass (or the text) has filled them in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Union

from .diagnostics import Span
from .dims import Dim
from .facts import Fact
from .op import Op
from .types import DType, TensorType, Type

_span = field(default=None, compare=False, repr=False)
_SHOWN = 3  # functions in the repr of a module


@dataclass(frozen=True)
class Var:
    """A value of this function, by name."""

    name: str
    span: Span | None = _span


@dataclass(frozen=True)
class GlobalRef:
    """A weight or a constant of the module, by name (without the `@`)."""

    name: str
    span: Span | None = _span


@dataclass(frozen=True)
class Literal:
    """A number; its dtype is that of the other operands (filled in by `infer`, None before)."""

    value: bool | int | float
    dtype: DType | None = None
    span: Span | None = _span


@dataclass(frozen=True)
class DimValue:
    """A size used as a value: `div(x, n)`; like a literal it takes the dtype of the other operands."""

    dim: Dim
    dtype: DType | None = None
    span: Span | None = _span


@dataclass(frozen=True)
class TupleValue:
    items: tuple[Operand, ...]
    span: Span | None = _span


@dataclass(frozen=True)
class NoneValue:
    """An optional operand that is not given."""

    span: Span | None = _span


Operand = Union[Var, GlobalRef, Literal, DimValue, TupleValue, NoneValue]


@dataclass(frozen=True)
class Target:
    name: str
    type: Type | None = None
    span: Span | None = _span


@dataclass(frozen=True)
class Apply:
    """An op applied to operands; as many targets as the op has results."""

    targets: tuple[Target, ...]
    op: Op
    operands: tuple[Operand, ...]
    span: Span | None = _span


@dataclass(frozen=True)
class CallFunction:
    targets: tuple[Target, ...]
    function: str
    operands: tuple[Operand, ...]
    span: Span | None = _span


@dataclass(frozen=True)
class MatchCast:
    """Asserts `target.type` (never None here) at run time; symbols new in it are bound, `facts` checked."""

    target: Target
    operand: Operand
    facts: tuple[Fact, ...] = ()
    span: Span | None = _span


@dataclass(frozen=True)
class Field:
    """One item of a tuple."""

    target: Target
    operand: Operand
    index: int
    span: Span | None = _span


@dataclass(frozen=True)
class Assign:
    """Another name for a value, or a tuple given a name: `p = (a, b)`."""

    target: Target
    operand: Operand
    span: Span | None = _span


@dataclass(frozen=True)
class Update:
    """`update cache = c2`: the caller's buffer of the inout parameter holds `operand` when the function returns.

    Reads of the parameter's name always mean the value it came with, so that programs stay in SSA form.
    """

    param: str
    operand: Operand
    span: Span | None = _span


@dataclass(frozen=True)
class Bind:
    """The value of an i64[], which the host must know before the first kernel, becomes a size; it is not negative."""

    symbol: str
    operand: Operand
    facts: tuple[Fact, ...] = ()
    span: Span | None = _span


@dataclass(frozen=True)
class Block:
    statements: tuple[Statement, ...]
    results: tuple[Operand, ...]
    span: Span | None = _span


@dataclass(frozen=True)
class If:
    targets: tuple[Target, ...]
    condition: Operand
    then: Block
    otherwise: Block
    span: Span | None = _span


@dataclass(frozen=True)
class While:
    targets: tuple[Target, ...]
    inits: tuple[tuple[str, Operand], ...]
    condition: Block
    body: Block
    span: Span | None = _span


Statement = Union[Apply, CallFunction, MatchCast, Field, Assign, Update, Bind, If, While]


@dataclass(frozen=True)
class Param:
    """`inout` parameters are updated in place, by an `update` statement."""

    name: str
    type: Type
    inout: bool = False
    span: Span | None = _span


@dataclass(frozen=True)
class Likely:
    """Sizes to tune for; never a fact."""

    symbol: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class Function:
    """`results` are the declared result types, one per returned operand; `facts` are the `where` clause."""

    name: str
    params: tuple[Param, ...]
    results: tuple[Type, ...]
    facts: tuple[Fact, ...]
    likely: tuple[Likely, ...]
    body: Block
    span: Span | None = _span


@dataclass(frozen=True)
class Weight:
    """A tensor given at load time; symbols first seen in its type are bound, and `facts` checked, at load."""

    name: str
    type: TensorType
    facts: tuple[Fact, ...] = ()
    span: Span | None = _span


@dataclass(frozen=True)
class Const:
    """A literal tensor: nested tuples of numbers, as deep as the (static) shape has dimensions."""

    name: str
    type: TensorType
    value: object
    span: Span | None = _span


@dataclass(frozen=True)
class Module:
    weights: tuple[Weight, ...]
    consts: tuple[Const, ...]
    functions: tuple[Function, ...]

    def __repr__(self) -> str:
        """The declarations of a few functions; `print_module` writes all of it."""
        params = [[f"{'inout ' * p.inout}{p.name}: {p.type}" for p in f.params] for f in self.functions[:_SHOWN]]
        shown = [f"@{f.name}({', '.join(p)})" for f, p in zip(self.functions, params, strict=False)]
        shown += [f"and {len(self.functions) - _SHOWN} more"] * (len(self.functions) > _SHOWN)
        counts = [(len(self.weights), "weight"), (len(self.consts), "const")]
        shown += [f"{count} {what}{'s' * (count > 1)}" for count, what in counts if count]
        return f"<Module {', '.join(shown) or 'of nothing'}>"

    def function(self, name: str) -> Function:
        for f in self.functions:
            if f.name == name:
                return f
        raise KeyError(name)

    def global_type(self, name: str) -> TensorType:
        """The type of a weight or constant; KeyError if there is none of that name."""
        types = {g.name: g.type for g in self.weights} | {g.name: g.type for g in self.consts}
        return types[name]


def targets_of(statement: Statement) -> tuple[Target, ...]:
    """The values a statement defines."""
    if isinstance(statement, (MatchCast, Field, Assign)):
        return (statement.target,)
    if isinstance(statement, (Update, Bind)):
        return ()
    return statement.targets


def operands_of(statement: Statement) -> Iterator[Operand]:
    """The operands a statement reads itself (not those inside its blocks)."""
    if isinstance(statement, (Apply, CallFunction)):
        yield from statement.operands
    elif isinstance(statement, (MatchCast, Field, Assign, Update, Bind)):
        yield statement.operand
    elif isinstance(statement, If):
        yield statement.condition
    else:
        for _, operand in statement.inits:
            yield operand
