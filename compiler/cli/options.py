"""Options that several commands share, and reading what they name."""

from __future__ import annotations

import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click
import numpy as np

from ...ir.diagnostics import error
from ...ir.graph import Module
from ...ir.parser import parse_module
from ...passes.graph.specialize import Specialize
from ...runtime.files import replacing
from ...runtime.weights import given_weights
from . import show
from .process import tidied

_SIZE_LIMIT = 1 << 63


class Output(click.ParamType[Path]):
    """The name of a file to write to: not empty, and not that of a folder. `dash` allows `-`, standard output."""

    name = "file"

    def __init__(self, *, dash: bool = False) -> None:
        self.dash = dash

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        text = os.fspath(value)
        if not text or "\0" in text:
            self.fail("it is empty; name a file" if not text else "it holds a NUL", param, ctx)
        if text.endswith(os.sep) or os.path.isdir(text):
            self.fail(f"'{text}' is a folder; name a file in it", param, ctx)
        if text == "-" or _is_standard_output(text):
            if not self.dash:
                self.fail("standard output is for messages; name a file (`./-` is one called `-`)", param, ctx)
            text = "-"
        return Path(text)


def _is_standard_output(name: str) -> bool:
    return os.path.abspath(name) in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


class Finite(click.FloatRange):
    """A number that is neither infinite nor NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


target = click.option("--target", default="cpu", show_default=True, help="cpu, cpu:x86-64-v3, ..., cuda:sm_90.")
dims = click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Give a symbol a size; repeatable.")
weights = click.option(
    "--weights", "weights", metavar="FILE", help="A .safetensors file; `random` where a command makes its own input."
)


def sizes(given: tuple[str, ...]) -> dict[str, int]:
    """`n=17` pairs as a mapping."""
    found: dict[str, int] = {}
    for item in given:
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not name.isidentifier() or not (value.isascii() and value.isdecimal()):
            raise click.BadParameter(f"`{item}` is not of the form NAME=SIZE", param_hint="--dim")
        if len(value) > 19 or int(value) >= _SIZE_LIMIT:
            raise click.BadParameter(f"the size of `{name}` does not fit into 64 bits", param_hint="--dim")
        if name in found:
            raise click.BadParameter(f"`{name}` is given twice: {found[name]} and {value}", param_hint="--dim")
        found[name] = int(value)
    return found


def read_program(file: Path) -> Module:
    """The program in a file; CompileError where there is none."""
    return parse_module(show.source(str(file)), str(file))


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when all is written, and only then; SaveError with the path."""
    with tidied(), replacing(path) as file:
        yield file


def write_text(path: Path, text: str) -> None:
    """Writes a text, all or nothing; to standard output for `-`."""
    if str(path) == "-":
        show.out(text, newline=False)
        return
    with writing(path) as file:
        file.write(text.encode())


def specialized(module: Module, given: Mapping[str, int]) -> Module:
    """The module with some symbols replaced by sizes; unknown names are refused."""
    return Specialize.of(given).run(module) if given else module


def read_arrays(name: str) -> dict[str, np.ndarray]:
    """Arrays by name from a .safetensors or .npz file."""
    path = Path(_named(name))
    if path.suffix != ".npz":
        return dict(given_weights(path))
    held = _loaded(name)
    if isinstance(held, np.ndarray):
        raise error(f"{name} is a .npy file, of one array without a name", helps=("name it so: mv x.npz x.npy",))
    with held:
        try:
            return {key: held[key] for key in held.files}
        except _UNREADABLE as fault:
            raise error(f"cannot read {name}: {fault}") from fault


def read_array(name: str) -> np.ndarray:
    """One array from a .npy file."""
    held = _loaded(name)
    if not isinstance(held, np.ndarray):
        held.close()
        raise error(f"{name} holds several arrays", helps=("call it .npz: names are taken from it",))
    return held


def _named(name: str) -> str:
    if not name:
        raise error("the name of a file of arrays is empty")
    return name


def _loaded(name: str) -> Any:
    try:
        with open(_named(name), "rb") as file:
            if file.read(6) not in (b"\x93NUMPY", b"PK\3\4\x2d\0", b"PK\3\4\x14\0", b"PK\5\6\0\0"):
                raise error(f"{name} is no file of numpy's (.npy, .npz)")
        return np.load(name, allow_pickle=False)
    except _UNREADABLE as fault:
        raise error(f"cannot read {name}: {getattr(fault, 'strerror', None) or fault}") from fault


# What numpy raises for files that are damaged, or something else.
_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    SyntaxError,
    TypeError,
    MemoryError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
