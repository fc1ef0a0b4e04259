"""What a caller may catch: one class for each kind of refusal, all of them `PliantError`."""

from __future__ import annotations

from typing import Any

from ..errors import PliantError

__all__ = [
    "ArgumentError",
    "CallError",
    "DTypeError",
    "DeviceError",
    "KernelError",
    "LayoutError",
    "LoadError",
    "PliantError",
    "RefusalError",
    "ShapeError",
    "SizeError",
]


_FIELDS = ("argument", "dimension", "symbol", "expected", "got", "bound_by", "fact")


class RefusalError(PliantError):
    """What is refused at load or at call: the message, and its parts as data.

    `argument` is the parameter's or weight's name, `dimension` counts from 0, `symbol` is the size that it is about,
    `expected` and `got` are what the program wants and what came (numbers of elements, or types as text), `bound_by` is
    the declaration that bound the symbol, and `fact` the text of the fact that does not hold. Each is None where the
    refusal is not about such a thing.
    """

    def __init__(
        self,
        message: str = "",
        *,
        argument: str | None = None,
        dimension: int | None = None,
        symbol: str | None = None,
        expected: Any = None,
        got: Any = None,
        bound_by: str | None = None,
        fact: str | None = None,
    ) -> None:
        super().__init__(message)
        self.argument, self.dimension, self.symbol = argument, dimension, symbol
        self.expected, self.got = expected, got
        self.bound_by, self.fact = bound_by, fact

    def fields(self) -> dict[str, Any]:
        """The parts by name, as the constructor takes them."""
        return {name: getattr(self, name) for name in _FIELDS}

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | self.fields()


class LoadError(RefusalError):
    """An artifact or its weights cannot be used: damaged, of another format or machine, missing or misshapen."""


class CallError(RefusalError):
    """A call was refused before anything was computed, or (KernelError) a check on the data failed while it ran.

    There are no results then.  A parameter that the call updates keeps its elements where the call was refused, and
    where the check is one of the update's own; updates that come earlier in the call may have happened.
    """


class ArgumentError(CallError, TypeError):
    """Missing, unknown or too many arguments, or one that is no array."""


class DTypeError(CallError, TypeError):
    """An argument has another element type than its parameter."""


class ShapeError(CallError, ValueError):
    """A rank, a size, or a relation between sizes is not the declared one."""


class LayoutError(CallError, ValueError):
    """An array that would have to be written is read-only or not contiguous, or shares memory with another one."""


class DeviceError(CallError, ValueError):
    """An array lives on a device that the executable does not run on."""


class SizeError(CallError, OverflowError):
    """A size does not fit into 64 bits, or the memory it asks for is not there."""


class KernelError(CallError, ValueError):
    """A check on the data failed: an index out of range, an integer division by zero.

    The message tells one of the values that are wrong.
    """
