"""Statements that one thread runs by itself."""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.loops import (
    Alloc,
    Assign,
    Expr,
    For,
    If,
    Let,
    Local,
    Require,
    Stmt,
    Store,
    While,
)
from ....ir.types import DType
from .context import FunctionContext, loop_bounds
from .expr import element, emit, integer, stored
from .index import ATOM, Int
from .scope import Scope
from .values import Value, bare, convert, register_type
from .writer import Writer


@dataclass(frozen=True)
class ThreadEmitter:
    """Everything in order, loops of every kind included."""

    context: FunctionContext

    def body(self, w: Writer, stmts: tuple[Stmt, ...], scope: Scope) -> None:
        """Statements in a scope of their own."""
        scope = scope.inner()
        for stmt in stmts:
            self.stmt(w, stmt, scope)

    def stmt(self, w: Writer, stmt: Stmt, scope: Scope) -> None:
        match stmt:
            case Let(name, value):
                let(w, name, value, scope)
            case Local(name, init):
                local(w, name, init, scope)
            case Assign(name, value):
                assign(w, name, value, scope)
            case Store(buffer, index, value):
                w.line(store(buffer, index, value, scope))
            case Alloc():
                self.context.declare(w, stmt, self.context.storage.of_thread(stmt), scope)
            case Require():
                self.context.require(w, stmt, scope)
            case For():
                self._for(w, stmt, scope)
            case If():
                with w.block(f"if ({condition(stmt.condition, scope)})"):
                    self.body(w, stmt.then, scope)
                if stmt.otherwise:
                    with w.block("else"):
                        self.body(w, stmt.otherwise, scope)
            case While():
                with w.block(f"while ({condition(stmt.condition, scope)})"):
                    self.body(w, stmt.body, scope)
            case _:
                raise TypeError(f"{type(stmt).__name__} in kernel `{self.context.kernel.name}` is not for the GPU")

    def _for(self, w: Writer, loop: For, scope: Scope) -> None:
        inner = scope.inner()
        start, stop = loop_bounds(w, loop, scope)
        name = inner.name(loop.var)
        inner.let_int(loop.var, Int(name, ATOM, start.natural))
        with w.block(f"for (long long {name} = {start.text}; {name} < {stop.text}; ++{name})"):
            self.body(w, loop.body, inner)


def let(w: Writer, name: str, value: Expr, scope: Scope) -> None:
    """Names a value."""
    if value.dtype is DType.i64:
        number = integer(value, scope)
        text = scope.name(name)
        w.line(f"const long long {text} = {bare(number.text)};")
        scope.let_int(name, Int(text, ATOM, number.natural))
        return
    made = emit(value, scope)
    text = scope.name(name)
    w.line(f"const {made.type} {text} = {bare(made.text)};")
    scope.let_value(name, Value(text, made.dtype))


def local(w: Writer, name: str, init: Expr, scope: Scope) -> None:
    """A variable."""
    made = emit(init, scope)
    text = scope.name(name)
    w.line(f"{made.type} {text} = {bare(made.text)};")
    scope.let_value(name, Value(text, made.dtype))


def assign(w: Writer, name: str, value: Expr, scope: Scope) -> None:
    """A variable's new value."""
    target = scope.values[name]
    made = emit(value, scope)
    if register_type(made.dtype) != target.type:
        made = convert(made, target.dtype)
    w.line(f"{target.text} = {bare(made.text)};")


def store(buffer: str, index: Expr, value: Expr, scope: Scope) -> str:
    """The statement that stores an element."""
    ref = scope.buffers[buffer]
    return f"{element(ref, index, scope)} = {stored(value, ref.dtype, scope)};"


def condition(value: Expr, scope: Scope) -> str:
    """An expression as the condition of an `if`."""
    return bare(convert(emit(value, scope), DType.bool).text)
