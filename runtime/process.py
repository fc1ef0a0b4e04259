"""What a process has once, however many artifacts it loads: the thread pool, and how many threads it may use.

The pool's code travels in every artifact; the first one that is loaded provides it for all, by the version of its
interface. Its code and memory stay mapped until the process ends, since its threads may be in them at any time.
This is the only state of the runtime that does not belong to an object of the caller's.
"""

from __future__ import annotations

import ctypes
import os
import threading
from dataclasses import dataclass, field

from .layout import CONTROL_BYTES, POOL_RUN_SYMBOL, STATE_BYTES, WORD, Control
from .link import link
from .memory import Advice, Region
from .settings import checked_threads, threads_at_start


@dataclass(frozen=True)
class Pool:
    """A thread pool: the address of its run function and of its control block."""

    run: int
    control: int

    def set_threads(self, count: int) -> None:
        ctypes.c_int64.from_address(self.control + Control.THREADS * WORD).value = count


@dataclass
class Process:
    """The pools by the symbol of their run function, which names the version, and the number of threads."""

    pools: dict[str, Pool] = field(default_factory=dict)
    threads: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def num_threads(self) -> int:
        if self.threads is None:
            self.threads = threads_at_start()
        return self.threads

    def set_num_threads(self, count: int) -> None:
        with self.lock:
            self.threads = checked_threads(count, "the number of threads")
            for pool in self.pools.values():
                pool.set_threads(self.threads)

    def pool(self, code: bytes | memoryview) -> Pool:
        """The pool of the process, made of `code` if it has none yet."""
        with self.lock:
            if POOL_RUN_SYMBOL not in self.pools:
                self.pools[POOL_RUN_SYMBOL] = self._make(code)
            return self.pools[POOL_RUN_SYMBOL]

    def _make(self, code: bytes | memoryview) -> Pool:
        image = link({"pool": code}, forever=True)
        run = image.address(POOL_RUN_SYMBOL)
        control = Region.allocate(CONTROL_BYTES, forever=True)
        state = Region.allocate(STATE_BYTES, forever=True)
        if not state.advise(Advice.WIPE_ON_FORK):
            os.register_at_fork(after_in_child=lambda: ctypes.memset(state.address, 0, state.size))
        ctypes.c_int64.from_address(control.address + Control.STATE * WORD).value = state.address
        pool = Pool(run, control.address)
        pool.set_threads(self.num_threads())
        return pool

    def after_fork(self) -> None:
        """Another thread of the parent may have held the lock."""
        self.lock = threading.Lock()


PROCESS = Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROCESS.after_fork)


def set_num_threads(count: int) -> None:
    """How many threads a call may use, the calling one among them; from the next call on, in the whole process.

    PliantError for a number outside 1..1024, ArgumentError for what is no whole number.
    """
    PROCESS.set_num_threads(count)


def get_num_threads() -> int:
    """How many threads a call may use: what was set, or PLIANT_NUM_THREADS, or the processors of this process."""
    return PROCESS.num_threads()
