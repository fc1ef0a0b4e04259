"""A program planned at large bounds runs where there is no such address space, with what its sizes take."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import pliant
from pliant.compiler.codegen.llvm import resolve
from pliant.compiler.driver import Compilation
from pliant.compiler.target import Target
from pliant.ir.parser_loops import parse_program
from pliant.ir.printer_loops import print_program
from pliant.runtime.errors import SizeError
from pliant.runtime.memory import Region

# The scaled product is [n, n], and is read twice and transposed: 4 TB and more at the bound.
TEXT = """
func @main(x: f32[n, 8]) -> f32[n, n], f32[n]
    where n in 0..1000000
{
    a = matmul(x, x, transpose_b=true)
    s = softmax(a, axis=-1)
    t = permute(s, axes=[1, 0])
    u, k = sort(s, axis=0)
    v = add(t, u)
    w = cumsum(v, axis=1)
    r = sum(w, axis=0)
    return v, r
}
"""


def by_numpy(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a = (x @ x.T).astype(np.float64)
    e = np.exp(a - a.max(1, keepdims=True, initial=-np.inf))
    s = e / e.sum(1, keepdims=True)
    v = s.T + np.sort(s, 0)
    return v, np.cumsum(v, 1).sum(0)


def check(exe: pliant.Executable, n: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, 8)).astype(np.float32)
    for got, want in zip(exe(x), by_numpy(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-5)


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Memory of at most 1 GiB a region; what was asked for."""
    asked: list[int] = []
    allocate = Region.allocate

    def refuse(size: int, *, forever: bool = False) -> Region:
        asked.append(size)
        if size > 1 << 30:
            raise MemoryError("no address space")
        return allocate(size, forever=forever)

    monkeypatch.setattr(Region, "allocate", staticmethod(refuse))
    return asked


def test_calls_use_what_their_sizes_take(limited: list[int]) -> None:
    exe = pliant.compile(TEXT, opt=1)
    for n in (0, 1, 5, 700, 3):
        check(exe, n)
    (bound,) = (size for size in limited if size > 1 << 40)  # asked for once
    assert max(limited[limited.index(bound) + 1 :]) < 16 * 700 * 700 * 4 + (1 << 22)
    with pytest.raises(SizeError, match="bytes of memory"):
        exe(np.zeros((200_000, 8), np.float32))
    check(exe, 9)


def test_many_threads_at_once(limited: list[int]) -> None:
    exe = pliant.compile(TEXT, opt=1)
    failed: list[BaseException] = []

    def run(n: int) -> None:
        try:
            check(exe, n)
        except BaseException as fault:  # noqa: BLE001
            failed.append(fault)

    threads = [threading.Thread(target=run, args=(n,)) for n in (3, 50, 120, 7)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_the_plan_at_the_bound_is_used_where_there_is_room() -> None:
    exe = pliant.compile(TEXT, opt=1)
    check(exe, 40)
    (function,) = exe.inspect()["functions"]
    assert int(function["arena"]) > 1 << 40
    assert function["in_use"] is True
    small = pliant.compile(TEXT.replace("1000000", "1000"), opt=1)
    assert small.inspect()["functions"][0]["in_use"] is False


def test_under_a_limit_of_the_system(tmp_path: Path) -> None:
    path = tmp_path / "bounded.pliant"
    pliant.compile(TEXT, opt=1).save(path)
    code = f"""
import json, resource, sys
import numpy as np
from pliant.runtime import load
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
exe = load({str(path)!r})
print(json.dumps([float(exe(np.ones((n, 8), np.float32))[1].sum()) for n in (0, 1, 6)]))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    wanted = [float(by_numpy(np.ones((n, 8), np.float32))[1].sum()) for n in (0, 1, 6)]
    np.testing.assert_allclose(json.loads(run.stdout), wanted, rtol=1e-5)


def test_the_loops_are_printed_and_parsed_back() -> None:
    program = Compilation(pliant.parse(TEXT), resolve(Target.parse("cpu"))).program
    assert "in.use" in print_program(program)
    assert parse_program(print_program(program)) == program
