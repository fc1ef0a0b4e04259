"""What every graph between passes must satisfy.  A violation is a fault of the pass before, never of the user."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import PliantError
from .diagnostics import CompileError
from .graph import (
    Apply,
    Bind,
    Block,
    CallFunction,
    DimValue,
    Function,
    GlobalRef,
    If,
    Literal,
    Module,
    Operand,
    Statement,
    TupleValue,
    Update,
    Var,
    While,
    operands_of,
    targets_of,
)
from .infer_module import infer_module
from .infer_scope import function_scope, symbols_of


class VerifyError(PliantError):
    """The IR is not well formed; the message lists what is wrong, one line each."""


def verify_module(module: Module, typed: bool = True) -> None:
    """Names are defined once and before use, calls fit, sizes are in scope; with `typed`, types are right.

    Raises VerifyError.
    """
    problems = list(structure(module))
    if not problems and typed:
        problems = list(_types(module))
    if problems:
        raise VerifyError("\n".join(problems))


def structure(module: Module) -> Iterator[str]:
    """What is wrong with names, types aside."""
    globals_ = frozenset([w.name for w in module.weights] + [c.name for c in module.consts])
    names = [w.name for w in module.weights] + [c.name for c in module.consts] + [f.name for f in module.functions]
    yield from (f"`@{n}` is defined {names.count(n)} times" for n in sorted({n for n in names if names.count(n) > 1}))
    arity = {f.name: len(f.params) for f in module.functions}
    for f in module.functions:
        yield from (f"@{f.name}: {problem}" for problem in _Structure(module, f, globals_, arity).run())


class _Structure:
    """Names of one function."""

    def __init__(self, module: Module, function: Function, globals_: frozenset[str], arity: dict[str, int]) -> None:
        self.function = function
        self.globals = globals_
        self.arity = arity
        self.symbols = set(function_scope(module, function, checked=True).symbols)

    def run(self) -> Iterator[str]:
        defined: set[str] = set()
        for param in self.function.params:
            yield from self._define(param.name, defined)
        yield from self._block(self.function.body, defined)
        updated = [s.param for s in self.function.body.statements if isinstance(s, Update)]
        yield from (f"`{p}` is updated twice" for p in sorted({p for p in updated if updated.count(p) > 1}))

    def _define(self, name: str, defined: set[str]) -> Iterator[str]:
        if name in defined:
            yield f"the value `{name}` is defined twice"
        if name in self.symbols:
            yield f"`{name}` is both a value and a symbol"
        defined.add(name)

    def _symbol(self, name: str, defined: set[str]) -> Iterator[str]:
        if name in self.symbols:
            yield f"the symbol `{name}` is bound twice"
        if name in defined:
            yield f"`{name}` is both a value and a symbol"
        self.symbols.add(name)

    def _block(self, block: Block, defined: set[str]) -> Iterator[str]:
        for statement in block.statements:
            for operand in operands_of(statement):
                yield from self._operand(operand, defined)
            yield from self._statement(statement, defined)
            if isinstance(statement, Bind):
                yield from self._symbol(statement.symbol, defined)
            for target in targets_of(statement):
                if target.type is not None:
                    self.symbols |= symbols_of(target.type)
                yield from self._define(target.name, defined)
        for operand in block.results:
            yield from self._operand(operand, defined)

    def _statement(self, statement: Statement, defined: set[str]) -> Iterator[str]:
        if isinstance(statement, CallFunction) and self.arity.get(statement.function) != len(statement.operands):
            yield f"a call of `@{statement.function}` with {len(statement.operands)} operands"
        if isinstance(statement, Update) and statement.param not in {p.name for p in self.function.params if p.inout}:
            yield f"an update of `{statement.param}`, which is no inout parameter"
        if isinstance(statement, If):
            yield from self._block(statement.then, set(defined))
            yield from self._block(statement.otherwise, set(defined))
        if isinstance(statement, While):
            inner = defined | {name for name, _ in statement.inits}
            yield from self._block(statement.condition, set(inner))
            yield from self._block(statement.body, set(inner))

    def _operand(self, operand: Operand, defined: set[str]) -> Iterator[str]:
        if isinstance(operand, Var) and operand.name not in defined:
            yield f"`{operand.name}` is used before it is defined, or never defined"
        elif isinstance(operand, GlobalRef) and operand.name not in self.globals:
            yield f"there is no global `@{operand.name}`"
        elif isinstance(operand, DimValue) and operand.dim.is_const:
            yield f"the size {operand.dim} as a value is a number: it must be a literal"
        elif isinstance(operand, TupleValue):
            for item in operand.items:
                yield from self._operand(item, defined)


def _types(module: Module) -> Iterator[str]:
    for function in module.functions:
        yield from (f"@{function.name}: {problem}" for problem in _untyped(function))
    try:
        again = infer_module(module)
    except CompileError as refusal:
        yield from (d.message for d in refusal.diagnostics)
        return
    for old, new in zip(module.functions, again.functions, strict=True):
        for a, b in zip(old.body.statements, new.body.statements, strict=True):
            if a != b:
                yield f"@{old.name}: types are missing in {a}"


def _untyped(function: Function) -> Iterator[str]:
    for statement in function.body.statements:
        for target in targets_of(statement):
            if target.type is None:
                yield f"`{target.name}` has no type"
        for operand in operands_of(statement):
            if isinstance(operand, (Literal, DimValue)) and operand.dtype is None:
                yield f"a literal without a dtype in {statement.op.name if isinstance(statement, Apply) else statement}"
