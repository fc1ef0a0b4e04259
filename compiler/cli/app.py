"""The `pliant` command: its group, and how errors are shown."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from ...ir.diagnostics import CompileError
from ...passes.pass_base import PassError
from ...runtime import PliantError
from . import show

_COMMANDS = {
    "check": "Parse, type and verify programs; say what is wrong with them.",
    "fmt": "Rewrite programs in canonical form.",
    "compile": "Compile a program to one artifact.",
    "import": "Turn a torch.export program into one of the language.",
    "run": "Run a program or an artifact on arrays.",
    "inspect": "Show an artifact: contract, memory plan, kernels, sizes.",
    "opt": "Run passes over text, text in and out.",
    "ops": "The operator table, or one operator.",
    "plan": "Plan the memory of buffers with lifetimes (CSV files).",
}

EXAMPLES = """\b
Examples:
  pliant check model.ir                         what is wrong, with places
  pliant compile model.ir -o model.pliant       one artifact for every size
  pliant run model.pliant --dim n=17 --check    random input, checked against the reference
  pliant compile model.ir --emit loops          look at a stage
  pliant ops softmax                            what an operator does
"""


class _Lazy(click.Group):
    """Imports a command's module when it is used: `pliant ops` need not wait for LLVM."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = import_module(f".{name}_command", __package__).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CompileError as refused:
            show.diagnostics(refused.diagnostics, refused.sources)
        except PassError as fault:
            show.error(_report(fault))
        except PliantError as refused:
            show.error(str(refused))
        except BrokenPipeError:
            # Whoever reads the output has had enough (`| head`); the interpreter's own flush must not complain either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(1) from None
        except OSError as failed:
            show.error(f"{failed.filename}: {failed.strerror}" if failed.filename else str(failed))
        raise click.exceptions.Exit(1)


def _report(fault: PassError) -> str:
    """Keeps what the pass was given, for a report: it is not the user's mistake."""
    with tempfile.NamedTemporaryFile("w", prefix="pliant-fault-", suffix=".ir", delete=False) as file:
        file.write(show.any_stage(fault.before))
    return f"{fault}\n  this is a fault in pliant, not in your program; what the pass was given is kept in {file.name}"


@click.group(cls=_Lazy, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pliant", prog_name="pliant", message="%(prog)s %(version)s")
def group() -> None:
    """A compiler for tensor programs whose sizes move: one artifact, right and fast for every size allowed."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; exits with 0, 1 for a refusal, 2 for wrong usage."""
    if arguments is None:
        arguments = sys.argv[1:]
    group.main(list(arguments), prog_name="pliant")
