"""The reference interpreter: a graph run statement by statement with the numpy meaning of every operator.

It binds and checks symbols just as the compiled host program does, and is what compiled programs are compared with.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, Union

import numpy as np

from ..errors import PliantError
from .dims import Dim
from .dims_solve import BindSymbol, Step, Unsolvable, solve
from .facts import Fact, Facts
from .graph import (
    Apply,
    Assign,
    Bind,
    CallFunction,
    Const,
    DimValue,
    Field,
    Function,
    GlobalRef,
    Literal,
    MatchCast,
    Module,
    NoneValue,
    Operand,
    Statement,
    TupleValue,
    Update,
    Var,
    targets_of,
)
from .infer import flatten, text_of
from .infer_module import infer_module
from .infer_scope import slots
from .op import AliasOp, Op
from .rounding import converted
from .size_values import misfit, size_values
from .subs import subs_op
from .types import DType, TensorType, TupleType, Type

Array = np.ndarray
Value: TypeAlias = Union[np.ndarray, tuple["Value", ...]]


class InterpretError(PliantError, ValueError):
    """A call that the declared types, sizes or facts do not allow, or a check on data that failed."""


def interpret(
    module: Module,
    function: str,
    arrays: Sequence[Any] | Mapping[str, Any],
    weights: Mapping[str, Any] | None = None,
) -> list[Value]:
    """The results of a function, in order: arrays, and tuples of arrays where a result is a tuple.

    `arrays` are the arguments by position or by name (a tuple of arrays for a tuple parameter), `weights` the weights
    by name without `@`.  The arrays of inout parameters are updated in place.  InterpretError for arguments that the
    program refuses; the module is type-checked first (CompileError).
    """
    typed = infer_module(module)
    return Interpreter(typed, weights or {}).call(typed.function(function), arrays)


@dataclass
class Interpreter:
    """A typed module with its weights: their symbols are bound, and checked, at once."""

    module: Module
    weights: Mapping[str, Any]
    globals: dict[str, Array] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given: list[tuple[str, Type, Value]] = []
        for w in self.module.weights:
            if w.name not in self.weights:
                raise InterpretError(f"the weight @{w.name} is missing")
            self.globals[w.name] = np.asarray(self.weights[w.name])
            given.append((w.name, w.type, self.globals[w.name]))
        where = [f for w in self.module.weights for f in w.facts]
        self.symbols = _bind([(f"weight @{name}", name, t, v) for name, t, v in given], where, {})
        self.globals |= {c.name: const_array(c) for c in self.module.consts}

    def call(self, function: Function, arrays: Sequence[Any] | Mapping[str, Any]) -> list[Value]:
        """Runs a function on arguments from outside."""
        values = _arguments(function, arrays)
        frame = _Frame(self, function, values)
        results = frame.run()
        if frame.updates:
            results = list(map(_copy, results))  # a result may be the value that a parameter came with
            for name, new in {n: _copy(v) for n, v in frame.updates.items()}.items():
                _write(values[name], new)
        return results


def _arguments(function: Function, arrays: Sequence[Any] | Mapping[str, Any]) -> dict[str, Value]:
    names = [p.name for p in function.params]
    if isinstance(arrays, Mapping):
        given = dict(arrays)
    else:
        if len(arrays) > len(names):
            raise InterpretError(f"@{function.name} takes {len(names)} arguments, {len(arrays)} given")
        given = dict(zip(names, arrays, strict=False))
    missing, unknown = [n for n in names if n not in given], sorted(given.keys() - set(names))
    if missing:
        raise InterpretError(f"@{function.name}: the argument `{missing[0]}` is missing")
    if unknown:
        raise InterpretError(f"@{function.name} has no parameter `{unknown[0]}`")
    return {n: _value(given[n]) for n in names}


def _value(given: Any) -> Value:
    return tuple(map(_value, given)) if isinstance(given, (tuple, list)) else np.asarray(given)


def _copy(value: Value) -> Value:
    return tuple(map(_copy, value)) if isinstance(value, tuple) else value.copy()


def _write(target: Value, new: Value) -> None:
    if isinstance(target, tuple):
        assert isinstance(new, tuple)
        for t, n in zip(target, new, strict=True):
            _write(t, n)
    else:
        target[...] = new


class _Frame:
    """One call of a function."""

    def __init__(self, outer: Interpreter, function: Function, values: dict[str, Value]) -> None:
        self.outer = outer
        self.function = function
        self.values: dict[str, Value] = dict(values)
        self.updates: dict[str, Value] = {}
        given = [(f"argument `{p.name}`", p.name, p.type, values[p.name]) for p in function.params]
        self.symbols = _bind(given, function.facts, outer.symbols)

    def run(self) -> list[Value]:
        for statement in self.function.body.statements:
            results = self._statement(statement)
            for target, value in zip(targets_of(statement), results, strict=True):
                self.values[target.name] = value
        return [self._read(r) for r in self.function.body.results]

    def _statement(self, statement: Statement) -> Sequence[Value]:
        if isinstance(statement, Apply):
            self._check_values(statement)
            operands = [self._tensor(o) for o in flatten(statement.operands)]
            types = [t.type for t in statement.targets]
            return run_op(subs_op(statement.op, self.symbols), operands, types, self.symbols)
        if isinstance(statement, CallFunction):
            return self._call(statement)
        if isinstance(statement, MatchCast):
            return [self._match_cast(statement)]
        if isinstance(statement, Field):
            whole = self._read(statement.operand)
            assert isinstance(whole, tuple), "fields are of tuples: inferred"
            return [whole[statement.index]]
        if isinstance(statement, Assign):
            return [self._read(statement.operand)]
        if isinstance(statement, Bind):
            self._bind(statement)
            return ()
        assert isinstance(statement, Update), "refused by infer"
        self.updates[statement.param] = self._read(statement.operand)
        return ()

    def _check_values(self, statement: Apply) -> None:
        """Refuses sizes that do not fit the dtype that they become."""
        for dim, dtype in size_values(statement, self._type_of):
            fault = misfit(dim, dtype, self.symbols)
            if fault:
                raise InterpretError(f"`{statement.op.name}`: {fault}")

    def _type_of(self, operand: Operand) -> Type:
        """The type at this call, its sizes numbers."""
        value = self._tensor(operand)
        assert value is not None, "absent operands are left out"
        return TensorType(DType.of(value.dtype), tuple(map(Dim.of, value.shape)))

    def _call(self, statement: CallFunction) -> list[Value]:
        callee = self.outer.module.function(statement.function)
        operands = [self._read(o) for o in statement.operands]
        frame = _Frame(self.outer, callee, {p.name: v for p, v in zip(callee.params, operands, strict=True)})
        results = frame.run()
        for param, operand in zip(callee.params, statement.operands, strict=True):
            if param.name in frame.updates and isinstance(operand, Var):
                self.updates[operand.name] = frame.updates[param.name]
        return results

    def _match_cast(self, statement: MatchCast) -> Value:
        value, name = self._read(statement.operand), statement.target.name
        assert statement.target.type is not None
        given = [(f"match_cast `{name}`", name, statement.target.type, value)]
        self.symbols = _bind(given, statement.facts, self.symbols)
        return value

    def _bind(self, statement: Bind) -> None:
        value = self._read(statement.operand)
        assert isinstance(value, np.ndarray), "an i64[]: inferred"
        if int(value) < 0:
            text = f"bind {statement.symbol} = {text_of(statement.operand)}"
            raise InterpretError(f"{text}: {statement.symbol} would be {int(value)}, which is negative")
        self.symbols = self.symbols | {statement.symbol: int(value)}
        _check(statement.facts, self.symbols)

    def _tensor(self, operand: Operand) -> Array | None:
        if isinstance(operand, NoneValue):
            return None
        value = self._read(operand)
        assert isinstance(value, np.ndarray), "operators take tensors: inferred"
        return value

    def _read(self, operand: Operand) -> Value:
        if isinstance(operand, Var):
            return self.values[operand.name]
        if isinstance(operand, GlobalRef):
            return self.outer.globals[operand.name]
        if isinstance(operand, TupleValue):
            return tuple(map(self._read, operand.items))
        assert isinstance(operand, (Literal, DimValue)), "no value"
        assert operand.dtype is not None, "inferred"
        if isinstance(operand, DimValue) and (fault := misfit(operand.dim, operand.dtype, self.symbols)):
            raise InterpretError(fault)
        number = operand.value if isinstance(operand, Literal) else operand.dim.evaluate(self.symbols)
        return converted(number, operand.dtype)


def run_op(
    op: Op, operands: Sequence[Array | None], types: Sequence[Type | None], symbols: Mapping[str, int]
) -> tuple[Array, ...]:
    """An operator's reference on arrays, its results checked against their inferred types."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            made = op.reference(*operands)
    except (IndexError, ZeroDivisionError) as failed:
        raise InterpretError(f"`{op.name}`: {failed}") from None
    results = made if isinstance(made, tuple) else (made,)
    for result, t in zip(results, types, strict=True):
        assert isinstance(t, TensorType)
        shape = tuple(d.evaluate(symbols) for d in t.dims)
        if isinstance(op, AliasOp) and not result.size and len(result.shape) == len(shape):
            results = (result.reshape(shape),)  # of no elements only the types know what a size of -1 is
            continue
        assert result.shape == shape, f"`{op.name}` gave the shape {result.shape}, inferred was {t} = {shape}"
        assert result.dtype == t.dtype.numpy, f"`{op.name}` gave {result.dtype}, inferred was {t}"
    return results


def const_array(const: Const) -> Array:
    """The array of a constant."""
    shape = tuple(d.value for d in const.type.dims)
    return converted(const.value, const.type.dtype).reshape(shape)


# -------------------------------------------------------------------------------------------------- binding


def _bind(
    given: Sequence[tuple[str, str, Type, Value]], where: Iterable[Fact], known: Mapping[str, int]
) -> dict[str, int]:
    """`known` and the symbols that the sizes of (label, name, type, value) bind; InterpretError when one is wrong."""
    labels = {name: label for label, name, _, _ in given}
    origins = {name: f"{name}: {t}" for _, name, t, _ in given}
    values: dict[str, int] = {}
    for label, name, t, value in given:
        values.update(_sizes(label, name, t, value))
    where = tuple(where)
    solution = solve([s for _, name, t, _ in given for s in slots(name, t)], known, Facts(where))
    assert not isinstance(solution, Unsolvable), "inferred"
    values |= known
    for step in solution.steps:
        _step(step, values, labels, origins)
    symbols = {s: v for s, v in values.items() if not s.rpartition(".")[2].isdigit()}
    _check(where, symbols)
    return symbols


def _check(where: Iterable[Fact], symbols: Mapping[str, int]) -> None:
    for fact in where:
        if not fact.holds(symbols):
            bound = ", ".join(f"{s} = {symbols[s]}" for s in sorted(fact.symbols))
            raise InterpretError(f"the fact `{fact}` does not hold: {bound}")


def _sizes(label: str, name: str, t: Type, value: Value) -> dict[str, int]:
    """Slots to sizes; refuses another structure, dtype or rank."""
    if isinstance(t, TupleType):
        if not isinstance(value, tuple) or len(value) != len(t.items):
            raise InterpretError(f"{label}: expected a tuple of {len(t.items)}")
        out: dict[str, int] = {}
        for i, (item, v) in enumerate(zip(t.items, value, strict=True)):
            out |= _sizes(f"{label}, item {i}", f"{name}.{i}", item, v)
        return out
    if isinstance(value, tuple):
        raise InterpretError(f"{label}: expected one array, {t}")
    if value.dtype != t.dtype.numpy:
        raise InterpretError(f"{label}: expected {t.dtype}, got {_dtype_name(value.dtype)}")
    if t.shape is None:
        return {}
    if value.ndim != len(t.shape):
        raise InterpretError(f"{label}: expected rank {len(t.shape)} ({t}), got rank {value.ndim}")
    return {f"{name}.{i}": int(size) for i, size in enumerate(value.shape)}


def _dtype_name(dtype: np.dtype[Any]) -> str:
    try:
        return str(DType.of(dtype))
    except ValueError:
        return str(dtype)


def _step(step: Step, values: dict[str, int], labels: Mapping[str, str], origins: Mapping[str, str]) -> None:
    if isinstance(step, BindSymbol):
        numerator, divisor = step.numerator.evaluate(values), step.divisor.evaluate(values)
        origin = _origin(step.numerator, origins)
        if divisor == 0 or numerator % divisor:
            raise InterpretError(f"{origin}: {divisor} does not divide {numerator}, so that there is no {step.symbol}")
        if numerator // divisor < 0:
            raise InterpretError(f"{origin}: {step.symbol} would be {numerator // divisor}, which is negative")
        values[step.symbol] = numerator // divisor
        return
    expected, got = step.expected.evaluate(values), values[step.slot]
    if expected != got:
        name, _, dim = step.slot.rpartition(".")
        label = labels.get(name.partition(".")[0], name)
        wanted = str(expected) if step.expected.is_const else f"{step.expected} = {expected}"
        raise InterpretError(f"{label}: dimension {dim} is {got}, expected {wanted}")


def _origin(numerator: Dim, origins: Mapping[str, str]) -> str:
    names = {s.partition(".")[0] for s in numerator.symbols if s.rpartition(".")[2].isdigit()}
    return " and ".join(origins[n] for n in sorted(names) if n in origins) or "sizes"
