"""The arguments of an export, at other sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...ir.diagnostics import CompileError
from ...ir.dims import Dim, linear
from .sizes import Sizes

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def metas_of(program: Any) -> list[Any]:
    """What torch knows of each user input."""
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    metas = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    return [metas.get(name) for name in names]


def dims_of(metas: Sequence[Any], sizes: Sizes) -> list[Any]:
    """The sizes of each user input: dims of a tensor, one of an integer that varies; None for all else."""
    found: list[Any] = []
    for meta in metas:
        if isinstance(meta, torch.Tensor):
            found.append(tuple(map(sizes.dim, meta.shape)))
        elif isinstance(meta, torch.SymInt):
            try:
                found.append(sizes.dim(meta))
            except CompileError:  # an argument that is only a value
                found.append(None)
        else:
            found.append(None)
    return found


def sizes_of(given: Arguments, dims: Sequence[Any]) -> dict[str, int]:
    """The value of every symbol at these arguments, as far as a size says one alone."""
    found: dict[str, int] = {}
    for leaf, wanted in zip(pytree.tree_leaves(given), dims, strict=False):
        pairs: list[tuple[Dim, int]] = []
        if isinstance(leaf, torch.Tensor) and isinstance(wanted, tuple):
            pairs = list(zip(wanted, leaf.shape, strict=True))
        elif isinstance(leaf, int) and isinstance(wanted, Dim):
            pairs = [(wanted, leaf)]
        for dim, n in sorted(pairs, key=lambda p: p[0].name is None):
            if len(dim.symbols) == 1:
                symbol = min(dim.symbols)
                split = linear(dim, symbol)
                if split is not None and split[0].is_const and split[1].is_const and split[0].value:
                    found.setdefault(symbol, (n - split[1].value) // split[0].value)
    return found


def resized(given: Arguments, dims: Sequence[Any], values: Mapping[str, int], seed: int = 0) -> Arguments | None:
    """The arguments at other sizes: their own elements, shuffled and repeated.  None where a size is not known."""
    generator = torch.Generator().manual_seed(seed)
    leaves, spec = pytree.tree_flatten(given)
    made: list[Any] = []
    try:
        for leaf, wanted in zip(leaves, dims, strict=True):
            if isinstance(leaf, torch.Tensor) and isinstance(wanted, tuple):
                shape = [d.evaluate(values) for d in wanted]
                if min(shape, default=0) < 0:
                    return None
                made.append(leaf if list(leaf.shape) == shape else _filled(leaf, shape, generator))
            elif isinstance(wanted, Dim):
                made.append(wanted.evaluate(values))
            else:
                made.append(leaf)
    except (KeyError, ZeroDivisionError):
        return None
    args, kwargs = pytree.tree_unflatten(made, spec)
    return args, kwargs


def _filled(leaf: torch.Tensor, shape: list[int], generator: torch.Generator) -> torch.Tensor:
    count = int(Dim.product(shape).value)
    if count == 0 or leaf.numel() == 0:
        return torch.zeros(shape, dtype=leaf.dtype)
    flat = leaf.detach().reshape(-1)
    at = torch.randint(0, flat.numel(), (count,), generator=generator)
    return flat[at].reshape(shape)


def example_of(program: Any) -> Arguments:
    """The arguments that a program was exported with, or some of their sizes and kinds where they are not kept."""
    kept = program.example_inputs
    if kept is not None:
        return tuple(kept[0]), dict(kept[1] or {})
    specs = [s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    leaves = [
        _made(value) if isinstance(value, (torch.Tensor, torch.SymInt)) else getattr(spec.arg, "value", value)
        for spec, value in zip(specs, metas_of(program), strict=True)
    ]
    args, kwargs = pytree.tree_unflatten(leaves, program.call_spec.in_spec)
    return tuple(args), dict(kwargs)


def _made(value: Any) -> Any:
    if isinstance(value, torch.SymInt):
        return value.node.hint
    shape = [d.node.hint if isinstance(d, torch.SymInt) else d for d in value.shape]
    if not value.dtype.is_floating_point:
        return torch.zeros(shape, dtype=value.dtype)
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(value.dtype)
