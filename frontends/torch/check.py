"""The last check of an import: what was made is run next to the model, around every bound of its facts.

It proves nothing, and no fact is dropped because of it. It finds what is wrong in our own operators, or in torch's
export, before a user does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...ir.diagnostics import CompileError, error
from ...ir.facts import Fact, Facts
from ...ir.graph import Apply, Module
from ...ir.infer_module import infer_module
from ...ir.interpret import Interpreter, InterpretError
from ...ir.types import DType
from .examples import Arguments, resized, sizes_of
from .ints import facts_of
from .program import Imported
from .trace import own_copy
from .weights import Array, array_of

_WEIGHTS = 1 << 26
"""Bytes of weights from which on the interpreter, which computes in f64, takes too long."""

_ELEMENTS = 1 << 14
"""Elements of arguments, likewise."""

_POINTS = 10
_TRIED = 18
_TOLERANCE = 1e-2
"""Of the largest value: this finds wrong operators, not rounding."""

_NOT_OF_NOTHING = ("aten._scaled_dot_product_flash_attention_for_cpu.default",)
"""Operators of torch that end the process when they are given tensors of no elements."""

_UNSTEADY = frozenset(
    {
        *("argmax", "argmin", "sort", "argsort", "topk", "eigh", "svd", "householder_qr", "lu", "cholesky"),
        *("solve_triangular", "reflect", "floor", "ceil", "round", "sign", "floordiv", "mod", "cumprod"),
        "orthogonal_polynomial",
        *("eq", "ne", "lt", "le", "gt", "ge"),
    }
)
"""Operators whose results may be far off for inputs that are not: of programs with them, values are not compared."""


def fails(model: Any, given: Arguments) -> bool:
    """Whether the model itself raises an error there."""
    try:
        _call(_apart_from(model), given)
    except Exception:  # noqa: BLE001  whatever the model raises
        return True
    return False


def refuse_changed_attributes(model: Any, given: Arguments) -> None:
    """CompileError for a model whose forward changes its own Python attributes: a program has no such state."""
    if not any(_plain_attributes(m) for m in model.modules()):
        return
    own = _apart_from(model)
    before = {name: copy.deepcopy(_plain_attributes(m)) for name, m in own.named_modules()}
    try:
        _call(own, given)
    except Exception:  # noqa: BLE001  the export says what is wrong
        return
    for name, module in own.named_modules():
        for key, value in _plain_attributes(module).items():
            if key not in before.get(name, {}) or before[name][key] != value:
                whose = f"{name}.{key}" if name else key
                raise error(
                    f"the model's forward changes its attribute `{whose}` (from {before.get(name, {}).get(key)!r} to "
                    f"{value!r}), which a compiled program does not keep",
                    helps=(f"make it a buffer (`register_buffer`), or pass `{key}` as an argument",),
                )


_SIMPLE = (bool, int, float, str, tuple, list, dict, set, type(None))


def _plain_attributes(module: Any) -> dict[str, Any]:
    """Attributes that are numbers, words, or made of them."""
    return {
        k: v
        for k, v in vars(module).items()
        if not k.startswith("_") and isinstance(v, _SIMPLE) and not _has_tensor(v)
    }


def _has_tensor(value: Any) -> bool:
    return any(not isinstance(x, (bool, int, float, str, type(None))) for x in pytree.tree_leaves(value))


def _apart_from(model: Any) -> Any:
    """A copy whose calls change nothing of the model's; parameters are shared."""
    own = own_copy(model)
    if own is not model and isinstance(own, torch.nn.Module):
        for module in own.modules():
            for name, buffer in module._buffers.items():
                module._buffers[name] = None if buffer is None else buffer.detach().clone()
    return own


def unguarded(program: Any) -> Callable[..., Any]:
    """The exported program, callable at sizes that its guards keep out, with buffers of its own at every call."""
    module: list[Any] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if not module:
            module.append(program.module(check_guards=False))
            module[0].validate_inputs = False
        mutates = bool(program.graph_signature.buffers_to_mutate)
        return (copy.deepcopy(module[0]) if mutates else module[0])(*args, **kwargs)

    return call


def compared_with(
    reference: Any,
    who: str,
    imported: Imported,
    given: Arguments,
    dims: Sequence[Any],
    empty: bool = True,
    steady: bool = True,
) -> None:
    """CompileError where the program gives something else than the reference, at the sizes that are tried.

    Unless `empty`, arguments without elements are not among them; unless `steady`, values are not compared.
    """
    if sum(w.nbytes for w in imported.weights.values()) > _WEIGHTS:
        return
    call = interpreted(imported)
    statements = imported.module.function("main").body.statements
    steady = steady and not any(isinstance(s, Apply) and s.op.name in _UNSTEADY for s in statements)
    for point in _points(imported, given, dims):
        inputs = resized(given, dims, point, seed=1)
        if inputs is None or _elements(inputs) > _ELEMENTS or not (empty or all(_filled(inputs))):
            continue
        inputs = pytree.tree_map_only(torch.Tensor, _varied, inputs)
        at = ", ".join(f"{n} = {v}" for n, v in sorted(point.items())) or "the example"
        try:
            wanted = _call(_apart_from(reference) if isinstance(reference, torch.nn.Module) else reference, inputs)
        except Exception:  # noqa: BLE001  where the reference fails there is nothing to compare
            continue
        try:
            got = _call(call, inputs)
        except (CompileError, InterpretError) as failure:
            said = str(failure).split("\n")[0]
            raise _internal(f"{who} runs at {at}, and what was made of it does not: {said}") from failure
        difference = _difference(got, wanted, steady)
        if difference is not None:
            raise _internal(f"what was made of {who} differs from it at {at}: {difference}")


def _internal(message: str) -> CompileError:
    return error(message, helps=("this is a fault of the importer: report the model",))


def _points(imported: Imported, given: Arguments, dims: Sequence[Any]) -> Iterator[Mapping[str, int]]:
    """The example's sizes, and others next to what the facts keep out, one size at a time."""
    facts, example = facts_of(imported.module.function("main")), sizes_of(given, dims)
    yield example
    yield from islice(_others(facts, example), _POINTS)


def _others(facts: Sequence[Fact], example: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    for value in (0, 1):
        alike = dict.fromkeys(example, value)
        if _holds(Facts(facts), alike):
            yield alike
    speaking: dict[str, list[Fact]] = {}
    for fact in facts:
        for name in fact.symbols:
            speaking.setdefault(name, []).append(fact)
    for name, at in sorted(example.items()):
        about = Facts(speaking.get(name, ()))
        allowed = [n for n in range(_TRIED) if _holds(about, {**example, name: n})]
        near = [n for n in allowed if n - 1 not in allowed or n + 1 not in allowed]
        for n in dict.fromkeys((*allowed[:2], *near[1:4])):
            if n != at and (len(example) > 1 or n > 1):
                yield {**example, name: n}


def _holds(facts: Facts, values: Mapping[str, int]) -> bool:
    try:
        return facts.holds(values)
    except (KeyError, ZeroDivisionError):
        return False


def survives_nothing(program: Any) -> bool:
    """Whether torch's program can be run on tensors of no elements, without ending the process."""
    return all(str(n.target) not in _NOT_OF_NOTHING for n in program.graph.nodes)


def is_settled(program: Any) -> bool:
    """Whether the values of torch's program follow from its arguments: what `empty` holds is anything."""
    return not any("empty" in str(n.target) for n in program.graph.nodes if n.op == "call_function")


def _filled(given: Arguments) -> Iterator[bool]:
    return (x.numel() > 0 for x in pytree.tree_leaves(given) if isinstance(x, torch.Tensor))


def _elements(given: Arguments) -> int:
    return sum(x.numel() for x in pytree.tree_leaves(given) if isinstance(x, torch.Tensor))


def _varied(x: torch.Tensor) -> torch.Tensor:
    """Without equal elements, of which sorting would take any."""
    if not x.dtype.is_floating_point:
        return x
    noise = torch.rand(x.shape, generator=torch.Generator().manual_seed(2))
    return (x.detach() * (1 + 1e-2 * noise)).to(x.dtype)


def _call(function: Callable[..., Any], given: Arguments) -> Any:
    """What it gives for copies of the arguments, and the arguments as it leaves them."""
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda x: x.detach().clone(), given)
    with torch.no_grad():
        return function(*args, **kwargs), (args, kwargs)


def _difference(got: Any, wanted: Any, steady: bool) -> str | None:
    mine, own = pytree.tree_leaves(got), pytree.tree_leaves(wanted)
    if len(mine) != len(own):
        return f"{len(mine)} results, not {len(own)}"
    for a, b in zip(mine, own, strict=True):
        if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
            return f"a {type(a).__name__}, not a {type(b).__name__}"
        if not isinstance(b, torch.Tensor):
            if a != b and not (a != a and b != b):
                return f"{a!r}, not {b!r}"
        elif a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype} of shape {tuple(a.shape)}, not {b.dtype} of {tuple(b.shape)}"
        elif steady and (b.dtype.is_floating_point or b.dtype.is_complex) and _far(a, b):
            return "other values"
    return None


def _far(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether NaN is elsewhere, or a finite value is far off."""
    x, y = (torch.view_as_real(v.resolve_conj()) if v.dtype.is_complex else v for v in (a, b))
    x, y = x.double(), y.double()
    if not torch.equal(x.isnan(), y.isnan()):
        return True
    both = x.isfinite() & y.isfinite()
    scale = float(y[both].abs().max()) if bool(both.any()) else 0.0
    return bool(both.any()) and float((x - y)[both].abs().max()) > _TOLERANCE * max(scale, 1.0)


# ------------------------------------------------------------------------------------------- the program, interpreted


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
