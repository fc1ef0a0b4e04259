"""pliant as a contestant of the rivals' benchmark: a worker process per contestant, rounds that alternate.

Copy this file into the benchmark's folder `adapters/` and name the contestant `pliant_adapter`; put the checkout on
PYTHONPATH.
"""

from __future__ import annotations

from typing import Any

PACKAGES = ["pliant"]


def setup(ctx: Any) -> None:
    """Imports are part of the cold start that is measured."""
    import pliant

    pliant.set_num_threads(ctx.threads)


def compile(module: Any, example_args: tuple[Any, ...], dynamic_shapes: Any, ctx: Any) -> Any:
    """One artifact for every shape, from the exported program."""
    import pliant

    exported = ctx.export(module, example_args, dynamic_shapes)
    return pliant.from_torch(exported)


def to_native(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments as numpy sees them, without a copy; outside the timed region."""
    return tuple(a.numpy() for a in args)


def to_torch(out: Any) -> list[Any]:
    """Results for the comparison with eager."""
    import torch

    return [torch.from_numpy(o) for o in (out if isinstance(out, (list, tuple)) else [out])]


def recompiles() -> int:
    """There is only ever one."""
    return 1
