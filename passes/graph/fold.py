"""Operators on constants, computed by their reference while compiling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...ir.build_values import number, numbers
from ...ir.graph import Apply, Const, Function, GlobalRef, Literal, Module, NoneValue, Operand, Statement, Var
from ...ir.infer import flatten
from ...ir.interpret import InterpretError, const_array, run_op
from ...ir.rounding import converted
from ...ir.subs import map_operand, map_operands
from ...ir.types import TensorType
from .walk import unique, with_body


@dataclass(frozen=True)
class Fold:
    """Replaces operators whose operands are literals and constants by their value.

    Only where the result has at most `limit` elements and is not much larger than what it is made of (a broadcast costs
    nothing in a kernel and memory as a constant).  Sizes are never folded: nothing that depends on a symbol is.  What
    fails at compile time (a division by zero) is left for the call to report.
    """

    limit: int = 1024

    name: ClassVar[str] = "fold"

    def run(self, module: Module) -> Module:
        folder = _Folder(module, self.limit)
        functions = tuple(folder.function(f) for f in module.functions)
        return replace(module, functions=functions, consts=(*module.consts, *folder.made))


class _Folder:
    def __init__(self, module: Module, limit: int) -> None:
        self.limit = limit
        self.arrays = {c.name: const_array(c) for c in module.consts}
        self.taken = {w.name for w in module.weights} | {f.name for f in module.functions} | set(self.arrays)
        self.made: list[Const] = []

    def function(self, function: Function) -> Function:
        values: dict[str, Operand] = {}

        def operand(o: Operand) -> Operand:
            return values.get(o.name, o) if isinstance(o, Var) else o

        statements: list[Statement] = []
        for statement in function.body.statements:
            new = map_operands(statement, operand)
            results = self._results(new) if isinstance(new, Apply) else None
            if results is None or not isinstance(new, Apply):
                statements.append(new)
                continue
            for target, result in zip(new.targets, results, strict=True):
                assert isinstance(target.type, TensorType)
                values[target.name] = self._operand(f"{function.name}.{target.name}", result, target.type)
        return with_body(function, statements, (map_operand(r, operand) for r in function.body.results))

    def _results(self, statement: Apply) -> tuple[np.ndarray, ...] | None:
        """The values, None where the statement is not to be folded."""
        operands = [self._array(o) for o in flatten(statement.operands)]
        given = [o for o in operands if o is not None]
        types = [t.type for t in statement.targets]
        known = len(given) == sum(not isinstance(o, NoneValue) for o in flatten(statement.operands))
        if not given or not known or statement.op.dims() or not all(map(_is_static, types)):
            return None
        most = min(self.limit, max(16, 2 * sum(a.size for a in given)))
        if any(t.size.value > most for t in types if isinstance(t, TensorType)):
            return None
        try:
            return run_op(statement.op, operands, types, {})
        except InterpretError:
            return None

    def _array(self, operand: Operand) -> np.ndarray | None:
        if isinstance(operand, Literal) and operand.dtype is not None:
            return converted(operand.value, operand.dtype)
        return self.arrays.get(operand.name) if isinstance(operand, GlobalRef) else None

    def _operand(self, name: str, value: np.ndarray, t: TensorType) -> Operand:
        if t.rank == 0:
            return Literal(number(value[()], t.dtype), t.dtype)
        name = unique(name, self.taken)
        self.made.append(Const(name, t, numbers(value, t.dtype)))
        self.arrays[name] = value
        return GlobalRef(name)


def _is_static(t: object) -> bool:
    return isinstance(t, TensorType) and t.shape is not None and all(d.is_const for d in t.shape)
