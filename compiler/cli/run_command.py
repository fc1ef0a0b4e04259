"""`pliant run`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.core import ParameterSource

from ...ir.diagnostics import error
from ...ir.graph import Function, Module
from ...ir.infer_module import infer_module
from ...ir.interpret import interpret
from ...ir.parser import parse_module
from ...runtime import Artifact, Executable, LoadError
from ..codegen.llvm import resolve
from ..driver import Compilation
from ..target import Target
from . import options, show
from .inputs import choose_sizes, given_arrays, given_sizes, random_arguments, random_array, require_memory

SOURCE = "ir/source.ir"

EXAMPLES = show.examples(
    ("pliant run model.ir", "random input at sizes that the facts allow"),
    ("pliant run model.pliant --dim n=17 --check", "compare with the reference"),
    ("pliant run model.pliant --input x=x.npy --output y.npz", "your own arrays"),
)


@click.command("run", epilog=EXAMPLES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--function", "name", default=None, help="Which function; @main by default.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]FILE|random",
    help=".npy for one parameter, .safetensors or .npz for several; random (the default) for the rest.",
)
@options.dims
@options.weights
@options.target
@click.option("--output", type=options.Output(), help="Write the results to a file, in the format of .npz.")
@click.option("--check", is_flag=True, help="Compare with the reference interpreter.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of random input.")
@click.option(
    "--rtol",
    type=options.Finite(min=0),
    default=1e-4,
    show_default=True,
    help="Of --check, relative to the largest result.",
)
def command(
    file: Path,
    name: str | None,
    inputs: tuple[str, ...],
    dims: tuple[str, ...],
    weights: str | None,
    target: str,
    output: Path | None,
    check: bool,
    seed: int,
    rtol: float,
) -> None:
    """Run FILE, a program (.ir) or an artifact (.pliant), and show the results."""
    wanted_sizes = options.sizes(dims)
    artifact, module = _open(file, target)
    function = _function(module, name)
    rng = np.random.default_rng(seed)
    given = given_arrays(function, inputs)
    fixed = _sizes_of(function, given) | given_sizes(function, given)
    sizes = choose_sizes(module, function, wanted_sizes, fixed)
    stored = {t.name: artifact.tensor(t) for t in artifact.contract.weights if t.member is not None}
    require_memory(function, module, sizes, given)
    values = _weights(module, weights, {k: v for k, v in stored.items() if v is not None}, rng, sizes)
    exe = Executable(artifact, values or None)
    arguments = random_arguments(rng, function, sizes, given)
    reference = {k: _copied(v) for k, v in arguments.items()}
    start = time.perf_counter()
    results = exe[function.name](**arguments)
    elapsed = time.perf_counter() - start
    listed = list(results) if isinstance(results, tuple) and len(function.results) > 1 else [results]
    _show(function, sizes, listed, elapsed)
    if output is not None:
        with options.writing(output) as into:
            np.savez(into, allow_pickle=False, **{f"result{i}": r for i, r in enumerate(_flat(listed))})
    if check:
        wanted = interpret(module, function.name, reference, values)
        _compare(listed, wanted, rtol)
        _compare(
            [arguments[p.name] for p in function.params if p.inout],
            [reference[p.name] for p in function.params if p.inout],
            rtol,
        )
        show.out("agrees with the reference interpreter")


def _open(file: Path, target: str) -> tuple[Artifact, Module]:
    """The artifact, and the program it was made from."""
    if file.suffix != ".pliant" and not _is_zip(file):
        module = options.read_program(file)
        with show.progress() as progress:
            compilation = Compilation(module, resolve(Target.parse(target)), progress=progress)
            return compilation.artifact(), infer_module(module)
    if click.get_current_context().get_parameter_source("target") is not ParameterSource.DEFAULT:
        raise click.UsageError(f"{file} is an artifact, made for its target: leave out `--target`.")
    artifact = Artifact.open(file)
    if SOURCE not in artifact.members:
        raise LoadError(f"{file} holds no program text: `pliant run` needs it to know the types")
    return artifact, infer_module(parse_module(artifact.text(SOURCE), f"{file}:{SOURCE}"))


def _is_zip(file: Path) -> bool:
    if not file.is_file():  # a pipe can be read once
        return False
    with file.open("rb") as opened:
        return opened.read(2) == b"PK"


def _function(module: Module, name: str | None) -> Function:
    names = [f.name for f in module.functions]
    wanted = "main" if "main" in names else names[0] if len(names) == 1 else None
    if name is not None:
        wanted = name.removeprefix("@")
    if wanted not in names:
        raise error(
            "which function?" if wanted is None else f"there is no function @{wanted}",
            helps=(f"`--function` with one of {', '.join(names)}",),
        )
    return module.function(wanted)


def _sizes_of(function: Function, given: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Symbols that stand bare in the types of given arrays; everything else is checked by the call."""
    found: dict[str, int] = {}
    for p in function.params:
        shape = getattr(p.type, "shape", None)
        if p.name in given and shape is not None:
            for d, size in zip(shape, given[p.name].shape, strict=False):
                if d.name is not None:
                    found[d.name] = size
    return found


def _weights(
    module: Module,
    source: str | None,
    stored: dict[str, np.ndarray],
    rng: np.random.Generator,
    sizes: Mapping[str, int],
) -> dict[str, np.ndarray]:
    """From the file, from the artifact, or random ones, scaled so that values stay moderate."""
    if source is not None and source != "random":
        return options.read_arrays(source)
    found = dict(stored)
    for w in module.weights:
        if w.name not in found:
            array = random_array(rng, w.type, sizes)
            scale = max(1.0, float(array.shape[0]) ** 0.5) if array.ndim > 1 and w.type.dtype.is_float else 1.0
            found[w.name] = (array / scale).astype(array.dtype) if scale != 1.0 else array
    return found


def _copied(value: Any) -> Any:
    return tuple(map(_copied, value)) if isinstance(value, tuple) else np.array(value)


def _show(function: Function, sizes: Mapping[str, int], results: list[Any], elapsed: float) -> None:
    at = ", ".join(f"{k}={v}" for k, v in sorted(sizes.items()))
    show.out(f"@{function.name}{f' at {at}' if at else ''}: {1e3 * elapsed:.3f} ms")
    for i, r in enumerate(_flat(results)):
        text = np.array2string(
            r.astype(np.float32) if r.dtype.kind not in "fiub" else r, threshold=8, edgeitems=2, precision=4
        )
        show.out(f"result {i}: {r.dtype}{list(r.shape)}\n{text}")


def _flat(values: list[Any]) -> list[np.ndarray]:
    return [a for v in values for a in (_flat(list(v)) if isinstance(v, (tuple, list)) else [np.asarray(v)])]


def _compare(got: list[Any], wanted: list[Any], rtol: float) -> None:
    for i, (a, b) in enumerate(zip(_flat(got), _flat(wanted), strict=True)):
        if a.shape != b.shape:
            raise error(f"result {i} has the shape {list(a.shape)}, and that of the reference is {list(b.shape)}")
        if a.dtype.kind in "iub":
            if not np.array_equal(a, b):
                raise error(f"result {i} differs from the reference in {np.count_nonzero(a != b)} of {a.size} elements")
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        scale = float(np.abs(y[np.isfinite(y)]).max(initial=0.0))
        near = np.isclose(x, y, rtol=rtol, atol=rtol * max(scale, 1e-30), equal_nan=True)
        if not near.all():
            apart = np.abs(x - y)[np.isfinite(x) & np.isfinite(y)].max(initial=0.0)
            raise error(
                f"result {i} differs from the reference in {np.count_nonzero(~near)} of {x.size} elements, "
                f"by up to {apart:.3g} of {scale:.3g}"
            )
