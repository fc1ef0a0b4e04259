"""The type of one op application; the `infer` pass and the builder both go through here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from .diagnostics import CompileError, Span
from .dims import Dim
from .facts import Facts
from .graph import DimValue, GlobalRef, Literal, NoneValue, Operand, TupleValue, Var
from .infer_advice import advised
from .op import InferContext, Op
from .types import DType, TensorType, TupleType, Type


def infer_apply(
    op: Op,
    operands: Sequence[Operand],
    type_of: Callable[[Operand], Type],
    facts: Facts,
    span: Span | None = None,
    origins: dict[str, str] | None = None,
    trusted: bool = False,
) -> tuple[tuple[Operand, ...], tuple[TensorType, ...]]:
    """Operands with the dtypes of their literals filled in, and the result types.

    `type_of` gives the type of a Var or GlobalRef; `trusted` is said at `InferContext`.  Raises CompileError with the
    op's own message.
    """
    flat = flatten(operands)
    ctx = InferContext(facts, op.name, span, tuple(map(text_of, flat)), origins or {}, trusted=trusted)
    check_count(ctx, op, len(flat))
    types: list[TensorType | None] = [None] * len(flat)
    for i, operand in enumerate(flat):
        if isinstance(operand, (Var, GlobalRef)):
            t = type_of(operand)
            if not isinstance(t, TensorType):
                raise ctx.fail(
                    f"`{op.name}` takes tensors; {ctx.name(i)} is a tuple", help=f"use a field: {ctx.name(i)}.0"
                )
            if t.shape is None:
                raise ctx.fail(
                    f"`{op.name}` needs the rank of {ctx.name(i)}, which is {t}", help="give it a type with match_cast"
                )
            types[i] = t
        elif isinstance(operand, (Literal, DimValue)) and operand.dtype is not None:
            types[i] = TensorType(operand.dtype, ())
        elif isinstance(operand, NoneValue) and not optional(op, i):
            raise ctx.fail(f"operand {i} of `{op.name}` may not be none")
    dtype = op.literal_dtype(types)
    typed: list[Operand] = []
    for i, operand in enumerate(flat):
        if isinstance(operand, (Literal, DimValue)):
            operand = with_dtype(ctx, operand, operand.dtype or dtype)
            assert operand.dtype is not None
            types[i] = TensorType(operand.dtype, ())
        typed.append(operand)
    ctx.types = tuple(t if isinstance(o, (Var, GlobalRef)) else None for o, t in zip(flat, types, strict=True))
    try:
        result = op.infer(ctx, *types)
    except CompileError as refusal:
        raise advised(op, ctx, flat, types, refusal) from None
    return tuple(typed), result if isinstance(result, tuple) else (result,)


def operand_type(operand: Operand, values: Mapping[str, Type], globals_: Mapping[str, Type]) -> Type:
    """The type of an operand of a typed function, whose values and globals have these."""
    if isinstance(operand, Var):
        return values[operand.name]
    if isinstance(operand, GlobalRef):
        return globals_[operand.name]
    if isinstance(operand, TupleValue):
        return TupleType(tuple(operand_type(o, values, globals_) for o in operand.items))
    assert isinstance(operand, (Literal, DimValue)), "an absent operand has no type"
    assert operand.dtype is not None, "infer before this"
    return TensorType(operand.dtype, ())


def with_dtype(ctx: InferContext, operand: Literal | DimValue, dtype: DType | None) -> Literal | DimValue:
    """The literal as one of `dtype`, by default i64, f32 or bool; refused through `ctx` when its value is not of it."""
    if dtype is None:
        if isinstance(operand, DimValue):
            return replace(operand, dtype=DType.i64)
        dtype = (
            DType.bool
            if isinstance(operand.value, bool)
            else DType.i64
            if isinstance(operand.value, int)
            else DType.f32
        )
    if isinstance(operand, Literal):
        value = operand.value
        if isinstance(value, float) and not dtype.is_float:
            message = f"the literal {value} is not {dtype.with_article}"
            raise ctx.fail(message, help="write a whole number, or cast the operand")
        if isinstance(value, bool) and not dtype.is_bool:
            raise ctx.fail(f"the literal {str(value).lower()} is not {dtype.with_article}", help="write 0 or 1")
        if dtype.is_bool and value not in (0, 1):
            raise ctx.fail(f"the literal {value} is not {dtype.with_article}", help="write true or false")
        if dtype.is_bool:
            operand = replace(operand, value=bool(value))
        if dtype.is_int and not _fits(int(value), dtype):
            raise ctx.fail(f"the literal {value} does not fit {dtype}")
        if dtype.is_float and isinstance(value, int):
            operand = replace(operand, value=float(value))
    return replace(operand, dtype=dtype)


def default_dtype(operand: Literal | DimValue) -> DType:
    """The dtype of a number that stands beside no tensor."""
    if isinstance(operand, DimValue):
        return DType.i64
    if isinstance(operand.value, bool):
        return DType.bool
    return DType.i64 if isinstance(operand.value, int) else DType.f32


def _fits(value: int, dtype: DType) -> bool:
    low, high = (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if dtype.is_signed else (0, (1 << dtype.bits) - 1)
    return low <= value <= high


def flatten(operands: Sequence[Operand]) -> tuple[Operand, ...]:
    """Operands with tuple literals spread out: `concat((a, b))` is `concat(a, b)`."""
    out: list[Operand] = []
    for o in operands:
        if isinstance(o, TupleValue):
            out.extend(flatten(o.items))
        else:
            out.append(o)
    return tuple(out)


def optional(op: Op, position: int) -> bool:
    """May the operand be left out?"""
    return position < len(op.signature) and op.signature[position].endswith("?")


def check_count(ctx: InferContext, op: Op, count: int) -> None:
    """Refuses a wrong number of operands."""
    needed = sum(1 for s in op.signature if not s.endswith(("?", "*")))
    variadic = any(s.endswith("*") for s in op.signature)
    if count < needed or (not variadic and count > len(op.signature)):
        takes = ", ".join(op.signature)
        raise ctx.fail(f"`{op.name}` takes ({takes}), {count} operand{'s' if count != 1 else ''} given")


def text_of(operand: Operand) -> str:
    """An operand as the user would write it."""
    if isinstance(operand, Var):
        return operand.name
    if isinstance(operand, GlobalRef):
        return f"@{operand.name}"
    if isinstance(operand, Literal):
        return str(operand.value).lower() if isinstance(operand.value, bool) else repr(operand.value)
    if isinstance(operand, DimValue):
        return str(operand.dim)
    if isinstance(operand, TupleValue):
        return f"({', '.join(map(text_of, operand.items))})"
    return "none"


def literal(value: bool | int | float | Dim) -> Literal | DimValue:
    """A Python number or a size as an operand; a size that is a number becomes a literal."""
    if isinstance(value, Dim):
        return Literal(value.value) if value.is_const else DimValue(value)
    return Literal(value)
