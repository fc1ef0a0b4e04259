"""Heavy polynomial algebra, done by sympy: imported only when one of these is called (importing it takes 0.3 s)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .dims import Atom, Dim

MAX_EQUATIONS = 4
MAX_ATOMS = 10
MAX_DEGREE = 4


class _Names:
    """Atoms as sympy symbols; divisions and extrema are symbols too."""

    def __init__(self) -> None:
        self.symbols: dict[Atom, Any] = {}

    def express(self, dim: Dim) -> Any:
        import sympy

        terms = []
        for monomial, coefficient in dim.terms:
            factors = [self.symbols.setdefault(atom, sympy.Symbol(f"x{len(self.symbols)}")) for atom in monomial]
            terms.append(sympy.Mul(coefficient, *factors))
        return sympy.Add(*terms)


def in_ideal(dim: Dim, equations: Sequence[Dim]) -> bool:
    """Whether `dim` is a combination of `equations` with polynomial factors, and so 0 wherever all of them are.

    By a Groebner basis, whose size can explode: False, unasked, for more than a handful of small equations.
    """
    import sympy

    involved = [dim, *equations]
    atoms = {atom for d in involved for atom in d.atoms}
    degree = max(len(monomial) for d in involved for monomial, _ in d.terms)
    if len(equations) > MAX_EQUATIONS or len(atoms) > MAX_ATOMS or degree > MAX_DEGREE:
        return False
    names = _Names()
    goal = names.express(dim)
    known = [names.express(equation) for equation in equations]
    basis = sympy.groebner(known, *names.symbols.values(), order="grevlex")
    return bool(basis.contains(goal))
