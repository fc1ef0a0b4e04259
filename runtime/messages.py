"""What is said when a call is refused: the argument, the dimension, the symbol, what bound it, expected and got."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .contract import Check, Function, Kernel, Step, Tensor
from .errors import CallError, KernelError, ShapeError, SizeError
from .frames import Frame
from .layout import Failure, Place, Slot
from .sizes import size_of

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_OPPOSITE_SIDES = ("==", "!=", "<=", "<", ">=", ">")


@dataclass(frozen=True)
class Explainer:
    """Makes errors of the records that host code leaves in a frame."""

    function: Function
    kernels: tuple[Kernel, ...]
    load: Function | None = None  # the load program, which bound what the function inherits

    def refusal(self, frame: Frame) -> CallError:
        """The error for the failure that `prepare` recorded, one that is about sizes."""
        failure = Failure(frame.get(Slot.ERROR))
        index, got, expected = frame.get(Slot.INDEX), frame.get(Slot.GOT), frame.get(Slot.EXPECTED)
        if failure is Failure.RANK:
            return self._rank(self.function.params[index], got)
        if failure is Failure.OUTPUT:
            tensor = self.function.outputs[index]
            dim = tensor.dims[frame.get(Slot.DIM)]
            return ShapeError(
                f"{self._where()}: the result {tensor} would have the size {dim} = {got}, which is negative", got=got
            )
        if failure in (Failure.OVERFLOW, Failure.DIVISION):
            return self._arithmetic(frame, failure, index)
        step = self.function.steps[index]
        return ShapeError(
            self._said(failure, step, frame, got, expected), **self._fields(failure, step, frame, got, expected)
        )

    def _said(self, failure: Failure, step: Step, frame: Frame, got: int, expected: int) -> str:
        if failure is Failure.INEXACT:
            said = f"{expected} does not divide {_value(step.value, got)}, so that there is no {step.symbol}"
            return f"{self._subject(step, frame)}: {said} ({_declared(step)})"
        if failure is Failure.NEGATIVE:
            subject = self._subject(step, frame)
            said = f": {step.symbol} would be {got}" if self._as_it_came(step.symbol) is None else f" is {got}"
            return f"{subject}{said}, and sizes are not negative ({_declared(step)})"
        if failure is Failure.UNEQUAL:
            return self._unequal(step, frame, got, expected)
        return self._fact(step, frame, got, expected)

    def _fields(self, failure: Failure, step: Step, frame: Frame, got: int, expected: int) -> dict[str, Any]:
        """The parts of a refusal as data. `expected` of a fact is its text."""
        symbol = step.symbol or (step.symbols[0] if len(step.symbols) == 1 else None)
        slot = step.slots[0] if len(step.slots) == 1 else None
        found: dict[str, Any] = {"symbol": symbol, "bound_by": self._bound_by(symbol), "got": got}
        if failure in (Failure.INEXACT, Failure.UNEQUAL):
            found["expected"] = expected
        if step.kind == "fact":
            found |= {"fact": step.value, "expected": step.value}
            about = self._plain_slot(step)
            if about is not None:
                found["symbol"], slot = about
                found["got"] = frame.get(self.function.frame.symbols[about[0]])
                found["bound_by"] = self._bound_by(about[0])
            elif (derived := self._derived(step, frame)) is not None:
                slot, found["got"] = derived
        if slot is not None:
            scalar = any(t.name == slot[0] and not t.dims for t in self.function.params)
            found |= {"argument": slot[0], "dimension": None if scalar else slot[1]}
        return found

    def _bound_by(self, symbol: str | None) -> str | None:
        step = self._bound_at(symbol) if symbol is not None else None
        return None if step is None else _declared(step)

    def failed_check(self, frame: Frame, record: int) -> KernelError:
        """The error for the `Require` that failed while the kernels ran."""
        kernel, number = self.kernels[(record - 1) >> 16], (record - 1) & 0xFFFF
        check: Check = kernel.checks[number]
        place = " at ".join(part for part in (f"`{check.op}`" if check.op else "", check.at) if part)
        message = self._fill(check.message, frame)
        return KernelError(f"@{self.function.name}: {message}" + (f" (in {place})" if place else ""))

    # -- parts

    def _where(self) -> str:
        return "the weights" if self.function is self.load else f"@{self.function.name}"

    def argument(self, name: str) -> str:
        return f"weight @{name}" if self.function is self.load else f"argument `{name}` of @{self.function.name}"

    def _rank(self, param: Tensor, got: int) -> ShapeError:
        return ShapeError(
            f"{self.argument(param.name)} has rank {got}, but {param} has rank {len(param.dims)}",
            argument=param.name,
            expected=len(param.dims),
            got=got,
        )

    def _subject(self, step: Step, frame: Frame) -> str:
        """What a step is about: the dimension of the argument when it is about one."""
        if len(step.slots) == 1:
            return self._slot(*step.slots[0])
        return self._where()

    def _slot(self, name: str, dim: int) -> str:
        """A dimension of an argument, or the value of one without dimensions."""
        scalar = any(t.name == name and not t.dims for t in self.function.params)
        return f"{self.argument(name)}: {'its value' if scalar else f'dimension {dim}'}"

    def _unequal(self, step: Step, frame: Frame, got: int, expected: int) -> str:
        wanted = _value(step.expected, expected)
        shown = step.symbols if step.expected in step.symbols else ()
        if len(step.slots) == 1 and step.value == f"{step.slots[0][0]}.{step.slots[0][1]}":
            said = f"{self._slot(*step.slots[0])} is {got}, expected {wanted}"
        else:
            said = f"{self._where()}: {_value(step.value, got)}, expected {wanted}"
        notes = [_declared(step), *self._origins(step.symbols, frame, shown)]
        return f"{said} ({'; '.join(notes)})"

    def _fact(self, step: Step, frame: Frame, got: int, expected: int) -> str:
        about = self._plain_slot(step)
        if about is not None:
            symbol, slot = about
            value = frame.get(self.function.frame.symbols[symbol])
            said = f"{self._slot(*slot)} is {value}, but {step.value}"
            notes = self._origins(step.symbols, frame, (symbol,))
        elif (derived := self._derived(step, frame)) is not None:
            slot, value = derived
            said = f"{self._slot(*slot)} is {value}, but {step.expected or step.value}"
            notes = self._origins(step.symbols, frame)
        else:
            sides = _sides(step.value, got, expected)
            said = f"{self._where()}: {step.value} does not hold" + (f": {sides}" if sides else "")
            notes = self._origins(step.symbols, frame)
        if step.at:
            notes.append(f"the fact stands at {step.at}")
        return f"{said} ({'; '.join(notes)})" if notes else said

    def _plain_slot(self, step: Step) -> tuple[str, tuple[str, int]] | None:
        """The symbol that a fact is about, and the dimension or value that it is just as it came.

        Of several symbols it is the one that is the value of an argument, if there is one only.
        """
        plain = [(s, slot) for s in step.symbols if (slot := self._as_it_came(s)) is not None]
        if len(step.symbols) > 1:
            scalars = {t.name for t in self.function.params if not t.dims}
            plain = [(s, slot) for s, slot in plain if slot[0] in scalars]
        return plain[0] if len(plain) == 1 else None

    def _derived(self, step: Step, frame: Frame) -> tuple[tuple[str, int], int] | None:
        """The dimension that the one symbol of a fact was solved from, and its size."""
        binding = self._binding(step.symbols[0]) if len(step.symbols) == 1 else None
        if binding is None or len(binding.slots) != 1:
            return None
        (slot,) = binding.slots
        param = next(p for p in self.function.params if p.name == slot[0])
        sizes = {name: frame.get(at) for name, at in self.function.frame.symbols.items()}
        value = size_of(param.dims[slot[1]], sizes) if param.dims else None
        return None if value is None else (slot, value)

    def _as_it_came(self, symbol: str) -> tuple[str, int] | None:
        binding = self._binding(symbol)
        if binding is None or len(binding.slots) != 1 or binding.divisor != "1":
            return None
        name, dim = binding.slots[0]
        return (name, dim) if binding.value == f"{name}.{dim}" else None

    def _binding(self, symbol: str) -> Step | None:
        return next((s for s in self.function.steps if s.kind == "bind" and s.symbol == symbol), None)

    def _bound_at(self, symbol: str) -> Step | None:
        """Where a symbol is bound, at the call or at load."""
        step = self._binding(symbol)
        if step is None and self.load is not None:
            step = next((s for s in self.load.steps if s.kind == "bind" and s.symbol == symbol), None)
        return step

    def _origins(self, symbols: tuple[str, ...], frame: Frame, shown: tuple[str, ...] = ()) -> list[str]:
        """Where symbols come from, and their values but for those that are shown already."""
        slots = self.function.frame.symbols
        return [self._origin(s, "" if s in shown else f" = {frame.get(slots[s])}") for s in symbols]

    def _origin(self, symbol: str, value: str = "") -> str:
        step = self._bound_at(symbol)
        if step is None:
            return f"{symbol}{value} is bound at load"
        return f"{symbol}{value} is bound by {_declared(step)}"

    def _arithmetic(self, frame: Frame, failure: Failure, index: int) -> CallError:
        place = Place(frame.get(Slot.DIM))
        if place is Place.STEP:
            what = f"the check of {_declared(self.function.steps[index])}"
        elif place is Place.OUTPUT:
            what = f"the size of the result {self.function.outputs[index]}"
        elif place is Place.LAUNCH:
            what = "a size of an intermediate result"
        else:
            what = f"the memory of this call ({self.function.arena} bytes)"
        reason = "divides by zero" if failure is Failure.DIVISION else "does not fit into 64 bits"
        return SizeError(f"{self._where()}: {what} {reason}; {self._sizes(frame)}")

    def _sizes(self, frame: Frame) -> str:
        bound = self.function.frame.symbols
        return ", ".join(f"{name} = {frame.get(slot)}" for name, slot in bound.items()) or "all sizes are constant"

    def _fill(self, message: str, frame: Frame) -> str:
        sizes = {name: frame.get(slot) for name, slot in self.function.frame.symbols.items()}

        def value(match: re.Match[str]) -> str:
            if match[1] == "value":
                return str(frame.get(Slot.KERNEL_VALUE))
            found = size_of(match[1], sizes)
            return match[0] if found is None else str(found)

        return _PLACEHOLDER.sub(value, message)


def _declared(step: Step) -> str:
    return f"{step.origin} at {step.at}" if step.at else step.origin


def _value(text: str, value: int) -> str:
    """`n = 5`, or just the number of a constant."""
    return str(value) if text == str(value) else f"{text} = {value}"


def _sides(fact: str, got: int, expected: int) -> str:
    """The values of both sides of a comparison, those that are not constants."""
    for operator in _OPPOSITE_SIDES:
        left, found, right = fact.partition(f" {operator} ")
        if found:
            sides = [_value(t, v) for t, v in ((left, got), (right, expected)) if t != str(v)]
            return ", ".join(sides)
    left, found, _ = fact.partition(" in ")
    return _value(left, got) if found else ""
