"""Guards of a stored program, which torch writes as Python over the sizes of inputs: `L['x'].size()[0] % 4 == 0`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.utils import _pytree as pytree
from torch.utils._sympy import functions as of_torch

from ...ir.dims import Dim
from .conditions import Clause, clauses
from .sizes import Sizes, unknown

_SOURCE = re.compile(r"L\[['\"]\w+['\"]\](?:\[[^\]]+\]|\.\w+(?![\w(]))*(?:\.\w+\(\)(?:\[\d+\])?)?")


@dataclass(frozen=True)
class Inputs:
    """Sizes of a program's inputs, and inputs that are numbers, by the text that guards have for them."""

    sizes: Mapping[str, Any]
    """torch's expression by `L['x'].size()[0]`, in the normal form of `_normal`."""

    def __getitem__(self, source: str) -> Any:
        return self.sizes[_normal(source)]


class Unrelated(Exception):
    """A guard on what is no size: strides, storage offsets."""


@dataclass
class GuardText:
    """One guard: `expr` over symbols that stand for sizes of inputs."""

    text: str
    inputs: Inputs
    dims: dict[str, Any] = field(default_factory=dict)
    """torch's expression of each symbol of `expr`."""

    def clauses(self, sizes: Sizes) -> tuple[Clause, ...]:
        """What it says; CompileError when it has no meaning here, Unrelated when it says nothing of sizes."""
        expr = self.expr()
        named: dict[str, str | Dim] = {name: sizes.dim(value) for name, value in self.dims.items()}
        return clauses(expr, Sizes(named))

    def expr(self) -> Any:
        """The guard as torch had it, but over new symbols of which nothing is known.

        Of torch's own it would be known that they are not 0, and what is asked of them might vanish.
        """
        named: dict[str, str] = {}

        def word(match: re.Match[str]) -> str:
            name = named.setdefault(match[0], f"v{len(named)}")
            try:
                self.dims[name] = self.inputs[match[0]]
            except KeyError:
                raise Unrelated(self.text) from None
            return name

        try:
            return _read(ast.parse(_SOURCE.sub(word, self.text).strip(), mode="eval").body)
        except (SyntaxError, KeyError, TypeError, ValueError, ZeroDivisionError) as failure:
            raise unknown(self.text, "this condition on sizes is not understood") from failure


def _read(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=bool() as value):
            return sympy.true if value else sympy.false
        case ast.Constant(value=int() as value):
            return sympy.Integer(value)
        case ast.Constant(value=float() as value):
            return sympy.Float(value)
        case ast.Name(id=name):
            return sympy.Symbol(name, integer=True)
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](_read(operand))
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_read(left), _read(right))
        case ast.BoolOp(op=op, values=values):
            return (sympy.And if isinstance(op, ast.And) else sympy.Or)(*map(_read, values))
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            sides = [_read(x) for x in (left, *comparators)]
            return sympy.And(*(_RELATIONS[type(o)](a, b) for o, a, b in zip(ops, sides, sides[1:], strict=False)))
        case ast.IfExp(test=test, body=body, orelse=otherwise):
            return of_torch.Where(_read(test), _read(body), _read(otherwise))
        case ast.Call(func=function, args=args):
            return _CALLS[ast.unparse(function).split(".")[-1]](*map(_read, args))
    raise ValueError(ast.unparse(node))


def _divided(a: Any, b: Any) -> Any:
    return (of_torch.IntTrueDiv if a.is_integer and b.is_integer else of_torch.FloatTrueDiv)(a, b)


def _power(a: Any, b: Any) -> Any:
    return (of_torch.PowByNatural if a.is_integer and b.is_integer else of_torch.FloatPow)(a, b)


_UNARY: Mapping[type, Callable[[Any], Any]] = {
    ast.USub: lambda a: -a, ast.UAdd: lambda a: a, ast.Not: sympy.Not,
}  # fmt: skip
_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: of_torch.FloorDiv,
    ast.Mod: of_torch.PythonMod,
    ast.Div: _divided,
    ast.Pow: _power,
    ast.LShift: of_torch.LShift,
    ast.RShift: of_torch.RShift,
}
_RELATIONS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: sympy.Eq, ast.NotEq: sympy.Ne, ast.LtE: sympy.Le, ast.Lt: sympy.Lt, ast.GtE: sympy.Ge, ast.Gt: sympy.Gt,
}  # fmt: skip
_CALLS: Mapping[str, Callable[..., Any]] = {
    "max": of_torch.Max,
    "Max": of_torch.Max,
    "min": of_torch.Min,
    "Min": of_torch.Min,
    "abs": sympy.Abs,
    "floor": of_torch.FloorToInt,
    "ceil": of_torch.CeilToInt,
    "trunc": of_torch.TruncToInt,
    "int": of_torch.TruncToInt,
    "round": lambda a, *digits: of_torch.RoundDecimal(a, *digits) if digits else of_torch.RoundToInt(a),
    "float": of_torch.ToFloat,
    "sym_float": of_torch.ToFloat,
    "sqrt": of_torch.OpaqueUnaryFn_sqrt,
    "_sym_sqrt": of_torch.OpaqueUnaryFn_sqrt,
    **{
        name: getattr(of_torch, name)
        for name in ("FloorDiv", "CleanDiv", "CeilDiv", "Mod", "PythonMod", "ModularIndexing", "Where", "Identity")
    },
}


# ---------------------------------------------------------------------------------------------- inputs by name


def inputs_of(program: Any) -> Inputs:
    """The sizes of a program's inputs by every name that guards may have for them.

    Guards name arguments as the model's `forward` does (`a[0]` of `*a`), the signature of the program spells such an
    argument `a_0`, and torch's newer tracer counts all tensors (`flat_args[0]`).
    """
    spec = program.call_spec.in_spec
    if spec is None:
        return Inputs({})
    metas = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    listed = [metas.get(s.arg.name) for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    args, kwargs = pytree.tree_unflatten(range(spec.num_leaves), spec)
    names = getattr(program.module_call_graph[0].signature, "forward_arg_names", None) or []
    named = {**dict(zip(names, args, strict=False)), **kwargs}
    found: dict[str, Any] = {}
    for path, position in pytree.tree_flatten_with_path(named)[0]:
        value = listed[position] if position < len(listed) else None
        name, rest = str(path[0].key), "".join(str(p) for p in path[1:])
        spelt = re.fullmatch(r"(.+)_(\d+)", name)
        sources = [f"L['{name}']{rest}", f"L['flat_args'][{position}]"]
        if spelt:
            sources.append(f"L['{spelt[1]}'][{spelt[2]}]{rest}")
        for source in sources:
            if isinstance(value, torch.Tensor):
                found.update({_normal(f"{source}.size()[{i}]"): _expression(d) for i, d in enumerate(value.shape)})
            elif isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
                found.setdefault(_normal(source), _expression(value))
    return Inputs(found)


def _expression(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(int(size))


def _normal(source: str) -> str:
    return source.replace('"', "'")
