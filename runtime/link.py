"""Links relocatable objects straight into memory, without a linker and without writing a file.

The sections of all objects stand in one mapping: code and stubs | constants and the table of addresses | data. What no
object defines is looked up in the C library; calls to it go through stubs, since it may lie more than 2 GiB away.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from . import elf
from .elf import Object, Section, Table
from .errors import LoadError
from .memory import PAGE, Region, round_up
from .relocate import STUB_BYTES, Bytes, Ints, Kind, Patch, kinds, stub

Resolver = Callable[[str], int | None]


@dataclass(frozen=True, eq=False)
class Image:
    """Code in memory: `symbols` are the addresses of the global symbols. It lives as long as this object."""

    region: Region
    symbols: Mapping[str, int]

    def address(self, name: str) -> int:
        try:
            return self.symbols[name]
        except KeyError:
            raise LoadError(f"the artifact's code lacks `{name}`") from None


def c_library(name: str) -> int | None:
    """The address of a function of the C or mathematical library; None if there is none."""
    for library in (None, "libm.so.6"):
        try:
            function = getattr(ctypes.CDLL(library), name)
        except (OSError, AttributeError):
            continue
        return ctypes.cast(function, ctypes.c_void_p).value
    return None


def link(
    objects: Mapping[str, bytes | memoryview],
    resolve: Resolver = c_library,
    *,
    forever: bool = False,
) -> Image:
    """Loads objects given by name. LoadError when one is damaged or a symbol is missing or defined twice.

    `forever` keeps the code mapped until the process ends, for code that threads of ours may run at any time.
    """
    linker = _Linker([elf.read_object(name, data) for name, data in objects.items()], resolve)
    try:
        region = Region.allocate(linker.size, forever=forever)
        return Image(region, linker.place(region))
    except (OSError, MemoryError) as error:
        raise LoadError(f"there is no memory for code, or the system forbids it: {error}") from error


@dataclass
class _Linker:
    """Positions of everything in the image, known before it has an address."""

    objects: list[Object]
    resolve: Resolver
    bases: list[dict[int, int]] = field(default_factory=list)  # object -> section number -> offset in the image
    stubs: dict[str, int] = field(default_factory=dict)  # external symbol -> offset of its stub
    slots: dict[tuple[int, int], int] = field(default_factory=dict)  # (object, symbol) -> offset of its table slot
    globals: dict[str, tuple[int, int]] = field(default_factory=dict)  # name -> (object, symbol)
    externals: dict[str, int] = field(default_factory=dict)  # name -> address
    ends: list[int] = field(default_factory=list)  # where code, constants and data end

    def __post_init__(self) -> None:
        if len({o.machine for o in self.objects}) > 1:
            raise LoadError("the objects are for different machines")
        self.bases = [{} for _ in self.objects]
        self._define()
        self._resolve()
        position = self._lay_out(lambda s: s.executable, 0)
        for name in self.externals:
            self.stubs[name] = position = round_up(position, STUB_BYTES)
            position += STUB_BYTES
        position = self._end_group(position)
        position = round_up(self._lay_out(lambda s: not s.executable and not s.writable, position), 8)
        for key in self._table_users():
            if key not in self.slots:
                self.slots[key] = position
                position += 8
        position = self._end_group(position)
        self._end_group(self._lay_out(lambda s: s.writable and not s.executable, position))

    @property
    def size(self) -> int:
        return self.ends[-1]

    @property
    def kinds(self) -> dict[int, Kind]:
        return kinds(self.objects[0].machine) if self.objects else {}

    def _end_group(self, position: int) -> int:
        self.ends.append(round_up(position, PAGE))
        return self.ends[-1]

    def _lay_out(self, chosen: Callable[[Section], bool], position: int) -> int:
        for bases, item in zip(self.bases, self.objects, strict=True):
            for number, section in item.sections.items():
                if chosen(section):
                    # Regions are aligned to pages, which bounds the alignment that a section can be given.
                    bases[number] = position = round_up(position, min(section.align, PAGE))
                    position += section.size
        return position

    def _define(self) -> None:
        for index, item in enumerate(self.objects):
            for symbol, name in enumerate(item.symbol_names):
                if item.binding(symbol) == elf.LOCAL or int(item.symbols["section"][symbol]) == elf.UNDEFINED:
                    continue
                known = self.globals.get(name)
                if known is None or self._is_weak(known):
                    self.globals[name] = (index, symbol)
                elif item.binding(symbol) != elf.WEAK:
                    raise LoadError(f"`{name}` is defined twice, in `{self.objects[known[0]].name}` and `{item.name}`")

    def _is_weak(self, key: tuple[int, int]) -> bool:
        return self.objects[key[0]].binding(key[1]) == elf.WEAK

    def _resolve(self) -> None:
        for item in self.objects:
            for symbol, name in enumerate(item.symbol_names):
                if not name or int(item.symbols["section"][symbol]) != elf.UNDEFINED:
                    continue
                if name in self.globals or name in self.externals:
                    continue
                address = self.resolve(name)
                if address is None and item.binding(symbol) != elf.WEAK:
                    raise LoadError(f"object `{item.name}` needs `{name}`, which is nowhere to be found")
                self.externals[name] = address or 0

    def _table_users(self) -> Iterator[tuple[int, int]]:
        for index, item in enumerate(self.objects):
            for section in item.sections.values():
                for number in np.unique(section.relocations["type"]):
                    kind = self.kinds.get(int(number))
                    if kind is not None and kind.got:
                        chosen = section.relocations["type"] == number
                        yield from ((index, int(s)) for s in np.unique(section.relocations["symbol"][chosen]))

    # -- once the image has an address

    def place(self, region: Region) -> dict[str, int]:
        """Writes and relocates everything, protects it, and returns the global symbols."""
        image = region.bytes()
        self._copy(image)
        true, near = self._addresses(region.address)
        for name, offset in self.stubs.items():
            code = stub(self.objects[0].machine, self.externals[name])
            image[offset : offset + STUB_BYTES] = np.frombuffer(code, np.uint8)
        for (index, symbol), offset in self.slots.items():
            image[offset : offset + 8] = np.frombuffer(int(true[index][symbol]).to_bytes(8, "little"), np.uint8)
        for index, item in enumerate(self.objects):
            for number, section in item.sections.items():
                self._relocate(region, image, index, section, self.bases[index][number], true[index], near[index])
        code_end, constants_end, _ = self.ends
        region.protect(0, code_end, execute=True)
        region.protect(code_end, constants_end - code_end)
        return {name: int(true[index][symbol]) for name, (index, symbol) in self.globals.items()}

    def _copy(self, image: Bytes) -> None:
        for bases, item in zip(self.bases, self.objects, strict=True):
            for number, section in item.sections.items():
                start = bases[number]
                image[start : start + len(section.data)] = np.frombuffer(section.data, np.uint8)

    def _addresses(self, base: int) -> tuple[list[Ints], list[Ints]]:
        """For each object the address of each symbol (0 if it has none), and one that a call can reach."""
        true = [self._own_addresses(index, base) for index in range(len(self.objects))]
        near = [table.copy() for table in true]
        for index, item in enumerate(self.objects):
            for symbol, name in enumerate(item.symbol_names):
                if name in self.globals and item.binding(symbol) != elf.LOCAL:
                    owner, number = self.globals[name]
                    true[index][symbol] = near[index][symbol] = true[owner][number]
                elif name in self.externals and int(item.symbols["section"][symbol]) == elf.UNDEFINED:
                    true[index][symbol] = self.externals[name]
                    near[index][symbol] = base + self.stubs[name]
        return true, near

    def _own_addresses(self, index: int, base: int) -> Ints:
        symbols = self.objects[index].symbols
        section, value = symbols["section"].astype(np.int64), symbols["value"].astype(np.int64)
        result = np.where(section == elf.ABSOLUTE, value, 0)
        for number, start in self.bases[index].items():
            inside = section == number
            result[inside] = base + start + value[inside]
        return result

    def _relocate(
        self,
        region: Region,
        image: Bytes,
        index: int,
        section: Section,
        start: int,
        true: Ints,
        near: Ints,
    ) -> None:
        table: Table = section.relocations
        name = self.objects[index].name
        for number in np.unique(table["type"]):
            kind = self.kinds.get(int(number))
            if kind is None:
                raise LoadError(f"object `{name}` has relocations of type {int(number)}, which are not supported")
            chosen = table[table["type"] == number]
            symbols, addend = chosen["symbol"].astype(np.int64), chosen["addend"]
            offset = chosen["offset"].astype(np.int64)
            if len(section.data) < kind.width or (offset > len(section.data) - kind.width).any():
                raise LoadError(f"object `{name}` is damaged: a relocation lies outside its section")
            if not kind.got and (true[symbols] == 0).any():
                raise LoadError(f"object `{name}` refers to something that is not loaded")
            slots = [self.slots[index, int(s)] for s in symbols] if kind.got else [0] * len(symbols)
            kind.apply(
                Patch(
                    image,
                    start + offset,
                    region.address + start + offset,
                    (near if kind.call else true)[symbols] + addend,
                    region.address + np.asarray(slots, np.int64) + addend,
                )
            )
