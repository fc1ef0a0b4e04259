"""Drawing the statements of one function: each is applied by the builder and evaluated at every binding at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from pliant.ir.build import FunctionBuilder
from pliant.ir.diagnostics import CompileError
from pliant.ir.dims import Dim
from pliant.ir.graph import GlobalRef, Operand, Var
from pliant.ir.types import DType, TensorType

from .numbers import LARGEST, Number, Numpy, Unwanted

T = TypeVar("T")
Sizes = Mapping[str, int]
Meaning = Callable[..., Number | tuple[Number, ...]]
"""`meaning(numpy, sizes, *numbers)`; a literal operand arrives as it is."""

MOST_ELEMENTS = 40_000


class Fails(Exception):
    """The call must fail at this binding, with this message."""


@dataclass(frozen=True)
class Value:
    """A value of the function, or a weight or constant."""

    operand: Operand
    type: TensorType
    name: str

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def dims(self) -> tuple[Dim, ...]:
        return self.type.dims

    @property
    def rank(self) -> int:
        return self.type.rank


@dataclass
class World:
    """One run at one binding: what every value is."""

    numpy: Numpy
    numbers: dict[str, Any]


@dataclass(frozen=True)
class Step:
    """A statement, to be evaluated again where its function is called."""

    targets: tuple[str, ...]
    operands: tuple[Any, ...]
    meaning: Meaning


@dataclass
class Drawing:
    """`runs[i]` are the worlds of binding i, the plain one first; `fails[i]` is why a call there must fail."""

    random: random.Random
    f: FunctionBuilder
    symbols: list[str]
    bindings: list[dict[str, int]]
    runs: list[list[World]]
    dtypes: Sequence[DType]
    special: bool = False
    may_fail: bool = False
    values: list[Value] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    fails: list[str] = field(default_factory=list)
    pinned: list[Value] = field(default_factory=list)
    refused: int = 0

    def __post_init__(self) -> None:
        self.fails = [""] * len(self.bindings)

    # -- choosing

    def one(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, fits: Callable[[Value], bool] = lambda v: True, recent: bool = True) -> Value:
        """A value that fits, more often than not a recent one."""
        fitting = [v for v in self.values if fits(v)]
        if not fitting:
            raise Unwanted
        return self.one(fitting[-6:] if recent and self.chance(0.6) else fitting)

    def real(self, rank: int = 0) -> Value:
        return self.pick(lambda v: v.dtype.is_float and v.rank >= rank)

    def integer(self) -> Value:
        return self.pick(lambda v: v.dtype.is_int)

    def truth(self) -> Value:
        return self.pick(lambda v: v.dtype.is_bool)

    def number(self, rank: int = 0) -> Value:
        return self.pick(lambda v: not v.dtype.is_bool and v.rank >= rank)

    def any_dtype(self) -> DType:
        return self.one(self.dtypes)

    def axis(self, x: Value) -> int:
        if not x.rank:
            raise Unwanted
        return self.random.randrange(x.rank)

    def dim(self, text: str) -> Dim:
        return self.f.dim(text)

    def size(self) -> Dim:
        """A size for a new dimension."""
        s = self.one(self.symbols or ["2"])
        return self.dim(
            self.one([s, s, "1", "2", "3", "4", f"2*{s}", f"{s} + 1", f"{s} + {self.one(self.symbols or ['1'])}"])
        )

    def offset(self) -> Dim:
        """A size expression that may be anything."""
        s = self.one(self.symbols or ["2"])
        forms = (s, f"{s} + 1", f"2*{s}", f"{s} // 2", f"ceildiv({s}, 2)", f"{s} % 3", f"min({s}, 3)", f"max({s}, 2)")
        return self.dim(self.one([*forms, f"max({s} - 1, 0)", "0", "1", "2", "3", "4"]))

    # -- statements

    def apply(self, op: str, operands: Sequence[Any], meaning: Meaning, **attributes: Any) -> list[Value]:
        """Applies an operator to values, numbers, sizes and None; Unwanted where that is refused or of no use."""
        mark = len(self.f.statements)
        given = [o.operand if isinstance(o, Value) else o for o in operands]
        try:
            made = getattr(self.f, f"{op}_")(*given, **attributes)
        except CompileError:
            self.refused += 1
            raise Unwanted from None
        try:
            return self.commit(made, operands, meaning)
        except Unwanted:
            del self.f.statements[mark:]
            raise

    def commit(self, made: Any, operands: Sequence[Any], meaning: Meaning) -> list[Value]:
        """Takes results of the builder as values, once numpy has given them."""
        results = made if isinstance(made, tuple) else (made,)
        new = [Value(var, self.type(var), name_of(var)) for var in results]
        step = Step(tuple(v.name for v in new), tuple(o.name if isinstance(o, Value) else o for o in operands), meaning)
        self._check_sizes(new)
        found, fails = self._evaluate(step, new)
        for worlds, numbers in zip(self.runs, found, strict=True):
            for world, row in zip(worlds, numbers, strict=True):
                world.numbers.update(zip(step.targets, row, strict=False))
        if fails != self.fails:
            self.pinned += new
        self.fails = fails
        self.steps.append(step)
        self.values += new
        return new

    def type(self, operand: Operand) -> TensorType:
        found = self.f.type(operand)
        assert isinstance(found, TensorType)
        return found

    def _check_sizes(self, values: Sequence[Value]) -> None:
        for sizes in self.bindings:
            for v in values:
                if np.prod([max(d.evaluate(sizes), 1) for d in v.dims]) > MOST_ELEMENTS:
                    raise Unwanted

    def _evaluate(self, step: Step, values: Sequence[Value]) -> tuple[list[list[tuple[Number, ...]]], list[str]]:
        fails = list(self.fails)
        found: list[list[tuple[Number, ...]]] = []
        for i, worlds in enumerate(self.runs):
            rows: list[tuple[Number, ...]] = []
            for k, world in enumerate(worlds):
                if fails[i]:
                    rows.append(())
                    continue
                try:
                    rows.append(evaluate(step, world, self.bindings[i]))
                except Fails as failure:
                    if k or not self.may_fail or any(v.type.size.evaluate(self.bindings[i]) == 0 for v in values):
                        raise Unwanted from None  # of no elements a check may be left out
                    fails[i] = str(failure)
                    rows.append(())
            if not fails[i]:
                self._check(values, rows[0], self.bindings[i])
            found.append(rows)
        return found, fails

    def _check(self, values: Sequence[Value], numbers: Sequence[Number], sizes: Sizes) -> None:
        for v, n in zip(values, numbers, strict=True):
            shape = tuple(d.evaluate(sizes) for d in v.dims)
            assert n.array.shape == shape, f"{self.f.statements[-1]}: numpy has {n.array.shape}, {v.type} is {shape}"
            assert n.dtype is v.dtype, f"{self.f.statements[-1]}: numpy has {n.dtype}, the type is {v.type}"
            if v.dtype.is_float:
                wide = n.array.astype(np.float64)
                finite = wide[np.isfinite(wide)]
                if np.abs(finite).max(initial=0) > LARGEST[v.dtype] or not (self.special or finite.size == wide.size):
                    raise Unwanted


def evaluate(step: Step, world: World, sizes: Sizes) -> tuple[Number, ...]:
    """One statement in one world."""
    numbers = [world.numbers[o] if isinstance(o, str) else o for o in step.operands]
    with np.errstate(all="ignore"):
        made = step.meaning(world.numpy, sizes, *numbers)
    return made if isinstance(made, tuple) else (made,)


def name_of(operand: Operand) -> str:
    if isinstance(operand, GlobalRef):
        return f"@{operand.name}"
    assert isinstance(operand, Var)
    return operand.name


def broadcasts(x: Value, to: Value) -> bool:
    """Whether two values' sizes are equal or written 1."""
    one = Dim.of(1)
    pairs = zip(reversed(x.dims), reversed(to.dims), strict=False)
    return all(a == b or one in (a, b) for a, b in pairs)
