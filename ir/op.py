"""What an operator is: one class in `ir/ops/<family>.py`, from which everything else is derived.

    infer      the type rule (refuses wrong operands through the context, naming them)
    reference  the meaning, in numpy
    lower      how it becomes loops: by deriving from one of the kinds below
    samples    inputs that exercise it, sizes 0 and 1 among them; `refused` inputs it must not take

Kinds (what the fusion and the lowering see):

    ElementOp      each output element is an expression of input elements (maps, views, gathers, windows)
    Pointwise      an ElementOp whose operands broadcast and whose element is a scalar function
    ReduceOp       a reduction over axes
    ContractOp     a sum of products over an inner extent (matmul, convolution)
    CompositeOp    defined by other ops
    KernelOp       writes its own loops over whole buffers (scatter, sort, scan)
    BlockOp        writes its own loops with contractions in them (attention)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from .diagnostics import CompileError, Diagnostic, Span
from .dims import Dim
from .facts import Compare, Fact, Facts
from .loops import Expr
from .types import DType, TensorType

if TYPE_CHECKING:
    from .build import Builder
    from .graph import Operand

Array = np.ndarray
"""What `reference` takes and gives; scalars are 0-d arrays; sizes given as operands arrive as 0-d arrays too."""


# ------------------------------------------------------------------------------------------------ type rules


@dataclass
class InferContext:
    """What a type rule may ask and say.  `op_name`, `span`, `operands` (their texts) are for messages.

    `trusted`: the operator is part of another, whose own rule has asked for all that is needed; sizes that are equal
    or in range as a consequence need not be provable once more in the form that they take here.
    """

    facts: Facts
    op_name: str
    span: Span | None = None
    operands: tuple[str, ...] = ()
    origins: dict[str, str] = field(default_factory=dict)  # symbol -> "n was bound by x: f32[n, 64] at f.ir:3:12"
    types: tuple[TensorType | None, ...] = ()
    advise: bool = True  # False where a refusal is only tried: what it says is not read
    trusted: bool = False

    def holds(self, fact: Fact) -> bool:
        """Whether a rule may rely on the fact; where it may not, the program is refused."""
        return self.trusted or self.facts.prove(fact)

    def fail(
        self,
        message: str,
        *,
        label: str = "",
        help: str = "",
        symbols: Iterable[str] = (),
        wanted: tuple[Fact, ...] = (),
    ) -> CompileError:
        """The error to raise; says where each symbol involved was bound.  Under the facts `wanted` there is none."""
        notes = tuple(self.origins[s] for s in sorted(set(symbols)) if s in self.origins)
        helps = (help,) if help else ()
        label = label or self._shown(message)
        return CompileError((Diagnostic(message, self.span, label, notes, helps, wanted=wanted),))

    def _shown(self, message: str) -> str:
        """The operands with their types, unless there are many, or they have been said."""
        given = dict.fromkeys(f"{self.name(i)} is {t}" for i, t in enumerate(self.types) if t is not None)
        return ", ".join(given) if len(given) <= 4 and not all(g in message for g in given) else ""

    def advice(self, *goals: Fact) -> str:
        """The help that names the facts which would prove the goals; empty where none would."""
        return self.facts.advice(*goals) if self.advise else ""

    def name(self, position: int) -> str:
        """How the user wrote the operand."""
        return self.operands[position] if position < len(self.operands) else f"operand {position}"

    def require_equal(self, a: Dim, b: Dim, what: str) -> None:
        """`what` is the sentence's start: "the inner sizes of `matmul`"."""
        if not self.holds(Compare("==", a, b)):
            raise self.fail(
                f"{what} do not match: {a} against {b}",
                help=self.advice(Compare("==", a, b)),
                symbols=a.symbols | b.symbols,
                wanted=(Compare("==", a, b),),
            )

    def require(self, ok: bool, message: str, *, help: str = "") -> None:
        if not ok:
            raise self.fail(message, help=help)

    def axis(self, axis: int, rank: int) -> int:
        """A non-negative axis; negative ones count from the end."""
        if not -rank <= axis < rank:
            help = f"its axes are {-rank}..{rank - 1}" if rank else "a number has no axes"
            raise self.fail(f"axis {axis} of `{self.op_name}` is out of range for rank {rank}", help=help)
        return axis % rank

    def axes(self, axes: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
        """Sorted non-negative axes; None means all; duplicates are refused."""
        if axes is None:
            return tuple(range(rank))
        listed = (axes,) if isinstance(axes, int) else tuple(axes)
        out = sorted(self.axis(a, rank) for a in listed)
        self.require(len(set(out)) == len(out), f"an axis of `{self.op_name}` is listed twice")
        return tuple(out)

    def same_dtype(self, *types: TensorType) -> DType:
        """The one dtype of all operands."""
        for position, t in enumerate(types):
            if t.dtype is not types[0].dtype:
                narrow = 0 if t.dtype.holds_more_than(types[0].dtype) else position
                wide = t.dtype if narrow == 0 else types[0].dtype
                raise self.fail(
                    f"the dtypes of `{self.op_name}` do not match: {types[0].dtype} against {t.dtype}",
                    label=f"{self.name(0)} is {types[0]}, {self.name(position)} is {t}",
                    help=f"convert one of them: `cast({self.name(narrow)}, dtype={wide})`",
                )
        return types[0].dtype

    def broadcast(self, *shapes: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """Numpy's rule, decided by types: sizes must be provably equal, or written 1."""
        rank = max((len(s) for s in shapes), default=0)
        out: list[Dim] = []
        one = Dim.of(1)
        for i in range(rank):
            chosen: Dim | None = None
            for s in shapes:
                j = i - (rank - len(s))
                if j < 0 or s[j] == one:
                    continue
                if chosen is None:
                    chosen = s[j]
                elif chosen != s[j] and not self.holds(Compare("==", chosen, s[j])):
                    raise self._mismatch(i, chosen, s[j], shapes)
            out.append(chosen if chosen is not None else one)
        return tuple(out)

    def _mismatch(self, dim: int, a: Dim, b: Dim, shapes: tuple[tuple[Dim, ...], ...]) -> CompileError:
        shown = ", ".join(f"{self.name(i)} is [{', '.join(map(str, s))}]" for i, s in enumerate(shapes))
        say = self.advice(Compare("==", a, b))
        return self.fail(
            f"the sizes of `{self.op_name}` do not match: {a} against {b}",
            label=f"dimension {dim}: {shown}",
            help=f"{say}, or broadcast one of them" if say else "",
            symbols=a.symbols | b.symbols,
            wanted=(Compare("==", a, b),),
        )


# -------------------------------------------------------------------------------------------------- samples


@dataclass(frozen=True)
class Sample:
    """One use of an op: operand types over symbols (or None for an absent operand), and bindings to run at.

    `make` gives the arrays for a binding when random ones of the type will not do (indices, positive numbers):
    called with a numpy Generator and the binding, it returns one array (or None) per operand.
    Operands may also be Python numbers (literals).
    """

    op: Op
    operands: tuple[TensorType | bool | int | float | None, ...]
    bindings: tuple[dict[str, int], ...] = ({},)
    facts: tuple[Fact, ...] = ()
    make: Callable[[np.random.Generator, dict[str, int]], tuple[Array | None, ...]] | None = None
    rtol: float = 1e-5
    atol: float = 1e-6


@dataclass(frozen=True)
class Refused:
    """A use that the type rule must refuse with a message containing `message`."""

    op: Op
    operands: tuple[TensorType | bool | int | float | None, ...]
    message: str
    facts: tuple[Fact, ...] = ()


# ------------------------------------------------------------------------------------------------------- ops


@dataclass(frozen=True)
class Op(ABC):
    """Base of all operators.  Dataclass fields are the attributes, in the order they are printed.

    `signature` names the operands: a trailing `?` is optional, a trailing `*` takes any number (only as the last).
    """

    name: ClassVar[str]
    signature: ClassVar[tuple[str, ...]] = ("x",)
    results: ClassVar[int] = 1  # 0: as many as the attributes say
    family: ClassVar[str] = ""
    fallible: ClassVar[bool] = False  # do values of the operands decide whether the call fails? see `may_fail`

    @property
    def title(self) -> str:
        """The operator that messages of failed checks name: what a user wrote, where this is only a part of it."""
        return self.name

    @abstractmethod
    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType | tuple[TensorType, ...]:
        """The result type(s).  Absent optional operands are None.  Ranks are known; literals have rank 0."""

    @abstractmethod
    def reference(self, *operands: Array | None) -> Array | tuple[Array, ...]:
        """The meaning in numpy.  f16 and bf16 are computed in f32 and rounded once at the end.

        `check_operands` failures that only values show (an index out of range) raise IndexError or ZeroDivisionError.
        """

    def may_fail(self, operands: Sequence[Operand], types: Sequence[TensorType | None]) -> bool:
        """Whether there are values of the operands for which the call fails.

        Such an operator is run whether its result is used or not, and at the call that it stands in.
        """
        return self.fallible

    def size_values(self, out: TensorType, types: Sequence[TensorType | None]) -> Iterable[tuple[Dim, DType]]:
        """The sizes in its attributes and types that the operator makes values of, and of which dtype."""
        return ()

    @classmethod
    @abstractmethod
    def samples(cls) -> Iterable[Sample]: ...

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        return ()

    def literal_dtype(self, operands: Sequence[TensorType | None]) -> DType | None:
        """The dtype a literal operand takes: that of the first operand that has one (None in the list: literals)."""
        for t in operands:
            if t is not None:
                return t.dtype
        return None

    def dims(self) -> frozenset[str]:
        """Symbols used in the attributes."""
        found: set[str] = set()
        for f in fields(self):
            found |= _symbols(getattr(self, f.name))
        return frozenset(found)


def _symbols(value: object) -> frozenset[str]:
    if isinstance(value, Dim):
        return value.symbols
    if isinstance(value, tuple):
        return frozenset[str]().union(*(_symbols(v) for v in value))
    return frozenset()


class Input(Protocol):
    """An operand as an element rule sees it: call it with an index to get the expression of that element."""

    @property
    def type(self) -> TensorType: ...

    def __call__(self, *index: Expr) -> Expr: ...


class ElementContext(Protocol):
    """What an element rule may ask for besides its inputs."""

    @property
    def facts(self) -> Facts: ...

    def simplify(self, value: Expr) -> Expr:
        """Under the facts in scope (loop ranges included)."""

    def let(self, value: Expr) -> Expr:
        """Names a value that is used more than once."""

    def require(self, ok: Expr, message: str, value: Expr | None = None) -> None:
        """The call fails with `message` where this does not hold; {value} in it is the `value` (i64) of one such place.

        Sizes in the message are written {n}, or as an expression: {n - 1}.
        """

    def reduce(
        self,
        kind: str,
        ranges: Sequence[tuple[Expr, Expr]],
        body: Callable[..., Expr],
        init: Expr,
    ) -> Expr:
        """Folds `body(i, j, ...)` over half-open index ranges with the scalar function `kind` (add, maximum, ...)."""


@dataclass(frozen=True)
class ElementOp(Op):
    """One result; `element` gives the expression of the output element at `index`, in the output's dtype.

    `index_map`: every output element is one input element (no arithmetic, or a constant outside the operand), at an
    index that needs no data: permute, expand, slice, flip, pad.  Fusion moves such ops into whatever reads them.
    """

    index_map: ClassVar[bool] = False

    @abstractmethod
    def element(self, ctx: ElementContext, out: TensorType, index: tuple[Expr, ...], *inputs: Input | None) -> Expr: ...


@dataclass(frozen=True)
class Pointwise(ElementOp):
    """Operands broadcast against one another; `scalar` is the function."""

    @abstractmethod
    def scalar(self, ctx: ElementContext, *args: Expr) -> Expr:
        """The element, from one element of each operand (already at hand, in the operand's dtype)."""

    def element(self, ctx: ElementContext, out: TensorType, index: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        return self.scalar(ctx, *(broadcast_element(i, index) for i in inputs if i is not None))


def broadcast_element(x: Input, index: tuple[Expr, ...]) -> Expr:
    """The element of `x` that stands at `index` of a shape it broadcasts to."""
    from .scalar import index as ix

    shape = x.type.dims
    tail = index[len(index) - len(shape) :]
    one = Dim.of(1)
    return x(*(ix(0) if size == one else i for size, i in zip(shape, tail, strict=True)))


@dataclass(frozen=True)
class ReduceOp(Op):
    """A reduction of the first operand over `reduced_axes`, combined by `combiner`.

    `combiner`: add | mul | maximum | minimum | logical_or | logical_and | argmax | argmin.
    Every input element goes through `before`, the result (in the accumulator's dtype) through `after`.
    """

    combiner: ClassVar[str]

    @abstractmethod
    def reduced_axes(self, rank: int) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def keeps_dims(self) -> bool: ...

    def accumulator(self, x: DType) -> DType:
        """The dtype of the running value."""
        return x.compute

    def before(self, ctx: ElementContext, x: Expr) -> Expr:
        return x

    def after(self, ctx: ElementContext, total: Expr, count: Dim, out: DType) -> Expr:
        """`count` is the number of elements reduced."""
        from .scalar import cast

        return cast(total, out)


@dataclass(frozen=True)
class Contraction:
    """The iteration space of a ContractOp.

    `batch`, `rows`, `cols`, `inner` are sizes; a role may have several dimensions.  The output's dimensions are a
    permutation of batch + rows + cols: `out_order[i]` says which of them output dimension i is.
    """

    batch: tuple[Dim, ...]
    rows: tuple[Dim, ...]
    cols: tuple[Dim, ...]
    inner: tuple[Dim, ...]
    out_order: tuple[int, ...]
    accumulator: DType


@dataclass(frozen=True)
class ContractOp(Op):
    """out[b.., m.., n..] = sum over k of lhs(b, m, k) * rhs(b, k, n), plus nothing (bias and the rest are fused)."""

    @abstractmethod
    def contraction(self, out: TensorType, *operands: TensorType) -> Contraction: ...

    @abstractmethod
    def lhs(
        self, ctx: ElementContext, b: tuple[Expr, ...], m: tuple[Expr, ...], k: tuple[Expr, ...], *inputs: Input
    ) -> Expr: ...

    @abstractmethod
    def rhs(
        self, ctx: ElementContext, b: tuple[Expr, ...], k: tuple[Expr, ...], n: tuple[Expr, ...], *inputs: Input
    ) -> Expr: ...


@dataclass(frozen=True)
class CompositeOp(Op):
    """Defined by other ops: `decompose` builds them and returns the result operand(s)."""

    @abstractmethod
    def decompose(self, b: Builder, *operands: Operand) -> Operand | tuple[Operand, ...]: ...


class KernelBuilder(Protocol):
    """Writes loops; see passes/lower/kernel_builder.py for the implementation."""

    @property
    def facts(self) -> Facts: ...
    def fresh(self, hint: str) -> str: ...
    def loop(self, hint: str, start: Expr, stop: Expr, body: Callable[[Expr], None], kind: str = "serial") -> None: ...
    def let(self, value: Expr) -> Expr: ...
    def local(self, init: Expr) -> Expr:
        """A mutable scalar (a Name); change it with `assign`."""

    def assign(self, local: Expr, value: Expr) -> None: ...
    def alloc(self, dtype: DType, size: Dim) -> str:
        """A scratch array; returns its buffer name for `load`/`store`."""

    def load(self, buffer: str, offset: Expr, dtype: DType) -> Expr: ...
    def store(self, buffer: str, offset: Expr, value: Expr) -> None: ...
    def branch(
        self, condition: Expr, then: Callable[[], None], otherwise: Callable[[], None] | None = None
    ) -> None: ...
    def while_(self, condition: Callable[[], Expr], body: Callable[[], None]) -> None: ...
    def require(self, ok: Expr, message: str, value: Expr | None = None) -> None: ...


@dataclass(frozen=True)
class Array1:
    """A whole operand or result inside a `KernelOp`: a flat row-major buffer and its type."""

    buffer: str
    type: TensorType


@dataclass(frozen=True)
class KernelOp(Op):
    """Writes its own loops over whole, materialised operands.

    `in_place` names the operand position whose buffer the (first) result may share: the kernel is then given the
    same buffer for both and must not copy; None when the op cannot work in place.
    """

    in_place: ClassVar[int | None] = None

    @abstractmethod
    def kernel(self, k: KernelBuilder, outputs: tuple[Array1, ...], *inputs: Array1 | None) -> None: ...


class BlockBuilder(KernelBuilder, Protocol):
    """Writes loops with contractions in them."""

    def contract(
        self,
        rows: Dim,
        cols: Dim,
        inner: Dim,
        dtype: DType,
        lhs: Callable[[Expr, Expr], Expr],
        rhs: Callable[[Expr, Expr], Expr],
        epilogue: Callable[[Expr, Expr, Expr], None],
    ) -> None:
        """acc(m, n) = sum over k of lhs(m, k) * rhs(k, n) in `dtype`; then `epilogue(m, n, acc)` for each."""


@dataclass(frozen=True)
class BlockOp(Op):
    """One result, written by loops over blocks of it; operands are read by element, so that views move into it."""

    @abstractmethod
    def blocks(
        self, k: BlockBuilder, out: TensorType, store: Callable[[tuple[Expr, ...], Expr], None], *inputs: Input | None
    ) -> None:
        """`store(position, value)` stores an element of the result."""


@dataclass(frozen=True)
class AliasOp(Op):
    """A result with the operand's elements in the operand's row-major order: reshape, squeeze, flatten.

    It costs nothing where the operand is a buffer.
    """
