"""Applies relocations to an image in memory, all of one kind at a time.

The numbers and formulas are those of the processor supplements to the System V ABI: S is the symbol's address, A the
addend, P the place that is patched, G the address of the symbol's slot in the table of addresses (GOT).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .elf import AARCH64, X86_64
from .errors import LoadError

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]

STUB_BYTES = 16
_X86_STUB = bytes.fromhex("ff2500000000") + bytes(2)  # jmp *[rip + 0]; the address follows it at once
_ARM_STUB = bytes.fromhex("50000058 00021fd6")  # ldr x16, 8; br x16; the address follows


def stub(machine: int, address: int) -> bytes:
    """Code that jumps to an address anywhere in memory."""
    target = address.to_bytes(8, "little")
    if machine == X86_64:
        return (_X86_STUB[:6] + target).ljust(STUB_BYTES, b"\xcc")
    return _ARM_STUB + target


@dataclass(frozen=True)
class Patch:
    """Places of one kind: positions in the image, and for each the addresses of the formula."""

    image: Bytes
    at: Ints  # offset in the image
    place: Ints  # P
    value: Ints  # S + A: the true address for data, or that of a stub for calls out of the image
    got: Ints  # G + A, 0 where there is no slot

    def write(self, values: Ints, width: int) -> None:
        columns = np.arange(width, dtype=np.int64)
        raw = np.ascontiguousarray(values.astype("<i8")).view(np.uint8).reshape(-1, 8)[:, :width]
        self.image[self.at[:, None] + columns] = raw

    def words(self) -> Ints:
        """The 32-bit instructions at the places."""
        raw = np.ascontiguousarray(self.image[self.at[:, None] + np.arange(4, dtype=np.int64)])
        return raw.view("<u4").reshape(-1).astype(np.int64)


def _signed(patch: Patch, values: Ints, bits: int, width: int) -> None:
    if ((values < -(1 << (bits - 1))) | (values >= 1 << (bits - 1))).any():
        raise LoadError("a relocation does not reach its target")
    patch.write(values, width)


def _unsigned32(patch: Patch) -> None:
    if ((patch.value < 0) | (patch.value >= 1 << 32)).any():
        raise LoadError("a relocation does not reach its target: the code is not position-independent")
    patch.write(patch.value, 4)


def _page_distance(patch: Patch, target: Ints) -> None:
    """ADRP: the distance in pages of 4 KiB, its low two bits and its high nineteen apart."""
    pages = (target >> 12) - (patch.place >> 12)
    if ((pages < -(1 << 20)) | (pages >= 1 << 20)).any():
        raise LoadError("a relocation does not reach its target")
    cleared = patch.words() & ~((3 << 29) | (0x7FFFF << 5))
    patch.write(cleared | ((pages & 3) << 29) | (((pages >> 2) & 0x7FFFF) << 5), 4)


def _low_bits(patch: Patch, target: Ints, shift: int) -> None:
    """The low 12 bits of an address in the immediate of an ADD, or scaled in that of a load or store."""
    low = target & 0xFFF
    if (low & ((1 << shift) - 1)).any():
        raise LoadError("a relocation's target is not aligned")
    patch.write((patch.words() & ~(0xFFF << 10)) | ((low >> shift) << 10), 4)


def _branch(patch: Patch, bits: int, position: int) -> None:
    distance = patch.value - patch.place
    reach = 1 << (bits + 1)
    if ((distance & 3) != 0).any() or ((distance < -reach) | (distance >= reach)).any():
        raise LoadError("a branch does not reach its target")
    mask = ((1 << bits) - 1) << position
    patch.write((patch.words() & ~mask) | (((distance >> 2) << position) & mask), 4)


@dataclass(frozen=True)
class Kind:
    """A relocation type: bytes it patches, how, and whether it wants a table slot or may go through a stub."""

    width: int
    apply: Callable[[Patch], None]
    got: bool = False
    call: bool = False


_X86: dict[int, Kind] = {
    1: Kind(8, lambda p: p.write(p.value, 8)),  # 64
    2: Kind(4, lambda p: _signed(p, p.value - p.place, 32, 4), call=True),  # PC32
    4: Kind(4, lambda p: _signed(p, p.value - p.place, 32, 4), call=True),  # PLT32
    9: Kind(4, lambda p: _signed(p, p.got - p.place, 32, 4), got=True),  # GOTPCREL
    10: Kind(4, _unsigned32),  # 32
    11: Kind(4, lambda p: _signed(p, p.value, 32, 4)),  # 32S
    24: Kind(8, lambda p: p.write(p.value - p.place, 8)),  # PC64
    41: Kind(4, lambda p: _signed(p, p.got - p.place, 32, 4), got=True),  # GOTPCRELX
    42: Kind(4, lambda p: _signed(p, p.got - p.place, 32, 4), got=True),  # REX_GOTPCRELX
}

_ARM: dict[int, Kind] = {
    257: Kind(8, lambda p: p.write(p.value, 8)),  # ABS64
    258: Kind(4, _unsigned32),  # ABS32
    260: Kind(8, lambda p: p.write(p.value - p.place, 8)),  # PREL64
    261: Kind(4, lambda p: _signed(p, p.value - p.place, 32, 4)),  # PREL32
    275: Kind(4, lambda p: _page_distance(p, p.value)),  # ADR_PREL_PG_HI21
    277: Kind(4, lambda p: _low_bits(p, p.value, 0)),  # ADD_ABS_LO12_NC
    278: Kind(4, lambda p: _low_bits(p, p.value, 0)),  # LDST8_ABS_LO12_NC
    280: Kind(4, lambda p: _branch(p, 19, 5)),  # CONDBR19
    282: Kind(4, lambda p: _branch(p, 26, 0), call=True),  # JUMP26
    283: Kind(4, lambda p: _branch(p, 26, 0), call=True),  # CALL26
    284: Kind(4, lambda p: _low_bits(p, p.value, 1)),  # LDST16_ABS_LO12_NC
    285: Kind(4, lambda p: _low_bits(p, p.value, 2)),  # LDST32_ABS_LO12_NC
    286: Kind(4, lambda p: _low_bits(p, p.value, 3)),  # LDST64_ABS_LO12_NC
    299: Kind(4, lambda p: _low_bits(p, p.value, 4)),  # LDST128_ABS_LO12_NC
    311: Kind(4, lambda p: _page_distance(p, p.got), got=True),  # ADR_GOT_PAGE
    312: Kind(4, lambda p: _low_bits(p, p.got, 3), got=True),  # LD64_GOT_LO12_NC
}


def kinds(machine: int) -> dict[int, Kind]:
    """The relocation types that are understood."""
    return _ARM if machine == AARCH64 else _X86
