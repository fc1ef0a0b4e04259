"""What a caller may catch: one class for each kind of refusal, all of them `PliantError`."""

from __future__ import annotations


class PliantError(Exception):
    """The base of every error that pliant raises at load or at call."""


class LoadError(PliantError):
    """An artifact or its weights cannot be used: damaged, of another format or machine, missing or misshapen."""


class CallError(PliantError):
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
