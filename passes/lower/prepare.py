"""What depends on weights and constants alone is computed once, at load, instead of at every call.

`rsqrt(@variance + 1e-5)` of a batch norm, `cast(@w)` of a half-precision matrix, the sum of two biases: such values
move into a function of their own, and their readers see them as further weights.  A contraction then finds its factor
as a whole weight, and has it packed.  A view of a weight that is read on both sides is made on both.  What may refuse
its operands stays where it is: a call that does not need it must not find that nothing can be loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...ir import graph
from ...ir.diagnostics import CompileError
from ...ir.dims import Dim
from ...ir.facts import Facts
from ...ir.infer import infer_apply, operand_type
from ...ir.op import AliasOp, ContractOp, ElementOp, Pointwise, ReduceOp
from ...ir.size_values import may_fail
from ...ir.subs import map_operand, map_operands
from ...ir.types import TensorType, Type

SMALL = 1 << 20
"""Bytes of a value that is kept whoever reads it.  A larger one is kept if all of it is read, and it is no larger than
one of its weights: a row of `mul(@table, 3.0)` is not worth a copy of the table."""

_READS_ALL = (Pointwise, ReduceOp, ContractOp)


@dataclass(frozen=True)
class Prepared:
    """`module` has functions that read `values` as weights; `load`, of no parameters, makes them, in that order."""

    module: graph.Module
    load: graph.Function
    values: tuple[str, ...]


def prepare(module: graph.Module) -> Prepared:
    """Splits every function of a module that is free of calls and composite ops."""
    facts = Facts().add(*(f for w in module.weights for f in w.facts))
    inherited = frozenset(s for w in module.weights for d in w.type.dims for s in d.symbols)
    sources = {w.name: w.type for w in module.weights} | {c.name: c.type for c in module.consts}
    found = [_Split(f, facts, inherited, sources) for f in module.functions]
    taken = set(sources)
    further: list[graph.Weight] = []
    statements: list[graph.Statement] = []
    results: list[graph.Operand] = []
    functions: list[graph.Function] = []
    for split in found:
        prefix = f"{split.function.name}." if len(found) > 1 else ""
        names = {name: prefix + name for name in split.made}
        known: dict[str, str] = {}
        for name in split.read_outside():
            known[name] = _fresh(f"load.{names[name]}", taken)
            further.append(graph.Weight(known[name], split.types[name]))
            results.append(graph.Var(names[name]))
        statements.extend(_renamed(s, names) for s in split.load_statements())
        functions.append(split.rest(known))
    load = graph.Function(  # no name that a user can write
        "load.weights", (), tuple(w.type for w in further), (), (), graph.Block(tuple(statements), tuple(results))
    )
    whole = replace(module, weights=(*module.weights, *further), functions=tuple(functions))
    return Prepared(whole, load, tuple(w.name for w in further))


class _Split:
    """Finds the values of one function that are worth moving, `moved`, and with what those read, `made` at load."""

    def __init__(
        self,
        function: graph.Function,
        facts: Facts,
        inherited: frozenset[str],
        sources: dict[str, TensorType],
    ) -> None:
        self.function = function
        self.facts = facts
        self.inherited = inherited
        self.sources = sources
        self.types: dict[str, TensorType] = {}
        self.globals_of: dict[str, frozenset[str]] = {}  # a value that can be moved -> the globals it is made of
        self.computes: set[str] = set()  # values that took more than moving elements of one weight about
        self.readers: dict[str, list[graph.Statement | None]] = {}
        self.narrowed = _narrows(function, inherited)
        self.moved: set[str] = set()
        self.made: set[str] = set()
        for s in function.body.statements:
            self._note(s)
        for r in function.body.results:
            self._read(None, r)
        self._choose()

    # -- which values depend on weights and constants alone

    def _note(self, s: graph.Statement) -> None:
        for o in graph.operands_of(s):
            self._read(s, o)
        if not isinstance(s, graph.Apply) or not all(self._fixed(o) for o in s.operands):
            return
        types = [t.type for t in s.targets if isinstance(t.type, TensorType)]
        if any(d.symbols - self.inherited for t in types for d in t.dims) or s.op.dims() - self.inherited:
            return
        if may_fail(s, self._type_of, self.facts) or not self._known_at_load(s, types):
            return
        made_of = frozenset(w for o in s.operands for w in self._globals(o))
        if not made_of:
            return
        tensors = [o for o in s.operands if isinstance(o, (graph.Var, graph.GlobalRef))]
        computes = not _moves_elements(s, len(tensors)) or any(
            o.name in self.computes for o in tensors if isinstance(o, graph.Var)
        )
        for target, type_ in zip(s.targets, types, strict=True):
            self.types[target.name] = type_
            self.globals_of[target.name] = made_of
            self.computes |= {target.name} if computes else set()

    def _type_of(self, operand: graph.Operand) -> Type:
        return operand_type(operand, self.types, self.sources)

    def _known_at_load(self, s: graph.Apply, types: list[TensorType]) -> bool:
        """Whether the statement is right by the facts about weights, without those that only calls check."""
        if not self.narrowed:
            return True
        try:
            _, again = infer_apply(s.op, s.operands, self._type_of, self.facts)
        except CompileError:
            return False
        pairs = [(a, b) for t, u in zip(types, again, strict=True) for a, b in zip(t.dims, u.dims, strict=True)]
        return all(self.facts.prove_eq(a, b) for a, b in pairs)

    def _read(self, reader: graph.Statement | None, operand: graph.Operand) -> None:
        if isinstance(operand, graph.TupleValue):
            for item in operand.items:
                self._read(reader, item)
        elif isinstance(operand, graph.Var):
            self.readers.setdefault(operand.name, []).append(reader)

    def _fixed(self, operand: graph.Operand) -> bool:
        if isinstance(operand, graph.Var):
            return operand.name in self.globals_of
        if isinstance(operand, graph.DimValue):
            return operand.dim.symbols <= self.inherited
        return isinstance(operand, (graph.GlobalRef, graph.Literal, graph.NoneValue))

    def _globals(self, operand: graph.Operand) -> frozenset[str]:
        if isinstance(operand, graph.GlobalRef):
            return frozenset([operand.name])
        return self.globals_of[operand.name] if isinstance(operand, graph.Var) else frozenset()

    # -- which of them are worth it

    def _choose(self) -> None:
        """From the last statement to the first: a value moves with what it is made of where all its readers move, or
        where it is worth keeping.  One that does not, and is read by what moves, is made at load as well."""
        needed: set[str] = set()
        for s in reversed(self.function.body.statements):
            names = {t.name for t in graph.targets_of(s)}
            if names and names <= self.globals_of.keys() and all(self._worth(n) for n in names):
                self.moved |= names
            elif not names & needed:
                continue
            self.made |= names
            needed.update(o.name for o in graph.operands_of(s) if isinstance(o, graph.Var))

    def _worth(self, name: str) -> bool:
        outside = [r for r in self.readers.get(name, ()) if not self._moves(r)]
        if not outside:
            return True
        if name not in self.computes:
            return False
        type_ = self.types[name]
        if self.facts.prove_le(type_.size * type_.dtype.bytes, Dim.of(SMALL)):
            return True
        whole = all(isinstance(r, graph.Apply) and isinstance(r.op, _READS_ALL) for r in outside)
        return whole and any(self.facts.prove_le(type_.size, self.sources[w].size) for w in self.globals_of[name])

    def _moves(self, reader: graph.Statement | None) -> bool:
        return reader is not None and any(t.name in self.moved for t in graph.targets_of(reader))

    # -- the two halves

    def read_outside(self) -> Iterator[str]:
        """Moved values that stay in use here, in their order."""
        for s in self.load_statements():
            for t in graph.targets_of(s):
                if t.name in self.moved and any(not self._moves(r) for r in self.readers.get(t.name, ())):
                    yield t.name

    def load_statements(self) -> Iterator[graph.Statement]:
        return (s for s in self.function.body.statements if any(t.name in self.made for t in graph.targets_of(s)))

    def rest(self, known: dict[str, str]) -> graph.Function:
        """The function without what moved; `known` are the weights' names of moved values."""

        def operand(o: graph.Operand) -> graph.Operand:
            return graph.GlobalRef(known[o.name], o.span) if isinstance(o, graph.Var) and o.name in known else o

        body = self.function.body
        statements = tuple(map_operands(s, operand) for s in body.statements if not self._moves(s))
        results = tuple(map_operand(r, operand) for r in body.results)
        return replace(self.function, body=replace(body, statements=statements, results=results))


def _narrows(function: graph.Function, inherited: frozenset[str]) -> bool:
    """Whether calls may check more of the weights' symbols than loading does."""
    casts = any(isinstance(s, (graph.MatchCast, graph.Bind)) for s in function.body.statements)
    return casts or any(f.symbols & inherited for f in function.facts)


def _moves_elements(s: graph.Apply, tensors: int) -> bool:
    return isinstance(s.op, AliasOp) or (
        isinstance(s.op, ElementOp) and not isinstance(s.op, Pointwise) and tensors <= 1
    )


def _renamed(s: graph.Statement, names: dict[str, str]) -> graph.Statement:
    new = map_operands(s, lambda o: replace(o, name=names[o.name]) if isinstance(o, graph.Var) else o)
    assert isinstance(new, graph.Apply)
    return replace(new, targets=tuple(replace(t, name=names[t.name]) for t in new.targets))


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
