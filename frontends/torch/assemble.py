"""From a graph of torch's and what is known of its sizes to a function of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ...ir.build import ModuleBuilder
from ...ir.diagnostics import error
from ...ir.dims import Dim
from ...ir.facts import Fact
from ...ir.graph import GlobalRef
from ...ir.types import DType
from .complexes import Complex, is_complex, joined, pair_axis, part_dtype
from .context import is_tensor
from .ints import IntInput, bind_ints, symbols_of
from .names import Names
from .program import Imported, Result
from .promote import dtype_of
from .sizes import Sizes
from .walk import Assumption, WalkAgain, Walker
from .weights import Array, WeightStore, array_of, type_of

_WALKS = 8
"""Walks over a graph: facts found to be needed late may settle sizes of what came before."""


@dataclass(frozen=True)
class Assembled:
    """What a program became: the function, the facts that its operators were found to need, and its nodes' values."""

    imported: Imported
    assumed: tuple[Assumption, ...]
    values: Mapping[Any, Any]
    shapes: Callable[[Any], tuple[Dim, ...]]
    """The sizes of a node that is a tensor."""


@dataclass
class Assembly:
    """One program; `sizes` reads its inputs' sizes, `numbers` are torch's symbols for integers that are no sizes."""

    program: Any
    sizes: Sizes
    numbers: frozenset[str]
    hints: Mapping[str, int]
    metas: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.metas = {n.name: n.meta.get("val") for n in self.program.graph.nodes if n.op == "placeholder"}
        self.of_tensors = self._symbols(torch.Tensor)
        self.symbols = self.of_tensors | self._symbols(torch.SymInt)

    def run(self, facts: Sequence[Fact]) -> Assembled:
        """The function under these facts, and those that are needed besides; CompileError where it has no meaning."""
        assumed: list[Assumption] = []
        made: Assembled | None = None
        for _ in range(_WALKS):
            try:
                made = self._walk((*facts, *(a.fact for a in assumed)))
            except WalkAgain as again:
                assumed += again.assumed
                continue
            assumed += made.assumed
            if not made.assumed:
                break
        if made is None:
            raise error("the program needs more facts than were tried", notes=tuple(map(str, assumed)))
        return replace(made, assumed=tuple(assumed))

    def _symbols(self, kind: type) -> frozenset[str]:
        """Symbols in the sizes of the user's tensors, or in integers that are sizes."""
        found: set[str] = set()
        for spec in self.program.graph_signature.input_specs:
            value = self.metas.get(getattr(spec.arg, "name", ""))
            if isinstance(value, kind) and spec.kind.name == "USER_INPUT":
                for d in value.shape if isinstance(value, torch.Tensor) else (value,):
                    if symbols_of(d).isdisjoint(self.numbers):
                        found |= self.sizes.dim(d).symbols
        return frozenset(found)

    def _walk(self, facts: Sequence[Fact]) -> Assembled:
        program = self.program
        signature = program.graph_signature
        m, store = ModuleBuilder(), WeightStore()
        values: dict[str, Any] = {}
        params: dict[str, str] = {}
        inputs: list[str | None] = []
        fixed: dict[int, object] = {}
        state: dict[str, Array] = {}
        ints: dict[str, Any] = {}  # integer parameters
        mutated = {*signature.buffers_to_mutate.values(), *getattr(signature, "parameters_to_mutate", {}).values()}
        written = set(signature.user_inputs_to_mutate.values())
        taken = Names(self.symbols)
        read = {n.name for n in program.graph.nodes if n.op == "placeholder" and n.users}
        for spec in signature.input_specs:
            kind, name = spec.kind.name, getattr(spec.arg, "name", "")
            if kind == "USER_INPUT":
                inputs.append(self._input(spec.arg, name, len(inputs), params, values, fixed, written, taken))
                if isinstance(self.metas.get(name), torch.SymInt):
                    ints[inputs[-1] or ""] = self.metas[name]
            elif kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
                value = tensor_of(program, spec)
                if spec.target in mutated:
                    values[name] = own = taken.fresh(name)
                    params[own] = f"inout {type_of(value, spec.target)}"
                    state[own] = array_of(value)
                elif name in read:
                    values[name] = GlobalRef(self._weight(m, store, spec.target, value))
            elif kind == "TOKEN":
                raise error("programs with side effects (tokens) are not supported")
            else:
                raise error(f"an input of kind {kind} (`{name}`) is not supported", helps=("pass tensors",))
        b = m.function("main", params, [f for f in facts if f.symbols <= self.of_tensors])
        bound = [IntInput(p, self.sizes.dim(v)) for p, v in ints.items() if symbols_of(v).isdisjoint(self.numbers)]
        bind_ints(b, bound, self.of_tensors, [f for f in facts if not f.symbols <= self.of_tensors])
        walker = Walker(b, self.symbols, hints=self.hints)
        for node in program.graph.nodes:
            if node.op == "placeholder" and node.name in values:
                held = values[node.name]
                walker.values[node] = b[held] if isinstance(held, str) else held
            elif node.op == "get_attr" and isinstance(attribute(program, node), torch.Tensor):
                walker.values[node] = GlobalRef(self._weight(m, store, node.target, attribute(program, node)))
        outputs = walker.run(program.graph_module)
        results = self._outputs(b, outputs, values)
        specs = program.call_spec
        pairs = {v: b.type(b[v]).dtype for n, v in values.items() if v in inputs and is_complex(self.metas.get(n))}
        imported = Imported(
            m.build(), store.arrays, (), tuple(inputs), fixed, results, state, specs.in_spec, specs.out_spec, pairs
        )
        return Assembled(imported, tuple(walker.assumed), walker.values, walker.shape)

    def _weight(self, m: ModuleBuilder, store: WeightStore, target: str, value: Any) -> str:
        name, new = store.add(target, value)
        if new:
            m.weight(name, type_of(value, target))
        return name

    def _input(
        self,
        argument: Any,
        name: str,
        at: int,
        params: dict[str, str],
        values: dict[str, Any],
        fixed: dict[int, object],
        written: set[str],
        taken: Names,
    ) -> str | None:
        """The parameter of a user input; None for what is no tensor."""
        value = self.metas.get(name)
        if isinstance(value, torch.Tensor):
            own = taken.fresh(name)
            dims = ", ".join(map(str, (*map(self.sizes.dim, value.shape), *pair_axis(value))))
            kind = f"{dtype_of(part_dtype(value.dtype), f'`{name}`')}[{dims}]"
            params[own] = f"inout {kind}" if name in written else kind
            values[name] = own
            return own
        if isinstance(value, torch.SymInt):
            own = taken.fresh(name)
            params[own] = "i64[]"
            values[name] = own if not symbols_of(value).isdisjoint(self.numbers) else self.sizes.dim(value)
            return own
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            raise error(f"the input `{name}` is a number that varies", helps=("pass it as a tensor",))
        fixed[at] = getattr(argument, "value", value)
        return None

    def _outputs(self, b: Any, outputs: Sequence[Any], values: Mapping[str, Any]) -> tuple[Result, ...]:
        """Ends the function: updates of what is written, then the results."""
        specs = self.program.graph_signature.output_specs
        targets = {s.target: s.arg.name for s in self.program.graph_signature.input_specs if s.target is not None}
        returned: list[Any] = []
        results: list[Result] = []
        for spec, value in zip(specs, outputs, strict=True):
            kind = spec.kind.name
            if kind in ("BUFFER_MUTATION", "PARAMETER_MUTATION"):
                b.update(values[targets[spec.target]], joined(b, value))
            elif kind == "USER_INPUT_MUTATION":
                b.update(values[spec.target], joined(b, value))
            elif kind == "USER_OUTPUT":
                results.append(self._result(b, spec, value, returned))
            else:
                raise error(f"an output of kind {kind} is not supported", helps=("export for inference",))
        b.span = None
        b.returns(*returned)
        return tuple(results)

    def _result(self, b: Any, spec: Any, value: Any, returned: list[Any]) -> Result:
        kind = {"SymIntArgument": "int", "SymFloatArgument": "float", "SymBoolArgument": "bool"}
        name = type(spec.arg).__name__
        if value is None or name == "ConstantArgument":
            return Result(constant=None if value is None else spec.arg.value)
        pairs = isinstance(value, Complex)
        value = joined(b, value)
        if not is_tensor(value):
            if isinstance(value, (bool, int, float)):
                return Result(constant=value)
            value = b.full(shape=(), value=value, dtype=DType.i64)
        returned.append(value)
        return Result(len(returned) - 1, None, "complex" if pairs else kind.get(name, "tensor"))


def attribute(program: Any, node: Any) -> Any:
    """What a `get_attr` node reads."""
    return getattr(program.graph_module, node.target, None)


def tensor_of(program: Any, spec: Any) -> Any:
    """The parameter, buffer or constant that an input of the graph is."""
    return program.state_dict[spec.target] if spec.target in program.state_dict else program.constants[spec.target]
