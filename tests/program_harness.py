"""Compiled programs against the interpreter: arguments for a binding, tolerances that follow the magnitudes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pliant.ir.graph import Function, Module
from pliant.ir.interpret import InterpretError, interpret
from pliant.ir.types import DType, TensorType, Type
from pliant.runtime import Executable, PliantError
from tests.op_harness import random_array

ROUNDING = {DType.f64: 1e-13, DType.f32: 3e-6, DType.f16: 4e-3, DType.bf16: 3e-2}
"""How far apart two correct ways to compute a value may be, relative to the magnitudes met: some ulp of its dtype."""


def arguments(function: Function, binding: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """Random arguments of the function's types; the same ones for the same seed."""
    return {
        p.name: _random(np.random.default_rng([seed, zlib.crc32(p.name.encode())]), p.type, binding)
        for p in function.params
    }


def _random(rng: np.random.Generator, type_: Type, binding: Mapping[str, int]) -> Any:
    if isinstance(type_, TensorType):
        return random_array(rng, type_.dtype, tuple(d.evaluate(binding) for d in type_.dims))
    return tuple(_random(rng, item, binding) for item in type_.items)


def copied(value: Any) -> Any:
    """The same arrays in memory of their own."""
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    return tuple(map(copied, value)) if isinstance(value, (tuple, list)) else value.copy()


def leaves(value: Any) -> Iterator[np.ndarray]:
    """The arrays of nested tuples, in order."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    else:
        yield np.asarray(value)


def allowed(function: Function, binding: Mapping[str, int]) -> bool:
    """Do the function's facts hold at this binding?"""
    return all(fact.holds(binding) for fact in function.facts if fact.symbols <= binding.keys())


def agree(
    module: Module,
    executable: Executable,
    name: str,
    binding: Mapping[str, int],
    exact: Sequence[bool] = (),
    seed: int = 0,
    weights: Mapping[str, np.ndarray] | None = None,
) -> bool:
    """Asserts that the compiled function does what the interpreted one does; False if both refuse the call.

    `exact` says which results (their arrays in order) must have the very bits.
    """
    function = module.function(name)
    given = arguments(function, binding, seed)
    ours, theirs = copied(given), copied(given)
    try:
        want = interpret(module, name, theirs, weights)
    except InterpretError as refusal:
        try:
            executable[name](**ours)
        except PliantError:
            return False
        raise AssertionError(f"@{name} at {dict(binding)}: not refused, but by the interpreter: {refusal}") from refusal
    got = executable[name](**ours)
    slack = spread(module, name, given, want, theirs, weights)
    where = f"@{name} at {dict(binding)}"
    got = [got] if isinstance(got, np.ndarray) else [] if got is None else got
    changed = [p.name for p in function.params if p.inout]
    everything = zip(
        [*leaves(got), *(ours[p] for p in changed)], [*leaves(want), *(theirs[p] for p in changed)], slack, strict=True
    )
    for i, (g, w, tolerance) in enumerate(everything):
        close(g, w, 0.0 if i < len(exact) and exact[i] else tolerance, f"{where}, array {i}")
    untouched = [p.name for p in function.params if not p.inout]
    for p in untouched:
        for a, b in zip(leaves(ours[p]), leaves(given[p]), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"{where}: the argument `{p}` was changed")
    return True


def close(got: np.ndarray, want: np.ndarray, tolerance: float, where: str) -> None:
    """Equal dtype and shape; the values equal to the bit (NaN is NaN), or within the absolute tolerance."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape), (
        f"{where}: {got.dtype}{got.shape}, {want.dtype}{want.shape}"
    )
    if tolerance == 0 or not DType.of(want.dtype).is_float:
        np.testing.assert_array_equal(got, want, err_msg=where)
        return
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=0, atol=tolerance, equal_nan=True, err_msg=where
    )


def spread(
    module: Module,
    name: str,
    given: Mapping[str, Any],
    want: Sequence[Any],
    changed: Mapping[str, Any],
    weights: Mapping[str, np.ndarray] | None,
) -> list[float]:
    """The tolerance of each result and inout parameter: rounding, and what it does to the interpreter's own answer.

    The program is run once more on arguments that are changed by a rounding error.
    """
    unit = max((ROUNDING[d] for d in _dtypes(module)), default=0.0)
    moved = {name: _moved(value, unit) for name, value in given.items()}
    again = interpret(module, name, moved, weights)
    function = module.function(name)
    inouts = [p.name for p in function.params if p.inout]
    first = [*leaves(want), *(changed[p] for p in inouts)]
    second = [*leaves(again), *(moved[p] for p in inouts)]
    return [_distance(a, b, unit) for a, b in zip(first, second, strict=True)]


def _distance(a: np.ndarray, b: np.ndarray, unit: float) -> float:
    if not DType.of(a.dtype).is_float or not a.size:
        return 0.0
    a, b = a.astype(np.float64), b.astype(np.float64)
    both = np.isfinite(a) & np.isfinite(b)
    scale = np.abs(a[both]).max(initial=0.0)
    return float(10 * np.abs(a[both] - b[both]).max(initial=0.0) + unit * max(scale, 1.0))


def _moved(value: Any, unit: float) -> Any:
    if isinstance(value, tuple):
        return tuple(_moved(v, unit) for v in value)
    if not DType.of(value.dtype).is_float:
        return value.copy()
    signs = np.random.default_rng(7).choice([-1.0, 1.0], value.shape)
    return (value.astype(np.float64) * (1 + unit * signs)).astype(value.dtype)


def _dtypes(module: Module) -> set[DType]:
    """The floating-point dtypes of all values."""
    from pliant.ir.graph import targets_of

    types: list[Type | None] = [w.type for w in module.weights]
    for f in module.functions:
        types += [p.type for p in f.params] + list(f.results)
        types += [t.type for s in f.body.statements for t in targets_of(s)]
    flat = [t for t in types if isinstance(t, TensorType)]
    return {t.dtype for t in flat if t.dtype.is_float} or {DType.f32}
