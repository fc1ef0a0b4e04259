"""Types of all statements of a function, and every refusal of the type rules.

A refused statement poisons its results, unless they carry a type: then that is believed, so that one mistake does not
hide the next and does not cause others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from .diagnostics import CompileError, Diagnostic, Span
from .dims import Dim
from .facts import Compare, Fact, Facts
from .graph import (
    Apply,
    Assign,
    Bind,
    Block,
    CallFunction,
    DimValue,
    Field,
    Function,
    GlobalRef,
    If,
    Literal,
    MatchCast,
    Module,
    NoneValue,
    Operand,
    Statement,
    Target,
    TupleValue,
    Update,
    Var,
    While,
    operands_of,
    targets_of,
)
from .infer import default_dtype, infer_apply, text_of, with_dtype
from .infer_bind import SCALAR, HostValues, bind_facts
from .infer_call import call_results
from .infer_match import match_facts
from .infer_scope import Callees, ScopeFacts, contradiction, function_scope, origin, raise_problems, symbols_of
from .op import InferContext
from .types import TensorType, TupleType, Type


class Poison(Exception):
    """An operand comes from a statement that was refused."""


class FunctionInfer:
    """Infers one function; `problems` are the refusals."""

    def __init__(self, module: Module, function: Function, outer: ScopeFacts | None = None) -> None:
        self.module = module
        self.function = function
        scope = function_scope(module, function, outer)
        self.callees = outer.callees if outer is not None else Callees()
        self.facts: Facts = scope.facts
        self.symbols: set[str] = set(scope.symbols)
        self.origins: dict[str, str] = dict(scope.origins)
        inherited = outer.problems if outer is not None else []
        self.problems: list[Diagnostic] = [p for p in scope.problems if p not in inherited]
        self.types: dict[str, Type | None] = {p.name: p.type for p in function.params}  # None: poisoned
        self.inout = {p.name: p.type for p in function.params if p.inout}
        self.updated: dict[str, Span | None] = {}
        self.host = HostValues.of_params(function.params)
        self._simple: dict[Dim, Dim] = {}

    def run(self) -> Function:
        """The function with all types; raises CompileError with all `problems`."""
        body = self._block(self.function.body)
        raise_problems(self.problems)
        return replace(self.function, body=body)

    def _block(self, block: Block) -> Block:
        statements: list[Statement] = []
        for statement in block.statements:
            try:
                statements.append(self.statement(statement))
            except CompileError as refusal:
                self.problems.extend(refusal.diagnostics)
                self._poison(statement)
            except Poison:
                self._poison(statement)
        return Block(tuple(statements), self._results(block), block.span)

    def _poison(self, statement: Statement) -> None:
        for target in targets_of(statement):
            self.types[target.name] = target.type
            if target.type is not None:
                self._new_symbols(symbols_of(target.type), f"{target.name}: {target.type}", target.span)
        if isinstance(statement, Bind):
            self._new_symbols((statement.symbol,), f"bind {statement.symbol} = {text_of(statement.operand)}")
            with suppress(CompileError):
                self._learn((), statement)

    def _new_symbols(self, symbols: Iterable[str], text: str, span: Span | None = None) -> None:
        """Symbols of a match_cast or bind come into scope."""
        for symbol in sorted(set(symbols) - self.symbols):
            self.symbols.add(symbol)
            self.origins[symbol] = origin(symbol, text, span)

    # -- operands

    def type_of(self, operand: Operand) -> Type:
        """The type of an operand; literals without a dtype take their default."""
        if isinstance(operand, Var):
            t = self.types[operand.name]
            if t is None:
                raise Poison
            return t
        if isinstance(operand, GlobalRef):
            return self.module.global_type(operand.name)
        if isinstance(operand, TupleValue):
            return TupleType(tuple(map(self.type_of, operand.items)))
        if isinstance(operand, (Literal, DimValue)):
            return TensorType(operand.dtype or default_dtype(operand), ())
        raise self.fail("`none` is no value", operand.span)

    def typed(self, operand: Operand, wanted: Type | None = None) -> Operand:
        """The operand with the dtypes of its literals filled in: those of `wanted`, or their defaults."""
        if isinstance(operand, TupleValue):
            items = wanted.items if isinstance(wanted, TupleType) and len(wanted.items) == len(operand.items) else None
            return replace(
                operand, items=tuple(self.typed(x, items[i] if items else None) for i, x in enumerate(operand.items))
            )
        if isinstance(operand, (Literal, DimValue)) and operand.dtype is None:
            dtype = wanted.dtype if isinstance(wanted, TensorType) else default_dtype(operand)
            return with_dtype(InferContext(self.facts, "", operand.span), operand, dtype)
        return operand

    def fail(
        self, message: str, span: Span | None, help: str = "", label: str = "", symbols: Iterable[str] = ()
    ) -> CompileError:
        notes = tuple(self.origins[s] for s in sorted(set(symbols)) if s in self.origins)
        return CompileError((Diagnostic(message, span, label, notes, (help,) if help else ()),))

    # -- statements

    def statement(self, statement: Statement) -> Statement:
        """The statement with its types; its targets are then in scope."""
        for operand in operands_of(statement):
            self._check_operand(operand)
        kind = type(statement)
        rule: Callable[[Statement], Statement] | None = getattr(self, _RULES.get(kind, ""), None)
        if rule is None:
            what = {If: "if", While: "while"}[kind]
            raise self.fail(f"`{what}` is not there yet: it comes in a later version", statement.span)
        typed = rule(statement)
        self.host.note(typed)
        return typed

    def _check_operand(self, operand: Operand) -> None:
        if isinstance(operand, Var) and self.types[operand.name] is None:
            raise Poison
        if isinstance(operand, DimValue):
            self._in_scope(operand.dim.symbols, operand.span, "here")
        if isinstance(operand, TupleValue):
            for item in operand.items:
                self._check_operand(item)

    def _in_scope(self, symbols: Iterable[str], span: Span | None, where: str) -> None:
        missing = sorted(set(symbols) - self.symbols)
        if missing:
            help = "a size comes into scope in the type of a parameter or a weight, in a match_cast, or in a bind"
            raise self.fail(f"there is no size `{missing[0]}` {where}", span, help)

    def _apply(self, statement: Apply) -> Statement:
        op = statement.op
        self._in_scope(op.dims(), statement.span, f"for the attributes of `{op.name}`")
        operands, results = infer_apply(op, statement.operands, self.type_of, self.facts, statement.span, self.origins)
        targets = self._targets(statement.targets, results, f"`{op.name}`", statement.span)
        return replace(statement, targets=targets, operands=operands)

    def _targets(
        self, targets: tuple[Target, ...], results: tuple[Type, ...], what: str, span: Span | None
    ) -> tuple[Target, ...]:
        if len(targets) != len(results):
            count = f"{len(results)} result{'s' if len(results) != 1 else ''}"
            help = "the positions are `argmax` and `argmin`" if what in ("`max`", "`min`") else ""
            raise self.fail(f"{what} has {count}, {len(targets)} named", span, help)
        return tuple(self._target(t, r, what) for t, r in zip(targets, results, strict=True))

    def _target(self, target: Target, result: Type, what: str) -> Target:
        """A written type is proven and kept; otherwise the inferred one, simplified by the facts."""
        if target.type is None:
            t = self._simplified(result)
        else:
            t = target.type
            self._in_scope(symbols_of(t), target.span, "in this type")
            self.require_type(result, t, f"the result of {what}", target.span)
        self.types[target.name] = t
        return replace(target, type=t)

    def _simplified(self, t: Type) -> Type:
        if isinstance(t, TupleType):
            return TupleType(tuple(map(self._simplified, t.items)))
        if t.shape is None:
            return t
        return TensorType(t.dtype, tuple(map(self._simple_dim, t.shape)))

    def _simple_dim(self, dim: Dim) -> Dim:
        if dim.is_const or dim.name is not None:
            return dim
        if dim not in self._simple:
            self._simple[dim] = self.facts.simplify(dim)
        return self._simple[dim]

    def require_type(self, found: Type, wanted: Type, what: str, span: Span | None, instead: str = "") -> None:
        """Refuses unless the types are provably the same; `instead` is what makes them so without a fact."""
        problem = self.difference(found, wanted)
        if problem is not None:
            a, b, dims = problem
            say = "" if dims is None else self.facts.advice(Compare("==", *dims))
            help = ", or ".join(h for h in (instead, say) if h)
            symbols = symbols_of(a) | symbols_of(b)
            raise self.fail(f"{what} is {found}, not {wanted}", span, help, symbols=symbols)

    def difference(self, found: Type, wanted: Type) -> tuple[Type, Type, tuple[Dim, Dim] | None] | None:
        """The first pair of types that are not provably the same, with the sizes that differ."""
        if found == wanted:
            return None
        if isinstance(found, TupleType) or isinstance(wanted, TupleType):
            if not (isinstance(found, TupleType) and isinstance(wanted, TupleType)):
                return found, wanted, None
            if len(found.items) != len(wanted.items):
                return found, wanted, None
            pairs = (self.difference(a, b) for a, b in zip(found.items, wanted.items, strict=True))
            return next((p for p in pairs if p is not None), None)
        same = found.dtype is wanted.dtype and (found.shape is None) == (wanted.shape is None)
        if not same or found.shape is None or wanted.shape is None or len(found.shape) != len(wanted.shape):
            return found, wanted, None
        for a, b in zip(found.shape, wanted.shape, strict=True):
            if not self.facts.prove_eq(a, b):
                return found, wanted, (a, b)
        return None

    def _call(self, statement: CallFunction) -> Statement:
        operands, results = call_results(self, statement)
        targets = self._targets(statement.targets, results, f"`@{statement.function}`", statement.span)
        return replace(statement, targets=targets, operands=operands)

    def _match_cast(self, statement: MatchCast) -> Statement:
        t = statement.target.type
        assert t is not None
        operand = self.typed(statement.operand)
        facts = match_facts(self, self.type_of(operand), t, statement)
        self._new_symbols(symbols_of(t), f"{statement.target.name}: {t}", statement.target.span)
        self._learn(facts, statement)
        self.types[statement.target.name] = t
        return replace(statement, operand=operand)

    def _learn(self, facts: Iterable[Fact], statement: MatchCast | Bind) -> None:
        """Takes into scope what a statement says, in its `where` clause and beside it."""
        for fact in statement.facts:
            self._in_scope(fact.symbols, fact.span, "in this fact")
        new = [*facts, *statement.facts]
        together = self.facts.add(*new)
        conflict = contradiction(together, new)
        if conflict is not None:
            raise CompileError((replace(conflict, span=conflict.span or statement.span),))
        self.facts = together
        self._simple.clear()

    def _bind(self, statement: Bind) -> Statement:
        bound = replace(statement, operand=self.typed(statement.operand, SCALAR))
        facts = bind_facts(self, bound)
        text = f"bind {statement.symbol} = {text_of(statement.operand)}"
        self._new_symbols((statement.symbol,), text, statement.span)
        self._learn(facts, statement)
        return bound

    def _field(self, statement: Field) -> Statement:
        t = self.type_of(statement.operand)
        name = text_of(statement.operand)
        if not isinstance(t, TupleType):
            raise self.fail(f"`{name}` is no tuple, but {t}", statement.span)
        if statement.index >= len(t.items):
            raise self.fail(f"`{name}` has {len(t.items)} fields, counted from 0", statement.span)
        return replace(statement, target=self._target(statement.target, t.items[statement.index], f"`{name}`"))

    def _assign(self, statement: Assign) -> Statement:
        operand = self.typed(statement.operand, statement.target.type)
        t = self.type_of(operand)
        return replace(statement, operand=operand, target=self._target(statement.target, t, f"`{text_of(operand)}`"))

    def _update(self, statement: Update) -> Statement:
        name = statement.param
        if name not in self.inout:
            raise self.fail(f"`{name}` is not an inout parameter", statement.span)
        operand = self.typed(statement.operand, self.inout[name])
        self.note_update(name, statement.span)
        self.require_type(self.type_of(operand), self.inout[name], f"the update of `{name}`", statement.span)
        return replace(statement, operand=operand)

    def note_update(self, name: str, span: Span | None) -> None:
        """An inout parameter is updated once: by an `update`, or by passing it on as one."""
        if name in self.updated:
            first = self.updated[name]
            help = "say one `update`, with the last value"
            raise self.fail(f"`{name}` is updated twice", span, help, f"it was updated at {first}" if first else "")
        self.updated[name] = span

    def _results(self, block: Block) -> tuple[Operand, ...]:
        declared = self.function.results
        if len(block.results) != len(declared):
            returns = f"returns {len(block.results)} value{'s' if len(block.results) != 1 else ''}"
            says = f"says {len(declared)}" if declared else "says none (`-> type` is missing)"
            message = f"`@{self.function.name}` {returns}, and its head {says}"
            self.problems.append(Diagnostic(message, block.span, helps=self._return_help(block)))
            return block.results
        results: list[Operand] = []
        for i, (operand, wanted) in enumerate(zip(block.results, declared, strict=True)):
            results.append(operand)
            try:
                self._check_operand(operand)
                if isinstance(operand, NoneValue):
                    raise self.fail("`none` is no value", operand.span)
                self._in_scope(symbols_of(wanted), self.function.span, f"in the type of result {i}")
                results[-1] = self.typed(operand, wanted)
                found = self.type_of(results[-1])
                span = operand.span or self.function.span
                self.require_type(found, wanted, f"`{text_of(operand)}`", span, f"write the result's type as `{found}`")
            except CompileError as refusal:
                self.problems.extend(refusal.diagnostics)
            except Poison:
                pass
        return tuple(results)

    def _return_help(self, block: Block) -> tuple[str, ...]:
        """How head and `return` come to agree, where it is plain which of them is meant."""
        declared, given = self.function.results, block.results
        names = ", ".join(map(text_of, given))
        if not given:
            last = [t.name for s in block.statements[-1:] for t in targets_of(s)]
            return (f"end it with `return {', '.join(last)}`",) if len(last) == len(declared) else ()
        if len(declared) == 1 and isinstance(declared[0], TupleType) and len(declared[0].items) == len(given):
            return (f"return a tuple: `return ({names})`",)
        if len(given) == 1 and isinstance(given[0], TupleValue) and len(given[0].items) == len(declared):
            return (f"return the values: `return {names[1:-1]}`",)
        types = [self.types.get(o.name) for o in given if isinstance(o, Var)]
        if not declared and len(types) == len(given) and all(t is not None for t in types):
            return (f"write `-> {', '.join(map(str, types))}` after the parameters",)
        return ()


_RULES: dict[type, str] = {
    Apply: "_apply",
    CallFunction: "_call",
    MatchCast: "_match_cast",
    Field: "_field",
    Assign: "_assign",
    Update: "_update",
    Bind: "_bind",
}
