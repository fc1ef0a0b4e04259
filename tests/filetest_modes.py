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


def passes(source: str, name: str, argument: str) -> str:
    from pliant.ir.parser import parse_module
    from pliant.ir.printer import print_module
    from pliant.ir.verify import verify_module
    from pliant.passes.graph import GRAPH_PASSES, Infer
    from pliant.passes.pass_base import parse_passes, run_passes

    steps = [Infer(), *parse_passes(argument, GRAPH_PASSES)]
    module = run_passes(steps, parse_module(source, name), [lambda _name, made: verify_module(made)])
    text = print_module(module)
    assert parse_module(text, name) == module, f"what was printed does not parse to an equal module:\n{text}"
    return print_module(module, types=False)


def plan(source: str, name: str, argument: str) -> str:
    from pliant.compiler.codegen.llvm import resolve
    from pliant.compiler.driver import Compilation
    from pliant.compiler.target import Target
    from pliant.ir.parser import parse_module
    from pliant.passes.planner.report import text

    target = resolve(Target.parse(argument or "cpu:x86-64-v3"))  # named, so that the plan is the same on every machine
    plans = Compilation(parse_module(source, name), target).lowered.plans
    return "\n\n".join(f"@{function}\n{text(found)}" for function, found in plans.items())


def loops(source: str, name: str, argument: str) -> str:
    from pliant.compiler.passes_by_name import parse_pipeline, read_stage
    from pliant.ir.graph import Module
    from pliant.ir.parser_loops import parse_program
    from pliant.ir.printer_loops import print_program
    from pliant.passes.pass_base import run_passes

    given = read_stage(source, name)
    before = "infer,inline,decompose,fold,simplify,cse,dce,lower" if isinstance(given, Module) else ""
    program = run_passes(parse_pipeline(",".join(filter(None, (before, argument))), given), given)
    text = print_program(program)
    assert parse_program(text, name) == program, f"what was printed does not parse to equal loops:\n{text}"
    return text


def run(source: str, name: str, argument: str) -> str:
    from tests.filetest_run import run_at

    return run_at(source, name, [dict(_size(item) for item in case.split(",")) for case in argument.split()] or [{}])


def _size(item: str) -> tuple[str, int]:
    symbol, _, value = item.partition("=")
    return symbol, int(value)


MODES: dict[str, Callable[[str, str, str], str]] = {
    "parse": parse,
    "verify": verify,
    "pass": passes,
    "loops": loops,
    "plan": plan,
    "run": run,
}
