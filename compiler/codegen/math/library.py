"""The functions by name, and their text as LLVM IR definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from . import (
    error_function,
    exponential,
    hyperbolic,
    inverse_trigonometric,
    logarithm,
    power,
    remainder,
    trigonometric,
)
from .emitter import FLOAT_TYPES, Builder, Value

Emit = Callable[..., Value]

FUNCTIONS: Mapping[str, tuple[int, Emit]] = MappingProxyType(
    {
        "exp": (1, exponential.exp),
        "exp2": (1, exponential.exp2),
        "expm1": (1, exponential.expm1),
        "sigmoid": (1, exponential.sigmoid),
        "tanh": (1, exponential.tanh),
        "softplus": (1, exponential.softplus),
        "log": (1, logarithm.log),
        "log2": (1, logarithm.log2),
        "log10": (1, logarithm.log10),
        "log1p": (1, logarithm.log1p),
        "sin": (1, trigonometric.sin),
        "cos": (1, trigonometric.cos),
        "tan": (1, trigonometric.tan),
        "asin": (1, inverse_trigonometric.asin),
        "acos": (1, inverse_trigonometric.acos),
        "atan": (1, inverse_trigonometric.atan),
        "atan2": (2, inverse_trigonometric.atan2),
        "sinh": (1, hyperbolic.sinh),
        "cosh": (1, hyperbolic.cosh),
        "asinh": (1, hyperbolic.asinh),
        "acosh": (1, hyperbolic.acosh),
        "atanh": (1, hyperbolic.atanh),
        "erf": (1, error_function.erf),
        "gelu": (1, error_function.gelu),
        "gelu_tanh": (1, error_function.gelu_tanh),
        "pow": (2, power.power),
        "fmod": (2, remainder.fmod),
        "mod": (2, remainder.mod),
    }
)

SUPPORTED: frozenset[tuple[str, str]] = frozenset((name, dtype) for name in FUNCTIONS for dtype in FLOAT_TYPES)


def symbol(name: str, dtype: str) -> str:
    """The name of a function in the text, without the @."""
    return f"pl.{name}.{dtype}"


def _definition(name: str, dtype: str, fma: bool) -> tuple[str, set[str]]:
    arity, emit = FUNCTIONS[name]
    type_ = FLOAT_TYPES[dtype]
    builder = Builder(fma)
    parameters = [Value(builder, f"%{letter}", type_) for letter in "xy"[:arity]]
    result = emit(builder, *parameters)
    head = f"define internal {type_} @{symbol(name, dtype)}({', '.join(f'{type_} {p.text}' for p in parameters)})"
    body = "\n".join([*builder.lines, f"  ret {type_} {result.text}"])
    return f"{head} alwaysinline nounwind willreturn memory(none) {{\nentry:\n{body}\n}}\n", builder.declarations


def math_parts(wanted: Iterable[tuple[str, str]], *, fma: bool = True) -> tuple[dict[str, str], frozenset[str]]:
    """The definitions of the wanted (name, dtype) by symbol, and the `declare` lines that they need.

    fma: whether the processor has fused multiply-add. Raises KeyError for a pair that is not in `SUPPORTED`.
    """
    definitions: dict[str, str] = {}
    declarations: set[str] = set()
    for name, dtype in sorted(set(wanted)):
        if (name, dtype) not in SUPPORTED:
            raise KeyError(f"no vector math for {name} of {dtype}")
        definitions[symbol(name, dtype)], needed = _definition(name, dtype, fma)
        declarations |= needed
    return definitions, frozenset(declarations)


def math_library(wanted: Iterable[tuple[str, str]], *, fma: bool = True) -> str:
    """LLVM IR text of the wanted (name, dtype): declarations, then definitions."""
    definitions, declarations = math_parts(wanted, fma=fma)
    return "\n".join([*sorted(declarations), "", *definitions.values()])
