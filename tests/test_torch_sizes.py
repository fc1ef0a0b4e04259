"""torch's functions of sizes: each has its meaning here, to the number, or is refused; guards read back from text."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sympy = pytest.importorskip("sympy")

from torch.utils._sympy import functions as T  # noqa: E402

from pliant.frontends.torch.guard_text import GuardText, Inputs  # noqa: E402
from pliant.frontends.torch.sizes import Sizes, TorchNames  # noqa: E402
from pliant.ir.diagnostics import CompileError  # noqa: E402

N, M = sympy.symbols("n m", integer=True, nonnegative=True)
ALL = Sizes(TorchNames())

Number = Callable[[int, int], int]
MEANINGS: dict[str, tuple[Any, Number]] = {
    "FloorDiv": (T.FloorDiv(N - 7, 3), lambda n, m: (n - 7) // 3),
    "FloorDiv by a size": (T.FloorDiv(N, M + 1), lambda n, m: n // (m + 1)),
    "CleanDiv": (T.CleanDiv(N * M, 2), lambda n, m: n * m // 2),
    "CeilDiv": (T.CeilDiv(N, 4), lambda n, m: -(-n // 4)),
    "Mod": (T.Mod(N + M, 5), lambda n, m: (n + m) % 5),
    "PythonMod": (T.PythonMod(N - 2 * M, 3), lambda n, m: (n - 2 * m) % 3),
    "ModularIndexing": (T.ModularIndexing(N * 3 + M, 2, 7), lambda n, m: (n * 3 + m) // 2 % 7),
    "CeilToInt": (T.CeilToInt(T.IntTrueDiv(N, 3)), lambda n, m: math.ceil(n / 3)),
    "FloorToInt": (T.FloorToInt(T.IntTrueDiv(N - 5, 2)), lambda n, m: math.floor((n - 5) / 2)),
    "FloorToInt of a product": (T.FloorToInt(T.ToFloat(N) * sympy.Float(1.7)), lambda n, m: math.floor(n * 1.7)),
    "FloorToInt of a quotient": (
        T.FloorToInt(T.FloatTrueDiv(T.ToFloat(N), sympy.Float(0.6))), lambda n, m: math.floor(n / 0.6),
    ),
    "TruncToInt": (T.TruncToInt(T.IntTrueDiv(N - 5, 3)), lambda n, m: math.trunc((n - 5) / 3)),
    "TruncToFloat": (T.FloorToInt(T.TruncToFloat(T.IntTrueDiv(N - 5, 2))), lambda n, m: math.trunc((n - 5) / 2)),
    "RoundToInt": (T.RoundToInt(T.IntTrueDiv(N - 4, 2)), lambda n, m: round((n - 4) / 2)),
    "RoundToInt of thirds": (T.RoundToInt(T.IntTrueDiv(2 * N - 5, 3)), lambda n, m: round((2 * n - 5) / 3)),
    "RoundToInt of a product": (T.RoundToInt(T.ToFloat(N) * sympy.Float(0.3)), lambda n, m: round(n * 0.3)),
    "a negative divisor": (T.FloorToInt(T.IntTrueDiv(N, sympy.Integer(-2))), lambda n, m: math.floor(n / -2)),
    "Max": (T.Max(N, M, 3), lambda n, m: max(n, m, 3)),
    "Min": (T.Min(N, M + 2), lambda n, m: min(n, m + 2)),
    "Where": (T.Where(sympy.Gt(N, M), N - 1, M + 7), lambda n, m: n - 1 if n > m else m + 7),
    "Where not": (T.Where(sympy.Ne(N, M), N, 2 * M + 1), lambda n, m: n if n != m else 2 * m + 1),
    "Where or": (
        T.Where(sympy.Or(sympy.Lt(N, 3), sympy.Ge(M, 6)), N, M), lambda n, m: n if n < 3 or m >= 6 else m,
    ),
    "Where and": (
        T.Where(sympy.And(sympy.Le(N, 3), sympy.Gt(M, 2)), N, M), lambda n, m: n if n <= 3 and m > 2 else m,
    ),
    "Identity": (T.Identity(N + 1) * 2, lambda n, m: (n + 1) * 2),
    "PowByNatural": (T.PowByNatural(N + 1, sympy.Integer(3)), lambda n, m: (n + 1) ** 3),
    "Pow": (N**2 - M, lambda n, m: n**2 - m),
    "LShift": (T.LShift(N, sympy.Integer(3)), lambda n, m: n << 3),
    "RShift": (T.RShift(N, sympy.Integer(2)), lambda n, m: n >> 2),
    "Abs": (sympy.Abs(N - M), lambda n, m: abs(n - m)),
    "a whole half": (T.FloorToInt(T.ToFloat(N) * sympy.Float(2.0)) + sympy.Rational(1, 1), lambda n, m: 2 * n + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANINGS)
def test_a_function_of_sizes_means_what_it_does_in_torch(name: str) -> None:
    expr, number = MEANINGS[name]
    dim = ALL.dim(expr)
    assert dim.symbols <= {"n", "m"}, "no symbol of its own"
    for n, m in itertools.product(range(14), repeat=2):
        wanted = number(n, m)
        assert dim.evaluate({"n": n, "m": m}) == wanted, (n, m)
        own = expr.subs({N: n, M: m}).expand(identity=True)  # torch's evaluation of the same
        assert int(own) == wanted, (n, m)


REFUSED = {
    "IntTrueDiv": T.IntTrueDiv(N, 3),
    "FloatPow": T.FloatPow(T.ToFloat(N), sympy.Float(0.5)),
    "PowByNatural of a size": T.PowByNatural(sympy.Integer(2), N),
    "LShift by a size": T.LShift(sympy.Integer(1), N),
    "RoundDecimal": T.FloorToInt(T.RoundDecimal(T.ToFloat(N), sympy.Integer(-1))),
    "sqrt": T.FloorToInt(T.OpaqueUnaryFn_sqrt(N)),
    "bits": T.BitwiseFn_bitwise_and(N, M),
    "an odd float": T.FloorToInt(T.ToFloat(N) * sympy.Float(0.123456789)),
    "IsNonOverlappingAndDenseIndicator": T.IsNonOverlappingAndDenseIndicator(N, M, M, N),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_size_is_refused(name: str) -> None:
    with pytest.raises(CompileError, match="has no meaning here"):
        ALL.dim(REFUSED[name])


def test_every_function_that_torch_has_for_sizes_is_known_or_refused() -> None:
    """A new one in torch is to be looked at; whatever is not in the table is refused by name."""
    known = {
        name
        for name, item in vars(T).items()
        if isinstance(item, type) and issubclass(item, sympy.Basic) and item.__module__ == T.__name__
    }
    looked_at = {
        "FloorDiv", "ModularIndexing", "Where", "PythonMod", "Mod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv",
        "LShift", "RShift", "MinMaxBase", "Max", "Min", "PowByNatural", "FloatPow", "FloatTrueDiv", "IntTrueDiv",
        "IsNonOverlappingAndDenseIndicator", "TruncToFloat", "TruncToInt", "RoundToInt", "RoundDecimal", "ToFloat",
        "Identity",
    }  # fmt: skip
    rest = {k for k in known - looked_at if not k.startswith(("OpaqueUnaryFn_", "BitwiseFn_"))}
    assert not rest
    unheard = type("Unheard", (sympy.Function,), {})
    with pytest.raises(CompileError, match="`Unheard` is not supported"):
        ALL.dim(unheard(N))


def test_a_size_that_depends_on_data_is_no_symbol_of_ours() -> None:
    with pytest.raises(CompileError, match="depends on data"):
        Sizes({"n": "n"}).dim(N + sympy.Symbol("u0", integer=True))


GUARDS: dict[str, Callable[[int, int], bool]] = {
    "(A % 4) == 0": lambda n, m: n % 4 == 0,
    "(-1) + A >= 2": lambda n, m: n - 1 >= 2,
    "((-1) + A) == B": lambda n, m: n - 1 == m,
    "A*B <= 20": lambda n, m: n * m <= 20,
    "(A // 2) != 1": lambda n, m: n // 2 != 1,
    "max(A, B) <= 7": lambda n, m: max(n, m) <= 7,
    "min(3, A, B) >= 3": lambda n, m: min(3, n, m) >= 3,
    "A < 3 or B > 6": lambda n, m: n < 3 or m > 6,
    "not (A < 3 and B > 6)": lambda n, m: not (n < 3 and m > 6),
    "2 <= A and A < 9": lambda n, m: 2 <= n < 9,
    "A != 0": lambda n, m: n != 0,
    "math.floor(A / 2) == B": lambda n, m: n // 2 == m,
    "math.trunc(torch.sym_float(A)*1.5) >= 4": lambda n, m: math.trunc(n * 1.5) >= 4,
    "(A ** 2) > B": lambda n, m: n**2 > m,
    "abs(A + (-1)*B) <= 2": lambda n, m: abs(n - m) <= 2,
    "(A if A > B else B) < 8": lambda n, m: max(n, m) < 8,
    "((A // 2) % 3) == 1": lambda n, m: n // 2 % 3 == 1,
}


@pytest.mark.parametrize("text", GUARDS)
def test_a_guard_of_a_stored_program_is_read_back(text: str) -> None:
    a, b = "L['x'].size()[0]", "L['kw']['y'].size()[1]"
    inputs = Inputs({a: N, b: M})
    found = GuardText(text.replace("A", a).replace("B", b), inputs).clauses(ALL)
    for n, m in itertools.product(range(12), repeat=2):
        assert all(f.holds({"n": n, "m": m}) for f in found) == GUARDS[text](n, m), (n, m)


def test_a_guard_that_is_not_understood_is_refused() -> None:
    inputs = Inputs({"L['x'].size()[0]": N})
    with pytest.raises(CompileError, match="has no meaning here"):
        GuardText("unheard_of(L['x'].size()[0]) == 2", inputs).clauses(ALL)
