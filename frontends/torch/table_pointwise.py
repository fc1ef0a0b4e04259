"""Pointwise operators: one row an overload."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...ir.graph import Operand
from ...ir.types import DType
from .context import Args, Context, Row, Value, is_tensor


def unary(name: str) -> Row:
    """An operator of one tensor, computed in the result's element type."""
    return lambda t, a: t.op(name, t.to(a.self, t.dtype))


def predicate(name: str, whole: bool) -> Row:
    """A question about floats; of integers the answer is `whole`."""

    def row(t: Context, a: Args) -> Operand:
        x = t.type(a.self)
        if x.dtype.is_float:
            return t.op(name, a.self)
        return t.op("full", shape=x.dims, value=whole, dtype=DType.bool)

    return row


def rounding(name: str) -> Row:
    """Floor and the like, which leave integers as they are."""
    return lambda t, a: t.op(name, a.self) if t.dtype.is_float else a.self


def pair(t: Context, name: str, x: Value, y: Value, dtype: DType) -> Operand:
    """An operator of two operands in one element type, of which at least one must be a tensor for the operator."""
    left, right = t.to(x, dtype), t.to(y, dtype)
    if not (is_tensor(left) or is_tensor(right)):
        left = t.tensor(x, dtype)
    return t.op(name, left, right)


def binary(name: str, of_bool: str | None = None) -> Row:
    """An operator of two operands in the result's element type; `of_bool` is what it means for bools."""

    def row(t: Context, a: Args) -> Operand:
        return pair(t, of_bool if t.dtype.is_bool and of_bool else name, a.self, a.other, t.dtype)

    return row


def additive(name: str) -> Row:
    """add and sub, with `alpha` a factor of the second operand."""

    def row(t: Context, a: Args) -> Operand:
        return added(t, name, a.self, a.other, a.get("alpha", 1))

    return row


def added(t: Context, name: str, x: Value, y: Value, alpha: Value) -> Operand:
    if t.dtype.is_bool:
        return pair(t, "logical_or", x, y, t.dtype)
    if alpha != 1:
        y = pair(t, "mul", y, alpha, t.dtype)
    return pair(t, name, x, y, t.dtype)


def rsub(t: Context, a: Args) -> Operand:
    return added(t, "sub", a.other, a.self, a.alpha) if a.alpha == 1 else pair(
        t, "sub", a.other, pair(t, "mul", a.self, a.alpha, t.dtype), t.dtype
    )  # fmt: skip


def comparison(name: str) -> Row:
    return lambda t, a: pair(t, name, a.self, a.other, t.promoted(a.self, a.other))


def logical(name: str) -> Row:
    return lambda t, a: pair(t, name, a.self, a.other, DType.bool)


def div_mode(t: Context, a: Args) -> Operand:
    return divided(t, a.self, a.other, a.rounding_mode)


def divided(t: Context, x: Value, y: Value, mode: str | None) -> Operand:
    if mode == "floor":
        return pair(t, "floordiv", x, y, t.dtype)
    if mode == "trunc" and t.dtype.is_int:
        left, right = t.tensor(x, t.dtype), t.tensor(y, t.dtype)
        return t.op("floordiv", t.op("sub", left, t.op("fmod", left, right)), right)
    quotient = pair(t, "div", x, y, t.dtype)
    return t.op("trunc", quotient) if mode == "trunc" else quotient


def power(t: Context, a: Args) -> Operand:
    x, y = a.self, a.exponent
    if t.dtype.is_float and isinstance(y, (int, float)) and not isinstance(y, bool):
        named = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal", 2: "square"}.get(y)
        if named is not None:
            return t.op(named, t.to(x, t.dtype))
        if y == 3:
            base = t.to(x, t.dtype)
            return t.op("mul", t.op("square", base), base)
    if t.dtype.is_int and isinstance(y, int) and y < 0:
        raise t.fail("integers have no negative powers", "convert the base to floating point")
    return pair(t, "pow", x, y, t.dtype)


def where(t: Context, a: Args) -> Operand:
    condition, x, y = t.to(a.condition, DType.bool), t.to(a.self, t.dtype), t.to(a.other, t.dtype)
    if not (is_tensor(x) or is_tensor(y)):
        x = t.tensor(a.self, t.dtype)
    return t.op("where", condition, x, y)


def clamp(t: Context, a: Args) -> Operand:
    low, high = a.get("min"), a.get("max")
    limits = [None if v is None else t.to(v, t.dtype) for v in (low, high)]
    return t.op("clamp", t.to(a.self, t.dtype), *limits)


def gelu(t: Context, a: Args) -> Operand:
    return t.op("gelu_tanh" if a.approximate == "tanh" else "gelu", a.self)


def elu(t: Context, a: Args) -> Operand:
    x = a.self
    if a.scale == 1 and a.input_scale == 1:
        return t.op("elu", x, alpha=float(a.alpha))
    grown = t.op("expm1", t.op("mul", x, float(a.input_scale)))
    negative = t.op("mul", grown, float(a.alpha * a.scale))
    return t.op("where", t.op("gt", x, 0.0), t.op("mul", x, float(a.scale)), negative)


def softplus(t: Context, a: Args) -> Operand:
    """torch takes x itself above `threshold`; the formula without overflow differs there by less than a rounding."""
    smooth = t.op("softplus", a.self, beta=float(a.beta))
    if a.threshold >= 20:
        return smooth
    straight = t.op("gt", t.op("mul", a.self, float(a.beta)), float(a.threshold))
    return t.op("where", straight, a.self, smooth)


def hardtanh(t: Context, a: Args) -> Operand:
    return t.op("clamp", a.self, t.to(a.min_val, t.dtype), t.to(a.max_val, t.dtype))


def sign(t: Context, a: Args) -> Operand:
    """torch's sign of NaN is 0."""
    if t.dtype.is_bool:
        return a.self  # type: ignore[no-any-return]
    made = t.op("sign", a.self)
    return t.op("where", t.op("isnan", a.self), 0.0, made) if t.dtype.is_float else made


def remainder(t: Context, a: Args) -> Operand:
    """`mod`, but that a remainder of zero has the sign of the dividend."""
    made = pair(t, "mod", a.self, a.other, t.dtype)
    if not t.dtype.is_float:
        return made
    return t.op("where", t.op("eq", made, 0.0), pair(t, "mul", a.self, 0.0, t.dtype), made)


def convert(t: Context, a: Args) -> Operand:
    """A conversion to the dtype that torch says the result has."""
    x: Value = a.get("self", a.get("a"))
    return t.tensor(x, t.dtype)


def same(t: Context, a: Args) -> Operand:
    """A copy or another name of the same values; values here never change."""
    return a.self  # type: ignore[no-any-return]


def copy(t: Context, a: Args) -> Operand:
    return t.broadcast(t.to(a.src, t.dtype), t.type(a.self).dims)


def extremum(name: str, of_bool: str) -> Row:
    return binary(name, of_bool)


def nan_to_num(t: Context, a: Args) -> Operand:
    if not t.dtype.is_float:
        return a.self  # type: ignore[no-any-return]
    largest = _LARGEST[t.dtype]
    high = largest if a.posinf is None else a.posinf
    low = -largest if a.neginf is None else a.neginf
    x = t.op("where", t.op("eq", a.self, math.inf), float(high), a.self)
    x = t.op("where", t.op("eq", x, -math.inf), float(low), x)
    return t.op("where", t.op("isnan", x), 0.0 if a.nan is None else float(a.nan), x)


_LARGEST = {
    DType.f64: 1.7976931348623157e308,
    DType.f32: 3.4028234663852886e38,
    DType.f16: 65504.0,
    DType.bf16: 3.3895313892515355e38,
}


def masked_fill(t: Context, a: Args) -> Operand:
    x = t.to(a.self, t.dtype)
    return t.op("where", t.to(a.mask, DType.bool), t.to(a.value, t.dtype), x)


def addcmul(t: Context, a: Args) -> Operand:
    product = pair(t, "mul", a.tensor1, a.tensor2, t.dtype)
    if a.value != 1:
        product = pair(t, "mul", product, a.value, t.dtype)
    return pair(t, "add", a.self, product, t.dtype)


def dropped(t: Context, a: Args) -> Operand:
    """Dropout, which in inference leaves its operand as it is."""
    if a.train and a.p:
        raise t.fail("random numbers are not supported", "export the model in inference mode: `model.eval()`")
    return a.input  # type: ignore[no-any-return]


_SAME_NAME = (
    "abs acos acosh asin asinh atan atanh cos cosh erf exp exp2 expm1 log log10 log1p log2 neg reciprocal rsqrt "
    "sigmoid sin sinh sqrt tan tanh silu hardswish hardsigmoid square relu"
)
_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")

POINTWISE: Mapping[str, Row] = {
    **{f"aten.{n}.default": unary(n) for n in _SAME_NAME.split()},
    **{f"aten.{n}.default": rounding(n) for n in ("floor", "ceil", "trunc", "round")},
    **{f"aten.{n}.{kind}": comparison(n) for n in _COMPARED for kind in ("Tensor", "Scalar")},
    **{f"aten.{n}.default": logical(n) for n in ("logical_and", "logical_or", "logical_xor")},
    **{
        f"aten.{n}.{kind}": binary(n)
        for n in ("bitwise_and", "bitwise_or", "bitwise_xor")
        for kind in ("Tensor", "Scalar", "Scalar_Tensor")
    },
    **{f"aten.add.{kind}": additive("add") for kind in ("Tensor", "Scalar")},
    **{f"aten.sub.{kind}": additive("sub") for kind in ("Tensor", "Scalar")},
    **{f"aten.rsub.{kind}": rsub for kind in ("Tensor", "Scalar")},
    **{f"aten.mul.{kind}": binary("mul", "logical_and") for kind in ("Tensor", "Scalar")},
    **{f"aten.div.{kind}": binary("div") for kind in ("Tensor", "Scalar")},
    **{f"aten.div.{kind}": div_mode for kind in ("Tensor_mode", "Scalar_mode")},
    "aten.floor_divide.default": lambda t, a: divided(t, a.self, a.other, "floor"),
    **{f"aten.fmod.{kind}": binary("fmod") for kind in ("Tensor", "Scalar")},
    **{f"aten.remainder.{kind}": remainder for kind in ("Tensor", "Scalar", "Scalar_Tensor")},
    **{f"aten.pow.{kind}": power for kind in ("Tensor_Tensor", "Tensor_Scalar", "Scalar")},
    "aten.atan2.default": binary("atan2"),
    "aten.maximum.default": extremum("maximum", "logical_or"),
    "aten.minimum.default": extremum("minimum", "logical_and"),
    **{f"aten.bitwise_left_shift.{k}": binary("left_shift") for k in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")},
    **{f"aten.bitwise_right_shift.{k}": binary("right_shift") for k in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")},
    "aten.bitwise_not.default": unary("bitwise_not"),
    "aten.logical_not.default": lambda t, a: t.op("logical_not", t.to(a.self, DType.bool)),
    "aten.isnan.default": predicate("isnan", False),
    "aten.isinf.default": predicate("isinf", False),
    "aten.isfinite.default": predicate("isfinite", True),
    "aten.sign.default": sign,
    "aten.where.self": where,
    "aten.clamp.default": clamp,
    "aten.clamp.Tensor": clamp,
    "aten.clamp_min.default": clamp,
    "aten.clamp_max.default": clamp,
    "aten.gelu.default": gelu,
    "aten.elu.default": elu,
    "aten.softplus.default": softplus,
    "aten.hardtanh.default": hardtanh,
    "aten.leaky_relu.default": lambda t, a: t.op("leaky_relu", a.self, negative_slope=float(a.negative_slope)),
    "aten.relu6.default": lambda t, a: t.op("clamp", a.self, t.to(0, t.dtype), t.to(6, t.dtype)),
    "aten.nan_to_num.default": nan_to_num,
    "aten.masked_fill.Scalar": masked_fill,
    "aten.masked_fill.Tensor": masked_fill,
    "aten.addcmul.default": addcmul,
    "aten._to_copy.default": convert,
    "prims.convert_element_type.default": convert,
    "aten.clone.default": same,
    "aten.alias.default": same,
    "aten.detach.default": same,
    "aten.lift_fresh_copy.default": same,
    "aten.lift_fresh.default": same,  # given to a constant, which a decomposition would meet as a tensor that is real
    "aten.lift.default": same,
    "aten.contiguous.default": same,
    "aten.dropout.default": dropped,
    "aten.copy.default": copy,
}
