"""Text to loops: `parse_program`, the inverse of `printer_loops.print_program`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, get_type_hints

from . import loops
from .diagnostics import CompileError
from .dims import Dim
from .loops import Apply, Buffer, Cast, Check, Const, Expr, Index, Kernel, Load, Name, Program, Select, Stmt
from .parser_hosts import HostTree, hosts
from .parser_syntax import parse_syntax
from .parser_tree import ExpressionTree, Node
from .parser_values import CONSTANTS, DIM_FUNCTIONS, Scope, to_dim, to_fact, to_float, to_int, to_string
from .printer_loops import result_dtype
from .types import DType


def parse_program(text: str, filename: str = "<text>") -> Program:
    """The program; CompileError when the text is not one."""
    try:
        syntax = parse_syntax(text, filename, "program", _TREE)
        if syntax.diagnostics:
            raise CompileError(tuple(syntax.diagnostics))
        return _program(syntax.tree, filename)
    except CompileError as refused:
        raise CompileError(refused.diagnostics, {filename: text}) from None


class LoopTree(HostTree, ExpressionTree):
    """Statements become (rule, children) pairs; expressions the nodes that graphs use, and a few more."""

    program = buffers = names = ExpressionTree._items

    def kernel(self, c: list[Any]) -> tuple[str, list[Any]]:
        return "kernel", c

    def buffer(self, c: list[Any]) -> list[Any]:
        return c

    def mode(self, c: list[Any]) -> str:
        return str(c[0])

    def check(self, c: list[Any]) -> list[Any]:
        return c

    def block(self, c: list[Any]) -> Any:
        return c[1:-1]

    def extent(self, c: list[Any]) -> list[Any]:
        return c

    def setting(self, c: list[Any]) -> list[Any]:
        return c

    def typed_name(self, c: list[Any]) -> Node:
        return Node("typed_name", (str(c[0]), DType(str(c[1]))), c[0], c[1])

    def typed_number(self, c: list[Any]) -> Node:
        return Node("typed_number", (c[0], DType(str(c[1]))), c[0], c[1])

    def load(self, c: list[Any]) -> Node:
        return Node("load", (str(c[0]), None, c[2]), c[0], c[3])

    def typed_load(self, c: list[Any]) -> Node:
        return Node("load", (str(c[0]), DType(str(c[1])), c[3]), c[0], c[4])

    def typed_apply(self, c: list[Any]) -> Node:
        return Node("typed_apply", (str(c[0]), DType(str(c[1])), c[3] or []), c[0], c[4])

    def cast(self, c: list[Any]) -> Node:
        return Node("cast", (DType(str(c[0])), c[2]), c[0], c[3])


def _statement_rule(name: str) -> Callable[[object, list[Any]], tuple[str, list[Any]]]:
    return lambda _, c: (name, c)


for _rule in ("let", "local", "assign", "store", "alloc", "for_", "if_", "while_", "require", "contract", "other"):
    setattr(LoopTree, _rule, _statement_rule(_rule))
_TREE = LoopTree()


def _program(items: Sequence[tuple[str, list[Any]]], file: str) -> Program:
    scope = Scope(file)
    weights, consts, load, functions = hosts(items, scope)
    kernels = tuple(_kernel(c, scope.inner()) for kind, c in items if kind == "kernel")
    return Program(weights, consts, kernels, load, functions)


def _kernel(c: list[Any], scope: Scope) -> Kernel:
    name, buffers, sizes, where, *checks, origin, body = c
    made = tuple(_buffer(b, scope) for b in buffers or [])
    scope.symbols.update(dict.fromkeys(map(str, sizes or []), Node("name", "", name, name).span(scope.file)))
    builder = _Body(scope, {b.name: b.dtype for b in made}, {})
    return Kernel(
        str(name)[1:],
        made,
        tuple(map(str, sizes or [])),
        builder.block(body),
        tuple(to_fact(f, scope, binding=True) for f in where or []),
        tuple(Check(_text(m, scope), "" if op is None else _text(op, scope)) for m, op in checks),
        "" if origin is None else _text(origin, scope),
    )


def _buffer(c: list[Any], scope: Scope) -> Buffer:
    mode, name, dtype, _, size, _, alias = c
    dim = to_dim(size, scope, binding=True)
    return Buffer(str(name), DType(str(dtype)), dim, mode, None if alias is None else str(alias))


def _text(token: Any, scope: Scope) -> str:
    return to_string(Node("string", str(token), token, token), scope)


class _Body:
    """Builds statements; `buffers` and `names` are the dtypes in scope."""

    def __init__(self, scope: Scope, buffers: dict[str, DType], names: dict[str, DType]) -> None:
        self.scope = scope
        self.buffers = dict(buffers)
        self.names = dict(names)

    def inner(self, *indices: str) -> _Body:
        names = {n: t for n, t in self.names.items() if n not in indices}
        return _Body(self.scope, self.buffers, names)

    def block(self, statements: list[tuple[str, list[Any]]]) -> tuple[Stmt, ...]:
        return tuple(getattr(self, f"_{kind.rstrip('_')}")(*c) for kind, c in statements)

    # -- statements

    def _let(self, name: Any, value: Node) -> Stmt:
        made = self.expr(value)
        self.names[str(name)] = made.dtype
        return loops.Let(str(name), made)

    def _local(self, name: Any, value: Node) -> Stmt:
        made = self.expr(value)
        self.names[str(name)] = made.dtype
        return loops.Local(str(name), made)

    def _assign(self, name: Any, value: Node) -> Stmt:
        return loops.Assign(str(name).strip("`"), self.expr(value))

    def _store(self, name: Any, _l: Any, index: Node, _r: Any, value: Node) -> Stmt:
        return loops.Store(str(name).strip("`"), self.expr(index), self.expr(value))

    def _alloc(self, name: Any, dtype: Any, _l: Any, size: Node, _r: Any) -> Stmt:
        self.buffers[str(name)] = DType(str(dtype))
        return loops.Alloc(str(name), DType(str(dtype)), self.dim(size))

    def _for(self, var: Any, start: Node, _dots: Any, stop: Node, kind: Any, body: Any) -> Stmt:
        inner = self.inner(str(var)).block(body)
        return loops.For(str(var), self.expr(start), self.expr(stop), inner, "serial" if kind is None else str(kind))

    def _if(self, condition: Node, then: Any, otherwise: Any) -> Stmt:
        return loops.If(self.expr(condition), self.inner().block(then), self.inner().block(otherwise or []))

    def _while(self, condition: Node, body: Any) -> Stmt:
        return loops.While(self.expr(condition), self.inner().block(body))

    def _require(self, ok: Node, value: Node | None, check: Any) -> Stmt:
        return loops.Require(self.expr(ok), int(str(check)), None if value is None else self.expr(value))

    def _contract(self, acc: Any, dtype: Any, m: Any, n: Any, k: Any, lhs: Node, rhs: Node, body: Any) -> Stmt:
        inner = self.inner(str(m[0]), str(n[0]), str(k[0]))
        operands = inner.expr(lhs), inner.expr(rhs)
        inner.names[str(acc)] = DType(str(dtype))
        names = (str(m[0]), str(n[0]), str(k[0]))
        sizes = (self.dim(m[1]), self.dim(n[1]), self.dim(k[1]))
        return loops.Contract(*names, *sizes, str(acc), DType(str(dtype)), *operands, inner.block(body))

    def _other(self, name: Any, *settings: Any) -> Stmt:
        """Any other statement of the loop IR, field by field."""
        classes = {c.__name__.lower(): c for c in loops.Stmt.__args__}  # type: ignore[attr-defined]
        cls = classes.get(str(name))
        if cls is None:
            raise self.scope.fail(f"there is no statement `{name}`", name)
        hints = get_type_hints(cls, vars(loops))
        given = {str(key): (key, value) for key, value in filter(None, settings)}
        missing = [f.name for f in fields(cls) if f.name not in given]
        if missing or len(given) != len(fields(cls)):
            raise self.scope.fail(f"`{name}` has the fields {', '.join(f.name for f in fields(cls))}", name)
        made: Stmt = cls(**{key: self._setting(value, hints[key]) for key, (_, value) in given.items()})
        return made

    def _setting(self, value: Any, hint: Any) -> object:
        if hint is DType:
            return DType(str(value))
        if hint is str:
            return _text(value, self.scope)
        if hint is int:
            return self.dim(value).value
        return self.dim(value) if hint is Dim else self.expr(value)

    # -- expressions

    def dim(self, node: Node) -> Dim:
        return to_dim(node, self.scope, binding=True)

    def expr(self, node: Node) -> Expr:
        """The expression of a node; arithmetic is on sizes."""
        kind = node.kind
        if kind == "name" and self.names.get(node.value, DType.i64) is not DType.i64:
            return Name(node.value, self.names[node.value])
        if kind == "typed_name":
            return Name(*node.value)
        if kind == "load":
            return self._load(node)
        if kind == "cast":
            return Cast(self.expr(node.value[1]), node.value[0])
        if kind == "typed_apply":
            fn, dtype, args = node.value
            return Apply(fn, tuple(map(self.expr, args)), dtype)
        if kind == "apply" and str(node.value[0]) not in DIM_FUNCTIONS:
            return self._apply(node)
        number = self._number(node)
        return number if number is not None else Index(self.dim(node))

    def _load(self, node: Node) -> Expr:
        buffer, dtype, index = node.value
        dtype = dtype or self.buffers.get(buffer)
        if dtype is None:
            raise self.scope.fail(f"there is no buffer `{buffer}` here", node)
        return Load(buffer, self.expr(index), dtype)

    def _apply(self, node: Node) -> Expr:
        name, args = node.value
        made = tuple(map(self.expr, args))
        if str(name) == "select" and len(made) == 3:
            return Select(*made)
        if not made:
            raise self.scope.fail(f"say the dtype: `{name}:f32()`", node)
        return Apply(str(name), made, result_dtype(str(name), made[0].dtype))

    def _number(self, node: Node) -> Const | None:
        inner, sign = (node.value, -1) if node.kind == "neg" else (node, 1)
        if inner.kind == "floating":
            return Const(sign * to_float(inner, self.scope), DType.f32)
        if inner.kind == "constant":
            value = CONSTANTS[inner.value]
            return Const(value, DType.bool) if isinstance(value, bool) else Const(_signed(value, sign), DType.f32)
        if inner.kind != "typed_number":
            return None
        token, dtype = inner.value
        return Const(self._typed(str(token), token, sign, dtype), dtype)

    def _typed(self, text: str, token: Any, sign: int, dtype: DType) -> bool | int | float:
        if text in CONSTANTS:
            return CONSTANTS[text] if isinstance(CONSTANTS[text], bool) else _signed(CONSTANTS[text], sign)
        if text.isdigit():
            whole = sign * to_int(Node("integer", text, token, token), self.scope)
            return float(whole) if dtype.is_float else whole
        return sign * to_float(Node("floating", text, token, token), self.scope)


def _signed(value: float, sign: int) -> float:
    # NaN stays the one object that it is: equal programs compare equal.
    return value if sign > 0 else -value
