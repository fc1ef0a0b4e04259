"""Loops that a block's threads may share: independent iterations, and reductions into locals from outside the loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ....ir.loops import (
    Apply,
    Assign,
    Const,
    Contract,
    Expr,
    For,
    Index,
    Let,
    Local,
    Name,
    Require,
    Select,
    Stmt,
    expressions,
    walk_expr,
    walk_stmts,
)
from ....ir.scalar import apply
from ....ir.types import DType
from ....passes.loops.rewrite import assigned, read_names


@dataclass(frozen=True)
class Fold:
    """`local = fn(local, ...)` in every iteration; `fn` is associative and commutative."""

    local: str
    fn: str
    dtype: DType


@dataclass(frozen=True)
class Best:
    """The largest (or smallest) value seen, and the position of the first such; NaN beats numbers."""

    value: str
    position: str
    largest: bool
    dtype: DType


Reduction = Fold | Best

_FOLDS = frozenset({"add", "mul", "maximum", "minimum", "logical_and", "logical_or", "logical_xor"})


def shared_reductions(loop: For) -> tuple[Reduction, ...] | None:
    """How the threads of a block share the loop: what they reduce (nothing, often); None when they cannot.

    A serial loop is shared when an argmax made it serial and it does nothing else but reduce.
    """
    own = {s.name for s in walk_stmts(loop.body) if isinstance(s, Local)}
    locals_ = assigned(loop.body) - own
    found: list[Reduction] = []
    bests = list(_bests(loop.body))
    for best in bests:
        if {best.value, best.position} <= locals_:
            locals_ -= {best.value, best.position}
            found.append(best)
    for name in sorted(locals_):
        fold = _fold(loop.body, name)
        if fold is None:
            return None
        found.append(fold)
    if loop.kind == "serial":
        plain = all(isinstance(s, (Let, Assign, Require)) for s in loop.body)
        return tuple(found) if bests and plain else None
    return tuple(found)


def is_independent(loop: For) -> bool:
    """Whether iterations may run in any order on any threads, without anything to combine."""
    return loop.kind in ("parallel", "vector") and shared_reductions(loop) == ()


def shared_loops(stmts: tuple[Stmt, ...]) -> Iterator[For]:
    """The loops in the statements that a block's threads may share."""
    for s in walk_stmts(stmts):
        if isinstance(s, For) and shared_reductions(s) is not None:
            yield s


def neutral(fn: str, dtype: DType) -> Const:
    """What changes nothing when combined."""
    if fn in ("add", "logical_or", "logical_xor"):
        return Const(False if dtype.is_bool else 0, dtype)
    if fn in ("mul", "logical_and"):
        return Const(True if dtype.is_bool else 1, dtype)
    low = fn == "maximum"
    if dtype.is_float:
        return Const(float("-inf") if low else float("inf"), dtype)
    if dtype.is_bool:
        return Const(not low, dtype)
    bits = dtype.bits - (1 if dtype.is_signed else 0)
    return Const((-(2**bits) if dtype.is_signed else 0) if low else 2**bits - 1, dtype)


def combiner(fn: str, dtype: DType) -> str:
    """The prelude's name of the operation."""
    if dtype.is_bool:
        return {"add": "pl_or", "maximum": "pl_or", "logical_or": "pl_or", "logical_xor": "pl_xor"}.get(fn, "pl_and")
    if fn in ("add", "mul"):
        return f"pl_{fn}" if dtype.is_float else f"pl_wrap_{fn}"
    return f"pl_{'float' if dtype.is_float else 'int'}_{fn[:3]}"


def _fold(body: tuple[Stmt, ...], name: str) -> Fold | None:
    steps = [s.value for s in walk_stmts(body) if isinstance(s, Assign) and s.name == name]
    first = steps[0]
    if not isinstance(first, Apply) or first.fn not in _FOLDS:
        return None
    if first.fn.startswith("logical") and not first.dtype.is_bool:
        return None
    for step in steps:
        if not isinstance(step, Apply) or step.fn != first.fn or len(step.args) != 2:
            return None
        if sum(isinstance(a, Name) and a.name == name for a in step.args) != 1:
            return None
    return Fold(name, first.fn, first.dtype) if _reads(body, name) == len(steps) else None


def _reads(body: tuple[Stmt, ...], name: str) -> int:
    """How often the body reads a local."""
    count = 0
    for s in walk_stmts(body):
        if isinstance(s, Contract) and name in s.rows.symbols | s.cols.symbols | s.inner.symbols:
            count += 1
        for root in expressions(s):
            for e in walk_expr(root):
                count += isinstance(e, Name) and e.name == name
                count += isinstance(e, Index) and name in e.dim.symbols
    return count


def _bests(body: tuple[Stmt, ...]) -> Iterator[Best]:
    """Pairs of assignments of the form that the lowering gives argmax and argmin."""
    lets = {s.name: s.value for s in body if isinstance(s, Let)}
    chosen = [
        (s.name, s.value)
        for s in body
        if isinstance(s, Assign) and isinstance(s.value, Select) and s.value.b == Name(s.name, s.value.dtype)
    ]
    for (value, first), (position, second) in pairwise(chosen):
        condition = first.condition
        if condition != second.condition or not isinstance(condition, Name) or condition.name not in lets:
            continue
        better = lets[condition.name]
        for largest in (True, False):
            if better == _better(largest, first.a, Name(value, first.dtype)) and _isolated(body, value, position):
                yield Best(value, position, largest, first.dtype)


def _better(largest: bool, value: Expr, best: Expr) -> Expr:
    """Whether `value` replaces `best`, as the lowering writes it."""
    wins = apply("gt" if largest else "lt", value, best)
    if not value.dtype.is_float:
        return wins
    nan_first = apply("logical_and", apply("isnan", value), apply("logical_not", apply("isnan", best)))
    return apply("logical_or", wins, nan_first)


def _isolated(body: tuple[Stmt, ...], value: str, position: str) -> bool:
    """Whether nothing else reads or changes the pair."""
    assigns = [s.name for s in walk_stmts(body) if isinstance(s, Assign)]
    if assigns.count(value) != 1 or assigns.count(position) != 1 or _reads(body, position) != 1:
        return False
    readers = [s for s in walk_stmts(body) if any(value in read_names(e) for e in expressions(s))]
    return len(readers) == 2
