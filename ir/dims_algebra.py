"""Heavy polynomial algebra, done by sympy: imported only when one of these is called (importing it takes 0.3 s)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .dims import Atom, Dim


class _Names:
    """Atoms as sympy symbols and back; divisions and extrema are symbols too."""

    def __init__(self) -> None:
        self.symbols: dict[Atom, Any] = {}

    def express(self, dim: Dim) -> Any:
        import sympy

        terms = []
        for monomial, coefficient in dim.terms:
            factors = [self.symbols.setdefault(atom, sympy.Symbol(f"x{len(self.symbols)}")) for atom in monomial]
            terms.append(sympy.Mul(coefficient, *factors))
        return sympy.Add(*terms)

    def dim(self, expression: Any) -> Dim | None:
        """None when a coefficient is not an integer."""
        import sympy

        atoms = list(self.symbols)
        generators = [self.symbols[atom] for atom in atoms]
        if not generators:
            return Dim.of(int(expression)) if expression.is_Integer else None
        result = Dim.of(0)
        for powers, coefficient in sympy.Poly(expression, *generators).terms():
            if not coefficient.is_Integer:
                return None
            factors = [Dim({(atom,): 1}) for atom, power in zip(atoms, powers, strict=True) for _ in range(power)]
            result = result + Dim.product([int(coefficient), *factors])
        return result


def in_ideal(dim: Dim, equations: Iterable[Dim]) -> bool:
    """Whether `dim` is a combination of `equations` with polynomial factors, and so 0 wherever all of them are."""
    import sympy

    names = _Names()
    goal = names.express(dim)
    known = [names.express(equation) for equation in equations]
    basis = sympy.groebner(known, *names.symbols.values(), order="grevlex")
    return bool(basis.contains(goal))


def factors(dim: Dim) -> tuple[tuple[Dim, int], ...]:
    """Irreducible factors over the integers with their powers, the integer content first if it is not 1."""
    import sympy

    names = _Names()
    content, parts = sympy.factor_list(names.express(dim))
    result = [] if content == 1 else [(Dim.of(int(content)), 1)]
    for part, power in parts:
        factor = names.dim(part)
        assert factor is not None  # factors over the integers have integer coefficients
        result.append((factor, int(power)))
    return tuple(result)
