"""The `pliant` command: its group, and how errors are shown."""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from ...ir.diagnostics import CompileError
from ...passes.pass_base import PassError
from ...runtime import PliantError
from . import show
from .process import leave, show_everything, silence

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
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except CompileError as refused:
            show.diagnostics(refused.diagnostics, refused.sources)
        except PassError as fault:
            show.error(_report(fault))
        except PliantError as refused:
            show.error(str(refused))
        except OSError as failed:
            _unwritable(show.standard_output(failed))
        except MemoryError as failed:
            show.error(f"there is not enough memory: {failed}" if str(failed) else "there is not enough memory")
        except Exception as fault:  # noqa: BLE001  # the last one who can keep a traceback from the user
            show.error(_kept(f"{type(fault).__name__}: {fault}", traceback.format_exc(), ".txt", "the traceback"))
        raise click.exceptions.Exit(1)


def _unwritable(failed: OSError) -> None:
    """Says which file could not be read or written; nothing where a reader has had enough (`| head`)."""
    if not isinstance(failed, BrokenPipeError):
        show.error(f"{failed.filename}: {failed.strerror}" if failed.filename else str(failed))
    if failed.filename == show.STANDARD_OUTPUT:
        silence(1)


def _report(fault: PassError) -> str:
    """Keeps what the pass was given, for a report: it is not the user's mistake."""
    return _kept(str(fault), show.any_stage(fault.before), ".ir", "what the pass was given")


def _kept(said: str, text: str, suffix: str, what: str) -> str:
    """A fault of ours, with a file for whoever mends it."""
    said = f"{said}\n  this is a fault in pliant, not in your program"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="pliant-fault-", suffix=suffix, delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(text)
    except OSError:
        return said
    return f"{said}; {what} is kept in {file.name}"


@click.group(cls=_Lazy, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pliant", prog_name="pliant", message="%(prog)s %(version)s")
def group() -> None:
    """A compiler for tensor programs whose sizes move: one artifact, right and fast for every size allowed."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line in a process of its own; exits with 0, 1 for a refusal, 2 for wrong usage."""
    show_everything()
    status: object = 1
    try:
        group.main(list(sys.argv[1:] if arguments is None else arguments), prog_name="pliant")
    except SystemExit as done:
        status = done.code
    except OSError as failed:  # of `--help` and `--version`, which no command stands around
        _unwritable(show.standard_output(failed))
    leave(status if isinstance(status, int) else int(status is not None))
