"""Kernels for contractions: one `Contract` statement, with the group's pointwise nodes as its epilogue."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from ...ir.dims import Dim
from ...ir.facts import Compare, Facts
from ...ir.loops import Contract, Expr, Index, Kernel, Load, Name
from ...ir.op import Contraction, ContractOp
from ...ir.scalar import index
from ...ir.types import DType, product
from ..loops.packing import PREFIX, packed_index, panel_width
from .emit import Emitter
from .epilogue import Epilogue
from .fuse import Group
from .kernel import Pack, Scope, close
from .reads import operands


def emit_contract(scope: Scope, group: Group, name: str) -> Kernel:
    """The kernel of a contraction group."""
    return _Contract(scope, group, name).run()


class _Contract:
    def __init__(self, scope: Scope, group: Group, name: str) -> None:
        self.scope = scope
        self.group = group
        self.name = name
        self.flow = scope.flow
        self.head = group.members[0]
        self.e = Emitter(scope.facts, scope.taken, self.head.op.title, self.head.statement.span)

    def run(self) -> Kernel:
        op = self.head.op
        assert isinstance(op, ContractOp)
        inputs = operands(self.flow, self.head, self.scope.fusion.inline, self.scope.facts, self.scope.load)
        present = tuple(i for i in inputs if i is not None)
        c = op.contraction(self.head.type, *(i.type for i in present))
        batch = [self.e.fresh(f"b{d}") for d in range(len(c.batch))]
        m, n, k, acc = (self.e.fresh(x) for x in ("m", "n", "k", "acc"))
        rows, cols, inner = product(c.rows), product(c.cols), product(c.inner)
        facts = _in_range(self.scope.facts, {m: rows, n: cols, k: inner})
        with ExitStack() as loops:
            for var, size in zip(batch, c.batch, strict=True):
                loops.enter_context(self.e.for_(var, index(0), index(size), "parallel"))
            b = tuple(index(v) for v in batch)
            at_m, at_n, at_k = _spread(m, c.rows, facts), _spread(n, c.cols, facts), _spread(k, c.inner, facts)
            lhs = self._simplified(op.lhs(self.e, b, at_m, at_k, *present), facts)
            rhs = self._simplified(op.rhs(self.e, b, at_k, at_n, *present), facts)
            rhs = self._packed(rhs, k, n, inner, cols, c.accumulator)
            with self.e.block() as epilogue:
                position = _output_position(c, b, at_m, at_n)
                Epilogue(self.scope, self.group, self.e).run(position, Name(acc, c.accumulator))
            self.e.emit(Contract(m, n, k, rows, cols, inner, acc, c.accumulator, lhs, rhs, tuple(epilogue)))
        return close(self.scope, self.e, self.name, self.group)

    def _simplified(self, value: Expr, facts: Facts) -> Expr:
        if isinstance(value, Load) and isinstance(value.index, Index):
            return Load(value.buffer, Index(facts.simplify(value.index.dim)), value.dtype)
        return value

    def _packed(self, rhs: Expr, k: str, n: str, inner: Dim, cols: Dim, dtype: DType) -> Expr:
        """Reads a weight that is a whole matrix in k and n from its packed form, made at load."""
        if self.scope.vector_bytes is None or not (isinstance(rhs, Load) and isinstance(rhs.index, Index)):
            return rhs
        weight = rhs.buffer.removeprefix("weight.")
        if weight == rhs.buffer or self.flow.types[f"@{weight}"].size != inner * cols:
            return rhs
        at_k, at_n = Dim.of(k), Dim.of(n)
        if rhs.index.dim not in (at_k * cols + at_n, at_n * inner + at_k):
            return rhs
        width = panel_width(self.scope.vector_bytes, dtype)
        transposed = rhs.index.dim != at_k * cols + at_n
        pack = self._pack(Pack("", weight, inner, cols, transposed, dtype, width))
        return Load(pack.name, Index(packed_index(at_k, at_n, inner, width)), dtype)

    def _pack(self, wanted: Pack) -> Pack:
        for pack in self.scope.packs.values():
            if replace(pack, name="") == wanted:
                return pack
        count = sum(1 for p in self.scope.packs.values() if p.weight == wanted.weight)
        pack = replace(wanted, name=f"{PREFIX}{wanted.weight}.{count}")
        self.scope.packs[pack.name] = pack
        return pack


def _in_range(facts: Facts, extents: dict[str, Dim]) -> Facts:
    for name, size in extents.items():
        v = Dim.of(name)
        facts = facts.add(Compare("<=", Dim.of(0), v), Compare("<", v, size))
    return facts


def _spread(flat: str, dims: tuple[Dim, ...], facts: Facts) -> tuple[Expr, ...]:
    """The position in a space of several dimensions that the flat index stands for."""
    rest = Dim.of(flat)
    out: list[Expr] = []
    for d in reversed(range(len(dims))):
        size = dims[d] if dims[d] != Dim.of(0) else Dim.of(1)  # of none there is no position to divide
        out.append(index(facts.simplify(rest % size) if d else rest))
        rest = rest // size if d else rest
    return tuple(reversed(out))


def _output_position(c: Contraction, b: tuple[Expr, ...], m: tuple[Expr, ...], n: tuple[Expr, ...]) -> tuple[Expr, ...]:
    parts = (*b, *m, *n)
    return tuple(parts[i] for i in c.out_order)
