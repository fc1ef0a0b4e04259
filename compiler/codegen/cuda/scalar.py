"""The scalar functions of `loops.Apply` as C++ expressions, by name; they mean what they mean on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ....ir.types import DType
from .values import Value, bare, convert, literal, register_type

Args = tuple[Value, ...]
Emitter = Callable[[Args], Value]


def emit_apply(fn: str, args: Args, dtype: DType) -> Value:
    """The expression of one function; KeyError for a name that is not known.

    Where operands and result differ in type (comparisons aside), the result is converted.
    """
    emitter = EMITTERS.get(fn)
    if emitter is None:
        if fn not in _MATH or not args[0].dtype.is_float:
            raise KeyError(f"no scalar function `{fn}` of {args[0].dtype}")
        result = Value(f"{_MATH[fn]}({_listed(args)})", args[0].dtype)
    else:
        result = emitter(args)
    if register_type(result.dtype) == register_type(dtype) and result.dtype.is_float:
        return Value(result.text, dtype)  # 16-bit floats are rounded when they are stored or cast
    return convert(result, dtype)


def _listed(args: Args) -> str:
    return ", ".join(bare(a.text) for a in args)


def _call(name: str, args: Args) -> Value:
    """A template of the prelude at the operands' type."""
    return Value(f"{name}<{args[0].type}>({_listed(args)})", args[0].dtype)


def _infix(operator: str, args: Args) -> Value:
    return Value("(" + f" {operator} ".join(a.text for a in args) + ")", args[0].dtype)


def _arithmetic(operator: str, function: str, logical: str = "") -> Emitter:
    """An operator of floats; integers wrap by a function; a bool has a logical operator."""

    def emit(args: Args) -> Value:
        if args[0].dtype.is_float:
            return _infix(operator, args)
        if args[0].dtype.is_bool:
            return _infix(logical, args)
        return _call(function, args)

    return emit


def _by_kind(floats: str, ints: str) -> Emitter:
    return lambda args: _call(floats if args[0].dtype.is_float else ints, args)


def _compare(operator: str) -> Emitter:
    return lambda args: Value(_infix(operator, args).text, DType.bool)


def _logical(operator: str) -> Emitter:
    """Both operands are evaluated: that is cheaper than a branch, and neither can fail."""
    return lambda args: _infix(operator, tuple(convert(a, DType.bool) for a in args))


def _logical_not(args: Args) -> Value:
    return Value(f"(!{convert(args[0], DType.bool).text})", DType.bool)


def _bitwise(operator: str) -> Emitter:
    def emit(args: Args) -> Value:
        return Value(f"(({args[0].type}){_infix(operator, args).text})", args[0].dtype)

    return emit


def _bitwise_not(args: Args) -> Value:
    (a,) = args
    return _logical_not(args) if a.dtype.is_bool else Value(f"(({a.type})~{a.text})", a.dtype)


def _rounding(name: str) -> Emitter:
    """Integers are whole already."""
    return lambda args: Value(f"{name}({_listed(args)})", args[0].dtype) if args[0].dtype.is_float else args[0]


def _neg(args: Args) -> Value:
    return Value(f"(-{args[0].text})", args[0].dtype) if args[0].dtype.is_float else _call("pl_ineg", args)


def _abs(args: Args) -> Value:
    (a,) = args
    if a.dtype.is_float:
        return Value(f"pl_abs({bare(a.text)})", a.dtype)
    return _call("pl_iabs", args) if a.dtype.is_signed and not a.dtype.is_bool else a


def _sign(args: Args) -> Value:
    return args[0] if args[0].dtype.is_bool else _by_kind("pl_fsign", "pl_sign")(args)


def _one_over(text: str, dtype: DType) -> Value:
    return Value(f"({literal(1.0, dtype).text} / {text})", dtype)


def _reciprocal(args: Args) -> Value:
    return _one_over(args[0].text, args[0].dtype)


def _rsqrt(args: Args) -> Value:
    return _one_over(f"pl_sqrt({bare(args[0].text)})", args[0].dtype)


def _square(args: Args) -> Value:
    return _MUL((args[0], args[0]))


def _fma(args: Args) -> Value:
    a, b, c = args
    if a.dtype.is_float:
        return Value(f"pl_fma({_listed(args)})", a.dtype)
    return _ADD((_MUL((a, b)), c))


def _extremum(name: str) -> Emitter:
    def emit(args: Args) -> Value:
        if args[0].dtype.is_bool:
            return _infix("|" if name == "max" else "&", args)
        return _by_kind(f"pl_f{name}", f"pl_i{name}")(args)

    return emit


def _isnan(args: Args) -> Value:
    (a,) = args
    return Value(f"({a.text} != {a.text})" if a.dtype.is_float else "false", DType.bool)


def _against_infinity(operator: str, whole: bool) -> Emitter:
    def emit(args: Args) -> Value:
        (a,) = args
        if not a.dtype.is_float:
            return literal(whole, DType.bool)
        return Value(f"(pl_abs({bare(a.text)}) {operator} {literal(float('inf'), a.dtype).text})", DType.bool)

    return emit


def _div(args: Args) -> Value:
    return _infix("/", args) if args[0].dtype.is_float else _call("pl_itruncdiv", args)


def _fmod(args: Args) -> Value:
    return Value(f"pl_fmod({_listed(args)})", args[0].dtype) if args[0].dtype.is_float else _call("pl_itruncmod", args)


def _pow(args: Args) -> Value:
    if args[0].dtype.is_float:
        return Value(f"pl_pow({_listed(args)})", args[0].dtype)
    wide = tuple(convert(a, DType.i64) for a in args)
    return convert(Value(f"pl_ipow({_listed(wide)})", DType.i64), args[0].dtype)


def _where(args: Args) -> Value:
    c, a, b = args
    return Value(f"({c.text} ? {a.text} : {b.text})", a.dtype)


def _relu(args: Args) -> Value:
    return _CLAMP_MIN((args[0], literal(0, args[0].dtype)))


_ADD = _arithmetic("+", "pl_iadd", "|")
_MUL = _arithmetic("*", "pl_imul", "&")
_MAXIMUM = _extremum("max")
_MINIMUM = _extremum("min")
_CLAMP_MIN = _by_kind("pl_clamp_min", "pl_imax")

EMITTERS: Mapping[str, Emitter] = MappingProxyType(
    {
        "add": _ADD,
        "sub": _arithmetic("-", "pl_isub", "^"),
        "mul": _MUL,
        "div": _div,
        "floordiv": _by_kind("pl_ffloordiv", "pl_ifloordiv"),
        "mod": _by_kind("pl_fmodulo", "pl_imod"),
        "fmod": _fmod,
        "pow": _pow,
        "fma": _fma,
        "maximum": _MAXIMUM,
        "minimum": _MINIMUM,
        "neg": _neg,
        "abs": _abs,
        "sign": _sign,
        "floor": _rounding("pl_floor"),
        "ceil": _rounding("pl_ceil"),
        "trunc": _rounding("pl_trunc"),
        "round": _rounding("pl_round"),
        "sqrt": _rounding("pl_sqrt"),
        "rsqrt": _rsqrt,
        "reciprocal": _reciprocal,
        "square": _square,
        "relu": _relu,
        "clamp_min": _CLAMP_MIN,
        "clamp_max": _by_kind("pl_clamp_max", "pl_imin"),
        "where": _where,
        "eq": _compare("=="),
        "ne": _compare("!="),
        "lt": _compare("<"),
        "le": _compare("<="),
        "gt": _compare(">"),
        "ge": _compare(">="),
        "logical_and": _logical("&"),
        "logical_or": _logical("|"),
        "logical_xor": _logical("^"),
        "logical_not": _logical_not,
        "bitwise_and": _bitwise("&"),
        "bitwise_or": _bitwise("|"),
        "bitwise_xor": _bitwise("^"),
        "bitwise_not": _bitwise_not,
        "left_shift": lambda args: _call("pl_shl", args),
        "right_shift": lambda args: _call("pl_shr", args),
        "isnan": _isnan,
        "isinf": _against_infinity("==", whole=False),
        "isfinite": _against_infinity("<", whole=True),
    }
)

_NAMES = """exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf
sigmoid softplus gelu gelu_tanh atan2"""
_MATH: Mapping[str, str] = MappingProxyType({name: f"pl_{name}" for name in _NAMES.split()})


def scalar_functions() -> frozenset[str]:
    """Every name `Apply` may use here."""
    return frozenset(EMITTERS) | frozenset(_MATH)
