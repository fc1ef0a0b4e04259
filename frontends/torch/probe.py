"""Sizes 0 and 1 that the model's own code treats apart: are they really another program?

torch.export takes sizes of 0 and 1 for special: a question such as `if length > 1` is answered for other sizes, with
a guard or without any.  Much code asks so and goes on the same (`is_causal = length > 1`).  With the model at hand it
can be tried: where the exported program, run at that size without its guards, gives what the model itself gives, the
size is served; where not, a fact keeps it out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...ir.dims import Dim, linear
from ...ir.facts import Compare, Fact, Facts, InRange
from .sizes import Sizes

_SMALL = (0, 1)
_ROUNDS = 2


@dataclass
class Probe:
    """Tries a model at small sizes; `lower` are the least sizes that the user allows, by our names.

    `mutates` says that calls change buffers: copies are called then.

    """

    model: Any
    program: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    sizes: Sizes
    lower: Mapping[str, int]
    mutates: bool
    notes: list[str] = field(default_factory=list)
    _asked: dict[str, dict[int, Compare]] = field(default_factory=dict)  # guards let go, by symbol and size

    def settle(self, fact: Compare) -> tuple[Fact, ...]:
        """What is left of a guard of the model's own code: nothing where `small` decides, for it keeps out 0 or 1."""
        if len(fact.symbols) != 1:
            return (fact,)
        (name,) = fact.symbols
        out = [v for v in range(64) if not _holds(fact, name, v)]
        if not out or not set(out) <= set(_SMALL) or not _holds(fact, name, 1 << 20):
            return (fact,)
        self._asked.setdefault(name, {}).update(dict.fromkeys(out, fact))
        return ()

    def small(self, symbols: Iterable[str], known: Facts) -> tuple[Fact, ...]:
        """Facts that keep out the sizes 0 and 1 at which the model does something else, or nothing at all."""
        found: list[Fact] = []
        names = sorted(symbols)
        for name in names:
            for value in _SMALL:
                fact: Fact = InRange(name, 1) if value == 0 else Compare("!=", name, 1)
                facts = known.add(*found)
                if value < self.lower.get(name, 0) or facts.prove(fact):
                    continue
                asked = self._asked.get(name, {}).get(value)
                verdict = self._verdict(name, value, names, facts)
                if verdict == "same" and asked is not None:
                    said = f"the model's code asks for {asked}, but gives the same there (it was tried)"
                    self.notes.append(f"{name} may be {value}: {said}")
                elif verdict == "untried" and asked is not None:
                    found.append(fact)
                elif verdict in ("different", "fails"):
                    how = "gives something else there" if verdict == "different" else "does not run there"
                    self.notes.append(f"{fact}: the model {how} (it was tried)")
                    found.append(fact)
        return tuple(found)

    def _verdict(self, name: str, value: int, names: Sequence[str], known: Facts) -> str:
        """With the example's other sizes, or all sizes as small, where the facts allow one of these."""
        for binding in ({name: value}, dict.fromkeys(names, value)):
            sizes = self._example() | binding
            try:
                allowed = known.holds(sizes)
            except (KeyError, ZeroDivisionError):
                continue
            if allowed:
                return self._compared(sizes)
        return "untried"

    def _compared(self, sizes: Mapping[str, int]) -> str:
        """same | different | fails | untried (no inputs have that size)."""
        unguarded = self._unguarded
        for seed in range(_ROUNDS):
            inputs = self._inputs(sizes, seed)
            if inputs is None:
                return "untried"
            args, kwargs = inputs
            try:
                with torch.no_grad():
                    wanted = self._own_model()(*_copies(args), **_copies(kwargs))
                    got = (copy.deepcopy(unguarded) if self.mutates else unguarded)(*_copies(args), **_copies(kwargs))
            except Exception:  # noqa: BLE001  whatever the model raises at a size that it does not take
                return "fails"
            if not _close(got, wanted):
                return "different"
        return "same"

    @cached_property
    def _unguarded(self) -> Any:
        """The exported program, callable at sizes that its guards keep out."""
        return self.program.module(check_guards=False)

    def _own_model(self) -> Any:
        """The model itself, or a copy where calls would change its buffers."""
        return copy.deepcopy(self.model) if self.mutates else self.model

    def _inputs(self, values: Mapping[str, int], seed: int) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The example's arguments at another size: its own elements, shuffled and repeated."""
        generator = torch.Generator().manual_seed(seed)
        leaves, spec = pytree.tree_flatten((tuple(self.args), dict(self.kwargs)))
        made: list[Any] = []
        for leaf, meta in zip(leaves, self._metas(), strict=True):
            if not isinstance(leaf, torch.Tensor) or not isinstance(meta, torch.Tensor):
                made.append(leaf)
                continue
            try:
                shape = [self.sizes.dim(d).evaluate(values) for d in meta.shape]
            except (KeyError, ZeroDivisionError):
                return None
            if min(shape, default=0) < 0:
                return None
            made.append(_resized(leaf, shape, generator))
        args, kwargs = pytree.tree_unflatten(made, spec)
        return args, kwargs

    def _metas(self) -> list[Any]:
        """What torch knows of each user input."""
        names = [s.arg.name for s in self.program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
        metas = {n.name: n.meta.get("val") for n in self.program.graph.nodes if n.op == "placeholder"}
        return [metas.get(name) for name in names]

    def _example(self) -> dict[str, int]:
        """The sizes of the example's arguments."""
        found: dict[str, int] = {}
        for leaf, meta in zip(pytree.tree_leaves((tuple(self.args), dict(self.kwargs))), self._metas(), strict=True):
            if isinstance(leaf, torch.Tensor) and isinstance(meta, torch.Tensor):
                for d, n in zip(meta.shape, leaf.shape, strict=True):
                    dim = self.sizes.dim(d)
                    split = linear(dim, min(dim.symbols)) if len(dim.symbols) == 1 else None
                    if split is not None and split[0].is_const and split[1].is_const and split[0].value:
                        found.setdefault(min(dim.symbols), (n - split[1].value) // split[0].value)
        return found


Settle = Callable[[Compare], tuple[Fact, ...]]


def _holds(fact: Compare, name: str, value: int) -> bool:
    try:
        return fact.holds({name: value})
    except ZeroDivisionError:
        return False


def _resized(leaf: torch.Tensor, shape: list[int], generator: torch.Generator) -> torch.Tensor:
    count = int(Dim.product(shape).value)
    if count == 0 or leaf.numel() == 0:
        return torch.zeros(shape, dtype=leaf.dtype)
    flat = leaf.detach().reshape(-1)
    at = torch.randint(0, flat.numel(), (count,), generator=generator)
    return flat[at].reshape(shape)


def _copies(tree: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda x: x.detach().clone(), tree)


def _close(got: Any, wanted: Any) -> bool:
    a, b = pytree.tree_leaves(got), pytree.tree_leaves(wanted)
    if len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):
        if isinstance(x, torch.Tensor) != isinstance(y, torch.Tensor):
            return False
        if isinstance(x, torch.Tensor):
            if x.shape != y.shape or x.dtype != y.dtype:
                return False
            if not torch.allclose(x.double(), y.double(), rtol=1e-4, atol=1e-5, equal_nan=True):
                return False
        elif x != y:
            return False
    return True
