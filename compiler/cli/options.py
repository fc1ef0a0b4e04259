"""Options that several commands share, and reading what they name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
import numpy as np

from ...ir.diagnostics import CompileError, error
from ...ir.graph import Module
from ...passes.graph.specialize import Specialize
from ...runtime.weights import given_weights

target = click.option("--target", default="cpu", show_default=True, help="cpu, cpu:x86-64-v3, ..., cuda:sm_90.")
dims = click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Give a symbol a size; repeatable.")
weights = click.option(
    "--weights", "weights", metavar="FILE", help="A .safetensors file; `random` where a command makes its own input."
)


def sizes(given: tuple[str, ...]) -> dict[str, int]:
    """`n=17` pairs as a mapping."""
    found: dict[str, int] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name.strip().isidentifier() or not value.strip().isdigit():
            raise click.BadParameter(f"`{item}` is not of the form NAME=SIZE", param_hint="--dim")
        found[name.strip()] = int(value)
    return found


def specialized(module: Module, given: Mapping[str, int]) -> Module:
    """The module with some symbols replaced by sizes; unknown names are refused."""
    return Specialize.of(given).run(module) if given else module


def read_arrays(name: str) -> dict[str, np.ndarray]:
    """Arrays by name from a .safetensors or .npz file."""
    path = Path(name)
    if path.suffix == ".npz":
        try:
            with np.load(path) as file:
                return {key: file[key] for key in file.files}
        except (ValueError, OSError) as fault:
            raise error(f"cannot read {name}: {fault}") from fault
    return dict(given_weights(name))


def read_array(name: str) -> np.ndarray:
    """One array from a .npy file."""
    try:
        array: np.ndarray = np.load(name, allow_pickle=False)
    except (ValueError, EOFError, OSError) as fault:
        raise error(f"cannot read {name}: {fault}") from fault
    if not isinstance(array, np.ndarray):
        raise error(f"{name} holds several arrays", helps=("give the file itself: names are taken from it",))
    return array


__all__ = ["CompileError", "dims", "read_array", "read_arrays", "sizes", "specialized", "target", "weights"]
