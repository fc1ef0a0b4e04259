"""From a task's number to a point of a nest of loops."""

from __future__ import annotations

from ....ir.dims import Dim
from ....ir.loops import For, Index
from ....passes.loops.rewrite import extent
from .expr import integer
from .index import ATOM, PRODUCT, Int, emit_dim
from .nest import Nest
from .scope import Scope
from .values import bare
from .writer import Writer


def named(w: Writer, scope: Scope, name: str, value: Int) -> Int:
    """The value under a name, where it is more than a name or a number."""
    if value.constant is not None or value.text.isidentifier():
        return value
    text = scope.name(name)
    w.line(f"const long long {text} = {bare(value.text)};")
    return Int(text, ATOM, value.natural)


def extents(w: Writer, scope: Scope, nest: Nest) -> tuple[Int, ...]:
    """The loops' numbers of iterations."""
    return tuple(named(w, scope, f"{loop.var}_extent", _extent(loop, scope)) for loop in nest.loops)


def _extent(loop: For, scope: Scope) -> Int:
    size = extent(loop)
    if size is not None:
        return emit_dim(size, scope.ints)
    start, stop = integer(loop.start, scope), integer(loop.stop, scope)
    return Int(f"({stop.text}) - ({start.text})", PRODUCT)


def product(w: Writer, scope: Scope, name: str, *factors: Int) -> Int:
    """The product of numbers that are not negative."""
    total = Int("1", ATOM, True, 1)
    for factor in factors:
        if total.constant == 1:
            total = factor
        elif factor.constant != 1:
            total = Int(f"{total.at(PRODUCT)} * {factor.at(ATOM)}", PRODUCT, True)
    return named(w, scope, name, total)


def direct(nest: Nest) -> bool:
    """Whether the task's number is the only loop's variable."""
    return len(nest.loops) == 1 and nest.loops[0].start == Index(Dim.of(0))


def task_name(nest: Nest, scope: Scope) -> str:
    """The name of the task's number, which may be the loop's variable."""
    if not direct(nest):
        return scope.name("task")
    name = scope.name(nest.loops[0].var)
    scope.let_int(nest.loops[0].var, Int(name, ATOM, True))
    return name


def decode(w: Writer, scope: Scope, nest: Nest, sizes: tuple[Int, ...], task: str) -> None:
    """Declares the variables of the loops at a task."""
    if direct(nest) and nest.loops[0].var in scope.ints:
        return
    rest = task
    for depth, (loop, size) in reversed(list(enumerate(zip(nest.loops, sizes, strict=True)))):
        at = f"{rest} % {size.at(ATOM)}" if depth else rest
        start = integer(loop.start, scope)
        if start.constant != 0:
            at = f"{start.text} + {at}"
        name = scope.name(loop.var)
        w.line(f"const long long {name} = {at};")
        scope.let_int(loop.var, Int(name, ATOM, start.natural))
        if depth:
            following = scope.name("rest")
            w.line(f"const long long {following} = {rest} / {size.at(ATOM)};")
            rest = following
