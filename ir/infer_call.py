"""Calls of functions: the callee's symbols are solved from the types of the operands, its facts proven."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .diagnostics import CompileError, Span
from .dims import Dim
from .dims_solve import BindSymbol, Step, Unsolvable, solve
from .facts import Compare, Fact, Facts
from .graph import CallFunction, Function, GlobalRef, Module, Operand, Param, Var
from .infer import text_of
from .infer_bind import bound_leaves, callee_sizes, given_leaves
from .infer_scope import Callees, slots, symbols_of
from .subs import subs_type
from .types import TensorType, TupleType, Type

if TYPE_CHECKING:
    from .infer_function import FunctionInfer


def call_results(infer: FunctionInfer, statement: CallFunction) -> tuple[tuple[Operand, ...], tuple[Type, ...]]:
    """The typed operands and the result types of a call."""
    callee = infer.module.function(statement.function)
    call = _Call(infer, callee, statement.span)
    if len(statement.operands) != len(callee.params):
        takes = ", ".join(f"{p.name}: {p.type}" for p in callee.params)
        given = len(statement.operands)
        raise call.fail(f"`@{callee.name}` takes ({takes}), {given} operand{'s' if given != 1 else ''} given")
    operands = tuple(infer.typed(o, p.type) for o, p in zip(statement.operands, callee.params, strict=True))
    types = [infer.type_of(o) for o in operands]
    for operand, param, t in zip(operands, callee.params, types, strict=True):
        call.check_kind(operand, param, t)
    call.check_bound(operands)
    binding = call.bind(types) | callee_sizes(callee, operands, infer.host)
    for operand, param in zip(operands, callee.params, strict=True):
        if param.inout:
            call.pass_on(operand, param)
    return operands, tuple(call.result(t, binding) for t in callee.results)


def call_steps(module: Module, callee: Function, callees: Callees) -> tuple[Step, ...] | Unsolvable:
    """How the sizes of the operands (slots `param.0`, ..) determine the callee's symbols."""
    if callee.name in callees.steps:
        return callees.steps[callee.name]
    known = weight_symbols(module)
    facts = Facts([*(f for w in module.weights for f in w.facts), *callee.facts])
    solution = solve([s for p in callee.params for s in slots(p.name, p.type)], known, facts)
    found = callees.steps[callee.name] = solution if isinstance(solution, Unsolvable) else solution.steps
    return found


def call_binding(
    module: Module, callee: Function, types: Sequence[Type], facts: Facts, callees: Callees
) -> dict[str, Dim]:
    """The callee's symbols as sizes of the caller, for a call that was type-checked."""
    steps = call_steps(module, callee, callees)
    assert not isinstance(steps, Unsolvable), "a call of a function whose parameters were refused"
    values = actual_sizes(callee, types)
    for step in steps:
        if isinstance(step, BindSymbol):
            value = step.numerator.subs(values) // step.divisor.subs(values)
            values[step.symbol] = facts.simplify(value)
    return {name: d for name, d in values.items() if isinstance(d, Dim) and not _is_slot(name)}


def _is_slot(name: str) -> bool:
    return name.rpartition(".")[2].isdigit()


def actual_sizes(callee: Function, types: Sequence[Type]) -> dict[str, Dim | int | str]:
    """The slots of the callee's parameters as the sizes of the operands."""
    return {slot: d for p, t in zip(callee.params, types, strict=True) for slot, d in slots(p.name, t)}


def weight_symbols(module: Module) -> frozenset[str]:
    """Symbols bound at load, the same in every function."""
    return frozenset[str]().union(*(symbols_of(w.type) for w in module.weights))


class _Call:
    """One call; `fail` says which."""

    def __init__(self, infer: FunctionInfer, callee: Function, span: Span | None) -> None:
        self.infer = infer
        self.callee = callee
        self.span = span

    def fail(self, message: str, help: str = "", symbols: Iterable[str] = ()) -> CompileError:
        return self.infer.fail(message, self.span, help, symbols=symbols)

    def check_kind(self, operand: Operand, param: Param, found: Type) -> None:
        """dtype, rank and tuple structure; the sizes come later."""
        if not _same_kind(found, param.type):
            name = text_of(operand)
            message = f"`{param.name}` of `@{self.callee.name}` is {param.type}, and `{name}` is {found}"
            unranked = isinstance(found, TensorType) and found.shape is None
            raise self.fail(message, "give it a type with match_cast" if unranked else "", symbols_of(found))

    def check_bound(self, operands: Sequence[Operand]) -> None:
        """What the callee makes sizes of must be known before the program runs."""
        needed = bound_leaves(self.infer.module, self.callee, self.infer.callees.leaves)
        for leaf, known in given_leaves(self.callee, operands, self.infer.host):
            if leaf in needed and known is None:
                message = f"`@{self.callee.name}` makes a size of `{leaf}`, and what is given for it is computed"
                raise self.fail(f"{message}: that comes in a later version", "give it a parameter of type i64[]")

    def bind(self, types: list[Type]) -> dict[str, Dim | int | str]:
        """The callee's symbols (and slots) as sizes of the caller."""
        steps = call_steps(self.infer.module, self.callee, self.infer.callees)
        if isinstance(steps, Unsolvable):
            raise CompileError(())  # said at the callee
        facts = self.infer.facts
        values = actual_sizes(self.callee, types)
        for step in steps:
            if isinstance(step, BindSymbol):
                values[step.symbol] = self._value(step, values, facts)
            else:
                actual, expected = Dim.of(step.slot).subs(values), step.expected.subs(values)
                self._require(Compare("==", actual, expected), f"its {_place(step.slot)} must be {step.expected}")
        for fact in self.callee.facts:
            self._require(fact.subs(values), f"its fact `{fact}`")
        return values

    def _value(self, step: BindSymbol, values: dict[str, Dim | int | str], facts: Facts) -> Dim:
        numerator, divisor = step.numerator.subs(values), step.divisor.subs(values)
        if divisor != 1:
            whole = Compare("==", numerator % divisor, 0)
            self._require(whole, f"its size `{step.symbol}` must be a whole number")
        value = facts.simplify(numerator // divisor)
        self._require(Compare(">=", value, 0), f"its size `{step.symbol}` must not be negative")
        return value

    def _require(self, fact: Fact, what: str) -> None:
        facts = self.infer.facts
        if facts.prove(fact):
            return
        message = f"this call of `@{self.callee.name}` is not proven right: {what}, here `{fact}`"
        raise self.fail(message, facts.advice(fact), fact.symbols)

    def pass_on(self, operand: Operand, param: Param) -> None:
        """An inout parameter takes an inout parameter of the caller, and that is its update."""
        if not isinstance(operand, Var) or operand.name not in self.infer.inout:
            name = text_of(operand)
            help = f"declare it `inout {name}: ...`" if isinstance(operand, (Var, GlobalRef)) else ""
            message = f"`{param.name}` of `@{self.callee.name}` is updated in place; `{name}` is no inout parameter"
            raise self.fail(message, help)
        self.infer.note_update(operand.name, self.span)

    def result(self, t: Type, values: dict[str, Dim | int | str]) -> Type:
        """A result type over the caller's sizes."""
        missing = sorted(symbols_of(t) - values.keys() - self.infer.symbols)
        if missing:
            message = f"the result {t} of `@{self.callee.name}` has a size that is bound inside it: `{missing[0]}`"
            help = "only sizes of its parameters are known to the caller, and what it binds where that is bound before"
            raise self.fail(message, help)
        return subs_type(t, values)


def _same_kind(found: Type, wanted: Type) -> bool:
    if isinstance(found, TupleType) or isinstance(wanted, TupleType):
        if not (isinstance(found, TupleType) and isinstance(wanted, TupleType)):
            return False
        return len(found.items) == len(wanted.items) and all(map(_same_kind, found.items, wanted.items))
    if found.dtype is not wanted.dtype:
        return False
    return wanted.shape is None or (found.shape is not None and len(found.shape) == len(wanted.shape))


def _place(slot: str) -> str:
    name, _, dim = slot.rpartition(".")
    return f"dimension {dim} of `{name}`"
