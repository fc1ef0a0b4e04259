"""The scalar functions of `loops.Apply`, by name.

Each emitter gets the operands (registers), the result's dtype and the fast-math flags of plain arithmetic, and returns
the result.  Integers wrap, and no integer division traps: the divisors 0 and -1 are taken out (a `Require` reports 0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ...ir.types import DType
from .kernel_builder import FunctionBuilder, Value, literal, register_type
from .kernel_convert import convert
from .kernel_helpers import floordiv, integer_power
from .math import SUPPORTED

Emitter = Callable[[FunctionBuilder, tuple[Value, ...], DType, str], Value]


def emit_apply(f: FunctionBuilder, fn: str, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    """The instructions of one function; KeyError for a name that is not known."""
    emitter = EMITTERS.get(fn)
    return emitter(f, args, dtype, flags) if emitter is not None else _math(f, fn, args, dtype)


def _math(f: FunctionBuilder, fn: str, args: tuple[Value, ...], dtype: DType) -> Value:
    """A call of the vector math."""
    kind = args[0].dtype.compute.value
    if (fn, kind) not in SUPPORTED:
        raise KeyError(f"no scalar function `{fn}` of {args[0].dtype}")
    f.module.math.add((fn, kind))
    operands = ", ".join(a.typed for a in args)
    return f.value(f"call {register_type(dtype)} @pl.{fn}.{kind}({operands})", dtype)


def _float(value: Value) -> bool:
    return value.dtype.is_float


def _bits(value: Value) -> int:
    return 1 if value.dtype.is_bool else value.dtype.bits


def _suffix(value: Value) -> str:
    return {"double": "f64", "float": "f32"}.get(value.type, value.type)


def _number(value: float, like: Value) -> str:
    return literal(value, like.dtype).text


def _intrinsic(f: FunctionBuilder, name: str, args: tuple[Value, ...], flags: str = "") -> Value:
    like = args[0]
    text = f.intrinsic(f"{name}.{_suffix(like)}", like.type, [a.typed for a in args], flags)
    return Value(text, like.dtype)


def _operation(floats: str, ints: str, bools: str = "") -> Emitter:
    """A binary instruction by kind of operand; plain float arithmetic takes the flags."""

    def emit(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
        a, b = args
        opcode = f"{floats} {flags}" if _float(a) else bools if a.dtype.is_bool and bools else ints
        return f.value(f"{opcode.strip()} {a.typed}, {b.text}", dtype)

    return emit


def _compare(floats: str, signed: str, unsigned: str) -> Emitter:
    def emit(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
        a, b = args
        if _float(a):
            return f.value(f"fcmp {floats} {a.typed}, {b.text}", dtype)
        code = signed if a.dtype.is_signed and not a.dtype.is_bool else unsigned
        return f.value(f"icmp {code} {a.typed}, {b.text}", dtype)

    return emit


def _logical(opcode: str) -> Emitter:
    def emit(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
        a, b = (convert(f, x, DType.bool) for x in args)
        return f.value(f"{opcode} i1 {a.text}, {b.text}", DType.bool)

    return emit


def _logical_not(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    return f.value(f"xor i1 {convert(f, args[0], DType.bool).text}, true", DType.bool)


def _rounding(name: str) -> Emitter:
    """An intrinsic on floats; integers are whole already."""

    def emit(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
        return _intrinsic(f, name, args) if _float(args[0]) else args[0]

    return emit


def _neg(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    (a,) = args
    return f.value(f"fneg {a.typed}" if _float(a) else f"sub {a.type} 0, {a.text}", dtype)


def _abs(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    (a,) = args
    if _float(a):
        return _intrinsic(f, "fabs", args)
    if not a.dtype.is_signed:
        return a
    return Value(f.intrinsic(f"abs.{a.type}", a.type, (a.typed, "i1 false")), dtype)


def _sign(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    (a,) = args
    zero, one, minus = _number(0, a), _number(1, a), _number(-1, a)
    greater = "fcmp ogt" if _float(a) else "icmp sgt" if a.dtype.is_signed else "icmp ugt"
    up = f.let(f"{greater} {a.typed}, {zero}")
    rest = f.let(f"fadd {a.typed}, 0.0") if _float(a) else a.text  # NaN stays what it is, -0.0 becomes 0.0
    if a.dtype.is_signed:
        down = f.let(f"{'fcmp olt' if _float(a) else 'icmp slt'} {a.typed}, {zero}")
        rest = f.let(f"select i1 {down}, {a.type} {minus}, {a.type} {rest}")
    return f.value(f"select i1 {up}, {a.type} {one}, {a.type} {rest}", dtype)


def _reciprocal(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    (a,) = args
    return f.value(f"fdiv {a.type} {_number(1.0, a)}, {a.text}", dtype)


def _rsqrt(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    return _reciprocal(f, (_intrinsic(f, "sqrt", args),), dtype, flags)


def _square(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    return _MUL(f, (args[0], args[0]), dtype, flags)


def _fma(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    a, b, c = args
    # In a reduction the sum must stand alone to be reassociated; without the instruction llvm.fma is a library call.
    if _float(a) and f.module.target.fma and "reassoc" not in flags:
        return Value(_intrinsic(f, "fma", args).text, dtype)
    product = _MUL(f, (a, b), dtype, "contract" if _float(a) else "")
    return _ADD(f, (product, c), dtype, flags)


def _extremum(name: str) -> Emitter:
    """maximum or minimum; a NaN on either side gives NaN, and -0.0 is below 0.0 but in reductions (their flags)."""

    def emit(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
        a, b = args
        if a.dtype.is_bool:
            return f.value(f"{'or' if name == 'max' else 'and'} i1 {a.text}, {b.text}", dtype)
        if _float(a):
            return Value(_intrinsic(f, f"{name}imum", args, "nsz" if "nsz" in flags else "").text, dtype)
        return Value(_intrinsic(f, f"{'s' if a.dtype.is_signed else 'u'}{name}", args).text, dtype)

    return emit


def _isnan(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    (a,) = args
    return f.value(f"fcmp uno {a.typed}, {a.text}", DType.bool) if _float(a) else literal(False, DType.bool)


def _against_infinity(code: str, whole: bool) -> Emitter:
    def emit(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
        if not _float(args[0]):
            return literal(whole, DType.bool)
        a = _intrinsic(f, "fabs", args)
        return f.value(f"fcmp {code} {a.typed}, {_number(float('inf'), a)}", DType.bool)

    return emit


def _shift(left: bool) -> Emitter:
    """Shifts by the width or more give what repeated shifts by one give: 0, or the sign."""

    def emit(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
        a, b = args
        last = _bits(a) - 1
        limited = _intrinsic(f, "umin", (b, literal(last, a.dtype)))
        if not left and a.dtype.is_signed:
            return f.value(f"ashr {a.typed}, {limited.text}", dtype)
        shifted = f.let(f"{'shl' if left else 'lshr'} {a.typed}, {limited.text}")
        fits = f.let(f"icmp ule {b.typed}, {last}")
        return f.value(f"select i1 {fits}, {a.type} {shifted}, {a.type} 0", dtype)

    return emit


def _safe_divisor(f: FunctionBuilder, b: Value) -> tuple[str, str | None]:
    """A divisor that cannot trap, and whether it stood for -1 (signed only)."""
    zero = f.let(f"icmp eq {b.typed}, 0")
    if not b.dtype.is_signed:
        return f.let(f"select i1 {zero}, {b.type} 1, {b.typed}"), None
    minus = f.let(f"icmp eq {b.typed}, -1")
    bad = f.let(f"or i1 {zero}, {minus}")
    return f.let(f"select i1 {bad}, {b.type} 1, {b.typed}"), minus


def _int_quotient(f: FunctionBuilder, a: Value, b: Value, floor: bool) -> Value:
    divisor, minus = _safe_divisor(f, b)
    if minus is None:
        return f.value(f"udiv {a.typed}, {divisor}", a.dtype)
    quotient = f.let(f"sdiv {a.typed}, {divisor}")
    if floor:
        rest = f.let(f"sub {a.type} {a.text}, {f.let(f'mul {a.type} {quotient}, {divisor}')}")
        lower = _rounds_down(f, rest, divisor, a.type)
        quotient = f.let(f"add {a.type} {quotient}, {f.let(f'sext i1 {lower} to {a.type}')}")
    negated = f.let(f"sub {a.type} 0, {a.text}")
    return f.value(f"select i1 {minus}, {a.type} {negated}, {a.type} {quotient}", a.dtype)


def _rounds_down(f: FunctionBuilder, rest: str, divisor: str, type_: str) -> str:
    some = f.let(f"icmp ne {type_} {rest}, 0")
    opposite = f.let(f"icmp slt {type_} {f.let(f'xor {type_} {rest}, {divisor}')}, 0")
    return f.let(f"and i1 {some}, {opposite}")


def _int_remainder(f: FunctionBuilder, a: Value, b: Value, floor: bool) -> Value:
    divisor, minus = _safe_divisor(f, b)
    if minus is None:
        return f.value(f"urem {a.typed}, {divisor}", a.dtype)
    rest = f.let(f"srem {a.typed}, {divisor}")
    if floor:
        lower = _rounds_down(f, rest, divisor, a.type)
        shifted = f.let(f"add {a.type} {rest}, {divisor}")
        rest = f.let(f"select i1 {lower}, {a.type} {shifted}, {a.type} {rest}")
    return Value(rest, a.dtype)  # a divisor of -1 became 1: the remainder is 0 either way


def _div(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    a, b = args
    if not _float(a):
        return _int_quotient(f, a, b, floor=False)
    return f.value(f"fdiv {a.typed}, {b.text}", dtype)


def _floordiv(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    a, b = args
    if not _float(a):
        return _int_quotient(f, a, b, floor=True)
    return f.value(f"call {a.type} {floordiv(f.module, a.dtype.compute)}({a.typed}, {b.typed})", dtype)


def _remainder(name: str) -> Emitter:
    def emit(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
        if _float(args[0]):
            return _math(f, name, args, dtype)
        return _int_remainder(f, args[0], args[1], floor=name == "mod")

    return emit


def _pow(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    if _float(args[0]):
        return _math(f, "pow", args, dtype)
    base, exponent = (convert(f, x, DType.i64) for x in args)
    power = f.value(f"call i64 {integer_power(f.module)}({base.typed}, {exponent.typed})", DType.i64)
    return convert(f, power, dtype)


def _where(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    c, a, b = args
    return f.value(f"select i1 {c.text}, {a.typed}, {b.typed}", dtype)


def _limit(name: str) -> Emitter:
    """clamp_min or clamp_max: the limit where x is beyond it or it is NaN, else x (of equal zeros too)."""

    def emit(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
        x, limit = args
        if not _float(x):
            return _extremum(name)(f, args, dtype, flags)
        beyond = f.let(f"fcmp {'olt' if name == 'max' else 'ogt'} {x.typed}, {limit.text}")
        taken = f.let(f"or i1 {beyond}, {f.let(f'fcmp uno {limit.typed}, {limit.text}')}")
        return f.value(f"select i1 {taken}, {limit.typed}, {x.typed}", dtype)

    return emit


def _relu(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    return _limit("max")(f, (args[0], literal(0, args[0].dtype)), dtype, flags)


def _bitwise_not(f: FunctionBuilder, args: tuple[Value, ...], dtype: DType, flags: str) -> Value:
    return f.value(f"xor {args[0].typed}, {literal(-1 if not dtype.is_bool else True, dtype).text}", dtype)


_ADD = _operation("fadd", "add", "or")
_MUL = _operation("fmul", "mul", "and")

EMITTERS: Mapping[str, Emitter] = MappingProxyType(
    {
        "add": _ADD,
        "sub": _operation("fsub", "sub"),
        "mul": _MUL,
        "div": _div,
        "floordiv": _floordiv,
        "mod": _remainder("mod"),
        "fmod": _remainder("fmod"),
        "pow": _pow,
        "fma": _fma,
        "maximum": _extremum("max"),
        "minimum": _extremum("min"),
        "neg": _neg,
        "abs": _abs,
        "sign": _sign,
        "floor": _rounding("floor"),
        "ceil": _rounding("ceil"),
        "trunc": _rounding("trunc"),
        "round": _rounding("roundeven"),
        "sqrt": _rounding("sqrt"),
        "rsqrt": _rsqrt,
        "reciprocal": _reciprocal,
        "square": _square,
        "relu": _relu,
        "clamp_min": _limit("max"),
        "clamp_max": _limit("min"),
        "where": _where,
        "eq": _compare("oeq", "eq", "eq"),
        "ne": _compare("une", "ne", "ne"),
        "lt": _compare("olt", "slt", "ult"),
        "le": _compare("ole", "sle", "ule"),
        "gt": _compare("ogt", "sgt", "ugt"),
        "ge": _compare("oge", "sge", "uge"),
        "logical_and": _logical("and"),
        "logical_or": _logical("or"),
        "logical_xor": _logical("xor"),
        "logical_not": _logical_not,
        "bitwise_and": _operation("", "and"),
        "bitwise_or": _operation("", "or"),
        "bitwise_xor": _operation("", "xor"),
        "bitwise_not": _bitwise_not,
        "left_shift": _shift(left=True),
        "right_shift": _shift(left=False),
        "isnan": _isnan,
        "isinf": _against_infinity("oeq", whole=False),
        "isfinite": _against_infinity("olt", whole=True),
    }
)


def scalar_functions() -> frozenset[str]:
    """Every name `Apply` may use on the CPU."""
    return frozenset(EMITTERS) | {name for name, _ in SUPPORTED}
