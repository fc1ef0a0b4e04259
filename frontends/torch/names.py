"""Names of sizes and values: the user's where there are some, words that the language allows."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...ir.diagnostics import CompileError, error
from ...ir.dims import Dim
from ...ir.facts import Compare, Fact, InRange
from ...ir.types import DType
from .retrace import shape_env
from .sizes import Sizes

_WORDS = """
return yield where else func in inout if while scan weight const update bind likely do over
true false none inf nan min max ceildiv main
"""
_RESERVED = frozenset(_WORDS.split()) | {d.value for d in DType}


def valid(name: str) -> str:
    """A word that the language takes as a name."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    word = word if re.match(r"[A-Za-z_]", word) else f"_{word}"
    return f"{word}_" if word in _RESERVED or keyword.iskeyword(word) or re.fullmatch(r"t\d+", word) else word


@dataclass
class Names:
    """Names given out so far."""

    taken: Iterable[str]
    _given: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._given |= set(self.taken)

    def fresh(self, name: str) -> str:
        word = valid(name)
        while word in self._given:
            word += "_"
        self._given.add(word)
        return word


def symbol_names(program: Any, dynamic_shapes: Any) -> dict[str, str]:
    """torch's symbols (`s17`) to names: those of the Dims that the user gave, else torch's own."""
    sizes = [*(d for value in _tensors(program) for d in value.shape), *_ints(program)]
    symbols = sorted({str(s) for d in sizes for s in _free(d)})
    given = UserSizes(program, dynamic_shapes).names()
    taken = Names(())
    # Sizes of one Dim are one size here, even if torch has a symbol for each.
    words = {name: taken.fresh(name) for name in sorted(set(given.values()))}
    return {s: words[given[s]] if s in given else taken.fresh(s) for s in symbols}


def automatic(dynamic_shapes: Any, fixed: frozenset[str] = frozenset()) -> Any:
    """The same shapes with every Dim left open: what the user said of it is compared with what was found.

    Dims of the names in `fixed` are the example's sizes.
    """

    def freed(x: Any) -> Any:
        if _is_named(x) and getattr(x, "root", x).__name__ in fixed:
            return None
        return torch.export.Dim.AUTO if _is_open(x) else x

    return pytree.tree_map(freed, dynamic_shapes, is_leaf=_is_open)


def input_names(program: Any, dynamic_shapes: Any) -> dict[str, str | Dim]:
    """torch's symbols for the sizes of inputs, as `automatic` left them open, by the user's Dims: names, and sizes
    derived from others; torch's own names where there is none.
    """
    user = UserSizes(program, dynamic_shapes)
    given = {str(size.node._expr): dim for _, _, size, dim in user.open_sizes() if isinstance(size, torch.SymInt)}
    taken = Names(())
    roots = sorted({getattr(d, "root", d).__name__ for d in given.values() if _is_named(d)})
    words = {name: taken.fresh(name) for name in roots}
    found: dict[str, str | Dim] = {}
    sizes = [*(d for value in _tensors(program) for d in value.shape), *_ints(program)]
    for symbol in sorted({str(s) for d in sizes for s in _free(d)} | given.keys()):
        dim = given.get(symbol)
        if dim is None or not _is_named(dim):
            found[symbol] = taken.fresh(symbol)
        elif hasattr(dim, "root"):
            found[symbol] = Dim.of(dim.fn(Dim.of(words[dim.root.__name__])))
        else:
            found[symbol] = words[dim.__name__]
    return found


@dataclass(frozen=True)
class UserSizes:
    """What the user's `dynamic_shapes` say of the sizes of a program's inputs."""

    program: Any
    dynamic_shapes: Any

    def names(self) -> dict[str, str]:
        """Names of the Dims by torch's symbols."""
        return {symbol: root.__name__ for symbol, root in self._roots()}

    def lower(self, names: dict[str, str]) -> dict[str, int]:
        """Lower bounds by our names."""
        return {names[symbol]: int(root.min) for symbol, root in self._roots() if symbol in names}

    def facts(self, sizes: Sizes) -> tuple[Fact, ...]:
        """Bounds, equality and derivation of the Dims; CompileError where torch has fixed one to a number."""
        found: list[Fact] = []
        first: dict[str, Dim] = {}
        derived: list[tuple[Dim, Any]] = []
        for name, axis, size, dim in self._sizes():
            ours = sizes.dim(size)
            if ours.is_const:
                raise self._is_fixed(name, axis, dim, ours.value)
            if hasattr(dim, "root"):
                derived.append((ours, dim))
                continue
            found.append(InRange(ours, max(0, int(dim.min)), int(dim.max) if dim.max < _NO_BOUND else None))
            if dim.__name__ in first:
                found.append(Compare("==", ours, first[dim.__name__]))
            first.setdefault(dim.__name__, ours)
        for ours, dim in derived:
            if dim.root.__name__ in first:
                found.append(Compare("==", ours, dim.fn(first[dim.root.__name__])))
        return tuple(found)

    def stated(self, sizes: Sizes) -> tuple[Fact, ...]:
        """Bounds of the Dims (named ones, and hints with bounds), of sizes that `automatic` left open."""
        found: list[Fact] = []
        for owner, axis, size, dim in self.open_sizes():
            if isinstance(size, int):
                if not _is_automatic(dim):
                    raise self._is_fixed(owner, axis, dim, size)
                continue
            if hasattr(dim, "root"):
                continue
            low, high = getattr(dim, "min", None), getattr(dim, "max", None)
            bounds = InRange(sizes.dim(size), max(0, int(low or 0)), _finite(high))
            if bounds.lo != 0 or bounds.hi is not None:
                found.append(bounds)
        for _, _, _, dim in self.open_sizes():
            root = getattr(dim, "root", None)
            if root is not None and (root.min > 0 or _finite(root.max) is not None):
                found.append(InRange(valid(root.__name__), max(0, int(root.min)), _finite(root.max)))
        return tuple(dict.fromkeys(found))

    def _is_fixed(self, name: str, axis: int, dim: Any, size: int) -> CompileError:
        return error(
            f"dynamic_shapes leave size {axis} of `{name}` open ({getattr(dim, '__name__', 'Dim.DYNAMIC')}), but "
            f"torch.export fixed it to {size}: the model, or the example, works for that number only",
            notes=tuple(_fixed_by(self.program, size)),
            helps=("use x.shape in the model instead of a number, and an example size that stands for others",),
        )

    def promised(self, sizes: Sizes) -> frozenset[str]:
        """Symbols of sizes that the user wants to move: those of Dims with a name, and of Dim.DYNAMIC."""
        hints = [(size, dim) for _, _, size, dim in self.open_sizes() if not _is_automatic(dim)]
        return frozenset[str]().union(*(sizes.dim(size).symbols for size, _ in hints))

    def where(self, name: str) -> str:
        """The input and axis whose size has that name."""
        for owner, axis, size, dim in self.open_sizes():
            if name in (getattr(dim, "__name__", None), str(getattr(getattr(size, "node", None), "_expr", ""))):
                return f"size {axis} of `{owner}`"
        return f"the size {name}"

    def open_sizes(self) -> Iterator[tuple[str, int, Any, Any]]:
        """(input, axis, its size in the program, what the user said of it), of all that is left open."""
        yield from self._sizes(_is_open)

    def _roots(self) -> Iterator[tuple[str, Any]]:
        for _, _, size, dim in self._sizes():
            symbols = list(_free(size))
            if len(symbols) == 1 and hasattr(dim, "root") != size.node.expr.is_Symbol:
                yield str(symbols[0]), getattr(dim, "root", dim)

    def _sizes(self, wanted: Callable[[Any], bool] = lambda dim: _is_named(dim)) -> Iterator[tuple[str, int, Any, Any]]:
        """(input, axis, its size in the program, the user's Dim)."""
        if self.dynamic_shapes is None:
            return
        program = self.program
        metas = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
        inputs = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
        for name, shape in zip(inputs, _leaves(program, self.dynamic_shapes), strict=False):
            value = metas.get(name)
            if isinstance(value, torch.Tensor) and shape:
                items = shape.items() if isinstance(shape, dict) else enumerate(shape)
                for axis, dim in items:
                    if wanted(dim) and not -value.dim() <= axis < value.dim():
                        raise error(
                            f"dynamic_shapes name axis {axis} of `{name}`, which has rank {value.dim()}",
                            helps=(f"name axes from 0 to {value.dim() - 1}, as {{axis: Dim}}",),
                        )
                    if wanted(dim):
                        yield name, axis, value.shape[axis], dim


def _fixed_by(program: Any, value: int) -> Iterator[str]:
    """Where torch was asked for a size to be that number: in the model's code, or for which of torch's own checks."""
    environment = shape_env(program)
    for guard in environment.guards if environment is not None else ():
        frame: Any = getattr(guard.sloc, "framework_loc", None)
        if type(guard.expr).__name__ == "Equality" and value in guard.expr.args and hasattr(frame, "filename"):
            own = "/torch/" not in frame.filename
            place = f"{frame.filename}:{frame.lineno}: {frame.line}" if own else f"torch's `{frame.name}`"
            yield f"a size equal to {value} was asked for {'at' if own else 'by'} {place}"


_NO_BOUND = 1 << 62


def _finite(bound: Any) -> int | None:
    return None if bound is None or bound >= _NO_BOUND else int(bound)


def _is_named(dim: Any) -> bool:
    """A torch.export.Dim with a name and bounds, or derived from one (AUTO and the like have none)."""
    return hasattr(dim, "__name__") and (hasattr(dim, "root") or (hasattr(dim, "min") and hasattr(dim, "max")))


def _is_open(dim: Any) -> bool:
    """A named Dim, or one of AUTO and DYNAMIC."""
    return _is_named(dim) or str(getattr(getattr(dim, "type", None), "name", "")) in ("AUTO", "DYNAMIC")


def _is_automatic(dim: Any) -> bool:
    return str(getattr(getattr(dim, "type", None), "name", "")) == "AUTO"


def _tensors(program: Any) -> Iterator[Any]:
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, torch.Tensor):
            yield value


def _ints(program: Any) -> Iterator[Any]:
    """Integer inputs that vary."""
    for node in program.graph.nodes:
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.SymInt):
            yield node.meta["val"]


def _free(size: Any) -> Iterable[Any]:
    return size.node.expr.free_symbols if isinstance(size, torch.SymInt) else ()


def _leaves(program: Any, dynamic_shapes: Any) -> list[Any]:
    """One entry a user input, in order; an empty list when the structure is not understood."""
    spec = program.call_spec.in_spec
    args, kwargs = pytree.tree_unflatten(range(spec.num_leaves), spec)
    if isinstance(dynamic_shapes, dict):
        names = getattr(program.module_call_graph[0].signature, "forward_arg_names", None) or []
        listed = [dynamic_shapes.get(n) for n in (*names[: len(args)], *kwargs)]
    else:
        listed = list(dynamic_shapes)
        nested = bool(args) and isinstance(args[0], (list, tuple))
        if len(listed) == 1 and isinstance(listed[0], (list, tuple)) and not nested:
            listed = list(listed[0])  # of a forward(*args)
    found: list[Any] = []
    for value, shape in zip((*args, *kwargs.values()), listed, strict=False):
        found.extend(_spread(value, shape))
    return found


def _spread(value: Any, shape: Any) -> list[Any]:
    if isinstance(value, int):
        return [shape]
    if shape is None:
        return [None] * len(pytree.tree_leaves(value))
    if isinstance(value, dict):
        return [leaf for k, v in value.items() for leaf in _spread(v, shape.get(k))]
    if isinstance(value, (list, tuple)):
        return [leaf for v, s in zip(value, shape, strict=False) for leaf in _spread(v, s)]
    return [None] * len(pytree.tree_leaves(value))
