"""Files: read whole or mapped, and written all or nothing."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from .errors import PliantError

# Names of what this process has open already: the file behind one is somebody's, who waits for bytes in it.
_OPEN_FILES = ("/dev/std", "/dev/fd/", "/proc/")


class SaveError(PliantError, OSError):
    """A file could not be written; one that was there is still as it was."""


def path_of(path: object, error: type[PliantError]) -> Path:
    """What a user gave as a path; an `error` when it cannot be one."""
    if not isinstance(path, (str, os.PathLike)):
        raise error(f"a file is given by its path, not by a {type(path).__name__}")
    if "\0" in os.fspath(path):
        raise error(f"{os.fspath(path)!r} is no path: it holds a NUL character")
    return Path(path)


def contents(path: Path, *, mapped: bool) -> memoryview:
    """The bytes of a file, mapped (a view of the file, which must stay as it is) or read into memory.

    OSError, and ValueError for what is no regular file.
    """
    found = os.stat(path)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no regular file")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if mapped:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        data = memoryview(mmap.mmap(-1, max(1, size)))[:size]
        if file.readinto(data) != size:
            raise ValueError("it became shorter while it was read")
        return data.toreadonly()


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` when all went well; otherwise nothing has changed.

    A symbolic link stays one: what it leads to is replaced. A device or a pipe is written into, when all is there to be
    written. SaveError when that fails, with the path.
    """
    try:
        target = _replaceable(Path(path))
        with tempfile.TemporaryFile() if target is None else _beside(target) as file:
            yield file
            file.flush()
            if target is None:
                file.seek(0)
                with open(path, "wb") as out:
                    shutil.copyfileobj(file, out)
    except OSError as error:
        raise SaveError(f"{os.fspath(path)} cannot be written: {error.strerror or error}") from error


def _replaceable(path: Path) -> Path | None:
    """The regular file, there or to be, that `path` leads to; None where it leads to something else."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return Path(os.path.realpath(path))
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode) or os.path.abspath(path).startswith(_OPEN_FILES):
        return None
    return Path(os.path.realpath(path))


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[BinaryIO]:
    """A new file in the same folder, moved to its place at the end, with the permissions of the one that was there."""
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(os.stat(target).st_mode))
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Makes the new name last; some file systems have no such thing."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
