"""What a kernel's CUDA code is, as data: its functions, their parameters, and how each is launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....ir.dims import Dim

MAX_BLOCKS = 2**31 - 1
"""The largest grid in x."""

SCRATCH_BLOCKS = 1024
"""The largest grid of a function whose blocks have global scratch of their own: more would take memory for nothing."""


@dataclass(frozen=True)
class LaunchConfig:
    """The numbers of one launch; sizes in bytes.  A grid of 0 blocks is not to be launched."""

    grid: int
    block: int
    shared_bytes: int
    scratch_bytes: int


@dataclass(frozen=True)
class CudaLaunch:
    """One `__global__` function, and the rule of its launch.

    Its parameters are the kernel's `buffers` and `sizes` (i64) of these names, in this order; then, where it says so,
    `scratch` (a pointer, 64-aligned, to global memory) and `error` (a pointer to two u64: 0, or what the first failed
    check put there, `1 + (kernel << 16 | check)`; and then its value).

    Any grid gives right results, since blocks stride over the tasks; `blocks` is the number that has one task each,
    None where the count is known on the device only.  `block_scratch` is needed for every block of the grid, after
    `kernel_scratch` bytes that all launches of the kernel share.
    """

    function: str
    buffers: tuple[str, ...]
    sizes: tuple[str, ...]
    uses_scratch: bool
    uses_error: bool
    blocks: Dim | None
    block: int
    shared_bytes: Dim
    kernel_scratch: Dim
    block_scratch: Dim

    @property
    def max_blocks(self) -> int:
        """The largest grid to use."""
        return MAX_BLOCKS if self.block_scratch == 0 and self.blocks is not None else SCRATCH_BLOCKS

    def configure(self, sizes: Mapping[str, int]) -> LaunchConfig:
        """The launch at these values of the kernel's sizes."""
        wanted = self.max_blocks if self.blocks is None else self.blocks.evaluate(sizes)
        grid = max(0, min(wanted, self.max_blocks))
        scratch = self.kernel_scratch.evaluate(sizes) + grid * self.block_scratch.evaluate(sizes)
        return LaunchConfig(grid, self.block, self.shared_bytes.evaluate(sizes), scratch if self.uses_scratch else 0)


@dataclass(frozen=True)
class CudaKernel:
    """A kernel as functions that are launched one after the other, sharing their scratch; `source` defines them."""

    name: str
    launches: tuple[CudaLaunch, ...]
    source: str


@dataclass(frozen=True)
class CudaModule:
    """A program's kernels, in its order, and the text that NVRTC compiles."""

    kernels: tuple[CudaKernel, ...]
    source: str

    def kernel(self, name: str) -> CudaKernel:
        """The kernel of that name; KeyError when there is none."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(name)
