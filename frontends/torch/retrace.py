"""A program's graph among sizes of which less is known than torch knew when it traced it.

torch starts from sizes of at least 2 and refines that by what its operators ask.  To trace again without those bounds,
or to see what the operators alone ask for, the sizes of the inputs are made anew: the same expressions in the same
symbols, in an environment of their own, so that the program itself stays as it was.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.numbers import int_oo

_CHECKS = ("aten._assert_scalar.default", "aten._assert_async.msg", "aten._assert_tensor_metadata.default")

_OF_DATA = re.compile(r"(u|zuf)\d+")
"""torch's names of sizes that depend on data."""

Range = tuple[int, int | None]


def is_of_data(symbol: Any) -> bool:
    """Whether torch's symbol is a size that depends on data."""
    return _OF_DATA.fullmatch(str(symbol)) is not None


def shape_env(program: Any) -> Any:
    """The environment that the program was traced in, None for a program without symbolic sizes."""
    for node in program.graph.nodes:
        value = node.meta.get("val")
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor) and getattr(item, "fake_mode", None) is not None:
                return item.fake_mode.shape_env
            if isinstance(item, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                return item.node.shape_env
    return None


@dataclass
class _Fresh:
    """Stand-ins for the inputs of a program, in an environment of their own; `ranges` by torch's symbols."""

    program: Any
    ranges: Mapping[str, Range]
    least: int
    hints: Mapping[str, int] = field(default_factory=dict)
    """Sizes that stand for those of the example, by torch's symbols."""
    apart: bool = False
    """Whether sizes that torch has found equal are kept apart."""
    environment: Any = field(default_factory=ShapeEnv)

    def __post_init__(self) -> None:
        before = shape_env(self.program)
        for counter in ("unbacked_symint_counter", "unbacked_symfloat_counter"):
            if isinstance(getattr(before, counter, None), int):
                setattr(self.environment, counter, getattr(before, counter))  # names of sizes of data are not reused
        for symbol, known in getattr(before, "var_to_range", {}).items():
            if is_of_data(symbol):
                self.environment.constrain_symbol_range(symbol, known.lower, known.upper)
        self.mode = FakeTensorMode(shape_env=self.environment, allow_non_fake_inputs=True, export=True)

    def value(self, given: Any) -> Any:
        if isinstance(given, torch.SymInt):
            return self.size(given)
        if not isinstance(given, torch.Tensor):
            return given
        with self.mode:
            made = torch.empty_strided(
                [self.size(d) for d in given.shape],
                [self.size(d) for d in given.stride()],
                dtype=given.dtype,
                device=given.device,
            )
        return torch.nn.Parameter(made, given.requires_grad) if isinstance(given, torch.nn.Parameter) else made

    def size(self, given: Any) -> Any:
        if not isinstance(given, torch.SymInt):
            return given
        expr = given.node._expr if self.apart else given.node.expr
        for symbol in expr.free_symbols:
            self._symbol(symbol, given)
        values = {s: self.hints[str(s)] for s in expr.free_symbols if str(s) in self.hints}
        hint = expr.xreplace(values) if len(values) == len(expr.free_symbols) else given.node.hint
        return self.environment.create_symintnode(expr, hint=hint if hint is None else int(hint))

    def _symbol(self, symbol: Any, size: Any) -> None:
        if symbol in self.environment.var_to_range:
            return
        low, high = self.ranges.get(str(symbol), (self.least, None))
        self.environment.constrain_symbol_range(symbol, low, int_oo if high is None else high)
        hint = self.hints.get(str(symbol), _hint(symbol, size))
        if hint is not None:
            self.environment.add_backed_var_to_val(symbol, hint)


def _hint(symbol: Any, size: Any) -> int | None:
    """The example's value of a symbol, of which a program from a file may know a multiple only."""
    old = size.node.shape_env
    known = getattr(old, "backed_var_to_val", None)
    value = (old.var_to_val if known is None else known).get(symbol)
    if value is not None:
        return int(value)
    for at in range(1, 4096):
        if size.node.hint is not None and size.node.expr.xreplace({symbol: at}) == size.node.hint:
            return at
    return None


def reopened(
    program: Any, ranges: Mapping[str, Range], hints: Mapping[str, int] | None = None, apart: bool = False
) -> Any:
    """The program, to be traced again: of its sizes no more is known than `ranges`, and its guards are not in the way.

    A guard that is traced again is Python: of a `max` in it the one argument or the other is taken for the larger.
    """
    made = copy.copy(program)
    module = torch.fx.GraphModule(program.graph_module, copy.deepcopy(program.graph))
    module.meta.update(program.graph_module.meta)
    fresh = _Fresh(program, ranges, 0, hints or {}, apart)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            node.meta["val"] = fresh.value(node.meta.get("val"))
        elif node.op == "output":
            node.meta.pop("val", None)  # torch hands it on as it is
    made._graph_module = module
    made._example_inputs = None
    made._guards_code = []
    return made


class _Shapes(torch.fx.Interpreter):  # type: ignore[misc]
    """Runs a graph on sizes alone, without the assertions in it, and asks for layouts as tracing does."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if str(target) in _CHECKS:
            return None
        made = super().call_function(target, args, kwargs)
        for value in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(value, torch.Tensor):
                _layout(value)
        return made


def _layout(value: torch.Tensor) -> None:
    value.is_contiguous()
    if value.dim() == 4:
        value.is_contiguous(memory_format=torch.channels_last)
    if value.dim() == 5:
        value.is_contiguous(memory_format=torch.channels_last_3d)


def asked_by_operators(program: Any) -> Iterator[Any]:
    """What torch's operators ask of sizes from 2 on when the graph is run, as torch's expressions."""
    holders = [n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"]
    integers = {str(s) for v in holders if isinstance(v, torch.SymInt) for s in v.node.expr.free_symbols}
    fresh = _Fresh(program, dict.fromkeys(integers, (0, None)), 2)  # torch takes no integer for at least 2
    given = [fresh.value(v) for v in holders]
    try:
        with torch.no_grad(), fresh.mode:
            _Shapes(program.graph_module).run(*given)
    except Exception:  # noqa: BLE001  what was asked until then is known; the rest counts as the model's own
        pass
    yield from (guard.expr for guard in fresh.environment.guards)
