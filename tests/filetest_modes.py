"""What a file test can do with its program: one function a mode, from (source, name, argument) to what is printed.

Each imports what it runs, so that a fault in a late stage leaves the tests of the earlier ones standing.
"""

from __future__ import annotations

from collections.abc import Callable


def parse(source: str, name: str, argument: str) -> str:
    from pliant.ir.parser import parse_module
    from pliant.ir.printer import print_module

    module = parse_module(source, name)
    text = print_module(module)
    assert parse_module(text, name) == module, f"what was printed does not parse to an equal module:\n{text}"
    assert print_module(parse_module(text, name)) == text, f"printing twice gives two texts:\n{text}"
    return text


def verify(source: str, name: str, argument: str) -> str:
    from pliant.ir.infer_module import infer_module
    from pliant.ir.parser import parse_module
    from pliant.ir.printer import print_module

    typed = infer_module(parse_module(source, name))
    text = print_module(typed)
    assert parse_module(text, name) == typed, f"the typed text does not parse to an equal module:\n{text}"
    assert infer_module(parse_module(text, name)) == typed, f"inferring again gives other types:\n{text}"
    plain = print_module(typed, types=False)
    assert infer_module(parse_module(plain, name)) == typed, f"types left out are not found again:\n{plain}"
    return text


MODES: dict[str, Callable[[str, str, str], str]] = {"parse": parse, "verify": verify}
