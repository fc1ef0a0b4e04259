"""Expressions of the syntax tree as sizes, types, facts and operands.

A `Scope` knows which names are values and which are symbols.  Every function here raises CompileError with the place of
the very token that is wrong.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from .diagnostics import CompileError, Diagnostic, Span
from .dims import Dim
from .facts import Compare, Fact, InRange, OneOf
from .graph import DimValue, GlobalRef, Literal, NoneValue, Operand, TupleValue, Var
from .parser_tree import Node, Token, token_span
from .types import DType, TensorType, TupleType, Type

LARGEST = 2**63 - 1
MOST_TERMS = 2000
DIM_FUNCTIONS: dict[str, Callable[..., Dim]] = {"min": Dim.min, "max": Dim.max, "ceildiv": Dim.ceildiv}
ARITHMETIC = frozenset({"add", "sub", "mul", "floordiv", "mod", "neg"})


class Poisoned(CompileError):
    """Raised for a name whose definition was refused already: its user says nothing more."""


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """A help that names what was probably meant."""
    close = get_close_matches(name, list(known), 1, 0.6)
    return (f"did you mean `{close[0]}`?",) if close else ()


@dataclass
class Scope:
    """Names in scope at a place of a function.  `globals_` are weights and constants, by name without `@`."""

    file: str
    values: dict[str, Span] = field(default_factory=dict)
    symbols: dict[str, Span] = field(default_factory=dict)
    globals_: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    broken: set[str] = field(default_factory=set)

    def inner(self) -> Scope:
        """The scope of a block: what is defined there stays there."""
        return replace(self, values=dict(self.values), symbols=dict(self.symbols), broken=set(self.broken))

    def fail(self, message: str, place: Node | Token, label: str = "", helps: tuple[str, ...] = ()) -> CompileError:
        span = place.span(self.file) if isinstance(place, Node) else token_span(place, self.file)
        return CompileError((Diagnostic(message, span, label, helps=helps),))

    def define_value(self, token: Token) -> None:
        """Refuses a second definition, and the name of a symbol."""
        name = str(token)
        if name in RESERVED:
            raise self.fail(f"`{name}` is a word of the language, not a name", token)
        if name in self.symbols:
            raise _clash(self, name, token, self.symbols[name], "a size", "a value")
        if name in self.values:
            message = f"the value `{name}` is defined twice"
            notes = (f"it was defined first at {self.values[name]}",)
            raise CompileError((Diagnostic(message, token_span(token, self.file), "", notes),))
        self.values[name] = token_span(token, self.file)

    def define_symbol(self, name: str, place: Node) -> None:
        if name in self.values:
            raise _clash(self, name, place.first, self.values[name], "a value", "a size")
        self.symbols[name] = place.span(self.file)


_WORDS = "true false none inf nan if while scan where likely in return yield else func inout"
RESERVED = frozenset(_WORDS.split()) | {dtype.value for dtype in DType}


def _clash(scope: Scope, name: str, token: Token, first: Span, was: str, now: str) -> CompileError:
    message = f"`{name}` is {was} of this function already; it cannot be {now} too"
    return CompileError((Diagnostic(message, token_span(token, scope.file), "", (f"{was} since {first}",)),))


# ------------------------------------------------------------------------------------------------- sizes


def to_dim(node: Node, scope: Scope, binding: bool = False) -> Dim:
    """The size that an expression denotes; with `binding`, unknown names become symbols of the scope."""
    kind = node.kind
    if kind == "name":
        return _symbol(node, scope, binding)
    if kind == "integer":
        return Dim.of(to_int(node, scope))
    if kind in ARITHMETIC:
        return _arithmetic(node, scope, binding)
    if kind == "apply" and str(node.value[0]) in DIM_FUNCTIONS:
        return _dim_function(node, scope, binding)
    raise scope.fail(
        f"expected a size, found {describe(node)}", node, helps=("sizes are made of whole numbers and symbols",)
    )


def _symbol(node: Node, scope: Scope, binding: bool) -> Dim:
    name: str = node.value
    if name not in scope.symbols:
        if name in scope.broken:
            raise Poisoned(())
        if binding and name not in scope.values:
            if name in RESERVED:
                raise scope.fail(f"`{name}` is a word of the language, not a name", node)
            scope.symbols[name] = node.span(scope.file)
        elif name in scope.values and binding:
            scope.define_symbol(name, node)
        elif name in scope.values:
            raise scope.fail(f"`{name}` is a value, not a size", node, helps=(f"make a size of it: `bind k = {name}`",))
        else:
            helps = nearest(name, scope.symbols) or (
                "a size comes into scope in the type of a parameter or a weight, or in a match_cast",
            )
            raise scope.fail(f"there is no size `{name}` here", node, helps=helps)
    return Dim.of(name)


def to_int(node: Node, scope: Scope) -> int:
    """The value of an INT token, refused when it does not fit 64 bits."""
    text: str = node.value
    if len(text) > 19 or int(text) > LARGEST:
        raise scope.fail("this number does not fit 64 bits", node)
    return int(text)


def _arithmetic(node: Node, scope: Scope, binding: bool) -> Dim:
    if node.kind == "neg":
        return -to_dim(node.value, scope, binding)
    a = to_dim(node.value[0], scope, binding)
    b = to_dim(node.value[1], scope, binding)
    if len(a.terms) * len(b.terms) > MOST_TERMS:
        raise scope.fail("this size has too many terms", node, helps=("give its parts names, by match_cast",))
    if node.kind in ("floordiv", "mod") and b == 0:
        raise scope.fail("division by zero", node)
    if node.kind == "add":
        return a + b
    if node.kind == "sub":
        return a - b
    if node.kind == "mul":
        return a * b
    return a // b if node.kind == "floordiv" else a % b


def _dim_function(node: Node, scope: Scope, binding: bool) -> Dim:
    token, args = node.value
    name = str(token)
    if any(a.kind == "keyword" for a in args):
        raise scope.fail(f"`{name}` of sizes takes no attributes", node)
    if len(args) < 2 or (name == "ceildiv" and len(args) != 2):
        raise scope.fail(f"`{name}` of sizes takes two{'' if name == 'ceildiv' else ' or more'} sizes", node)
    dims = [to_dim(a, scope, binding) for a in args]
    if name == "ceildiv" and dims[1] == 0:
        raise scope.fail("division by zero", node)
    return DIM_FUNCTIONS[name](*dims)


# ------------------------------------------------------------------------------------------- types and facts


def to_type(node: Node, scope: Scope, binding: bool = False) -> Type:
    if node.kind == "tuple_type":
        return TupleType(tuple(to_type(item, scope, binding) for item in node.value))
    dtype, dims = node.value
    if dims is None:
        return TensorType(DType(dtype), None)
    return TensorType(DType(dtype), tuple(to_dim(d, scope, binding) for d in dims))


def to_fact(node: Node, scope: Scope, binding: bool = False) -> Fact:
    """The fact; with `binding`, unknown names become symbols of the scope."""
    span = node.span(scope.file)
    if node.kind == "compare":
        op, left, right = node.value
        return Compare(op, to_dim(left, scope, binding), to_dim(right, scope, binding), span)
    if node.kind == "in_range":
        dim, low, high = node.value
        top = None if high is None else to_dim(high, scope, binding)
        return InRange(to_dim(dim, scope, binding), to_dim(low, scope, binding), top, span)
    dim, values = node.value
    return OneOf(to_dim(dim, scope, binding), [_constant(v, scope) for v in values], span)


def _constant(node: Node, scope: Scope) -> int:
    dim = to_dim(node, scope)
    if not dim.is_const:
        raise scope.fail("the values of a set are numbers", node)
    return dim.value


# ---------------------------------------------------------------------------------------------- operands


def to_operand(node: Node, scope: Scope) -> Operand:
    """The operand that an expression denotes: a value, a literal, arithmetic on sizes, or a tuple of operands."""
    kind, span = node.kind, node.span(scope.file)
    if kind == "name":
        return _named(node, scope, span)
    if kind == "global":
        return _global(node, scope, span)
    if kind in ("integer", "floating", "constant"):
        return _literal(node, scope, span)
    if kind == "typed":
        return _typed(node, scope)
    if kind == "tuple":
        return TupleValue(tuple(to_operand(item, scope) for item in node.value), span)
    if kind in ARITHMETIC:
        return _number(node, scope, span)
    if kind == "apply":
        return _nested(node, scope, span)
    raise _no_operand(node, scope)


def _named(node: Node, scope: Scope, span: Span) -> Operand:
    name: str = node.value
    if name in scope.values:
        return Var(name, span)
    if name in scope.symbols:
        return DimValue(Dim.of(name), None, span)
    if name in scope.broken:
        raise Poisoned(())
    if name in scope.globals_:
        raise scope.fail(f"there is no value `{name}` here", node, helps=(f"the weight is called `@{name}`",))
    helps = nearest(name, [*scope.values, *scope.symbols])
    raise scope.fail(f"there is no value `{name}` here", node, helps=helps)


def _global(node: Node, scope: Scope, span: Span) -> Operand:
    name = node.value[1:]
    if name in scope.globals_:
        return GlobalRef(name, span)
    if name in scope.broken:
        raise Poisoned(())
    if name in scope.functions:
        raise scope.fail(f"`@{name}` is a function, not a value", node, helps=(f"call it: `y = @{name}(...)`",))
    helps = tuple(h.replace("`", "`@", 1) for h in nearest(name, scope.globals_))
    raise scope.fail(f"there is no weight or constant `@{name}`", node, helps=helps)


def _literal(node: Node, scope: Scope, span: Span) -> Operand:
    if node.kind == "integer":
        return Literal(to_int(node, scope), None, span)
    if node.kind == "floating":
        return Literal(to_float(node, scope), None, span)
    if node.value == "none":
        return NoneValue(span)
    return Literal(CONSTANTS[node.value], None, span)


CONSTANTS: dict[str, bool | float] = {"true": True, "false": False, "inf": math.inf, "nan": math.nan}


def to_float(node: Node, scope: Scope) -> float:
    value = float(node.value)
    if math.isinf(value):
        raise scope.fail("this number does not fit an f64", node, helps=("infinity is written `inf`",))
    return value


def _number(node: Node, scope: Scope, span: Span) -> Operand:
    """Arithmetic: a negative literal, or an expression of sizes."""
    if node.kind == "neg":
        inner = to_operand(node.value, scope)
        if isinstance(inner, Literal) and inner.dtype is None and not isinstance(inner.value, bool):
            return Literal(-inner.value, None, span)
    dim = _sizes_only(node, scope)
    return Literal(dim.value, None, span) if dim.is_const else DimValue(dim, None, span)


def _sizes_only(node: Node, scope: Scope) -> Dim:
    """`to_dim`, where a value is likely meant: operators work on sizes, ops on values."""
    for leaf in leaves(node):
        if leaf.kind in ("floating", "global") or (leaf.kind == "name" and leaf.value in scope.values):
            help = "write an op and give its result a name: `t = add(x, y)`"
            raise scope.fail(f"`+ - * // %` work on sizes; {describe(leaf)} is a value", leaf, helps=(help,))
    return to_dim(node, scope)


def leaves(node: Node) -> Iterable[Node]:
    """The names and numbers of an arithmetic expression."""
    if node.kind == "neg":
        yield from leaves(node.value)
    elif node.kind in ARITHMETIC:
        for part in node.value:
            yield from leaves(part)
    elif node.kind == "apply" and str(node.value[0]) in DIM_FUNCTIONS:
        for part in node.value[1]:
            yield from leaves(part)
    else:
        yield node


def _typed(node: Node, scope: Scope) -> Operand:
    dtype_name, inner = node.value
    dtype, operand = DType(dtype_name), to_operand(inner, scope)
    if isinstance(operand, (Literal, DimValue)) and operand.dtype is None:
        span = node.span(scope.file)
        if isinstance(operand, DimValue):
            return DimValue(operand.dim, dtype, span)
        problem = literal_problem(operand.value, dtype)
        if problem:
            raise scope.fail(problem, node)
        value = float(operand.value) if dtype.is_float else operand.value
        return Literal(value, dtype, span)
    help = f"convert a value with the op `cast`: `y = cast(x, dtype={dtype})`"
    raise scope.fail(f"`{dtype}(...)` gives a literal its type; {describe(inner)} is none", node, helps=(help,))


def literal_problem(value: bool | int | float, dtype: DType) -> str:
    """Why a literal is not of a dtype; empty when it is."""
    if isinstance(value, bool) != dtype.is_bool:
        return f"the literal {str(value).lower()} is not {dtype.with_article}"
    if isinstance(value, float) and not dtype.is_float:
        return f"the literal {value} is not {dtype.with_article}"
    if dtype.is_int:
        low, high = (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1) if dtype.is_signed else (0, 2**dtype.bits - 1)
        if not low <= value <= high:
            return f"the literal {value} does not fit {dtype}"
    return ""


def _nested(node: Node, scope: Scope, span: Span) -> Operand:
    name = str(node.value[0])
    if name in DIM_FUNCTIONS and not any(
        leaf.kind != "integer" and (leaf.kind != "name" or leaf.value not in scope.symbols) for leaf in leaves(node)
    ):
        dim = to_dim(node, scope)
        return Literal(dim.value, None, span) if dim.is_const else DimValue(dim, None, span)
    raise _no_operand(node, scope)


def _no_operand(node: Node, scope: Scope) -> CompileError:
    if node.kind in ("apply", "call"):
        name = str(node.value[0])
        help = f"give its result a name first: `t = {name}(...)`, then use `t`"
        return scope.fail("an operand is a value, not a call", node, helps=(help,))
    if node.kind == "field":
        return scope.fail("an operand is a value, not a field", node, helps=("give the field a name first: `a = y.0`",))
    if node.kind == "array":
        return scope.fail("a list is no operand", node, helps=("lists are attributes, by name: `axis=[0, 1]`",))
    return scope.fail(f"expected a value, found {describe(node)}", node)


def describe(node: Node) -> str:
    """An expression in a few words, for messages."""
    if node.kind in ("name", "integer", "floating", "constant", "dtype", "global"):
        return f"`{node.value}`"
    words = {"string": "a string", "array": "a list", "tuple": "a tuple", "field": "a field", "typed": "a literal"}
    if node.kind in ("apply", "call"):
        return f"a call of `{node.value[0]}`"
    return words.get(node.kind, "an expression")


def to_string(node: Node, scope: Scope) -> str:
    """The text of a STRING token, with JSON's escapes."""
    try:
        return str(json.loads(node.value))
    except ValueError:
        raise scope.fail(
            "this string has an escape that is not known", node, helps=('there are \\" \\\\ \\n \\t \\uXXXX',)
        ) from None
