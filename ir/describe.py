"""Operators in words, from the registry: for the command line and the generated documentation."""

from __future__ import annotations

import dataclasses
import inspect

from .op import Op


def attributes(op: type[Op]) -> str:
    """The attributes as a call writes them, defaults included."""
    shown = []
    for field in dataclasses.fields(op):
        if field.default is not dataclasses.MISSING:
            shown.append(f"{field.name}={written(field.default)}")
        elif field.default_factory is not dataclasses.MISSING:
            shown.append(f"{field.name}={written(field.default_factory())}")
        else:
            shown.append(field.name)
    return ", ".join(shown)


def written(value: object) -> str:
    """An attribute's value in the language's spelling."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return f"[{', '.join(map(written, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def call(op: type[Op]) -> str:
    """How a call of the op looks: operands, then attributes by name."""
    return f"{op.name}({', '.join(part for part in (', '.join(op.signature), attributes(op)) if part)})"


def summary(op: type[Op]) -> str:
    """The first paragraph of the op's own docstring, on one line; dataclasses invent one, which says nothing."""
    doc = inspect.cleandoc(op.__dict__.get("__doc__") or "")
    if doc.startswith(f"{op.__name__}("):
        return ""
    return " ".join(doc.split("\n\n")[0].split())


def family(op: type[Op]) -> str:
    """The heading it stands under."""
    return op.family or op.__module__.rpartition(".")[2]
