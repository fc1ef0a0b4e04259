"""What a row of the operator table works with: the builder, the arguments of a call, conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.build import FunctionBuilder
from ...ir.diagnostics import CompileError, error
from ...ir.dims import Dim
from ...ir.facts import Compare, Fact
from ...ir.graph import GlobalRef, Operand, Var
from ...ir.types import DType, TensorType
from .promote import promoted

Value = Operand | Dim | bool | int | float | None
"""An argument of a torch operator: a tensor, a size, a number."""


class NeedFact(Exception):
    """A row needs a fact that the program did not say, and without which torch fails at run time too."""

    def __init__(self, fact: Fact, why: str) -> None:
        super().__init__(f"{fact}: {why}")
        self.fact, self.why = fact, why


class Args:
    """The arguments of a call by their names in torch's schema, defaults filled in."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        return self._values[name]

    def get(self, name: str, otherwise: Any = None) -> Any:
        return self._values.get(name, otherwise)

    def changed(self, values: dict[str, Any]) -> Args:
        """The same call with other values of some arguments."""
        return Args({**self._values, **values})


Result = Operand | tuple[Operand | None, ...] | list[Operand]
Row = Callable[["Context", Args], Result]


@dataclass
class Context:
    """One call: its expected result types (from torch's own shape propagation) and which results are used."""

    b: FunctionBuilder
    target: str
    outputs: tuple[TensorType, ...]
    """Of complex results those of their parts."""
    used: frozenset[int]
    complex_result: bool = False

    @property
    def dtype(self) -> DType:
        """The element type of the first result."""
        return self.outputs[0].dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.outputs[0].dims

    def op(self, name: str, *operands: Any, **attributes: Any) -> Operand:
        """An operator of ours with one result."""
        result: Operand = getattr(self.b, name)(*operands, **attributes)
        return result

    def type(self, x: Operand) -> TensorType:
        return self.b.type(x)

    def rank(self, x: Operand) -> int:
        return self.b.type(x).rank

    def to(self, x: Value, dtype: DType) -> Any:
        """A tensor converted; a number as one of that kind; a size as a scalar tensor."""
        if is_tensor(x):
            assert not isinstance(x, (Dim, bool, int, float))
            assert x is not None
            return self.converted(x, dtype)
        if isinstance(x, Dim):
            if x.is_const:
                return self.to(x.value, dtype)
            if dtype.is_bool:
                return self.op("ne", self.op("full", shape=(), value=x, dtype=DType.i64), 0)
            return self.op("full", shape=(), value=x, dtype=dtype)
        assert isinstance(x, (bool, int, float))
        if dtype.is_bool:
            return bool(x)
        return int(x) if dtype.is_int else float(x)

    def converted(self, x: Operand, dtype: DType) -> Operand:
        """A tensor in another element type, as torch converts it on x86: our `cast` but for floats to integers.

        Those lose their fraction in a wider integer (64 bits for i64 and u8, 32 for the others), of which the smallest
        number stands for all that it does not hold, NaN too, and wrap around from there.
        """
        source = self.type(x).dtype
        if source is dtype:
            return x
        if not (source.is_float and dtype.is_int):
            return self.op("cast", x, dtype=dtype)
        wide = DType.i64 if dtype in (DType.i64, DType.u8) else DType.i32
        beyond = math.inf if source is DType.f16 else 2.0 ** (wide.bits - 1)
        held = self.op("where", self.op("lt", x, beyond), x, -math.inf)  # `cast` gives the smallest number for -inf
        whole = self.op("cast", held, dtype=wide)
        return whole if wide is dtype else self.op("cast", whole, dtype=dtype)

    def tensor(self, x: Value, dtype: DType | None = None) -> Operand:
        """A number or size as a scalar tensor, a tensor as it is (or converted)."""
        kind = dtype or (self.type(x).dtype if is_tensor(x) else self.promoted(x))  # type: ignore[arg-type]
        made = self.to(x, kind)
        if isinstance(made, (bool, int, float)):
            return self.op("full", shape=(), value=made, dtype=kind)
        return made  # type: ignore[no-any-return]

    def promoted(self, *values: Value) -> DType:
        """What torch computes in for these operands."""
        kinds: list[TensorType | bool | int | float] = []
        for v in values:
            if is_tensor(v):
                kinds.append(self.type(v))  # type: ignore[arg-type]
            elif v is not None:
                kinds.append(1 if isinstance(v, Dim) else v)  # type: ignore[arg-type]
        return promoted(kinds)

    def axis(self, dim: int, x: Operand) -> int:
        """An axis counted from the start."""
        rank = max(self.rank(x), 1)
        if not -rank <= dim < rank:
            raise self.fail(f"axis {dim} is out of range for rank {rank}")
        return dim % rank

    def axes(self, dim: Sequence[int] | int | None, x: Operand, empty_is_all: bool = True) -> tuple[int, ...]:
        """Axes counted from the start; none are all.  A tensor without axes has none whatever is said."""
        rank = self.rank(x)
        if rank == 0:
            return ()
        listed = (dim,) if isinstance(dim, int) else tuple(dim or ())
        if not listed and empty_is_all:
            return tuple(range(rank))
        return tuple(sorted({self.axis(d, x) for d in listed}))

    def need(self, fact: Fact, why: str) -> None:
        """A fact that must hold; where it does not follow it is added to the program, which starts anew."""
        if not self.b.facts.prove(fact):
            raise NeedFact(fact, why)

    def need_elements(self, x: Operand, axes: Sequence[int]) -> None:
        """torch refuses this reduction of no elements at run time; so do we, by a fact."""
        for a in axes:
            self.need(Compare("<=", 1, self.type(x).dims[a]), f"`{self.target}` of no elements has no value")

    def fail(self, message: str, *helps: str) -> CompileError:
        return error(f"`{self.target}`: {message}", self.b.span, helps=helps)

    def reshaped(self, x: Operand, shape: Sequence[Dim | int]) -> Operand:
        """x in another shape, as it is where that is its own."""
        dims = tuple(map(Dim.of, shape))
        return x if self.type(x).dims == dims else self.op("reshape", x, shape=dims)

    def broadcast(self, x: Operand, shape: Sequence[Dim]) -> Operand:
        return x if self.type(x).dims == tuple(shape) else self.op("expand", x, shape=tuple(shape))


def is_tensor(x: object) -> bool:
    """Is it a value of the program (rather than a number or a size)?"""
    return isinstance(x, (Var, GlobalRef))
