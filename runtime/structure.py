"""How a model is called, as data: the arguments of its `forward`, and how arguments and results are made of tensors.

A compiled program takes and gives arrays; a model takes and gives trees of them (tuples, lists, dicts, dataclasses),
with numbers and None among the leaves. An import keeps the trees in the artifact, so that a model that is loaded is
called as it was, without the framework that it came from.
"""

from __future__ import annotations

import ast
import importlib
import math
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import arrays
from .errors import ArgumentError, LoadError

_SCALARS = {"bool": bool, "int": int, "float": float, "str": str}
_SEQUENCES = {"tuple": tuple, "list": list, "deque": deque}


@dataclass(frozen=True)
class Constant:
    """A value that is no tensor; one that is no number, text or None is known by how it prints."""

    kind: str  # None, bool, int, float, str, or the name of another type
    text: str

    @staticmethod
    def of(value: object) -> Constant:
        return Constant("None" if value is None else type(value).__name__, value if type(value) is str else repr(value))

    @property
    def value(self) -> Any:
        """The value; the constant itself where it is of another type."""
        if self.kind == "None":
            return None
        if self.kind == "bool":
            return self.text == "True"
        return _SCALARS[self.kind](self.text) if self.kind in _SCALARS else self

    def equals(self, value: object) -> bool:
        """Whether an argument is this value: of the same type, and equal."""
        other = Constant.of(value)
        if self.kind == other.kind == "float":
            return self.value == value or (math.isnan(self.value) and other.text == "nan")
        return self == other

    def __str__(self) -> str:
        return repr(self.text) if self.kind == "str" else self.text


@dataclass(frozen=True)
class Node:
    """A tree. `kind` is leaf, tuple, list, deque, dict, namedtuple, dataclass or registered (with torch's pytrees).

    A leaf has its number; other nodes have `items`, dicts and dataclasses the `keys` for them. `none` are the fields of
    a dataclass that are None. `type` is the class, `module:name`, where the kind alone does not say it, and `context`
    what its registration with torch wants to make one, as text of a Python literal.
    """

    kind: str
    leaf: int = -1
    items: tuple[Node, ...] = ()
    keys: tuple[Constant, ...] = ()
    none: tuple[str, ...] = ()
    type: str = ""
    context: str = ""


@dataclass(frozen=True)
class Argument:
    """An argument of `forward`. `node` is None where the export left it out, so that its default holds.

    kind: `positional` (by position or name), `positional_only`, `keyword`, or `rest` (one of `*args`).
    """

    name: str
    kind: str
    optional: bool
    default: Constant | None
    node: Node | None


@dataclass(frozen=True)
class Leaf:
    """A leaf of the arguments: a parameter of the program, or a value that the program was made for."""

    param: str | None
    value: Constant | None
    what: str  # how a user calls it: `x`, `pair[1]`
    pairs: bool = False  # whether it is complex, which the program takes as pairs of reals


@dataclass(frozen=True)
class Output:
    """A leaf of the results: a result of the program (by position), or a constant.

    kind: tensor, complex (a tensor, which the program gives as pairs of reals), int, float or bool.
    """

    position: int | None
    constant: Constant | None
    kind: str


@dataclass(frozen=True)
class Structure:
    """All of it. `rest` is the name of `*args`, if `forward` has them."""

    arguments: tuple[Argument, ...]
    rest: str | None
    leaves: tuple[Leaf, ...]
    outputs: tuple[Output, ...]
    result: Node

    def __str__(self) -> str:
        """`forward(x, mask=None)`."""
        shown = [a.name + (f"={a.default}" if a.default is not None else "=..") * a.optional for a in self._named]
        shown += [f"*{self.rest}"] * (self.rest is not None)
        return f"forward({', '.join(shown)})"

    @property
    def _named(self) -> list[Argument]:
        return [a for a in self.arguments if a.kind != "rest"]

    def leaf_values(self, args: Sequence[Any], kwargs: Mapping[str, Any], classes: Classes) -> list[Any]:
        """The leaves of a call, in order; ArgumentError when it does not fit."""
        values = self._bound(args, kwargs)
        leaves: list[Any] = [None] * len(self.leaves)
        for argument in self.arguments:
            given = argument.name in values
            if argument.node is None:
                if given and not (argument.default is not None and argument.default.equals(values[argument.name])):
                    raise self._left_out(argument, values[argument.name])
            elif given:
                for at, value in _flat(argument.node, values[argument.name], argument.name, classes):
                    leaves[at] = value
            elif argument.default is not None:
                for at, value in self._default(argument):
                    leaves[at] = value
            else:
                raise ArgumentError(f"{self} is called without `{argument.name}`", argument=argument.name)
        for leaf, value in zip(self.leaves, leaves, strict=True):
            if leaf.value is not None and not leaf.value.equals(value):
                raise _fixed(leaf, leaf.value, value)
            if leaf.param is not None and value is None:
                said = f"argument `{leaf.what}` is None, but the model was exported with a value for it"
                raise ArgumentError(said, argument=leaf.what, got="None")
        return leaves

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Values by argument, as Python binds them."""
        by_position = [a.name for a in self.arguments if a.kind in ("positional", "positional_only", "rest")]
        if len(args) > len(by_position):
            count = f"{len(by_position)} argument{'' if len(by_position) == 1 else 's'} by position"
            more = ", as many as at the export" if self.rest is not None else ""
            raise ArgumentError(f"{self} takes {count}{more}, but {len(args)} were given")
        values = dict(zip(by_position, args, strict=False))
        known = [a.name for a in self._named if a.kind != "positional_only"]
        for name, value in kwargs.items():
            if name not in known:
                raise ArgumentError(f"{self} has no argument `{name}`{_near(name, known)}", argument=name)
            if name in values:
                raise ArgumentError(f"{self}: `{name}` is given by position and by name", argument=name)
            values[name] = value
        return values

    def _default(self, argument: Argument) -> Iterator[tuple[int, Any]]:
        """The default of an argument that the export was given and a call leaves out: a number or None."""
        assert argument.default is not None
        assert argument.node is not None
        if argument.node.kind == "leaf" and self.leaves[argument.node.leaf].param is None:
            yield argument.node.leaf, argument.default.value
            return
        if argument.node.kind == "leaf" and type(argument.default.value) in (int, float, bool):
            yield argument.node.leaf, argument.default.value
            return
        said = f"{self} is called without `{argument.name}`, but the model was exported with a value for it"
        raise ArgumentError(f"{said}: export it without, too, to call it so", argument=argument.name)

    def _left_out(self, argument: Argument, value: object) -> ArgumentError:
        default = f"its default, {argument.default}" if argument.default is not None else "its default"
        return ArgumentError(
            f"argument `{argument.name}` was left out of the export, so that the program was made for {default}; "
            "export it with the argument given, or leave it out",
            argument=argument.name,
            got=type(value).__name__,
        )

    def results(self, given: Sequence[Any], classes: Classes) -> Any:
        """The results of the program as the model's own tree."""
        leaves = [self._leaf(o, given) for o in self.outputs]
        return _built(self.result, leaves, classes)

    @staticmethod
    def _leaf(output: Output, given: Sequence[Any]) -> Any:
        if output.position is None:
            return None if output.constant is None else output.constant.value
        value = given[output.position]
        if output.kind == "complex":
            return arrays.from_pairs(value)
        return value if output.kind == "tensor" else _SCALARS[output.kind](value)

    @property
    def direct(self) -> tuple[str, ...] | None:
        """The parameters that a call by position gives one by one, with one tensor as its result.

        None where arguments or results have structure that a call must take apart or put together.
        """
        plain = all(a.kind.startswith("positional") and a.node and a.node.kind == "leaf" for a in self.arguments)
        one = self.result.kind == "leaf" and len(self.outputs) == 1 and self.outputs[0].position == 0
        if not plain or not one or self.outputs[0].kind != "tensor":
            return None
        names = tuple(leaf.param for leaf in self.leaves if leaf.param is not None and not leaf.pairs)
        return names if len(names) == len(self.leaves) else None


def _fixed(leaf: Leaf, wanted: Constant, value: object) -> ArgumentError:
    return ArgumentError(
        f"argument `{leaf.what}` is {_shown(value)}, but the model was exported for {wanted}: "
        "export it again with that value, or pass it as a tensor",
        argument=leaf.what,
        expected=wanted.value if wanted.kind in (*_SCALARS, "None") else wanted.text,
        got=_shown(value),
    )


def _shown(value: object) -> str:
    """A value in a message: numbers and texts themselves, of others the type."""
    return repr(value) if value is None or isinstance(value, (bool, int, float, str)) else f"a {type(value).__name__}"


def _near(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, 1)
    return f": did you mean `{close[0]}`?" if close else ""


# -- trees


class Classes:
    """Classes of trees by name: those that were there at the import, else those of modules, when first wanted.

    `contexts` are what torch's registrations wanted at the import, by class and text.
    """

    def __init__(
        self, known: Mapping[str, type] | None = None, contexts: Mapping[tuple[str, str], Any] | None = None
    ) -> None:
        self._known = dict(known or {})
        self._contexts = dict(contexts or {})

    def __getitem__(self, name: str) -> type:
        """LoadError when there is no such class in this process."""
        if name not in self._known:
            self._known[name] = _class(name)
        return self._known[name]

    def registration(self, name: str) -> Any:
        """What torch's pytrees know of a class."""
        kind, pytree = self[name], importlib.import_module("torch.utils._pytree")
        if kind not in pytree.SUPPORTED_NODES:
            raise LoadError(f"the class {name}, of which the model's arguments or results are, is not registered")
        return pytree.SUPPORTED_NODES[kind]

    def context(self, node: Node) -> Any:
        """What the class of a registered node wants to make one."""
        if (node.type, node.context) in self._contexts:
            return self._contexts[node.type, node.context]
        try:
            return ast.literal_eval(node.context)
        except (ValueError, SyntaxError) as error:
            said = f"a {node.type} cannot be made where the model was not imported: its context is {node.context}"
            raise LoadError(said) from error


def name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(name: str) -> type:
    module, _, path = name.partition(":")
    try:
        found: Any = sys.modules.get(module) or importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        said = f"the class {name}, of which the model's arguments or results are, is not there: {error}"
        raise LoadError(f"{said}; define it before the model is called") from error
    if not isinstance(found, type):
        raise LoadError(f"{name} is no class")
    return found


def _flat(node: Node, value: Any, what: str, classes: Classes) -> Iterator[tuple[int, Any]]:
    """The leaves of a value, with their numbers; ArgumentError when it is no such tree."""
    if node.kind == "leaf":
        yield node.leaf, value
        return
    for item, (inner, named) in zip(node.items, _PARTS[node.kind](node, value, what, classes), strict=True):
        yield from _flat(item, inner, named, classes)


Parts = Iterator[tuple[Any, str]]


def _sequence(node: Node, value: Any, what: str, _classes: Classes) -> Parts:
    if not isinstance(value, (tuple, list, deque)) or len(value) != len(node.items):
        raise _misshapen(node, value, what)
    yield from ((item, f"{what}[{i}]") for i, item in enumerate(value))


def _mapping(node: Node, value: Any, what: str, _classes: Classes) -> Parts:
    if not isinstance(value, Mapping):
        raise _misshapen(node, value, what)
    keys = [k.value for k in node.keys]
    absent, extra = [k for k in keys if k not in value], [k for k in value if k not in keys]
    if absent or extra:
        said = "".join(f" without {', '.join(map(repr, absent))}" for _ in absent[:1])
        said += "".join(f" with {', '.join(map(repr, extra))}" for _ in extra[:1])
        raise ArgumentError(f"argument `{what}` is a dict{said}; it needs {', '.join(map(repr, keys))}", argument=what)
    yield from ((value[k], f"{what}[{k!r}]") for k in keys)


def _record(node: Node, value: Any, what: str, _classes: Classes) -> Parts:
    if name_of(type(value)) != node.type:
        raise _misshapen(node, value, what)
    for name in node.none:
        if getattr(value, name, None) is not None:
            said = f"argument `{what}.{name}` is {_shown(getattr(value, name))}, but the model was exported for None"
            raise ArgumentError(said, argument=f"{what}.{name}", expected=None, got=_shown(getattr(value, name)))
    for key in node.keys:
        inner = getattr(value, key.text, None)
        yield inner, f"{what}.{key.text}"


def _registered(node: Node, value: Any, what: str, classes: Classes) -> Parts:
    if name_of(type(value)) != node.type:
        raise _misshapen(node, value, what)
    items, context = classes.registration(node.type).flatten_fn(value)
    if len(items) != len(node.items) or repr(context) != node.context:
        raise _misshapen(node, value, what)
    yield from ((item, f"{what}.{i}") for i, item in enumerate(items))


def _misshapen(node: Node, value: Any, what: str) -> ArgumentError:
    wanted = f"a {node.type.partition(':')[2] or node.kind}"
    wanted += "" if node.kind == "dict" else f" of {len(node.items)}"
    got = f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, (tuple, list, Mapping)) else "")
    return ArgumentError(
        f"argument `{what}` is {got}, but the model was exported for {wanted}", argument=what, expected=wanted, got=got
    )


_PARTS: Mapping[str, Callable[[Node, Any, str, Classes], Parts]] = {
    "tuple": _sequence,
    "list": _sequence,
    "deque": _sequence,
    "namedtuple": _sequence,
    "dict": _mapping,
    "dataclass": _record,
    "registered": _registered,
}


def _built(node: Node, leaves: Sequence[Any], classes: Classes) -> Any:
    if node.kind == "leaf":
        return leaves[node.leaf]
    items = [_built(item, leaves, classes) for item in node.items]
    if node.kind == "deque":
        return deque(items, None if not node.context else int(node.context))
    if node.kind in _SEQUENCES:
        return _SEQUENCES[node.kind](items)
    if node.kind == "namedtuple":
        return classes[node.type](*items)
    if node.kind == "dataclass":
        named = {k.text: item for k, item in zip(node.keys, items, strict=True)}
        return classes[node.type](**named, **dict.fromkeys(node.none))
    if node.kind == "dict":
        pairs = dict(zip((k.value for k in node.keys), items, strict=True))
        if node.type == name_of(defaultdict):
            return defaultdict(classes[node.context] if node.context else None, pairs)
        return OrderedDict(pairs) if node.type == name_of(OrderedDict) else pairs
    return classes.registration(node.type).unflatten_fn(items, classes.context(node))
