"""Loads an artifact with one entry of its contract changed, for every entry; run as a program, since one might crash.

`python -m tests.artifact_mutations FILE PART PARTS` prints a line before each attempt, so that the last line names the
one that ended the process, and `done REFUSED LOADED` at the end. Checksums of the file are made anew each time.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pliant.runtime import Executable, LoadError, PliantError, container, load

Place = tuple[Any, ...]


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Every entry of plain data, inner ones too."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def others(value: Any, siblings: list[Any]) -> Iterator[Any]:
    """What an entry is replaced by: values near it, far from it, and those of its siblings."""
    match value:
        case bool():
            yield not value
        case int():
            yield from (value + 1, value - 1, 0, -1, 1 << 20, 1 << 62, 1 << 70)
        case str():
            yield from ("", value + "x", "i64", "1", "9" * 5000, "\ud800", "../x", "objects/host.o")
        case None:
            yield from ("objects/host.o", 0)
        case list():
            yield from ([], value[::-1], value[1:], value * 2, [*value, value])
        case dict():
            yield from ({}, {**value, "more": 1}, dict(list(value.items())[1:]))
    yield from (s for s in siblings if type(s) is type(value) and s != value)


def changed(data: Any, place: Place, value: Any) -> Any:
    copy = json.loads(json.dumps(data))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return copy


def mutations(data: Any) -> Iterator[tuple[Place, Any]]:
    for place in places(data):
        parent = data
        for key in place[:-1]:
            parent = parent[key]
        siblings = list(parent.values()) if isinstance(parent, dict) else parent
        seen = []
        for value in others(parent[place[-1]], siblings):
            if value != parent[place[-1]] and value not in seen:
                seen.append(value)
                yield place, value


def use(exe: Executable) -> list[np.ndarray]:
    """Results of right calls; wrong ones, whose messages read the contract, may only be refused."""
    x, places = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8), np.array([2, 0])
    for call in (
        lambda: exe(x[:, :7].copy()),
        lambda: exe(np.zeros((300, 8), np.float32)),
        lambda: exe(x, x),
        lambda: exe["pick"](x[0], np.array([99]), np.zeros(8, np.int32)),
        lambda: exe["pick"](x[0], places, np.zeros(7, np.int32)),
    ):
        try:
            call()
        except PliantError:
            continue
        raise AssertionError("a wrong call was not refused")
    counts = np.zeros(8, np.int32)
    y, z = exe(x)
    return [y, z, exe["pick"](x[0], places, counts), counts]


def main(file: str, part: int, parts: int) -> None:
    os.fsync = lambda _: None  # type: ignore[assignment]  # nothing here need outlive the machine
    expected = use(load(file))
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    contract = json.loads(members.pop(container.CONTRACT))["contract"]
    path = Path(tempfile.mkdtemp()) / "changed.pliant"
    refused = loaded = 0
    for number, (place, value) in enumerate(mutations(contract)):
        if number % parts != part:
            continue
        sys.stdout.write(f"{number} {place} {ascii(value)[:80]}\n")
        sys.stdout.flush()
        container.write(path, changed(contract, place, value), members)
        try:
            results = use(load(path))
        except LoadError:
            refused += 1
        else:
            loaded += 1
            assert all(np.array_equal(a, b) for a, b in zip(results, expected, strict=True))
    sys.stdout.write(f"done {refused} {loaded}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
