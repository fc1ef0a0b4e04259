"""Reductions of a whole tensor: by chunks that threads share, each with a result of its own, combined in order.

Chunks depend on sizes only, so that results do not depend on the number of threads; and sums of sums are more accurate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from ...ir.dims import Dim
from ...ir.loops import (
    Alloc,
    Apply,
    Assign,
    Const,
    Expr,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Name,
    Stmt,
    Store,
    map_stmt,
    walk_expr,
    walk_stmts,
)
from ...ir.types import DType
from .rewrite import all_expressions, assigned, extent, zero

COMBINERS = frozenset({"add", "mul", "maximum", "minimum", "logical_and", "logical_or"})


@dataclass(frozen=True)
class Split:
    """Cuts the loops that stand right in a kernel; a chunk is about `chunk` elements."""

    name: ClassVar[str] = "split"
    least: ClassVar[int] = 1  # of the numbers below

    chunk: int = 16384

    def run(self, kernel: Kernel) -> Kernel:
        locals_: dict[str, Local] = {}
        body: list[Stmt] = []
        for position, stmt in enumerate(kernel.body):
            if isinstance(stmt, Local):
                locals_[stmt.name] = stmt
            reduction = _Reduction.of(stmt, locals_)
            if reduction is not None and reduction.is_long(self.chunk):
                body += reduction.split(self.chunk, f"{reduction.loop.var}.{position}")
            else:
                body.append(_independent(stmt))
        return replace(kernel, body=tuple(body))


def _independent(stmt: Stmt) -> Stmt:
    """A map right in the kernel, after a reduction of everything: its iterations may be shared out too."""
    if isinstance(stmt, For) and stmt.kind == "vector" and not assigned(stmt.body):
        return replace(stmt, kind="parallel")
    return stmt


@dataclass(frozen=True)
class _Reduction:
    """A loop that combines values into `accumulators`, by the functions in `combiners`."""

    loop: For
    accumulators: tuple[Local, ...]
    combiners: Mapping[str, str]

    @staticmethod
    def of(stmt: Stmt, locals_: Mapping[str, Local]) -> _Reduction | None:
        if not isinstance(stmt, For) or stmt.kind not in ("serial", "vector") or stmt.start != zero():
            return None
        inside = list(walk_stmts(stmt.body))
        # The iterations of a vector loop are independent; of any other, only if nothing is stored.
        allowed = (Let, Assign, Store) if stmt.kind == "vector" else (Let, Assign, For)
        if extent(stmt) is None or not all(isinstance(s, allowed) for s in inside):
            return None
        combiners: dict[str, str] = {}
        for s in inside:
            if isinstance(s, Assign):
                value = s.value
                if s.name in combiners or s.name not in locals_ or not _combines(value, s.name):
                    return None
                assert isinstance(value, Apply)
                combiners[s.name] = value.fn
        uses = [e for root in all_expressions(stmt.body) for e in walk_expr(root)]
        for name in combiners:
            if sum(name in _own_names(e) for e in uses) != 1:
                return None
        accumulators = tuple(locals_[name] for name in combiners)
        if not all(_is_neutral(a.init, combiners[a.name]) for a in accumulators):
            return None
        if not combiners or any(a.init.dtype in (DType.f16, DType.bf16) for a in accumulators):
            return None
        return _Reduction(stmt, accumulators, combiners)

    @property
    def inner(self) -> Dim:
        """Elements of one iteration, at least 1."""
        sizes = [extent(s) for s in walk_stmts(self.loop.body) if isinstance(s, For)]
        known = [s for s in sizes if s is not None and not s.symbols & self._bound()]
        return Dim.max(1, Dim.product(tuple(known)))

    def _bound(self) -> set[str]:
        inside = [self.loop, *walk_stmts(self.loop.body)]
        return {s.var for s in inside if isinstance(s, For)} | {s.name for s in inside if isinstance(s, Let)}

    def is_long(self, chunk: int) -> bool:
        """Whether it may be more than one chunk."""
        size = extent(self.loop)
        assert size is not None
        total = size * self.inner
        return not (total.is_const and total.value <= chunk)

    def split(self, chunk: int, name: str) -> list[Stmt]:
        """The statements in place of the loop."""
        size = extent(self.loop)
        assert size is not None
        rows, part = Dim.max(1, Dim.of(chunk) // self.inner), Dim.of(f"{name}.chunk")
        step = rows if rows.is_const else Dim.of(f"{name}.step")
        count = Dim.ceildiv(size, step)
        parts = {a.name: f"{name}.{a.name}" for a in self.accumulators}

        def own(e: Expr) -> Expr | None:
            return Name(parts[e.name], e.dtype) if isinstance(e, Name) and e.name in parts else None

        def renamed(s: Stmt) -> Stmt:
            s = map_stmt(s, own)
            if isinstance(s, For):
                return replace(s, body=tuple(renamed(x) for x in s.body))
            return replace(s, name=parts[s.name]) if isinstance(s, Assign) else s

        start = Index(part * step)
        inside = replace(
            self.loop,
            start=start,
            stop=Index(Dim.min(size, (part + 1) * step)),
            body=tuple(renamed(s) for s in self.loop.body),
        )
        arrays = {a.name: f"{name}.{a.name}.parts" for a in self.accumulators}
        begin = tuple(Local(parts[a.name], a.init) for a in self.accumulators)
        end = tuple(Store(arrays[a.name], Index(part), Name(parts[a.name], a.init.dtype)) for a in self.accumulators)
        combine = tuple(
            Assign(
                a.name,
                Apply(
                    self.combiners[a.name],
                    (Name(a.name, a.init.dtype), Load(arrays[a.name], Index(part), a.init.dtype)),
                    a.init.dtype,
                ),
            )
            for a in self.accumulators
        )
        var = f"{name}.chunk"
        return [
            *(() if rows.is_const else (Let(f"{name}.step", Index(rows)),)),
            *(Alloc(arrays[a.name], a.init.dtype, Dim.ceildiv(size, rows)) for a in self.accumulators),
            For(var, zero(), Index(count), (*begin, inside, *end), "parallel"),
            For(var, zero(), Index(count), combine),
        ]


def _combines(value: Expr, name: str) -> bool:
    if not (isinstance(value, Apply) and value.fn in COMBINERS and len(value.args) == 2):
        return False
    first = value.args[0]
    return isinstance(first, Name) and first.name == name and value.dtype is first.dtype


def _is_neutral(init: Expr, combiner: str) -> bool:
    """Whether chunks may start with it as well; extrema may start with anything that they start with once."""
    if not isinstance(init, Const):
        return False
    return combiner in ("maximum", "minimum") or init.value == (1 if combiner in ("mul", "logical_and") else 0)


def _own_names(e: Expr) -> set[str]:
    """Names in the node itself, not in its children."""
    if isinstance(e, Name):
        return {e.name}
    return set(e.dim.symbols) if isinstance(e, Index) else set()
