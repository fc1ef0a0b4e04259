"""Checking indices before anything is written, so that a call that fails leaves alone what it would have updated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..dims import Dim
from ..loops import Expr
from ..op import Array1, KernelBuilder
from ..scalar import add, apply, both, cast, const, index, select
from ..types import DType
from ._shape import COPIED, ONE, tile, wrapped_index


@dataclass(frozen=True)
class Indices:
    """All of an array of indices into `axis` of `size` elements."""

    array: Array1
    axis: int
    size: Dim

    def place(self, k: KernelBuilder, at: Expr) -> Expr:
        """The index at the offset `at`, which was checked, counted from the start."""
        i = k.let(cast(self._load(k, at), DType.i64))
        if not self.array.type.dtype.is_signed:
            return i
        return k.let(select(apply("lt", i, index(0)), add(i, index(self.size)), i))

    def check(self, k: KernelBuilder, op: str, at: Expr) -> Expr:
        """Fails the call unless the index at the offset `at` is in range; gives whether it is."""
        return wrapped_index(k, self._load(k, at), self.size, self.axis, op)[1]

    def _load(self, k: KernelBuilder, at: Expr) -> Expr:
        return k.load(self.array.buffer, at, self.array.type.dtype)


@dataclass(frozen=True)
class Guard:
    """Runs code where every index was found in range; inside parallel loops, so that they stay outermost."""

    k: KernelBuilder
    flag: str

    def __call__(self, body: Callable[[], None]) -> None:
        self.k.branch(self.k.load(self.flag, index(0), DType.bool), body)


def check_first(k: KernelBuilder, op: str, indices: Sequence[Indices]) -> Guard:
    """Reads all indices, in parallel; fails the call when one is out of range."""
    # Each part has a flag of its own: no two threads write to one place, and no local crosses a parallel loop.
    parts = [Dim.ceildiv(i.array.type.size, COPIED) for i in indices]
    flags = [_check_parts(k, op, i, count) for i, count in zip(indices, parts, strict=True)]
    total = k.alloc(DType.bool, ONE)
    k.store(total, index(0), const(True, DType.bool))
    for flag, count in zip(flags, parts, strict=True):

        def join(t: Expr, flag: str = flag) -> None:
            k.store(total, index(0), both(k.load(total, index(0), DType.bool), k.load(flag, t, DType.bool)))

        k.loop("t", index(0), index(count), join)
    return Guard(k, total)


def _check_parts(k: KernelBuilder, op: str, indices: Indices, count: Dim) -> str:
    flags = k.alloc(DType.bool, count)

    def part(t: Expr) -> None:
        fine = k.local(const(True, DType.bool))
        start, stop = tile(indices.array.type.size, COPIED, t)
        k.loop("i", start, stop, lambda i: k.assign(fine, both(fine, indices.check(k, op, i))), "vector")
        k.store(flags, t, fine)

    k.loop("t", index(0), index(count), part, "parallel")
    return flags
