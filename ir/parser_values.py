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
from .dims import Dim, DimTooComplex, FloorDiv, children
from .facts import Compare, Fact, InRange, OneOf
from .graph import DimValue, GlobalRef, Literal, NoneValue, Operand, TupleValue, Var
from .parser_foreign import PROPERTIES, SPELT
from .parser_text import ARITHMETIC, describe, leaves, op_help
from .parser_tree import Node, Token, token_span
from .types import DType, TensorType, TupleType, Type

LARGEST = 2**63 - 1
MAX_NESTING = 64  # of blocks, tuples and tuple types; sizes have their own limits
MAX_RANK = 64  # what numpy takes
DIM_FUNCTIONS: dict[str, Callable[..., Dim]] = {"min": Dim.min, "max": Dim.max, "ceildiv": Dim.ceildiv}


class Poisoned(CompileError):
    """Raised for a name whose definition was refused already: its user says nothing more."""


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """A help that names what was probably meant; capitals make no difference."""
    folded = {k.lower(): k for k in reversed(list(known))}
    close = get_close_matches(name.lower(), list(folded), 1, 0.6)
    return (f"did you mean `{folded[close[0]]}`?",) if close else ()


@dataclass
class Scope:
    """Names in scope at a place of a function.  `globals_` are weights and constants, by name without `@`."""

    file: str
    values: dict[str, Span] = field(default_factory=dict)
    symbols: dict[str, Span] = field(default_factory=dict)
    globals_: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    broken: set[str] = field(default_factory=set)
    depth: int = 0
    counts: set[str] = field(default_factory=set)  # parameters of type i64[], which `bind` makes sizes of

    def inner(self, keyword: Token | None = None) -> Scope:
        """The scope of a function, or of the block at `keyword`: what is defined there stays there."""
        if keyword is not None and self.depth >= MAX_NESTING:
            raise self.fail(f"blocks are nested more than {MAX_NESTING} levels deep", keyword)
        values, symbols, broken = dict(self.values), dict(self.symbols), set(self.broken)
        return replace(self, values=values, symbols=symbols, broken=broken, depth=self.depth + 1)

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
            helps = (f"a name means one thing: call the second `{name}2`",)
            raise CompileError((Diagnostic(message, token_span(token, self.file), "", notes, helps),))
        self.values[name] = token_span(token, self.file)

    def define_symbol(self, name: str, place: Node) -> None:
        if name in self.values:
            self.broken.add(name)
            raise _clash(self, name, place.first, self.values[name], "a value", "a size")
        self.symbols[name] = place.span(self.file)


_WORDS = "None True False true false none inf nan if while scan where likely in return yield else func inout"
RESERVED = frozenset(_WORDS.split()) | {dtype.value for dtype in DType}


def _clash(scope: Scope, name: str, token: Token, first: Span, was: str, now: str) -> CompileError:
    message = f"`{name}` is {was} of this function already; it cannot be {now} too"
    return CompileError((Diagnostic(message, token_span(token, scope.file), "", (f"{was} since {first}",)),))


# ------------------------------------------------------------------------------------------------- sizes


def to_dim(node: Node, scope: Scope, binding: bool = False) -> Dim:
    """The size that an expression denotes; with `binding`, unknown names become symbols of the scope.

    Parts before the whole, on a stack of its own: an expression may be long, and nest deeper than Python's calls.
    """
    pending: list[tuple[Node, int | None]] = [(node, None)]  # a node, and once its parts are known, how many
    known: list[Dim] = []
    while pending:
        node, count = pending.pop()
        if count is None:
            parts = _parts(node, scope)
            if parts is None:
                known.append(_leaf_dim(node, scope, binding))
            else:
                pending.append((node, len(parts)))
                pending.extend((part, None) for part in reversed(parts))
        else:
            operands = known[len(known) - count :]
            del known[len(known) - count :]
            try:
                known.append(_combined(node, operands, scope))
            except DimTooComplex as problem:
                (told,) = problem.diagnostics
                raise scope.fail(told.message.replace("a size", "this size", 1), node, helps=told.helps) from None
    if _divides_by_too_much(known[0]):
        raise scope.fail("this size divides by a number beyond 64 bits", node)
    return known[0]


def _divides_by_too_much(dim: Dim) -> bool:
    """A product of divisors may be beyond what numbers are; other numbers may be too, and are found at the call."""
    atoms = [a for m, _ in dim.terms for a in m]
    large = any(isinstance(a, FloorDiv) and a.denominator.is_const and a.denominator.value > LARGEST for a in atoms)
    return large or any(_divides_by_too_much(child) for a in atoms for child in children(a))


def _parts(node: Node, scope: Scope) -> list[Node] | None:
    """The sizes that a size is made of; of a sum all its terms; None for a name or number."""
    if node.kind in ("add", "sub"):
        return [part for part, _ in _summands(node)]
    if node.kind == "neg":
        return [node.value]
    if node.kind in ARITHMETIC:
        return list(node.value)
    if node.kind == "apply" and str(node.value[0]) in DIM_FUNCTIONS:
        return _function_arguments(node, scope)
    return None


def _summands(node: Node) -> list[tuple[Node, int]]:
    """The terms of a sum with their signs; a sum of many terms is nested once for each."""
    found: list[tuple[Node, int]] = []
    while node.kind in ("add", "sub"):
        left, right = node.value
        found.append((right, 1 if node.kind == "add" else -1))
        node = left
    return [(node, 1), *reversed(found)]


def _leaf_dim(node: Node, scope: Scope, binding: bool) -> Dim:
    if node.kind == "name":
        return _symbol(node, scope, binding)
    if node.kind == "integer":
        return Dim.of(to_int(node, scope))
    raise scope.fail(
        f"expected a size, found {describe(node)}", node, helps=("sizes are made of whole numbers and symbols",)
    )


def _combined(node: Node, parts: list[Dim], scope: Scope) -> Dim:
    if node.kind in ("add", "sub"):
        return Dim.sum(part * sign for part, (_, sign) in zip(parts, _summands(node), strict=True))
    if node.kind == "neg":
        return -parts[0]
    if node.kind == "mul":
        return parts[0] * parts[1]
    name = "" if node.kind in ARITHMETIC else str(node.value[0])
    if (node.kind in ("floordiv", "mod") or name == "ceildiv") and parts[1] == 0:
        raise scope.fail("division by zero", node)
    if name:
        return DIM_FUNCTIONS[name](*parts)
    return parts[0] // parts[1] if node.kind == "floordiv" else parts[0] % parts[1]


def _symbol(node: Node, scope: Scope, binding: bool) -> Dim:
    name: str = node.value
    if name not in scope.symbols:
        if name in scope.broken:
            raise Poisoned(())
        if binding and name not in scope.values:
            if name in RESERVED:
                helps = (NO_UNKNOWN_SIZE,) if name in SPELT else ()
                raise scope.fail(f"`{name}` is a word of the language, not a name", node, helps=helps)
            scope.symbols[name] = node.span(scope.file)
        elif name in scope.values and binding:
            scope.define_symbol(name, node)
        elif name in scope.values:
            raise scope.fail(f"`{name}` is a value, not a size", node, helps=_bind_help(name, scope))
        else:
            new = NO_UNKNOWN_SIZE if name in SPELT else NEW_SIZE.format(name)
            close = nearest(name, scope.symbols) or (new,)
            raise scope.fail(f"there is no size `{name}` here", node, helps=close)
    return Dim.of(name)


NEW_SIZE = (
    "a size comes into scope in the type of a parameter or a weight; one that only the data tell by "
    "`y: f32[{0}] = match_cast(x)`, and one that is an argument, `count: i64[]`, by `bind {0} = count`"
)
NO_UNKNOWN_SIZE = "every size has a name: `f32[n]`"


def _bind_help(name: str, scope: Scope) -> tuple[str, ...]:
    """How a value becomes a size: only a parameter of type i64[] can, under another name."""
    if name not in scope.counts:
        return ("a size has a name in the type of its tensor: use that name",) if name in scope.values else ()
    size = next(s for s in (f"{name}_size", *(f"{name}_{i}" for i in range(1000))) if s not in scope.values)
    return (f"make a size of it, under another name: `bind {size} = {name}`, and write `{size}` here",)


def to_int(node: Node, scope: Scope) -> int:
    """The value of an INT token, refused when it does not fit 64 bits."""
    text: str = node.value
    if len(text) > 19 or int(text) > LARGEST:
        raise scope.fail("this number does not fit 64 bits", node)
    return int(text)


def _function_arguments(node: Node, scope: Scope) -> list[Node]:
    token, args = node.value
    name = str(token)
    if any(a.kind == "keyword" for a in args):
        raise scope.fail(f"`{name}` of sizes takes no attributes", node)
    if len(args) < 2 or (name == "ceildiv" and len(args) != 2):
        raise scope.fail(f"`{name}` of sizes takes two{'' if name == 'ceildiv' else ' or more'} sizes", node)
    return list(args)


# ------------------------------------------------------------------------------------------- types and facts


def to_type(node: Node, scope: Scope, binding: bool = False, depth: int = 0) -> Type:
    """The type; with `binding`, unknown names in its sizes become symbols of the scope."""
    if node.kind == "tuple_type":
        _check_nesting(node, scope, depth)
        return TupleType(tuple(to_type(item, scope, binding, depth + 1) for item in node.value))
    dtype, dims = node.value
    if dims is None:
        return TensorType(DType(dtype), None)
    if len(dims) > MAX_RANK:
        raise scope.fail(f"a tensor has at most {MAX_RANK} dimensions, this one has {len(dims)}", node)
    return TensorType(DType(dtype), tuple(_size(d, scope, binding) for d in dims))


def _size(node: Node, scope: Scope, binding: bool) -> Dim:
    dim = to_dim(node, scope, binding)
    if dim.is_const and dim.value < 0:
        raise scope.fail(f"a size is never negative: {dim}", node, helps=(NO_UNKNOWN_SIZE,))
    return dim


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


def _check_nesting(node: Node, scope: Scope, depth: int) -> None:
    if depth > MAX_NESTING:
        raise scope.fail(f"this is nested more than {MAX_NESTING} levels deep", node)


def to_operand(node: Node, scope: Scope, depth: int = 0) -> Operand:
    """The operand that an expression denotes: a value, a literal, arithmetic on sizes, or a tuple of operands."""
    kind, span = node.kind, node.span(scope.file)
    _check_nesting(node, scope, depth)
    if kind == "name":
        return _named(node, scope, span)
    if kind == "global":
        return _global(node, scope, span)
    if kind in ("integer", "floating", "constant"):
        return _literal(node, scope, span)
    if kind == "typed":
        return _typed(node, scope, depth + 1)
    if kind == "tuple":
        return TupleValue(tuple(to_operand(item, scope, depth + 1) for item in node.value), span)
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
    raise scope.fail(f"there is no value `{name}` here", node, helps=_value_help(name, scope))


def _value_help(name: str, scope: Scope) -> tuple[str, ...]:
    """What was meant by a name that there is not."""
    head, _, tail = name.rpartition(".")
    if name in SPELT:
        return (f"it is written `{SPELT[name]}`",)
    if head in scope.values and tail in PROPERTIES:
        return (PROPERTIES[tail].format(head),)
    return nearest(name, [*scope.values, *scope.symbols])


def _global(node: Node, scope: Scope, span: Span) -> Operand:
    name = node.value[1:]
    if name in scope.globals_:
        return GlobalRef(name, span)
    if name in scope.broken:
        raise Poisoned(())
    if name in scope.functions:
        raise scope.fail(f"`@{name}` is a function, not a value", node, helps=(f"call it: `y = @{name}(...)`",))
    helps = tuple(h.replace("`", "`@", 1) for h in nearest(name, scope.globals_))
    if name in scope.values:
        helps = (f"a value is written without `@`: `{name}`",)
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
    inner, negative = node, False
    while inner.kind == "neg":
        inner, negative = inner.value, not negative
    if inner.kind in ("integer", "floating", "constant") and inner.value not in ("true", "false"):
        number = _literal(inner, scope, span)
        if isinstance(number, Literal):
            return replace(number, value=-number.value if negative else number.value)
    dim = _sizes_only(node, scope)
    return Literal(dim.value, None, span) if dim.is_const else DimValue(dim, None, span)


def _sizes_only(node: Node, scope: Scope) -> Dim:
    """`to_dim`, where a value is likely meant: operators work on sizes, ops on values."""
    for leaf in leaves(node):
        if leaf.kind in ("floating", "global") or (leaf.kind == "name" and leaf.value in scope.values):
            message = f"`+ - * // %` work on sizes; {describe(leaf)} is a value"
            raise scope.fail(message, leaf, helps=op_help(node, scope.values, scope.symbols))
    return to_dim(node, scope)


def _typed(node: Node, scope: Scope, depth: int) -> Operand:
    dtype_name, inner = node.value
    dtype, operand = DType(dtype_name), to_operand(inner, scope, depth)
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
    if node.kind == "dtype":
        return scope.fail(f"an element type is no operand: `{node.value}`", node, helps=("say `dtype=...` by name",))
    return scope.fail(f"expected a value, found {describe(node)}", node)


def to_string(node: Node, scope: Scope) -> str:
    """The text of a STRING token, with JSON's escapes."""
    try:
        return str(json.loads(node.value))
    except ValueError:
        raise scope.fail(
            "this string has an escape that is not known", node, helps=('there are \\" \\\\ \\n \\t \\uXXXX',)
        ) from None
