"""Scalar functions that loop: exact floating remainders and integer powers, as internal LLVM functions."""

from __future__ import annotations

from ...ir.types import DType
from .kernel_builder import ModuleBuilder

# fmod by long division on the significands, exact for every quotient (as in FreeBSD's and musl's fmod.c).
_FMOD = """define internal {T} @{name}({T} %x, {T} %y) nounwind willreturn memory(none) {{
entry:
  %ax = call {T} @llvm.fabs.{S}({T} %x)
  %ay = call {T} @llvm.fabs.{S}({T} %y)
  %less = fcmp olt {T} %ax, %ay
  %finite = fcmp olt {T} %ax, {INF}
  %some = fcmp one {T} %ay, 0.0
  %yfine = fcmp ord {T} %y, %y
  %a = and i1 %finite, %some
  %fine = and i1 %a, %yfine
  br i1 %fine, label %small, label %bad
bad:
  %p = fmul {T} %x, %y
  %nan = fdiv {T} %p, %p
  ret {T} %nan
small:
  br i1 %less, label %same, label %split
same:
  ret {T} %x
split:
  %bx = bitcast {T} %ax to {I}
  %by = bitcast {T} %ay to {I}
  %ex0 = lshr {I} %bx, {M}
  %ey0 = lshr {I} %by, {M}
  %mx0 = and {I} %bx, {FRAC}
  %my0 = and {I} %by, {FRAC}
  %dx = icmp eq {I} %ex0, 0
  %dy = icmp eq {I} %ey0, 0
  %hx = or {I} %mx0, {ONE}
  %hy = or {I} %my0, {ONE}
  %mx = select i1 %dx, {I} %mx0, {I} %hx
  %my = select i1 %dy, {I} %my0, {I} %hy
  %ex = call {I} @llvm.umax.{I}({I} %ex0, {I} 1)
  %ey = call {I} @llvm.umax.{I}({I} %ey0, {I} 1)
  %n = sub {I} %ex, %ey
  %r0 = urem {I} %mx, %my
  %go = icmp ne {I} %n, 0
  br i1 %go, label %loop, label %done
loop:
  %r = phi {I} [ %r0, %split ], [ %r3, %loop ]
  %k = phi {I} [ %n, %split ], [ %k1, %loop ]
  %step = call {I} @llvm.umin.{I}({I} %k, {I} {SPARE})
  %r2 = shl {I} %r, %step
  %r3 = urem {I} %r2, %my
  %k1 = sub {I} %k, %step
  %more = icmp ne {I} %k1, 0
  br i1 %more, label %loop, label %done
done:
  %m = phi {I} [ %r0, %split ], [ %r3, %loop ]
  %z = call {I} @llvm.ctlz.{I}({I} %m, i1 false)
  %up0 = sub {I} %z, {LEAD}
  %room = sub {I} %ey, 1
  %up = call {I} @llvm.umin.{I}({I} %up0, {I} %room)
  %sig = shl {I} %m, %up
  %e = sub {I} %ey, %up
  %normal = icmp uge {I} %sig, {ONE}
  %eb = select i1 %normal, {I} %e, {I} 0
  %frac = and {I} %sig, {FRAC}
  %es = shl {I} %eb, {M}
  %bits = or {I} %frac, %es
  %zero = icmp eq {I} %m, 0
  %out = select i1 %zero, {I} 0, {I} %bits
  %mag = bitcast {I} %out to {T}
  %res = call {T} @llvm.copysign.{S}({T} %mag, {T} %x)
  ret {T} %res
}}
"""

# Python's and numpy's remainder: the sign of the divisor.
_MOD = """define internal {T} @{name}({T} %x, {T} %y) alwaysinline nounwind willreturn memory(none) {{
  %r = call {T} @pl.fmod.{S}({T} %x, {T} %y)
  %zero = fcmp oeq {T} %r, 0.0
  %signed = call {T} @llvm.copysign.{S}({T} 0.0, {T} %y)
  %rn = fcmp olt {T} %r, 0.0
  %yn = fcmp olt {T} %y, 0.0
  %mixed = xor i1 %rn, %yn
  %moved = fadd {T} %r, %y
  %kept = select i1 %mixed, {T} %moved, {T} %r
  %res = select i1 %zero, {T} %signed, {T} %kept
  ret {T} %res
}}
"""

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

_TEXT = {"fmod": _FMOD, "mod": _MOD, "floordiv": _FLOORDIV}
_INTRINSICS = {
    "fmod": ("fabs", "copysign", "umax", "umin", "ctlz"),
    "mod": ("copysign",),
    "floordiv": ("floor", "copysign"),
}


def helper(module: ModuleBuilder, name: str, dtype: DType) -> str:
    """The function's name with @; its definition is added to the module."""
    symbol = f"pl.{name}.{dtype}"
    if symbol in module.helpers:
        return f"@{symbol}"
    if dtype is DType.i64:
        module.helpers[symbol] = _POW
        return f"@{symbol}"
    if name != "fmod":
        helper(module, "fmod", dtype)
    wide = dtype is DType.f64
    fraction_bits, width = (52, 64) if wide else (23, 32)
    type_, integer = ("double", "i64") if wide else ("float", "i32")
    module.helpers[symbol] = _TEXT[name].format(
        T=type_,
        I=integer,
        S=dtype.value,
        name=symbol,
        INF="0x7FF0000000000000",
        M=fraction_bits,
        FRAC=(1 << fraction_bits) - 1,
        ONE=1 << fraction_bits,
        SPARE=width - 1 - fraction_bits,
        LEAD=width - 1 - fraction_bits,
    )
    for intrinsic in _INTRINSICS[name]:
        module.declarations.add(_declaration(intrinsic, type_, integer, dtype.value))
    return f"@{symbol}"


def _declaration(name: str, type_: str, integer: str, suffix: str) -> str:
    if name == "ctlz":
        return f"declare {integer} @llvm.ctlz.{integer}({integer}, i1)"
    if name in ("umax", "umin"):
        return f"declare {integer} @llvm.{name}.{integer}({integer}, {integer})"
    count = 2 if name == "copysign" else 1
    return f"declare {type_} @llvm.{name}.{suffix}({', '.join([type_] * count)})"
