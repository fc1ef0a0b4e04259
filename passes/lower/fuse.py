"""Fusion: which values are computed together in one kernel, which are moved into their readers, which are stored.

Every node goes to one of

    inline   recomputed where it is read (index maps, generators): it has no buffer
    a group  one kernel: `map` and `row` groups share an iteration space `dims`, of which `axes` are reduced (rows are
             kept in cache and read in several passes); a `contract` or `block` group is one contraction or BlockOp and
             the pointwise nodes of its epilogue; a `kernel` group is one irregular op.

A node joins the group of a value that it reads at its own position (found by tracing the element rule, so that any
mixture of broadcasts and index maps is judged by what it reads, never by its name), unless that would make the
groups depend on one another in a circle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...ir.dims import Dim
from ...ir.facts import Facts
from ...ir.loops import Expr, Index, Load
from ...ir.op import AliasOp, BlockOp, ContractOp, ElementContext, ElementOp, KernelOp, ReduceOp
from ...ir.scalar import index
from ...ir.types import TensorType
from .emit import linear_index
from .nodes import Dataflow, Node
from .reads import (
    ONE,
    Access,
    ReadFn,
    Trace,
    at,
    is_generator,
    is_index_map,
    operands,
    trace,
    trace_element,
)

MAX_MEMBERS = 256
"""Nodes of one kernel: the time that LLVM takes grows faster than its loops."""

MAX_INLINE_SIZE = 400
MAX_INLINE_DEPTH = 16
"""Of what is computed again in every reader: views of views may double at each level (roll, concat, slice of those)."""


@dataclass
class Group:
    """One kernel to be.  `layout[name]` says for each dimension of a member which dimension of `dims` it is.

    A member whose layout misses a dimension of `axes` is a *reduced* value: one element per row.
    """

    id: int
    kind: str
    dims: tuple[Dim, ...]
    axes: tuple[int, ...] = ()
    members: list[Node] = field(default_factory=list)
    layout: dict[str, tuple[int | None, ...]] = field(default_factory=dict)
    deps: set[int] = field(default_factory=set)

    def is_full(self, name: str) -> bool:
        """Has one element at every point of the iteration space."""
        own = {d for d in self.layout[name] if d is not None}
        return all(d in own for d, size in enumerate(self.dims) if size != ONE)


@dataclass
class Fusion:
    """The result: `groups` in an order that can be run, and per value what else needs to know."""

    groups: list[Group]
    inline: frozenset[str]
    group_of: dict[str, Group]
    reads: dict[str, tuple[Access, ...]]
    stored: set[str]


def variables(rank: int) -> tuple[Dim, ...]:
    """Stand-ins for loop variables while tracing; the names cannot be written by a user."""
    return tuple(Dim.of(f"$i{d}") for d in range(rank))


def positions(dims: tuple[Dim, ...]) -> tuple[Expr, ...]:
    return tuple(Index(v) for v in variables(len(dims)))


class Fuser:
    """Runs over the nodes once, in program order."""

    def __init__(self, flow: Dataflow, facts: Facts) -> None:
        self.flow = flow
        self.facts = facts
        self.groups: dict[int, Group] = {}
        self.created = 0  # an id is never used again: merged groups leave gaps
        self.group_of: dict[str, Group] = {}
        self.reads: dict[str, tuple[Access, ...]] = {}
        self.needs_buffer = self._needs_buffer()
        self.inline = self._inline()

    def place(self) -> None:
        """Puts every node into a group."""
        for node in self.flow.order:
            if node.name not in self.inline:
                self._place(node)

    def finish(self) -> Fusion:
        """The groups in an order that can be run."""
        return Fusion(self._schedule(), self.inline, self.group_of, self.reads, self.stored())

    # -- what must be stored, what may be moved

    def _needs_buffer(self) -> set[str]:
        """Values that something reads as a whole: results, updates, operands of irregular ops and of reshapes.

        And those that nothing reads: they are computed for their checks.
        """
        flow = self.flow
        names: set[str] = set()
        read = {flow.root(v) for node in flow.order for v in node.inputs if isinstance(v, str)}
        names.update(node.name for node in flow.order if not read.intersection(node.names))
        for value in flow.result_values():
            if isinstance(value, str):
                names.add(flow.root(value))
        names.update(flow.root(v) for _, v in flow.updates if isinstance(v, str))
        names.update(flow.root(v) for v in flow.alias_of.values())
        for node in flow.order:
            if isinstance(node.op, KernelOp):
                names.update(flow.root(v) for v in node.inputs if isinstance(v, str))
        return names

    def _inline(self) -> frozenset[str]:
        inline: set[str] = set()
        depths: dict[str, int] = {}
        for node in self.flow.order:
            movable = is_generator(node) or is_index_map(node)
            if movable and node.name not in self.needs_buffer:
                depth = 1 + max((depths.get(v, 0) for v in node.inputs if isinstance(v, str)), default=0)
                if depth > MAX_INLINE_DEPTH:
                    continue
                found = trace_element(self.flow, self.facts, inline, node, positions(node.type.dims))
                if not found.impure and found.size <= MAX_INLINE_SIZE:
                    inline.add(node.name)
                    depths[node.name] = depth
        return frozenset(inline)

    def load(self, name: str, position: tuple[Expr, ...]) -> Expr:
        """An element of a value, as if it had a buffer of its name."""
        type_ = self.flow.types[name]
        return Load(name, linear_index(type_.dims, position), type_.dtype)

    def _traced(self, node: Node) -> Trace:
        """What an element of the node is computed from; of a reduction or block op, an element of every operand."""
        if not isinstance(node.op, (ReduceOp, BlockOp)):
            return trace_element(self.flow, self.facts, self.inline, node, positions(node.type.dims))

        def evaluate(_ctx: ElementContext, read: ReadFn) -> None:
            for i in operands(self.flow, node, self.inline, self.facts, read):
                if i is not None:
                    i(*positions(i.type.dims))

        return trace(self.flow, self.facts, self.inline, evaluate)

    def trace_again(self, node: Node) -> None:
        """Brings the reads of a placed node up to date after `inline` has grown."""
        found = self._traced(node).accesses
        self.reads[node.name] = found
        group = self.group_of[node.name]
        group.deps |= self._external(group, found)

    # -- placing nodes

    def _place(self, node: Node) -> None:
        op = node.op
        if isinstance(op, ReduceOp):
            self._place_reduction(node, op)
        elif isinstance(op, (ElementOp, AliasOp)):
            self._place_element(node)
        elif isinstance(op, BlockOp):
            self._place_alone(node, "block", self._traced(node).accesses)
        elif isinstance(op, ContractOp):
            self._place_alone(
                node, "contract", trace(self.flow, self.facts, self.inline, self._contract_reads(node)).accesses
            )
        else:
            accesses = tuple(Access(v, ()) for v in node.inputs if isinstance(v, str))
            self._place_alone(node, "kernel", accesses)

    def _contract_reads(self, node: Node) -> Callable[[ElementContext, ReadFn], None]:
        op, flow = node.op, self.flow
        assert isinstance(op, ContractOp)

        def evaluate(ctx: ElementContext, read: ReadFn) -> None:
            inputs = operands(flow, node, self.inline, self.facts, read)
            present = tuple(i for i in inputs if i is not None)
            c = op.contraction(node.type, *(i.type for i in present))
            b, m, n, k = (
                tuple(index(f"${role}{d}") for d in range(len(dims)))
                for role, dims in (("b", c.batch), ("m", c.rows), ("n", c.cols), ("k", c.inner))
            )
            op.lhs(ctx, b, m, k, *present)
            op.rhs(ctx, b, k, n, *present)

        return evaluate

    def _place_alone(self, node: Node, kind: str, accesses: tuple[Access, ...]) -> None:
        group = self._new_group(kind, node.type.dims)
        for name in node.names:
            self.reads[name] = accesses
        self._join(group, node, tuple(range(node.type.rank)), accesses)

    def _place_reduction(self, node: Node, op: ReduceOp) -> None:
        (source,) = (v for v in node.inputs[:1])
        type_ = self.flow.types[source] if isinstance(source, str) else TensorType(node.type.dtype, ())
        found = self._traced(node)
        self.reads[node.name] = found.accesses
        axes = op.reduced_axes(type_.rank)
        layout = _reduced_layout(type_.rank, axes, op.keeps_dims)
        for group in self._candidates(found.accesses):
            fits = group.kind in ("map", "row") and self._same(group.dims, type_.dims) and group.axes in ((), axes)
            if (
                fits
                and self._at_home(group, found.accesses, range(type_.rank))
                and self._acyclic(group, found.accesses)
            ):
                group.kind, group.axes = "row", axes
                self._join(group, node, layout, found.accesses)
                self._merge_others(group, found.accesses)
                return
        group = self._new_group("row", type_.dims)
        group.axes = axes
        self._join(group, node, layout, found.accesses)

    def _place_element(self, node: Node) -> None:
        found = self._traced(node)
        self.reads[node.name] = found.accesses
        for group in self._candidates(found.accesses):
            layout = self._layout_in(group, node, found.accesses, found.impure)
            if layout is not None and self._acyclic(group, found.accesses):
                self._join(group, node, layout, found.accesses)
                self._merge_others(group, found.accesses)
                return
        group = self._new_group("map", node.type.dims)
        self._join(group, node, tuple(range(node.type.rank)), found.accesses)

    def _candidates(self, accesses: tuple[Access, ...]) -> list[Group]:
        rank = {"contract": 0, "block": 0, "row": 1, "map": 2}
        groups = {g.id: g for a in accesses if (g := self.group_of.get(a.name)) is not None and g.kind in rank}
        small = (g for g in groups.values() if len(g.members) < MAX_MEMBERS)
        return sorted(small, key=lambda g: (rank[g.kind], -g.id))

    def _layout_in(
        self, group: Group, node: Node, accesses: tuple[Access, ...], impure: bool
    ) -> tuple[int | None, ...] | None:
        """How the node's dimensions lie in the group's, or None where it does not fit."""
        if impure and group.kind in ("contract", "block"):
            return None
        if self._same(group.dims, node.type.dims) and self._at_home(group, accesses, range(node.type.rank)):
            return tuple(range(node.type.rank))
        layout = self._layout_from_reads(group, node, accesses)
        return layout if layout is not None and self._at_home(group, accesses, layout) else None

    def _layout_from_reads(
        self, group: Group, node: Node, accesses: tuple[Access, ...]
    ) -> tuple[int | None, ...] | None:
        """Which dimension is which follows from what is read where.

        It fits if it covers the group's whole space (a permutation: stored where it belongs), or if it is computed from
        reduced values alone and has one element per row.
        """
        layout: list[int | None] = [None] * node.type.rank
        names = {v: d for d, v in enumerate(variables(node.type.rank))}
        members = [a for a in accesses if a.name in group.layout]
        for a in members:
            for where, i in zip(group.layout[a.name], a.position, strict=True):
                if where is not None and isinstance(i, Index) and i.dim in names:
                    layout[names[i.dim]] = where
        for d, size in zip(layout, node.type.dims, strict=True):
            if (d is None and size != ONE) or (d is not None and not self._same((group.dims[d],), (size,))):
                return None
        covered = sorted(d for d in layout if d is not None and group.dims[d] != ONE)
        space = [d for d, size in enumerate(group.dims) if size != ONE]
        rows = [d for d in space if d not in group.axes]
        reduced = group.kind == "row" and not any(self._varies_in_row(group, a.name) for a in members)
        return tuple(layout) if covered == space or (reduced and covered == rows) else None

    def _varies_in_row(self, group: Group, name: str) -> bool:
        return any(d in group.axes for d in group.layout[name] if d is not None)

    def _at_home(self, group: Group, accesses: tuple[Access, ...], layout: range | tuple[int | None, ...]) -> bool:
        """Does every read of a member of the group stand at the position being computed?"""
        found = False
        where = {d: v for d, v in zip(layout, variables(len(layout)), strict=True) if d is not None}
        for a in accesses:
            root = self.flow.root(a.name)
            if root not in group.layout:
                continue
            if root != a.name:  # read through a reshape: of another shape
                return False
            for d, i, size in zip(group.layout[a.name], a.position, self.flow.types[a.name].dims, strict=True):
                here = where.get(d) if d is not None else Dim.of(0)
                if here is None:
                    if not (size == ONE and isinstance(i, Index)):
                        return False
                elif not at(i, here, size):
                    return False
            found = True
        return found

    def _same(self, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
        return len(a) == len(b) and all(x == y or self.facts.prove_eq(x, y) for x, y in zip(a, b, strict=True))

    # -- groups

    def _new_group(self, kind: str, dims: tuple[Dim, ...]) -> Group:
        group = Group(self.created, kind, dims)
        self.created += 1
        self.groups[group.id] = group
        return group

    def _join(self, group: Group, node: Node, layout: tuple[int | None, ...], accesses: tuple[Access, ...]) -> None:
        group.members.append(node)
        for name in node.names:
            group.layout[name] = layout
            self.group_of[name] = group
        group.deps |= self._external(group, accesses)

    def _external(self, group: Group, accesses: tuple[Access, ...]) -> set[int]:
        """The groups that hold what is read from outside."""
        owners = (self.group_of.get(self.flow.root(a.name)) for a in accesses)
        return {g.id for g in owners if g is not None and g.id != group.id}

    def _acyclic(self, group: Group, accesses: tuple[Access, ...]) -> bool:
        return not any(self._reaches(d, group.id) for d in self._external(group, accesses))

    def _reaches(self, start: int, goal: int) -> bool:
        """Does group `start` depend on `goal`, directly or not?"""
        seen, todo = set(), [start]
        while todo:
            g = todo.pop()
            if g == goal:
                return True
            if g not in seen:
                seen.add(g)
                todo.extend(self.groups[g].deps)
        return False

    def _merge_others(self, group: Group, accesses: tuple[Access, ...]) -> None:
        """Groups over the same space that feed a node just placed share its loops, where that is legal."""
        for other in self._candidates(accesses):
            if other.id == group.id or other.kind != "map" or group.kind not in ("map", "row"):
                continue
            if len(group.members) + len(other.members) > MAX_MEMBERS:
                continue
            if (
                not self._same(group.dims, other.dims)
                or self._reaches(other.id, group.id)
                or (self._reaches(group.id, other.id) and not self._reads_at_home(group, other))
            ):
                continue
            if self._indirect(group, other):
                continue
            self._merge(group, other)

    def _reads_at_home(self, group: Group, other: Group) -> bool:
        """Do all reads of `other`'s members by `group`'s stand at the position being computed?"""
        for node in group.members:
            accesses = tuple(a for a in self.reads[node.name] if self.flow.root(a.name) in other.layout)
            layout = group.layout[node.name]
            if isinstance(node.op, ReduceOp):
                layout = tuple(range(len(group.dims)))
            if accesses and not self._at_home(other, accesses, layout):
                return False
        return True

    def _indirect(self, group: Group, other: Group) -> bool:
        """Does `group` depend on `other` through a third group?"""
        return any(d != other.id and self._reaches(d, other.id) for d in group.deps)

    def _merge(self, group: Group, other: Group) -> None:
        order = {node.name: i for i, node in enumerate(self.flow.order)}
        group.members = sorted(group.members + other.members, key=lambda n: order[n.name])
        group.layout.update(other.layout)
        for name in other.layout:
            self.group_of[name] = group
        group.deps = (group.deps | other.deps) - {group.id, other.id}
        del self.groups[other.id]
        for g in self.groups.values():
            if other.id in g.deps:
                g.deps = (g.deps - {other.id}) | ({group.id} if g.id != group.id else set())

    def remove(self, group: Group, node: Node) -> None:
        """Takes a node out of its group, and an empty group out of the program."""
        group.members.remove(node)
        del group.layout[node.name], self.group_of[node.name], self.reads[node.name]
        if group.members:
            return
        del self.groups[group.id]
        for other in self.groups.values():
            if group.id in other.deps:
                other.deps = (other.deps - {group.id}) | group.deps

    # -- the end

    def stored(self) -> set[str]:
        """Members that need a buffer: read outside their group, or as a whole."""
        stored = {n for n in self.needs_buffer if n in self.group_of}
        for name, accesses in self.reads.items():
            mine = self.group_of[name]
            for a in accesses:
                root = self.flow.root(a.name)
                owner = self.group_of.get(root)
                if owner is not None and owner.id != mine.id:
                    stored.add(root)
        for group in self.groups.values():
            if group.kind == "kernel":
                stored.update(n for node in group.members for n in node.names)
        return stored

    def _schedule(self) -> list[Group]:
        done: set[int] = set()
        out: list[Group] = []

        def visit(group: Group) -> None:
            stack = [(group, iter(sorted(group.deps)))]
            while stack:
                current, deps = stack[-1]
                pending = next((d for d in deps if d not in done), None)
                if pending is not None:
                    stack.append((self.groups[pending], iter(sorted(self.groups[pending].deps))))
                    continue
                stack.pop()
                if current.id not in done:
                    done.add(current.id)
                    out.append(current)

        for group in sorted(self.groups.values(), key=lambda g: g.id):
            if group.id not in done:
                visit(group)
        return out


def _reduced_layout(rank: int, axes: tuple[int, ...], keepdims: bool) -> tuple[int | None, ...]:
    if keepdims:
        return tuple(None if d in axes else d for d in range(rank))
    return tuple(d for d in range(rank) if d not in axes)
