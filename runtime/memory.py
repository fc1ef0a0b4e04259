"""Anonymous memory straight from the system.

Python's own `mmap` objects are unmapped when the interpreter goes down, at which time pool threads and other callers
may still be running in them; these are given back only while the process goes on.
"""

from __future__ import annotations

import ctypes
import enum
import mmap
import os
import weakref
from dataclasses import dataclass

import numpy as np

_LIBC = ctypes.CDLL(None, use_errno=True)
_MMAP = ctypes.CFUNCTYPE(
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
    use_errno=True,
)(("mmap", _LIBC))
_MPROTECT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, use_errno=True)(
    ("mprotect", _LIBC)
)
_MUNMAP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, use_errno=True)(("munmap", _LIBC))
_MADVISE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, use_errno=True)(
    ("madvise", _LIBC)
)
_MAP_NORESERVE = 0x4000  # Linux; Python's mmap module does not name it before 3.13
_FAILED = ctypes.c_void_p(-1).value
PAGE = mmap.PAGESIZE


class Advice(enum.IntEnum):
    """Linux's numbers for `madvise`."""

    WIPE_ON_FORK = 18


def physical_memory() -> int:
    """Bytes of memory that the machine has."""
    return os.sysconf("SC_PHYS_PAGES") * PAGE


def round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


@dataclass(frozen=True, eq=False)
class Region:
    """Zeroed, readable and writable memory of `size` bytes at `address`; pages are used when they are touched."""

    address: int
    size: int

    @staticmethod
    def allocate(size: int, *, forever: bool = False) -> Region:
        """At least `size` bytes; unmapped with the object, or never if `forever`. MemoryError when there are none."""
        size = max(round_up(size, PAGE), PAGE)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        address = _MMAP(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if address is None or address == _FAILED:
            raise MemoryError(f"the system has no {size} bytes: {os.strerror(ctypes.get_errno())}")
        region = Region(address, size)
        if not forever:
            weakref.finalize(region, _MUNMAP, address, size).atexit = False
        return region

    def bytes(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The memory as an array, which must not outlive the region."""
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(self.address))

    def protect(self, start: int, size: int, *, write: bool = False, execute: bool = False) -> None:
        """Sets what may be done with whole pages; OSError when the system forbids it."""
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if write else 0) | (mmap.PROT_EXEC if execute else 0)
        if size and _MPROTECT(self.address + start, size, protection):
            number = ctypes.get_errno()
            raise OSError(number, f"memory cannot be protected: {os.strerror(number)}")

    def advise(self, advice: Advice) -> bool:
        """Whether the system took the advice."""
        return not _MADVISE(self.address, self.size, int(advice))
