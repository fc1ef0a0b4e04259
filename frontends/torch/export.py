"""From a module or an exported program to a module of ours."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...ir.build import ModuleBuilder
from ...ir.diagnostics import CompileError, error
from ...ir.facts import Fact, Facts
from ...ir.graph import GlobalRef
from ...ir.types import DType
from .advice import export_advice
from .aliasing import refuse_shared
from .complexes import Complex, is_complex, joined, pair_axis, part_dtype
from .context import NeedFact, is_tensor
from .devices import refuse_valueless
from .facts import Known, kept_ranges, known_facts
from .guards import guards, resolver
from .in_place import followed
from .ints import IntInput, bind_ints, conditions, facts_of, has_ints, only_values, slices_by_argument, symbols_of
from .names import Names, UserSizes, automatic, symbol_names
from .probe import Probe, Settle, example_of, without_state
from .program import Imported, Result
from .promote import dtype_of
from .retrace import reopened
from .sizes import Sizes, TorchNames
from .table import decompositions
from .trial import interpreted, is_large
from .walk import Walker, missing, missing_error
from .weights import Array, WeightStore, array_of, type_of

_ATTEMPTS = 64
"""Facts that a program may turn out to need, one an attempt."""


def import_torch(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> Imported:
    """A `torch.nn.Module` (exported with these arguments) or an `ExportedProgram` as a module of ours.

    CompileError when torch cannot export it (with our advice where we know better), when operators are missing (one
    error that lists all), or when a size has no meaning here.
    """
    if isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)):
        refuse_valueless(model)
    if isinstance(model, torch.export.ExportedProgram):
        return import_program(model, dynamic_shapes)
    if not isinstance(model, torch.nn.Module):
        raise error(f"a {type(model).__name__} is no torch.nn.Module and no ExportedProgram")
    program = export(model, args, kwargs, dynamic_shapes)
    return import_program(program, dynamic_shapes, example=Example(model, program, tuple(args), dict(kwargs or {})))


@dataclass(frozen=True)
class Example:
    """A model at hand, its program as exported, and the arguments of the export."""

    model: Any
    program: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def export(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, dynamic_shapes: Any) -> Any:
    """torch.export, asked not to treat sizes of 0 and 1 as special, nor arguments that share memory as one."""
    given: dict[str, Any] = {"dynamic_shapes": dynamic_shapes}
    args, kwargs = _apart(model, args, kwargs)
    try:
        with _quiet(), _every_size():
            program = torch.export.export(model, tuple(args), dict(kwargs or {}), **given)
        if not slices_by_argument(program):
            return program
        with _quiet(), _every_size(False), suppress(Exception):
            return torch.export.export(model, tuple(args), dict(kwargs or {}), **given)
        return program
    except Exception as first:
        again: list[tuple[AbstractContextManager[Any], dict[str, Any]]] = [(nullcontext(), given)]
        if "Constraints violated" in str(first):
            # torch asks more of the sizes than the model does; what the user said of them is checked by us instead.
            again.append((_every_size(), {"dynamic_shapes": automatic(dynamic_shapes)}))
        for mode, options in again:
            try:
                with _quiet(), mode:
                    return torch.export.export(model, tuple(args), dict(kwargs or {}), **options)
            except Exception:  # noqa: BLE001
                continue
        raise export_advice(first, args, kwargs) from first


def _apart(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> tuple[Sequence[Any], dict[str, Any]]:
    """The example's arguments, none of them the same tensor as another, or as a parameter or buffer of the model."""
    seen = set(map(id, (*model.parameters(), *model.buffers())))

    def own(x: Any) -> Any:
        if id(x) in seen:
            return x.detach().clone()
        seen.add(id(x))
        return x

    made: tuple[Sequence[Any], dict[str, Any]] = pytree.tree_map_only(
        torch.Tensor, own, (tuple(args), dict(kwargs or {}))
    )
    return made


@contextmanager
def _every_size(oblivious: bool = True) -> Iterator[None]:
    """Without what would settle sizes by the example's: torch's 0/1 rule, and its choice of memory formats.

    Unless `oblivious`, the 0/1 rule stays: without it torch does not relate the size of `x[:k]` to the argument k.

    torch's stand-in for a convolution asks which backend would run it, which fixes a size that happens to be 1 in the
    example; its meta kernel asks nothing (and strides are of no concern here).
    """
    from torch._subclasses import fake_impls
    from torch.fx.experimental import _config

    known = oblivious and hasattr(_config, "backed_size_oblivious")
    patched = _config.patch(backed_size_oblivious=True) if known else nullcontext()
    stand_ins = getattr(fake_impls, "op_implementations_dict", {})
    held = {op: stand_ins.pop(op) for op in (torch.ops.aten.convolution.default,) if op in stand_ins}
    try:
        with patched:
            yield
    finally:
        stand_ins.update(held)


def _quiet() -> AbstractContextManager[Any]:
    """Without torch's warnings about itself."""
    caught = warnings.catch_warnings()
    caught.__enter__()
    warnings.simplefilter("ignore")
    return _Closing(caught)


@dataclass
class _Closing(AbstractContextManager[None]):
    inner: Any

    def __exit__(self, *exc: object) -> None:
        self.inner.__exit__(*exc)


def decomposed(program: Any) -> Any:
    """The program in operators that have rows, as far as torch can decompose it."""
    ranges = kept_ranges(program, Sizes(TorchNames(), resolver(program)))
    with _quiet(), _every_size(not has_ints(program.graph)):
        return reopened(program, ranges).run_decompositions(decompositions())


def _plain(program: Any) -> bool:
    """Whether it can be taken as it is, which spares tracing it twice again."""
    return not missing(program.graph_module) and followed(program.graph_module) is not None


def import_program(
    program: Any, dynamic_shapes: Any = None, run_decompositions: bool = True, example: Example | None = None
) -> Imported:
    """An exported program; `dynamic_shapes`, if given, lends its names to the sizes, and `example` is for trying."""
    plain = _plain(program)
    core = program if plain or not run_decompositions else decomposed(program)
    absent = missing(core.graph_module)
    if absent:
        raise missing_error(absent)
    if example is not None:
        refuse_shared(core, example.args, example.kwargs)
    first = _Import(core, program, dynamic_shapes, example)
    imported = first.whole()
    if not (first.kept_out and plain and run_decompositions):
        return imported
    # torch wrote its sizes for those from 2 on (as quotients of what may be 0); traced anew it writes them for all.
    again = _Import(decomposed(program), program, dynamic_shapes, example)
    with suppress(CompileError):
        other = again.whole()
        return other if len(again.kept_out) < len(first.kept_out) else imported
    return imported


@dataclass
class _Import:
    """One import: attempts to build the function until no fact is missing."""

    program: Any
    original: Any
    """The program before it was decomposed."""
    dynamic_shapes: Any = None
    example: Example | None = None
    all_sizes: bool = False
    """Whether sizes are made of integer arguments even where they are values only."""
    kept_out: tuple[Fact, ...] = ()
    """Facts that keep out sizes which were tried, and at which the module does not do as the exported program."""
    extra: list[Fact] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def whole(self) -> Imported:
        """With integer arguments as values only where they are no more, or as sizes where that does not do."""
        try:
            return self.run()
        except CompileError:
            if not self.numbers:
                raise
            self.all_sizes, self.extra, self.notes = True, [], []
            return self.run()

    def run(self) -> Imported:
        program, original = self.program, self.original
        self.metas = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
        self.numbers = frozenset() if self.all_sizes else self._numbers()
        names = {s: n for s, n in symbol_names(program, self.dynamic_shapes).items() if s not in self.numbers}
        now, before = resolver(program), resolver(original)
        self.sizes = Sizes(names, lambda expr: now(before(expr)))
        self.of_tensors = self._symbols(torch.Tensor)
        self.symbols = self.of_tensors | self._symbols(torch.SymInt)
        user = UserSizes(program, self.dynamic_shapes)
        lower, said = user.lower(names), user.facts(self.sizes)
        more = () if program is original else guards(program, self.sizes)
        probe = self._probe(lower)
        settle: Settle = probe.settle if probe is not None else lambda fact: (fact,)
        known = known_facts(original, self.sizes, lower, self.symbols, settle, said, more)
        if probe is not None:
            self.extra += probe.small(self.symbols, Facts(known.facts), known.relaxed)
        clash = Facts(known.facts).contradiction()
        if clash:
            raise error(f"the exported program's facts contradict one another: {', '.join(map(str, clash))}")
        imported = self._within(known)
        if probe is None:
            trial = self._trial(imported, lower)
            found = trial.small(self.symbols, Facts(facts_of(imported.module.function("main"))), known.relaxed)
            self.kept_out = found
            self.extra += found
            imported = self._facts_needed(known) if found else replace(imported, notes=(*imported.notes, *trial.notes))
        return imported

    def _within(self, known: Known) -> Imported:
        """With the ranges that torch had, if the program has no meaning here for every size outside them."""
        try:
            return self._facts_needed(known)
        except CompileError as failure:
            if not known.relaxed:
                raise
            self.extra += [f for f in known.relaxed if f not in self.extra]
            try:
                imported = self._facts_needed(known)
            except CompileError:
                raise failure from None
            said = failure.diagnostics[0].message
            self.notes += [f"{f}: as torch has it, for it is needed here ({said})" for f in known.relaxed]
            return imported

    def _facts_needed(self, known: Known) -> Imported:
        for _ in range(_ATTEMPTS):
            try:
                return self._attempt(known)
            except NeedFact as need:
                if need.fact in self.extra or not need.fact.symbols or not need.fact.symbols <= self.symbols:
                    if isinstance(need.__cause__, CompileError):
                        raise need.__cause__ from None
                    raise error(f"{need.why}: {need.fact} does not hold") from None
                self.extra.append(need.fact)
                self.notes.append(f"{need.fact}: {need.why}")
        raise error("the program needs more facts than were tried", notes=tuple(self.notes))

    def _probe(self, lower: Mapping[str, int]) -> Probe | None:
        """Compares the exported program with the model itself."""
        given = self.example
        if given is None:
            return None
        mutates = bool(self.program.graph_signature.buffers_to_mutate)
        reference = without_state(lambda: given.model, mutates)
        candidate = without_state(self._unguarded(given.program), mutates)
        sizes, notes = self.sizes, self.notes
        return Probe(reference, candidate, given.program, given.args, given.kwargs, sizes, lower, notes=notes)

    def _trial(self, imported: Imported, lower: Mapping[str, int]) -> Probe:
        """Compares the module with the exported program, which is all there is of the model."""
        mutates = bool(self.program.graph_signature.buffers_to_mutate)
        reference = without_state(self._unguarded(self.original), mutates)
        candidate = reference if is_large(imported) else interpreted(imported)
        who, (args, kwargs) = "the exported program", example_of(self.original)
        return Probe(reference, candidate, self.original, args, kwargs, self.sizes, lower, who, 1, self.notes)

    @staticmethod
    def _unguarded(program: Any) -> Callable[[], Any]:
        """The exported program, callable at sizes that its guards keep out; built once, when it is wanted."""

        def build() -> Any:
            module = program.module(check_guards=False)
            module.validate_inputs = False
            return module

        return cache(build)

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

    def _numbers(self) -> frozenset[str]:
        """torch's symbols for integer arguments that are values only."""
        holders = [n for n in self.program.graph.nodes if n.op == "placeholder"]
        programs = (self.program, self.original)
        asked = [e for p in programs for e in conditions(p)]
        ranges = {s: r for p in programs for s, r in p.range_constraints.items()}
        return only_values(self.program.graph, asked, ranges, holders)

    def _attempt(self, known: Known) -> Imported:
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
        for spec in signature.input_specs:
            kind, name = spec.kind.name, getattr(spec.arg, "name", "")
            if kind == "USER_INPUT":
                inputs.append(self._input(spec.arg, name, len(inputs), params, values, fixed, written, taken))
                if isinstance(self.metas.get(name), torch.SymInt):
                    ints[inputs[-1] or ""] = self.metas[name]
            elif kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
                value = self._tensor(spec)
                if spec.target in mutated:
                    values[name] = own = taken.fresh(name)
                    params[own] = f"inout {type_of(value, spec.target)}"
                    state[own] = array_of(value)
                elif self._read(name):
                    values[name] = GlobalRef(self._weight(m, store, spec.target, value))
            elif kind == "TOKEN":
                raise error("programs with side effects (tokens) are not supported")
            else:
                raise error(f"an input of kind {kind} (`{name}`) is not supported", helps=("pass tensors",))
        facts = (*known.facts, *self.extra)
        b = m.function("main", params, [str(f) for f in facts if f.symbols <= self.of_tensors])
        numbers = {str(v.node.expr): b[p] for p, v in ints.items() if not symbols_of(v).isdisjoint(self.numbers)}
        bound = [IntInput(p, self.sizes.dim(v)) for p, v in ints.items() if symbols_of(v).isdisjoint(self.numbers)]
        bind_ints(b, bound, self.of_tensors, [f for f in facts if not f.symbols <= self.of_tensors])
        walker = Walker(b, self.sizes, numbers=numbers)
        for node in program.graph.nodes:
            if node.op == "placeholder" and node.name in values:
                held = values[node.name]
                walker.values[node] = b[held] if isinstance(held, str) else held
            elif node.op == "get_attr" and isinstance(_attribute(program, node), torch.Tensor):
                value = _attribute(program, node)
                walker.values[node] = GlobalRef(self._weight(m, store, node.target, value))
        outputs = walker.run(program.graph_module)
        results = self._outputs(b, outputs, values)
        notes = [*known.notes, *self.notes, *(f"checked at run time: {c}" for c in walker.checked)]
        specs = program.call_spec
        pairs = {v: b.type(b[v]).dtype for n, v in values.items() if v in inputs and is_complex(self.metas.get(n))}
        return Imported(
            m.build(), store.arrays, tuple(notes), tuple(inputs), fixed, results, state, specs.in_spec, specs.out_spec,
            pairs,
        )  # fmt: skip

    def _read(self, name: str) -> bool:
        return any(n.name == name and n.users for n in self.program.graph.nodes if n.op == "placeholder")

    def _tensor(self, spec: Any) -> Any:
        program = self.program
        return program.state_dict[spec.target] if spec.target in program.state_dict else program.constants[spec.target]

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


def _attribute(program: Any, node: Any) -> Any:
    return getattr(program.graph_module, node.target, None)
