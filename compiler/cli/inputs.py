"""Input for `pliant run`: from files, or random arrays at sizes that satisfy the facts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from ...ir.diagnostics import error
from ...ir.dims import Dim
from ...ir.facts import Fact
from ...ir.graph import Bind, Function, MatchCast, Module, Var
from ...ir.infer_bind import HostValues
from ...ir.types import TensorType, TupleType, Type
from ...runtime.memory import physical_memory
from . import options

_RANDOM_BYTES = 8  # of an element as it is drawn
_SIZES = (8, 4, 16, 2, 1, 32, 3, 64, 128, 0)


def given_arrays(function: Function, inputs: Iterable[str]) -> dict[str, np.ndarray]:
    """Arrays by parameter, of `name=FILE.npy`, `FILE.npy` (the next parameter), `FILE.safetensors`, `FILE.npz`.

    `random` and `name=random` give none: what is not given is random.
    """
    found: dict[str, np.ndarray] = {}
    names = [p.name for p in function.params]
    for item in inputs:
        name, equals, path = item.rpartition("=")
        if equals and not name:
            raise click.BadParameter(f"`{item}` names no parameter", param_hint="--input")
        if name:
            _require_parameter(function, names, name)
        if path == "random":
            continue
        if Path(path).suffix in (".safetensors", ".npz"):
            arrays = options.read_arrays(path)
            if name:
                if name not in arrays:
                    raise error(f"{path} holds no array `{name}`", helps=(f"it holds {', '.join(arrays) or 'none'}",))
                arrays = {name: arrays[name]}
        else:
            rest = [n for n in names if n not in found]
            if not name and not rest:
                raise click.BadParameter(f"`{item}` is one input too many", param_hint="--input")
            arrays = {name or rest[0]: options.read_array(path)}
        for given in arrays:
            _require_parameter(function, names, given)
            if given in found:
                raise click.BadParameter(f"`{given}` is given twice", param_hint="--input")
        found |= arrays
    return found


def _require_parameter(function: Function, names: list[str], name: str) -> None:
    if name not in names:
        raise error(f"@{function.name} has no parameter `{name}`", helps=(f"it has {', '.join(names) or 'none'}",))


def choose_sizes(
    module: Module, function: Function, given: Mapping[str, int], fixed: Mapping[str, int]
) -> dict[str, int]:
    """A size for every symbol: those given, then likely or small ones that satisfy the facts."""
    bound = _bound(function)
    declared = _symbols(declared_types(function).values()) | _symbols(w.type for w in module.weights)
    symbols = sorted(declared | bound.symbols)
    facts = (*function.facts, *bound.facts, *(f for w in module.weights for f in w.facts))
    unknown = sorted(set(given) - set(symbols))
    if unknown:
        raise error(f"there is no symbol `{unknown[0]}`", helps=(f"there are {', '.join(symbols) or 'none'}",))
    sizes = {**fixed, **given}
    for fact in facts:
        if fact.symbols <= sizes.keys() and not fact.holds(sizes):
            at = ", ".join(f"{s}={sizes[s]}" for s in sorted(fact.symbols))
            raise error(f"{at} contradicts the fact `{fact}`", fact.span)
    likely = {item.symbol: item.values for item in function.likely}
    _search([s for s in symbols if s not in sizes], sizes, facts, likely)
    return sizes


@dataclass(frozen=True)
class _Bound:
    """What the `bind` statements of a function say; `leaves` maps parameters (`count`, `state.1`) to symbols."""

    leaves: Mapping[str, str]
    symbols: frozenset[str]
    facts: tuple[Fact, ...]


def _bound(function: Function) -> _Bound:
    host, facts, symbols = HostValues.of_params(function.params), list[Fact](), set[str]()
    for s in function.body.statements:
        facts += host.note(s)
        if isinstance(s, Bind):
            facts += s.facts
            symbols.add(s.symbol)
    return _Bound(host.bound, frozenset(symbols), tuple(facts))


def given_sizes(function: Function, given: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Sizes that are the values of given arguments."""
    leaves = _bound(function).leaves
    whole = {leaf: array for leaf, array in given.items() if array.size == 1 and array.dtype.kind in "iu"}
    return {symbol: int(whole[leaf].item()) for leaf, symbol in leaves.items() if leaf in whole}


def declared_types(function: Function) -> dict[str, Type]:
    """Parameter types; where the rank is unknown, that of the match_cast on it."""
    types = {p.name: p.type for p in function.params}
    for s in function.body.statements:
        if isinstance(s, MatchCast) and isinstance(s.operand, Var) and s.target.type is not None:
            if getattr(types.get(s.operand.name), "shape", ()) is None:
                types[s.operand.name] = s.target.type
    return types


def _search(
    names: list[str], sizes: dict[str, int], facts: tuple[Fact, ...], likely: Mapping[str, tuple[int, ...]]
) -> None:
    """The first combination that contradicts nothing; facts are looked at as soon as their symbols have sizes."""
    choices = [(*likely.get(n, ()), *_SIZES, *_bounds(n, facts)) for n in names]
    for tried, combination in enumerate(itertools.product(*choices)):
        binding = {**sizes, **dict(zip(names, combination, strict=True))}
        if all(f.holds(binding) for f in facts if f.symbols <= binding.keys()):
            sizes.update(binding)
            return
        if tried > 200_000:
            break
    raise error(
        "found no sizes that satisfy the facts", helps=(f"give them: {' '.join(f'--dim {n}=..' for n in names)}",)
    )


def _bounds(name: str, facts: tuple[Fact, ...]) -> tuple[int, ...]:
    from ...ir.facts import Facts

    low, high = Facts().add(*facts).bounds(Dim.of(name))
    return tuple(b for b in (low, high) if b is not None)


def _symbols(types: Iterable[Type]) -> frozenset[str]:
    found: set[str] = set()
    for t in types:
        if isinstance(t, TupleType):
            found |= _symbols(t.items)
        elif t.shape is not None:
            found |= {s for d in t.shape for s in d.symbols}
    return frozenset(found)


def random_arguments(
    rng: np.random.Generator, function: Function, sizes: Mapping[str, int], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments by name: those given, the sizes that are arguments, and random values."""
    leaves = _bound(function).leaves
    values = {leaf: np.asarray(sizes[symbol]) for leaf, symbol in leaves.items()}
    return {
        n: given[n] if n in given else _random_value(rng, n, t, sizes, values)
        for n, t in declared_types(function).items()
    }


def _random_value(
    rng: np.random.Generator, name: str, t: Type, sizes: Mapping[str, int], values: Mapping[str, np.ndarray]
) -> object:
    """Normal floats, integers 0 and 1 (valid as indices almost anywhere), fair bools."""
    if isinstance(t, TupleType):
        return tuple(_random_value(rng, f"{name}.{i}", item, sizes, values) for i, item in enumerate(t.items))
    return values[name] if name in values else random_array(rng, t, sizes)


def require_memory(function: Function, module: Module, sizes: Mapping[str, int], given: Mapping[str, Any]) -> None:
    """Refuses sizes whose random arrays the machine has no memory for, before it is asked for any."""
    types = [t for name, t in declared_types(function).items() if name not in given]
    total = sum(map(partial(_bytes, sizes=sizes), (*types, *(w.type for w in module.weights))))
    if total > physical_memory():
        at = ", ".join(f"{k}={v}" for k, v in sizes.items())
        raise error(f"random arguments at {at} take {total} bytes, and the machine has {physical_memory()}")


def _bytes(t: Type, sizes: Mapping[str, int]) -> int:
    if isinstance(t, TupleType):
        return sum(_bytes(item, sizes) for item in t.items)
    if t.shape is None:
        return 0
    return math.prod(max(d.evaluate(sizes), 0) for d in t.shape) * _RANDOM_BYTES


def random_array(rng: np.random.Generator, t: TensorType, sizes: Mapping[str, int]) -> np.ndarray:
    if t.shape is None:
        raise error(f"cannot make a random array of type {t}", helps=("give it: `--input name=FILE.npy`",))
    shape = tuple(d.evaluate(sizes) for d in t.shape)
    at = ", ".join(f"{k}={v}" for k, v in sizes.items())
    if min(shape, default=0) < 0:
        raise error(f"{t} has a negative size at {at}")
    try:
        if t.dtype.is_float:
            return rng.standard_normal(shape).astype(t.dtype.numpy)
        return rng.integers(0, 2, shape).astype(t.dtype.numpy)
    except (ValueError, OverflowError, MemoryError) as fault:
        raise error(f"there can be no array of type {t} at {at}: {fault}") from None
