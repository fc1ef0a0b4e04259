"""Frames: the memory of calls in flight. A call takes one and puts it back, so that there are as many as callers."""

from __future__ import annotations

import ctypes
import struct
from collections import deque
from dataclasses import dataclass, field

from .errors import SizeError
from .layout import WORD, Slot
from .memory import Region, physical_memory, round_up

_CHUNK = 1 << 16


class Frame:
    """One frame: its slots, its address, and the memory that its calls work in."""

    __slots__ = ("_pin", "address", "at_bound", "buffer", "in_use", "region")

    def __init__(self, template: bytes, at_bound: bool = False, in_use: bool = False) -> None:
        self.at_bound = at_bound
        self.in_use = in_use
        self.buffer = bytearray(template)
        self._pin = (ctypes.c_char * len(template)).from_buffer(self.buffer)
        self.address = ctypes.addressof(self._pin)
        self.region: Region | None = None
        self.set(Slot.POOL, self.address + Slot.HANDLE * WORD)

    def get(self, slot: int) -> int:
        value: int = struct.unpack_from("@q", self.buffer, slot * WORD)[0]
        return value

    def set(self, slot: int, value: int) -> None:
        struct.pack_into("@q", self.buffer, slot * WORD, value)

    def grow(self, needed: int) -> None:
        """Replaces the memory by at least `needed` bytes; SizeError when the system has not as many.

        What is planned at the bound is address space, of which a call touches what its sizes need.  What is computed
        from the sizes of a call is needed whole, and the system would end the process that uses what there is not.
        Where there is no such address space, and the function can do without, `prepare` is to be asked again.
        """
        if not self.at_bound and needed > physical_memory():
            raise SizeError(
                f"this call needs {needed} bytes of memory for intermediate results, and the machine has "
                f"{physical_memory()}"
            )
        if self.region is not None:
            # Sizes that go up little by little do not ask the system each time.
            needed = max(needed, self.region.size + self.region.size // 4)
        self.region = None
        self.set(Slot.CAPACITY, 0)
        try:
            self.region = Region.allocate(round_up(needed, _CHUNK))
        except MemoryError as error:
            if self.in_use and self.at_bound:
                self.at_bound = False
                self.set(Slot.IN_USE, 1)
                return
            raise SizeError(f"this call needs {needed} bytes of memory for intermediate results: {error}") from error
        self.set(Slot.REGION, self.region.address)
        self.set(Slot.CAPACITY, self.region.size)


@dataclass(frozen=True, eq=False)
class FramePool:
    """Frames of one function that are not in use. `template` holds what does not change between calls."""

    template: bytes
    at_bound: bool = False
    in_use: bool = False
    free: deque[Frame] = field(default_factory=deque)

    def make(self) -> Frame:
        return Frame(self.template, self.at_bound, self.in_use)
