"""Special functions that have no operator of ours, in torch's own operators.

All are computed in f64, whatever the operand, and rounded once: what cancels in f32 does not there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from . import special_series as series

aten = torch.ops.aten
Function = Callable[[Any], Any]


def wide(function: Function) -> Function:
    """A function of one tensor, computed in f64; integers give f32, as in torch."""

    def rule(x: Any) -> Any:
        if x.is_complex():
            return NotImplemented
        kind = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
        return function(x.double()).to(kind)

    return rule


def polynomial(x: Any, *coefficients: float) -> Any:
    """Horner's rule, the highest power first."""
    out = torch.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        out = out * x + c
    return out


def chebyshev(t: Any, coefficients: Sequence[float]) -> Any:
    """Clenshaw's rule, t in [-1, 1]."""
    twice, last, before = 2 * t, torch.zeros_like(t), torch.zeros_like(t)
    for c in reversed(coefficients[1:]):
        last, before = twice * last - before + c, last
    return t * last - before + coefficients[0]


# ---------------------------------------------------------------------------------------------- gamma function

_LANCZOS = (
    676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip


def lgamma(x: Any) -> Any:
    """log |gamma(x)|: Lanczos' approximation (g = 7, 9 terms), reflected left of 1/2."""
    left = x < 0.5
    z = torch.where(left, 1 - x, x) - 1
    total = torch.full_like(z, 0.99999999999980993)
    for i, c in enumerate(_LANCZOS):
        total = total + c / (z + (i + 1))
    t = z + 7.5
    right = 0.5 * math.log(2 * math.pi) + (z + 0.5) * torch.log(t) - t + torch.log(total)
    right = torch.where(torch.isinf(x), math.inf, right)
    turn = torch.sin(math.pi * (x - torch.floor(x)))
    return torch.where(left & torch.isfinite(x), math.log(math.pi) - torch.log(turn) - right, right)


def _harmonic(x: Any) -> Any:
    """The digamma function right of 0: its recurrence up to 10, then Stirling's series."""
    out, y = torch.zeros_like(x), x
    for _ in range(10):
        small = y < 10
        out = out - torch.where(small, 1 / y, 0.0)
        y = torch.where(small, y + 1, y)
    v = 1 / (y * y)
    tail = polynomial(v, 1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12) * v
    return out + torch.log(y) - 0.5 / y - tail


def digamma(x: Any) -> Any:
    left = x <= 0
    right = _harmonic(torch.where(left, 1 - x, x))
    part = x - torch.floor(x)
    out = torch.where(left, right - math.pi / torch.tan(math.pi * part), right)
    out = torch.where(left & (part == 0), math.nan, out)
    return torch.where(x == 0, -1 / x, out)  # an infinity, of the sign that 0 has not


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _hurwitz(s: Any, q: Any) -> Any:
    """sum of (q + k)^-s over k >= 0 for q > 0, s > 1: ten terms, and Euler and Maclaurin's sum for the rest."""
    total = torch.zeros_like(q)
    for k in range(10):
        total = total + torch.pow(q + k, -s)
    a = q + 10
    total = total + torch.pow(a, 1 - s) / (s - 1) + 0.5 * torch.pow(a, -s)
    factor = s * torch.pow(a, -s - 1)
    for i, b in enumerate(_BERNOULLI):
        total = total + b / math.factorial(2 * i + 2) * factor
        factor = factor * (s + (2 * i + 1)) * (s + (2 * i + 2)) / (a * a)
    return total


def _cotangents(order: int) -> list[float]:
    """Coefficients (lowest first) in c = cot(pi x) of the derivative of that order of pi cot(pi x)."""
    p = [0.0, math.pi]
    for _ in range(order):
        slope = [i * a * -math.pi for i, a in enumerate(p)][1:]
        p = [0.0] * (len(slope) + 2)
        for i, a in enumerate(slope):
            p[i] += a
            p[i + 2] += a
    return p


def polygamma(n: int, x: Any) -> Any:
    if n == 0:
        return aten.digamma(x)
    if x.is_complex() or not isinstance(n, int):
        return NotImplemented
    kind = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
    x = x.double()
    left = x <= 0
    sign = (-1.0) ** (n + 1)
    right = sign * math.factorial(n) * _hurwitz(torch.full_like(x, n + 1.0), torch.where(left, 1 - x, x))
    part = x - torch.floor(x)
    cot = polynomial(1 / torch.tan(math.pi * part), *reversed(_cotangents(n)))
    # psi(1 - x) - psi(x) = pi cot(pi x), derived n times.
    out = torch.where(left, (-1.0) ** n * right - cot, right)
    out = torch.where(left & (part == 0), math.inf if n % 2 else math.nan, out)
    return out.to(kind)


# ---------------------------------------------------------------------------------------------- error function


def erfcx(x: Any) -> Any:
    """exp(x * x) erfc(x)."""
    y = x.abs()
    t = torch.where(torch.isinf(y), 1.0, (y - 2) / (y + 2))
    right = chebyshev(t, series.ERFCX) / (y + 2)
    return torch.where(x < 0, 2 * torch.exp(x * x) - right, right)


def erfc(x: Any) -> Any:
    right = torch.exp(-x * x) * erfcx(x.abs())
    return torch.where(x < 0, 2 - right, right)


def _erfc_inverse(q: Any) -> Any:
    """z >= 0 with erfc(z) = q, for q in [0, 1]: Winitzki's guess, then Halley's method three times."""
    log = torch.log(q * (2 - q))
    mean = 2 / (math.pi * 0.147) + 0.5 * log
    z = torch.sqrt(torch.clamp_min(torch.sqrt(mean * mean - log / 0.147) - mean, 0.0))
    for _ in range(3):
        step = (erfc(z) - q) / (-2 / math.sqrt(math.pi) * torch.exp(-z * z))
        z = z - step / (1 + z * step)
    return torch.where(q == 0, math.inf, z)


def erfinv(x: Any) -> Any:
    y = x.abs()
    z = _erfc_inverse(torch.clamp_min(1 - y, 0.0))
    out = torch.where(y < 0.1, _small_erfinv(x), torch.where(x < 0, -z, z))
    return torch.where(y > 1, math.nan, out)


def _series_of_erfinv(terms: int) -> tuple[float, ...]:
    """Maclaurin's series, c[k] = sum of c[m] c[k - 1 - m] / ((m + 1) (2 m + 1))."""
    c = [1.0]
    for k in range(1, terms):
        c.append(sum(c[m] * c[k - 1 - m] / ((m + 1) * (2 * m + 1)) for m in range(k)))
    half = math.sqrt(math.pi) / 2
    return tuple(a / (2 * k + 1) * half ** (2 * k + 1) for k, a in enumerate(c))


_ERFINV = _series_of_erfinv(9)


def _small_erfinv(x: Any) -> Any:
    """For |x| < 0.1, where the complement of x has lost its digits."""
    return polynomial(x * x, *reversed(_ERFINV)) * x


def ndtri(p: Any) -> Any:
    low = torch.minimum(p, 1 - p)
    z = _erfc_inverse(torch.clamp(2 * low, 0.0, 1.0))
    t = 2 * p - 1
    out = torch.where(t.abs() < 0.1, _small_erfinv(t), torch.where(t < 0, -z, z))
    return torch.where((p < 0) | (p > 1), math.nan, math.sqrt(2) * out)


def log_ndtr(x: Any) -> Any:
    """log of the normal distribution's function, by the scaled complement where the probability is small."""
    t = x * math.sqrt(0.5)
    small = torch.log(0.5 * erfcx(torch.clamp_min(-t, 0.0))) - t * t
    return torch.where(x < 0, small, torch.log1p(-0.5 * erfc(torch.clamp_min(t, 0.0))))


# ------------------------------------------------------------------------------------------------------ Bessel


def i0e(x: Any) -> Any:
    x = x.abs()
    near = chebyshev(torch.clamp_max(x, 8.0) / 4 - 1, series.I0E_NEAR)
    far = torch.clamp_min(x, 8.0)
    return torch.where(x <= 8, near, chebyshev(16 / far - 1, series.I0E_FAR) / torch.sqrt(far))


def i1e(x: Any) -> Any:
    y = x.abs()
    near = chebyshev(torch.clamp_max(y, 8.0) / 4 - 1, series.I1E_NEAR) * y
    far = torch.clamp_min(y, 8.0)
    out = torch.where(y <= 8, near, chebyshev(16 / far - 1, series.I1E_FAR) / torch.sqrt(far))
    return torch.where(x < 0, -out, out)


def i0(x: Any) -> Any:
    return torch.exp(x.abs()) * i0e(x)


def i1(x: Any) -> Any:
    return torch.exp(x.abs()) * i1e(x)


def bessel_k(order: int, scaled: bool) -> Function:
    """Ends in infinity at 0, NaN left of it."""

    def function(x: Any) -> Any:
        x = torch.where(x < 0, math.nan, x)
        y = torch.clamp_max(x, 2.0)
        v = y * y / 2 - 1
        log = torch.log(y / 2)
        if order == 0:
            near = chebyshev(v, series.K0_NEAR) - log * i0(y)
        else:
            near = chebyshev(v, series.K1_NEAR) / y + log * i1(y)
        z = torch.clamp_min(x, 2.0)
        far = chebyshev(4 / z - 1, series.K1E_FAR if order else series.K0E_FAR) / torch.sqrt(z)
        near = torch.where(x == 0, math.inf, near)
        if scaled:
            return torch.where(x <= 2, near * torch.exp(y), far)
        return torch.where(x <= 2, near, far * torch.exp(-z))

    return function


def _far(x: Any, order: int) -> tuple[Any, Any]:
    """J and Y for x >= 8."""
    x = torch.clamp_min(x, 8.0)
    t = 128 / (x * x) - 1
    p, q = (series.P1, series.Q1) if order else (series.P0, series.Q0)
    size, cosine, sine = torch.sqrt(2 / (math.pi * x)), chebyshev(t, p), chebyshev(t, q) / x
    turn = x - (2 * order + 1) * math.pi / 4
    j = size * (cosine * torch.cos(turn) - sine * torch.sin(turn))
    return j, size * (cosine * torch.sin(turn) + sine * torch.cos(turn))


def _near(x: Any) -> Any:
    y = torch.clamp_max(x, 8.0)
    return y * y / 32 - 1


def j0(x: Any) -> Any:
    x = x.abs()
    return torch.where(x <= 8, chebyshev(_near(x), series.J0_NEAR), _far(x, 0)[0])


def j1(x: Any) -> Any:
    y = x.abs()
    out = torch.where(y <= 8, chebyshev(_near(y), series.J1_NEAR) * y, _far(y, 1)[0])
    return torch.where(x < 0, -out, out)


def y0(x: Any) -> Any:
    near = chebyshev(_near(x), series.Y0_NEAR) + 2 / math.pi * torch.log(x) * chebyshev(_near(x), series.J0_NEAR)
    out = torch.where(x <= 8, near, _far(x, 0)[1])
    return torch.where(x < 0, math.nan, torch.where(x == 0, -math.inf, out))


def y1(x: Any) -> Any:
    first = chebyshev(_near(x), series.J1_NEAR) * x
    near = chebyshev(_near(x), series.Y1_NEAR) * x + 2 / math.pi * (torch.log(x) * first - 1 / x)
    out = torch.where(x <= 8, near, _far(x, 1)[1])
    return torch.where(x < 0, math.nan, torch.where(x == 0, -math.inf, out))


def spherical_j0(x: Any) -> Any:
    small = 1 - x * x / 6
    return torch.where(torch.isinf(x), 0.0, torch.where(x.abs() < 1e-4, small, torch.sin(x) / x))


# ------------------------------------------------------------------------------------------------ parts of floats


def signbit(x: Any) -> Any:
    """Negative zero is negative; the sign of NaN counts as none."""
    if x.dtype is torch.bool:
        return torch.zeros_like(x)
    if not x.dtype.is_floating_point:
        return x < 0
    return (x < 0) | ((x == 0) & (1 / x < 0))


def copysign(x: Any, y: Any) -> Any:
    if not isinstance(y, torch.Tensor):
        y = torch.full((), float(y))
    kind = torch.result_type(x, y)
    kind = kind if kind.is_floating_point else torch.get_default_dtype()
    size = x.to(kind).abs()
    return torch.where(signbit(y), -size, size)


def _split(size: Any) -> tuple[Any, Any]:
    """size = m * 2^power with 1/2 <= m < 1, of positive f64; the logarithm may be off by a rounding."""
    power = torch.floor(torch.log2(size)) + 1
    m = size * torch.exp2(-power)
    power = torch.where(m >= 1, power + 1, torch.where(m < 0.5, power - 1, power))
    return size * torch.exp2(-power), power


def frexp(x: Any) -> Any:
    """x = m * 2^e with 1/2 <= |m| < 1."""
    if x.dtype is torch.float64:
        return NotImplemented
    y = x.double()
    plain = torch.isfinite(y) & (y != 0)
    m, power = _split(torch.where(plain, y.abs(), 0.5))
    m = torch.where(plain, torch.where(y < 0, -m, m), y)
    return m.to(x.dtype), torch.where(plain, power, 0.0).to(torch.int32)


def nextafter(x: Any, y: Any) -> Any:
    """x and its neighbour are exact in f64, where one step is added: 2^(e - 23), half that below a power of 2."""
    if x.dtype is not torch.float32 or y.dtype is not torch.float32:
        return NotImplemented
    wide, target = x.double(), y.double()
    largest = torch.finfo(torch.float32).max
    size = torch.clamp_max(wide.abs(), largest * (1 + 2.0**-24))
    m, power = _split(torch.where(size == 0, 0.5, torch.where(torch.isnan(size), 0.5, size)))
    outward = torch.where(wide == 0, True, (target > wide) == (wide > 0))
    power = torch.where((m == 0.5) & torch.logical_not(outward), power - 1, power)
    step = torch.where(size == 0, 2.0**-149, torch.exp2(torch.clamp_min(power, -125.0) - 24))
    moved = torch.where(target > wide, wide + step, wide - step)
    back = torch.where(wide > 0, largest, -largest)
    moved = torch.where(torch.isinf(wide), back, moved).float()
    moved = torch.where((moved == 0) & (wide < 0), -0.0, moved)
    return torch.where(torch.isnan(x) | torch.isnan(y), math.nan, torch.where(x == y, y, moved))


def hypot(x: Any, y: Any) -> Any:
    kind = torch.result_type(x, y)
    if kind is torch.float64:
        return NotImplemented
    length = torch.sqrt(x.double() * x.double() + y.double() * y.double())
    return torch.where(torch.isinf(x) | torch.isinf(y), math.inf, length).to(kind)


SPECIAL: Mapping[Any, Callable[..., Any]] = {
    aten.lgamma.default: wide(lgamma),
    aten.digamma.default: wide(digamma),
    aten.polygamma.default: polygamma,
    aten.erfinv.default: wide(erfinv),
    aten.special_erfcx.default: wide(erfcx),
    aten.special_ndtri.default: wide(ndtri),
    aten.special_log_ndtr.default: wide(log_ndtr),
    aten.i0.default: wide(i0),
    aten.special_i0e.default: wide(i0e),
    aten.special_i1.default: wide(i1),
    aten.special_i1e.default: wide(i1e),
    aten.special_modified_bessel_i0.default: wide(i0),
    aten.special_modified_bessel_i1.default: wide(i1),
    aten.special_modified_bessel_k0.default: wide(bessel_k(0, False)),
    aten.special_modified_bessel_k1.default: wide(bessel_k(1, False)),
    aten.special_scaled_modified_bessel_k0.default: wide(bessel_k(0, True)),
    aten.special_scaled_modified_bessel_k1.default: wide(bessel_k(1, True)),
    aten.special_bessel_j0.default: wide(j0),
    aten.special_bessel_j1.default: wide(j1),
    aten.special_bessel_y0.default: wide(y0),
    aten.special_bessel_y1.default: wide(y1),
    aten.special_spherical_bessel_j0.default: wide(spherical_j0),
    aten.signbit.default: signbit,
    aten.copysign.Tensor: copysign,
    aten.copysign.Scalar: copysign,
    aten.frexp.Tensor: frexp,
    aten.hypot.default: hypot,
    aten.nextafter.default: nextafter,
}
