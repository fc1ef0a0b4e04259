"""Processes that make machine code, so that a fault of LLVM ends one of them and not the user's.

A worker stays for the next compilation, and ends by itself when there is none for a while.  A worker that dies takes
its jobs along; each of those is tried again alone, then without LLVM's loop vectoriser, then unoptimised.  Where there
can be no worker (no interpreter to start, no process to be had) the code is made here.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import IO

import llvmlite

from . import machine_code
from .machine_code import Job, build, receive, send

_BOOT = "import sys; sys.path += sys.argv[1:]; import machine_code; machine_code.main()"
_MOST_JOBS = 500
"""Jobs after which a worker is replaced: LLVM does not give back all of its memory."""
_STOP_S = 1.0


@dataclass(frozen=True)
class Fault:
    """LLVM ended a process over this job; `served` is how the code was made after all, None if it was not."""

    job: Job
    said: str
    served: Job | None

    def keep(self) -> str:
        """Writes the IR to a file, for a report, and returns its path."""
        name = f"pliant-fault-{hashlib.sha256(self.job.text.encode()).hexdigest()[:12]}.ll"
        path = Path(tempfile.gettempdir()) / name
        path.write_text(self.job.text, encoding="utf-8")
        return str(path)


@dataclass(frozen=True)
class Built:
    """What came of a job, and the fault of LLVM that was met on the way."""

    data: bytes | None
    problem: str = ""
    fault: Fault | None = None


class Worker:
    """One process.  OSError when it cannot be started."""

    def __init__(self, boot: str = _BOOT) -> None:
        # After the standard library's, whatever the modules of the user's program are called.
        paths = [str(Path(llvmlite.__file__).absolute().parents[1]), str(Path(machine_code.__file__).absolute().parent)]
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `stop`)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", boot, *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the user's process
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.requests: IO[bytes] = self.process.stdin
        self.answers: IO[bytes] = self.process.stdout
        self.jobs = 0

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Built]]:
        """Positions and results, as they come; EOFError or BrokenPipeError when the process is gone."""
        self.jobs += len(jobs)
        send(self.requests, [astuple(job) for job in jobs])
        for _ in jobs:
            position, data, problem = receive(self.answers)
            yield position, Built(data, problem)

    def said(self) -> str:
        """Why the process is gone: the signal, and the last line that it wrote."""
        self._end()
        code = self.process.returncode
        self.errors.seek(0)
        lines = self.errors.read()[-4000:].decode(errors="replace").strip().splitlines()
        self.errors.close()
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return f"{how}: {_FOLDERS.sub('', lines[-1])}" if lines else how

    def stop(self) -> None:
        """Ends it, by force if it does not by itself."""
        self._end()
        self.errors.close()

    def _end(self) -> None:
        for stream in (self.requests, self.answers):
            with contextlib.suppress(OSError):  # what was not written goes with it
                stream.close()
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def forget(self) -> None:
        """After a fork: it is the parent's."""
        self.process.returncode = 0
        for stream in (self.requests, self.answers, self.errors):
            stream.close()


_FOLDERS = re.compile(r"\S*/(?=[^/\s]+\.(?:cpp|h):\d+)")


@dataclass
class Workers:
    """The workers of a process that have nothing to do.  Any number of threads may build at once."""

    boot: str = _BOOT
    idle: list[Worker] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def prepare(self) -> None:
        """Starts a worker if none waits, so that it is ready when there is something to build."""
        with self.lock:
            waiting = bool(self.idle)
        worker = None if waiting else self._start()
        if worker is not None:
            self._put(worker)

    def build(self, jobs: Sequence[Job], tell: Callable[[int], None] = lambda _position: None) -> list[Built]:
        """The results, in order; `tell` is called with the position of each when it is there."""
        done: dict[int, Built] = {}
        said = self._run(jobs, done, tell)
        for position, job in enumerate(jobs):
            if position not in done:
                done[position] = self._again(job) if said else Built(None, "the worker gave no answer")
                tell(position)
        return [done[position] for position in range(len(jobs))]

    def _again(self, job: Job) -> Built:
        """Alone, since another job may have ended the worker; then with less and less optimisation."""
        first = ""
        for attempt in attempts(job):
            done: dict[int, Built] = {}
            said = self._run([attempt], done)
            if done:
                return replace(done[0], fault=Fault(job, first, attempt) if first else None)
            first = first or said
        return Built(None, fault=Fault(job, first, None))

    def _run(
        self, jobs: Sequence[Job], done: dict[int, Built], tell: Callable[[int], None] = lambda _position: None
    ) -> str:
        """Fills in what is built; what the worker said if it died over the rest."""
        worker = self._take()
        if worker is None:
            for position, job in enumerate(jobs):
                done[position] = _here(job)
                tell(position)
            return ""
        try:
            for position, built in worker.run(jobs):
                done[position] = built
                tell(position)
        except (EOFError, BrokenPipeError):
            return worker.said()
        except BaseException:
            worker.process.kill()
            worker.stop()
            raise
        self._put(worker)
        return ""

    def _take(self) -> Worker | None:
        while True:
            with self.lock:
                worker = self.idle.pop() if self.idle else None
            if worker is None:
                return self._start()
            if worker.process.poll() is None:
                return worker
            worker.stop()

    def _start(self) -> Worker | None:
        # An application that has an interpreter inside may give its own path here: it must not be started again.
        name = Path(sys.executable or "").name
        if not re.fullmatch(r"(python|pypy)[\d.]*t?(\.exe)?", name) or getattr(sys, "frozen", False):
            return None
        try:
            return Worker(self.boot)
        except OSError:
            return None

    def _put(self, worker: Worker) -> None:
        with self.lock:
            keep = worker.jobs < _MOST_JOBS and not self.idle
            if keep:
                self.idle.append(worker)
        if not keep:
            worker.stop()

    def close(self) -> None:
        """Ends the workers that wait."""
        with self.lock:
            idle, self.idle = self.idle, []
        for worker in idle:
            worker.stop()

    def after_fork(self) -> None:
        """Another thread of the parent may have held the lock; the workers are the parent's."""
        self.lock = threading.Lock()
        idle, self.idle = self.idle, []
        for worker in idle:
            worker.forget()


def attempts(job: Job) -> Iterator[Job]:
    """As asked for, without LLVM's loop vectoriser, and unoptimised."""
    yield job
    if job.level > 0:
        yield replace(job, vectorize=False)
        yield replace(job, level=0, vectorize=False)


def _here(job: Job) -> Built:
    try:
        return Built(build(job))
    except RuntimeError as problem:
        return Built(None, str(problem))


WORKERS = Workers()
"""A process has them once: starting one takes longer than compiling a small program."""
atexit.register(WORKERS.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WORKERS.after_fork)
