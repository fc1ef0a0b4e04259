"""The walk over an exported graph: every call becomes what its row of the table says."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from ...ir.build import FunctionBuilder
from ...ir.diagnostics import CompileError, Diagnostic, error
from ...ir.dims import Dim
from ...ir.facts import Compare, Fact
from ...ir.graph import Operand
from ...ir.types import DType
from .arithmetic import Arithmetic, Real, Truth
from .complexes import Complex, has_complex, is_complex, part_dtype, split
from .context import Args, Context, is_tensor
from .in_place import followed, functional
from .places import Place, place_of
from .promote import dtype_of
from .readable import readable
from .table import ASSERTIONS, HANDLES, IGNORED, ROWS, SIZES, reason
from .table_complex import COMPLEX

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def target_name(target: Any) -> str:
    """The name of what a node calls: `aten.add.Tensor`, `higher_order.cond`."""
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target._name}"
    return str(target) if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", str(target))


def calls(graph_module: Any) -> Iterator[Any]:
    """The nodes that compute tensors, those of regions that are walked in place among them."""
    for node in graph_module.graph.nodes:
        if node.op != "call_function" or target_name(node.target) in SIZES | IGNORED | ASSERTIONS or only_sizes(node):
            continue
        region = region_of(node, graph_module)
        if region is None:
            yield node
        else:
            yield from calls(region[0])


def region_of(node: Any, graph_module: Any) -> tuple[Any, tuple[Any, ...]] | None:
    """Body and operands of a call that only sets a mode for a part of the graph (no gradients, no autocast)."""
    name = target_name(node.target)
    if name == "higher_order.wrap_with_set_grad_enabled":
        return getattr(graph_module, node.args[1].target), node.args[2:]
    if name == "higher_order.wrap_with_autocast" and not node.args[2]:
        return getattr(graph_module, node.args[4].target), node.args[5:]
    return None


def only_sizes(node: Any) -> bool:
    """Arithmetic of sizes, or an item of several results: nothing of its own to compute."""
    return node.target is operator.getitem or (
        isinstance(node.meta.get("val"), (*_SYMBOLIC, int, float, bool))
        and (not isinstance(node.target, torch._ops.OpOverload))
    )


class Missing(NamedTuple):
    """A call without a row."""

    name: str
    place: Place | None
    of_complex: bool

    @staticmethod
    def of(node: Any) -> Missing:
        return Missing(target_name(node.target), place_of(node), has_complex(node))


def missing(graph_module: Any) -> list[Missing]:
    """Operators without a row, in the order of the graph."""
    return [Missing.of(n) for n in calls(graph_module) if row_of(n) is None]


def row_of(node: Any) -> Callable[[Context, Args], Any] | None:
    """What computes a call's results, or what it writes: that of complex numbers where there are some in it."""
    name = target_name(functional(node.target))
    if has_complex(node):
        return COMPLEX.get(name)
    return ROWS[name] if name in ROWS and HANDLES.get(name, _always)(node) else None


def _always(_node: Any) -> bool:
    return True


def missing_error(found: list[Missing]) -> CompileError:
    """One error that lists every missing operator, why it is, and where the model's code uses it."""
    places: dict[tuple[str, bool], list[Place | None]] = {}
    for called, place, of_complex in found:
        name = called
        if called.startswith("prims.") and hasattr(torch.ops.aten, called.split(".")[1]):
            name = f"aten.{called.removeprefix('prims.')}"  # what the model called
        places.setdefault((name, of_complex), []).append(place)
    said = []
    for (name, of_complex), at in places.items():
        known = [p for p in at if p is not None]
        where = tuple(dict.fromkeys(f"used at {p.file}:{p.line}: {p.code}" for p in known))[:4]
        why = reason(name)
        helps = (why,) if why else ("write that part of the model with other operators, or report the operator",)
        what = f"`{name}`{' of complex numbers' if of_complex else ''}"
        said.append(Diagnostic(f"{what} is not supported ({len(at)} in the model)", None, "", where, helps))
    return CompileError(tuple(said))


@dataclass(frozen=True)
class Assumption:
    """A fact that an operator was found to need, and where in the model it stands."""

    fact: Fact
    why: str
    narrows: bool
    """Whether torch does something else where the fact does not hold, rather than fail."""
    place: Place | None = None

    def __str__(self) -> str:
        return f"{self.fact}: {self.why}" + (f" (at {self.place})" if self.place is not None else "")


class WalkAgain(Exception):
    """Types that were inferred are others under the facts that were found since."""

    def __init__(self, assumed: tuple[Assumption, ...]) -> None:
        super().__init__("the graph is to be walked again")
        self.assumed = assumed


@dataclass
class Walker:
    """Values of a graph's nodes, as they are built.

    `values` are tensors as operands, sizes as dims, other numbers as `arithmetic` has them.  Sizes are inferred here;
    of torch's own shape propagation only element types and ranks are taken.  Facts are assumed as they are found to be
    needed, over symbols of `bound`, sizes that the arguments say.
    """

    b: FunctionBuilder
    bound: frozenset[str]
    values: dict[Any, Any] = field(default_factory=dict)
    hints: Mapping[str, int] = field(default_factory=dict)
    """The sizes of the example, at which those found here are compared with torch's."""
    assumed: list[Assumption] = field(default_factory=list)
    written: dict[Any, Any] = field(default_factory=dict)
    asserted: list[tuple[Operand, str | None]] = field(default_factory=list)
    """Conditions on data that the program asserts, and what it says where one does not hold."""

    def __post_init__(self) -> None:
        self.arithmetic = Arithmetic(self.b, self.assume)
        self._place: Place | None = None

    def assume(self, fact: Fact, why: str, narrows: bool = False) -> None:
        if self.b.facts.prove(fact):
            return
        given, fact = fact, readable(fact)
        if not fact.symbols or not fact.symbols <= self.bound:
            raise error(f"{why}: {fact} does not hold", self.b.span)
        fact = replace(fact, span=self.b.span)  # the line that asks for it is named where a call is refused
        self.b.assume(fact)
        if not self.b.facts.prove(given):  # what is proven of it alone may not be among others
            self.b.assume(given)
        self.assumed.append(Assumption(fact, why, narrows, self._place))
        clash = self.b.facts.contradiction()
        if clash:
            raise error(f"{why}: {fact} does not hold with {', '.join(map(str, clash))}", self.b.span)

    def run(self, graph_module: Any) -> tuple[Any, ...]:
        """Builds every call; the values of the outputs."""
        self.written.update(followed(graph_module) or {})
        for node in graph_module.graph.nodes:
            self._place = place = place_of(node)
            self.b.span = place.span if place else None
            if node.op == "call_function" and not self._is_number(node):
                self.values[self.written.get(node, node)] = self._call(node, graph_module)
            elif node.op == "get_attr":
                self.values.setdefault(node, getattr(graph_module, node.target, None))
            elif node.op == "output":
                return tuple(self._checked(self.value(a)) for a in node.args[0])
        return ()

    def _is_number(self, node: Any) -> bool:
        """Whether it is arithmetic of numbers: done where it is asked for, as torch's assertions need not be."""
        if node.target is operator.getitem and isinstance(self.values.get(node.args[0]), (tuple, list)):
            return False
        return target_name(node.target) in SIZES or only_sizes(node)

    def _checked(self, result: Any) -> Any:
        """A result, given where all that was asserted until then holds."""
        if isinstance(result, Complex):
            return result.each(self._checked)
        for condition, message in self.asserted if is_tensor(result) else ():
            whole = self.b.reshape(condition, shape=())
            result = self.b.checked(result, whole, **({} if message is None else {"message": message}))
        return result

    def value(self, arg: Any) -> Any:
        """An argument: nodes as their values, sizes as dims, real numbers as scalar tensors; in lists too."""
        if isinstance(arg, (list, tuple)):
            return [self.value(a) for a in arg]
        found = self.number(arg) if isinstance(arg, torch.fx.Node) else arg
        return self.arithmetic.tensor(found) if isinstance(found, (Real, Truth)) else found

    def number(self, arg: Any) -> Any:
        """An argument of arithmetic; what a node is, computed where it was not yet."""
        if isinstance(arg, (list, tuple)):
            return [self.number(a) for a in arg]
        if not isinstance(arg, torch.fx.Node):
            return arg
        node = self.written.get(arg, arg)
        if node not in self.values:
            self._compute(node)
        if is_complex(node.meta.get("val")) and is_tensor(self.values[node]):
            self.values[node] = split(self.b, self.values[node])
        return self.values[node]

    def shape(self, node: Any) -> tuple[Dim, ...]:
        """The sizes of a tensor that was walked; KeyError for any other node."""
        return self._dims(self.values[self.written.get(node, node)])

    def _dims(self, tensor: Any) -> tuple[Dim, ...]:
        return self.b.type(tensor.re if isinstance(tensor, Complex) else tensor).dims

    def _compute(self, node: Any) -> None:
        """Arithmetic, and what it is made of; without recursion, as models may count in long chains."""
        waiting = [node]
        while waiting:
            at = waiting[-1]
            missing = [n for n in at.all_input_nodes if self.written.get(n, n) not in self.values]
            if missing:
                waiting.extend(missing)
                continue
            waiting.pop()
            if at not in self.values:
                self.values[at] = self._size(at) if target_name(at.target) in SIZES else self._computed(at)

    def _computed(self, node: Any) -> Any:
        if node.op != "call_function" or node.kwargs:
            raise error(f"`{node}` is a number that is not known here", self.b.span)
        return self.arithmetic.call(node.target, tuple(map(self.number, node.args)))

    def _size(self, node: Any) -> Any:
        """A size of a tensor, or where its elements stand in memory, which nothing here depends on."""
        name, given = target_name(node.target), self.number(node.args[0])
        if name == "aten.sym_storage_offset.default":
            return 0
        dims = self._dims(given)
        match name:
            case "aten.sym_size.int":
                found = dims[node.args[1]]
            case "aten.sym_numel.default":
                found = Dim.product(dims)
            case "aten.sym_stride.int":
                found = Dim.product(dims[node.args[1] % len(dims) + 1 :])
            case _:
                raise error(f"`{name}` is not supported", self.b.span)
        return found.value if found.is_const else found

    def _call(self, node: Any, graph_module: Any) -> Any:
        name = target_name(node.target)
        if name == "aten._assert_scalar.default":
            self._hold(node)
        if name in IGNORED:
            return None
        if name in ASSERTIONS:
            condition, *message = (self.value(a) for a in node.args)
            self.asserted.append((condition, next(iter(message), None)))
            return None
        region = region_of(node, graph_module)
        if region is not None:
            return self._region(*region)
        if node.target is operator.getitem and isinstance(self.values.get(node.args[0]), (tuple, list)):
            return self.values[node.args[0]][node.args[1]]
        row = row_of(node)
        if row is None:
            raise missing_error([Missing.of(node)])
        value = node.meta["val"]
        metas = value if isinstance(value, (tuple, list)) else (value,)
        context = Context(
            self.b,
            name,
            tuple(_dtype(m, name) for m in metas),
            tuple(m.dim() if isinstance(m, torch.Tensor) else 0 for m in metas),
            _used(node),
            self.assume,
            is_complex(node),
        )
        made = self._row(node, row, context)
        results = made if isinstance(made, (tuple, list)) else (made,)
        agreed = [self._agreed(r, m, context) for r, m in zip(results, metas, strict=False)]
        return agreed if isinstance(value, (tuple, list)) else agreed[0]

    def _row(self, node: Any, row: Callable[[Context, Args], Any], context: Context) -> Any:
        """What the row makes of a call; facts without which our operators refuse it are assumed.

        torch fails too where they do not hold, when it runs, or broadcasts a size that here is not 1.
        """
        spreads = torch.Tag.pointwise in getattr(node.target, "tags", ())
        given, tried = self._arguments(node), set[Fact]()
        while True:
            count = len(self.b.statements)
            try:
                return row(context, Args(given))
            except CompileError as failure:
                wanted = [f for d in failure.diagnostics for f in d.wanted if not self.b.facts.prove(f)]
                if not wanted or not all(f.symbols and f.symbols <= self.bound for f in wanted) or tried & {*wanted}:
                    raise
                tried |= {*wanted}
                del self.b.statements[count:]
                why = f"`{context.target}`: {failure.diagnostics[0].message}"
                if any(self._is_one(fact, why) for fact in wanted):
                    raise WalkAgain(tuple(self.assumed)) from failure
                for fact in wanted:
                    self.assume(fact, why, spreads)

    def _is_one(self, fact: Fact, why: str) -> bool:
        """Whether one of two sizes that are to be equal is 1 in the example, and broadcast there: that is assumed."""
        if not isinstance(fact, Compare) or fact.op != "==":
            return False
        a, b = self._at_example(fact.lhs), self._at_example(fact.rhs)
        if a == b or 1 not in (a, b):
            return False
        self.assume(Compare("==", fact.lhs if a == 1 else fact.rhs, 1), why, narrows=True)
        return True

    def _hold(self, node: Any) -> None:
        """An assertion on sizes: a fact.  What it says of data is refused where that is used."""
        try:
            facts = self.arithmetic.facts(self.number(node.args[0]))
        except CompileError:
            return
        for fact in facts:
            if fact.symbols <= self.bound:
                self.assume(fact, "the model's code asserts it")

    def _region(self, body: Any, operands: tuple[Any, ...]) -> list[Any]:
        given = [self.value(o) for o in operands]
        holders = [n for n in body.graph.nodes if n.op == "placeholder"]
        self.values.update(zip(holders, given, strict=True))
        return list(self.run(body))

    def _arguments(self, node: Any) -> dict[str, Any]:
        given = dict(node.kwargs)
        found: dict[str, Any] = {}
        for i, argument in enumerate(functional(node.target)._schema.arguments):
            if i < len(node.args) and not argument.kwarg_only:
                found[argument.name] = self.value(node.args[i])
            elif argument.name in given:
                found[argument.name] = self.value(given[argument.name])
            else:
                found[argument.name] = argument.default_value if argument.has_default_value() else None
        return found

    def _agreed(self, made: Any, wanted: Any, t: Context) -> Any:
        """The value, of the element type and rank that torch has, and of its sizes at the example's."""
        if isinstance(made, Complex):
            return made.each(lambda part: self._agreed(part, wanted, t))
        if made is None or not is_tensor(made) or not isinstance(wanted, torch.Tensor):
            return made
        have = self.b.type(made)
        made = t.converted(made, _dtype(wanted, t.target))
        at_example = tuple(map(self._at_example, have.dims))
        torchs = tuple(map(_hint, wanted.shape))
        same = len(have.dims) == len(wanted.shape)
        if not same or any(a != b for a, b in zip(at_example, torchs, strict=True) if None not in (a, b)):
            at = f" for the example, of {torchs}" if same else ""
            raise error(f"`{t.target}` gives {have} here, but torch has rank {len(wanted.shape)}{at}", self.b.span)
        return made

    def _at_example(self, dim: Dim) -> int | None:
        try:
            return dim.evaluate(self.hints)
        except (KeyError, ZeroDivisionError):
            return None


def _hint(size: Any) -> int | None:
    """The size of torch's example, None where torch keeps none."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    try:
        hint = size.node.hint
    except Exception:  # noqa: BLE001  a size of data has none, and torch raises what it likes
        return None
    return None if hint is None else int(hint)


def _dtype(value: Any, name: str) -> DType:
    """An absent result counts as one of f32."""
    return dtype_of(part_dtype(value.dtype), f"`{name}`") if isinstance(value, torch.Tensor) else DType.f32


def _used(node: Any) -> frozenset[int]:
    """Which of several results the graph reads."""
    return frozenset(u.args[1] for u in node.users if u.target is operator.getitem and u.users)
