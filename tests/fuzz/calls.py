"""Programs compiled and called: arrays of every layout, guarded memory, saved artifacts, sizes that facts forbid."""

from __future__ import annotations

import ctypes
import mmap
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import pliant
from pliant.ir.graph import Module
from pliant.ir.interpret import Interpreter, InterpretError
from pliant.ir.printer import print_module
from pliant.runtime import PliantError

from .numbers import Array
from .programs import Program

PAGE = mmap.PAGESIZE


class Wrong(AssertionError):
    """A program that does not do what numpy says; the message holds its text."""


def leaves(value: Any) -> Iterator[Array]:
    """The arrays of nested tuples, in order."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    elif value is not None:
        yield np.asarray(value)


def guarded(a: Array) -> Array:
    """A copy that ends where a page begins that must not be touched: a write or read past it ends the process."""
    if not a.nbytes:
        return a.copy()
    libc = ctypes.CDLL(None, use_errno=True)
    pages = -(-a.nbytes // PAGE)
    memory = mmap.mmap(-1, (pages + 1) * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if libc.mprotect(ctypes.c_void_p(address + pages * PAGE), PAGE, 0):
        return a.copy()
    made = np.frombuffer(memory, np.uint8, a.nbytes, pages * PAGE - a.nbytes).view(a.dtype).reshape(a.shape)
    made[...] = a
    return made


def laid_out(rng: random.Random, a: Array, inout: bool) -> Array:
    """The same elements in other memory: guarded, reversed, column by column, every second one, off by a byte."""
    form = rng.choice(["guarded", "guarded", "copy", "reversed", "columns", "strided", "misaligned", "read-only"])
    if form == "guarded":
        return guarded(a)
    made = a.copy()
    if inout or not a.ndim or form == "copy":
        return made
    if form == "reversed":
        return np.ascontiguousarray(a[::-1])[::-1]
    if form == "columns":
        return np.asfortranarray(a)
    if form == "strided":
        wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
        wide[..., ::2] = a
        return wide[..., ::2]
    if form == "misaligned" and a.nbytes:
        made = np.zeros(a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(a.shape)
        made[...] = a
    made.flags.writeable = form != "read-only"
    return made


def check(p: Program, folder: Path | None = None) -> int:
    """Compiles a program from its text and calls it at every binding; how many arrays were compared."""
    rng = random.Random(p.seed)
    with told(p):
        exe = pliant.compile(p.text, weights=p.weights[0] or None, opt=rng.choice([2, 2, 1, 3, 0]))
        if folder is not None and rng.random() < 0.25:
            exe.save(folder / "fuzz.pliant")
            exe = pliant.load(folder / "fuzz.pliant")
        for i, weights in enumerate(p.weights):
            bound = exe.with_weights(weights) if weights and i else exe
            called(p, i, bound["main"], rng)
            interpreted(p, i)
        for arguments in p.forbidden:
            _refused(exe["main"], arguments)
    return p.compared


def check_together(programs: Sequence[Program], opt: int) -> int:
    """Plain programs as functions of one module, which is compiled sooner than each by itself."""
    functions = tuple(replace(p.module.function("main"), name=f"f{p.seed}") for p in programs)
    try:
        exe = pliant.compile(print_module(Module((), (), functions), types=False), opt=opt)
    except Exception as fault:
        raise Wrong(f"seeds {[p.seed for p in programs]}: {type(fault).__name__}: {fault}") from fault
    for p in programs:
        with told(p):
            for i in range(len(p.bindings)):
                called(p, i, exe[f"f{p.seed}"], random.Random(p.seed))
                interpreted(p, i)
    return sum(p.compared for p in programs)


@contextmanager
def told(p: Program) -> Iterator[None]:
    """Whatever goes wrong is told with the program."""
    try:
        yield
    except Wrong as wrong:
        raise Wrong(f"seed {p.seed}: {wrong}\n{p.text}") from None
    except Exception as fault:
        raise Wrong(f"seed {p.seed}: {type(fault).__name__}: {fault}\n{p.text}") from fault


def called(p: Program, i: int, call: Callable[..., Any], rng: random.Random) -> None:
    """Calls the compiled program at its binding i."""
    main = p.module.function("main")
    inout = {q.name for q in main.params if q.inout}
    given: dict[str, Any] = {}
    for name, value in p.arguments[i].items():
        parts = isinstance(value, tuple)
        made = tuple(laid_out(rng, a, False) for a in value) if parts else laid_out(rng, value, name in inout)
        given[name] = made
    try:
        results = call(**given) if rng.random() < 0.5 else call(*given.values())
    except PliantError as failure:
        if p.fails[i]:
            return
        raise Wrong(f"at {p.bindings[i]}: {failure}") from None
    _compare(p, i, results, given, "compiled")
    for name, value in p.arguments[i].items():
        if name not in inout:
            for have, had in zip(leaves(given[name]), leaves(value), strict=True):
                if have.tobytes() != had.tobytes():
                    raise Wrong(f"at {p.bindings[i]}: the argument `{name}` was changed")


def _copied(value: Any) -> Any:
    return tuple(map(_copied, value)) if isinstance(value, tuple) else value.copy()


def interpreted(p: Program, i: int) -> None:
    """Runs the module at its binding i by the interpreter."""
    given = {
        name: tuple(a.copy() for a in leaves(v)) if isinstance(v, tuple) else v.copy()
        for name, v in p.arguments[i].items()
    }
    try:
        results = Interpreter(p.module, p.weights[i]).call(p.module.function("main"), given)
    except InterpretError as failure:
        if p.fails[i]:
            return
        raise Wrong(f"at {p.bindings[i]}: interpreted: {failure}") from None
    _compare(p, i, results, given, "interpreted")


def _compare(p: Program, i: int, results: Any, given: Mapping[str, Any], by: str) -> None:
    if p.fails[i]:
        raise Wrong(f"at {p.bindings[i]}: {by}: not refused, though {p.fails[i]}")
    arrays = list(leaves(results))
    for k, (got, want) in enumerate(zip(arrays, p.results[i], strict=True)):
        if problem := want.differs(got):
            raise Wrong(f"at {p.bindings[i]}: {by}: result {k}: {problem}")
    for name, want in p.updates[i].items():
        if problem := want.differs(given[name]):
            raise Wrong(f"at {p.bindings[i]}: {by}: `{name}` updated: {problem}")


def _refused(call: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    kept = [a.copy() for v in arguments.values() for a in leaves(v)]
    try:
        call(**arguments)
    except PliantError:
        for now, before in zip((a for v in arguments.values() for a in leaves(v)), kept, strict=True):
            if now.tobytes() != before.tobytes():
                raise Wrong("a refused call wrote to its arguments") from None
        return
    raise Wrong(
        f"sizes that the facts forbid were accepted: {[a.shape for v in arguments.values() for a in leaves(v)]}"
    )
