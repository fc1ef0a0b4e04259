"""What an exported program knows of its sizes: ranges, equalities, divisibility, order.

torch keeps the ranges in `range_constraints`; the rest stands only in the guards, with the place in the code that
asked.  A guard that the model's own code asked for (`if x.shape[0] > 9`) decides which program this is, and is always
kept.  One that torch's library asked for is kept where it can help a proof, and dropped where it only says that torch
took the general way: the program is then the same, and our own inference decides anew whether it is right everywhere.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ...ir.diagnostics import CompileError
from ...ir.dims import Dim, FloorDiv
from ...ir.facts import Compare, CompareOp, Fact, Facts, InRange
from .probe import Settle
from .sizes import Sizes, interval

_LIBRARY = Path(torch.__file__).parent
_SIZE = re.compile(r"L\[['\"](\w+)['\"]\]((?:\[[^\]]+\]|\.\w+(?!\())*)\.size\(\)\[(\d+)\]")


@dataclass(frozen=True)
class Known:
    """The facts of a program, and what is said about them."""

    facts: tuple[Fact, ...]
    notes: tuple[str, ...]
    relaxed: tuple[str, ...]
    """Symbols whose lower bound of 2 came from torch's 0/1 rule alone."""


@dataclass(frozen=True)
class _Guard:
    fact: Compare
    own: bool  # asked for by the model's own code


def known_facts(
    program: Any,
    sizes: Sizes,
    own_lower: Mapping[str, int],
    symbols: Iterable[str],
    settle: Settle = lambda fact: (fact,),
    said: Iterable[Fact] = (),
) -> Known:
    """Facts over `symbols`, the sizes that parameters bind.

    `own_lower` are lower bounds that the user has set (by symbol): they stay, whatever their value.  `settle` says what
    is left of a guard that the model's own code asked for; `said` are facts from the user.
    """
    scope = frozenset(symbols)
    facts, notes, relaxed = _ranges(program, sizes, own_lower, scope)
    collected = Facts(facts)
    for own in said:
        if own.symbols <= scope and not collected.prove(own):
            collected = collected.add(own)
    for guard in (*_live_guards(program, sizes), *_stored_guards(program, sizes), *_asserted(program, sizes)):
        fact = guard.fact
        if not fact.symbols <= scope or not (guard.own or _helps(fact)):
            continue
        for left in settle(fact) if guard.own else (fact,):
            if not collected.prove(left):
                collected = collected.add(left)
    nothing = Facts()  # sizes are not negative, which need not be said
    told = tuple(f for f in collected.facts if not nothing.prove(f))
    return Known(told, tuple(notes), tuple(relaxed))


def _ranges(
    program: Any, sizes: Sizes, own_lower: Mapping[str, int], scope: frozenset[str]
) -> tuple[list[Fact], list[str], list[str]]:
    facts: list[Fact] = []
    derived: list[InRange] = []
    notes: list[str] = []
    relaxed: list[str] = []
    for expr, bounds in program.range_constraints.items():
        try:
            dim = sizes.dim(expr)
        except CompileError:
            continue  # a size of a value inside, which no parameter has
        if not dim.symbols <= scope:
            continue
        fact = interval(dim, bounds.lower, bounds.upper)
        name = dim.name
        if name is None:
            derived.append(fact)
            continue
        if fact.lo == 2 and own_lower.get(name) != 2:
            if not own_lower.get(name):
                relaxed.append(name)
            fact = InRange(dim, own_lower.get(name, 0), fact.hi)
        facts.append(fact)
    if relaxed:
        notes.append(
            f"{', '.join(sorted(relaxed))} may be 0 and 1: torch's lower bound of 2 came from its own 0/1 rule; "
            "what the model's code itself asked of sizes is kept"
        )
    known = Facts(facts)
    return [*facts, *(f for f in derived if not known.prove(f))], notes, relaxed


def _helps(fact: Compare) -> bool:
    """Whether a guard of torch's library is worth keeping: it may prove an equality or an order.

    Dropped: inequalities (torch saw two sizes differ and took the general way), lower bounds of 2 and less (the same,
    of sizes that are not 0 or 1), and what has no value where a size is 0.
    """
    if fact.op == "!=" or any(_divides_by_size(d) for d in fact.dims):
        return False
    if fact.op == "==":
        return True
    lesser, greater = (fact.lhs, fact.rhs) if fact.op in ("<=", "<") else (fact.rhs, fact.lhs)
    least = lesser + 1 if fact.op in ("<", ">") else lesser
    return not (least.is_const and least.value <= 2 and bool(greater.symbols))


def _divides_by_size(dim: Dim) -> bool:
    return any(
        isinstance(atom, FloorDiv) and (bool(atom.denominator.symbols) or _divides_by_size(atom.numerator))
        for atom in dim.atoms
    )


def shape_env(program: Any) -> Any:
    """The environment that the program was traced in, None for a program without symbolic sizes."""
    for node in program.graph.nodes:
        value = node.meta.get("val")
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor) and getattr(item, "fake_mode", None) is not None:
                return item.fake_mode.shape_env
            if isinstance(item, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                return item.node.shape_env
    return None


def _live_guards(program: Any, sizes: Sizes) -> Iterator[_Guard]:
    environment = shape_env(program)
    for guard in environment.guards if environment is not None else ():
        try:
            for fact in sizes.facts(guard.expr):
                assert isinstance(fact, Compare)
                yield _Guard(fact, not _in_library(guard.sloc))
        except CompileError:
            if not _in_library(guard.sloc):
                raise


def _in_library(location: Any) -> bool:
    frame = getattr(location, "framework_loc", None)
    name = getattr(frame, "filename", None) or str(frame)
    return Path(name).is_relative_to(_LIBRARY) or "/torch/" in name


def _asserted(program: Any, sizes: Sizes) -> Iterator[_Guard]:
    """Run-time assertions on sizes that stand in the graph."""
    for node in program.graph.nodes:
        if node.op == "call_function" and str(node.target) == "aten._assert_scalar.default":
            condition = node.args[0]
            value = condition.meta["val"] if hasattr(condition, "meta") else condition
            if isinstance(value, torch.SymBool):
                for fact in sizes.facts(value.node.expr):
                    assert isinstance(fact, Compare)
                    yield _Guard(fact, True)


# ------------------------------------------------------------------------------------- guards of a stored program


def _stored_guards(program: Any, sizes: Sizes) -> Iterator[_Guard]:
    """Guards of a program from a file, which has them as text only; it is not known who asked for them."""
    environment = shape_env(program)
    if environment is not None and environment.guards:
        return
    paths = _input_sizes(program, sizes)
    for text in getattr(program, "_guards_code", None) or ():
        fact = _parsed(text, paths)
        if fact is not None:
            yield _Guard(fact, False)


def _input_sizes(program: Any, sizes: Sizes) -> dict[str, tuple[Dim, ...]]:
    """The shape of each user input by its path as guards write it: `x`, `kw['a']`."""
    from torch.utils import _pytree as pytree

    found: dict[str, tuple[Dim, ...]] = {}
    metas = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    inputs = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    spec = program.call_spec.in_spec
    if spec is None:
        return found
    args, kwargs = pytree.tree_unflatten(range(spec.num_leaves), spec)
    names = getattr(program.module_call_graph[0].signature, "forward_arg_names", None) or []
    named = {**dict(zip(names, args, strict=False)), **kwargs}
    for path, position in pytree.tree_flatten_with_path(named)[0]:
        value = metas.get(inputs[position]) if position < len(inputs) else None
        if isinstance(value, torch.Tensor):
            key = f"{path[0].key}" + "".join(str(p) for p in path[1:])
            found[key.replace('"', "'")] = tuple(sizes.dim(d) for d in value.shape)
    return found


def _parsed(text: str, inputs: Mapping[str, tuple[Dim, ...]]) -> Compare | None:
    """A comparison from torch's guard code; None for anything else."""
    values: list[Dim] = []

    def size(match: re.Match[str]) -> str:
        shape = inputs[match[1] + match[2].replace('"', "'")]
        values.append(shape[int(match[3])])
        return f"v{len(values) - 1}"

    try:
        tree = ast.parse(_SIZE.sub(size, text), mode="eval").body
        if not (isinstance(tree, ast.Compare) and len(tree.ops) == 1):
            return None
        op = _OPS[type(tree.ops[0])]
        return Compare(op, _value(tree.left, values), _value(tree.comparators[0], values))
    except (KeyError, IndexError, SyntaxError, ValueError, ZeroDivisionError):
        return None


def _value(node: ast.expr, values: list[Dim]) -> Dim:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return Dim.of(node.value)
    if isinstance(node, ast.Name):
        return values[int(node.id[1:])]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("max", "min"):
        extremum = Dim.max if node.func.id == "max" else Dim.min
        return extremum(*(_value(a, values) for a in node.args))
    if isinstance(node, ast.BinOp):
        a, b = _value(node.left, values), _value(node.right, values)
        match node.op:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.FloorDiv():
                return a // b
            case ast.Mod():
                return a % b
    raise ValueError(ast.dump(node))


_OPS: Mapping[type, CompareOp] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.LtE: "<=", ast.Lt: "<", ast.GtE: ">=", ast.Gt: ">",
}  # fmt: skip
