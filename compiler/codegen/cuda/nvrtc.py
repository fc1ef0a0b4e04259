"""Compiling CUDA C++ to machine code (cubin) by NVRTC.  It needs no GPU and no driver, and never touches one."""

from __future__ import annotations

import re
from typing import Any

from ....ir.diagnostics import CompileError, error
from .module import MARK

FILE = "pliant.cu"
_PLACE = re.compile(re.escape(FILE) + r"\((\d+)\)")


def compile_cuda(source: str, arch: str) -> bytes:
    """The cubin of `source` (from `emit_cuda`) for an architecture such as `sm_90`.

    Raises CompileError when NVRTC is not installed, does not know the architecture, or refuses the code; the message
    says in which of our kernels.
    """
    nvrtc = _nvrtc()
    fault, program = nvrtc.nvrtcCreateProgram(source.encode(), FILE.encode(), 0, [], [])
    _check(nvrtc, fault, "start a program")
    try:
        options = [b"--gpu-architecture=" + arch.encode(), b"--std=c++17"]
        (fault,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if fault == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
            known = ", ".join(_archs(nvrtc))
            raise error(f"NVRTC {version()} has no architecture `{arch}`", helps=(f"it knows {known}",))
        if fault != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise _refused(source, _log(nvrtc, program), arch)
        fault, size = nvrtc.nvrtcGetCUBINSize(program)
        _check(nvrtc, fault, "give machine code")
        cubin = bytearray(size)
        (fault,) = nvrtc.nvrtcGetCUBIN(program, cubin)
        _check(nvrtc, fault, "give machine code")
        return bytes(cubin)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def version() -> str:
    """NVRTC's version; CompileError when it is not installed."""
    _, major, minor = _nvrtc().nvrtcVersion()
    return f"{major}.{minor}"


def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # loads the library
    except (ImportError, OSError, RuntimeError) as fault:
        raise error(
            "compiling for CUDA needs NVRTC, which is not installed",
            notes=(f"{type(fault).__name__}: {fault}".splitlines()[0],),
            helps=("pip install 'cuda-python<14' 'cuda-toolkit[nvrtc]==13.*' (no GPU or driver is needed)",),
        ) from fault
    return nvrtc


def _check(nvrtc: Any, fault: Any, what: str) -> None:
    if fault != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise error(f"NVRTC could not {what}: {nvrtc.nvrtcGetErrorString(fault)[1].decode()}")


def _log(nvrtc: Any, program: Any) -> str:
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    return bytes(log).rstrip(b"\0").decode(errors="replace")


def _archs(nvrtc: Any) -> list[str]:
    return [f"sm_{number}" for number in nvrtc.nvrtcGetSupportedArchs()[1]]


def _refused(source: str, log: str, arch: str) -> CompileError:
    """NVRTC's messages under the names of the kernels they are about."""
    lines = source.splitlines()
    notes = [_located(message, lines) for message in log.splitlines() if message.strip()]
    return error(f"NVRTC refused the code for {arch}", notes=tuple(notes))


def _located(message: str, lines: list[str]) -> str:
    place = _PLACE.search(message)
    if place is None:
        return message
    for line in reversed(lines[: int(place.group(1))]):
        if line.startswith(MARK):
            return f"kernel {line.removeprefix(MARK).partition(':')[0]}: {message}"
    return message
