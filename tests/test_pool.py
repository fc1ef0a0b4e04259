"""The thread pool: every chunk once, workers within their limit, any number of callers, across a fork."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pliant.compiler.codegen.llvm import compile_ir, resolve
from pliant.compiler.codegen.pool import pool_ir
from pliant.compiler.target import Target
from pliant.runtime import get_num_threads, set_num_threads
from pliant.runtime.errors import PliantError
from pliant.runtime.link import Image, link
from pliant.runtime.process import PROCESS, Pool
from pliant.runtime.settings import MAX_THREADS, THREADS_VARIABLE, threads_at_start

from .runtime_programs import compiled, pool_object

# arg: counts of every chunk | counts of every worker (from 65536 on); busy for a while, so that others join in
CHUNK = """
define void @mark(ptr %arg, i64 %chunk, i64 %worker) {
entry:
  %p = getelementptr i64, ptr %arg, i64 %chunk
  %o = atomicrmw add ptr %p, i64 1 monotonic
  %w = add i64 %worker, 65536
  %q = getelementptr i64, ptr %arg, i64 %w
  %o2 = atomicrmw add ptr %q, i64 1 monotonic
  br label %spin
spin:
  %i = phi i64 [0, %entry], [%i1, %spin]
  %i1 = add i64 %i, 1
  %x = load volatile i64, ptr %p
  %more = icmp slt i64 %i1, 200
  br i1 %more, label %spin, label %end
end:
  ret void
}
; Many forks and joins in a row.
define void @repeat(ptr %run, ptr %handle, ptr %fn, ptr %arg, i64 %chunks, i64 %times) {
entry:
  br label %next
next:
  %i = phi i64 [0, %entry], [%i1, %next]
  call void %run(ptr %handle, ptr %fn, ptr %arg, i64 %chunks)
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %times
  br i1 %more, label %next, label %end
end:
  ret void
}
"""
WORDS = 65536 + MAX_THREADS


@pytest.fixture(scope="module")
def code() -> Image:
    return link({"chunk": compiled(CHUNK)})


@pytest.fixture
def pool() -> Iterator[Pool]:
    before = get_num_threads()
    set_num_threads(4)
    yield PROCESS.pool(pool_object())
    set_num_threads(before)


def run(
    pool: Pool, code: Image, chunks: int, limit: int = MAX_THREADS, times: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Counts by chunk and by worker."""
    counts = np.zeros(WORDS, np.int64)
    handle = (ctypes.c_int64 * 2)(pool.control, limit)
    repeat = ctypes.CFUNCTYPE(None, *[ctypes.c_size_t] * 6)(code.address("repeat"))
    repeat(pool.run, ctypes.addressof(handle), code.address("mark"), counts.ctypes.data, chunks, times)
    return counts[:65536], counts[65536:]


@pytest.mark.parametrize("chunks", [0, 1, 2, 3, 7, 64, 1000, 65536])
def test_every_chunk_is_run_once(pool: Pool, code: Image, chunks: int) -> None:
    by_chunk, by_worker = run(pool, code, chunks)
    assert (by_chunk[:chunks] == 1).all()
    assert not by_chunk[chunks:].any()
    assert by_worker.sum() == chunks
    assert not by_worker[4:].any()


def test_thousands_of_forks_in_a_row(pool: Pool, code: Image) -> None:
    by_chunk, by_worker = run(pool, code, 5, times=20000)
    assert (by_chunk[:5] == 20000).all()
    assert not by_worker[4:].any()


def test_several_threads_take_part(pool: Pool, code: Image) -> None:
    helped = 0
    for _ in range(50):
        helped += run(pool, code, 2000, times=5)[1][1:].sum()
        if helped:
            return
    pytest.fail("the caller did everything alone, fifty times")


def test_no_worker_beyond_the_limit_of_the_handle(pool: Pool, code: Image) -> None:
    run(pool, code, 1000)
    for limit in (1, 2, 3):
        by_chunk, by_worker = run(pool, code, 500, limit, times=20)
        assert (by_chunk[:500] == 20).all()
        assert not by_worker[limit:].any()


def test_the_number_of_threads_can_be_changed(pool: Pool, code: Image) -> None:
    for count in (1, 3, 2, 6):
        set_num_threads(count)
        assert get_num_threads() == count
        by_chunk, by_worker = run(pool, code, 300, times=20)
        assert (by_chunk[:300] == 20).all()
        assert not by_worker[count:].any()
    with pytest.raises(PliantError, match=r"1\.\.1024"):
        set_num_threads(0)


def test_after_sleeping_threads_are_woken(pool: Pool, code: Image) -> None:
    for _ in range(10):
        time.sleep(0.01)  # longer than they spin
        by_chunk, _ = run(pool, code, 100)
        assert (by_chunk[:100] == 1).all()


def test_many_callers_at_once(pool: Pool, code: Image) -> None:
    wrong: list[int] = []

    def caller(seed: int) -> None:
        for i in range(60):
            chunks = 1 + (seed * 37 + i * 11) % 200
            by_chunk, by_worker = run(pool, code, chunks, times=5)
            if not (by_chunk[:chunks] == 5).all() or by_worker[4:].any():
                wrong.append(seed)

    threads = [threading.Thread(target=caller, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_starts_threads_of_its_own(pool: Pool, code: Image) -> None:
    run(pool, code, 1000, times=10)
    child = os.fork()
    if child == 0:
        # Only this thread exists here; a pool that counted on the others would wait for ever.
        ok = False
        try:
            results = [run(pool, code, 1000, times=10) for _ in range(20)]
            ok = all((chunks[:1000] == 10).all() for chunks, _ in results)
            ok = ok and len(os.listdir("/proc/self/task")) == 4
        finally:
            os._exit(0 if ok else 1)
    deadline = time.monotonic() + 60
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(status) == 0
    by_chunk, _ = run(pool, code, 1000, times=10)
    assert (by_chunk[:1000] == 10).all()


def test_pool_threads_leave_signals_to_the_program(pool: Pool, code: Image) -> None:
    run(pool, code, 1000, times=10)
    blocked = []
    for task in os.listdir("/proc/self/task"):
        if int(task) == os.getpid():
            continue
        with open(f"/proc/self/task/{task}/status", encoding="ascii") as status:
            (mask,) = [line.split()[1] for line in status if line.startswith("SigBlk")]
        blocked.append(bool(int(mask, 16) & 1 << (signal.SIGTERM - 1)))
    assert sum(blocked) >= 3


def test_a_process_ends_while_threads_spin_and_sleep() -> None:
    text = (
        "from tests.test_pool import *\n"
        "set_num_threads(4)\n"
        "pool = PROCESS.pool(pool_object())\n"
        "code = link({'chunk': compiled(CHUNK)})\n"
        "run(pool, code, 1000, times=10)\n"
    )
    for wait in ("", "time.sleep(0.05)\n"):
        root = Path(__file__).resolve().parent.parent
        result = subprocess.run([sys.executable, "-c", text + wait], cwd=root, capture_output=True, timeout=120)
        assert result.returncode == 0, result.stderr.decode()


def test_the_setting_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    assert threads_at_start() == 3
    monkeypatch.delenv(THREADS_VARIABLE)
    assert threads_at_start() == len(os.sched_getaffinity(0))
    for wrong in ("0", "many", "-1", "99999"):
        monkeypatch.setenv(THREADS_VARIABLE, wrong)
        with pytest.raises(PliantError, match=THREADS_VARIABLE):
            threads_at_start()


def test_there_is_one_pool_in_a_process(pool: Pool) -> None:
    assert PROCESS.pool(b"not even looked at") is pool


def test_the_pool_compiles_for_other_processors() -> None:
    target = resolve(Target.parse("cpu:neoverse-n1"))
    assert compile_ir(pool_ir("aarch64"), target)[:4] == b"\x7fELF"
    with pytest.raises(ValueError, match="no thread pool for wasm32"):
        pool_ir("wasm32")
