"""The call of an imported model as data: `forward`'s arguments, and torch's trees of arguments and results."""

from __future__ import annotations

import inspect
from collections import OrderedDict, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any

from ..runtime.structure import Argument, Classes, Constant, Leaf, Node, Output, Structure, name_of

if TYPE_CHECKING:
    from ..frontends.torch import Imported

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional_only",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
}
_EMPTY = inspect.Parameter.empty


def call_of(imported: Imported, model: Any) -> tuple[Structure, Classes]:
    """How the model is called.

    `model` is a module, whose `forward` says which arguments have defaults, or an exported program, which has their
    names only, or None, of which nothing is known.
    """
    trees = _Trees()
    in_spec, out_spec = imported.in_spec, imported.out_spec
    args_spec, kwargs_spec = in_spec.children()
    positional = [trees.node(child) for child in args_spec.children()]
    named = {str(k): trees.node(child) for k, child in zip(kwargs_spec.context, kwargs_spec.children(), strict=True)}
    arguments, rest = _arguments(_signature(model, positional, named), positional, named)
    what = [""] * in_spec.num_leaves
    for argument in arguments:
        if argument.node is not None:
            _name_leaves(argument.node, argument.name, what)
    fixed = {i: Constant.of(value) for i, value in imported.fixed.items()}
    leaves = tuple(
        Leaf(param, fixed.get(i), what[i], param in imported.complex_inputs) for i, param in enumerate(imported.inputs)
    )
    outputs = tuple(
        Output(r.position, None if r.position is not None else Constant.of(r.constant), r.kind)
        for r in imported.outputs
    )
    trees.count = 0
    return Structure(arguments, rest, leaves, outputs, trees.node(out_spec)), trees.classes()


def _signature(model: Any, positional: Sequence[Node], named: dict[str, Node]) -> list[inspect.Parameter]:
    """The arguments of `forward`; of an exported program those that the export was given."""
    if not hasattr(model, "forward"):
        signature = model.module_call_graph[0].signature if model is not None else None
        known = list(getattr(signature, "forward_arg_names", None) or ())
        known += [f"args_{i}" for i in range(len(known), len(positional))]
        either, only = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        names = [n for n in known if n not in named][: len(positional)]
        return [inspect.Parameter(n, either) for n in names] + [inspect.Parameter(n, only) for n in named]
    return list(inspect.signature(model.forward).parameters.values())


def _arguments(
    parameters: Sequence[inspect.Parameter], positional: Sequence[Node], named: dict[str, Node]
) -> tuple[tuple[Argument, ...], str | None]:
    """Each argument with its tree, and the name of `*args`."""
    given, named, rest = list(positional), dict(named), None
    found: list[Argument] = []
    for p in parameters:
        if p.kind is inspect.Parameter.VAR_POSITIONAL:
            rest = p.name
            found += [Argument(f"{p.name}[{i}]", "rest", False, None, node) for i, node in enumerate(given)]
            given = []
        elif p.kind in _KINDS:
            by_position = p.kind is not inspect.Parameter.KEYWORD_ONLY and given
            node = given.pop(0) if by_position else named.pop(p.name, None)
            found.append(Argument(p.name, _KINDS[p.kind], p.default is not _EMPTY, _default(p), node))
    if given:  # a signature that says less than the call has
        rest = "args"
        found += [Argument(f"args[{i}]", "rest", False, None, node) for i, node in enumerate(given)]
    # What is left came by **kwargs.
    found += [Argument(name, "keyword", False, None, node) for name, node in named.items()]
    return tuple(found), rest


def _default(parameter: inspect.Parameter) -> Constant | None:
    return None if parameter.default is _EMPTY else Constant.of(parameter.default)


@dataclass
class _Trees:
    """torch's specs as nodes, leaves counted in torch's order."""

    count: int = 0
    known: dict[str, type] = field(default_factory=dict)
    contexts: dict[tuple[str, str], Any] = field(default_factory=dict)

    def classes(self) -> Classes:
        return Classes(self.known, self.contexts)

    def node(self, spec: Any) -> Node:
        if spec is None or spec.is_leaf():
            self.count += 1
            return Node("leaf", self.count - 1)
        kind, context = spec.type, spec.context
        items = tuple(map(self.node, spec.children()))
        if kind in (tuple, list):
            return Node(kind.__name__, items=items)
        if kind is deque:
            return Node("deque", items=items, context="" if context is None else str(context))
        if kind in (dict, OrderedDict):
            return Node("dict", items=items, keys=_constants(context), type=name_of(kind))
        if kind is defaultdict:
            factory, keys = context
            made = self._name(factory) if isinstance(factory, type) else ""
            return Node("dict", items=items, keys=_constants(keys), type=name_of(kind), context=made)
        if hasattr(context, "_fields"):  # namedtuples have one kind, their class is the context
            return Node("namedtuple", items=items, type=self._name(context))
        if is_dataclass(kind) and _is_plain(context, len(items)):
            names, absent = context
            return Node("dataclass", items=items, keys=_constants(names), none=tuple(absent), type=self._name(kind))
        self.contexts[name_of(kind), repr(context)] = context
        return Node("registered", items=items, type=self._name(kind), context=repr(context))

    def _name(self, kind: Any) -> str:
        name = name_of(kind)
        self.known[name] = kind
        return name


def _is_plain(context: Any, items: int) -> bool:
    """Whether it is what torch.export.register_dataclass keeps: the fields that are there, and those that are None."""
    lists = isinstance(context, (list, tuple)) and len(context) == 2 and all(isinstance(c, list) for c in context)
    return lists and len(context[0]) == items and all(isinstance(n, str) for c in context for n in c)


def _constants(keys: Any) -> tuple[Constant, ...]:
    return tuple(map(Constant.of, keys))


def _name_leaves(node: Node, name: str, what: list[str]) -> None:
    """What a user calls each leaf."""
    if node.kind == "leaf":
        what[node.leaf] = name
        return
    for i, item in enumerate(node.items):
        if node.kind == "dict":
            _name_leaves(item, f"{name}[{node.keys[i].value!r}]", what)
        elif node.kind == "dataclass":
            _name_leaves(item, f"{name}.{node.keys[i].text}", what)
        else:
            _name_leaves(item, f"{name}[{i}]", what)
