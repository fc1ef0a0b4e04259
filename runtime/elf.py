"""Reads relocatable ELF objects (64-bit, little-endian), as LLVM writes them, trusting nothing in them.

After *System V Application Binary Interface*, chapter 4, and its supplements for AMD64 and AArch64. Tables are numpy
arrays, so that an object with thousands of relocations is read in a few operations.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import LoadError

Table = np.ndarray[Any, np.dtype[np.void]]

X86_64 = 62
AARCH64 = 183
MACHINES = {X86_64: "x86_64", AARCH64: "aarch64"}

# section types and flags
SYMTAB, RELA, NOBITS, REL = 2, 4, 8, 9
WRITE, ALLOC, EXECUTE, THREAD_LOCAL = 1, 2, 4, 0x400
# symbol bindings, types and special sections
LOCAL, GLOBAL, WEAK = 0, 1, 2
TLS_SYMBOL = 6
UNDEFINED, RESERVED, ABSOLUTE = 0, 0xFF00, 0xFFF1

_CONSTRUCTORS = (".ctors", ".dtors", ".init_array", ".fini_array", ".preinit_array")
_MAX_BYTES = 1 << 30
_MAX_ALIGNMENT = 1 << 16

_HEADER = np.dtype(
    {
        "names": ["name", "type", "flags", "addr", "offset", "size", "link", "info", "align", "entsize"],
        "formats": ["<u4", "<u4", "<u8", "<u8", "<u8", "<u8", "<u4", "<u4", "<u8", "<u8"],
    }
)
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])


@dataclass(frozen=True)
class Section:
    """A section that is to be in memory; `data` is shorter than `size` where the rest is zero."""

    name: str
    flags: int
    size: int
    align: int
    data: memoryview
    relocations: Table

    @property
    def executable(self) -> bool:
        return bool(self.flags & EXECUTE)

    @property
    def writable(self) -> bool:
        return bool(self.flags & WRITE)


@dataclass(frozen=True)
class Object:
    """One object file. `sections` maps section numbers to the sections that are loaded."""

    name: str
    machine: int
    sections: dict[int, Section]
    symbols: Table
    symbol_names: tuple[str, ...]

    def binding(self, symbol: int) -> int:
        return int(self.symbols["info"][symbol]) >> 4


def read_object(name: str, data: bytes | memoryview) -> Object:
    """Parses an object file; LoadError names the object and what is wrong in it."""
    try:
        return _Reader(name, memoryview(data).toreadonly().cast("B")).read()
    except (struct.error, ValueError, UnicodeDecodeError) as error:
        raise LoadError(f"object `{name}` is damaged: {error}") from error


@dataclass(frozen=True)
class _Reader:
    name: str
    data: memoryview

    def read(self) -> Object:
        machine, headers, names_index = self._file_header()
        self._check_headers(headers)
        self._require(names_index < len(headers), "the section names are missing")
        names = self._contents(headers[names_index])
        loaded = {i: self._name(names, int(h["name"])) for i, h in enumerate(headers) if self._is_loaded(names, h)}
        special = [n for n in loaded.values() if n.startswith(_CONSTRUCTORS)]
        self._require(not special, "it has static constructors")
        symbols, symbol_names = self._symbols(headers, loaded)
        sections = {
            number: Section(
                section_name,
                int(headers[number]["flags"]),
                int(headers[number]["size"]),
                max(1, int(headers[number]["align"])),
                self._contents(headers[number]),
                self._relocations(headers, number, len(symbols)),
            )
            for number, section_name in loaded.items()
        }
        return Object(self.name, machine, sections, symbols, symbol_names)

    def _require(self, condition: object, message: str) -> None:
        if not condition:
            raise LoadError(f"object `{self.name}` is damaged: {message}")

    def _table(self, dtype: np.dtype[Any], start: int, count: int, what: str) -> Table:
        self._require(start + count * dtype.itemsize <= len(self.data), f"{what} lie outside the file")
        return np.frombuffer(self.data, dtype, count, start) if count else np.zeros(0, dtype)

    def _file_header(self) -> tuple[int, Table, int]:
        self._require(len(self.data) >= 64 and bytes(self.data[:4]) == b"\x7fELF", "it is no ELF file")
        self._require(bytes(self.data[4:7]) == b"\x02\x01\x01", "it is not 64-bit little-endian ELF")
        kind, machine = struct.unpack_from("<HH", self.data, 16)
        (start,) = struct.unpack_from("<Q", self.data, 40)
        size, count, names = struct.unpack_from("<HHH", self.data, 58)
        self._require(kind == 1, "it is not relocatable")
        if machine not in MACHINES:
            raise LoadError(f"object `{self.name}` is for machine number {machine}, which is not supported")
        self._require(size == _HEADER.itemsize, f"section headers have {size} bytes")
        return machine, self._table(_HEADER, start, count, "section headers"), names

    def _check_headers(self, headers: Table) -> None:
        stored = headers[(headers["type"] != NOBITS) & (headers["type"] != 0)]
        end = stored["offset"] + stored["size"]
        within = (end <= len(self.data)) & (stored["offset"] <= len(self.data)) & (stored["size"] <= len(self.data))
        self._require(within.all(), "a section lies outside the file")
        loaded = headers[(headers["flags"] & ALLOC) != 0]
        align = np.maximum(loaded["align"], 1)
        self._require((align & (align - 1) == 0).all(), "a section's alignment is no power of two")
        self._require((align <= _MAX_ALIGNMENT).all(), "a section's alignment is out of range")
        self._require((loaded["size"] <= _MAX_BYTES).all(), "a section is too large")
        self._require(not (loaded["flags"] & THREAD_LOCAL).any(), "it has thread-local data")

    def _contents(self, header: Any) -> memoryview:
        if int(header["type"]) in (0, NOBITS):
            return self.data[:0]
        start = int(header["offset"])
        return self.data[start : start + int(header["size"])]

    def _name(self, names: memoryview, start: int) -> str:
        self._require(start < len(names), "a name lies outside its table")
        end = bytes(names[start : start + 4096]).find(b"\0")
        self._require(end >= 0, "a name does not end")
        return str(names[start : start + end], "utf-8")

    def _is_loaded(self, names: memoryview, header: Any) -> bool:
        # Unwinding tables are of no use: nothing is thrown through generated code.
        if not int(header["flags"]) & ALLOC or not int(header["size"]):
            return False
        return not self._name(names, int(header["name"])).startswith((".eh_frame", ".note"))

    def _symbols(self, headers: Table, loaded: dict[int, str]) -> tuple[Table, tuple[str, ...]]:
        tables = [h for h in headers if int(h["type"]) == SYMTAB]
        if not tables:
            return np.zeros(0, _SYMBOL), ()
        header = tables[0]
        self._require(len(tables) == 1, "it has several symbol tables")
        self._require(int(header["entsize"]) == _SYMBOL.itemsize, "the symbol table has another layout")
        self._require(int(header["link"]) < len(headers), "the symbol names are missing")
        names = self._contents(headers[int(header["link"])])
        count = int(header["size"]) // _SYMBOL.itemsize
        symbols = self._table(_SYMBOL, int(header["offset"]), count, "symbols")
        numbers = symbols["section"].astype(np.int64)
        ordinary = (numbers != UNDEFINED) & (numbers < RESERVED)
        self._require((numbers[ordinary] < len(headers)).all(), "a symbol's section does not exist")
        self._require(np.isin(numbers[numbers >= RESERVED], (ABSOLUTE,)).all(), "a symbol is common or of unknown kind")
        self._require(not (symbols["info"] & 15 == TLS_SYMBOL).any(), "it has thread-local symbols")
        for number in loaded:
            inside = symbols["value"][numbers == number] <= headers[number]["size"]
            self._require(inside.all(), "a symbol lies outside its section")
        return symbols, tuple(self._name(names, int(start)) if start else "" for start in symbols["name"])

    def _relocations(self, headers: Table, target: int, symbols: int) -> Table:
        found = [np.zeros(0, _RELOCATION)]
        for header in headers:
            if int(header["type"]) == REL and int(header["info"]) == target:
                self._require(False, "it has relocations without addends")
            if int(header["type"]) != RELA or int(header["info"]) != target:
                continue
            self._require(int(header["entsize"]) == _RELOCATION.itemsize, "relocations have another layout")
            self._require(int(headers[target]["type"]) != NOBITS, "a section without contents has relocations")
            count = int(header["size"]) // _RELOCATION.itemsize
            found.append(self._table(_RELOCATION, int(header["offset"]), count, "relocations"))
        table = np.concatenate(found)
        self._require((table["symbol"] < symbols).all(), "a relocation's symbol does not exist")
        self._require((table["offset"] <= headers[target]["size"]).all(), "a relocation lies outside its section")
        return table
