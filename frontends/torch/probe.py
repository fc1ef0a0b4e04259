"""Sizes that torch or the model's own code treats apart: are they really another program?

torch.export takes sizes of 0 and 1 for special: a question such as `if length > 1` is answered for other sizes, with
a guard or without any.  Much code asks so and goes on the same (`is_causal = length > 1`).  This can be tried.  With
the model at hand, what the exported program gives without its guards is compared with what the model itself gives.  An
exported program alone is the model: what it gives is compared with what its module of ours gives.  Where both agree
the size is served; where not, a fact keeps it out.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...ir.diagnostics import CompileError
from ...ir.dims import Dim, linear
from ...ir.facts import Compare, Fact, Facts, InRange
from .sizes import Sizes

_SMALL = (0, 1)
_SYMBOLIC = (torch.Tensor, torch.SymInt)
_NEAR = 2
"""Sizes outside a range that torch had, next to it, that are tried."""
_SEARCHED = 64
"""How far from the range such sizes are looked for: not all of them are allowed."""


_FARTHEST = 4096
"""Sizes up to here are looked through for those at which a derived size is 0 or 1."""

_NOT_OF_NOTHING = frozenset({"aten._scaled_dot_product_flash_attention_for_cpu.default"})
"""Operators that end the process when they are given tensors of no elements; torch itself never does that."""

_OUT_OF_RANGE = re.compile(r"index.* out of (range|bounds)")
"""What torch says of an index.  Only then are zeros tried: torch ends the process on some divisions by 0."""

_OTHERS = 3
"""Up to so many other sizes, all combinations of small ones are looked at."""


_FAILED = 3
"""So many ways of choosing the other sizes are tried before a size counts as one that fails."""


@dataclass
class Probe:
    """Tries a program at sizes of which torch knew nothing; `lower` are the least sizes that the user allows.

    `reference` is right; `candidate` is what would be served in its place.  `who` names them in what is said:
    `the model`, `gives something else there`.
    """

    reference: Callable[..., Any]
    candidate: Callable[..., Any]
    program: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    sizes: Sizes
    lower: Mapping[str, int]
    who: str = "the model"
    rounds: int = 2
    notes: list[str] = field(default_factory=list)
    _asked: dict[str, dict[int, Compare]] = field(default_factory=dict)  # guards let go, by symbol and size
    _derived: list[Compare] = field(default_factory=list)  # guards let go that keep out 0 or 1 of a derived size

    def settle(self, fact: Compare) -> tuple[Fact, ...]:
        """What is left of a guard of the model's own code: nothing where `small` decides, for it keeps out 0 or 1."""
        if len(fact.symbols) != 1:
            return (fact,)
        (name,) = fact.symbols
        out = [v for v in range(64) if not _holds(fact, name, v)]
        if out and set(out) <= set(_SMALL) and _holds(fact, name, 1 << 20):
            self._asked.setdefault(name, {}).update(dict.fromkeys(out, fact))
            return ()
        derived = _kept_out_of(fact)
        if derived is None:
            return (fact,)
        self._derived.append(fact)
        return (InRange(derived[0], 0),)

    def small(self, symbols: Iterable[str], known: Facts, relaxed: Iterable[InRange] = ()) -> tuple[Fact, ...]:
        """Facts that keep out sizes at which the model does something else, or nothing at all.

        Tried are 0 and 1, and sizes next to the ranges that torch had, `relaxed`.
        """
        found: list[Fact] = []
        names = sorted(symbols)
        agreed: Counter[Fact] = Counter()
        ranges = {r.dim.name: r for r in relaxed}
        for name in names:
            for value, fact in _tries(name, ranges.get(name)):
                facts = known.add(*found)
                if value < self.lower.get(name, 0) or facts.prove(fact) or agreed[fact] == _NEAR:
                    continue
                asked = self._asked.get(name, {}).get(value)
                verdict = self._verdict(name, value, names, facts)
                agreed[fact] += verdict == "same"
                if verdict == "same" and asked is not None:
                    said = f"the model's code asks for {asked}, but gives the same there (it was tried)"
                    self.notes.append(f"{name} may be {value}: {said}")
                elif verdict == "untried" and asked is not None:
                    found.append(fact)
                elif verdict in ("different", "fails"):
                    how = "gives something else there" if verdict == "different" else "does not run there"
                    self.notes.append(f"{fact}: {self.who} {how} (it was tried at {value})")
                    found.append(fact)
        for fact in self._derived:
            found += self._settled(fact, names, known.add(*found))
        return tuple(found)

    def _settled(self, fact: Compare, names: Sequence[str], known: Facts) -> tuple[Fact, ...]:
        """What is left of the guard: nothing of it for a value of the derived size at which the model gives the same.

        Of the sizes with that value the first and the last are tried.
        """
        derived = _kept_out_of(fact)
        if derived is None or known.prove(fact):
            return ()
        dim, values = derived
        (name,) = dim.symbols
        left: list[int] = []
        for value in values:
            sizes = [n for n in range(_FARTHEST) if dim.evaluate({name: n}) == value]
            tried = {at: self._verdict(name, at, names, known) for at in (*sizes[:1], *sizes[-1:])}
            same = [str(at) for at, verdict in tried.items() if verdict == "same"]
            bad = [str(at) for at, verdict in tried.items() if verdict in ("different", "fails")]
            if bad or not same:
                left.append(value)
                if bad:
                    self.notes.append(f"{dim} != {value}: {self.who} does not give the same at {name} = {bad[0]}")
            else:
                said = f"the model's code asks for {fact}, but gives the same at {name} = {', '.join(same)}"
                self.notes.append(f"{dim} may be {value}: {said} (it was tried)")
        if tuple(left) == values:
            return (fact,)
        return tuple(Compare(">=", dim, 1) if value == 0 else Compare("!=", dim, value) for value in left)

    def _verdict(self, name: str, value: int, names: Sequence[str], known: Facts) -> str:
        """With the example's other sizes, or others that the facts allow.

        Sizes that are not known to depend on each other may: it fails only where it fails with several others.
        """
        example = self._example()
        others = [n for n in names if n != name]
        choices = [dict.fromkeys((example.get(n, value), value, value // 2, 2 * value, *_SMALL)) for n in others]
        bindings = dict.fromkeys((tuple(example.get(n, value) for n in others), (value,) * len(others)))
        if len(others) <= _OTHERS:
            bindings |= dict.fromkeys(product(*choices))
        failed = 0
        for binding in bindings:
            sizes = {name: value, **dict(zip(others, binding, strict=True))}
            try:
                allowed = known.holds(sizes)
            except (KeyError, ZeroDivisionError):
                continue
            if allowed:
                verdict = self._compared(sizes)
                failed += verdict == "fails"
                if verdict in ("same", "different") or failed == _FAILED:
                    return verdict
        return "fails" if failed else "untried"

    def _compared(self, sizes: Mapping[str, int]) -> str:
        """same | different | fails | untried (no inputs have that size, or torch might not survive it)."""
        if any(str(n.target) in _NOT_OF_NOTHING for n in self.program.graph.nodes):
            return "untried"
        for seed in range(self.rounds):
            inputs = self._inputs(sizes, seed)
            if inputs is None:
                return "untried"
            verdict = self._at(inputs)
            if verdict == "out of range":  # the example's integers are indices that only a larger size allows
                verdict = self._at(_without_integers(inputs))
            if verdict != "same":
                return "fails" if verdict == "out of range" else verdict
        return "same"

    def _at(self, inputs: tuple[tuple[Any, ...], dict[str, Any]]) -> str:
        try:
            with torch.no_grad():
                wanted, got = (_called(f, *inputs) for f in (self.reference, self.candidate))
        except Exception as failure:  # noqa: BLE001  whatever the model raises at a size that it does not take
            return "out of range" if _OUT_OF_RANGE.search(str(failure)) else "fails"
        return "same" if _close(got, wanted) else "different"

    def _inputs(self, values: Mapping[str, int], seed: int) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The example's arguments at another size: its own elements, shuffled and repeated."""
        generator = torch.Generator().manual_seed(seed)
        leaves, spec = pytree.tree_flatten((tuple(self.args), dict(self.kwargs)))
        made: list[Any] = []
        for leaf, meta in zip(leaves, self._metas(), strict=True):
            if isinstance(meta, torch.SymInt):
                made.append(self._integer(leaf, meta, values))
                continue
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

    def _integer(self, leaf: Any, meta: Any, values: Mapping[str, int]) -> Any:
        """An argument that is a size; one that is only a value stays."""
        try:
            return self.sizes.dim(meta).evaluate(values)
        except (CompileError, KeyError, ZeroDivisionError):
            return leaf

    def _metas(self) -> list[Any]:
        """What torch knows of each user input."""
        names = [s.arg.name for s in self.program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
        metas = {n.name: n.meta.get("val") for n in self.program.graph.nodes if n.op == "placeholder"}
        return [metas.get(name) for name in names]

    def _example(self) -> dict[str, int]:
        """The sizes of the example's arguments."""
        found: dict[str, int] = {}
        for leaf, meta in zip(pytree.tree_leaves((tuple(self.args), dict(self.kwargs))), self._metas(), strict=True):
            pairs: Iterable[tuple[Any, int]] = ()
            if isinstance(leaf, torch.Tensor) and isinstance(meta, torch.Tensor):
                pairs = zip(meta.shape, leaf.shape, strict=True)
            elif isinstance(leaf, int) and isinstance(meta, torch.SymInt):
                pairs = ((meta, leaf),)
            for d, n in pairs:
                with suppress(CompileError):  # an argument that is only a value
                    dim = self.sizes.dim(d)
                    split = linear(dim, min(dim.symbols)) if len(dim.symbols) == 1 else None
                    if split is not None and split[0].is_const and split[1].is_const and split[0].value:
                        found.setdefault(min(dim.symbols), (n - split[1].value) // split[0].value)
        return found


def _kept_out_of(fact: Compare) -> tuple[Dim, tuple[int, ...]] | None:
    """A size that is compared with a number, and which of 0 and 1 are kept out; None where more is, or less."""
    dim, bound = fact.lhs, fact.rhs
    if not bound.is_const or not dim.symbols:
        return None
    match fact.op, bound.value:
        case (">", 0) | (">=", 1) | ("!=", 0):
            return dim, (0,)
        case (">", 1) | (">=", 2):
            return dim, (1, 0)
        case ("!=", 1):
            return dim, (1,)
    return None


def _tries(name: str, had: InRange | None) -> Iterator[tuple[int, Fact]]:
    """Sizes to try, and what keeps each out: first those next to the range that torch had, then 1 and 0."""
    if had is not None and had.lo.value > _NEAR:
        for value in range(had.lo.value - 1, max(had.lo.value - _SEARCHED, 1), -1):
            yield value, InRange(name, had.lo)
    if had is not None and had.hi is not None:
        for value in range(had.hi.value + 1, had.hi.value + _NEAR + 1):
            yield value, Compare("<=", name, had.hi)
    yield 0, InRange(name, 1)
    yield 1, Compare("!=", name, 1)


def _called(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """What it gives, and its arguments as it leaves them."""
    own_args, own_kwargs = _copies((tuple(args), dict(kwargs)))
    return function(*own_args, **own_kwargs), (own_args, own_kwargs)


def without_state(module: Callable[[], Any], mutates: bool) -> Callable[..., Any]:
    """A call of the module, of a copy each time where calls would change its buffers."""

    def call(*args: Any, **kwargs: Any) -> Any:
        held = copy.deepcopy(module()) if mutates else module()
        return torch.nn.Module.__call__(held, *args, **kwargs)  # modules of fx print what is raised in them on stderr

    return call


def example_of(program: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that a program was exported with, or some of their sizes and kinds where they are not kept."""
    kept = program.example_inputs
    if kept is not None:
        return tuple(kept[0]), dict(kept[1] or {})
    metas = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    leaves: list[Any] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind.name == "USER_INPUT":
            value = metas.get(spec.arg.name)
            leaves.append(_made(value) if isinstance(value, _SYMBOLIC) else getattr(spec.arg, "value", value))
    args, kwargs = pytree.tree_unflatten(leaves, program.call_spec.in_spec)
    return tuple(args), dict(kwargs)


def _made(value: Any) -> Any:
    if isinstance(value, torch.SymInt):
        return value.node.hint
    shape = [d.node.hint if isinstance(d, torch.SymInt) else d for d in value.shape]
    if not value.dtype.is_floating_point:
        return torch.zeros(shape, dtype=value.dtype)
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(value.dtype)


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


def _without_integers(inputs: Any) -> Any:
    """The inputs with zeros for all tensors of integers."""

    def plain(x: torch.Tensor) -> torch.Tensor:
        return x if x.is_floating_point() or x.dtype == torch.bool else torch.zeros_like(x)

    return pytree.tree_map_only(torch.Tensor, plain, inputs)


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
            wide = torch.promote_types(x.dtype, torch.float64)
            if not torch.allclose(x.to(wide), y.to(wide), rtol=1e-4, atol=1e-5, equal_nan=True):
                return False
        elif x != y:
            return False
    return True
