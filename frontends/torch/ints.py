"""Integer arguments that vary (torch's SymInt inputs): as sizes, bound at the call, or as values.

A size is not negative, an integer argument may be.  One that is only ever a value (`x * k`, of which no size, no guard
and no index is made) is therefore left a tensor of type i64[], and what is computed of it is computed of that.  Of all
others a size is made by `bind`, with what torch knows of them as facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...ir.build import FunctionBuilder
from ...ir.diagnostics import error
from ...ir.dims import Dim
from ...ir.facts import Compare, Fact
from ...ir.graph import Bind, Function
from .guards import is_stored
from .retrace import shape_env

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_VALUE_KINDS = ("Tensor", "number", "Scalar")
_OF_TENSORS = re.compile(r"L\[[^\s]*?\.\w+\(\)")
_INFINITE = 1 << 62
_LENGTHS = ("aten.arange", "aten.range", "aten.linspace", "aten.logspace", "aten._assert", "aten.sym_")
"""Operators whose numbers are lengths or conditions, although torch declares them as any number."""


@dataclass(frozen=True)
class IntInput:
    """A parameter `name` of type i64[], which is `size` over the symbols of the program."""

    name: str
    size: Dim


def symbols_of(value: Any) -> frozenset[str]:
    """torch's symbols in a symbolic number, or in the shape of a tensor; in lists too."""
    if isinstance(value, (list, tuple)):
        return frozenset[str]().union(*map(symbols_of, value))
    if isinstance(value, torch.Tensor):
        return symbols_of(tuple(value.shape))
    return frozenset(map(str, value.node.expr.free_symbols)) if isinstance(value, _SYMBOLIC) else frozenset()


def only_values(graph: Any, guards: Iterable[Any], ranges: Mapping[Any, Any], inputs: Sequence[Any]) -> frozenset[str]:
    """Those of torch's symbols that stand for an integer of `inputs` (placeholders) and are never made a size of.

    `guards` are conditions as torch has them: one that speaks of a symbol makes a size of it, as its facts are
    checked.  So does a range in `ranges` that says more than that it is not negative.
    """
    found: list[str] = []
    for node in inputs:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol:
            found.append(str(value.node.expr))
    once = {s for s in found if found.count(s) == 1}
    for symbol, bounds in ranges.items():
        if str(symbol) in once and not (bounds.lower <= 0 and not is_finite(bounds.upper)):
            once.discard(str(symbol))
    for condition in guards:
        once -= set(map(str, getattr(condition, "free_symbols", ())))
    for node in graph.nodes:
        if once:
            value = node.meta.get("val")
            listed = value if isinstance(value, (list, tuple)) else (value,)
            once -= symbols_of([v for v in listed if isinstance(v, torch.Tensor)])
            once -= symbols_of(list(_as_sizes(node)))
    return frozenset(once)


def has_ints(graph: Any) -> bool:
    """Whether an integer argument varies."""
    return any(n.op == "placeholder" and isinstance(n.meta.get("val"), torch.SymInt) for n in graph.nodes)


def conditions(program: Any) -> Iterator[Any]:
    """What torch asks of the sizes and integers of a program, as torch's expressions.

    Of a program from a file, which has them as text, all integers that stand in one.
    """
    environment = shape_env(program)
    yield from (g.expr for g in environment.guards) if environment is not None else ()
    texts = getattr(program, "_guards_code", None) or ()
    if is_stored(program) and any("L[" in _OF_TENSORS.sub("", text) for text in texts):
        for node in program.graph.nodes:
            if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.SymInt):
                yield node.meta["val"].node.expr


def is_finite(bound: Any) -> bool:
    """Whether a bound of torch's is a number, rather than one of its infinities (which sympy takes for finite)."""
    return bool(bound > -_INFINITE) and bool(bound < _INFINITE)


def _as_sizes(node: Any) -> Iterator[Any]:
    """What a node takes as a size, an index or a condition, rather than as a value."""
    if node.op != "call_function" or not hasattr(node.target, "_schema"):
        return  # arithmetic of symbolic numbers, and the output
    lengths = str(node.target).startswith(_LENGTHS)
    schema = {a.name: a for a in node.target._schema.arguments}
    given = [*zip(schema, node.args, strict=False), *node.kwargs.items()]
    for name, value in given:
        kind = str(schema[name].type).removeprefix("Optional[").removesuffix("]")
        if lengths or kind not in _VALUE_KINDS or schema[name].name == "alpha":
            yield [v.meta.get("val") if isinstance(v, torch.fx.Node) else v for v in _flat(value)]


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flat(item)
    elif not isinstance(value, torch.fx.Node) or not isinstance(value.meta.get("val"), torch.Tensor):
        yield value


def bind_ints(b: FunctionBuilder, ints: Sequence[IntInput], sizes: frozenset[str], facts: Iterable[Fact]) -> None:
    """Makes sizes of integer parameters; `sizes` are the symbols that tensors bind.

    One that a tensor binds too is checked to be the same.  `facts` speak of the symbols of integers; each stands at the
    first `bind` after which it can be checked.  CompileError for an integer that does not determine its symbols.
    """
    known, waiting = set(sizes), list(facts)
    for given in sorted(ints, key=lambda i: i.size.name is None):
        symbol, told = given.size.name, list[Fact]()
        if symbol is None or symbol in known:
            symbol = _fresh(f"{given.name}_size", {*known, *b.types, *(i.size.name for i in ints)})
            if given.size.symbols <= known:
                told.append(Compare("==", symbol, given.size))
            else:
                why = f"the input `{given.name}` is {given.size}, of which nothing that is given says the parts"
                raise error(why, helps=("pass it as a tensor, or as a fixed number",))
        known.add(symbol)
        ready = [f for f in waiting if f.symbols <= known]
        waiting = [f for f in waiting if f not in ready]
        b.bind(symbol, b[given.name], [*told, *ready])


def facts_of(function: Function) -> tuple[Fact, ...]:
    """All that is said of the sizes of a function, at its head and where it binds."""
    return (*function.facts, *(f for s in function.body.statements if isinstance(s, Bind) for f in s.facts))


def _fresh(name: str, taken: Iterable[str | None]) -> str:
    while name in taken:
        name += "_"
    return name
