"""`python -m pliant` and `pliant`: the command line. Nothing is imported before the process is in order."""

import os
import signal
import sys


def main() -> None:
    """Entry point; exits with 0, 1 for a refusal, 2 for wrong usage."""
    # Ctrl-C ends the process at once, as it ends most programs, unless whoever started it wants it ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _hold_standard_files()
    from pliant.compiler.cli import main as run

    run()


def _hold_standard_files() -> None:
    """Opens the standard files that are closed, in the wrong direction: what uses one is told that it cannot.

    Otherwise the next file that is opened would take its number, and be written to by whoever prints.
    """
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)


if __name__ == "__main__":
    main()
