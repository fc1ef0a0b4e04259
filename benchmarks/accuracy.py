"""Accuracy and speed of the vector math: for each function the largest error in ulps over its whole range, and
nanoseconds an element in a vectorised loop.

    python benchmarks/accuracy.py [NAME ...] [--cpu x86-64-v3] [--no-fma] [--samples 200000]

The reference is numpy in x87 long double, or mpmath. Samples: random bit
patterns (every exponent, subnormals, both signs) and uniform draws over several intervals.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import mpmath  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pliant.compiler.codegen.math import SUPPORTED, math_library

Array = npt.NDArray[Any]
DTYPES: dict[str, np.dtype[Any]] = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
BINARY = frozenset({"pow", "atan2", "fmod", "mod"})


def loop_text(name: str, dtype: str) -> str:
    """`void loop(x, [y,] out, n)`: the function over an array, as the code generator would write it."""
    type_ = {"f32": "float", "f64": "double"}[dtype]
    inputs = ["x", "y"] if name in BINARY else ["x"]
    loads = "".join(
        f"  %p{i} = getelementptr inbounds {type_}, ptr %{i}, i64 %k\n  %e{i} = load {type_}, ptr %p{i}\n"
        for i in inputs
    )
    call = f"call {type_} @pl.{name}.{dtype}({', '.join(f'{type_} %e{i}' for i in inputs)})"
    pointers = ", ".join(f"ptr noalias %{i}" for i in [*inputs, "out"])
    return f"""define void @loop({pointers}, i64 %n) nounwind {{
entry:
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %body, label %exit
body:
  %k = phi i64 [0, %entry], [%next, %body]
{loads}  %r = {call}
  %po = getelementptr inbounds {type_}, ptr %out, i64 %k
  store {type_} %r, ptr %po
  %next = add nuw nsw i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %body, label %exit
exit:
  ret void
}}
"""


@dataclass(frozen=True)
class Loop:
    """A compiled loop. `ir` is its optimised text; the engine owns the code."""

    ir: str
    engine: llvm.ExecutionEngine

    def __call__(self, *arrays: Array) -> Array:
        inputs = [np.ascontiguousarray(a) for a in arrays]
        out = np.empty_like(inputs[0])
        self.function(len(inputs))(*(a.ctypes.data for a in inputs), out.ctypes.data, out.size)
        return out

    def function(self, inputs: int) -> Callable[..., Any]:
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_size_t] * (inputs + 2))
        return prototype(self.engine.get_function_address("loop"))


def _optimised(name: str, dtype: str, cpu: str, features: str, fma: bool) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    """The loop's module at O2 with loop vectorisation, and the machine it is for."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(cpu=cpu, features=features, opt=2, jit=True, codemodel="jitdefault")
    module = llvm.parse_assembly(math_library([(name, dtype)], fma=fma) + loop_text(name, dtype))
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = True
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    return module, machine


def assembly(name: str, dtype: str, *, cpu: str = "x86-64-v3", features: str = "", fma: bool = True) -> str:
    """The loop as assembly text."""
    module, machine = _optimised(name, dtype, cpu, features, fma)
    return str(machine.emit_assembly(module))


def compile_loop(name: str, dtype: str, *, cpu: str = "x86-64-v3", features: str = "", fma: bool = True) -> Loop:
    """The loop as code in memory."""
    module, machine = _optimised(name, dtype, cpu, features, fma)
    text = str(module)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return Loop(text, engine)


def _with_mpmath(function: Callable[..., Any]) -> Callable[..., Array]:
    """An elementwise function of mpmath on f64 arrays, its result as long double (its two leading f64 parts)."""

    def apply(*arrays: Array) -> Array:
        out = np.empty(arrays[0].shape, np.longdouble)
        with mpmath.workprec(160):
            for index, values in enumerate(zip(*(a.astype(np.float64).tolist() for a in arrays), strict=True)):
                exact = function(*map(mpmath.mpf, values))
                high = float(exact)
                rest = float(exact - high) if np.isfinite(high) else 0.0
                out[index] = np.longdouble(high) + np.longdouble(rest)
        return out

    return apply


def _gelu(x: Any) -> Any:
    return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2 if abs(x) < 40 else _relu(x)


def _gelu_tanh(x: Any) -> Any:
    cubic = x + mpmath.mpf("0.044715") * x**3
    return x / (1 + mpmath.exp(-2 * mpmath.sqrt(2 / mpmath.pi) * cubic)) if abs(x) < 40 else _relu(x)


def _relu(x: Any) -> Any:
    """Where the GELUs are beyond doubt."""
    return mpmath.mpf(0) if x < 0 else x


def _sigmoid(x: Array) -> Array:
    z = np.exp(-np.abs(x))
    return np.where(x < 0, z, 1) / (1 + z)


def _exp2(x: Array) -> Array:
    """numpy's own of long double loses ten bits at large arguments."""
    n = np.rint(x)
    return np.where(
        np.isfinite(x),
        np.ldexp(np.exp((x - n) * np.log(np.longdouble(2))), n.clip(-20000, 20000).astype(np.int32)),
        np.exp(x),
    )


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


SLOW_REFERENCES: dict[str, Callable[..., Array]] = {
    "erf": _with_mpmath(mpmath.erf),
    "gelu": _with_mpmath(_gelu),
    "gelu_tanh": _with_mpmath(_gelu_tanh),
}
TRIGONOMETRIC = {"sin": _with_mpmath(mpmath.sin), "cos": _with_mpmath(mpmath.cos), "tan": _with_mpmath(mpmath.tan)}
NUMPY_NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
NUMPY_NAMES |= {"atan2": "arctan2", "pow": "power"}
COMPOSED: dict[str, Callable[..., Array]] = {"exp2": _exp2, "sigmoid": _sigmoid, "softplus": _softplus}


def reference(name: str, arrays: Sequence[Array], exact_trigonometry: bool = False) -> Array:
    """The values to at least 10 bits beyond the arrays' dtype, as long double.

    exact_trigonometry: use mpmath also where the x87's own sine might lose bits near multiples of pi/2.
    """
    with np.errstate(all="ignore"):
        wide = [a.astype(np.longdouble) for a in arrays]
        if name in SLOW_REFERENCES:
            return SLOW_REFERENCES[name](*arrays)
        if name in TRIGONOMETRIC:
            result: Array = getattr(np, name)(*wide)
            doubtful = np.isfinite(arrays[0]) & ((np.abs(arrays[0]) > 2.0**60) | exact_trigonometry)
            result[doubtful] = TRIGONOMETRIC[name](arrays[0][doubtful])
            return result
        if name in ("fmod", "mod"):
            exact: Array = getattr(np, name)(*arrays).astype(np.longdouble)
            return exact
        function = COMPOSED.get(name) or getattr(np, NUMPY_NAMES.get(name, name))
        return np.asarray(function(*wide), np.longdouble)


def errors_in_ulps(got: Array, exact: Array) -> Array:
    """|got - exact| over the spacing of got's dtype at `exact`; 0 where both are NaN or got is the rounded infinity,
    inf where they cannot be compared.
    """
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        _, exponent = np.frexp(np.where(np.isfinite(exact), exact, 1))
        ulp = np.ldexp(np.longdouble(1), np.maximum(exponent - 1, info.minexp) - info.nmant)
        error = np.abs(got.astype(np.longdouble) - exact) / ulp
    same = (np.isnan(got) & np.isnan(rounded)) | (got == rounded)
    error = np.where(same & ~np.isfinite(rounded), 0, error)
    # A finite value one step short of a result that rounds to infinity counts by its distance, like any other.
    return np.where(np.isnan(error), np.inf, error).astype(np.float64)


def samples(dtype: str, count: int, rng: np.random.Generator) -> Array:
    """Random bit patterns and uniform draws, half and half."""
    kind = DTYPES[dtype]
    bits = np.frombuffer(rng.bytes(count // 2 * kind.itemsize), kind)
    scales = [0.01, 0.5, 1.0, 2.0, 5.0, 20.0, 110.0, 1e5] + ([800.0] if dtype == "f64" else [])
    uniform = [rng.uniform(-s, s, count // (2 * len(scales))) for s in scales]
    near_one = 1 + rng.uniform(-1, 1, count // 20) * 2.0 ** rng.uniform(-30, 0, count // 20)
    return np.concatenate([bits, *(u.astype(kind) for u in uniform), near_one.astype(kind)])


def measure_error(
    name: str, dtype: str, loop: Loop, count: int, seed: int = 0, slow_count: int = 20_000
) -> tuple[float, tuple[float, ...]]:
    """The largest error in ulps of `count` samples and the arguments where it is; `slow_count` where mpmath is
    needed.
    """
    rng = np.random.default_rng(seed)
    if name in SLOW_REFERENCES:
        count = min(count, slow_count)
    arrays = [samples(dtype, count, rng)]
    if name in BINARY:
        second = samples(dtype, count, rng)
        arrays = [arrays[0], rng.permutation(second)]
        if name == "pow":
            arrays[0][::2] = np.abs(arrays[0][::2])
    error = errors_in_ulps(loop(*arrays), reference(name, arrays))
    worst = int(np.argmax(error))
    return float(error[worst]), tuple(float(a[worst]) for a in arrays)


def measure_time(name: str, dtype: str, loop: Loop, count: int = 4096, rounds: int = 15) -> float:
    """Nanoseconds an element, the median of several rounds over an array in cache."""
    rng = np.random.default_rng(1)
    low = 0.01 if name in ("log", "log2", "log10", "pow") else -0.99
    high = 0.99 if name in ("asin", "acos", "atanh") else 4.0
    low, high = (1.0, 9.0) if name == "acosh" else (low, high)
    inputs = [rng.uniform(low, high, count).astype(DTYPES[dtype]) for _ in range(2 if name in BINARY else 1)]
    out = np.empty_like(inputs[0])
    addresses = [*(a.ctypes.data for a in inputs), out.ctypes.data]
    function = loop.function(len(inputs))
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(10):
            function(*addresses, count)
        seconds.append((time.perf_counter() - start) / 10)
    return float(np.median(seconds)) / count * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="functions; all when none is named")
    parser.add_argument("--cpu", default="x86-64-v3")
    parser.add_argument("--no-fma", action="store_true")
    parser.add_argument("--samples", type=int, default=200_000)
    options = parser.parse_args()
    cpu = "x86-64" if options.no_fma else options.cpu
    print(f"{'function':<10} {'dtype':<5} {'max ulp':>8} {'ns/elem':>8}  at")
    for name, dtype in sorted(SUPPORTED):
        if options.names and name not in options.names:
            continue
        loop = compile_loop(name, dtype, cpu=cpu, fma=not options.no_fma)
        error, where = measure_error(name, dtype, loop, options.samples)
        print(
            f"{name:<10} {dtype:<5} {error:8.2f} {measure_time(name, dtype, loop):8.2f}  {', '.join(map(repr, where))}",
            flush=True,
        )


if __name__ == "__main__":
    main()
