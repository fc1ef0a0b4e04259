"""Scalar functions that are internal LLVM functions: floor division of floats, and integer powers."""

from __future__ import annotations

from ...ir.types import DType
from .kernel_builder import ModuleBuilder

# numpy's floor_divide: exact multiples are taken out first, so that rounding of the quotient cannot pass an integer.
_FLOORDIV = """define internal {T} @{name}({T} %x, {T} %y) alwaysinline nounwind willreturn memory(none) {{
  %plain = fdiv {T} %x, %y
  %byzero = fcmp oeq {T} %y, 0.0
  %r = call {T} @pl.fmod.{S}({T} %x, {T} %y)
  %d0 = fsub {T} %x, %r
  %d1 = fdiv {T} %d0, %y
  %some = fcmp une {T} %r, 0.0
  %rn = fcmp olt {T} %r, 0.0
  %yn = fcmp olt {T} %y, 0.0
  %mixed = xor i1 %rn, %yn
  %down = and i1 %some, %mixed
  %d2 = fsub {T} %d1, 1.0
  %d = select i1 %down, {T} %d2, {T} %d1
  %fl = call {T} @llvm.floor.{S}({T} %d)
  %gap = fsub {T} %d, %fl
  %far = fcmp ogt {T} %gap, 0.5
  %fl1 = fadd {T} %fl, 1.0
  %q = select i1 %far, {T} %fl1, {T} %fl
  %nought = call {T} @llvm.copysign.{S}({T} 0.0, {T} %plain)
  %isz = fcmp oeq {T} %d, 0.0
  %whole = select i1 %isz, {T} %nought, {T} %q
  %res = select i1 %byzero, {T} %plain, {T} %whole
  ret {T} %res
}}
"""

# Squaring; a negative exponent gives the truncated power: 0 except for bases 1 and -1.
_POW = """define internal i64 @pl.pow.i64(i64 %x, i64 %n) nounwind willreturn memory(none) {
entry:
  %neg = icmp slt i64 %n, 0
  br i1 %neg, label %below, label %loop
below:
  %one = icmp eq i64 %x, 1
  %minus = icmp eq i64 %x, -1
  %odd = and i64 %n, 1
  %isodd = icmp ne i64 %odd, 0
  %alt = select i1 %isodd, i64 -1, i64 1
  %m = select i1 %minus, i64 %alt, i64 0
  %p = select i1 %one, i64 1, i64 %m
  ret i64 %p
loop:
  %k = phi i64 [ %n, %entry ], [ %k1, %loop ]
  %b = phi i64 [ %x, %entry ], [ %b1, %loop ]
  %acc = phi i64 [ 1, %entry ], [ %acc1, %loop ]
  %bit = and i64 %k, 1
  %set = icmp ne i64 %bit, 0
  %times = select i1 %set, i64 %b, i64 1
  %acc1 = mul i64 %acc, %times
  %b1 = mul i64 %b, %b
  %k1 = lshr i64 %k, 1
  %more = icmp ne i64 %k1, 0
  br i1 %more, label %loop, label %done
done:
  ret i64 %acc1
}
"""


def floordiv(module: ModuleBuilder, dtype: DType) -> str:
    """The name, with @, of floor division of f32 or f64; its definition is added to the module."""
    symbol = f"pl.floordiv.{dtype}"
    type_ = "double" if dtype is DType.f64 else "float"
    module.math.add(("fmod", dtype.value))
    module.helpers[symbol] = _FLOORDIV.format(T=type_, S=dtype.value, name=symbol)
    module.declarations.add(f"declare {type_} @llvm.floor.{dtype}({type_})")
    module.declarations.add(f"declare {type_} @llvm.copysign.{dtype}({type_}, {type_})")
    return f"@{symbol}"


def integer_power(module: ModuleBuilder) -> str:
    """The name, with @, of the power of i64."""
    module.helpers["pl.pow.i64"] = _POW
    return "@pl.pow.i64"
