"""Code generation: LLVM IR for the host program and for kernels on the CPU, CUDA C++ for kernels on the GPU."""
