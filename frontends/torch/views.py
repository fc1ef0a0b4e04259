"""Outputs of a graph that are views of its arguments.

AOTAutograd makes such an output anew of the argument, and asks the one that the graph gave where in the argument's
memory it begins.  It must therefore be a view here too; a copy begins at 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ...ir.diagnostics import CompileError
from ...ir.dims import Dim
from .guards import resolver
from .sizes import Sizes, TorchNames

Source = Callable[[Sequence[Any]], int]


@dataclass(frozen=True)
class View:
    """A view of argument number `of`; `offset` is counted from where the argument begins, in elements.

    `sources` say what torch's symbols are, given the arguments.
    """

    of: int
    size: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    offset: Dim
    sources: Mapping[str, Source]

    def __call__(self, args: Sequence[Any]) -> torch.Tensor:
        base = args[self.of].detach()
        at = {name: source(args) for name, source in self.sources.items()}
        size, stride = ([d.evaluate(at) for d in dims] for dims in (self.size, self.stride))
        made: torch.Tensor = base.as_strided(size, stride, base.storage_offset() + self.offset.evaluate(at))
        return made


def views(graph: Any, outputs: Sequence[Any]) -> dict[int, View]:
    """Views among the outputs (what torch knows of each), by position.

    `graph` has the nodes in `graph.graph`.  A view of other elements than the argument's (`view(dtype)`) is left out.
    """
    holders = [n.meta.get("val") for n in graph.graph.nodes if n.op == "placeholder"]
    tensors = {_storage(v): i for i, v in enumerate(holders) if isinstance(v, torch.Tensor)}
    sizes = Sizes(TorchNames(), resolver(graph))
    sources: dict[str, Source] | None = None
    found: dict[int, View] = {}
    for at, value in enumerate(outputs):
        of = tensors.get(_storage(value)) if isinstance(value, torch.Tensor) else None
        if of is None or holders[of].dtype is not value.dtype:
            continue
        sources = _sources(holders, sizes) if sources is None else sources
        try:
            offset = sizes.dim(value.storage_offset()) - sizes.dim(holders[of].storage_offset())
            size, stride = (tuple(map(sizes.dim, x)) for x in (value.shape, value.stride()))
        except CompileError:
            continue
        used = frozenset[str]().union(*(d.symbols for d in (*size, *stride, offset)))
        if used <= sources.keys():
            found[at] = View(of, size, stride, offset, {s: sources[s] for s in used})
    return found


def _storage(value: Any) -> int:
    return int(value.untyped_storage()._cdata)


def _sources(holders: Sequence[Any], sizes: Sizes) -> dict[str, Source]:
    """Where each symbol stands bare: an integer, a size or a stride of an argument."""
    found: dict[str, Source] = {}

    def note(value: Any, source: Source) -> None:
        try:
            name = sizes.dim(value).name
        except CompileError:
            return
        if name is not None:
            found.setdefault(name, source)

    for i, value in enumerate(holders):
        if isinstance(value, torch.SymInt):
            note(value, partial(_integer, i))
        elif isinstance(value, torch.Tensor):
            for axis in range(value.dim()):
                note(value.shape[axis], partial(_size, i, axis))
                note(value.stride()[axis], partial(_stride, i, axis))
    return found


def _integer(i: int, args: Sequence[Any]) -> int:
    return int(args[i])


def _size(i: int, axis: int, args: Sequence[Any]) -> int:
    return int(args[i].shape[axis])


def _stride(i: int, axis: int, args: Sequence[Any]) -> int:
    return int(args[i].stride(axis))
