"""A small emitter of straight-line scalar LLVM IR, in which the functions of this package are written.

A `Value` is one SSA value; Python's operators on it append instructions to its `Builder`. Python numbers become
literals of the other operand's type, so `x * x + 0.5` reads as the formula it computes. Every function is emitted
without fast-math flags: the reductions depend on the order of the rounding.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

FLOAT_TYPES = {"f32": "float", "f64": "double"}
SUFFIXES = {"float": "f32", "double": "f64", "i32": "i32", "i64": "i64"}
INTEGER_OF = {"float": "i32", "double": "i64"}
MANTISSA_BITS = {"float": 23, "double": 52}
EXPONENT_BIAS = {"float": 127, "double": 1023}
WIDTHS = {"i1": 1, "i32": 32, "i64": 64, "float": 32, "double": 64}

Number = int | float


def literal(type_: str, number: Number) -> str:
    """LLVM's spelling of `number` as a constant of `type_`: floats by their bits, since decimals must be exact."""
    if type_ in INTEGER_OF:
        value = float(number)
        if type_ == "float":
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    width = WIDTHS[type_]
    wrapped = int(number) & ((1 << width) - 1)
    return str(wrapped - (1 << width) if wrapped >> (width - 1) and width > 1 else wrapped)


@dataclass
class Builder:
    """Collects the instructions of one function and the intrinsics that it needs.

    fma: whether the processor fuses; without it `fma` becomes a product and a sum (`llvm.fma` would be a call into
    libm).
    """

    fma_available: bool
    lines: list[str] = field(default_factory=list)
    declarations: set[str] = field(default_factory=set)
    count: int = 0
    block: str = "entry"

    def emit(self, type_: str, instruction: str) -> Value:
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {instruction}")
        return Value(self, name, type_)

    def const(self, type_: str, number: Number) -> Value:
        return Value(self, literal(type_, number), type_)

    def coerce(self, operand: Value | Number, type_: str) -> Value:
        return operand if isinstance(operand, Value) else self.const(type_, operand)

    def binary(self, opcode: str, left: Value, right: Value | Number) -> Value:
        return self.emit(left.type, f"{opcode} {left.type} {left.text}, {self.coerce(right, left.type).text}")

    def intrinsic(self, name: str, *arguments: Value) -> Value:
        """Calls `llvm.<name>`, all of whose arguments and whose result have one type."""
        type_ = arguments[0].type
        full = f"llvm.{name}.{SUFFIXES[type_]}"
        self.declarations.add(f"declare {type_} @{full}({', '.join([type_] * len(arguments))})")
        return self.emit(type_, f"call {type_} @{full}({', '.join(f'{type_} {a.text}' for a in arguments)})")

    def fma(self, a: Value | Number, b: Value | Number, c: Value | Number) -> Value:
        """a*b + c, in one rounding where the processor can."""
        type_ = next(v.type for v in (a, b, c) if isinstance(v, Value))
        left, right, addend = (self.coerce(v, type_) for v in (a, b, c))
        if self.fma_available:
            return self.intrinsic("fma", left, right, addend)
        return left * right + addend

    def select(self, condition: Value, yes: Value | Number, no: Value | Number) -> Value:
        type_ = next(v.type for v in (yes, no) if isinstance(v, Value))
        a, b = self.coerce(yes, type_), self.coerce(no, type_)
        return self.emit(type_, f"select i1 {condition.text}, {type_} {a.text}, {type_} {b.text}")

    def countdown(self, count: Value, state: Value, step: Callable[[Value], Value]) -> Value:
        """`state` after applying `step` while a float counter, less one each time, is positive. A loop: it keeps its
        caller's from vectorising.
        """
        self.count += 1
        head, body, done = (f"{part}{self.count}" for part in ("head", "body", "done"))
        counter, current = (
            Value(self, f"%{part}{self.count}", v.type) for part, v in (("counter", count), ("state", state))
        )
        self.lines += [f"  br label %{head}", f"{head}:"]
        at = len(self.lines)
        going = counter > 0.0
        self.lines += [f"  br i1 {going.text}, label %{body}, label %{done}", f"{body}:"]
        after, less = step(current), counter - 1.0
        self.lines += [f"  br label %{head}", f"{done}:"]
        self.lines[at:at] = [
            f"  {phi.text} = phi {phi.type} [ {first.text}, %{self.block} ], [ {later.text}, %{body} ]"
            for phi, first, later in ((counter, count, less), (current, state, after))
        ]
        self.block = done
        return current

    def poly(self, x: Value, coefficients: Sequence[float]) -> Value:
        """c[0] + c[1] x + c[2] x^2 + ..., by Horner's scheme: the fewest operations; loops hide the latency."""
        result = self.const(x.type, coefficients[-1])
        for c in reversed(coefficients[:-1]):
            result = self.fma(result, x, c)
        return result

    def clamp_above(self, x: Value, bound: Number) -> Value:
        """min(x, bound), and NaN where x is NaN: the operand order is that of minps."""
        return self.select(x > bound, bound, x)

    def clamp_below(self, x: Value, bound: Number) -> Value:
        """max(x, bound), and NaN where x is NaN."""
        return self.select(x < bound, bound, x)

    def maximum(self, x: Value, y: Value | Number) -> Value:
        """The larger; y where x is NaN."""
        return self.select(x > y, x, y)

    def abs(self, x: Value) -> Value:
        return self.intrinsic("fabs", x)

    def copysign(self, magnitude: Value | Number, sign: Value) -> Value:
        return self.intrinsic("copysign", self.coerce(magnitude, sign.type), sign)

    def sqrt(self, x: Value) -> Value:
        return self.intrinsic("sqrt", x)

    def nearest(self, x: Value) -> tuple[Value, Value]:
        """x rounded half to even, as a float and as an integer of the same width, for |x| < 2^21 (f32) or 2^50 (f64).

        Adds 1.5*2^23 (1.5*2^52), at which the unit in the last place is one. Unlike `llvm.rint` and `fptosi` it is
        vector code on every processor and defined for NaN (which stays NaN in the float; the integer is then
        arbitrary).
        """
        magic = 1.5 * 2.0 ** MANTISSA_BITS[x.type]
        shifted = x + magic
        bits = shifted.bits() - self.const(x.type, magic).bits_literal()
        return shifted - magic, bits

    def small_to_float(self, integer: Value) -> Value:
        """An integer below 2^22 (i32) or 2^51 (i64) in magnitude as the float of its width; before AVX-512 no
        instruction converts i64 vectors.
        """
        type_ = "float" if integer.type == "i32" else "double"
        magic = self.const(type_, 1.5 * 2.0 ** MANTISSA_BITS[type_])
        return (integer + magic.bits_literal()).as_float() - magic

    def pow2(self, exponent: Value, type_: str) -> Value:
        """2^exponent as `type_`, for an integer in the normal range."""
        biased = exponent + EXPONENT_BIAS[type_]
        return (biased << MANTISSA_BITS[type_]).as_float()

    def scale(self, x: Value, exponent: Value) -> Value:
        """x * 2^exponent rounded once, subnormal results too, for |x| near one and an exponent within twice the
        normal range.

        At the lower end of that range, -2 * bias, the first factor's bits are all zero and so is the product, exactly.
        """
        bias = 2 * EXPONENT_BIAS[x.type]
        half = ((exponent + bias) >> 1) - bias // 2
        return x * self.pow2(half, x.type) * self.pow2(exponent - half, x.type)

    def two_sum(self, a: Value, b: Value) -> tuple[Value, Value]:
        """The rounded sum and its exact error (Knuth)."""
        total = a + b
        part = total - a
        return total, (a - (total - part)) + (b - part)

    def fast_two_sum(self, a: Value | Number, b: Value) -> tuple[Value, Value]:
        """The rounded sum and its exact error where |a| >= |b| or a is zero (Dekker)."""
        left = self.coerce(a, b.type)
        total = left + b
        return total, b - (total - left)

    def two_product(self, a: Value, b: Value) -> tuple[Value, Value]:
        """The rounded product and its exact error, barring overflow and underflow."""
        product = a * b
        if self.fma_available:
            return product, self.fma(a, b, -product)
        if a.type == "float":
            return product, (a.extend() * b.extend() - product.extend()).truncate()
        a_high, a_low = self.split(a)
        b_high, b_low = self.split(b)
        return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low

    def split(self, x: Value) -> tuple[Value, Value]:
        """An f64 as the sum of two halves of 26 bits, by cutting the low bits off (no overflow, unlike Veltkamp's
        way).
        """
        high = (x.bits() & -(1 << 27)).as_float()
        return high, x - high


@dataclass(frozen=True, eq=False)
class Value:
    """One SSA value (or constant) of LLVM type `type`."""

    builder: Builder
    text: str
    type: str

    @property
    def is_float(self) -> bool:
        return self.type in INTEGER_OF

    def _arith(self, opcode: str, other: Value | Number) -> Value:
        return self.builder.binary(f"f{opcode}" if self.is_float else opcode, self, other)

    def __add__(self, other: Value | Number) -> Value:
        return self._arith("add", other)

    def __radd__(self, other: Number) -> Value:
        return self._arith("add", other)

    def __sub__(self, other: Value | Number) -> Value:
        return self._arith("sub", other)

    def __rsub__(self, other: Number) -> Value:
        return self.builder.const(self.type, other)._arith("sub", self)

    def __mul__(self, other: Value | Number) -> Value:
        return self._arith("mul", other)

    def __rmul__(self, other: Number) -> Value:
        return self._arith("mul", other)

    def __truediv__(self, other: Value | Number) -> Value:
        return self._arith("div", other)

    def __rtruediv__(self, other: Number) -> Value:
        return self.builder.const(self.type, other)._arith("div", self)

    def __neg__(self) -> Value:
        if self.is_float:
            return self.builder.emit(self.type, f"fneg {self.type} {self.text}")
        return 0 - self

    def __and__(self, other: Value | Number) -> Value:
        return self.builder.binary("and", self, other)

    def __or__(self, other: Value | Number) -> Value:
        return self.builder.binary("or", self, other)

    def __xor__(self, other: Value | Number) -> Value:
        return self.builder.binary("xor", self, other)

    def __invert__(self) -> Value:
        return self ^ (1 if self.type == "i1" else -1)

    def __lshift__(self, other: Value | Number) -> Value:
        return self.builder.binary("shl", self, other)

    def __rshift__(self, other: Value | Number) -> Value:
        """A logical shift: zeros come in."""
        return self.builder.binary("lshr", self, other)

    def ashr(self, other: Value | Number) -> Value:
        return self.builder.binary("ashr", self, other)

    def _compare(self, float_predicate: str, integer_predicate: str, other: Value | Number) -> Value:
        right = self.builder.coerce(other, self.type)
        opcode = f"fcmp {float_predicate}" if self.is_float else f"icmp {integer_predicate}"
        return self.builder.emit("i1", f"{opcode} {self.type} {self.text}, {right.text}")

    def __lt__(self, other: Value | Number) -> Value:
        return self._compare("olt", "slt", other)

    def __le__(self, other: Value | Number) -> Value:
        return self._compare("ole", "sle", other)

    def __gt__(self, other: Value | Number) -> Value:
        return self._compare("ogt", "sgt", other)

    def __ge__(self, other: Value | Number) -> Value:
        return self._compare("oge", "sge", other)

    def eq(self, other: Value | Number) -> Value:
        return self._compare("oeq", "eq", other)

    def ne(self, other: Value | Number) -> Value:
        """Unequal; true also where either is NaN."""
        return self._compare("une", "ne", other)

    def is_nan(self) -> Value:
        return self._compare("uno", "", self)

    def bits(self) -> Value:
        """The same bits as an integer."""
        integer = INTEGER_OF[self.type]
        return self.builder.emit(integer, f"bitcast {self.type} {self.text} to {integer}")

    def bits_literal(self) -> int:
        """The bits of a constant."""
        double_bits = int(self.text, 16)
        if self.type == "double":
            return double_bits
        value = struct.unpack("<d", struct.pack("<Q", double_bits))[0]
        return int(struct.unpack("<I", struct.pack("<f", value))[0])

    def as_float(self) -> Value:
        """The same bits as a float."""
        type_ = "float" if self.type == "i32" else "double"
        return self.builder.emit(type_, f"bitcast {self.type} {self.text} to {type_}")

    def _convert(self, opcode: str, type_: str) -> Value:
        return self.builder.emit(type_, f"{opcode} {self.type} {self.text} to {type_}")

    def extend(self) -> Value:
        """f32 to f64, exactly."""
        return self._convert("fpext", "double")

    def truncate(self) -> Value:
        """f64 to f32, rounded to nearest."""
        return self._convert("fptrunc", "float")

    def narrow(self) -> Value:
        """The low half of an i64."""
        return self._convert("trunc", "i32")

    def widen(self) -> Value:
        """An i32 as an i64, zero extended."""
        return self._convert("zext", "i64")
