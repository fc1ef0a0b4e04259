"""What a row of the operator table works with: the builder, the arguments of a call, conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...ir.build import FunctionBuilder
from ...ir.diagnostics import CompileError, error
from ...ir.dims import Dim
from ...ir.facts import Compare, Fact
from ...ir.graph import GlobalRef, Operand, Var
from ...ir.types import DType, TensorType
from .arithmetic import Arithmetic
from .promote import promoted

Value = Operand | Dim | bool | int | float | None
"""An argument of a torch operator: a tensor, a size, a number."""


class Assumed(Protocol):
    """Takes a fact that a row needs; CompileError where it cannot hold.

    `narrows` says that torch does something else where it does not hold; otherwise torch fails there too.
    """

    def __call__(self, fact: Fact, why: str, narrows: bool = False) -> None: ...


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
    """One call: element types and ranks of its results as torch has them, and which of them are used.

    Their sizes are for the row to infer.
    """

    b: FunctionBuilder
    target: str
    dtypes: tuple[DType, ...]
    ranks: tuple[int, ...]
    used: frozenset[int]
    assume: Assumed
    complex_result: bool = False
    """Then `dtypes` are those of the parts."""

    @property
    def dtype(self) -> DType:
        """The element type of the first result."""
        return self.dtypes[0]

    @property
    def arithmetic(self) -> Arithmetic:
        """For sizes that a row computes of others."""
        return Arithmetic(self.b, self.assume)

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

    def need(self, fact: Fact, why: str, narrows: bool = False) -> None:
        """A fact that must hold; where it does not follow the program is given it, and every call is checked."""
        if not self.b.facts.prove(fact):
            self.assume(fact, why, narrows)

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

    def common(self, *shapes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The shape that others broadcast to; sizes that are not known to be equal are to be."""
        one, rank = Dim.of(1), max(map(len, shapes))
        out: list[Dim] = []
        for back in range(rank, 0, -1):
            sizes = [s[-back] for s in shapes if len(s) >= back and s[-back] != one]
            for other in sizes[1:]:
                self.need(Compare("==", sizes[0], other), f"`{self.target}` takes equal sizes", narrows=True)
            out.append(sizes[0] if sizes else one)
        return tuple(out)


def is_tensor(x: object) -> bool:
    """Is it a value of the program (rather than a number or a size)?"""
    return isinstance(x, (Var, GlobalRef))
