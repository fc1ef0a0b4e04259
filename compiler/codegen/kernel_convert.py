"""Conversions between element types, and between memory and registers."""

from __future__ import annotations

from ...ir.types import DType
from .kernel_builder import FunctionBuilder, Value, memory_type, register_type


def from_memory(f: FunctionBuilder, loaded: str, dtype: DType) -> Value:
    """The register value of an element that was loaded in its memory type."""
    if dtype.is_bool:
        return f.value(f"icmp ne i8 {loaded}, 0", dtype)
    if dtype is DType.bf16:
        wide = f.let(f"zext i16 {loaded} to i32")
        return f.value(f"bitcast i32 {f.let(f'shl i32 {wide}, 16')} to float", dtype)
    if dtype is DType.f16:
        if f.module.target.half:
            return f.value(f"fpext half {loaded} to float", dtype)
        return Value(_half_to_float(f, f.let(f"bitcast half {loaded} to i16")), dtype)
    return Value(loaded, dtype)


def to_memory(f: FunctionBuilder, value: Value) -> str:
    """What is stored for a register value, typed."""
    memory = memory_type(value.dtype)
    if value.dtype.is_bool:
        return f"i8 {f.let(f'zext i1 {value.text} to i8')}"
    if value.dtype is DType.bf16:
        return f"i16 {_bfloat_bits(f, value.text)}"
    if value.dtype is DType.f16:
        if f.module.target.half:
            return f"half {f.let(f'fptrunc float {value.text} to half')}"
        return f"half {f.let(f'bitcast i16 {_half_bits(f, value.text)} to half')}"
    return f"{memory} {value.text}"


def _bfloat_bits(f: FunctionBuilder, x: str) -> str:
    """bf16 bits of a float, to nearest even, by integers: LLVM's fptrunc is a library call on most processors."""
    bits = f.let(f"bitcast float {x} to i32")
    odd = f.let(f"and i32 {f.let(f'lshr i32 {bits}, 16')}, 1")
    rounded = f.let(f"add i32 {f.let(f'add i32 {bits}, 32767')}, {odd}")
    quiet = f.let(f"or i32 {bits}, 4194304")
    nan = f.let(f"fcmp uno float {x}, {x}")
    chosen = f.let(f"select i1 {nan}, i32 {quiet}, i32 {rounded}")
    return f.let(f"trunc i32 {f.let(f'lshr i32 {chosen}, 16')} to i16")


def _half_to_float(f: FunctionBuilder, half: str) -> str:
    """f16 bits to float by integers, for processors without the instruction (the magic multiplication of F. Giesen)."""
    bits = f.let(f"zext i16 {half} to i32")
    magnitude = f.let(f"shl i32 {f.let(f'and i32 {bits}, 32767')}, 13")
    scaled = f.let(f"fmul float {f.let(f'bitcast i32 {magnitude} to float')}, 0x46F0000000000000")  # 2**112
    special = f.let(f"icmp uge i32 {magnitude}, 260046848")  # exponent 31: infinity or NaN
    infinite = f.let(f"or i32 {f.let(f'bitcast float {scaled} to i32')}, 2139095040")
    plain = f.let(f"bitcast float {scaled} to i32")
    chosen = f.let(f"select i1 {special}, i32 {infinite}, i32 {plain}")
    sign = f.let(f"shl i32 {f.let(f'and i32 {bits}, 32768')}, 16")
    return f.let(f"bitcast i32 {f.let(f'or i32 {chosen}, {sign}')} to float")


def _half_bits(f: FunctionBuilder, x: str) -> str:
    """f16 bits of a float, to nearest even, by integers (F. Giesen's float_to_half_fast3_rtne)."""
    bits = f.let(f"bitcast float {x} to i32")
    sign = f.let(f"and i32 {bits}, -2147483648")
    magnitude = f.let(f"xor i32 {bits}, {sign}")
    nan = f.let(f"icmp ugt i32 {magnitude}, 2139095040")
    special = f.let(f"select i1 {nan}, i32 32256, i32 31744")
    # Subnormal results: adding 0.5 lines the bits up and lets the processor round.
    shifted = f.let(f"fadd float {f.let(f'bitcast i32 {magnitude} to float')}, 5.000000e-01")
    small = f.let(f"sub i32 {f.let(f'bitcast float {shifted} to i32')}, 1056964608")
    odd = f.let(f"and i32 {f.let(f'lshr i32 {magnitude}, 13')}, 1")
    biased = f.let(f"add i32 {f.let(f'add i32 {magnitude}, -939520001')}, {odd}")  # ((15 - 127) << 23) + 0xfff
    normal = f.let(f"lshr i32 {biased}, 13")
    is_small = f.let(f"icmp ult i32 {magnitude}, 947912704")  # 113 << 23
    finite = f.let(f"select i1 {is_small}, i32 {small}, i32 {normal}")
    is_special = f.let(f"icmp uge i32 {magnitude}, 1199570944")  # 143 << 23: overflows to infinity
    chosen = f.let(f"select i1 {is_special}, i32 {special}, i32 {finite}")
    high = f.let(f"lshr i32 {sign}, 16")
    return f.let(f"trunc i32 {f.let(f'or i32 {chosen}, {high}')} to i16")


def convert(f: FunctionBuilder, value: Value, dtype: DType) -> Value:
    """`Cast`: floats to integers truncate and saturate (NaN gives 0), wider integers wrap, bool is `!= 0`."""
    source = value.dtype
    if source is dtype:
        return value
    if dtype.is_bool:
        test = f"fcmp une {value.typed}, 0.0" if source.is_float else f"icmp ne {value.typed}, 0"
        return f.value(test, dtype)
    if dtype.is_float:
        return _to_float(f, value, dtype)
    if source.is_float:
        kind = "fptosi" if dtype.is_signed else "fptoui"
        suffix = f"i{dtype.bits}.{'f64' if value.type == 'double' else 'f32'}"
        return Value(f.intrinsic(f"{kind}.sat.{suffix}", f"i{dtype.bits}", (value.typed,)), dtype)
    return _to_int(f, value, dtype)


def _to_int(f: FunctionBuilder, value: Value, dtype: DType) -> Value:
    width = 1 if value.dtype.is_bool else value.dtype.bits
    if width == dtype.bits:
        return Value(value.text, dtype)
    opcode = "trunc" if width > dtype.bits else "sext" if value.dtype.is_signed and width > 1 else "zext"
    return f.value(f"{opcode} {value.typed} to i{dtype.bits}", dtype)


def _to_float(f: FunctionBuilder, value: Value, dtype: DType) -> Value:
    source = value.dtype
    if not source.is_float:
        opcode = "uitofp" if source.is_bool or not source.is_signed else "sitofp"
        if dtype.compute is dtype or source.is_bool or source.bits <= 16:
            exact = f.value(f"{opcode} {value.typed} to {register_type(dtype)}", dtype)
            return exact if dtype.compute is dtype else _rounded(f, exact)
        value = f.value(f"{opcode} {value.typed} to double", DType.f64)
    if dtype is DType.f64:
        return f.value(f"fpext float {value.text} to double", dtype)
    if value.type == "double":
        if dtype is DType.f32:
            return f.value(f"fptrunc double {value.text} to float", dtype)
        value = _round_to_odd(f, value)
    if dtype is DType.f32:
        return Value(value.text, dtype)
    return _rounded(f, Value(value.text, dtype))


def _rounded(f: FunctionBuilder, value: Value) -> Value:
    """A float rounded to what its 16-bit dtype can hold."""
    stored = to_memory(f, value)
    return from_memory(f, stored.split(" ", 1)[1], value.dtype)


def _round_to_odd(f: FunctionBuilder, value: Value) -> Value:
    """f64 to f32 such that a second rounding to 16 bits gives what one rounding would have given.

    The last bit is set whenever something was cut off (S. Boldo and G. Melquiond, "Emulation of FMA and correctly
    rounded sums: proved algorithms using rounding to odd", 2008).
    """
    near = f.let(f"fptrunc double {value.text} to float")
    back = f.let(f"fpext float {near} to double")
    exact = f.let(f"fcmp ueq double {back}, {value.text}")
    bits = f.let(f"bitcast float {near} to i32")
    a, b = (f.intrinsic("fabs.f64", "double", (f"double {x}",)) for x in (back, value.text))
    away = f.let(f"fcmp ogt double {a}, {b}")
    toward_zero = f.let(f"sub i32 {bits}, {f.let(f'zext i1 {away} to i32')}")
    odd = f.let(f"or i32 {toward_zero}, 1")
    chosen = f.let(f"select i1 {exact}, i32 {bits}, i32 {odd}")
    return f.value(f"bitcast i32 {chosen} to float", DType.f32)
