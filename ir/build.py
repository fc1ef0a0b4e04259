"""Building graphs from Python, with the vocabulary of the text.

`Builder` appends typed statements: `b.softmax(b.add(x, y), axis=-1)` calls the op of that name with the attributes
of that name, infers its type at once and returns the value.  Composite ops are written with it too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields

from .diagnostics import Span, error
from .dims import Dim
from .facts import Facts
from .graph import Apply, DimValue, GlobalRef, Literal, NoneValue, Operand, Statement, Target, Var
from .infer import infer_apply, literal
from .op import Op
from .registry import registry
from .types import TensorType, Type

Given = Operand | bool | int | float | Dim | None
"""What a builder call takes as an operand: numbers and sizes become literals, None an absent operand."""


class Builder:
    """Appends statements to a block.  `types` maps the names in scope to types and is added to.

    Names it makes start with `prefix`, and are none of `taken` (symbols, names that come later).
    """

    def __init__(
        self,
        facts: Facts,
        types: dict[str, Type],
        globals_: dict[str, TensorType],
        prefix: str = "t",
        taken: Collection[str] = (),
    ) -> None:
        self.facts = facts
        self.types = types
        self.globals = globals_
        self.statements: list[Statement] = []
        self.span: Span | None = None
        self._prefix = prefix
        self._taken = taken
        self._count = 0

    def type(self, operand: Operand) -> TensorType:
        """The type of a tensor operand."""
        t = self._type_of(operand)
        assert isinstance(t, TensorType), "a tuple where a tensor is wanted"
        return t

    def _type_of(self, operand: Operand) -> Type:
        if isinstance(operand, Var):
            return self.types[operand.name]
        if isinstance(operand, GlobalRef):
            return self.globals[operand.name]
        if isinstance(operand, (Literal, DimValue)) and operand.dtype is not None:
            return TensorType(operand.dtype, ())
        raise TypeError(f"{operand} has no type of its own")

    def fresh(self) -> str:
        """A name not in scope."""
        while True:
            name = f"{self._prefix}{self._count}"
            self._count += 1
            if name not in self.types and name not in self._taken:
                return name

    def apply(self, op: Op, *operands: Given, names: tuple[str, ...] = ()) -> Var | tuple[Var, ...]:
        """Appends `op` applied to `operands`; one Var, or a tuple for ops with several results."""
        given = tuple(_operand(o) for o in operands)
        typed, results = infer_apply(op, given, self._type_of, self.facts, self.span)
        targets: list[Target] = []
        for i, t in enumerate(results):
            name = names[i] if names else self.fresh()
            self.types[name] = t
            targets.append(Target(name, t, self.span))
        self.statements.append(Apply(tuple(targets), op, typed, self.span))
        values = tuple(Var(t.name) for t in targets)
        return values if len(values) > 1 else values[0]

    def __getattr__(self, name: str) -> Callable[..., Var]:
        cls = registry().get(name.rstrip("_"))
        if cls is None:
            raise AttributeError(f"there is no operator `{name}`")
        known = {f.name for f in fields(cls)}

        def call(*operands: Given, **attributes: object) -> Var:
            unknown = set(attributes) - known
            if unknown:
                raise error(f"`{name}` has no attribute `{sorted(unknown)[0]}`; it has {sorted(known)}", self.span)
            return self.apply(cls(**attributes), *operands)  # type: ignore[return-value]

        return call


def _operand(given: Given) -> Operand:
    if given is None:
        return NoneValue()
    if isinstance(given, (bool, int, float, Dim)):
        return literal(given)
    return given
