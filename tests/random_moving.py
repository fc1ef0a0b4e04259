"""Drawing contractions, views, indices and what is made from nothing."""

from __future__ import annotations

from hypothesis import strategies as st

from pliant.ir.dims import Dim
from pliant.ir.types import DType
from tests.random_drawing import Drawing, Skip, Value


class Moving(Drawing):
    """Operators that move elements about, and matrix products."""

    # -- contractions

    def matmul(self) -> None:
        v = self.real(rank=1)
        v = Value(self.f.mul(v.operand, 0.2), v.type, False)
        partners = [o for o in self.pool if o.rank >= 1 and o.type.dtype is v.type.dtype]
        options = [
            (o, ta, tb, swap)
            for o in partners[-12:]
            for ta in (False, True)
            for tb in (False, True)
            for swap in (False, True)
            if _inner(v, o, ta, tb, swap)
            and not (ta and (o if swap else v).rank < 2)
            and not (tb and (v if swap else o).rank < 2)
        ]
        if not options:
            raise Skip
        o, ta, tb, swap = self.one(options)
        a, b = (o, v) if swap else (v, o)
        self.emit("matmul", a, b, transpose_a=ta, transpose_b=tb, exact=False)
        if self.draw(st.booleans()):
            self.emit("relu", self.pool[-1], exact=False)

    def einsum(self) -> None:
        v = self.value(lambda v: v.type.dtype is DType.f32 and v.rank == 2)
        scaled = Value(self.f.mul(v.operand, 0.2), v.type, False)
        o = self.value(lambda o: o.type.dtype is DType.f32 and o.rank in (1, 2))
        equation = self.one(
            ("ij,kj->ik", "ij,ij->i", "ij,ij->ji", "ij,kj->ki", "ij,ik->jk")
            if o.rank == 2
            else ("ij,j->i", "ij,k->ikj", "ij,i->j")
        )
        self.emit("einsum", scaled, o, equation=equation, exact=False)

    # -- views

    def permute(self) -> None:
        v = self.value(lambda v: v.rank >= 2)
        self.emit("permute", v, axes=self.draw(st.permutations(range(v.rank))), exact=v.exact)

    def reshape(self) -> None:
        v = self.value()
        dims = list(v.type.dims)
        shapes = [[*dims, Dim.of(1)], [Dim.of(1), *dims]]
        if len(dims) >= 2:
            shapes += [dims[::-1], [dims[0] * dims[1], *dims[2:]], [*dims[:-2], dims[-2] * dims[-1]]]
        one, two = self.f.dim("n"), Dim.of(2)
        if dims and dims[0] == one * 2:
            shapes += [[two, one, *dims[1:]], [one, two, *dims[1:]]]
        if dims and dims[-1] == Dim.of(4):
            shapes.append([*dims[:-1], two, two])
        self.emit("reshape", v, shape=self.one(shapes), exact=v.exact)

    def squeeze(self) -> None:
        v = self.value(lambda v: any(d == Dim.of(1) for d in v.type.dims))
        self.emit("squeeze", v, axis=self.one(i for i, d in enumerate(v.type.dims) if d == Dim.of(1)), exact=v.exact)

    def unsqueeze(self) -> None:
        v = self.value(lambda v: v.rank <= 3)
        self.emit("unsqueeze", v, axis=self.integer(0, v.rank), exact=v.exact)

    def expand(self) -> None:
        v = self.value(lambda v: v.rank <= 3)
        dims = [self.size() if d == Dim.of(1) else d for d in v.type.dims]
        if self.draw(st.booleans()) and v.rank <= 2:
            dims = [self.size(), *dims]
        self.emit("broadcast_to", v, shape=dims, exact=v.exact)

    def slice(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        axis = self.integer(0, v.rank - 1)
        size = v.type.dims[axis]
        bounds = [None, 0, 1, 2, -1, -2, size // 2, size - 1, self.f.dim("n"), 100]
        start, stop = self.one(bounds), self.one(bounds)
        self.emit("slice", v, axis=axis, start=start, stop=stop, step=self.one((1, 1, 2, 3, -1, -2)), exact=v.exact)

    def concat(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        axis = self.integer(0, v.rank - 1)
        others = [o for o in self.pool if o.type.dtype is v.type.dtype and o.rank == v.rank and _equal_but(o, v, axis)]
        parts = [v, *(self.one(others) for _ in range(self.integer(1, 2)))]
        self.emit("concat", *parts, axis=axis, exact=all(p.exact for p in parts))

    def stack(self) -> None:
        v = self.value(lambda v: v.rank <= 3)
        o = self.value(lambda o: o.type == v.type)
        self.emit("stack", v, o, axis=self.integer(0, v.rank), exact=v.exact and o.exact)

    def split(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        axis = self.integer(0, v.rank - 1)
        size = v.type.dims[axis]
        if size == Dim.of(4):
            self.emit("split", v, sections=2, axis=axis, exact=v.exact)
        else:
            self.emit("split", v, sizes=[size // 2, size - size // 2], axis=axis, exact=v.exact)

    def pad(self) -> None:
        v = self.value(lambda v: 1 <= v.rank <= 3)
        pads = [(self.integer(-1, 2), self.integer(0, 2)) for _ in range(v.rank)]
        value = 0 if v.type.dtype.is_bool else self.one((0, 1))
        self.emit("pad", v, pads=pads, value=value, exact=v.exact)

    def flip(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        self.emit("flip", v, axis=self.axes(v), exact=v.exact)

    def roll(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        self.emit("roll", v, shift=self.one((1, -1, 2)), axis=self.integer(0, v.rank - 1), exact=v.exact)

    def repeat(self) -> None:
        v = self.value(lambda v: 1 <= v.rank <= 3)
        self.emit("repeat", v, repeats=[self.integer(1, 2) for _ in range(v.rank)], exact=v.exact)

    def triangle(self) -> None:
        v = self.value(lambda v: v.rank >= 2)
        self.emit(self.one(("tril", "triu")), v, diagonal=self.integer(-1, 1), exact=v.exact)

    # -- indices and creation

    def indices(self, size: Dim) -> Value:
        """Indices that lie in 0..size, whatever it is."""
        made = self.f.arange(stop=size)
        if self.draw(st.booleans()):
            made = self.f.flip(made, axis=0)
        return Value(made, self.f.type(made), True)

    def take(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        axis = self.integer(0, v.rank - 1)
        self.emit("take", v, self.indices(v.type.dims[axis]), axis=axis, exact=v.exact)

    def embedding(self) -> None:
        table = self.value(lambda v: v.is_float and v.rank == 2)
        self.emit("embedding", table, self.indices(table.type.dims[0]), exact=table.exact)

    def gather(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        axis = self.integer(0, v.rank - 1)
        chosen = self.f.iota(shape=v.type.dims, axis=axis)
        if self.draw(st.booleans()):
            chosen = self.f.flip(chosen, axis=axis)
        self.emit("gather", v, chosen, axis=axis, exact=v.exact)

    def index_put(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        o = self.value(lambda o: o.type == v.type)
        self.emit("index_put", v, o, self.indices(v.type.dims[0]), exact=v.exact and o.exact)

    def create(self) -> None:
        shape = [self.size() for _ in range(self.integer(1, 2))]
        form = self.integer(0, 3)
        if form == 0:
            self.emit("full", shape=shape, value=self.one((0.0, 1.5, 2)), exact=True)
        elif form == 1:
            self.emit("iota", shape=shape, axis=self.integer(0, len(shape) - 1), exact=True)
        elif form == 2:
            self.emit("eye", n=shape[0], m=shape[-1], exact=True)
        else:
            self.emit("arange", start=1, stop=shape[0] + 3, step=2, dtype=DType.f32, exact=True)

    def size_of(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        self.emit("dim_", v, axis=self.integer(0, v.rank - 1), exact=True)


def _inner(v: Value, o: Value, ta: bool, tb: bool, swap: bool) -> bool:
    a, b = (o, v) if swap else (v, o)
    ka = a.type.dims[-1] if a.rank == 1 else a.type.dims[-2 if ta else -1]
    kb = b.type.dims[-1] if b.rank == 1 else b.type.dims[-1 if tb else -2]
    return ka == kb


def _equal_but(o: Value, v: Value, axis: int) -> bool:
    return all(i == axis or a == b for i, (a, b) in enumerate(zip(o.type.dims, v.type.dims, strict=True)))
