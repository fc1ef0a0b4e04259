"""What an import gives: the module, its weights, and how its arguments and results hang together in torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.utils import _pytree as pytree

from ...ir.graph import Module
from ...ir.types import DType
from .complexes import from_pairs, pairs_of
from .weights import Array


@dataclass(frozen=True)
class Result:
    """Where a leaf of the output comes from: a result of the function, a constant, or an input itself."""

    position: int | None = None
    constant: object = None
    kind: str = "tensor"  # of a result: tensor, complex (as pairs of reals), int, float, bool


@dataclass(frozen=True)
class Imported:
    """A torch program as a module of ours.

    `module` has one function, `main`; `weights` are its arrays by name.  `inputs` names, for every leaf of torch's
    arguments, the parameter that it is, or None for one that the program does not read (a number, None); `fixed` are
    the values that such leaves had, where the program was made for them.  `state` are buffers that the program
    changes, as inout parameters, and the values they start with.
    """

    module: Module
    weights: Mapping[str, Array]
    notes: tuple[str, ...]
    inputs: tuple[str | None, ...]
    fixed: Mapping[int, object]
    outputs: tuple[Result, ...]
    state: Mapping[str, Array]
    in_spec: Any = field(repr=False, default=None)
    out_spec: Any = field(repr=False, default=None)
    complex_inputs: Mapping[str, DType] = field(default_factory=dict)
    """Parameters that are complex tensors of torch's, as pairs of reals of that type."""

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments that are structured as those of the export, as those of `main` (buffers not among them)."""
        leaves = pytree.tree_leaves((tuple(args), dict(kwargs)))
        given = {name: leaf for name, leaf in zip(self.inputs, leaves, strict=True) if name is not None}
        return given | {name: pairs_of(given[name]) for name in self.complex_inputs}

    def results(self, given: Any) -> Any:
        """The results of `main` as torch's own structure."""
        listed = given if isinstance(given, (tuple, list)) else () if given is None else (given,)
        leaves = [self._leaf(r, listed) for r in self.outputs]
        return leaves if self.out_spec is None else pytree.tree_unflatten(leaves, self.out_spec)

    @staticmethod
    def _leaf(result: Result, given: Sequence[Any]) -> Any:
        if result.position is None:
            return result.constant
        value = given[result.position]
        if result.kind == "complex":
            return from_pairs(value)
        return value if result.kind == "tensor" else {"int": int, "float": float, "bool": bool}[result.kind](value)
