"""Whether this machine can run code made for another: architecture and processor features."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from pathlib import Path

from .contract import Machine
from .cpuid import has_feature
from .errors import LoadError

# LLVM's names of the features that code may use -> the kernel's names in /proc/cpuinfo. Features that only tune, or
# that no code of ours uses (AMX needs to be asked for), are left out and not asked for.
_X86_FLAGS = {
    "sse3": "pni",
    "ssse3": "ssse3",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "sse4a": "sse4a",
    "popcnt": "popcnt",
    "cx16": "cx16",
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "fma4": "fma4",
    "f16c": "f16c",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "lzcnt": "abm",
    "movbe": "movbe",
    "adx": "adx",
    "aes": "aes",
    "pclmul": "pclmulqdq",
    "sha": "sha_ni",
    "gfni": "gfni",
    "vaes": "vaes",
    "vpclmulqdq": "vpclmulqdq",
    "avxvnni": "avx_vnni",
    "avxifma": "avx_ifma",
    "avx512f": "avx512f",
    "avx512cd": "avx512cd",
    "avx512bw": "avx512bw",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
}
_ARM_FLAGS = {
    "neon": "asimd",
    "fp-armv8": "fp",
    "fullfp16": "asimdhp",
    "dotprod": "asimddp",
    "fp16fml": "asimdfhm",
    "lse": "atomics",
    "rdm": "asimdrdm",
    "bf16": "bf16",
    "i8mm": "i8mm",
    "sve": "sve",
    "sve2": "sve2",
}
_FLAGS = {"x86_64": _X86_FLAGS, "aarch64": _ARM_FLAGS}
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


def architecture() -> str:
    """This machine's, as in an LLVM triple."""
    machine = platform.machine().lower()
    return _ARCHITECTURES.get(machine, machine)


def processor_flags(cpuinfo: str | None = None) -> frozenset[str]:
    """The flags of the first processor, from the text of /proc/cpuinfo; none where there is no such file."""
    if cpuinfo is None:
        try:
            cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return frozenset()
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() in ("flags", "features"):
            return frozenset(value.split())
    return frozenset()


def missing_features(features: Iterable[str], arch: str, flags: frozenset[str]) -> list[str]:
    """The features that code uses and the processor lacks."""
    known = _FLAGS.get(arch, {})
    return [name for name in features if name in known and known[name] not in flags]


def require_machine(machine: Machine, what: str) -> None:
    """LoadError when code for `machine` cannot run here; it says what is missing."""
    here = architecture()
    if machine.arch != here:
        raise LoadError(f"{what} holds code for {machine.arch}, and this machine is {here}: compile it for this one")
    flags = processor_flags()
    missing = missing_features(machine.features, here, flags)
    if here == "x86_64":
        missing = [name for name in missing if not has_feature(name, flags)]
    if missing:
        raise LoadError(
            f"{what} was compiled for {machine.cpu} and uses {', '.join(missing)}, which this processor lacks: "
            "compile it for this machine, or for an older one (cpu:x86-64-v3)"
        )
