"""The walk over an exported graph: every call becomes what its row of the table says."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from ...ir.build import FunctionBuilder
from ...ir.diagnostics import CompileError, Diagnostic, Span
from ...ir.dims import Dim
from ...ir.graph import Operand
from ...ir.types import DType, TensorType
from .ask import asked
from .complexes import Complex, has_complex, is_complex, part_dtype, split
from .context import Args, Context, is_tensor
from .in_place import followed, functional
from .promote import dtype_of
from .scalars import Scalars
from .sizes import Sizes
from .table import ASSERTIONS, HANDLES, IGNORED, ROWS, SIZES, reason
from .table_complex import COMPLEX

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\w+)\n\s*(.*)')


@dataclass(frozen=True)
class Place:
    """A line of the model's own code."""

    file: str
    line: int
    code: str

    @property
    def span(self) -> Span:
        return Span(self.file, self.line, 1, self.line, 1)


def place_of(node: Any) -> Place | None:
    """The innermost line of the model that made a node: outside torch, if there is one."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [f for f in frames if "/torch/" not in f[0]] or frames
    return Place(own[-1][0], int(own[-1][1]), own[-1][3].strip()) if own else None


def target_name(target: Any) -> str:
    """The name of what a node calls: `aten.add.Tensor`, `higher_order.cond`."""
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target._name}"
    return str(target) if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", str(target))


def calls(graph_module: Any) -> Iterator[Any]:
    """The nodes that compute tensors, those of regions that are walked in place among them."""
    for node in graph_module.graph.nodes:
        if node.op != "call_function" or target_name(node.target) in SIZES | IGNORED | ASSERTIONS or _only_sizes(node):
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


def _only_sizes(node: Any) -> bool:
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


@dataclass
class Walker:
    """Values of a graph's nodes, as they are built."""

    b: FunctionBuilder
    sizes: Sizes
    values: dict[Any, Any] = field(default_factory=dict)
    checked: list[str] = field(default_factory=list)
    numbers: Mapping[str, Operand] = field(default_factory=dict)
    """Integer arguments that are values only, i64[], by torch's symbols."""
    written: dict[Any, Any] = field(default_factory=dict)
    asserted: list[tuple[Operand, str | None]] = field(default_factory=list)
    """Conditions on data that the program asserts, and what it says where one does not hold."""

    def __post_init__(self) -> None:
        self.scalars = Scalars(self.b, self.sizes, self.numbers)

    def run(self, graph_module: Any) -> tuple[Any, ...]:
        """Builds every call; the values of the outputs."""
        self.written.update(followed(graph_module) or {})
        for node in graph_module.graph.nodes:
            place = place_of(node)
            self.b.span = place.span if place else None
            if node.op == "call_function" and not self._is_size(node):
                self.values[self.written.get(node, node)] = self._call(node, graph_module)
            elif node.op == "get_attr":
                self.values.setdefault(node, getattr(graph_module, node.target, None))
            elif node.op == "output":
                return tuple(self._checked(self.value(a)) for a in node.args[0])
        return ()

    def _is_size(self, node: Any) -> bool:
        """Whether it is arithmetic of sizes: done where it is asked for, as torch's assertions need not be."""
        if node.target is operator.getitem and isinstance(self.values.get(node.args[0]), (tuple, list)):
            return False
        return target_name(node.target) in SIZES or _only_sizes(node)

    def _checked(self, result: Any) -> Any:
        """A result, given where all that was asserted until then holds."""
        if isinstance(result, Complex):
            return result.each(self._checked)
        for condition, message in self.asserted if is_tensor(result) else ():
            whole = self.b.reshape(condition, shape=())
            result = self.b.checked(result, whole, **({} if message is None else {"message": message}))
        return result

    def value(self, arg: Any) -> Any:
        """An argument: nodes as their values, sizes as dims, in lists too."""
        if isinstance(arg, torch.fx.Node):
            return self._known(arg)
        if isinstance(arg, (list, tuple)):
            return [self.value(a) for a in arg]
        return self._symbolic(arg) if isinstance(arg, _SYMBOLIC) else arg

    def _known(self, node: Any) -> Any:
        node = self.written.get(node, node)
        if node not in self.values:
            self.values[node] = self._symbolic(node.meta["val"])
        if is_complex(node.meta.get("val")) and is_tensor(self.values[node]):
            self.values[node] = split(self.b, self.values[node])
        return self.values[node]

    def _symbolic(self, value: Any) -> Any:
        if isinstance(value, torch.SymInt) and not self.scalars.is_number(value.node.expr):
            dim = self.sizes.dim(value)
            return dim.value if dim.is_const else dim
        return self.scalars.value(value) if isinstance(value, _SYMBOLIC) else value

    def _call(self, node: Any, graph_module: Any) -> Any:
        name = target_name(node.target)
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
        context = Context(self.b, name, self._types(node), _used(node), is_complex(node))
        try:
            made = row(context, Args(self._arguments(node)))
        except CompileError as failure:
            raise asked(failure, name) from failure
        results = made if isinstance(made, (tuple, list)) else (made,)
        agreed = [self._agreed(context, r, t) for r, t in zip(results, context.outputs, strict=False)]
        return agreed if isinstance(node.meta["val"], (tuple, list)) else agreed[0]

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

    def _types(self, node: Any) -> tuple[TensorType, ...]:
        value = node.meta["val"]
        listed = value if isinstance(value, (tuple, list)) else (value,)
        return tuple(self.type_of(v, target_name(node.target)) for v in listed)

    def type_of(self, value: Any, what: str) -> TensorType:
        """The type of a (fake) tensor, of a complex one that of its parts; an absent result counts as an empty one."""
        if not isinstance(value, torch.Tensor):
            return TensorType(DType.f32, (Dim.of(0),))
        dims = tuple(self.sizes.dim(d) for d in value.shape)
        return TensorType(dtype_of(part_dtype(value.dtype), f"`{what}`"), dims)

    def _agreed(self, context: Context, made: Any, wanted: TensorType) -> Any:
        """The value, once its type is known to be the one torch has; what cannot be proven is checked at run time."""
        if isinstance(made, Complex):
            return made.each(lambda part: self._agreed(context, part, wanted))
        if made is None or not is_tensor(made):
            return made
        have = self.b.type(made)
        made = context.converted(made, wanted.dtype)
        if len(have.dims) != len(wanted.dims):
            raise CompileError((Diagnostic(f"`{context.target}` gives {have}, but torch has {wanted}", self.b.span),))
        if all(a == b or self.b.facts.prove_eq(a, b) for a, b in zip(have.dims, wanted.dims, strict=True)):
            return made
        self.checked.append(f"`{context.target}`: {have} against {wanted}")
        return self.b.match_cast(made, wanted)


def _used(node: Any) -> frozenset[int]:
    """Which of several results the graph reads."""
    return frozenset(u.args[1] for u in node.users if u.target is operator.getitem and u.users)


Values = Mapping[Any, Any]
