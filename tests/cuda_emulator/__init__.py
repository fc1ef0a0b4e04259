"""Running CUDA kernels without a GPU: the same source, compiled for the CPU."""
