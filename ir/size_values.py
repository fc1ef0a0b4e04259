"""Sizes that programs use as values: each must fit the dtype that it becomes, which is checked where sizes are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from .diagnostics import Span
from .dims import Dim
from .facts import Facts, InRange
from .graph import Apply, Bind, DimValue, Function, NoneValue, Operand, operands_of, targets_of
from .infer import flatten, operand_type
from .types import DType, TensorType, Type

LARGEST = (1 << 63) - 1
"""What a size can be."""

TypeOf = Callable[[Operand], Type]


def size_values(statement: Apply, type_of: TypeOf) -> Iterator[tuple[Dim, DType]]:
    """The sizes that a typed application computes with, and as what.  Numbers are none: they are seen at compile time,
    and `arange` of a small dtype casts them."""
    yield from _given(statement.operands)
    out = statement.targets[0].type
    assert isinstance(out, TensorType), "typed"
    made = statement.op.size_values(out, _types(statement, type_of))
    yield from ((dim, dtype) for dim, dtype in made if not dim.is_const)


def value_range(dim: Dim, dtype: DType) -> InRange:
    """The fact that the size fits.  One that becomes a float, or a bool, is a 64-bit integer first."""
    bits, signed = (dtype.bits, dtype.is_signed) if dtype.is_int else (64, True)
    return InRange(dim, -(1 << bits - 1), (1 << bits - 1) - 1) if signed else InRange(dim, 0, (1 << bits) - 1)


def misfit(dim: Dim, dtype: DType, symbols: Mapping[str, int]) -> str:
    """What is wrong with the value of the size, if anything is."""
    fits = value_range(dim, dtype).holds(symbols)
    wanted = dtype if dtype.is_int else "64 bits"
    return "" if fits else f"the size {dim} = {dim.evaluate(symbols)} does not fit {wanted}"


def may_fail(statement: Apply, type_of: TypeOf, facts: Facts) -> bool:
    """Whether a typed application may fail the call: for the values of its operands, or a size it makes a value of."""
    if statement.op.may_fail(flatten(statement.operands), _types(statement, type_of)):
        return True
    return any(True for _ in _unproven(size_values(statement, type_of), facts))


def value_facts(
    function: Function, globals_: Mapping[str, Type], facts: Facts
) -> Iterator[tuple[InRange, Span | None]]:
    """What a call of the typed function has to check, each once, with the place that it is used at first."""
    types: dict[str, Type] = {p.name: p.type for p in function.params}
    found: dict[InRange, Span | None] = {}
    for s in function.body.statements:
        values = _given(operands_of(s))
        if isinstance(s, Apply):
            values = size_values(s, lambda o: operand_type(o, types, globals_))
        for fact in () if isinstance(s, Bind) else _unproven(values, facts):
            found.setdefault(fact, s.span)
        types.update((t.name, t.type) for t in targets_of(s) if t.type is not None)
    for operand in function.body.results:
        for fact in _unproven(_given((operand,)), facts):
            found.setdefault(fact, operand.span)
    yield from found.items()


def _given(operands: Iterable[Operand]) -> Iterator[tuple[Dim, DType]]:
    for operand in flatten(tuple(operands)):
        if isinstance(operand, DimValue) and operand.dtype is not None:
            yield operand.dim, operand.dtype


def _unproven(values: Iterable[tuple[Dim, DType]], facts: Facts) -> Iterator[InRange]:
    for dim, dtype in values:
        fact = value_range(dim, dtype)
        wide = dtype.bits == 64 or not dtype.is_int
        if wide and len(dim.symbols) == 1 and dim == Dim.of(*dim.symbols):
            continue
        if not facts.add(*(InRange(s, 0, LARGEST) for s in sorted(dim.symbols))).prove(fact):
            yield fact


def _types(statement: Apply, type_of: TypeOf) -> list[TensorType | None]:
    types = [None if isinstance(o, NoneValue) else type_of(o) for o in flatten(statement.operands)]
    return [t if isinstance(t, TensorType) else None for t in types]
