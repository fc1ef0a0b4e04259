"""Argument reduction of the trigonometric functions: |x| = quadrant * pi/2 + r + low, |r| <= pi/4 and a bit, for
every finite x.

Below 2^15 (f32) or 2^20 (f64) by Cody and Waite: the multiple of pi/2 is subtracted in three parts, each step exact
or rounded relative to its own result. Above by Payne and Hanek: of the bits of 2/pi, those that decide x * 2/pi mod 4
start at a place given by x's exponent; a window of them times x's mantissa, in integers, is the quadrant and the
fraction in fixed point. The window is taken from a table of constants by selects (one per bit of the place), not
loads, so that the code has no memory access to vectorise. Both are computed and one selected.
"""

from __future__ import annotations

from collections.abc import Sequence

from .emitter import EXPONENT_BIAS, INTEGER_OF, MANTISSA_BITS, WIDTHS, Builder, Value

TWO_OVER_PI = 0.6366197723675814
# pi/2 in three parts: to 24 bits each; to 33 bits, 33 bits and the rest, so that multiples below 2^20 of the first
# two are exact.
HALF_PI_F32 = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
HALF_PI_F64 = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
HALF_PI_DOUBLE = (1.5707963267948966, 6.123233995736766e-17)
# The exponent from which Payne and Hanek's way is taken.
HUGE_EXPONENT = {"float": 15, "double": 20}
# Three words of the argument's width hold two bits of quadrant, the fraction to full precision at the worst
# cancellation, and the mantissa's bits.
WINDOW_WORDS = 3
INDEX_BITS = {"float": 2, "double": 4}
LOW_WORD = 0xFFFFFFFF


def two_over_pi_words(leading_zeros: int, count: int, width: int) -> list[int]:
    """`leading_zeros` zero bits and then the binary digits of 2/pi, as words of `width` bits. pi by Machin's formula,
    in integers.
    """
    bits = width * count + 64

    def arctan_inverse(n: int) -> int:
        term, total, k = (1 << bits) // n, 0, 0
        while term:
            total += (-term if k % 2 else term) // (2 * k + 1)
            term //= n * n
            k += 1
        return total

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    digits = (2 << 2 * bits) // pi >> leading_zeros
    return [(digits >> (bits - width * (i + 1))) & ((1 << width) - 1) for i in range(count)]


def select_window(b: Builder, index: Value, bits: int, words: Sequence[Value], count: int) -> list[Value]:
    """words[index : index + count] for an index below 2^bits, by one layer of selects a bit."""
    for bit in reversed(range(bits)):
        step = 1 << bit
        is_set = (index & step).ne(0)
        needed = count + step - 1
        words = [b.select(is_set, words[i + step], words[i]) for i in range(needed)]
    return list(words)


def bits_of_two_over_pi(b: Builder, exponent: Value, type_: str) -> list[Value]:
    """The window for x = m 2^(exponent - mantissa bits), first word first: its first bit times m has weight 2."""
    integer, index_bits, start = INTEGER_OF[type_], INDEX_BITS[type_], HUGE_EXPONENT[type_]
    width = WIDTHS[integer]
    place = exponent - start
    table = two_over_pi_words(MANTISSA_BITS[type_] + 2 - start, (1 << index_bits) + WINDOW_WORDS, width)
    constants = [b.const(integer, word) for word in table]
    words = select_window(b, place >> (width.bit_length() - 1), index_bits, constants, WINDOW_WORDS + 1)
    shift = place & (width - 1)
    return [b.intrinsic("fshl", words[i], words[i + 1], shift) for i in range(WINDOW_WORDS)]


def word_to_double(word: Value) -> Value:
    """An i64 below 2^32 as f64: or-ed into the mantissa of 2^52."""
    return (word | 0x4330000000000000).as_float() - 2.0**52


def signed_word_to_double(word: Value) -> Value:
    """The low half of an i64, as a signed number, as f64."""
    return ((word ^ 0x80000000) | 0x4330000000000000).as_float() - (2.0**52 + 2.0**31)


def round_quadrant(high: Value) -> tuple[Value, Value]:
    """Splits a fixed-point number with two integer bits into the nearest integer mod 4 and the signed rest."""
    quadrant = (high + (1 << 61)) >> 62
    return quadrant, high - (quadrant << 62)


def huge_f32(b: Builder, x: Value) -> tuple[Value, Value]:
    """Quadrant (i32) and r (f64) of a positive f32 from 2^15 on."""
    bits = x.bits()
    words = [word.widen() for word in bits_of_two_over_pi(b, (bits >> 23) - EXPONENT_BIAS["float"], "float")]
    mantissa = ((bits & 0x7FFFFF) | 0x800000).widen()
    product = ((mantissa * words[0]) << 32) + mantissa * words[1] + ((mantissa * words[2]) >> 32)
    quadrant, rest = round_quadrant(product)
    value = signed_word_to_double(rest >> 32) * 2.0**32 + word_to_double(rest & LOW_WORD)
    return quadrant.narrow(), value * (HALF_PI_DOUBLE[0] * 2.0**-62)


def huge_f64(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Quadrant (i64), r and its correction of a positive f64 from 2^20 on: schoolbook multiplication of two words by
    six.
    """
    bits = x.bits()
    window = bits_of_two_over_pi(b, (bits >> 52) - EXPONENT_BIAS["double"], "double")
    words = [half for word in reversed(window) for half in (word & LOW_WORD, word >> 32)]
    low = bits & LOW_WORD
    high = ((bits >> 32) & 0xFFFFF) | 0x100000
    by_low = [low * word for word in words]
    by_high = [high * word for word in words[:-1]]
    carry = by_low[0] >> 32
    limbs = []
    for i in range(1, 6):
        total = carry + (by_low[i] & LOW_WORD) + (by_high[i - 1] & LOW_WORD)
        if i > 1:
            total = total + (by_high[i - 2] >> 32)
        total, carry = total & LOW_WORD, (total >> 32) + (by_low[i] >> 32)
        limbs.append(total)
    _, fourth, third, second, first = limbs
    quadrant, rest = round_quadrant((first << 32) | second)
    value, error = b.fast_two_sum(signed_word_to_double(rest >> 32) * 2.0**32, word_to_double(rest & LOW_WORD))
    tail = word_to_double(third) * 2.0**-32 + word_to_double(fourth) * 2.0**-64
    value, error = b.two_sum(value, error + tail)
    scale = 2.0**-62
    r, r_error = b.two_product(value, b.const("double", HALF_PI_DOUBLE[0] * scale))
    low_part = b.fma(error, HALF_PI_DOUBLE[0] * scale, b.fma(value, HALF_PI_DOUBLE[1] * scale, r_error))
    return quadrant, r, low_part


def narrow_pair(r: Value) -> tuple[Value, Value]:
    """An f64 as a sum of two f32."""
    high = r.truncate()
    return high, (r - high.extend()).truncate()


def moderate_f32(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Quadrant (i32), r and its correction of an f32 below 2^15; in f64 where the processor does not fuse."""
    if b.fma_available:
        n, quadrant = b.nearest(x * TWO_OVER_PI)
        first, second, third = HALF_PI_F32
        exact = b.fma(n, -first, x)
        product, error = b.two_product(n, b.const("float", -second))
        r, low = b.two_sum(exact, product)
        return quadrant, r, b.fma(n, -third, low + error)
    wide = x.extend()
    n, wide_quadrant = b.nearest(wide * TWO_OVER_PI)
    return wide_quadrant.narrow(), *narrow_pair((wide - n * HALF_PI_F64[0]) - n * HALF_PI_F64[1])


def moderate_f64(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Quadrant (i64), r and its correction of an f64 below 2^20."""
    n, quadrant = b.nearest(x * TWO_OVER_PI)
    first, second, third = HALF_PI_F64
    r, low = b.two_sum(x - n * first, n * -second)
    return quadrant, *b.fast_two_sum(r, b.fma(n, -third, low))


def reduce(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Quadrant (its low two bits, an integer as wide as x), r and the correction of r, for a positive x."""
    if x.type == "float":
        quadrant, wide_r = huge_f32(b, x)
        huge_parts = (quadrant, *narrow_pair(wide_r))
        parts = moderate_f32(b, x)
    else:
        huge_parts, parts = huge_f64(b, x), moderate_f64(b, x)
    huge = x >= 2.0 ** HUGE_EXPONENT[x.type]
    q, r, low = (b.select(huge, yes, no) for yes, no in zip(huge_parts, parts, strict=True))
    return q, r, low
