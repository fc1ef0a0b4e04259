"""Writing loop statements: the context that element rules and kernel ops emit into."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ...ir.diagnostics import Span
from ...ir.dims import Dim
from ...ir.facts import Compare, Facts
from ...ir.loops import (
    Alloc,
    Assign,
    Check,
    Const,
    Contract,
    Expr,
    For,
    If,
    Index,
    Let,
    Load,
    Local,
    Name,
    Require,
    Stmt,
    Store,
    While,
    expressions,
    walk_expr,
    walk_stmts,
)
from ...ir.scalar import add, apply, index, mul
from ...ir.types import DType


class Emitter:
    """Appends statements to nested bodies; one per kernel.  `taken` are names that loop variables must avoid."""

    def __init__(self, facts: Facts, taken: frozenset[str], op: str = "", span: Span | None = None) -> None:
        self._facts = facts
        self._used = set(taken)
        self._counts: dict[str, int] = {}  # the number that a hint was given last
        self._stack: list[list[Stmt]] = [[]]
        self.checks: list[Check] = []
        self._data: set[str] = set()
        self.op = op
        self.span = span

    # -- names and statements

    @property
    def facts(self) -> Facts:
        return self._facts

    def fresh(self, hint: str) -> str:
        """A name not used in this kernel."""
        name, count = hint, self._counts.get(hint, 0)
        while name in self._used:
            count += 1
            name = f"{hint}{count}"
        self._used.add(name)
        self._counts[hint] = count
        return name

    def emit(self, stmt: Stmt) -> None:
        self._stack[-1].append(stmt)

    @property
    def body(self) -> tuple[Stmt, ...]:
        """What was emitted at the top level."""
        assert len(self._stack) == 1
        return tuple(self._stack[0])

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """Statements emitted inside go to the list that is yielded."""
        self._stack.append([])
        try:
            yield self._stack[-1]
        finally:
            self._stack.pop()

    @contextmanager
    def for_(self, var: str, start: Expr, stop: Expr, kind: str = "serial") -> Iterator[None]:
        """A loop around what is emitted inside; the range of `var` is a fact there."""
        outer = self._facts
        if isinstance(start, Index) and isinstance(stop, Index):
            v = Dim.of(var)
            self._facts = outer.add(Compare("<=", start.dim, v), Compare("<", v, stop.dim))
        with self.block() as inner:
            yield
        self._facts = outer
        self.emit(For(var, start, stop, tuple(inner), kind))

    # -- KernelBuilder and ElementContext

    def loop(self, hint: str, start: Expr, stop: Expr, body: Callable[[Expr], None], kind: str = "serial") -> None:
        var = self.fresh(hint)
        with self.for_(var, start, stop, kind):
            body(index(var))

    def let(self, value: Expr) -> Expr:
        if isinstance(value, (Const, Name, Index)):
            return value
        name = self.fresh("v")
        self.emit(Let(name, value))
        return self._named(name, value.dtype)

    def _named(self, name: str, dtype: DType) -> Expr:
        """An i64 value can stand in index polynomials; it may be negative, which the prover must not see."""
        if dtype is not DType.i64:
            return Name(name, dtype)
        self._data.add(name)
        return index(name)

    def local(self, init: Expr) -> Name:
        name = self.fresh("s")
        self.emit(Local(name, init))
        return Name(name, init.dtype)

    def assign(self, local: Expr, value: Expr) -> None:
        assert isinstance(local, Name)
        self.emit(Assign(local.name, value))

    def alloc(self, dtype: DType, size: Dim) -> str:
        name = self.fresh("scratch")
        self.emit(Alloc(name, dtype, size))
        return name

    def load(self, buffer: str, offset: Expr, dtype: DType) -> Expr:
        return Load(buffer, offset, dtype)

    def store(self, buffer: str, offset: Expr, value: Expr) -> None:
        self.emit(Store(buffer, offset, value))

    def contract(
        self,
        rows: Dim,
        cols: Dim,
        inner: Dim,
        dtype: DType,
        lhs: Callable[[Expr, Expr], Expr],
        rhs: Callable[[Expr, Expr], Expr],
        epilogue: Callable[[Expr, Expr, Expr], None],
    ) -> None:
        m, n, k, acc = (self.fresh(x) for x in ("m", "n", "k", "acc"))
        with self.block() as end:
            epilogue(index(m), index(n), Name(acc, dtype))
        left, right = lhs(index(m), index(k)), rhs(index(k), index(n))
        self.emit(Contract(m, n, k, rows, cols, inner, acc, dtype, left, right, tuple(end)))

    def branch(self, condition: Expr, then: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
        with self.block() as yes:
            then()
        with self.block() as no:
            if otherwise is not None:
                otherwise()
        self.emit(If(condition, tuple(yes), tuple(no)))

    def while_(self, condition: Callable[[], Expr], body: Callable[[], None]) -> None:
        test = condition()
        with self.block() as inner:
            body()
        self.emit(While(test, tuple(inner)))

    def require(self, ok: Expr, message: str, value: Expr | None = None) -> None:
        if isinstance(ok, Const) and ok.value is True:
            return
        check = Check(message, self.op, self.span)
        if check not in self.checks:
            self.checks.append(check)
        self.emit(Require(ok, self.checks.index(check), value))

    def simplify(self, value: Expr) -> Expr:
        if not isinstance(value, Index) or self._data & value.dim.symbols:
            return value
        return Index(self._facts.simplify(value.dim))

    def reduce(self, kind: str, ranges: Sequence[tuple[Expr, Expr]], body: Callable[..., Expr], init: Expr) -> Expr:
        total = self.local(init)
        variables: list[Expr] = []

        def nest(depth: int) -> None:
            if depth == len(ranges):
                self.assign(total, apply(kind, total, body(*variables)))
                return
            start, stop = ranges[depth]

            def inner(v: Expr) -> None:
                variables.append(v)
                nest(depth + 1)
                variables.pop()

            self.loop("r", start, stop, inner)

        nest(0)
        return self.let_copy(total)

    def let_copy(self, local: Name) -> Expr:
        """The present value of a local, as a name of its own."""
        name = self.fresh("v")
        self.emit(Let(name, local))
        return self._named(name, local.dtype)


class PureContext:
    """For element rules that are evaluated inside another expression: nothing may be emitted.

    `impure` is set when the rule wanted to emit a check or a loop; such an op cannot be moved into its readers.
    `checks` is set for a check.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.impure = False
        self.checks = False

    def simplify(self, value: Expr) -> Expr:
        return Index(self.facts.simplify(value.dim)) if isinstance(value, Index) else value

    def let(self, value: Expr) -> Expr:
        return value

    def require(self, ok: Expr, message: str, value: Expr | None = None) -> None:
        if not (isinstance(ok, Const) and ok.value is True):
            self.impure = self.checks = True

    def reduce(self, kind: str, ranges: Sequence[tuple[Expr, Expr]], body: Callable[..., Expr], init: Expr) -> Expr:
        """A stand-in: one evaluation, so that the reads are seen; the result is never used."""
        self.impure = True
        return apply(kind, init, body(*(start for start, _ in ranges)))


def linear_index(dims: tuple[Dim, ...], position: Sequence[Expr]) -> Expr:
    """The row-major element offset of `position` in an array of shape `dims`."""
    offset: Expr = index(0)
    for size, i in zip(dims, position, strict=True):
        offset = add(mul(offset, index(size)), i)
    return offset


def free_symbols(body: Sequence[Stmt]) -> frozenset[str]:
    """Symbols used by index expressions, sizes and bounds anywhere in `body`, loop variables and lets included."""
    found: set[str] = set()
    for s in walk_stmts(tuple(body)):
        if isinstance(s, Alloc):
            found |= s.size.symbols
        if isinstance(s, Contract):
            found |= s.rows.symbols | s.cols.symbols | s.inner.symbols
        for e in expressions(s):
            for x in walk_expr(e):
                if isinstance(x, Index):
                    found |= x.dim.symbols
    return frozenset(found)
