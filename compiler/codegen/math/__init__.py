"""Scalar math of the CPU target as LLVM IR text, branch-free so that loops over it vectorise.

`math_library` gives the text of the functions a module wants, each `define internal alwaysinline` and named
`@pl.<name>.<f32|f64>`; `math_parts` gives the same in pieces for a caller that declares intrinsics itself. The caller
maps floor, ceil, trunc, roundeven, sqrt and fabs to LLVM's intrinsics; of these the four rounding ones become calls
into libm on x86-64 without SSE4.1, and `llvm.fma` without FMA, so a caller that compiles for such processors and
links no libm must avoid them. Nothing here calls libm on any processor when `fma` says whether the processor fuses.

Errors, measured by benchmarks/accuracy.py: at most 2 ulp in f32 and 2.5 in f64 over the whole range, subnormals and
huge arguments included, with fma and without; fmod and mod are exact. Only they have a loop, in f64.
"""

from .library import SUPPORTED, math_library, math_parts

__all__ = ["SUPPORTED", "math_library", "math_parts"]
