"""What an exported program knows of its sizes: ranges, equalities, divisibility, order.

torch keeps the ranges in `range_constraints`; the rest stands only in the guards.  A guard that the model's own code
asked for (`if x.shape[0] > 9`) decides which program this is, and is always kept.  One that torch's library asked for
is kept where it can help a proof, and dropped where it only says that torch took the general way: the program is then
the same, and our own inference decides anew whether it is right everywhere.

torch takes every size for at least 2 until it knows better, and refines the bounds of others by that: `n // 4 >= 2`
makes `n >= 8`, `a + b == 8` makes `a <= 6`.  A bound that follows in this way is none of the program's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.diagnostics import CompileError
from ...ir.dims import Dim, FloorDiv
from ...ir.facts import Compare, Fact, Facts, InRange
from .guards import from_two_on, guards, input_sizes
from .readable import readable
from .retrace import Range
from .sizes import Sizes, interval


@dataclass(frozen=True)
class Known:
    """The facts of a program, and what is said about them."""

    facts: tuple[Fact, ...]
    notes: tuple[str, ...]
    relaxed: tuple[InRange, ...]
    """Ranges that torch had, where a bound came from its 0/1 rule alone and is not among the facts."""


def known_facts(
    program: Any,
    sizes: Sizes,
    own_lower: Mapping[str, int],
    symbols: Iterable[str],
    said: Iterable[Fact] = (),
    helpful: bool = False,
) -> Known:
    """Facts over `symbols`, the sizes that parameters bind.

    `own_lower` are lower bounds that the user has set (by symbol): they stay, whatever their value; `said` are facts
    from the user.  Guards of torch's operators are left out, unless they are `helpful` and hold anyway.
    """
    scope = frozenset(symbols)
    found = guards(program, sizes, held=helpful)
    asked = [g.clause.fact(sizes) for g in found]
    facts, relaxed = _ranges(program, sizes, own_lower, scope, asked)
    collected = Facts()
    for fact in (*(f for f in said if f.symbols <= scope), *facts):
        if not collected.prove(fact):
            collected = collected.add(fact)
    for guard, fact in zip(found, asked, strict=True):
        if not fact.symbols <= scope or not (guard.own or (helpful and _helps(fact))):
            continue
        if not guard.clause.follows(collected):
            collected = collected.add(readable(fact))
    nothing = Facts()  # sizes are not negative, which need not be said
    told = tuple(f for f in collected.facts if not nothing.prove(f))
    own = Facts(dict.fromkeys(f for g, f in zip(found, asked, strict=True) if g.own))
    unsaid = [f for f in relaxed if not own.prove(f) and not collected.prove(f)]
    return Known(told, tuple(_said(unsaid)), tuple(unsaid))


def _ranges(
    program: Any, sizes: Sizes, own_lower: Mapping[str, int], scope: frozenset[str], asked: Sequence[Fact]
) -> tuple[list[Fact], list[InRange]]:
    """The ranges without bounds that follow from the 0/1 rule, and those with such a bound as torch had them."""
    follows = _from_two_on(program, sizes, asked)
    facts: list[Fact] = []
    derived: list[InRange] = []
    relaxed: list[InRange] = []
    for expr, bounds in program.range_constraints.items():
        try:
            dim = sizes.dim(expr)
        except CompileError:
            continue  # a size of a value inside, which no parameter has
        if not dim.symbols <= scope:
            continue
        fact = interval(dim, bounds.lower, bounds.upper)
        name = dim.name
        lower = own_lower.get(name or "", 0)
        kept = _without(fact, follows, lower)
        if kept != fact and fact.lo != lower:
            relaxed.append(fact)
        (facts if name is not None else derived).append(kept)
    known = Facts(facts)
    return [*facts, *(f for f in derived if not known.prove(f))], relaxed


def _from_two_on(program: Any, sizes: Sizes, asked: Sequence[Fact]) -> Facts:
    """What torch would conclude from its 0/1 rule and the guards; nothing where that is a contradiction."""
    rule = from_two_on(program, sizes)
    for assumed in (Facts((*rule, *dict.fromkeys(asked))), Facts(rule)):
        if assumed.contradiction() is None:
            return assumed
    return Facts()


def _without(fact: InRange, follows: Facts, lower: int) -> InRange:
    low, high = fact.lo, fact.hi
    if low != 0 and low.value != lower and follows.prove_le(low, fact.dim):
        low = Dim.of(lower)
    if high is not None and follows.prove_le(fact.dim, high):
        high = None
    return InRange(fact.dim, low, high)


def kept_ranges(program: Any, sizes: Sizes) -> dict[str, Range]:
    """Ranges of torch's symbols without bounds from the 0/1 rule; `sizes` calls symbols as torch does."""
    asked = [g.clause.fact(sizes) for g in guards(program, sizes)]
    scope = frozenset(s for d in input_sizes(program, sizes) for s in d.symbols)
    facts, _ = _ranges(program, sizes, {}, scope, asked)
    return {
        f.dim.name: (f.lo.value, None if f.hi is None else f.hi.value)
        for f in facts
        if isinstance(f, InRange) and f.dim.name is not None
    }


def _said(relaxed: Sequence[InRange]) -> list[str]:
    rule = "came from its own 0/1 rule; what the model's code itself asked of sizes is kept"
    plain = sorted(f.dim.name for f in relaxed if f.dim.name is not None and f.lo == 2)
    notes = [f"{', '.join(plain)} may be 0 and 1: torch's lower bound of 2 {rule}"] if plain else []
    others = [str(f) for f in relaxed if f.dim.name is not None and f.lo != 2]
    return [*notes, *(f"torch's bounds {f} are left out: they {rule}" for f in others)]


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
