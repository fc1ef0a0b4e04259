"""The host program of a function, interpreted: binds symbols, plans nothing anew, and launches emulated kernels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pliant.ir.dims import Dim
from pliant.ir.loops import BindSymbol, HostProgram, HostTensor, Launch, Program, Ref
from pliant.ir.types import DType
from tests.cuda_emulator.emulator import Emulator


class HostRun:
    """One call of a function of `program`; `globals_` are weights and constants by name."""

    def __init__(self, program: Program, emulator: Emulator, globals_: Mapping[str, np.ndarray] | None = None) -> None:
        self.program = program
        self.emulator = emulator
        self.globals = dict(globals_ or {})

    def __call__(self, name: str, *args: np.ndarray, order: int = 0, grid: int = 8) -> tuple[list[np.ndarray], int]:
        """The outputs, and the error slot of the first kernel that failed a check.  `inout` arguments are changed."""
        host = next(f for f in self.program.functions if f.name == name)
        params = dict(zip((p.name for p in host.params), args, strict=True))
        symbols = self._bind(host, params)
        outputs = {t.name: _poison(t, symbols) for t in host.outputs}
        arena = np.full(host.arena_bytes.evaluate(symbols) + 64, 0xFF, np.uint8)
        places = {"param": params, "output": outputs, "weight": self.globals, "const": self.globals}
        failed = 0

        def array(ref: Ref, dtype: np.dtype, size: int) -> np.ndarray:
            if ref.space != "arena":
                return places[ref.space][ref.name].reshape(-1)
            start = ref.offset.evaluate(symbols)
            return arena[start : start + size * dtype.itemsize].view(dtype)

        for step in host.launches:
            if isinstance(step, Launch):
                kernel = self.program.kernel(step.kernel)
                sizes = {s: d.evaluate(symbols) for s, d in zip(kernel.sizes, step.sizes, strict=True)}
                buffers = {
                    b.name: array(ref, b.dtype.numpy, b.size.evaluate(sizes))
                    for b, ref in zip(kernel.buffers, step.buffers, strict=True)
                }
                failed = failed or self.emulator.run(kernel.name, buffers, sizes, order, grid)
            else:
                count = step.bytes.evaluate(symbols)
                source, target = (
                    array(r, np.dtype(np.uint8), count).view(np.uint8)[:count] for r in (step.source, step.target)
                )
                target[...] = source
        return list(outputs.values()), failed

    def _bind(self, host: HostProgram, params: Mapping[str, np.ndarray]) -> dict[str, int]:
        known: dict[str, int] = {}
        for tensors, values in ((host.params, params), (self.program.weights, self.globals)):
            for t in tensors:
                known |= {f"{t.name}.{d}": size for d, size in enumerate(values[t.name].shape)}
                if not t.dims and t.dtype is DType.i64:
                    known[f"{t.name}.0"] = int(values[t.name])
        steps = (*(self.program.load.steps if self.program.load is not None else ()), *host.steps)
        for step in steps:
            if isinstance(step, BindSymbol):
                known[step.symbol] = step.numerator.evaluate(known) // step.divisor.evaluate(known)
        return known


def _poison(tensor: HostTensor, symbols: Mapping[str, int]) -> np.ndarray:
    shape = tuple(Dim.of(d).evaluate(symbols) for d in tensor.dims)
    out = np.empty(shape, tensor.dtype.numpy)
    out.reshape(-1).view(np.uint8)[...] = 0xFF
    return out
