"""What a `match_cast` asserts: the facts that hold after it, and the casts that could never hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from .diagnostics import CompileError
from .dims import Dim
from .dims_solve import Unsolvable, solve
from .facts import Compare, Fact
from .graph import MatchCast
from .infer_scope import symbols_of
from .types import TensorType, TupleType, Type

if TYPE_CHECKING:
    from .infer_function import FunctionInfer


def match_facts(infer: FunctionInfer, found: Type, wanted: Type, statement: MatchCast) -> list[Fact]:
    """Facts that the sizes of a cast from `found` to `wanted` give; refuses what cannot hold or binds no symbol."""

    def fail(message: str, help: str = "") -> CompileError:
        return infer.fail(message, statement.span, help, symbols=symbols_of(found) | symbols_of(wanted))

    pairs = list(size_pairs(found, wanted, fail))
    patterns = [(f"{statement.target.name}.{i}", expected) for i, (_, expected) in enumerate(pairs)]
    solution = solve(patterns, infer.symbols, infer.facts.add(*statement.facts))
    if isinstance(solution, Unsolvable):
        symbol, reason = solution.reasons[0]
        raise infer.fail(f"the sizes of this match_cast do not determine `{symbol}`", statement.span, reason)
    for actual, expected in pairs:
        if actual is not None and expected.symbols <= infer.symbols and infer.facts.prove_ne(actual, expected):
            raise fail(f"this match_cast never holds: the size {actual} is never {expected}")
    return asserted(pairs)


def asserted(pairs: Iterable[tuple[Dim | None, Dim]]) -> list[Fact]:
    """What holds after the sizes were checked: they are equal, and none is negative."""
    facts: list[Fact] = []
    for actual, expected in pairs:
        if actual is not None and actual != expected:
            facts.append(Compare("==", actual, expected))
        if not expected.is_const and expected.name is None:
            facts.append(Compare(">=", expected, 0))
    return facts


def size_pairs(found: Type, wanted: Type, fail: Callable[[str, str], CompileError]) -> Iterator[tuple[Dim | None, Dim]]:
    """(size, size it must be) of every dimension; the first is None where the rank is not known before."""
    if isinstance(found, TupleType) or isinstance(wanted, TupleType):
        if not (isinstance(found, TupleType) and isinstance(wanted, TupleType)) or len(found.items) != len(
            wanted.items
        ):
            raise fail(f"this match_cast never holds: {found} is never {wanted}", "")
        for a, b in zip(found.items, wanted.items, strict=True):
            yield from size_pairs(a, b, fail)
        return
    if found.dtype is not wanted.dtype:
        help = f"convert the elements: `cast(..., dtype={wanted.dtype})`"
        raise fail(f"match_cast asserts sizes; {found} has other elements than {wanted}", help)
    if wanted.shape is None:
        return
    if found.shape is None:
        yield from ((None, size) for size in wanted.shape)
        return
    if len(found.shape) != len(wanted.shape):
        raise fail(f"this match_cast never holds: {found} and {wanted} differ in rank", "")
    yield from zip(found.shape, wanted.shape, strict=True)


def tensor_leaves(t: Type) -> Iterator[TensorType]:
    """The tensors of a type, in order."""
    if isinstance(t, TupleType):
        for item in t.items:
            yield from tensor_leaves(item)
    else:
        yield t
