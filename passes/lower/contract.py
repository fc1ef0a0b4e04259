"""Kernels for contractions: one `Contract` statement, with the group's pointwise nodes as its epilogue."""

from __future__ import annotations

from contextlib import ExitStack

from ...ir.dims import Dim, linear
from ...ir.facts import Facts
from ...ir.loops import Contract, Expr, Index, Kernel, Load, Name
from ...ir.op import ContractOp, Contraction
from ...ir.scalar import cast, index
from ...ir.types import product
from ..loops.packing import packed_index
from .emit import Emitter
from .fuse import Group
from .kernel import Pack, Scope, close, store
from .nodes import Node
from .reads import element, operands


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
        self.e = Emitter(scope.facts, scope.taken, self.head.op.name, self.head.statement.span)
        self.nodes = {n.name: n for n in group.members}
        self.memo: dict[str, Expr] = {}
        self.position: tuple[Expr, ...] = ()

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
            rhs = self._packed(rhs, k, n, inner, cols)
            self.position = _output_position(c, b, at_m, at_n)
            with self.e.block() as epilogue:
                self.memo[self.head.name] = self.e.let(cast(Name(acc, c.accumulator), self.head.type.dtype))
                for node in self.group.members:
                    if node.name in self.scope.fusion.stored:
                        store(self.e, self.scope, node.name, self.position, self._value(node.name))
            self.e.emit(Contract(m, n, k, rows, cols, inner, acc, c.accumulator, lhs, rhs, tuple(epilogue)))
        return close(self.scope, self.e, self.name, self.group)

    def _simplified(self, value: Expr, facts: Facts) -> Expr:
        if isinstance(value, Load) and isinstance(value.index, Index):
            return Load(value.buffer, Index(facts.simplify(value.index.dim)), value.dtype)
        return value

    def _packed(self, rhs: Expr, k: str, n: str, inner: Dim, cols: Dim) -> Expr:
        """Reads a weight that is linear in k and n from its packed form, made at load."""
        panel = self.scope.panel
        if panel is None or not (isinstance(rhs, Load) and isinstance(rhs.index, Index)):
            return rhs
        if not rhs.buffer.startswith("weight."):
            return rhs
        by_k = linear(rhs.index.dim, k)
        by_n = linear(by_k[1], n) if by_k is not None else None
        if by_k is None or by_n is None or n in by_k[0].symbols:
            return rhs
        weight = rhs.buffer.removeprefix("weight.")
        known = _weight_symbols(self.scope)
        if any(not d.symbols <= known for d in (by_k[0], by_n[0], by_n[1], inner, cols)):
            return rhs
        pack = self._pack(weight, inner, cols, by_k[0], by_n[0], by_n[1])
        return Load(pack.name, Index(packed_index(Dim.of(k), Dim.of(n), inner, panel)), rhs.dtype)

    def _pack(self, weight: str, inner: Dim, cols: Dim, k_stride: Dim, n_stride: Dim, offset: Dim) -> Pack:
        for pack in self.scope.packs.values():
            if pack == Pack(pack.name, weight, inner, cols, k_stride, n_stride, offset):
                return pack
        count = sum(1 for p in self.scope.packs.values() if p.weight == weight)
        pack = Pack(f"packed.{weight}.{count}", weight, inner, cols, k_stride, n_stride, offset)
        self.scope.packs[pack.name] = pack
        return pack

    def _read(self, name: str, position: tuple[Expr, ...]) -> Expr:
        return self._value(name) if name in self.nodes else self.scope.load(name, position)

    def _value(self, name: str) -> Expr:
        known = self.memo.get(name)
        if known is None:
            node: Node = self.nodes[name]
            position = tuple(p for p in self.position)
            value = element(self.flow, node, self.e, position, self.scope.fusion.inline, self._read)
            known = self.memo[name] = self.e.let(value)
        return known


def _weight_symbols(scope: Scope) -> frozenset[str]:
    found: set[str] = set()
    for name, type_ in scope.flow.sources.items():
        if name.startswith("@"):
            for d in type_.dims:
                found |= d.symbols
    return frozenset(found)


def _in_range(facts: Facts, extents: dict[str, Dim]) -> Facts:
    from ...ir.facts import Compare

    for name, size in extents.items():
        v = Dim.of(name)
        facts = facts.add(Compare("<=", Dim.of(0), v), Compare("<", v, size))
    return facts


def _spread(flat: str, dims: tuple[Dim, ...], facts: Facts) -> tuple[Expr, ...]:
    """The position in a space of several dimensions that the flat index stands for."""
    rest = Dim.of(flat)
    out: list[Expr] = []
    for d in reversed(range(len(dims))):
        out.append(index(facts.simplify(rest % dims[d]) if d else rest))
        rest = rest // dims[d] if d else rest
    return tuple(reversed(out))


def _output_position(
    c: Contraction, b: tuple[Expr, ...], m: tuple[Expr, ...], n: tuple[Expr, ...]
) -> tuple[Expr, ...]:
    parts = (*b, *m, *n)
    return tuple(parts[i] for i in c.out_order)
