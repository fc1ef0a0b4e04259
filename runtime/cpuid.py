"""Asks an x86 processor itself, for features that are newer than the system's list of them.

Linux shows in /proc/cpuinfo what it has heard of: an old one says nothing of a new processor's instructions, which
LLVM finds and uses. Whether the system saves the registers is shown by `avx2` and `avx512f` there, which every feature
here builds upon. Leaves and bits: Intel's *Software Developer's Manual*, volume 2A, CPUID.
"""

from __future__ import annotations

import ctypes

import numpy as np

from .memory import Region

# push rbx; mov eax, edi; mov ecx, esi; mov r8, rdx; cpuid; the four registers to [r8]; pop rbx; ret
_CODE = bytes.fromhex("53 89f8 89f1 4989d0 0fa2 418900 41895804 41894808 4189500c 5b c3")
_EAX, _ECX, _EDX = 0, 2, 3

# feature -> (subleaf of leaf 7, register, bit, flag of what it builds upon)
_FEATURES = {
    "gfni": (0, _ECX, 8, "avx2"),
    "vaes": (0, _ECX, 9, "avx2"),
    "vpclmulqdq": (0, _ECX, 10, "avx2"),
    "avxvnni": (1, _EAX, 4, "avx2"),
    "avxifma": (1, _EAX, 23, "avx2"),
    "avx512vbmi": (0, _ECX, 1, "avx512f"),
    "avx512vbmi2": (0, _ECX, 6, "avx512f"),
    "avx512vnni": (0, _ECX, 11, "avx512f"),
    "avx512bitalg": (0, _ECX, 12, "avx512f"),
    "avx512vpopcntdq": (0, _ECX, 14, "avx512f"),
    "avx512bf16": (1, _EAX, 5, "avx512f"),
    "avx512fp16": (0, _EDX, 23, "avx512f"),
}


def cpuid(leaf: int, subleaf: int = 0) -> tuple[int, int, int, int]:
    """The registers eax, ebx, ecx, edx after the instruction. Only on x86-64; OSError if memory cannot be run."""
    region = Region.allocate(len(_CODE))
    region.bytes()[: len(_CODE)] = np.frombuffer(_CODE, np.uint8)
    region.protect(0, region.size, execute=True)
    registers = (ctypes.c_uint32 * 4)()
    function = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(region.address)
    function(leaf, subleaf, ctypes.addressof(registers))
    eax, ebx, ecx, edx = registers
    return eax, ebx, ecx, edx


def has_feature(name: str, flags: frozenset[str]) -> bool:
    """Whether the processor has one of the newer features; `flags` are those of /proc/cpuinfo."""
    if name not in _FEATURES or _FEATURES[name][3] not in flags:
        return False
    subleaf, register, bit, _ = _FEATURES[name]
    if cpuid(0)[0] < 7 or cpuid(7)[0] < subleaf:
        return False
    return bool(cpuid(7, subleaf)[register] >> bit & 1)
