"""Names of sizes and values: the user's where there are some, words that the language allows."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...ir.types import DType

_WORDS = """
return yield where else func in inout if while scan weight const update bind likely do over
true false none inf nan min max ceildiv main
"""
_RESERVED = frozenset(_WORDS.split()) | {d.value for d in DType}


def valid(name: str) -> str:
    """A word that the language takes as a name."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    word = word if re.match(r"[A-Za-z_]", word) else f"_{word}"
    return f"{word}_" if word in _RESERVED or keyword.iskeyword(word) or re.fullmatch(r"t\d+", word) else word


@dataclass
class Names:
    """Names given out so far."""

    taken: Iterable[str]
    _given: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._given |= set(self.taken)

    def fresh(self, name: str) -> str:
        word = valid(name)
        while word in self._given:
            word += "_"
        self._given.add(word)
        return word


def symbol_names(program: Any, dynamic_shapes: Any) -> dict[str, str]:
    """torch's symbols (`s17`) to names: those of the Dims that the user gave, else torch's own."""
    symbols = sorted({str(s) for value in _tensors(program) for d in value.shape for s in _free(d)})
    given = {symbol: name for symbol, name, _ in _user_dims(program, dynamic_shapes)}
    taken = Names(())
    return {s: taken.fresh(given.get(s, s)) for s in sorted(symbols, key=lambda s: (s not in given, s))}


def user_bounds(dynamic_shapes: Any, names: dict[str, str], program: Any) -> dict[str, int]:
    """Lower bounds that the user wrote, by our names."""
    return {
        names[symbol]: int(low) for symbol, _, low in _user_dims(program, dynamic_shapes)
        if low is not None and symbol in names
    }  # fmt: skip


def _tensors(program: Any) -> Iterator[Any]:
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, torch.Tensor):
            yield value


def _free(size: Any) -> Iterable[Any]:
    return size.node.expr.free_symbols if isinstance(size, torch.SymInt) else ()


def _user_dims(program: Any, dynamic_shapes: Any) -> Iterator[tuple[str, str, int | None]]:
    """(torch's symbol, the user's name, the user's lower bound) of every size that has a Dim of its own."""
    if dynamic_shapes is None:
        return
    metas = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    inputs = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    for name, shape in zip(inputs, _leaves(program, dynamic_shapes), strict=False):
        value = metas.get(name)
        if not isinstance(value, torch.Tensor) or not shape:
            continue
        items = shape.items() if isinstance(shape, dict) else enumerate(shape)
        for axis, dim in items:
            size = value.shape[axis]
            own = getattr(dim, "__name__", None)
            if not isinstance(size, torch.SymInt) or not own or not hasattr(dim, "min"):
                continue
            symbols = list(size.node.expr.free_symbols)
            if size.node.expr.is_Symbol and not hasattr(dim, "root"):
                yield str(symbols[0]), own, dim.min
            elif hasattr(dim, "root") and len(symbols) == 1:
                yield str(symbols[0]), dim.root.__name__, dim.root.min


def _leaves(program: Any, dynamic_shapes: Any) -> list[Any]:
    """One entry a user input, in order; an empty list when the structure is not understood."""
    spec = program.call_spec.in_spec
    args, kwargs = pytree.tree_unflatten(range(spec.num_leaves), spec)
    if isinstance(dynamic_shapes, dict):
        names = getattr(program.module_call_graph[0].signature, "forward_arg_names", None) or []
        listed = [dynamic_shapes.get(n) for n in (*names[: len(args)], *kwargs)]
    else:
        listed = list(dynamic_shapes)
        nested = bool(args) and isinstance(args[0], (list, tuple))
        if len(listed) == 1 and isinstance(listed[0], (list, tuple)) and not nested:
            listed = list(listed[0])  # of a forward(*args)
    found: list[Any] = []
    for value, shape in zip((*args, *kwargs.values()), listed, strict=False):
        found.extend(_spread(value, shape))
    return found


def _spread(value: Any, shape: Any) -> list[Any]:
    if isinstance(value, int):
        return [shape]
    if shape is None:
        return [None] * len(pytree.tree_leaves(value))
    if isinstance(value, dict):
        return [leaf for k, v in value.items() for leaf in _spread(v, shape.get(k))]
    if isinstance(value, (list, tuple)):
        return [leaf for v, s in zip(value, shape, strict=False) for leaf in _spread(v, s)]
    return [None] * len(pytree.tree_leaves(value))
