"""What an import gives: the module, its weights, and how its arguments and results hang together in torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...ir.diagnostics import error
from ...ir.graph import Module
from ...ir.types import DType, TensorType
from .aliasing import refusal, shared
from .complexes import as_pairs, from_pairs
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

    @property
    def direct(self) -> int | None:
        """How many arguments a call has that are `main`'s own, in order, with one tensor as its only result.

        None where arguments or results have structure that a call must take apart or put together.
        """
        spec = self.in_spec
        plain = spec is not None and not self.fixed and None not in self.inputs and not self.state
        plain = plain and not self.complex_inputs
        plain = plain and not self.written and any(p.type != _INTEGER for p in self.module.function("main").params)
        if not plain or [r.kind for r in self.outputs] != ["tensor"] or self.outputs[0].position != 0:
            return None
        args, kwargs = pytree.tree_unflatten(range(spec.num_leaves), spec)
        flat = not kwargs and list(args) == list(range(len(args)))
        leaf = self.out_spec is None or self.out_spec.is_leaf()
        return len(args) if flat and leaf and self.out_spec is not None else None

    @cached_property
    def written(self) -> frozenset[str]:
        """Parameters of `main` that are torch's arguments and are changed in place."""
        return frozenset(p.name for p in self.module.function("main").params if p.inout and p.name not in self.state)

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """torch's arguments as those of `main` (buffers not among them)."""
        leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
        if self.in_spec is not None and spec != self.in_spec:
            leaves = self._reordered(args, kwargs, spec)
        for at, wanted in self.fixed.items():
            if not _same(leaves[at], wanted):
                raise error(
                    f"argument {at} is {leaves[at]!r}, but the program was exported for {wanted!r}",
                    helps=("export it again with that value, or pass it as a tensor",),
                )
        given = {name: leaf for name, leaf in zip(self.inputs, leaves, strict=True) if name is not None}
        pair = shared(given.items(), self.written) if self.written else None
        if pair:
            raise refusal(pair, "the arguments")
        for name, dtype in self.complex_inputs.items():
            given[name] = as_pairs(given[name], name, dtype, name in self.written)
        if all(isinstance(leaf, int) for leaf in given.values()):  # nothing says what kind of array is wanted: torch's
            return {name: torch.tensor(leaf) for name, leaf in given.items()}
        return given

    def _reordered(self, args: Sequence[Any], kwargs: Mapping[str, Any], spec: Any) -> list[Any]:
        """Keyword arguments in the order of the export, where that alone differs."""
        wanted_args, wanted = pytree.tree_unflatten(range(self.in_spec.num_leaves), self.in_spec)
        if len(wanted_args) == len(args) and set(wanted) == set(kwargs):
            leaves, again = pytree.tree_flatten((tuple(args), {k: kwargs[k] for k in wanted}))
            if again == self.in_spec:
                return list(leaves)
        raise error(f"the arguments are not structured as those of the export: {spec} against {self.in_spec}")

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


_INTEGER = TensorType(DType.i64, ())


def _same(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return a is b
    return type(a) is type(b) and a == b
