"""Arithmetic on sizes that are dims: bounds, rounding, and the greatest of several sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from ...ir.dims import Atom, Dim
from ...ir.facts import Facts

# How many sums that none is proven greatest of are kept apart; more are joined into one that is at least each.
KEPT_APART = 4
# Proofs are tried among at most so many sums, as they cost more than a comparison of coefficients.
PROVEN_AMONG = 8


class Sizes:
    """Sizes in bytes under facts; answers are remembered, as the same sizes come up again and again."""

    def __init__(self, facts: Facts, alignment: int) -> None:
        self.facts, self.alignment = facts, alignment
        self._divisible: dict[Dim, bool] = {}
        self._at_most: dict[Dim, bool] = {}
        self._positive_atoms: dict[Atom, bool] = {}

    def nonnegative(self, size: Dim) -> Dim:
        """The size, or 0 where the facts do not keep it from being less."""
        return size if self.at_most(Dim.of(0), size) else Dim.max(0, size)

    def divisible(self, size: Dim) -> bool:
        """Whether it is proven a multiple of the alignment."""
        known = self._divisible.get(size)
        if known is None:
            known = self._divisible[size] = self.facts.prove_divisible(size, self.alignment)
        return known

    def aligned(self, size: Dim) -> Dim:
        """The size rounded up to a multiple of the alignment."""
        return size if self.divisible(size) else self.alignment * Dim.ceildiv(size, self.alignment)

    def at_most(self, a: Dim, b: Dim) -> bool:
        """Whether a <= b is proven."""
        difference = b - a
        known = self._at_most.get(difference)
        if known is None:
            known = self._plainly_nonnegative(difference) or self.facts.prove_le(0, difference)
            self._at_most[difference] = known
        return known

    def _plainly_nonnegative(self, dim: Dim) -> bool:
        return all(c >= 0 and all(map(self._atom_nonnegative, monomial)) for monomial, c in dim.terms)

    def _atom_nonnegative(self, atom: Atom) -> bool:
        if isinstance(atom, str):
            return True
        known = self._positive_atoms.get(atom)
        if known is None:
            low, _ = self.facts.bounds(Dim({(atom,): 1}))
            known = self._positive_atoms[atom] = low is not None and low >= 0
        return known

    def greatest(self, sums: Iterable[Dim]) -> tuple[Dim, ...]:
        """A few dims whose maximum is at least each of the sums, mostly equal to the greatest; (0,) for none."""
        kept: list[Dim] = []
        distinct = dict.fromkeys(sums)
        proving = len(distinct) <= PROVEN_AMONG
        for dim in distinct:
            if any(self._covers(other, dim, proving) for other in kept):
                continue
            kept = [other for other in kept if not self._covers(dim, other, proving)]
            kept.append(dim)
        if not proving and len(kept) <= PROVEN_AMONG:
            return self.greatest(kept)
        if len(kept) > KEPT_APART:
            kept = [self.join(kept)]
        return tuple(kept) or (Dim.of(0),)

    def _covers(self, a: Dim, b: Dim, proving: bool) -> bool:
        return self.at_most(b, a) if proving else self._plainly_nonnegative(a - b)

    def join(self, sums: Sequence[Dim]) -> Dim:
        """A dim that is at least each: the greatest coefficient of every monomial, as these are not negative."""
        if not all(self._atom_nonnegative(atom) for dim in sums for atom in dim.atoms):
            return reduce(lambda a, b: a + b, (self.nonnegative(dim) for dim in sums))
        monomials = {monomial for dim in sums for monomial, _ in dim.terms}
        return Dim({m: c for m in monomials if (c := max(dim.coefficient(m) for dim in sums))})
