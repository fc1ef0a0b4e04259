"""exp, exp2, expm1 and their near relatives: sigmoid, tanh, softplus.

exp(x) = 2^n exp(r) with n = round(x / ln 2) and r = x - n ln 2, ln 2 in two parts of which n times the first is
exact. exp(r) = 1 + r + r^2 q(r), q minimax on |r| <= ln 2 / 2 (fitted by Remez exchange for the relative error of the
whole, the leading coefficients rounded first).
"""

from __future__ import annotations

from .emitter import Builder, Value
from .logarithm import LN2_HIGH, LN2_LOW, log1p_positive

LOG2_E = 1.4426950408889634

# (exp(r) - 1 - r) / r^2, weighted for exp and for expm1: 2^-28 and 2^-26 (f32), 2^-63 and 2^-61 (f64).
EXP_TAIL = {
    "float": (
        0.4999999403953552,
        0.16666513681411743,
        0.04166806489229202,
        0.008369503542780876,
        0.0013841836480423808,
    ),
    "double": (
        0.5,
        0.1666666666666669,
        0.04166666666666686,
        0.008333333333311628,
        0.0013888888888748017,
        0.00019841269909427986,
        2.480158764771073e-05,
        2.7557222188583667e-06,
        2.755696534570917e-07,
        2.5116328235098524e-08,
        2.10175959089593e-09,
    ),
}
EXPM1_TAIL = {
    "float": (
        0.4999999701976776,
        0.16666537523269653,
        0.041667744517326355,
        0.008367318660020828,
        0.0013837391743436456,
    ),
    "double": (
        0.5,
        0.1666666666666668,
        0.04166666666666672,
        0.008333333333318843,
        0.0013888888888837093,
        0.00019841269893897774,
        2.4801587452167093e-05,
        2.7557235808634045e-06,
        2.755714016294047e-07,
        2.5112128039919705e-08,
        2.0962641996899153e-09,
    ),
}
# (2^r - 1) / r on |r| <= 1/2: 2^-26 (f32, from rounding ln 2), 2^-57 (f64).
EXP2_SLOPE = {
    "float": (
        0.6931471824645996,
        0.24022594094276428,
        0.055503662675619125,
        0.009625430218875408,
        0.0013387874932959676,
        0.0001334272528765723,
    ),
    "double": (
        0.6931471805599453,
        0.24022650695910172,
        0.055504108664824574,
        0.009618129107577075,
        0.0013333558145567615,
        0.00015403530478850987,
        1.5252734737855866e-05,
        1.3215424482432344e-06,
        1.0177656129728e-07,
        7.075617292002366e-09,
        4.5193099014529166e-10,
    ),
}
# (tanh(x)/x - 1) / x^2 in x^2 for |x| <= 0.625: 2^-27 (f32), 2^-59 (f64).
TANH_TAIL = {
    "float": (
        -0.3333328068256378,
        0.13331405818462372,
        -0.05373651534318924,
        0.020628219470381737,
        -0.005692484322935343,
    ),
    "double": (
        -0.33333333333333315,
        0.1333333333332996,
        -0.05396825396613684,
        0.0218694884698419,
        -0.008863234315626016,
        0.0035921138909093507,
        -0.0014557243849334521,
        0.0005894416069919592,
        -0.000236973767000614,
        9.147552854951053e-05,
        -3.008835993992646e-05,
        5.992657070061594e-06,
    ),
}
# exp of anything larger overflows, of anything smaller rounds to zero; so for exp2.
EXP_MAX = {"float": 89.0, "double": 710.0}
EXP_MIN = {"float": -104.0, "double": -746.0}
EXP2_MAX = {"float": 128.0, "double": 1024.0}
EXP2_MIN = {"float": -151.0, "double": -1076.0}
# Arguments below the minimum are replaced by these, for which `Builder.scale` multiplies by an exact zero. Underflow
# by rounding takes a hundred cycles a vector on many processors, and masked softmaxes are full of exp(-inf).
EXP_ZERO = {"float": -176.0, "double": -1418.0}
EXP2_ZERO = {"float": -254.0, "double": -2046.0}
# expm1 of anything smaller is -1 to the last place.
EXPM1_MIN = {"float": -18.0, "double": -38.0}
TANH_CUT = 0.625
# tanh of anything larger is 1.
TANH_MAX = {"float": 9.2, "double": 19.2}


def reduce_exp(b: Builder, x: Value) -> tuple[Value, Value]:
    """r and the integer n with x = n ln 2 + r, |r| <= ln 2 / 2 and a bit."""
    n, integer = b.nearest(x * LOG2_E)
    r = b.fma(n, -LN2_LOW[x.type], b.fma(n, -LN2_HIGH[x.type], x))
    return r, integer


def reduce_exp_twice(b: Builder, x: Value, low: Value | None) -> tuple[Value, Value, Value]:
    """`reduce_exp` of x + low with r in two parts: r, its correction, and n."""
    n, integer = b.nearest(x * LOG2_E)
    first = b.fma(n, -LN2_HIGH[x.type], x)
    rest = n * -LN2_LOW[x.type] if low is None else b.fma(n, -LN2_LOW[x.type], low)
    r = first + rest
    return r, (first - r) + rest, integer


def exp_minus_one_of_reduced(b: Builder, r: Value, correction: Value | None = None) -> Value:
    """exp(r + correction) - 1, weighted for adding the 1."""
    tail = b.poly(r, EXP_TAIL[r.type])
    return b.fma(tail, r * r, r) if correction is None else b.fma(tail, r * r, correction) + r


def exp_of_reduced(b: Builder, r: Value, correction: Value | None = None) -> Value:
    return exp_minus_one_of_reduced(b, r, correction) + 1.0


def exp_normal(b: Builder, x: Value) -> Value:
    """exp where the result is a normal number."""
    r, n = reduce_exp(b, x)
    return exp_of_reduced(b, r) * b.pow2(n, x.type)


def vanish_below(b: Builder, x: Value) -> Value:
    """x, or an argument of which exp comes out as zero without underflow (NaN stays)."""
    return b.select(x < EXP_MIN[x.type], EXP_ZERO[x.type], x)


def exp_to_zero(b: Builder, x: Value) -> Value:
    """exp for x up to `EXP_MAX` (NaN stays), subnormal results and -inf included."""
    r, n = reduce_exp(b, vanish_below(b, x))
    return b.scale(exp_of_reduced(b, r), n)


def exp_precise(b: Builder, x: Value, low: Value | None = None) -> Value:
    """exp(x + low) for x between `EXP_ZERO` and `EXP_MAX` (NaN stays), to 0.8 ulp; for functions that round some more
    times.
    """
    return b.scale(*exp_parts(b, x, low))


def exp_parts(b: Builder, x: Value, low: Value | None = None) -> tuple[Value, Value]:
    """y near one and an integer n with exp(x + low) = y 2^n."""
    r, correction, n = reduce_exp_twice(b, x, low)
    return exp_of_reduced(b, r, correction), n


def scaled_exp_parts(b: Builder, factor: Value, factor_low: Value, x: Value, low: Value) -> tuple[Value, Value]:
    """y and n with (factor + factor_low) * exp(x + low) = y 2^n, y rounded but once."""
    r, correction, n = reduce_exp_twice(b, x, low)
    return factor + b.fma(factor, exp_minus_one_of_reduced(b, r, correction), factor_low), n


def exp(b: Builder, x: Value) -> Value:
    return exp_to_zero(b, b.clamp_above(x, EXP_MAX[x.type]))


def exp2(b: Builder, x: Value) -> Value:
    bounded = b.select(x < EXP2_MIN[x.type], EXP2_ZERO[x.type], b.clamp_above(x, EXP2_MAX[x.type]))
    n, integer = b.nearest(bounded)
    r = bounded - n
    return b.scale(b.fma(b.poly(r, EXP2_SLOPE[x.type]), r, 1.0), integer)


def expm1(b: Builder, x: Value) -> Value:
    """2^n (exp(r) - 1) + (2^n - 1), at half the size since 2^n may overflow where the result does not."""
    r, n = reduce_exp(b, b.clamp_below(b.clamp_above(x, EXP_MAX[x.type]), EXPM1_MIN[x.type]))
    y = b.fma(b.poly(r, EXPM1_TAIL[x.type]), r * r, r)
    half_power = b.pow2(n - 1, x.type)
    result = b.fma(half_power, y, half_power - 0.5) * 2.0
    return b.select(x.eq(0.0), x, result)


def sigmoid(b: Builder, x: Value) -> Value:
    """1 / (1 + z) or z / (1 + z) with z = exp(-|x|), which never overflows and keeps small results accurate.

    The error of the sum is put right afterwards: beside those of z and of the quotient it would be too much.
    """
    z = exp_precise(b, vanish_below(b, -b.abs(x)))
    total, error = b.fast_two_sum(1.0, z)
    quotient = b.select(x < 0.0, z, 1.0) / total
    return b.fma(quotient, -error, quotient)


def tanh(b: Builder, x: Value) -> Value:
    """x + x^3 p(x^2) near zero, else 1 - 2 / (exp(2|x|) + 1), whose second part is at most half of the result."""
    square = x * x
    near = b.fma(b.poly(square, TANH_TAIL[x.type]), square * x, x)
    size = b.abs(x)
    far = 1.0 - 2.0 / (exp_normal(b, b.clamp_above(size, TANH_MAX[x.type]) * 2.0) + 1.0)
    return b.copysign(b.select(size < TANH_CUT, near, far), x)


def softplus(b: Builder, x: Value) -> Value:
    """log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|))."""
    z = exp_to_zero(b, -b.abs(x))
    return b.clamp_below(x, 0.0) + log1p_positive(b, z)
