"""A module of ours run in torch's place, by the reference interpreter: to compare it with the exported program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ...ir.graph import Module
from ...ir.infer_module import infer_module
from ...ir.interpret import Interpreter
from ...ir.types import DType
from .program import Imported
from .weights import Array, array_of

_LARGE = 1 << 28
"""Bytes of weights from which on the interpreter, which computes in f64, takes too long."""


def is_large(imported: Imported) -> bool:
    return sum(w.nbytes for w in imported.weights.values()) > _LARGE


def interpreted(imported: Imported) -> Callable[..., Any]:
    """Takes torch's arguments and gives torch's results; arguments that the program changes are changed.

    Buffers start anew at every call.
    """
    typed: Module = infer_module(imported.module)
    main = typed.function("main")
    machine = Interpreter(typed, imported.weights)

    def call(*args: Any, **kwargs: Any) -> Any:
        given = imported.arguments(args, kwargs)
        state = {name: value.copy() for name, value in imported.state.items()}
        arrays = {name: array_of(torch.as_tensor(value)).copy() for name, value in given.items()}
        results = machine.call(main, {**state, **arrays})
        for parameter in main.params:
            if parameter.inout and isinstance(given.get(parameter.name), torch.Tensor):
                given[parameter.name].copy_(tensor_of(arrays[parameter.name]))
        return imported.results([tensor_of(np.asarray(r)) for r in results])

    return call


def tensor_of(array: Array) -> torch.Tensor:
    """The values as a tensor, in memory of their own."""
    if array.dtype == DType.bf16.numpy:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())
