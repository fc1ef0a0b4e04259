"""Targets: what code is generated for, as plain data.

The text is `cpu` (the machine that compiles), `cpu:<name>` (an x86-64 level or a processor as LLVM names it) or
`cuda:sm_<n>`.  Which features the compiling machine has is found in `codegen.llvm.resolve`, so that this needs no LLVM.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from ..ir.diagnostics import CompileError, error

X86 = "x86_64-unknown-linux-gnu"
ARM = "aarch64-unknown-linux-gnu"
_V2 = ("sse4.2", "popcnt", "cx16")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_NEON = ("neon", "fp-armv8")

# name -> (triple, features that code relies on, bytes of a vector register).  x86-64 without SSE4.1 is left out:
# rounding would need calls into libm there, and no such processor was made after 2008.
_CPUS: dict[str, tuple[str, tuple[str, ...], int]] = {
    "x86-64-v2": (X86, _V2, 16),
    "x86-64-v3": (X86, _V3, 32),
    "x86-64-v4": (X86, _V4, 64),
    "nehalem": (X86, _V2, 16),
    "haswell": (X86, _V3, 32),
    "broadwell": (X86, _V3, 32),
    "skylake": (X86, _V3, 32),
    "alderlake": (X86, _V3, 32),
    "skylake-avx512": (X86, _V4, 64),
    "cascadelake": (X86, _V4, 64),
    "icelake-server": (X86, _V4, 64),
    "rocketlake": (X86, _V4, 64),
    "sapphirerapids": (X86, _V4, 64),
    "emeraldrapids": (X86, _V4, 64),
    "graniterapids": (X86, _V4, 64),
    "znver1": (X86, _V3, 32),
    "znver2": (X86, _V3, 32),
    "znver3": (X86, _V3, 32),
    "znver4": (X86, _V4, 64),
    "znver5": (X86, _V4, 64),
    "cortex-a76": (ARM, _NEON, 16),
    "neoverse-n1": (ARM, _NEON, 16),
    "neoverse-n2": (ARM, _NEON, 16),
    "neoverse-v1": (ARM, _NEON, 16),
    "neoverse-v2": (ARM, _NEON, 16),
    "apple-m1": (ARM, _NEON, 16),
}
NATIVE = "native"


@dataclass(frozen=True)
class Target:
    """A machine: `kind` is cpu | cuda; `features` are LLVM's names without sign; `arch` is `sm_90` for cuda.

    A `cpu` whose name is `native` is to be given to `codegen.llvm.resolve` first, which fills in the rest.
    """

    kind: str
    triple: str = ""
    cpu: str = ""
    features: tuple[str, ...] = ()
    vector_bytes: int = 16
    arch: str = ""

    @property
    def fma(self) -> bool:
        """Whether fused multiply-add is one instruction."""
        return "fma" in self.features or self.is_arm

    @property
    def half(self) -> bool:
        """Whether conversion between f16 and f32 is an instruction."""
        return "f16c" in self.features or self.is_arm

    @property
    def is_arm(self) -> bool:
        return self.triple.startswith(("aarch64", "arm64"))

    def __str__(self) -> str:
        return f"cuda:{self.arch}" if self.kind == "cuda" else "cpu" if self.cpu == NATIVE else f"cpu:{self.cpu}"

    @staticmethod
    def parse(text: str) -> Target:
        """The target a text names; CompileError, with the nearest name, when it names none."""
        if not isinstance(text, str):
            raise error(f"a target is text, not of the type {type(text).__name__}", helps=('write `target="cpu"`',))
        kind, colon, name = text.strip().partition(":")
        if colon and not name:
            raise _unknown(text)
        if kind == "cpu":
            if not name or name == NATIVE:
                return Target("cpu", cpu=NATIVE)
            if name in _CPUS:
                triple, features, vector_bytes = _CPUS[name]
                return Target("cpu", triple, name, features, vector_bytes)
        if kind == "cuda" and re.fullmatch(r"sm_[1-9]\d+[af]?", name or "sm_90"):
            return Target("cuda", arch=name or "sm_90")
        raise _unknown(text)


_MEANT = (
    (r"^(arm|aarch64|neoverse|graviton)", "cpu:neoverse-n1"),
    (r"^(m1|m2|m3|m4|apple|macos|osx|darwin)", "cpu:apple-m1"),
    (r"avx.?512", "cpu:x86-64-v4"),
    (r"^(x86|x64|amd64|intel|avx)", "cpu:x86-64-v3"),
    (r"cuda|gpu|nvidia|nvptx|sm_|hopper|h100|h200", "cuda:sm_90"),
    (r"^(llvm|native|host|c)$", "cpu"),
)
"""What a text that names no target probably means, by its look; no architecture is taken for another."""


def known_targets() -> tuple[str, ...]:
    """What can be written, for help texts."""
    return ("cpu", *(f"cpu:{name}" for name in _CPUS), "cuda:sm_80", "cuda:sm_90", "cuda:sm_100")


def _unknown(text: str) -> CompileError:
    known = known_targets()
    word = text.strip().lower()
    meant = [target for pattern, target in _MEANT if re.search(pattern, word)]
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.8) or meant
    near = near or difflib.get_close_matches(word, known, n=1)
    return error(
        f"there is no target `{text}`",
        notes=(f"targets are {', '.join(known)}",),
        helps=(f"did you mean `{near[0]}`?",) if near else (),
    )
