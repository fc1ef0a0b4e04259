"""A fault of LLVM ends a worker, never the process that compiles: a lower level serves, or a diagnostic says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import pliant
from pliant.compiler.codegen import workers as workers_module
from pliant.compiler.codegen.llvm import CompilerFaultWarning, compile_many, resolve
from pliant.compiler.codegen.workers import WORKERS, Workers
from pliant.compiler.target import Target
from pliant.ir.diagnostics import CompileError

NATIVE = resolve(Target.parse("cpu"))
TEXT = 'define i64 @"{}"(i64 %x) {{ %y = add i64 %x, 1 ret i64 %y }}'

ABORTING = """
import sys; sys.path += sys.argv[1:]
import os, machine_code
real = machine_code.build
def build(job):
    if "victim" in job.text and (CONDITION):
        os.write(2, b"LLVM/Some.cpp:7: Assertion `false' failed.\\n")
        os.abort()
    return real(job)
machine_code.build = build
machine_code.main()
"""


def aborting(condition: str) -> Workers:
    """Workers that really abort over a function called victim, where the condition on the job holds."""
    return Workers(ABORTING.replace("CONDITION", condition))


def fails(condition: str, level: int = 2) -> tuple[list[bytes], list[str]]:
    texts = [TEXT.format(name) for name in ("one", "victim", "two")]
    pool = aborting(condition)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            objects = compile_many(texts, NATIVE, [level] * 3, workers=pool)
    finally:
        pool.close()
    assert all(w.category is CompilerFaultWarning is pliant.CompilerFaultWarning for w in caught)
    return objects, [str(w.message) for w in caught]


@pytest.mark.parametrize(
    ("condition", "how"),
    [("job.vectorize", "without LLVM's loop vectoriser"), ("job.level > 0", "unoptimised")],
)
def test_an_abort_is_served_with_less_optimisation(condition: str, how: str) -> None:
    objects, (said,) = fails(condition)
    assert [o[:4] for o in objects] == [b"\x7fELF"] * 3
    assert how in said
    assert "SIGABRT: Some.cpp:7: Assertion `false' failed." in said
    path = said.partition("kept in ")[2].partition(" for a report")[0]
    assert "victim" in Path(path).read_text()
    Path(path).unlink()


def test_what_fails_at_every_level_is_a_diagnostic() -> None:
    with pytest.raises(CompileError, match="LLVM failed on a part of the program") as refused:
        fails("True")
    (note,) = refused.value.diagnostics[0].notes
    path = Path(note.partition("kept in ")[2].partition(" for a report")[0])
    assert "victim" in path.read_text()
    path.unlink()


def test_invalid_code_is_still_our_fault() -> None:
    with pytest.raises(RuntimeError, match="expected"):
        compile_many(["define nonsense"], NATIVE, [2])


def test_the_program_that_ended_the_process() -> None:
    """LLVM's vectoriser failed an assertion over the branch around `q`, which now is none."""
    text = """
    func @main(s: f32[], q: bool[], x: i32[4, n]) -> f32[4, n], bool[4, n] {
        v = roll(x, shift=1, axis=0)
        c = lt(v, 5)
        a = where(c, s, 1)
        e = where(c, c, q)
        return a, e
    }"""
    x = np.arange(4 * 37, dtype=np.int32).reshape(4, 37) % 11
    c = np.roll(x, 1, 0) < 5
    for level in (0, 1, 2, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exe = pliant.compile(text, opt=level)
        for q in (False, True):
            a, e = exe(np.float32(3), np.array(q), x)
            np.testing.assert_array_equal(a, np.where(c, np.float32(3), np.float32(1)))
            np.testing.assert_array_equal(e, np.where(c, c, q))


def test_a_worker_that_was_killed_is_replaced() -> None:
    pool = Workers()
    first = compile_many([TEXT.format("one")], NATIVE, [2], workers=pool)
    (worker,) = pool.idle
    os.kill(worker.process.pid, signal.SIGKILL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compile_many([TEXT.format("one")], NATIVE, [2], workers=pool) == first
    (second,) = pool.idle
    assert second.process.pid != worker.process.pid
    pool.close()
    assert second.process.returncode == 0


def test_workers_are_replaced_before_they_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "_MOST_JOBS", 2)
    pool = Workers()
    pids = set()
    for _ in range(4):
        compile_many([TEXT.format("one")], NATIVE, [0], workers=pool)
        pids |= {w.process.pid for w in pool.idle}
    pool.close()
    assert len(pids) == 2


def test_without_an_interpreter_to_start_code_is_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = compile_many([TEXT.format("one")], NATIVE, [2])
    for executable in ("/usr/sbin/nginx", "", None):
        monkeypatch.setattr(sys, "executable", executable)
        pool = Workers()
        assert compile_many([TEXT.format("one")], NATIVE, [2], workers=pool) == wanted
        assert not pool.idle


def test_threads_and_forks_compile_with_workers_of_their_own() -> None:
    source = "func @main(x: f32[n]) -> f32[n] { y = add(x, 1) return y }"
    found: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: found.append(pliant.compile(source, opt=0)(np.ones(2, np.float32))))
        for _ in range(3)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_array_equal(found, np.full((3, 2), 2, np.float32))
    idle = [w.process.pid for w in WORKERS.idle]
    child = os.fork()
    if child == 0:
        fine = not WORKERS.idle and pliant.compile(source, opt=0)(np.ones(1, np.float32))[0] == 2
        WORKERS.close()
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert idle == [w.process.pid for w in WORKERS.idle]
    pliant.compile(source, opt=0)


def test_the_end_of_a_process_ends_its_workers_quietly() -> None:
    code = (
        "import pliant; from pliant.compiler.codegen.workers import WORKERS;"
        'pliant.compile("func @main(x: f32[n]) -> f32[n] { y = add(x, 1) return y }", opt=0);'
        "print(WORKERS.idle[0].process.pid)"
    )
    made = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, check=True)
    assert made.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(made.stdout), 0)
