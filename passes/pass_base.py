"""What a pass is: a frozen dataclass whose fields are its options, from a module to a module."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Protocol, TypeVar, get_args, get_type_hints

from ..errors import PliantError
from ..ir.diagnostics import CompileError, error

M = TypeVar("M")


class Pass(Protocol[M]):
    """`run` must not change its argument.  A user's mistake raises CompileError; anything else is a fault."""

    name: ClassVar[str]

    def run(self, module: M, /) -> M: ...


@dataclass(eq=False)
class PassError(PliantError):
    """A fault of the compiler, not of the program: which pass failed, on what (`before`, the IR it was given)."""

    pass_name: str
    before: object
    reason: str

    def __str__(self) -> str:
        return f"the pass `{self.pass_name}` failed: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"pass": self.pass_name, "reason": self.reason}


Hook = Callable[[str, M], None]
"""Called with a pass's name and the IR it made: to print it, or to verify it."""


def run_passes(passes: Sequence[Pass[M]], module: M, hooks: Sequence[Hook[M]] = ()) -> M:
    """Runs passes in order, and the hooks after each; a fault becomes a PassError that names its pass."""
    for step in passes:
        with faults_of(step.name, module):
            module = step.run(module)
            for hook in hooks:
                hook(step.name, module)
    return module


@contextmanager
def faults_of(name: str, before: object) -> Iterator[None]:
    """Turns what should not happen inside into a PassError that names the step and keeps what it was given."""
    try:
        yield
    except (CompileError, PassError):
        raise
    except Exception as fault:
        raise PassError(name, before, f"{type(fault).__name__}: {fault}") from fault


def parse_passes(text: str, known: Sequence[type[Any]]) -> list[Any]:
    """The passes that `text` names, `fold{limit=16},cse`; CompileError for an unknown name, option or value."""
    by_name = {cls.name: cls for cls in known}
    found = []
    rest = text.strip()
    while rest:
        match = re.match(r"\s*([A-Za-z_][\w-]*)\s*(?:\{([^}]*)\})?\s*(?:,|$)", rest)
        if match is None:
            raise error(f"`{rest}` is no list of passes", helps=("write `name,name{option=value}`",))
        name, options = match.groups()
        if name not in by_name:
            close = get_close_matches(name, list(by_name), 1)
            help = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(by_name)}"
            raise error(f"there is no pass `{name}`", helps=(help,))
        found.append(_with_options(by_name[name], options or ""))
        rest = rest[match.end() :]
    return found


def _with_options(cls: type[Any], text: str) -> Any:
    hints, given = get_type_hints(cls), dict[str, Any]()
    names = [f.name for f in fields(cls)]
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, _, value = (part.strip() for part in item.partition("="))
        if key not in names:
            has = f"it has {', '.join(names)}" if names else "it has none"
            raise error(f"the pass `{cls.name}` has no option `{key}`", helps=(has,))
        try:
            given[key] = _option(value, hints[key])
            least = getattr(cls, "least", 0)
            if type(given[key]) is int and given[key] < least:
                raise error(f"the option `{key}` of `{cls.name}` is {value}, and {least} at least")
        except ValueError:
            wanted = getattr(hints[key], "__name__", str(hints[key]))
            raise error(f"the option `{key}` of `{cls.name}` is of type {wanted}, not `{value}`") from None
    return cls(**given)


def _option(value: str, hint: Any) -> Any:
    if hint is bool:
        if value not in ("true", "false"):
            raise ValueError(value)
        return value == "true"
    if hint in (int, float, str):
        return hint(value)
    options = [o for o in get_args(hint) if o is not type(None)]
    if value == "none" and len(options) < len(get_args(hint)):
        return None
    if len(options) == 1:
        return _option(value, options[0])
    raise ValueError(value)
