"""Dims simplified under facts and written again in the symbols that the user knows."""

from __future__ import annotations

from .dims import Dim, children, make, of_atom
from .facts_prove import Prover


class Restorer:
    """Takes the prover's solved form back to the symbols of the facts."""

    def __init__(self, prover: Prover) -> None:
        self.prover = prover

    def simplify(self, dim: Dim) -> Dim:
        """The simplest of: the dim itself, its solved form written back, and the dim with single atoms so treated."""
        piecewise = self._piecewise(dim)
        choices = [dim, piecewise, self.restore(self.prover.resolve(dim))]
        return min(choices, key=cost)

    def _piecewise(self, dim: Dim) -> Dim:
        """Atoms replaced where their solved form is simpler, plain symbols left as they stand."""
        result = Dim.of(0)
        for monomial, coefficient in dim.terms:
            term = Dim.of(coefficient)
            for atom in monomial:
                value = of_atom(atom)
                if not isinstance(atom, str):
                    value = min(value, self.restore(self.prover.resolve(value)), key=cost)
                term = term * value
            result = result + term
        return result

    def restore(self, dim: Dim) -> Dim:
        """The same value without the symbols that solving introduced."""
        for name in sorted(self.prover.domain.origin, key=lambda name: -int(name[1:])):
            if name in dim.symbols:
                dim = self._restore_symbol(dim, name)
        return dim

    def _restore_symbol(self, dim: Dim, name: str) -> Dim:
        """#k = numerator // divisor; where its coefficient is a multiple of the divisor, without the division."""
        numerator, divisor = self.prover.domain.origin[name]
        remainder = numerator.subs(self.prover.domain.solved) - Dim.of(name) * divisor
        quotient = numerator // divisor
        result = Dim.of(0)
        for monomial, coefficient in dim.terms:
            power = monomial.count(name)
            others = tuple(atom for atom in monomial if atom != name)
            term = make({others: coefficient}).subs({name: quotient})
            factor = quotient
            if power and remainder.is_const and coefficient % divisor**power == 0:
                term, factor = (
                    make({others: coefficient // divisor**power}).subs({name: quotient}),
                    numerator - remainder,
                )
            for _ in range(power):
                term = term * factor
            result = result + term
        return result


def cost(dim: Dim) -> tuple[int, int]:
    """(divisions and extrema at any depth, symbols and terms)."""
    hard, size = 0, len(dim.terms)
    for monomial, _ in dim.terms:
        for atom in monomial:
            size += 1
            if not isinstance(atom, str):
                hard += 1
                for child in children(atom):
                    inner = cost(child)
                    hard, size = hard + inner[0], size + inner[1]
    return hard, size
