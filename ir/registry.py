"""The operator registry: every Op class of `ir/ops`, by name.  Adding a file to `ir/ops` adds its ops."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache

from .op import Op


@cache
def registry() -> dict[str, type[Op]]:
    """All operators, by name, in alphabetical order."""
    from . import ops

    found: dict[str, type[Op]] = {}
    for info in pkgutil.iter_modules(ops.__path__):
        if info.name.startswith("_"):
            continue
        module = importlib.import_module(f"{ops.__name__}.{info.name}")
        for _, cls in inspect.getmembers(module, inspect.isclass):
            own = cls.__module__ == module.__name__ and hasattr(cls, "name")  # a base of several ops has no name
            if issubclass(cls, Op) and not inspect.isabstract(cls) and own:
                if found.get(cls.name, cls) is not cls:
                    raise TypeError(f"two operators are called {cls.name}: {found[cls.name]} and {cls}")
                found[cls.name] = cls
    return dict(sorted(found.items()))
