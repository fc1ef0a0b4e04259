"""The backend that torch finds under the name "pliant" (its entry point `torch_dynamo_backends`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from .driver import compile
from .torch_program import frontend


@cache
def _backend() -> Callable[..., Any]:
    made: Callable[..., Any] = frontend().dynamo.backend(compile)
    return made


def pliant(graph_module: Any, example_inputs: Sequence[Any], **options: Any) -> Any:
    """Compiles a graph of Dynamo for the CPU; CompileError for what is not supported."""
    return _backend()(graph_module, example_inputs, **options)
