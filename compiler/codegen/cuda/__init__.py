"""CUDA C++ from the loops of the lowering, and its compilation by NVRTC.

`emit_cuda` gives the source, `cuda_module` that and how each kernel is launched, `compile_cuda` a cubin.
"""

from .launch import CudaKernel, CudaLaunch, CudaModule, LaunchConfig
from .module import cuda_module, emit_cuda
from .nvrtc import compile_cuda

__all__ = ["CudaKernel", "CudaLaunch", "CudaModule", "LaunchConfig", "compile_cuda", "cuda_module", "emit_cuda"]
