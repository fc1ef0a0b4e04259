"""The mode `run` of file tests: a compiled program against the interpreter, at given sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pliant.compiler.driver import compile as compile_module
from pliant.ir.graph import Function, Module
from pliant.ir.interpret import InterpretError, interpret
from pliant.ir.parser import parse_module
from pliant.ir.types import TensorType, Type
from pliant.runtime import Executable
from pliant.runtime.errors import PliantError
from tests.op_harness import random_array

TOLERANCE = {"float64": 1e-10, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Of a result, relative to its largest element: sums are taken in another order than numpy's."""


def run_at(source: str, name: str, bindings: Sequence[Mapping[str, int]]) -> str:
    """One line for each binding: that the results agree, or why the call was refused.

    What is refused, the interpreter must refuse too.
    """
    module = parse_module(source, name)
    executable = compile_module(module)
    lines = []
    for number, binding in enumerate(bindings):
        rng = np.random.default_rng(number)
        weights = {w.name: _random(rng, w.type, binding) for w in module.weights}
        function = _entry(module)
        arguments = {p.name: _random(rng, p.type, binding) for p in function.params}
        arguments |= {n: np.asarray(binding[n]) for n in arguments if n in binding}  # what a `bind` makes a size of
        shown = ",".join(f"{symbol}={size}" for symbol, size in binding.items()) or "no symbols"
        lines.append(f"{shown}: {_one(module, function.name, executable, weights, arguments)}")
    return "\n".join(lines)


def _entry(module: Module) -> Function:
    return module.functions[0] if len(module.functions) == 1 else module.function("main")


def _one(
    module: Module, function: str, executable: Executable, weights: dict[str, Any], arguments: dict[str, Any]
) -> str:
    theirs = {name: _copy(value) for name, value in arguments.items()}
    try:
        loaded = executable.with_weights(weights) if weights else executable
        got = loaded[function](**arguments)
    except PliantError as refusal:
        try:
            interpret(module, function, theirs, weights)
        except (InterpretError, IndexError, ZeroDivisionError):
            return str(refusal)
        raise AssertionError(f"refused, but the interpreter takes it: {refusal}") from refusal
    want = interpret(module, function, theirs, weights)
    _agree(got, want[0] if len(want) == 1 and not isinstance(got, tuple) else tuple(want))
    _agree(tuple(arguments.values()), tuple(theirs.values()))  # what `inout` parameters hold now
    return "agrees with the interpreter"


def _random(rng: np.random.Generator, type_: Type, binding: Mapping[str, int]) -> Any:
    if isinstance(type_, TensorType):
        return random_array(rng, type_.dtype, tuple(d.evaluate(binding) for d in type_.dims))
    return tuple(_random(rng, item, binding) for item in type_.items)


def _copy(value: Any) -> Any:
    return tuple(map(_copy, value)) if isinstance(value, tuple) else value.copy()


def _agree(got: Any, want: Any) -> None:
    if isinstance(want, tuple):
        assert isinstance(got, tuple)
        for g, w in zip(got, want, strict=True):
            _agree(g, w)
        return
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    rtol = TOLERANCE.get(want.dtype.name)
    if rtol is None:
        np.testing.assert_array_equal(got, want)
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.abs(want[np.isfinite(want)])
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * (finite.max() if finite.size else 0.0))
