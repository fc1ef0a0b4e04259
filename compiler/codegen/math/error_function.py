"""erf and the two GELUs."""

from __future__ import annotations

from .emitter import Builder, Value
from .exponential import exp_normal, exp_parts, scaled_exp_parts

ERF_CUT = 0.9
# erf of anything larger is 1.
ERF_MAX = {"float": 4.0, "double": 5.95}
# erf(x)/x - 1 in x^2 for |x| <= 0.9: 2^-26 and 2^-56.
ERF_NEAR = {
    "float": (
        0.12837915122509003,
        -0.3761250376701355,
        0.11281921714544296,
        -0.02677048370242119,
        0.004998928867280483,
        -0.0006020559812895954,
    ),
    "double": (
        0.1283791670955126,
        -0.3761263890318411,
        0.11283791670972057,
        -0.02686617064826683,
        0.005223977655159549,
        -0.0008548328657820849,
        0.00012055388442404089,
        -1.4926835268989339e-05,
        1.6477715539694251e-06,
        -1.648044778827908e-07,
        1.5102174822775308e-08,
        -1.083364570227444e-09,
    ),
}
# log(erfc(x)) for 0.9 <= x <= ERF_MAX, to an absolute error in erfc of 2^-29 and 2^-57.
ERFC_LOG = {
    "float": (
        -0.0001774847332853824,
        -1.1277495622634888,
        -0.6370598077774048,
        -0.10403727740049362,
        0.02227703481912613,
        -0.003055591369047761,
        0.00019717946997843683,
    ),
    "double": (
        2.891821028662915e-09,
        -1.1283792340753624,
        -0.6366191904748172,
        -0.10277546647950574,
        0.01913780248362156,
        0.00018715872982425915,
        -0.0016569308960341599,
        0.0005355060726392453,
        3.4553467449620454e-05,
        -0.00011828532269516826,
        6.837926532863503e-05,
        -2.5687745866400357e-05,
        7.22392140641941e-06,
        -1.5791066320921089e-06,
        2.6949160417641897e-07,
        -3.539002161248766e-08,
        3.4617169566117226e-09,
        -2.377479356224113e-10,
        1.0229991601700352e-11,
        -2.0743728934199074e-13,
    ),
}

GELU_CUT = 0.6
# (Phi(x) - 1/2) / x in x^2 for |x| <= 0.6, to 2^-29 and 2^-58 of x Phi(x).
PHI_NEAR = {
    "float": (
        0.3989422917366028,
        -0.06649072468280792,
        0.00997642707079649,
        -0.0011955593945458531,
        0.0001195429649669677,
    ),
    "double": (
        0.3989422804014327,
        -0.06649038006690834,
        0.009973557010136089,
        -0.0011873282170514303,
        0.00011543470063493632,
        -9.44471648303656e-06,
        6.661208095342465e-07,
        -4.139880162856537e-08,
        2.276017492723728e-09,
    ),
}
# With Q(t) the upper tail of the normal distribution and v = t / (t + MILLS_SHIFT): t Q(t) exp(t^2 / 2) / v from 0.55
# on, a slow function of v, in u = 2v - 1: 2^-27 and 2^-54.
MILLS_SHIFT = {"float": 4.25, "double": 5.5}
MILLS = {
    "float": (
        0.7595542073249817,
        -0.6251298189163208,
        0.4182276427745819,
        -0.22051464021205902,
        0.08527062833309174,
        -0.019371259957551956,
        -0.0007445737137459219,
        0.002196705900132656,
        -0.0003726651193574071,
        -0.00024656334426254034,
    ),
    "double": (
        0.7737696342764068,
        -0.6851834205743375,
        0.535596489062493,
        -0.36704906529369963,
        0.21787243285808827,
        -0.10970308995589723,
        0.04509758081136856,
        -0.013923510611210546,
        0.002442982720766537,
        0.0002696044044564998,
        -0.0003245229874544232,
        7.141269849959691e-05,
        1.6321427313057058e-05,
        -1.2111686524372324e-05,
        4.425710891293589e-07,
        1.4685534422771652e-06,
        -2.6189153043539126e-07,
        -1.5758539603517556e-07,
        4.52375807963771e-08,
        8.239549776960558e-09,
        -3.8525802344254654e-09,
        2.0701997842115247e-09,
    ),
}
# t Q(t) of anything larger rounds to zero, and is taken from where exp vanishes without underflow (see EXP_ZERO).
TAIL_MAX = {"float": 14.5, "double": 39.0}
TAIL_ZERO = {"float": 18.75, "double": 53.25}

# gelu_tanh(x) = x sigmoid(x (c1 + c2 x^2)), c1 = 2 sqrt(2/pi), c2 = 0.044715 c1, each in two parts.
GELU_LINEAR = {
    "float": (1.5957691669464111, -4.534068054340423e-08),
    "double": (1.5957691216057308, -9.96930880911092e-17),
}
GELU_CUBIC = {
    "float": (0.07135481387376785, 2.3988324659995897e-09),
    "double": (0.07135481627260025, -6.175149918155315e-19),
}
GELU_TANH_MAX = {"float": 11.0, "double": 22.0}
GELU_TANH_ZERO = {"float": 12.96, "double": 26.81}


def erf(b: Builder, x: Value) -> Value:
    """x + x p(x^2) near zero, else 1 - exp(q(|x|)): at 0.9 the second part is a fifth, so its error counts little."""
    size = b.abs(x)
    near = b.fma(b.poly(x * x, ERF_NEAR[x.type]), x, x)
    bounded = b.clamp_above(size, ERF_MAX[x.type])
    far = b.copysign(1.0 - exp_normal(b, b.poly(bounded, ERFC_LOG[x.type])), x)
    return b.select(size < ERF_CUT, near, far)


def gelu(b: Builder, x: Value) -> Value:
    """x Phi(x) = max(x, 0) - t Q(t), t = |x|: accurate in the negative tail too, where 1 + erf would cancel. Zero at
    -inf, the limit.

    The factors of Q are carried in two parts, so that the product rounds once. Near zero, where Q is 1/2 and every
    rounding of it would show, x/2 + x^2 p(x^2).
    """
    size = b.abs(x)
    square = x * x
    near = b.copysign(b.fma(b.poly(square, PHI_NEAR[x.type]), square, x * 0.5), x)  # for -0.0
    t = b.select(size > TAIL_MAX[x.type], TAIL_ZERO[x.type], size)
    # v in two parts; where t is the larger summand the error is not exact, nor does v matter much.
    shifted, shifted_error = b.fast_two_sum(MILLS_SHIFT[x.type], t)
    v = t / shifted
    back, back_error = b.two_product(v, shifted)
    v_low = b.fma(-v, shifted_error, (t - back) - back_error) * ((1.0 - v) * (1.0 / MILLS_SHIFT[x.type]))
    u = v * 2.0 - 1.0
    center, first, *slopes = MILLS[x.type]
    curve = b.poly(u, slopes)
    slope = b.fma(curve, u, first)
    mills = b.fma(slope, u, center)
    mills_low = b.fma(slope, u, center - mills) + b.fma(curve, u, first - slope) * u
    ratio, ratio_low = b.two_product(v, mills)
    ratio_low = b.fma(v_low, b.fma(v * 2.0, slope, mills), ratio_low)
    square, error = b.two_product(t, t)
    tail, power = scaled_exp_parts(b, ratio, b.fma(v, mills_low, ratio_low), square * -0.5, error * -0.5)
    return b.select(size < GELU_CUT, near, b.clamp_below(x, 0.0) - b.scale(tail, power))


def gelu_tanh(b: Builder, x: Value) -> Value:
    """x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 = x sigmoid(2 sqrt(2/pi) (...)), the argument in two parts
    since exp magnifies its error.
    """
    type_ = x.type
    size = b.abs(x)
    t = b.select(size > GELU_TANH_MAX[type_], GELU_TANH_ZERO[type_], size)
    square, square_error = b.two_product(t, t)
    linear, linear_low = GELU_LINEAR[type_]
    cubic, cubic_low = GELU_CUBIC[type_]
    product, product_error = b.two_product(square, b.const(type_, cubic))
    slope, slope_error = b.two_sum(product, b.const(type_, linear))
    rest = b.fma(square, cubic_low, b.fma(square_error, cubic, (product_error + slope_error) + linear_low))
    exponent, exponent_error = b.two_product(t, slope)
    y, power = exp_parts(b, -exponent, -b.fma(t, rest, exponent_error))
    total, error = b.fast_two_sum(1.0, b.scale(y, power))
    negative = x < 0.0
    product, product_error = b.two_product(-t, y)
    numerator = b.select(negative, product, x)
    quotient = numerator / total
    # What the quotient leaves over, divided by a line that is near enough to 1 / total between 1 and 2.
    back, back_error = b.two_product(quotient, total)
    low = b.select(negative, product_error, 0.0) - back_error
    rest = (numerator - back) + b.fma(-quotient, error, low)
    quotient = b.fma(rest, b.fma(total, -0.5, 1.46), quotient)
    result = b.scale(quotient, b.select(negative, power, 0))
    return b.select(x > GELU_TANH_MAX[type_], x, b.copysign(result, x))  # for -0.0
