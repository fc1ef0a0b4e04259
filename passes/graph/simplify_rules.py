"""The rules of `simplify`, by operator: each gives an equal operand, an equal application, or None.

A rule may answer with an operand of another shape (`mul(x, 1)` with x broadcast): it is taken only where the types are
provably the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TypeAlias

from ...ir.graph import Apply, DimValue, Literal, Operand, Var
from ...ir.op import AliasOp, Op
from ...ir.registry import registry
from ...ir.subs import dim_operand
from ...ir.types import DType, TensorType
from .walk import Walk


@dataclass
class Context:
    """Facts and types so far, and the statement that defines each value."""

    walk: Walk
    defs: dict[str, Apply] = field(default_factory=dict)

    def fits(self, operand: Operand, statement: Apply) -> bool:
        """May the operand stand for the statement's result?"""
        wanted = statement.targets[0].type
        return wanted is not None and self.walk.same_type(self.walk.type_of(operand), wanted)

    def made_by(self, operand: Operand, *names: str) -> Apply | None:
        """The application of one of these ops that the operand is the result of."""
        found = self.defs.get(operand.name) if isinstance(operand, Var) else None
        return found if found is not None and found.op.name in names else None

    def tensor(self, operand: Operand) -> TensorType:
        t = self.walk.type_of(operand)
        assert isinstance(t, TensorType), "operands of ops are tensors"
        return t


Rule: TypeAlias = Callable[[Apply, Context], Operand | Apply | None]


# ------------------------------------------------------------------------------------------------ arithmetic


def _is(operand: Operand, value: float) -> bool:
    """A literal of just this value, the sign of zero included."""
    if not isinstance(operand, Literal) or isinstance(operand.value, bool):
        return False
    same = operand.value == value
    return same and math.copysign(1.0, operand.value) == math.copysign(1.0, value)


def _right(value: float) -> Rule:
    """op(x, value) is x."""
    return lambda s, c: s.operands[0] if _is(s.operands[1], value) else None


def _left(value: float) -> Rule:
    """op(value, x) is x."""
    return lambda s, c: s.operands[1] if _is(s.operands[0], value) else None


def _add_zero(s: Apply, c: Context) -> Operand | None:
    """x + 0 is x for integers; of floats only x + -0.0, since -0.0 + 0.0 is 0.0."""
    zero = 0 if c.tensor(s.operands[0]).dtype.is_int else -0.0
    if _is(s.operands[1], zero):
        return s.operands[0]
    return s.operands[1] if _is(s.operands[0], zero) else None


def _power(s: Apply, c: Context) -> Operand | Apply | None:
    """pow(x, 1) is x, and pow(x, 2) the square: both are exact."""
    if _is(s.operands[1], 1):
        return s.operands[0]
    square = registry().get("square")
    if _is(s.operands[1], 2) and square is not None and c.fits(s.operands[0], s):
        return replace(s, op=square(), operands=(s.operands[0],))
    return None


# ---------------------------------------------------------------------------------------------------- unary


def _involution(s: Apply, c: Context) -> Operand | None:
    """op(op(x)) is x."""
    inner = c.made_by(s.operands[0], s.op.name)
    return inner.operands[0] if inner is not None else None


def _idempotent(s: Apply, c: Context) -> Operand | None:
    """op(op(x)) is op(x)."""
    inner = c.made_by(s.operands[0], s.op.name)
    return s.operands[0] if inner is not None and inner.op == s.op else None


def _even(s: Apply, c: Context) -> Apply | None:
    """op(-x) and op(abs(x)) are op(x); not for integers, whose smallest value has no negative."""
    inner = c.made_by(s.operands[0], "neg", "abs")
    if inner is None or not c.tensor(s.operands[0]).dtype.is_float:
        return None
    return replace(s, operands=(inner.operands[0],))


def _same_operands(s: Apply, c: Context) -> Operand | None:
    """op(x, x) is x."""
    return s.operands[0] if isinstance(s.operands[0], Var) and s.operands[0] == s.operands[1] else None


def _where(s: Apply, c: Context) -> Operand | None:
    """A condition that is known, or that makes no difference."""
    condition, a, b = s.operands
    if isinstance(condition, Literal):
        return a if condition.value else b
    return a if isinstance(a, Var) and a == b else None


def _logical(neutral: bool) -> Rule:
    """op(x, neutral) is x."""

    def rule(s: Apply, c: Context) -> Operand | None:
        for x, other in (s.operands, reversed(s.operands)):
            if isinstance(other, Literal) and other.value is neutral:
                return x
        return None

    return rule


# ----------------------------------------------------------------------------------------------------- casts

_MANTISSA = {DType.f64: 53, DType.f32: 24, DType.f16: 11, DType.bf16: 8}
_EXPONENT = {DType.f64: 11, DType.f32: 8, DType.f16: 5, DType.bf16: 8}


def holds_all(wide: DType, narrow: DType) -> bool:
    """Is every value of `narrow` one of `wide`?"""
    if wide is narrow or narrow.is_bool:
        return True
    if wide.is_bool:
        return False
    if wide.is_float:
        if narrow.is_float:
            return _MANTISSA[wide] >= _MANTISSA[narrow] and _EXPONENT[wide] >= _EXPONENT[narrow]
        return _MANTISSA[wide] >= narrow.bits - narrow.is_signed
    if narrow.is_float:
        return False
    return wide.bits > narrow.bits and (wide.is_signed or not narrow.is_signed)


def _cast(s: Apply, c: Context) -> Operand | Apply | None:
    """cast(x) to its own dtype is x; a cast through a dtype that holds all values of the first is one cast."""
    x = s.operands[0]
    wanted = s.targets[0].type
    if isinstance(wanted, TensorType) and c.tensor(x).dtype is wanted.dtype:
        return x
    inner = c.made_by(x, "cast")
    if inner is not None and isinstance(wanted, TensorType):
        first, middle, last = c.tensor(inner.operands[0]).dtype, c.tensor(x).dtype, wanted.dtype
        # From a float, what does not fit an integer saturates; from an integer it wraps around.
        alike = first.is_float or not middle.is_float or not last.is_int or holds_all(last, first)
        if holds_all(middle, first) and alike:
            return replace(s, operands=inner.operands)
    return None


# ---------------------------------------------------------------------------------------------------- shapes


def _alias(s: Apply, c: Context) -> Operand | Apply | None:
    """A reshape to the same shape is nothing; a reshape of a reshape is one."""
    x, wanted = s.operands[0], s.targets[0].type
    if c.fits(x, s):
        return x
    inner = c.defs.get(x.name) if isinstance(x, Var) else None
    reshape = registry().get("reshape")
    if inner is None or not isinstance(inner.op, AliasOp) or reshape is None or not isinstance(wanted, TensorType):
        return None
    if c.fits(inner.operands[0], s):
        return inner.operands[0]
    return replace(s, op=reshape(shape=wanted.dims), operands=inner.operands)  # type: ignore[call-arg]


def _permute(s: Apply, c: Context) -> Operand | Apply | None:
    """Permutations of permutations are one, and the identity is none."""
    axes = _axes(s.op)
    rank = len(axes)
    order = [a % rank for a in axes] if rank else []
    if order == list(range(rank)):
        return s.operands[0]
    inner = c.made_by(s.operands[0], s.op.name)
    if inner is None:
        return None
    first = [a % rank for a in _axes(inner.op)]
    name = fields(s.op)[0].name
    return replace(s, op=replace(s.op, **{name: tuple(first[a] for a in order)}), operands=inner.operands)


def _axes(op: Op) -> tuple[int, ...]:
    """The only attribute of a permutation."""
    (attribute,) = fields(op)
    value = getattr(op, attribute.name)
    assert isinstance(value, tuple)
    return value


def _transpose(s: Apply, c: Context) -> Operand | None:
    """Exchanging the same two axes twice is nothing."""
    inner = c.made_by(s.operands[0], s.op.name)
    if inner is None:
        return None
    rank = c.tensor(s.operands[0]).rank
    pairs = [{a % rank for a in _axes(op)} for op in (s.op, inner.op)]
    return inner.operands[0] if pairs[0] == pairs[1] else None


def _dim(s: Apply, c: Context) -> Operand:
    """The size of a dimension is known to the types."""
    t = c.tensor(s.operands[0])
    (axis,) = (getattr(s.op, f.name) for f in fields(s.op))
    return dim_operand(DimValue(t.dims[axis % t.rank], DType.i64, s.span))


def _slice(s: Apply, c: Context) -> Operand | None:
    """A slice of everything, in steps of one."""
    step = getattr(s.op, "step", None)
    forward = step == 1 or (isinstance(step, tuple) and all(k == 1 for k in step))
    return s.operands[0] if forward and c.fits(s.operands[0], s) else None


def _same_type(s: Apply, c: Context) -> Operand | None:
    """What only repeats elements is nothing where the shape stays."""
    return s.operands[0] if c.fits(s.operands[0], s) else None


def _single(s: Apply, c: Context) -> Operand | None:
    """The concatenation of one tensor."""
    return s.operands[0] if len(s.operands) == 1 else None


_INVOLUTIONS = ("neg", "logical_not", "bitwise_not")
_IDEMPOTENT = ("abs", "relu", "floor", "ceil", "round", "trunc", "sign")

RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(_INVOLUTIONS, (_involution,)),
    **dict.fromkeys(_IDEMPOTENT, (_idempotent,)),
    "abs": (_idempotent, _even),
    "square": (_even,),
    "cos": (_even,),
    "cosh": (_even,),
    "add": (_add_zero,),
    "sub": (_right(0),),
    "mul": (_right(1), _left(1)),
    "div": (_right(1),),
    "floordiv": (
        lambda s, c: s.operands[0] if c.tensor(s.operands[0]).dtype.is_int and _is(s.operands[1], 1) else None,
    ),
    "pow": (_power,),
    "maximum": (_same_operands,),
    "minimum": (_same_operands,),
    "bitwise_and": (_same_operands,),
    "bitwise_or": (_same_operands,),
    "logical_and": (_same_operands, _logical(True)),
    "logical_or": (_same_operands, _logical(False)),
    "logical_xor": (_logical(False),),
    "where": (_where,),
    "cast": (_cast,),
    "reshape": (_alias,),
    "squeeze": (_alias,),
    "unsqueeze": (_alias,),
    "flatten": (_alias,),
    "permute": (_permute,),
    "expand": (_same_type,),
    "broadcast_to": (_same_type,),
    "concat": (_single,),
    "transpose": (_transpose,),
    "slice": (_slice,),
    "repeat": (_same_type,),
    "tile": (_same_type,),
    "dim": (_dim,),
}
