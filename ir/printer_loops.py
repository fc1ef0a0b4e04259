"""Loops to text: `parse_program(print_program(p)) == p` for every program, at every stage.

    kernel @main.0.exp(in x: f32[64*n], out y: f32[64*n]; n) where n in 0..1024 {
        for i in 0..64*n parallel {
            let v = exp(x[i])
            y[i] = mul(v, 0.5)
        }
    }

Sizes and indices are written with `+ - * // %`, everything else as calls.  A number without a dtype is an index, or f32
when it has a point; `3:i32` says another.  The dtype of a name or a call is written where it is not what one expects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from .dims import Dim
from .loops import (
    Alloc,
    Apply,
    Assign,
    BindSymbol,
    Buffer,
    Cast,
    CheckEqual,
    Const,
    Contract,
    Copy,
    Expr,
    For,
    HostProgram,
    HostStep,
    HostTensor,
    If,
    Index,
    Kernel,
    Launch,
    Let,
    Load,
    Local,
    Name,
    Program,
    Ref,
    Require,
    Result,
    Select,
    Stmt,
    Store,
    While,
)
from .printer import INDENT, print_facts, print_value
from .scalar import COMPARISONS, PREDICATES
from .types import DType

RESERVED_CALLS = frozenset({"min", "max", "ceildiv", "select"})
_KEYWORDS = """let var alloc for if else while require contract weight const kernel host load in out inout where check
    op origin alias output inherit bind equal fact launch copy arena scratch return several by from of"""
KEYWORDS = frozenset(_KEYWORDS.split())
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(\.[A-Za-z_0-9]+)*")


def print_program(program: Program) -> str:
    """The text of a program."""
    heads = [f"weight {_tensor(w)}" for w in program.weights] + [f"const {_tensor(c)}" for c in program.consts]
    parts = ["\n".join(heads)] if heads else []
    parts += [print_kernel(k) for k in program.kernels]
    if program.load is not None:
        parts.append(print_host(program.load, "load"))
    parts += [print_host(f) for f in program.functions]
    return "\n\n".join(parts) + "\n" if parts else ""


# -------------------------------------------------------------------------------------------------- kernels


def print_kernel(kernel: Kernel) -> str:
    """The text of one kernel."""
    buffers = ", ".join(map(_buffer, kernel.buffers))
    head = f"kernel @{_name(kernel.name)}({buffers}; {', '.join(map(_name, kernel.sizes))})"
    clauses = [f"where {print_facts(kernel.facts)}"] if kernel.facts else []
    for check in kernel.checks:
        clauses.append(f"check {_string(check.message)}" + (f" op {_string(check.op)}" if check.op else ""))
    if kernel.origin:
        clauses.append(f"origin {_string(kernel.origin)}")
    lines = _Body({b.name: b.dtype for b in kernel.buffers}, {}).lines(kernel.body, INDENT)
    if clauses:
        return "\n".join([head, *(INDENT + c for c in clauses), "{", *lines, "}"])
    return "\n".join([head + " {", *lines, "}"])


def _buffer(buffer: Buffer) -> str:
    alias = f" alias {_name(buffer.may_alias)}" if buffer.may_alias is not None else ""
    return f"{buffer.mode} {_name(buffer.name)}: {buffer.dtype}[{buffer.size}]{alias}"


class _Body:
    """Statements of a block; `buffers` and `names` are the dtypes in scope."""

    def __init__(self, buffers: Mapping[str, DType], names: Mapping[str, DType]) -> None:
        self.buffers = dict(buffers)
        self.names = dict(names)

    def inner(self, statements: tuple[Stmt, ...], indent: str, index: str | None = None) -> list[str]:
        body = _Body(self.buffers, self.names)
        if index is not None:
            body.names.pop(index, None)
        return list(body.lines(statements, indent + INDENT))

    def lines(self, statements: Iterable[Stmt], indent: str) -> Iterator[str]:
        for statement in statements:
            yield from self._statement(statement, indent)

    def _statement(self, s: Stmt, indent: str) -> Iterator[str]:
        if isinstance(s, (Let, Local)):
            value = s.value if isinstance(s, Let) else s.init
            yield f"{indent}{'let' if isinstance(s, Let) else 'var'} {_name(s.name)} = {self.expr(value)}"
            self.names[s.name] = value.dtype
        elif isinstance(s, Assign):
            yield f"{indent}{_start(s.name)} = {self.expr(s.value)}"
        elif isinstance(s, Store):
            yield f"{indent}{_start(s.buffer)}[{self.expr(s.index)}] = {self.expr(s.value)}"
        elif isinstance(s, Alloc):
            yield f"{indent}alloc {_name(s.buffer)}: {s.dtype}[{s.size}]"
            self.buffers[s.buffer] = s.dtype
        elif isinstance(s, Require):
            found = "" if s.value is None else f" of {self.expr(s.value)}"
            yield f"{indent}require {self.expr(s.ok)}{found} else {s.check}"
        elif isinstance(s, (For, If, While, Contract)):
            yield from self._nested(s, indent)
        else:
            settings = ", ".join(f"{f.name}={self._setting(getattr(s, f.name))}" for f in fields(s))
            yield f"{indent}{type(s).__name__.lower()}({settings})"

    def _nested(self, s: For | If | While | Contract, indent: str) -> Iterator[str]:
        if isinstance(s, For):
            kind = "" if s.kind == "serial" else f" {s.kind}"
            yield f"{indent}for {_name(s.var)} in {self.expr(s.start)}..{self.expr(s.stop)}{kind} {{"
            yield from self.inner(s.body, indent, s.var)
        elif isinstance(s, While):
            yield f"{indent}while {self.expr(s.condition)} {{"
            yield from self.inner(s.body, indent)
        elif isinstance(s, If):
            yield f"{indent}if {self.expr(s.condition)} {{"
            yield from self.inner(s.then, indent)
            if s.otherwise:
                yield f"{indent}}} else {{"
                yield from self.inner(s.otherwise, indent)
        else:
            yield from self._contract(s, indent)
        yield f"{indent}}}"

    def _contract(self, s: Contract, indent: str) -> Iterator[str]:
        body = _Body(self.buffers, self.names)
        for index in (s.m, s.n, s.k):
            body.names.pop(index, None)
        extents = ", ".join(f"{_name(v)} in {size}" for v, size in ((s.m, s.rows), (s.n, s.cols), (s.k, s.inner)))
        operands = f"{body.expr(s.lhs)}, {body.expr(s.rhs)}"
        yield f"{indent}contract {_name(s.acc)}: {s.dtype} for {extents} of {operands} {{"
        body.names[s.acc] = s.dtype
        yield from body.lines(s.epilogue, indent + INDENT)

    def _setting(self, value: Any) -> str:
        if isinstance(value, (str, int, Dim, DType)):
            return print_value(value)
        return self.expr(value)

    def expr(self, node: Expr) -> str:
        """The text of an expression."""
        if isinstance(node, Index):
            return str(node.dim)
        if isinstance(node, Const):
            return _const(node)
        if isinstance(node, Name):
            expected = self.names.get(node.name)
            plain = expected is node.dtype and expected is not DType.i64
            return _name(node.name) if plain else f"{_name(node.name)}:{node.dtype}"
        if isinstance(node, Load):
            dtype = "" if self.buffers.get(node.buffer) is node.dtype else f":{node.dtype}"
            return f"{_name(node.buffer)}{dtype}[{self.expr(node.index)}]"
        if isinstance(node, Cast):
            return f"{node.dtype}({self.expr(node.value)})"
        if isinstance(node, Select):
            return f"select({self.expr(node.condition)}, {self.expr(node.a)}, {self.expr(node.b)})"
        return self._apply(node)

    def _apply(self, node: Apply) -> str:
        args = ", ".join(map(self.expr, node.args))
        plain = node.fn not in RESERVED_CALLS and node.args and result_dtype(node.fn, node.args[0].dtype) is node.dtype
        return f"{_name(node.fn)}({args})" if plain else f"{_name(node.fn)}:{node.dtype}({args})"


def result_dtype(fn: str, first: DType) -> DType:
    """The dtype one expects of a scalar function."""
    return DType.bool if fn in COMPARISONS or fn in PREDICATES else first


def _const(node: Const) -> str:
    text = print_value(node.value)
    plain = DType.bool if isinstance(node.value, bool) else DType.f32 if isinstance(node.value, float) else None
    return text if node.dtype is plain else f"{text}:{node.dtype}"


# ---------------------------------------------------------------------------------------------------- hosts


def print_host(host: HostProgram, keyword: str = "host") -> str:
    """The text of one host program."""
    lines = [f"output {_tensor(t)}" for t in host.outputs]
    lines += [f"inherit {', '.join(map(_name, host.inherited))}"] if host.inherited else []
    lines += [_step(s) for s in host.steps]
    lines += [_launch(x) if isinstance(x, Launch) else _copy(x) for x in host.launches]
    lines += [f"arena {host.arena_bytes}", f"scratch {host.scratch_bytes}"]
    several = "" if host.single_result else " several"
    lines.append(f"return{several} {', '.join(map(_result, host.results))}".rstrip())
    head = f"{keyword} @{_name(host.name)}({', '.join(map(_tensor, host.params))}) {{"
    return "\n".join([head, *(INDENT + line for line in lines), "}"])


def _tensor(t: HostTensor) -> str:
    return f"{'inout ' if t.inout else ''}{_name(t.name)}: {t.dtype}[{', '.join(map(str, t.dims))}]"


def _step(step: HostStep) -> str:
    origin = f"from {_string(step.origin)}"
    if isinstance(step, BindSymbol):
        return f"bind {_name(step.symbol)} = {step.numerator} by {step.divisor} {origin}"
    if isinstance(step, CheckEqual):
        return f"equal {step.actual}, {step.expected} {origin}"
    return f"fact {step.fact} {origin}"


def _launch(launch: Launch) -> str:
    return (
        f"launch @{_name(launch.kernel)}({', '.join(map(_ref, launch.buffers))}; {', '.join(map(str, launch.sizes))})"
    )


def _copy(copy: Copy) -> str:
    return f"copy {_ref(copy.source)} -> {_ref(copy.target)}, {copy.bytes}"


def _ref(ref: Ref) -> str:
    offset = "" if ref.offset == 0 else f" + {ref.offset}"
    return f"{ref.space} {_name(ref.name)}{offset}"


def _result(result: Result) -> str:
    if isinstance(result.item, str):
        return _name(result.item)
    inner = ", ".join(map(_result, result.item))
    return f"({inner},)" if len(result.item) == 1 else f"({inner})"


def _name(name: str) -> str:
    """A name as it is; ValueError for one that the grammar has no place for."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be written as a name")
    return name


def _start(name: str) -> str:
    """A name where a statement starts."""
    return f"`{name}`" if name in KEYWORDS else _name(name)


def _string(text: str) -> str:
    return json.dumps(text)
