"""Generated CUDA kernels compiled by g++ and run on numpy arrays."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pliant.compiler.codegen.cuda import CudaKernel, CudaLaunch, CudaModule

GUARD = 256
"""Bytes before and after every array that must stay as they are."""

ORDERS = (0, 1, 5)
"""Orders of a block's threads worth trying: first to last, last to first, mixed."""


def available() -> bool:
    """Whether there is a compiler for it."""
    return shutil.which("g++") is not None


class Fault(Exception):
    """A kernel did what it must not: a barrier that not all threads reach, a write out of range."""


class Emulator:
    """The kernels of a module; `folder` is for the files that it makes."""

    def __init__(self, module: CudaModule, folder: Path) -> None:
        self.module = module
        names = [launch.function for k in module.kernels for launch in k.launches]
        entries = [
            f'extern "C" void run_{n}(const unsigned long long* slots) {{ cuda_call({n}, slots); }}' for n in names
        ]
        source = folder / "kernels.cpp"
        source.write_text("\n".join(['#include "cuda_on_cpu.h"', module.source, *entries, ""]))
        library = folder / "kernels.so"
        command = ["g++", "-std=c++17", "-O1", "-w", "-ffp-contract=off", "-fwrapv", "-shared", "-fPIC"]
        command += ["-U_FORTIFY_SOURCE", "-I", str(Path(__file__).parent), str(source), "-o", str(library)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        self.error_value = 0
        self.library = ctypes.CDLL(str(library))
        self.library.cuda_launch.restype = ctypes.c_char_p

    def run(
        self, name: str, buffers: Mapping[str, np.ndarray], sizes: Mapping[str, int], order: int = 0, grid: int = 8
    ) -> int:
        """Runs a kernel on arrays that it may change, on at most `grid` blocks; gives the error slot.

        The value of the failed check is then in `error_value`.
        """
        kernel = self.module.kernel(name)
        known = {_memory(a): _Guarded(a) for a in buffers.values()}  # the same memory stays the same
        copies = {n: known[_memory(a)] for n, a in buffers.items()}
        scratch = _Guarded(np.full(_scratch(kernel, sizes), 0xFF, np.uint8))
        error = (ctypes.c_uint64 * 2)()
        for launch in kernel.launches:
            self._launch(launch, copies, sizes, scratch, error, order, grid)
        for n, copy in copies.items():
            copy.check(f"kernel {name}: array {n}")
            buffers[n][...] = copy.array.reshape(buffers[n].shape)
        scratch.check(f"kernel {name}: scratch")
        self.error_value = ctypes.c_int64(error[1]).value
        return int(error[0])

    def _launch(
        self,
        launch: CudaLaunch,
        buffers: Mapping[str, _Guarded],
        sizes: Mapping[str, int],
        scratch: _Guarded,
        error: ctypes.Array[ctypes.c_uint64],
        order: int,
        grid: int,
    ) -> None:
        config = launch.configure(sizes)
        slots = [buffers[n].address for n in launch.buffers] + [sizes[s] for s in launch.sizes]
        slots += [scratch.address] * launch.uses_scratch + [ctypes.addressof(error)] * launch.uses_error
        entry = getattr(self.library, f"run_{launch.function}")
        message = self.library.cuda_launch(
            entry,
            (ctypes.c_uint64 * max(1, len(slots)))(*slots),
            min(config.grid, grid),
            config.block,
            config.shared_bytes,
            order,
        )
        if message:
            raise Fault(f"{launch.function}: {message.decode()}")


def _scratch(kernel: CudaKernel, sizes: Mapping[str, int]) -> int:
    """Bytes that serve all launches; a kernel that has nothing to do has none."""
    return max((launch.configure(sizes).scratch_bytes for launch in kernel.launches), default=0)


def _memory(array: np.ndarray) -> tuple[int, int]:
    return (array.ctypes.data, array.nbytes) if array.nbytes else (id(array), 0)


class _Guarded:
    """A copy of an array, 64-aligned, between bytes that are checked."""

    def __init__(self, array: np.ndarray) -> None:
        self.memory = np.full(array.nbytes + 2 * GUARD + 64, 0xA5, np.uint8)
        self.start = GUARD + -(self.memory.ctypes.data + GUARD) % 64
        self.end = self.start + array.nbytes
        self.array = self.memory[self.start : self.end].view(array.dtype).reshape(array.shape)
        self.array[...] = array
        self.address = self.memory.ctypes.data + self.start

    def check(self, what: str) -> None:
        if not (self.memory[: self.start] == 0xA5).all() or not (self.memory[self.end :] == 0xA5).all():
            raise Fault(f"{what}: written out of range")
