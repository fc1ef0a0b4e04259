"""What a `bind` makes a size of: values that the host knows before the first kernel runs.

They are parameters of type i64[] (and such fields of tuple parameters) under whatever name, sizes, and numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, Union

from .dims import Dim
from .facts import Compare, Fact
from .graph import (
    Assign,
    Bind,
    CallFunction,
    DimValue,
    Field,
    Function,
    Literal,
    Module,
    Operand,
    Param,
    Statement,
    TupleValue,
    Var,
)
from .infer import text_of
from .types import DType, TensorType, TupleType, Type

if TYPE_CHECKING:
    from .infer_function import FunctionInfer

Known: TypeAlias = Union[str, Dim, tuple["Known", ...], None]
"""A leaf of a parameter by name (`count`, `state.1`), a size, a tuple of these; None for what is computed."""

SCALAR = TensorType(DType.i64, ())


@dataclass
class HostValues:
    """Those values of a function that are known before it runs; `note` each statement in order.

    `bound` maps leaves of parameters to the symbol that their first `bind` gave them.
    """

    values: dict[str, Known] = field(default_factory=dict)
    bound: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of_params(params: Iterable[Param]) -> HostValues:
        return HostValues({p.name: _leaves(p.name, p.type) for p in params})

    def of(self, operand: Operand) -> Known:
        """What the host knows an operand to be; a leaf that is bound already is its symbol."""
        if isinstance(operand, Var):
            return self._size(self.values.get(operand.name))
        if isinstance(operand, DimValue):
            return operand.dim if operand.dtype in (None, DType.i64) else None
        if isinstance(operand, Literal):
            return Dim.of(operand.value) if type(operand.value) is int else None
        return tuple(map(self.of, operand.items)) if isinstance(operand, TupleValue) else None

    def _size(self, known: Known) -> Known:
        if isinstance(known, tuple):
            return tuple(map(self._size, known))
        return Dim.of(self.bound[known]) if isinstance(known, str) and known in self.bound else known

    def note(self, statement: Statement) -> tuple[Fact, ...]:
        """Follows names, and symbols that are bound; what is then known of the symbol, beside the `where` clause."""
        if isinstance(statement, Assign):
            self.values[statement.target.name] = self.of(statement.operand)
        elif isinstance(statement, Field):
            whole = self.of(statement.operand)
            self.values[statement.target.name] = whole[statement.index] if isinstance(whole, tuple) else None
        elif isinstance(statement, Bind):
            known, symbol = self.of(statement.operand), Dim.of(statement.symbol)
            if isinstance(known, Dim) and known != symbol:
                return (Compare("==", symbol, known),)
            if isinstance(known, str):
                self.bound[known] = statement.symbol
        return ()


def _leaves(name: str, t: Type) -> Known:
    if isinstance(t, TupleType):
        return tuple(_leaves(f"{name}.{i}", item) for i, item in enumerate(t.items))
    return name


def bind_facts(infer: FunctionInfer, statement: Bind) -> tuple[Fact, ...]:
    """What a `bind` with a typed operand tells beside its `where` clause; refuses what the host does not know."""
    name, found = text_of(statement.operand), infer.type_of(statement.operand)
    if found != SCALAR:
        raise infer.fail(f"`bind` makes a size of an i64[], and `{name}` is {found}", statement.span)
    if infer.host.of(statement.operand) is None:
        message = "`bind` of a value that is computed is not there yet: it comes in a later version"
        help = f"make `{name}` a parameter: `{name}: i64[]`" if isinstance(statement.operand, Var) else ""
        raise infer.fail(message, statement.span, help)
    return infer.host.note(statement)


def bound_leaves(module: Module, function: Function, known: dict[str, frozenset[str]]) -> frozenset[str]:
    """Leaves of the parameters that the function, or one that it calls, makes sizes of; fills `known`."""
    path = [function] if function.name not in known else []
    while path:
        top = path[-1]
        called = {s.function for s in top.body.statements if isinstance(s, CallFunction)}
        missing = sorted(called - known.keys() - {f.name for f in path})  # recursion is refused elsewhere
        if missing:
            path.append(module.function(missing[0]))
        else:
            known[path.pop().name] = _bound_leaves(module, top, known)
    return known[function.name]


def _bound_leaves(module: Module, function: Function, known: dict[str, frozenset[str]]) -> frozenset[str]:
    host, found = HostValues.of_params(function.params), set[str]()
    for statement in function.body.statements:
        if isinstance(statement, Bind):
            bound = host.of(statement.operand)
            found |= {bound} if isinstance(bound, str) else set()
        elif isinstance(statement, CallFunction):
            callee = module.function(statement.function)
            given = dict(given_leaves(callee, statement.operands, host))
            inner = known.get(callee.name, frozenset())
            found |= {leaf for name in inner if isinstance(leaf := given.get(name), str)}
        else:
            host.note(statement)
    return frozenset(found)


def given_leaves(callee: Function, operands: Sequence[Operand], host: HostValues) -> Iterator[tuple[str, Known]]:
    """What a caller gives for every leaf of the callee's parameters."""

    def matched(tree: Known, known: Known) -> Iterator[tuple[str, Known]]:
        if isinstance(tree, str):
            yield tree, known
        elif isinstance(tree, tuple):
            for i, item in enumerate(tree):
                yield from matched(item, known[i] if isinstance(known, tuple) and i < len(known) else None)

    for param, operand in zip(callee.params, operands, strict=False):
        yield from matched(_leaves(param.name, param.type), host.of(operand))


def callee_sizes(callee: Function, operands: Sequence[Operand], host: HostValues) -> dict[str, Dim]:
    """The symbols that a callee binds to values which the caller has as sizes."""
    given = dict(given_leaves(callee, operands, host))
    inner, sizes = HostValues.of_params(callee.params), dict[str, Dim]()
    for statement in callee.body.statements:
        if isinstance(statement, Bind):
            known = inner.of(statement.operand)
            size = given.get(known) if isinstance(known, str) else None
            if isinstance(size, Dim):
                sizes[statement.symbol] = size
        else:
            inner.note(statement)
    return sizes
