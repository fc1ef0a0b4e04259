"""Building graphs from Python, with the vocabulary of the text.

    m = ModuleBuilder()
    w = m.weight("up", "f32[h, 4*h]", where=["h % 16 == 0"])
    f = m.function("main", params={"x": "f32[n, h]"}, where=["n in 0..1024"])
    f.returns(f.gelu(f.matmul(f.x, w)))
    module = m.build()

`Builder` appends typed statements: `b.softmax(b.add(x, y), axis=-1)` calls the op of that name with the attributes
of that name, infers its type at once and returns the value.  Composite ops are written with it too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from .build_values import attribute, nested
from .diagnostics import CompileError, Span, error
from .dims import Dim
from .facts import Fact, Facts
from .graph import (
    Apply,
    Bind,
    Block,
    CallFunction,
    Const,
    DimValue,
    Field,
    Function,
    GlobalRef,
    Likely,
    Literal,
    MatchCast,
    Module,
    NoneValue,
    Operand,
    Param,
    Statement,
    Target,
    TupleValue,
    Update,
    Var,
    Weight,
    targets_of,
)
from .infer import infer_apply, literal
from .infer_function import FunctionInfer
from .infer_module import infer_module
from .infer_scope import function_scope, module_scope, raise_problems, symbols_of
from .op import Op
from .registry import registry
from .types import TensorType, TupleType, Type

Given = Operand | bool | int | float | Dim | None
"""What a builder call takes as an operand: numbers and sizes become literals, None an absent operand."""


class Builder:
    """Appends statements to a block.  `types` maps the names in scope to types and is added to.

    Names it makes start with `prefix`, and are none of `taken` (symbols, names that come later).  `trusted`: what it
    appends is right if its facts show it or not (see `InferContext`).
    """

    def __init__(
        self,
        facts: Facts,
        types: dict[str, Type],
        globals_: dict[str, TensorType],
        prefix: str = "t",
        taken: Collection[str] = (),
        trusted: bool = False,
    ) -> None:
        self.facts = facts
        self.types = types
        self.globals = globals_
        self.statements: list[Statement] = []
        self.span: Span | None = None
        self._prefix = prefix
        self._taken = taken
        self._count = 0
        self._trusted = trusted

    def type(self, operand: Operand) -> TensorType:
        """The type of a tensor operand."""
        t = self._type_of(operand)
        assert isinstance(t, TensorType), "a tuple where a tensor is wanted"
        return t

    def _type_of(self, operand: Operand) -> Type:
        if isinstance(operand, Var):
            return self.types[operand.name]
        if isinstance(operand, GlobalRef):
            return self.globals[operand.name]
        if isinstance(operand, (Literal, DimValue)) and operand.dtype is not None:
            return TensorType(operand.dtype, ())
        if isinstance(operand, TupleValue):
            return TupleType(tuple(map(self._type_of, operand.items)))
        raise TypeError(f"{operand} has no type of its own")

    def fresh(self) -> str:
        """A name not in scope."""
        while True:
            name = f"{self._prefix}{self._count}"
            self._count += 1
            if name not in self.types and name not in self._taken:
                return name

    def apply(self, op: Op, *operands: Given, names: tuple[str, ...] = ()) -> Var | tuple[Var, ...]:
        """Appends `op` applied to `operands`; one Var, or a tuple for ops with several results."""
        given = tuple(_operand(o) for o in operands)
        typed, results = infer_apply(op, given, self._type_of, self.facts, self.span, trusted=self._trusted)
        targets: list[Target] = []
        for i, t in enumerate(results):
            name = names[i] if names else self.fresh()
            self.types[name] = t
            targets.append(Target(name, t, self.span))
        self.statements.append(Apply(tuple(targets), op, typed, self.span))
        values = tuple(Var(t.name) for t in targets)
        return values if len(values) > 1 else values[0]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        cls = registry().get(name.rstrip("_"))
        if cls is None:
            raise AttributeError(f"there is no operator `{name}`")
        known = {f.name for f in fields(cls)}

        def call(*operands: Given, **attributes: object) -> Var | tuple[Var, ...]:
            unknown = set(attributes) - known
            if unknown:
                raise error(f"`{name}` has no attribute `{sorted(unknown)[0]}`; it has {sorted(known)}", self.span)
            return self.apply(cls(**{k: attribute(cls, k, v) for k, v in attributes.items()}), *operands)

        return call


def _operand(given: Given) -> Operand:
    if given is None:
        return NoneValue()
    if isinstance(given, (bool, int, float, Dim)):
        return literal(given)
    return given


class ModuleBuilder:
    """Builds a module.  Types and facts are written as in the text; a mistake raises CompileError at once."""

    def __init__(self) -> None:
        self._weights: list[Weight] = []
        self._consts: list[Const] = []
        self._functions: list[FunctionBuilder] = []

    def weight(self, name: str, type: str | TensorType, where: Iterable[str | Fact] = ()) -> GlobalRef:
        """Declares a weight; symbols of its type are in scope in all functions declared after it."""
        t = _tensor_type(type)
        symbols = symbols_of(t).union(*(symbols_of(w.type) for w in self._weights))
        facts = _facts(where, symbols)
        self._weights.append(Weight(name, t, facts))
        return GlobalRef(name)

    def const(self, name: str, type: str | TensorType, value: object) -> GlobalRef:
        """Declares a constant: nested lists of numbers, or a numpy array, of the shape of its type."""
        t = _tensor_type(type)
        self._consts.append(Const(name, t, nested(name, value, t)))
        return GlobalRef(name)

    def function(
        self,
        name: str,
        params: Mapping[str, str | Type],
        where: Iterable[str | Fact] = (),
        likely: Mapping[str, Sequence[int]] | None = None,
        results: Sequence[str | Type] | None = None,
    ) -> FunctionBuilder:
        """Starts a function; a type that starts with `inout` is that of a parameter updated in place.

        The result types are those of the values returned unless `results` declares them.
        """
        listed = tuple(_param(n, t) for n, t in params.items())
        hints = tuple(Likely(symbol, tuple(values)) for symbol, values in (likely or {}).items())
        declared = None if results is None else tuple(map(_type, results))
        builder = FunctionBuilder(self._module(), name, listed, tuple(where), hints, declared)
        self._functions.append(builder)
        return builder

    def _module(self) -> Module:
        done = tuple(f.function() for f in self._functions if f.returned)
        return Module(tuple(self._weights), tuple(self._consts), done)

    def build(self) -> Module:
        """The type-checked module; CompileError when a function has not returned."""
        for f in self._functions:
            if not f.returned:
                raise error(f"`@{f.name}` does not return: say `f.returns(...)`")
        return infer_module(self._module())


class FunctionBuilder(Builder):
    """One function.  Parameters are attributes (`f.x`) or items (`f["x"]`), sizes are `f.dim("n")`."""

    def __init__(
        self,
        module: Module,
        name: str,
        params: tuple[Param, ...],
        where: tuple[str | Fact, ...],
        likely: tuple[Likely, ...],
        results: tuple[Type, ...] | None,
    ) -> None:
        symbols = module_scope(module).symbols.union(*(symbols_of(p.type) for p in params))
        facts = _facts(where, symbols)
        self.name = name
        self.returned = False
        self._function = Function(name, params, results or (), facts, likely, Block((), ()))
        self._declared = results
        scope = function_scope(module, self._function)
        raise_problems(scope.problems)
        globals_ = {w.name: w.type for w in module.weights} | {c.name: c.type for c in module.consts}
        super().__init__(scope.facts, {p.name: p.type for p in params}, globals_, taken=symbols)
        self._infer = FunctionInfer(module, self._function)

    def __getitem__(self, name: str) -> Var:
        """A parameter by name."""
        if all(p.name != name for p in self._function.params):
            raise KeyError(name)
        return Var(name)

    def __getattr__(self, name: str) -> Any:
        function = self.__dict__.get("_function")
        if function is not None and any(p.name == name for p in function.params):
            return Var(name)
        return super().__getattr__(name)

    def dim(self, text: str) -> Dim:
        """A size over the symbols in scope: `f.dim("4*h")`."""
        from .parser import parse_dim

        return parse_dim(text, self._infer.symbols)

    def match_cast(self, x: Given, type: str | Type, where: Iterable[str | Fact] = ()) -> Var:
        """Asserts a type at run time; symbols new in it are bound."""
        t = _type(type)
        facts = _facts(where, symbols_of(t) | self._infer.symbols)
        (value,) = self._append(MatchCast(Target(self.fresh(), t), _operand(x), facts))
        return value

    def bind(self, symbol: str, x: Given, where: Iterable[str | Fact] = ()) -> Dim:
        """Makes a size of an i64[] parameter, checked at the call: the symbol."""
        facts = _facts(where, {symbol, *self._infer.symbols})
        self._append(Bind(symbol, _operand(x), facts))
        return Dim.of(symbol)

    def assume(self, fact: Fact) -> None:
        """One more fact, checked at every call where its symbols become known; what follows may rely on it.

        ValueError for a fact of symbols that the function does not bind.
        """
        if not fact.symbols <= self._infer.symbols:
            raise ValueError(f"nothing binds all symbols of {fact}")
        self.facts = self._infer.facts = self.facts.add(fact)
        for at, statement in reversed(list(enumerate(self.statements))):
            if isinstance(statement, Bind) and statement.symbol in fact.symbols:
                self.statements[at] = replace(statement, facts=(*statement.facts, fact))
                return
        self._function = replace(self._function, facts=(*self._function.facts, fact))

    def call(self, function: str, *operands: Given, results: int = 1) -> Var | tuple[Var, ...]:
        """Calls a function built before; `results` is how many values it returns."""
        targets = tuple(Target(self.fresh()) for _ in range(results))
        values = self._append(CallFunction(targets, function, tuple(map(_operand, operands))))
        return values[0] if len(values) == 1 else values

    def field(self, x: Operand, index: int) -> Var:
        """An item of a tuple."""
        (value,) = self._append(Field(Target(self.fresh()), x, index))
        return value

    def update(self, param: str, value: Given) -> None:
        """The new value of an inout parameter."""
        self._append(Update(param, _operand(value)))

    def returns(self, *values: Given | tuple[Given, ...]) -> None:
        """Ends the function; a Python tuple returns a tuple."""
        operands = tuple(_result(v) for v in values)
        typed = tuple(self._infer.typed(o) for o in operands)
        results = self._declared if self._declared is not None else tuple(map(self._type_of, typed))
        old = self._function
        block = Block(tuple(self.statements), operands if self._declared is not None else typed)
        self._function = Function(old.name, old.params, results, old.facts, old.likely, block)
        self.returned = True

    def function(self) -> Function:
        """The function as it was returned."""
        return self._function

    def apply(self, op: Op, *operands: Given, names: tuple[str, ...] = ()) -> Var | tuple[Var, ...]:
        made = super().apply(op, *operands, names=names)
        self._infer.types.update(self.types)
        return made

    def _append(self, statement: Statement) -> tuple[Var, ...]:
        """A statement typed as the `infer` pass does it."""
        typed = self._infer.statement(statement)
        self.facts = self._infer.facts
        self.statements.append(typed)
        for target in targets_of(typed):
            assert target.type is not None
            self.types[target.name] = target.type
        return tuple(Var(t.name) for t in targets_of(typed))


def _facts(given: Iterable[str | Fact], symbols: Collection[str]) -> tuple[Fact, ...]:
    """Facts, read where they are text."""
    from .parser import parse_facts

    return tuple(f for g in given for f in (parse_facts(g, set(symbols)) if isinstance(g, str) else (g,)))


def _result(value: Given | tuple[Given, ...]) -> Operand:
    return TupleValue(tuple(map(_operand, value))) if isinstance(value, tuple) else _operand(value)


def _type(given: str | Type) -> Type:
    from .parser import parse_type

    return parse_type(given) if isinstance(given, str) else given


def _tensor_type(given: str | Type) -> TensorType:
    t = _type(given)
    if not isinstance(t, TensorType) or t.shape is None:
        raise CompileError(error(f"a weight or constant is a tensor of known rank, not {t}").diagnostics)
    return t


def _param(name: str, given: str | Type) -> Param:
    inout = isinstance(given, str) and given.startswith("inout ")
    return Param(name, _type(given.removeprefix("inout ") if isinstance(given, str) else given), inout)
