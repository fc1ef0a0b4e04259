"""The process of the command line: its standard files, Ctrl-C, and how it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def tidied() -> Iterator[None]:
    """Inside, Ctrl-C is an exception, so that half-written files are removed; then it ends the process as elsewhere.

    Elsewhere it ends the process at once (see `pliant.__main__`): there is nothing to put in order, and neither an
    import nor machine code would pass on an exception in good shape.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def show_everything() -> None:
    """Characters that the terminal's encoding lacks (names of files may hold anything) are written as escapes."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def silence(descriptor: int) -> None:
    """What is still in a buffer goes nowhere, so that the interpreter does not complain at its end."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def leave(status: int) -> None:
    """Ends with a status once standard output is written; 1 where it cannot be, which is said."""
    try:
        sys.stdout.flush()
    except OSError as failed:
        status = status or 1
        if not isinstance(failed, BrokenPipeError) and sys.stderr is not None:
            with contextlib.suppress(OSError):
                sys.stderr.write(f"error: standard output: {failed.strerror}\n")
        silence(1)
    sys.exit(status)
