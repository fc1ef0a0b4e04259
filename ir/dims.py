"""Integer dimension expressions in a canonical form.

A `Dim` is a polynomial with integer coefficients over atoms::

    Dim       = sum of coefficient * monomial
    monomial  = sorted product of atoms, () for the constant
    atom      = symbol name | FloorDiv(numerator, denominator) | Extremum("min" | "max", arguments)

Floor division and modulus have Python's meaning for every sign; a modulus is kept as `a - b*(a//b)`, so that
`8*(n//8) + n % 8 == n` holds by construction. Two dims that print alike are equal, and equality is a comparison of
canonical forms. It is sound (equal dims have equal values wherever both are defined) but, with floor division and
extrema about, not complete: `Facts` proves what the form alone does not show.

Loop indices are dims too, so the arithmetic is plain dictionaries, without any computer algebra system.

What has more terms, factors or nested operations than any program needs is refused (`DimTooComplex`), so that walks
over a dim may recurse, and none takes time or memory that a short text could make grow without end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, TypeAlias, TypeVar, Union

from .diagnostics import CompileError, Diagnostic

MAX_DEPTH = 48  # of divisions and extrema inside one another
MAX_SIZE = 1 << 14  # symbols and terms of one division or extremum, at any depth
MAX_PRODUCT = 1 << 17  # terms that one multiplication may make
MAX_DEGREE = 64  # factors of one term

T = TypeVar("T")

Atom: TypeAlias = Union[str, "FloorDiv", "Extremum"]
Monomial: TypeAlias = tuple[Atom, ...]
DimLike: TypeAlias = Union["Dim", int, str]


class Algebra(Protocol[T]):
    """What `Dim.fold` needs of a visitor; floordiv and mod have Python's meaning."""

    def const(self, value: int) -> T: ...
    def sym(self, name: str) -> T: ...
    def add(self, a: T, b: T) -> T: ...
    def mul(self, a: T, b: T) -> T: ...
    def floordiv(self, a: T, b: T) -> T: ...
    def mod(self, a: T, b: T) -> T: ...
    def min(self, a: T, b: T) -> T: ...
    def max(self, a: T, b: T) -> T: ...


class DimTooComplex(CompileError):
    """A size beyond the limits above.  The prover takes it as not proven; for a program it is a refusal."""

    def __init__(self, what: str) -> None:
        help = "give its parts names: sizes of parameters, or of a match_cast"
        super().__init__((Diagnostic(f"a size {what}", helps=(help,)),))


@dataclass(frozen=True)
class FloorDiv:
    """`numerator // denominator`, irreducible; a constant denominator is at least 2."""

    numerator: Dim
    denominator: Dim

    @cached_property
    def key(self) -> tuple[int, str]:
        return (1, f"({self.numerator})//({self.denominator})")

    @cached_property
    def extent(self) -> tuple[int, int]:
        """(depth, size): operations inside one another, and symbols and terms at any depth."""
        return _extent(self)

    @cached_property
    def _hash(self) -> int:
        return hash((self.numerator, self.denominator))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return (FloorDiv, (self.numerator, self.denominator))


@dataclass(frozen=True)
class Extremum:
    """`min(arguments)` or `max(arguments)` of at least two arguments that differ by more than a constant."""

    kind: Literal["min", "max"]
    arguments: tuple[Dim, ...]

    @cached_property
    def key(self) -> tuple[int, str]:
        return (2, f"{self.kind}({','.join(map(str, self.arguments))})")

    @cached_property
    def extent(self) -> tuple[int, int]:
        """(depth, size): operations inside one another, and symbols and terms at any depth."""
        return _extent(self)

    @cached_property
    def _hash(self) -> int:
        return hash((self.kind, self.arguments))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return (Extremum, (self.kind, self.arguments))


def atom_key(atom: Atom) -> tuple[int, str]:
    """Order of atoms: symbols by name, then divisions, then extrema."""
    return (0, atom) if type(atom) is str else atom.key  # type: ignore[union-attr]


def monomial_key(monomial: Monomial) -> tuple[int, tuple[tuple[int, str], ...]]:
    """Graded lexicographic order, largest monomial first; the constant comes last."""
    return (-len(monomial), tuple(map(atom_key, monomial)))


class Dim:
    """An immutable integer expression in canonical form.

    Not a dataclass: the terms are a dictionary that arithmetic builds directly, and hash, order and text are cached.
    """

    __slots__ = ("_hash", "_sorted", "_symbols", "_terms", "_text")
    _terms: dict[Monomial, int]
    _hash: int | None
    _sorted: tuple[tuple[Monomial, int], ...] | None
    _symbols: frozenset[str] | None
    _text: str | None

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        """Use `Dim.of`; `terms` must be canonical: sorted monomials, no zero coefficient."""
        self._terms = dict(terms)
        self._hash = self._sorted = self._symbols = self._text = None

    @staticmethod
    def of(value: DimLike) -> Dim:
        """A dim from an integer, a symbol's name, or a dim."""
        if isinstance(value, Dim):
            return value
        if isinstance(value, str):
            return make({(value,): 1})
        number = int(value)
        return make({(): number} if number else {})

    # -- structure

    @property
    def terms(self) -> tuple[tuple[Monomial, int], ...]:
        """(monomial, coefficient) pairs in graded lexicographic order."""
        if self._sorted is None:
            items = self._terms.items()
            self._sorted = tuple(items) if len(items) < 2 else tuple(sorted(items, key=lambda t: monomial_key(t[0])))
        return self._sorted

    @property
    def symbols(self) -> frozenset[str]:
        """Names of the symbols it depends on, inside divisions and extrema too."""
        if self._symbols is None:
            names: set[str] = set()
            for monomial in self._terms:
                for atom in monomial:
                    if isinstance(atom, str):
                        names.add(atom)
                    else:
                        names.update(*(child.symbols for child in children(atom)))
            self._symbols = frozenset(names)
        return self._symbols

    @property
    def is_const(self) -> bool:
        terms = self._terms
        return not terms or (len(terms) == 1 and () in terms)

    @property
    def value(self) -> int:
        """The integer; ValueError when it is not a constant."""
        if not self.is_const:
            raise ValueError(f"{self} is not a constant")
        return self._terms.get((), 0)

    @property
    def constant(self) -> int:
        """The constant term."""
        return self._terms.get((), 0)

    @property
    def name(self) -> str | None:
        """The symbol's name when the dim is a bare symbol."""
        if len(self._terms) == 1:
            ((monomial, coefficient),) = self._terms.items()
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], str):
                return monomial[0]
        return None

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The distinct atoms of its monomials, in order; what stands inside an atom is not listed."""
        return tuple(sorted({atom for monomial in self._terms for atom in monomial}, key=atom_key))

    def coefficient(self, monomial: Monomial) -> int:
        return self._terms.get(monomial, 0)

    # -- comparison

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            return self is other or self._terms == other._terms
        if isinstance(other, int):
            return self.is_const and self._terms.get((), 0) == other
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.value) if self.is_const else hash(frozenset(self._terms.items()))
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        # The cached hash depends on the process (string hashing), so that only the terms travel.
        return (Dim, (self._terms,))

    # -- arithmetic

    def __add__(self, other: DimLike) -> Dim:
        terms = dict(self._terms)
        for monomial, coefficient in Dim.of(other)._terms.items():
            total = terms.get(monomial, 0) + coefficient
            if total:
                terms[monomial] = total
            else:
                del terms[monomial]
        return make(terms)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return make({monomial: -coefficient for monomial, coefficient in self._terms.items()})

    def __sub__(self, other: DimLike) -> Dim:
        return self + -Dim.of(other)

    def __rsub__(self, other: DimLike) -> Dim:
        return -self + other

    def __mul__(self, other: DimLike) -> Dim:
        if type(other) is int:
            return make({m: c * other for m, c in self._terms.items()} if other else {})
        terms: dict[Monomial, int] = {}
        factors = Dim.of(other)._terms.items()
        if len(self._terms) * len(factors) > MAX_PRODUCT:
            raise DimTooComplex("has too many terms")
        for left, a in self._terms.items():
            for right, b in factors:
                monomial = _product(left, right)
                terms[monomial] = terms.get(monomial, 0) + a * b
        return make({m: c for m, c in terms.items() if c})

    __rmul__ = __mul__

    def __floordiv__(self, other: DimLike) -> Dim:
        """Floor division; ZeroDivisionError when the divisor is the constant 0."""
        from .dims_canon import floordiv

        return floordiv(self, Dim.of(other))

    def __rfloordiv__(self, other: DimLike) -> Dim:
        return Dim.of(other) // self

    def __mod__(self, other: DimLike) -> Dim:
        """Python's modulus: the result has the divisor's sign."""
        divisor = Dim.of(other)
        return self - divisor * (self // divisor)

    def __rmod__(self, other: DimLike) -> Dim:
        return Dim.of(other) % self

    @staticmethod
    def min(*dims: DimLike) -> Dim:
        from .dims_canon import extremum

        return extremum("min", map(Dim.of, dims))

    @staticmethod
    def max(*dims: DimLike) -> Dim:
        from .dims_canon import extremum

        return extremum("max", map(Dim.of, dims))

    @staticmethod
    def ceildiv(a: DimLike, b: DimLike) -> Dim:
        divisor = Dim.of(b)
        if divisor.is_const and divisor.value > 0:  # a quotient rounded up again is one division in this form alone
            return (Dim.of(a) + (divisor.value - 1)) // divisor
        return -((-Dim.of(a)) // divisor)

    @staticmethod
    def sum(dims: Iterable[Dim]) -> Dim:
        """The sum, in time linear in the number of terms; 0 for none."""
        terms: dict[Monomial, int] = {}
        for dim in dims:
            for monomial, coefficient in dim._terms.items():
                terms[monomial] = terms.get(monomial, 0) + coefficient
        return make({m: c for m, c in terms.items() if c})

    @staticmethod
    def product(dims: Iterable[DimLike]) -> Dim:
        """The product; 1 for none (the number of elements of a shape)."""
        result = Dim.of(1)
        for dim in dims:
            result = result * dim
        return result

    # -- use

    def subs(self, values: Mapping[str, DimLike]) -> Dim:
        """All symbols named in `values` replaced at once."""
        if self.symbols.isdisjoint(values):
            return self
        return Dim.sum(_subs_term(monomial, coefficient, values) for monomial, coefficient in self._terms.items())

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Its value; KeyError for a symbol without a value, ZeroDivisionError for a divisor that is 0."""
        result = 0
        for monomial, coefficient in self._terms.items():
            term = coefficient
            for atom in monomial:
                term *= values[atom] if isinstance(atom, str) else _evaluate_atom(atom, values)
            result += term
        return result

    def fold(self, algebra: Algebra[T]) -> T:
        """The expression rebuilt in another algebra, for example as instructions of a code generator.

        Moduli are found again, so that `n - 8*(n//8)` is visited as `mod(n, 8)`; the order is deterministic.
        """
        from .dims_view import fold

        return fold(self, algebra)

    def __str__(self) -> str:
        if self._text is None:
            from .dims_view import text

            self._text = text(self)
        return self._text

    def __repr__(self) -> str:
        return f"Dim({self})"


def make(terms: dict[Monomial, int]) -> Dim:
    """A dim that takes over `terms`, already canonical, without copying."""
    dim = Dim.__new__(Dim)
    dim._terms = terms
    dim._hash = dim._sorted = dim._symbols = dim._text = None
    return dim


def children(atom: Atom) -> tuple[Dim, ...]:
    """The dims that an atom is made of; none for a symbol."""
    if isinstance(atom, FloorDiv):
        return (atom.numerator, atom.denominator)
    return atom.arguments if isinstance(atom, Extremum) else ()


def of_atom(atom: Atom) -> Dim:
    return make({(atom,): 1})


def rebuild(atom: Atom, parts: Iterable[Dim]) -> Dim:
    """The atom's operation applied to new parts, in canonical form."""
    if isinstance(atom, str):
        return Dim.of(atom)
    if isinstance(atom, FloorDiv):
        numerator, denominator = parts
        return numerator // denominator
    return (Dim.min if atom.kind == "min" else Dim.max)(*parts)


def new_atom(atom: FloorDiv | Extremum) -> Dim:
    """A dim of an atom just made, refused when that is too much."""
    depth, size = atom.extent
    if depth > MAX_DEPTH:
        raise DimTooComplex(f"has more than {MAX_DEPTH} divisions, minima and maxima inside one another")
    if size > MAX_SIZE:
        raise DimTooComplex("has too many terms")
    return of_atom(atom)


def _extent(atom: FloorDiv | Extremum) -> tuple[int, int]:
    depth, size = 0, 0
    for child in children(atom):
        for monomial in child._terms:
            size += 1
            for factor in monomial:
                if not isinstance(factor, str):
                    depth = max(depth, factor.extent[0])
                    size += factor.extent[1]
    return depth + 1, size


def size_of(dim: Dim) -> int:
    """Symbols and terms at any depth: what a walk over the dim costs."""
    return len(dim._terms) + sum(a.extent[1] for m in dim._terms for a in m if not isinstance(a, str))


def _subs_term(monomial: Monomial, coefficient: int, values: Mapping[str, DimLike]) -> Dim:
    if len(monomial) == 1:
        return _subs_atom(monomial[0], values) * coefficient
    kept = tuple(atom for atom in monomial if isinstance(atom, str) and atom not in values)
    term = make({kept: coefficient})
    for atom in monomial if len(kept) < len(monomial) else ():
        if not isinstance(atom, str) or atom in values:
            term = term * _subs_atom(atom, values)
    return term


def _subs_atom(atom: Atom, values: Mapping[str, DimLike]) -> Dim:
    if isinstance(atom, str):
        return Dim.of(values[atom]) if atom in values else Dim.of(atom)
    return rebuild(atom, [child.subs(values) for child in children(atom)])


def _evaluate_atom(atom: FloorDiv | Extremum, values: Mapping[str, int]) -> int:
    parts = [child.evaluate(values) for child in children(atom)]
    if isinstance(atom, FloorDiv):
        return parts[0] // parts[1]
    return min(parts) if atom.kind == "min" else max(parts)


def _product(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    if len(left) + len(right) > MAX_DEGREE:
        raise DimTooComplex(f"has a term of more than {MAX_DEGREE} factors")
    return tuple(sorted(left + right, key=atom_key))


def monomial_quotient(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """`monomial / divisor` when it divides."""
    rest = list(monomial)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def linear(dim: Dim, name: str) -> tuple[Dim, Dim] | None:
    """(coefficient, rest) with dim == coefficient*name + rest, both free of `name`; None when there are none."""
    coefficient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, factor in dim._terms.items():
        if name in monomial:
            others = monomial_quotient(monomial, (name,))
            coefficient[others or ()] = factor
        else:
            rest[monomial] = factor
    slope, offset = make(coefficient), make(rest)
    return None if name in slope.symbols or name in offset.symbols else (slope, offset)
