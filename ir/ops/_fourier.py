"""The loops of discrete Fourier transforms.

Any length, known or not: the length is factored when the call runs, and a stage is done for each prime factor
(Stockham's autosort form of Cooley and Tukey's algorithm; Van Loan, Computational Frameworks for the FFT, 1.7).  That
is of order n log n where the factors are small, n p with a largest factor p.  Angles are reduced in whole numbers and
computed in f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..dims import Dim
from ..loops import Apply, Expr
from ..op import KernelBuilder
from ..scalar import add, apply, cast, const, index, mul, select, sub
from ..types import DType, TensorType
from ._shape import ONE, collapsed, pairs, tile

LINES = 16
"""Lines that are transformed together, neighbours in memory, so that every step is done to a vector."""


@dataclass(frozen=True)
class Lines:
    """The lines along one axis of an array, `count` of them at a time."""

    start: Expr
    line: Expr
    step: Expr

    def at(self, line: Expr, i: Expr) -> Expr:
        return add(add(self.start, mul(line, self.line)), mul(i, self.step))


def _lines(t: TensorType, axis: int, o: Expr, first: Expr) -> Lines:
    _, size, inner = collapsed(t, axis)
    if inner == ONE:
        return Lines(mul(first, index(size)), index(size), index(1))
    return Lines(add(mul(o, index(size * inner)), first), index(1), index(inner))


def _tiles(k: KernelBuilder, t: TensorType, axis: int, body: Callable[[Expr, Expr, Expr], None]) -> None:
    """Calls `body` with the outer position and the first of every few lines, and how many they are, in parallel."""
    outer, _, inner = collapsed(t, axis)
    rows, count = (ONE, outer) if inner == ONE else (outer, inner)

    def one(o: Expr, number: Expr) -> None:
        first, last = tile(count, LINES, number)
        body(o, first, sub(last, first))

    pairs(k, rows, Dim.ceildiv(count, LINES), one)


@dataclass(frozen=True)
class _Complexes:
    """A scratch array of complex numbers."""

    k: KernelBuilder
    re: str
    im: str
    dtype: DType

    @staticmethod
    def alloc(k: KernelBuilder, dtype: DType, size: Dim) -> _Complexes:
        return _Complexes(k, k.alloc(dtype, size), k.alloc(dtype, size), dtype)

    def get(self, i: Expr) -> tuple[Expr, Expr]:
        return self.k.let(self.k.load(self.re, i, self.dtype)), self.k.let(self.k.load(self.im, i, self.dtype))

    def put(self, i: Expr, re: Expr, im: Expr) -> None:
        self.k.store(self.re, i, re)
        self.k.store(self.im, i, im)


def _times(a: tuple[Expr, Expr], b: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
    return sub(mul(a[0], b[0]), mul(a[1], b[1])), add(mul(a[0], b[1]), mul(a[1], b[0]))


def _whole(fn: str, a: Expr, b: Expr) -> Expr:
    """A quotient or rest of whole numbers that are known at run time only: no polynomial."""
    return Apply(fn, (a, b), DType.i64)


def _roots(k: KernelBuilder, size: Dim, dtype: DType, inverse: bool) -> _Complexes:
    """exp(-2 pi i j / size) for all j, conjugated where `inverse`."""
    made = _Complexes.alloc(k, dtype, size)
    full = const(2 * math.pi if inverse else -2 * math.pi, DType.f64)

    def one(j: Expr) -> None:
        turn = apply("div", cast(j, DType.f64), cast(index(size), DType.f64))
        angle = k.let(mul(turn, full))
        made.put(j, cast(apply("cos", angle), dtype), cast(apply("sin", angle), dtype))

    k.loop("j", index(0), index(size), one, "vector")
    return made


def _smallest_factor(k: KernelBuilder, of: Expr) -> Expr:
    p = k.local(index(2))

    def goes_on() -> Expr:
        return apply("logical_and", apply("le", mul(p, p), of), apply("ne", _whole("mod", of, p), index(0)))

    k.while_(goes_on, lambda: k.assign(p, add(p, index(1))))
    return k.let(select(apply("le", mul(p, p), of), p, of))


@dataclass(frozen=True)
class _Stages:
    """The transform of `lines` lines of `size` elements, in the first half of `data`, first elements first."""

    k: KernelBuilder
    data: _Complexes
    roots: _Complexes
    size: Dim
    lines: Expr

    def run(self) -> Expr:
        """Where in `data` the result begins."""
        k = self.k
        source = k.local(index(0))
        stride, rest = k.local(index(1)), k.local(index(self.size))

        def stage() -> None:
            p = _smallest_factor(k, rest)
            m = k.let(_whole("floordiv", rest, p))
            step, given = k.let(add(stride, index(0))), k.let(add(source, index(0)))
            made = k.let(sub(index(self.size * LINES), given))
            k.branch(
                apply("eq", p, index(2)),
                lambda: self._pairs(given, made, step, m),
                lambda: self._any(given, made, step, m, p),
            )
            k.assign(source, made)
            k.assign(stride, mul(step, p))
            k.assign(rest, m)

        k.while_(lambda: apply("gt", rest, index(1)), stage)
        return source

    def _place(self, start: Expr, i: Expr) -> Expr:
        return self.k.let(add(start, mul(i, index(LINES))))

    def _each(self, body: Callable[[Expr], None]) -> None:
        self.k.loop("v", index(0), self.lines, body, "vector")

    def _pairs(self, source: Expr, target: Expr, stride: Expr, m: Expr) -> None:
        """Two at a time: their sum, and their difference times a root."""
        k, data = self.k, self.data

        def group(q: Expr) -> None:
            w = self.roots.get(mul(stride, q))

            def one(c: Expr) -> None:
                first = add(c, mul(stride, q))
                a, b = self._place(source, first), self._place(source, add(first, mul(stride, m)))
                low = self._place(target, add(first, mul(stride, q)))
                high = self._place(low, stride)

                def line(v: Expr) -> None:
                    x, y = data.get(add(a, v)), data.get(add(b, v))
                    data.put(add(low, v), add(x[0], y[0]), add(x[1], y[1]))
                    data.put(add(high, v), *_times((k.let(sub(x[0], y[0])), k.let(sub(x[1], y[1]))), w))

                self._each(line)

            k.loop("c", index(0), stride, one)

        k.loop("q", index(0), m, group)

    def _any(self, source: Expr, target: Expr, stride: Expr, m: Expr, p: Expr) -> None:
        """p at a time, each result a sum of p."""
        k, data = self.k, self.data
        part = k.let(_whole("floordiv", index(self.size), p))
        zero = const(0.0, data.dtype)

        def result(q: Expr, r: Expr, c: Expr) -> None:
            to = self._place(target, add(c, mul(stride, add(mul(p, q), r))))
            self._each(lambda v: data.put(add(to, v), zero, zero))

            def term(t: Expr) -> None:
                turn = mul(r, add(mul(stride, q), mul(part, t)))
                w = self.roots.get(k.let(_whole("mod", turn, index(self.size))))
                at = self._place(source, add(c, mul(stride, add(q, mul(m, t)))))

                def line(v: Expr) -> None:
                    total, x = data.get(add(to, v)), _times(data.get(add(at, v)), w)
                    data.put(add(to, v), add(total[0], x[0]), add(total[1], x[1]))

                self._each(line)

            k.loop("t", index(0), p, term)

        zeroth = index(0)
        k.loop(
            "q", zeroth, m,
            lambda q: k.loop("r", zeroth, p, lambda r: k.loop("c", zeroth, stride, lambda c: result(q, r, c))),
        )  # fmt: skip


Read = Callable[[Lines, Expr, Expr], tuple[Expr, Expr]]
"""Element i of a line of the operands."""
Write = Callable[[Expr, Expr, Expr], None]
"""What becomes of an element of the result, by its offset: real and imaginary part."""


def transformed(
    k: KernelBuilder,
    source: TensorType,
    target: TensorType,
    axis: int,
    size: Dim,
    inverse: bool,
    read: Read,
    write: Write,
) -> None:
    """The transforms of all lines of `size` elements; as much of each is written as `target` holds."""
    dtype = target.dtype
    roots = _roots(k, size, dtype, inverse)

    def some(o: Expr, first: Expr, count: Expr) -> None:
        data = _Complexes.alloc(k, dtype, 2 * size * LINES)
        given, made = _lines(source, axis, o, first), _lines(target, axis, o, first)

        def each(stop: Dim, body: Callable[[Expr, Expr], None]) -> None:
            k.loop("i", index(0), index(stop), lambda i: k.loop("v", index(0), count, lambda v: body(i, v), "vector"))

        each(size, lambda i, v: data.put(add(mul(i, index(LINES)), v), *read(given, v, i)))
        start = k.let(add(_Stages(k, data, roots, size, count).run(), index(0)))
        each(target.dims[axis], lambda i, v: write(made.at(v, i), *data.get(add(start, add(mul(i, index(LINES)), v)))))

    _tiles(k, target, axis, some)
