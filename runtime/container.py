"""The file of an artifact: a zip archive without compression, in which every member starts at a multiple of 64 bytes.

It can be read with anything that reads zip files, and mapped: weights are used where they lie in the file. The member
`contract.json` is written last and lists the size and SHA-256 of all others.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from .contract import FORMAT
from .errors import LoadError
from .files import SaveError, contents, replacing

__all__ = ["Buffer", "SaveError", "read", "write"]

Buffer = bytes | memoryview
ALIGNMENT = 64
CONTRACT = "contract.json"
_LOCAL_HEADER = 30
_ZIP64_EXTRA = 20
_PADDING_ID = 0xD935  # what Android's zipalign uses
_EPOCH = (1980, 1, 1, 0, 0, 0)
# What zipfile raises for damaged files, beside BadZipFile.
_DAMAGED = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
    ValueError,
    OverflowError,
    KeyError,
    IndexError,
    struct.error,
    zlib.error,
    OSError,
    MemoryError,
)


# -- writing


def write(path: Path, contract: object, members: Mapping[str, Buffer]) -> None:
    """Writes an artifact, all or nothing: no reader ever sees half of one. SaveError when that fails."""
    with replacing(path) as file:
        _write_zip(file, contract, members)


def _write_zip(file: BinaryIO, contract: object, members: Mapping[str, Buffer]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        listed = {}
        for name, data in members.items():
            view = memoryview(data).cast("B")
            _add(archive, file, name, view)
            listed[name] = {"bytes": len(view), "sha256": hashlib.sha256(view).hexdigest()}
        text = json.dumps({"format": FORMAT, "contract": contract, "members": listed}, indent=1)
        _add(archive, file, CONTRACT, memoryview(text.encode()))


def _add(archive: zipfile.ZipFile, file: BinaryIO, name: str, data: memoryview) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)  # no dates, so that equal artifacts are equal files
    info.external_attr = 0o644 << 16
    big = len(data) * 1.05 > zipfile.ZIP64_LIMIT
    start = file.tell() + _LOCAL_HEADER + len(name.encode()) + (_ZIP64_EXTRA if big else 0) + 4
    padding = -start % ALIGNMENT
    info.extra = struct.pack("<HH", _PADDING_ID, padding) + bytes(padding)
    with archive.open(info, "w", force_zip64=big) as member:
        member.write(data)


# -- reading


def read(path: Path, *, verify: bool = True, mapped: bool = True) -> tuple[dict[str, Any], dict[str, memoryview]]:
    """The contract and the members, which are views of the mapped file, or of its bytes in memory.

    LoadError when the file is no artifact, damaged, or of another format. `verify=False` skips the checksums of the
    members (not that of the contract).
    """
    try:
        data = contents(path, mapped=mapped)
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            views = dict(_members(archive, data))
    except FileNotFoundError:
        raise LoadError(f"{path} does not exist") from None
    except IsADirectoryError:
        raise LoadError(f"{path} is a folder") from None
    except PermissionError:
        raise LoadError(f"{path} may not be read") from None
    except _DAMAGED as error:
        raise LoadError(f"{path} is no artifact, or is damaged: {error}") from error
    return _checked(path, views, verify)


def _members(archive: zipfile.ZipFile, data: memoryview) -> Iterator[tuple[str, memoryview]]:
    seen = set[str]()
    for info in archive.infolist():
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.compress_size != info.file_size:
            raise ValueError(f"`{info.filename}` is compressed or encrypted")
        if info.filename in seen:
            raise ValueError(f"`{info.filename}` is there twice")
        seen.add(info.filename)
        header = info.header_offset
        name, extra = struct.unpack_from("<HH", data, header + 26)
        start = header + _LOCAL_HEADER + name + extra
        if bytes(data[header : header + 4]) != b"PK\3\4" or start + info.file_size > len(data):
            raise ValueError(f"`{info.filename}` lies outside the file")
        view = data[start : start + info.file_size]
        if info.filename == CONTRACT and zlib.crc32(view) != info.CRC:
            raise ValueError("the checksum of the contract is wrong")
        yield info.filename, view


def _checked(path: Path, views: dict[str, memoryview], verify: bool) -> tuple[dict[str, Any], dict[str, memoryview]]:
    if CONTRACT not in views:
        raise LoadError(f"{path} is no artifact: it has no {CONTRACT}")
    try:
        top = json.loads(bytes(views.pop(CONTRACT)))
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{path}: the contract is no JSON: {error}") from error
    if not isinstance(top, dict) or not isinstance(top.get("format"), int):
        raise LoadError(f"{path} is no artifact: its contract has no format version")
    if top["format"] != FORMAT:
        raise LoadError(
            f"{path} has format version {top['format']}, and this version of pliant reads {FORMAT}: compile it again"
        )
    listed = top.get("members")
    if not isinstance(listed, dict) or not isinstance(top.get("contract"), dict):
        raise LoadError(f"{path}: the contract is malformed")
    if set(listed) != set(views):
        odd = sorted(set(listed) ^ set(views))
        raise LoadError(f"{path} is damaged: members are missing or too many: {', '.join(odd)}")
    for name, entry in listed.items():
        if not isinstance(entry, dict) or entry.get("bytes") != len(views[name]):
            raise LoadError(f"{path} is damaged: `{name}` has another size than the contract says")
        if verify and hashlib.sha256(views[name]).hexdigest() != entry.get("sha256"):
            raise LoadError(f"{path} is damaged: the checksum of `{name}` is wrong")
    return top["contract"], views
