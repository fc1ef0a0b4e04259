"""What a refused operator asks of sizes: torch compares some of them only when it runs, so that no guard says it."""

from __future__ import annotations

import re

from ...ir.diagnostics import CompileError
from ...ir.parser import parse_facts
from .context import NeedFact

_SAY = re.compile(r"say `where (.+?)`")
_WORD = re.compile(r"[A-Za-z_]\w*")


def asked(failure: CompileError, target: str) -> Exception:
    """The first fact that the refusal's help says, as one that the program needs; the refusal itself without one.

    A program that does not hold to it fails in torch too, at run time, or broadcasts a size that here is not 1.
    """
    for diagnostic in failure.diagnostics:
        for help in diagnostic.helps:
            found = _SAY.search(help)
            if found is None:
                continue
            try:
                facts = parse_facts(found[1], set(_WORD.findall(found[1])))
            except CompileError:
                continue
            return NeedFact(facts[0], f"`{target}`: {diagnostic.message}")
    return failure
