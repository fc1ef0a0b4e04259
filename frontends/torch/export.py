"""torch's programs as modules of ours: the strategy of an import.

**A module** with example arguments (`import_torch`):

1. torch.export traces it once, with every size of `dynamic_shapes` left open. It runs on a copy of the model with
   attributes of its own; sizes of 0 and 1 in the example give way to others, which stand for all (`trace.py`).
2. The contract is read: parameters, weights, what is written; the user's Dims are the facts that are given.
3. The graph is walked with **our own inference** of every size (`walk.py`, `arithmetic.py`). torch's expressions are
   not looked at: they hold for the sizes that torch assumed. What an operator needs of sizes becomes a fact.
4. The graph stands for the path that the model's code took. For every guard that the facts do not imply, the model is
   traced at sizes on its other side, and the *graphs* compared (`paths.py`). A guard stays unless they are the same.
5. What was found is compared with what the Dims allow. A fact that keeps out sizes at which the model does something is
   an error with its reason and the line, unless `allow_narrowing`; one without which the model fails is a note.
6. The example must satisfy every fact, and the program is run next to the model around every bound (`check.py`).

**An exported program** (`import_program`) comes without its model: its graph is what it means. Its ranges are the facts
that are given, without bounds that follow from torch's 0/1 rule alone (with a note); guards that Python code asked for
stay; the operators' own are asked anew by our inference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...ir.diagnostics import CompileError, error
from ...ir.dims import Dim
from ...ir.facts import Compare, Fact, Facts
from .advice import export_advice
from .aliasing import refuse_shared
from .assemble import Assembled, Assembly
from .check import compared_with, fails, is_settled, refuse_changed_attributes, survives_nothing, unguarded
from .conditions import Clause
from .devices import refuse_valueless
from .examples import Arguments, dims_of, example_of, metas_of, resized, sizes_of
from .facts import kept_ranges, known_facts
from .guards import Guard, from_two_on, made_a_number, path_conditions, resolver
from .in_place import followed
from .ints import conditions, has_ints, only_values
from .names import UserSizes, automatic, input_names, symbol_names
from .narrowing import Found, report
from .paths import Failed, Kept, Paths, Point, Traced
from .program import Imported
from .readable import readable
from .sizes import Sizes, TorchNames
from .trace import Questions, exported, in_core, own_copy
from .walk import missing, missing_error

_ROUNDS = 8
_GENERIC = (5, 3, 7, 4, 6, 11, 2, 9, 10, 13)
"""Sizes that stand in the example for those of 0 and 1."""


def import_torch(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    allow_narrowing: bool = False,
) -> Imported:
    """A `torch.nn.Module` (exported with these arguments) or an `ExportedProgram` as a module of ours.

    CompileError when torch cannot export it (with our advice where we know better), when operators are missing (one
    error that lists all), when a size has no meaning here, or when fewer sizes are right than `dynamic_shapes` allow.
    """
    if isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)):
        refuse_valueless(model)
    if isinstance(model, torch.export.ExportedProgram):
        return import_program(model, dynamic_shapes)
    if not isinstance(model, torch.nn.Module):
        raise error(f"a {type(model).__name__} is no torch.nn.Module and no ExportedProgram")
    given = (tuple(args), dict(kwargs or {}))
    plain = _ModuleImport(model, given, dynamic_shapes, allow_narrowing)
    try:
        return plain.run()
    except CompileError:
        if not plain.has_numbers:
            raise
    return _ModuleImport(model, given, dynamic_shapes, allow_narrowing, all_sizes=True).run()


# ------------------------------------------------------------------------------------------------------ modules


@dataclass(frozen=True)
class _Trace:
    """A program as it was traced at `given`, in operators that have rows, and its sizes by the user's names."""

    program: Any
    core: Any
    given: Arguments
    asked: Questions
    user: UserSizes
    sizes: Sizes
    numbers: frozenset[str]
    oblivious: bool

    @property
    def dims(self) -> list[Any]:
        return dims_of(metas_of(self.program), self.sizes)

    def at(self, given: Arguments) -> dict[str, int]:
        """The values of sizes at other arguments."""
        return sizes_of(given, self.dims)

    def guards(self) -> tuple[Guard, ...]:
        own = path_conditions(self.program, self.asked, self.sizes)
        if not self.oblivious:
            least = from_two_on(self.program, self.sizes)
            own = (*own, *(Guard(Clause((Compare(">=", r.dim, 2),)), own=False) for r in least))
        return own

    def assembled(self, facts: Sequence[Fact]) -> Assembled:
        return Assembly(self.core, self.sizes, self.numbers, self.at(self.given)).run(facts)


@dataclass
class _ModuleImport:
    """One import of a module."""

    model: Any
    given: Arguments
    dynamic_shapes: Any
    allow_narrowing: bool
    all_sizes: bool = False
    """Whether sizes are made of integer arguments even where they are values only."""
    strict: bool = False
    """Whether torch reads the model's code rather than running it."""
    oblivious: bool = True
    """Whether torch takes sizes of 0 and 1 for sizes like others; some of its code fails then."""
    has_numbers: bool = False
    settled: dict[str, Dim] = field(default_factory=dict)
    """Sizes left to torch (`Dim.AUTO`) that were found to be a number, or made of others."""

    def run(self) -> Imported:
        refuse_changed_attributes(self.model, self.given)
        program, traced_at, asked = self._first()
        core, more = _core(program)
        refuse_shared(core, *self.given)
        for _ in range(_ROUNDS):
            first = self._read(program, core, traced_at, (*asked, *more))
            self.has_numbers = bool(first.numbers)
            stated, promised = first.user.stated(first.sizes), first.user.promised(first.sizes)
            _satisfied(first.at(self.given), stated, "dynamic_shapes say so")
            made = first.assembled(stated)
            found = [Found(a.fact, a.why, a.place, a.narrows) for a in made.assumed]
            paths = Paths(Traced(core, made, first.guards()), first.at(traced_at), self._tracer(first))
            kept = paths.kept(Facts((*stated, *(f.fact for f in found))))
            found += [_found(k, first.sizes) for k in kept]
            settled = _settled(found, promised)
            if not settled:
                break
            self.settled = {**{s: d.subs(settled) for s, d in self.settled.items()}, **settled}
        notes = report(found, promised, first.user, self.allow_narrowing)
        if kept:
            made = first.assembled((*stated, *(f.fact for f in found)))
        for f in found:
            _satisfied(first.at(self.given), (f.fact,), str(f))
        imported = replace(made.imported, notes=(*notes, *paths.notes))
        compared_with(self.model, "the model", imported, self.given, first.dims, steady=is_settled(core))
        return imported

    def _first(self) -> tuple[Any, Arguments, Questions]:
        """The program that is served, and the arguments that it was traced at: the example's, but of sizes of 0 and 1.

        What is asked of a size that is 1 holds for that size alone, and would be a fact of the program.
        """
        program, asked = self._traced_somehow()
        if made_a_number(asked):
            shapes = automatic(self.dynamic_shapes)
            with suppress(Exception):
                read = exported(own_copy(self.model), *self.given, shapes, True, self.oblivious)
                if not made_a_number(read[1]):
                    (program, asked), self.strict = read, True
        seen = self._read(program, program, self.given, asked)
        example, stated = seen.at(self.given), Facts(seen.user.stated(seen.sizes))
        free = iter(_GENERIC)
        point = {n: v if v > 1 else next(free, v) for n, v in example.items()}
        others = resized(self.given, seen.dims, point) if point != example and _allowed(stated, point) else None
        if others is not None:
            with suppress(Exception):
                program, asked = self._traced_at(others)
                return program, others, asked
        return program, self.given, asked

    def _traced_somehow(self) -> tuple[Any, Questions]:
        """With sizes of 0 and 1 like others, or as torch has it where it fails so."""
        try:
            return self._traced_at(self.given)
        except Exception as failure:  # whatever torch or the model raises
            self.oblivious = False
            with suppress(Exception):
                program, asked = self._traced_at(self.given)
                user = UserSizes(program, self.dynamic_shapes)
                if all(isinstance(size, torch.SymInt) for _, _, size, _ in user.open_sizes()):
                    return program, asked
            raise export_advice(failure, *self.given) from failure

    def _traced_at(self, given: Arguments, fixed: frozenset[str] = frozenset()) -> tuple[Any, Questions]:
        shapes = automatic(self.dynamic_shapes, fixed)
        return exported(own_copy(self.model), *given, shapes, self.strict, self.oblivious)

    def _read(
        self,
        program: Any,
        core: Any,
        given: Arguments,
        asked: Questions,
        like: _Trace | None = None,
    ) -> _Trace:
        """By the names of another trace, in which no size that moves was a number."""
        if like is not None:
            numbers = like.numbers
        else:
            numbers = frozenset[str]() if self.all_sizes else number_symbols(program, core)
        named = input_names(program, self.dynamic_shapes)
        names = {s: Dim.of(n).subs(self.settled) for s, n in named.items() if s not in numbers}
        if like is not None:
            names = {**like.sizes.names, **names}  # type: ignore[dict-item]
        user = UserSizes(program, self.dynamic_shapes)
        return _Trace(program, core, given, asked, user, Sizes(names, apart=True), numbers, self.oblivious)

    def _tracer(self, first: _Trace) -> Callable[[Point, Facts], Traced | Failed]:
        def trace(point: Point, region: Facts) -> Traced | Failed:
            """The model traced at other sizes; those of 0 and 1 as numbers, where it cannot be as sizes."""
            given = resized(first.given, first.dims, point)
            if given is None:
                return Failed("it was not traced", refused=False)
            special = frozenset(name for name, value in point.items() if value in (0, 1))
            for fixed in (frozenset[str](), special) if special else (frozenset[str](),):
                try:
                    return self._retraced(first, given, region, fixed)
                except Exception as failure:  # noqa: BLE001  whatever torch or the model raises
                    said = str(failure).strip().split("\n")[0]
            return Failed(f"it cannot be traced ({said})", fails(self.model, given))

        return trace

    def _retraced(self, first: _Trace, given: Arguments, region: Facts, fixed: frozenset[str]) -> Traced:
        program, asked = self._traced_at(given, fixed)
        core, more = _core(program)
        seen = self._read(program, core, given, (*asked, *more), first)
        made = seen.assembled(region.facts)
        return Traced(seen.core, made, (*seen.guards(), *_pinned(first.dims, metas_of(program), given)))


def _pinned(dims: Sequence[Any], metas: Sequence[Any], given: Arguments) -> tuple[Guard, ...]:
    """Sizes that are numbers in a trace, for which alone it stands: torch makes them so without asking."""
    facts: list[Compare] = []
    for dim, meta, leaf in zip(dims, metas, pytree.tree_leaves(given), strict=False):
        if isinstance(meta, torch.Tensor):
            facts += [Compare("==", d, n) for d, n in zip(dim, meta.shape, strict=True) if isinstance(n, int)]
        elif isinstance(dim, Dim) and not isinstance(meta, torch.SymInt):
            facts.append(Compare("==", dim, leaf))
    return tuple(Guard(Clause((f,)), own=False) for f in facts if f.symbols)


def _core(program: Any) -> tuple[Any, Questions]:
    """The program in operators that have rows, and what decomposing it asked."""
    core = program
    asked: Questions = ()
    if not is_plain(program):
        core, asked = in_core(program, {}, oblivious=not has_ints(program.graph), apart=True)
    absent = missing(core.graph_module)
    if absent:
        raise missing_error(absent)
    return core, asked


def _found(kept: Kept, sizes: Sizes) -> Found:
    """With the line that asks, which is named where a call is refused, too."""
    place = kept.guard.place
    fact = replace(readable(kept.guard.clause.fact(sizes)), span=None if place is None else place.span)
    return Found(fact, kept.why, place, narrows=not kept.refused)


def _settled(found: Sequence[Found], promised: frozenset[str]) -> dict[str, Dim]:
    """A size left to torch that is found to be a number, or made of others."""
    for f in found:
        if isinstance(f.fact, Compare) and f.fact.op == "==":
            for a, b in ((f.fact.lhs, f.fact.rhs), (f.fact.rhs, f.fact.lhs)):
                free = a.name is not None and a.name not in promised and a.name not in b.symbols
                if free and all(isinstance(x, str) for x in b.atoms):
                    return {a.name or "": b}
    return {}


def _allowed(facts: Facts, values: Mapping[str, int]) -> bool:
    try:
        return facts.holds(values)
    except (KeyError, ZeroDivisionError):
        return False


def _satisfied(example: Mapping[str, int], facts: Sequence[Fact], why: str) -> None:
    """The example's own sizes must be among those that are allowed."""
    for fact in facts:
        if fact.symbols <= example.keys() and not _allowed(Facts((fact,)), example):
            sizes = ", ".join(f"{s} = {example[s]}" for s in sorted(fact.symbols))
            raise error(
                f"the sizes of the example are not allowed: {fact}, but there {sizes}",
                notes=(why,),
                helps=("the sizes of the example lie in the bounds of their Dims: change the example, or min and max",),
            )


# --------------------------------------------------------------------------------------------- exported programs


def is_plain(program: Any) -> bool:
    """Whether it can be taken as it is, which spares tracing it twice again."""
    return not missing(program.graph_module) and followed(program.graph_module) is not None


def number_symbols(*programs: Any) -> frozenset[str]:
    """torch's symbols for integer arguments that are values only; the last of the programs is the one to be walked."""
    graph = programs[-1].graph
    asked = [e for p in programs for e in conditions(p)]
    ranges = {s: r for p in programs for s, r in p.range_constraints.items()}
    return only_values(graph, asked, ranges, [n for n in graph.nodes if n.op == "placeholder"])


def export(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, dynamic_shapes: Any) -> Any:
    """torch.export's program, traced as an import traces it, with every Dim left open.

    CompileError with our advice where torch fails.
    """
    try:
        return exported(model, tuple(args), dict(kwargs or {}), automatic(dynamic_shapes))[0]
    except Exception as failure:  # whatever torch or the model raises
        raise export_advice(failure, args, kwargs) from failure


def decomposed(program: Any) -> Any:
    """An exported program in operators that have rows, as far as torch can decompose it."""
    ranges = kept_ranges(program, Sizes(TorchNames(), resolver(program)))
    core, _ = in_core(program, ranges, oblivious=not has_ints(program.graph))
    return core


def import_program(program: Any, dynamic_shapes: Any = None, run_decompositions: bool = True) -> Imported:
    """An exported program; `dynamic_shapes`, if given, lends its names to the sizes."""
    core = program if is_plain(program) or not run_decompositions else decomposed(program)
    absent = missing(core.graph_module)
    if absent:
        raise missing_error(absent)
    numbers = number_symbols(program, core)
    try:
        return _program_imported(program, core, dynamic_shapes, numbers)
    except CompileError:
        if not numbers:
            raise
        return _program_imported(program, core, dynamic_shapes, frozenset())


def _program_imported(program: Any, core: Any, dynamic_shapes: Any, numbers: frozenset[str]) -> Imported:
    names = {s: n for s, n in symbol_names(core, dynamic_shapes).items() if s not in numbers}
    now, before = resolver(core), resolver(program)
    sizes = Sizes(names, lambda expr: now(before(expr)))
    user, dims = UserSizes(core, dynamic_shapes), dims_of(metas_of(core), sizes)
    given = example_of(program)
    assembly = Assembly(core, sizes, numbers, sizes_of(given, dims))
    known = known_facts(program, sizes, user.lower(names), assembly.symbols, user.facts(sizes))
    clash = Facts(known.facts).contradiction()
    if clash:
        raise error(f"the exported program's facts contradict one another: {', '.join(map(str, clash))}")
    made = assembly.run(known.facts)
    notes = (*known.notes, *(str(a) for a in made.assumed))
    imported = replace(made.imported, notes=notes)
    empty, steady = survives_nothing(program), is_settled(program)
    compared_with(unguarded(program), "the exported program", imported, given, dims, empty, steady)
    return imported
