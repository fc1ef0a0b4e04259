"""Hand-made kernels in the emulator, called as `kernel_harness.Loaded` calls compiled ones."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path

import numpy as np

from pliant.compiler.codegen.cuda import CudaModule, cuda_module
from pliant.compiler.target import Target
from pliant.ir.loops import Kernel, Program
from tests.cuda_emulator.emulator import ORDERS, Emulator

TARGET = Target.parse("cuda:sm_90")


def module_of(*kernels: Kernel) -> CudaModule:
    """The CUDA code of kernels that no function launches."""
    return cuda_module(Program((), (), kernels, None, ()), TARGET)


class Emulated:
    """Every call takes another order of threads, and another grid."""

    def __init__(self, *kernels: Kernel, first_index: int = 0, **_cpu_only: object) -> None:
        before = tuple(Kernel(f"before.{i}", (), (), ()) for i in range(first_index))
        self.text = (module := module_of(*before, *kernels)).source
        self._folder = tempfile.TemporaryDirectory()
        self.emulator = Emulator(module, Path(self._folder.name))
        self._ways = cycle([(order, grid) for grid in (8, 3, 1) for order in ORDERS])

    def __call__(self, name: str, buffers: Mapping[str, np.ndarray], sizes: Mapping[str, int] | None = None) -> int:
        order, grid = next(self._ways)
        return self.emulator.run(name, buffers, sizes or {}, order, grid)

    @property
    def error_value(self) -> int:
        """What the check that failed in the last call found."""
        return self.emulator.error_value
