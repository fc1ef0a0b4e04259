"""Whole random modules: symbols with facts, weights and constants, functions that call one another, tuples, updates."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pliant.ir.build import FunctionBuilder, ModuleBuilder
from pliant.ir.diagnostics import CompileError
from pliant.ir.dims import Dim
from pliant.ir.graph import GlobalRef, Module
from pliant.ir.printer import print_module
from pliant.ir.types import DType, TensorType

from . import indexing, pointwise, products, reductions, shapes
from .drawing import Drawing, Fails, Sizes, Value, World, evaluate
from .numbers import RUNS, Array, Expected, Number, Numpy, Unwanted, expected, random_array
from .symbols import all_bindings, chosen, holds, random_facts

EVERY = (*[DType.f32] * 4, *DType)
NARROW = (*[DType.f16, DType.bf16] * 2, DType.i8, DType.u8, DType.bool, DType.f32, DType.i64)
"""Element types with few digits: where compiled code, the interpreter and numpy are likely to round differently."""
Form = tuple[Callable[[Drawing], None], float]
FORMS: tuple[Form, ...] = (*pointwise.FORMS, *shapes.FORMS, *reductions.FORMS, *indexing.FORMS, *products.FORMS)


@dataclass(frozen=True)
class Style:
    """What programs are like.  A plain one is one function, without globals and sizes that are bound late."""

    statements: tuple[int, int] = (12, 40)
    dtypes: Sequence[DType] = EVERY
    bindings: int = 4
    plain: bool = False


@dataclass
class Program:
    """A module; at every binding its arguments and weights, and what @main gives and updates or why it must fail."""

    seed: int
    module: Module
    bindings: list[dict[str, int]]
    arguments: list[dict[str, Any]]
    weights: list[dict[str, Array]]
    fails: list[str]
    results: list[list[Expected]] = field(default_factory=list)
    updates: list[dict[str, Expected]] = field(default_factory=list)
    forbidden: list[dict[str, Any]] = field(default_factory=list)  # arguments whose sizes the facts do not allow

    @property
    def text(self) -> str:
        return print_module(self.module, types=False)

    @property
    def compared(self) -> int:
        """How many arrays there are to compare."""
        return sum(map(len, self.results)) + sum(map(len, self.updates))


def program(seed: int, style: Style | None = None) -> Program | None:
    """The program of a seed; None where nothing came of it."""
    try:
        return _Maker(seed, style or Style()).program()
    except Unwanted:
        return None


@dataclass(frozen=True)
class _Param:
    name: str
    types: tuple[TensorType, ...]
    kind: str = "in"  # in, inout, tuple, size (an i64 that is bound), unranked (one that a match_cast gives its type)

    @property
    def text(self) -> str:
        if self.kind == "tuple":
            return f"({', '.join(map(str, self.types))}{',' if len(self.types) == 1 else ''})"
        if self.kind == "unranked":
            return f"{self.types[0].dtype}[*]"
        return ("inout " if self.kind == "inout" else "") + str(self.types[0])


@dataclass(frozen=True)
class _Helper:
    """A function that others call."""

    drawing: Drawing
    params: tuple[_Param, ...]
    results: tuple[Value, ...]
    facts: tuple[str, ...]


class _Maker:
    """Makes one program; `fixed` are the symbols that weights bind."""

    def __init__(self, seed: int, style: Style) -> None:
        self.seed, self.style, self.random = seed, style, random.Random(seed)
        self.special = self.random.random() < 0.12
        self.may_fail = self.random.random() < 0.25
        self.builder = ModuleBuilder()
        self.fixed: list[str] = []
        self.globals: list[tuple[GlobalRef, TensorType]] = []
        self.constants: dict[str, Array] = {}
        self.weights: list[dict[str, Array]] = []
        self.helpers: list[_Helper] = []

    def chance(self, probability: float) -> bool:
        return not self.style.plain and self.random.random() < probability

    def array(self, t: TensorType, sizes: Sizes, *salt: int) -> Array:
        rng = np.random.default_rng([self.seed, *salt])
        return random_array(rng, t.dtype, [d.evaluate(sizes) for d in t.dims], self.special)

    # -- the parts of a module

    def program(self) -> Program:
        rng = self.random
        names = rng.choice([["n"], ["n", "m"], ["n", "m"]])
        facts = random_facts(rng, names)
        self.fixed = ["h"] if self.chance(0.45) else []
        weight_facts = random_facts(rng, self.fixed)
        late = {s: rng.choice([f"{s} <= {names[0]} + 2", f"{s} in 0..5"]) for s in "qr" if self.chance(0.2)}
        every = [*facts, *weight_facts, *late.values()]
        allowed, not_allowed = all_bindings([*names, *self.fixed, *late], every)
        bindings = chosen(rng, allowed, self.style.bindings)
        self._globals(bindings, weight_facts)
        for i in range(rng.choice([0, 0, 1, 2]) if not self.style.plain else 0):
            self._helper(f"h{i}", bindings)
        return self._main(names, facts, late, bindings, not_allowed)

    def _globals(self, bindings: Sequence[Sizes], facts: Sequence[str]) -> None:
        rng = self.random
        if self.fixed or self.chance(0.2):
            for i in range(rng.randint(1, 2)):
                dims = (["h"] if self.fixed and not i else []) + [rng.choice([*self.fixed, "2", "3", "4"])]
                t = _tensor(rng.choice(self.style.dtypes), dims)
                self.globals.append((self.builder.weight(f"w{i}", t, where=() if i else facts), t))
        self.weights = [
            {ref.name: self.array(t, sizes, 77, i, k) for k, (ref, t) in enumerate(self.globals)}
            for i, sizes in enumerate(bindings)
        ]
        for k in range(rng.randint(0, 2) if not self.style.plain else 0):
            t = _tensor(rng.choice(self.style.dtypes), [str(rng.randint(1, 4)) for _ in range(rng.randint(0, 2))])
            value = self.array(t, {}, 78, k)
            if t.dtype.is_float and not np.isfinite(value.astype(np.float64)).all():
                value = np.zeros_like(value)
            self.constants[f"c{k}"] = value
            self.globals.append((self.builder.const(f"c{k}", t, _plain(value)), t))

    def _params(self, prefix: str, symbols: Sequence[str], pool: Sequence[str], main: bool) -> list[_Param]:
        rng = self.random
        params = []
        for i, s in enumerate(symbols):  # each symbol stands bare somewhere
            dims = [s, *(rng.choice(pool) for _ in range(rng.choice([0, 1, 1, 2])))]
            rng.shuffle(dims)
            params.append(_Param(f"{prefix}a{i}", (_tensor(rng.choice(self.style.dtypes), dims),)))
        for i in range(rng.randint(1, 4)):
            dims = [rng.choice(pool) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 3, 4]))]
            kind = "inout" if main and self.chance(0.25) else "in"
            params.append(_Param(f"{prefix}b{i}", (_tensor(rng.choice(self.style.dtypes), dims),), kind))
        if main and self.chance(0.2):
            items = [
                _tensor(rng.choice(self.style.dtypes), [rng.choice(pool) for _ in range(rng.randint(0, 2))])
                for _ in range(rng.randint(1, 3))
            ]
            params.append(_Param("pair", tuple(items), "tuple"))
        return params

    def _drawing(
        self, f: FunctionBuilder, params: Sequence[_Param], symbols: list[str], bindings: list[dict[str, int]],
        weights: Sequence[Mapping[str, Array]], may_fail: bool,
    ) -> tuple[Drawing, list[dict[str, Any]]]:  # fmt: skip
        """A function with its parameters and globals as first values, and its arguments at every binding."""
        arguments, runs = [], []
        for i, sizes in enumerate(bindings):
            made: dict[str, Any] = {}
            for k, p in enumerate(params):
                arrays = tuple(self.array(t, sizes, i, k, j, len(bindings)) for j, t in enumerate(p.types))
                made[p.name] = np.array(sizes["q"]) if p.kind == "size" else arrays if p.kind == "tuple" else arrays[0]
            arguments.append(made)
            numbers = {f"@{name}": Number(a, True) for name, a in {**weights[i], **self.constants}.items()}
            for p in params:
                given = made[p.name]
                numbers |= {f"{p.name}.{j}": Number(a, True) for j, a in enumerate(given)} if p.kind == "tuple" else {
                    p.name: Number(given, True)
                }  # fmt: skip
            moved = [np.random.default_rng([self.seed, i, k]) for k in range(RUNS)]
            runs.append([World(Numpy(rng), dict(numbers)) for rng in (None, *moved)])
        d = Drawing(self.random, f, symbols, bindings, runs, self.style.dtypes, self.special, may_fail)
        d.values += [Value(f[p.name], f.type(f[p.name]), p.name) for p in params if p.kind in ("in", "inout", "size")]
        d.values += [Value(ref, t, f"@{ref.name}") for ref, t in self.globals]
        return d, arguments

    def _statements(self, d: Drawing, count: int) -> None:
        forms, weights = zip(*FORMS, strict=True)
        for _ in range(8 * count):
            if len(d.steps) >= count or any(d.fails):
                break
            try:
                if self.helpers and self.random.random() < 0.1:
                    _call(d, self.random.choice(self.helpers), self.globals, self.fixed)
                else:
                    self.random.choices(forms, weights)[0](d)
            except Unwanted:
                continue

    def _helper(self, name: str, outer: Sequence[Sizes]) -> None:
        rng = self.random
        names = rng.choice([["a"], ["a", "b"]])
        facts = random_facts(rng, names)[:1] if self.chance(0.4) else []
        allowed, _ = all_bindings(names, facts)
        own = chosen(rng, allowed, 2)
        bindings = [{**s, **{f: outer[i % len(outer)][f] for f in self.fixed}} for i, s in enumerate(own)]
        symbols = [*names, *self.fixed]
        params = self._params(name, names, _pool(symbols), main=False)
        f = self.builder.function(name, {p.name: p.text for p in params}, where=facts)
        d, _ = self._drawing(
            f, params, symbols, bindings, [self.weights[i % len(outer)] for i in range(len(own))], False
        )
        self._statements(d, rng.randint(2, 6))
        inner = [v for v in d.values if not v.name.startswith("@")]
        results = tuple(rng.sample(inner[-4:], min(len(inner), rng.choice([1, 1, 2]))))
        f.returns(*(v.operand for v in results))
        self.helpers.append(_Helper(d, tuple(params), results, tuple(facts)))

    def _main(
        self, names: list[str], facts: list[str], late: Mapping[str, str], bindings: list[dict[str, int]],
        not_allowed: Sequence[dict[str, int]],
    ) -> Program:  # fmt: skip
        rng = self.random
        symbols = [*names, *self.fixed]
        params = self._params("", names, _pool(symbols), main=True)
        if "q" in late:
            params.append(_Param("count", (_tensor(DType.i64, []),), "size"))
        if "r" in late:
            kind = rng.choice([t for t in self.style.dtypes if not t.is_bool])
            params.append(
                _Param("free", (_tensor(kind, rng.choice([["r"], ["r", names[0]], ["2*r", "3"]])),), "unranked")
            )
        rng.shuffle(params)
        f = self.builder.function("main", {p.name: p.text for p in params}, where=facts)
        d, arguments = self._drawing(f, params, symbols, bindings, self.weights, self.may_fail)
        self._late(d, params, late)
        self._statements(d, rng.randint(*self.style.statements))
        updates = self._updates(d, params)
        results, groups = self._results(d, params)
        f.returns(*groups)
        made = Program(self.seed, self.builder.build(), bindings, arguments, self.weights, d.fails)
        for worlds, failure in zip(d.runs, d.fails, strict=True):
            made.results.append([] if failure else [_expected(worlds, v.name) for v in results])
            made.updates.append({} if failure else {p: _expected(worlds, v.name) for p, v in updates.items()})
        bound = [*facts, *late.values()]
        for k, sizes in enumerate(rng.sample(list(not_allowed), min(2, len(not_allowed)))):
            if not all(holds(fact, sizes) for fact in bound):  # it is the call that must refuse it, not the weights
                given, _ = self._arguments(params, {**sizes, **{s: bindings[0][s] for s in self.fixed}}, k)
                made.forbidden.append(given)
        return made

    def _arguments(self, params: Sequence[_Param], sizes: Sizes, salt: int) -> tuple[dict[str, Any], Sizes]:
        made: dict[str, Any] = {}
        for k, p in enumerate(params):
            arrays = tuple(self.array(t, sizes, 99, salt, k, j) for j, t in enumerate(p.types))
            made[p.name] = np.array(sizes["q"]) if p.kind == "size" else arrays if p.kind == "tuple" else arrays[0]
        return made, sizes

    def _late(self, d: Drawing, params: Sequence[_Param], late: Mapping[str, str]) -> None:
        """Symbols that a bind or a match_cast brings, and the fields of tuples."""
        for p in params:
            if p.kind == "size":
                d.f.bind("q", d.f[p.name], where=[late["q"]])
                d.symbols.append("q")
            elif p.kind == "unranked":
                cast = d.f.match_cast(d.f[p.name], str(p.types[0]), where=[late["r"]])
                d.symbols.append("r")
                d.commit(cast, [Value(d.f[p.name], p.types[0], p.name)], lambda n, s, a: a)
            elif p.kind == "tuple":
                for j, t in enumerate(p.types):
                    made = d.f.field(d.f[p.name], j)
                    d.commit(made, [Value(made, t, f"{p.name}.{j}")], lambda n, s, a: a)

    def _updates(self, d: Drawing, params: Sequence[_Param]) -> dict[str, Value]:
        updates = {}
        for p in params:
            fitting = (
                [v for v in d.values if v.type == d.f.type(d.f[p.name]) and v.name != p.name]
                if p.kind == "inout"
                else []
            )
            if fitting:
                updates[p.name] = self.random.choice(fitting)
                d.f.update(p.name, updates[p.name].operand)
        return updates

    def _results(self, d: Drawing, params: Sequence[_Param]) -> tuple[list[Value], list[Any]]:
        """What nothing else reads, above all; those where the call may fail; two in a tuple at times."""
        rng = self.random
        read = {o for step in d.steps for o in step.operands if isinstance(o, str)}
        inner = [v for v in d.values if not v.name.startswith("@")]
        loose = [v for v in inner if v.name not in read and all(v.name != p.name for p in params)]
        picked = [*d.pinned, *rng.sample(loose, min(len(loose), rng.choice([2, 3, 4, 6])))]
        if rng.random() < 0.5 or not picked:
            picked += rng.sample(inner, min(len(inner), 2))
        values = [v for i, v in enumerate(picked) if v not in picked[:i]]
        operands: list[Any] = [v.operand for v in values]
        if len(values) >= 3 and self.chance(0.3):
            operands = [tuple(operands[:2]), *operands[2:]]
        return values, operands


def _tensor(dtype: DType, dims: Sequence[str]) -> TensorType:
    from pliant.ir.parser import parse_type

    made = parse_type(f"{dtype}[{', '.join(dims)}]")
    assert isinstance(made, TensorType)
    return made


def _pool(symbols: Sequence[str]) -> list[str]:
    """Sizes that parameters have."""
    pool = [*symbols, "1", "2", "3", "4", *(f"2*{s}" for s in symbols), *(f"{s} + 1" for s in symbols)]
    return [*pool, f"{symbols[0]} + {symbols[1]}"] if len(symbols) > 1 else pool


def _plain(array: Array) -> Any:
    return (array.astype(np.float64) if DType.of(array.dtype).is_float else array).tolist()


def _expected(worlds: Sequence[World], name: str) -> Expected:
    return expected(worlds[0].numbers[name], [w.numbers.get(name) for w in worlds[1:]])


def _call(d: Drawing, helper: _Helper, globals_: Sequence[tuple[GlobalRef, TensorType]], fixed: Sequence[str]) -> None:
    """Calls a function with values that its parameter types match."""
    found: dict[str, Dim] = {s: Dim.of(s) for s in fixed}
    arguments = []
    for p in helper.params:
        (t,) = p.types
        fitting = [(v, m) for v in d.values if (m := _match(t, v, found)) is not None]
        if not fitting:
            raise Unwanted
        value, found = d.one(fitting)
        arguments.append(value)
    for sizes in d.bindings:
        if not all(holds(fact, {s: size.evaluate(sizes) for s, size in found.items()}) for fact in helper.facts):
            raise Unwanted
    mark = len(d.f.statements)
    try:
        made = d.f.call(helper.drawing.f.name, *(a.operand for a in arguments), results=len(helper.results))
    except CompileError:
        raise Unwanted from None
    names = [*(p.name for p in helper.params), *(f"@{ref.name}" for ref, _ in globals_)]
    shared = [Value(ref, t, f"@{ref.name}") for ref, t in globals_]

    def meaning(n: Numpy, sizes: Sizes, *numbers: Number) -> tuple[Number, ...]:
        world = World(n, dict(zip(names, numbers, strict=True)))
        inner = {s: size.evaluate(sizes) for s, size in found.items()}
        for step in helper.drawing.steps:
            world.numbers.update(zip(step.targets, evaluate(step, world, inner), strict=True))
        return tuple(world.numbers[r.name] for r in helper.results)

    try:
        d.commit(made, [*arguments, *shared], meaning)
    except (Unwanted, Fails):
        del d.f.statements[mark:]
        raise Unwanted from None


def _match(t: TensorType, value: Value, found: Mapping[str, Dim]) -> dict[str, Dim] | None:
    """The symbols of a parameter's type that make it the value's."""
    if t.dtype is not value.dtype or t.rank != value.rank:
        return None
    known = dict(found)
    for wanted, have in zip(t.dims, value.dims, strict=True):
        if wanted.name is not None and known.setdefault(wanted.name, have) != have:
            return None
    if any(not d.symbols <= known.keys() for d in t.dims):
        return None
    return known if all(d.subs(known) == have for d, have in zip(t.dims, value.dims, strict=True)) else None
