"""Rows of calls with complex arguments or results: what complex numbers are stands in `complexes.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir.dims import Dim
from ...ir.facts import Compare
from ...ir.graph import Operand
from ...ir.types import DType
from . import complex_math as cm
from .complexes import Complex
from .context import Args, Context, Row, is_tensor
from .table_direct import DIRECT
from .table_index import INDEX
from .table_nn import NN
from .table_pointwise import POINTWISE
from .table_reduce import REDUCE
from .table_scan import SCAN
from .table_shape import SHAPE, filled, made_shape

ComplexRow = Callable[[Context, Args], Any]
"""A row whose arguments and results may be `Complex`."""

_REAL: Mapping[str, Row] = {**POINTWISE, **SHAPE, **REDUCE, **SCAN, **NN, **INDEX, **DIRECT}


def whole(t: Context, x: Complex) -> Complex:
    """Both parts in one shape: one made of a number may have none of its own."""
    shape = t.common(t.type(x.re).dims, t.type(x.im).dims)
    return x.each(lambda part: t.broadcast(part, shape))


def by_parts(name: str, *values: str) -> ComplexRow:
    """What is done to either part alike by the row of real tensors; `values` are the arguments that have parts."""
    real = _REAL[name]

    def row(t: Context, a: Args) -> Any:
        made = [real(t, a.changed({n: _part(t, a.get(n), i) for n in values})) for i in (0, 1)]
        if isinstance(made[0], (tuple, list)):
            return [Complex(re, im) for re, im in zip(*made, strict=True)]
        return Complex(*made)  # type: ignore[arg-type]

    return row


def _part(t: Context, value: Any, which: int) -> Any:
    if isinstance(value, (list, tuple)):
        return [_part(t, v, which) for v in value]
    if isinstance(value, Complex):
        return value.im if which else value.re
    if isinstance(value, complex):
        return value.imag if which else value.real
    if not which or value is None:
        return value
    return cm.zeros(t, value, t.type(value).dtype) if is_tensor(value) else 0.0


def unary(of: Callable[[Context, Complex], Any]) -> ComplexRow:
    """Of one complex tensor, in the type of its parts."""
    return lambda t, a: of(t, a.self)


def binary(of: Callable[[Context, Complex, Complex], Complex]) -> ComplexRow:
    return lambda t, a: whole(t, of(t, cm.parts(t, a.self), cm.parts(t, a.other)))


def sum_of(sign: Callable[[Context, Complex, Complex], Complex], swapped: bool = False) -> ComplexRow:
    """add, sub and rsub, with `alpha` a factor of one operand."""

    def row(t: Context, a: Args) -> Any:
        x, y = cm.parts(t, a.self), cm.parts(t, a.other)
        alpha = a.get("alpha", 1)
        if alpha != 1:
            x, y = (cm.mul(t, x, cm.parts(t, alpha)), y) if swapped else (x, cm.mul(t, y, cm.parts(t, alpha)))
        return whole(t, sign(t, y, x) if swapped else sign(t, x, y))

    return row


def powers(t: Context, a: Args) -> Any:
    y = a.exponent
    number = y.real if isinstance(y, complex) and y.imag == 0 else y
    if isinstance(number, (int, float)) and not is_tensor(number):
        if number == 0:
            shape = t.type(cm.parts(t, a.self).re).dims
            return Complex(filled(t, 1.0, shape), filled(t, 0.0, shape))
        return whole(t, cm.power(t, cm.parts(t, a.self), number))
    return whole(t, cm.power(t, cm.parts(t, a.self), cm.parts(t, y) if not isinstance(y, Complex) else y))


def equality(name: str, both: str) -> ComplexRow:
    def row(t: Context, a: Args) -> Operand:
        kinds = [t.type(v.re).dtype for v in (a.self, a.other) if isinstance(v, Complex)]
        dtype = DType.f64 if DType.f64 in kinds else kinds[0]
        x, y = cm.parts(t, a.self, dtype), cm.parts(t, a.other, dtype)
        return t.op(both, t.op(name, x.re, y.re), t.op(name, x.im, y.im))

    return row


def predicate(name: str, both: str) -> ComplexRow:
    return lambda t, a: t.op(both, t.op(name, a.self.re), t.op(name, a.self.im))


def truth(name: str) -> ComplexRow:
    """Of whether the operands are other than 0."""

    def row(t: Context, a: Args) -> Operand:
        return t.op(
            name, *(nonzero(t, x) if isinstance(x, Complex) else t.to(x, DType.bool) for x in (a.self, a.other))
        )

    return row


def nonzero(t: Context, x: Complex) -> Operand:
    return t.op("logical_or", t.op("ne", x.re, 0.0), t.op("ne", x.im, 0.0))


def any_or_all(name: str) -> ComplexRow:
    real = _REAL[name]
    return lambda t, a: real(t, a.changed({"self": nonzero(t, a.self)}))


def is_zero(t: Context, a: Args) -> Operand:
    return t.op("logical_not", nonzero(t, a.self))


def converted(t: Context, a: Args) -> Any:
    """Between complex types, from a real one, and to one, which drops the imaginary parts."""
    x = a.get("self", a.get("a"))
    if not t.complex_result:
        if t.dtype.is_bool:
            return nonzero(t, x)
        return t.to(x.re, t.dtype)
    return whole(t, cm.parts(t, x))


def constant(value: float) -> ComplexRow:
    def row(t: Context, a: Args) -> Any:
        like = a.get("self")
        given = a.changed({"self": like.re}) if isinstance(like, Complex) else a
        shape = made_shape(t, given)
        return Complex(filled(t, value, shape), filled(t, 0.0, shape))

    return row


def product(first: str, second: str, name: str) -> ComplexRow:
    """Of matrices and the like, which is linear in both operands: four of real ones."""
    real = _REAL[name]

    def row(t: Context, a: Args) -> Any:
        x, y = cm.parts(t, a.get(first)), cm.parts(t, a.get(second))
        return times(t, a, real, x, y, first, second)

    return row


def times(t: Context, a: Args, real: Row, x: Complex, y: Complex, first: str, second: str) -> Complex:
    def of(left: Operand, right: Operand) -> Any:
        return real(t, a.changed({first: left, second: right, "bias": None}))

    re = t.op("sub", of(x.re, y.re), of(x.im, y.im))
    return Complex(re, t.op("add", of(x.re, y.im), of(x.im, y.re)))


def affine(name: str, first: str, second: str) -> ComplexRow:
    """A product with a bias, which is added along the axis that the real operator adds it along."""
    real = _REAL[name]

    def row(t: Context, a: Args) -> Any:
        made = times(t, a, real, cm.parts(t, a.get(first)), cm.parts(t, a.get(second)), first, second)
        if a.bias is None:
            return made
        behind = 0 if name == "aten.linear.default" else t.ranks[0] - 2
        bias = cm.parts(t, a.bias)
        size = t.type(bias.re).dims
        return cm.add(t, made, bias.each(lambda part: t.reshaped(part, (*size, *(1,) * behind))))

    return row


def added_product(first: str, second: str, name: str) -> ComplexRow:
    """beta self + alpha (first @ second)."""

    def row(t: Context, a: Args) -> Any:
        made = times(t, a, _REAL[name], cm.parts(t, a.get(first)), cm.parts(t, a.get(second)), "self", _SECOND[name])
        if a.alpha != 1:
            made = cm.mul(t, made, cm.parts(t, a.alpha))
        if a.beta == 0:
            return made
        own = cm.parts(t, a.self)
        return cm.add(t, own if a.beta == 1 else cm.mul(t, own, cm.parts(t, a.beta)), made)

    return row


_SECOND = {"aten.mm.default": "mat2", "aten.bmm.default": "mat2", "aten.mv.default": "vec"}


def addcmul(of: Callable[[Context, Complex, Complex], Complex]) -> ComplexRow:
    def row(t: Context, a: Args) -> Any:
        made = of(t, cm.parts(t, a.tensor1), cm.parts(t, a.tensor2))
        if a.value != 1:
            made = cm.mul(t, made, cm.parts(t, a.value))
        return whole(t, cm.add(t, cm.parts(t, a.self), made))

    return row


def variance(name: str, root: bool) -> ComplexRow:
    """That of the real parts and that of the imaginary ones together."""
    real = _REAL[name]

    def row(t: Context, a: Args) -> Operand:
        made = t.op("add", *(real(t, a.changed({"self": part})) for part in (a.self.re, a.self.im)))
        return t.op("sqrt", made) if root else made

    return row


def with_mean(name: str) -> ComplexRow:
    spread = variance(name.replace("std", "var"), "std" in name)
    return lambda t, a: [spread(t, a), by_parts("aten.mean.dim", "self")(t, a)]


def eye(t: Context, a: Args) -> Complex:
    real = _REAL["aten.eye.default"](t, a)
    return Complex(real, cm.zeros(t, real, t.dtype))  # type: ignore[arg-type]


def norm(t: Context, a: Args) -> Any:
    return _REAL["aten.linalg_vector_norm.default"](t, a.changed({"self": cm.magnitude(t, a.self)}))


# ------------------------------------------------------------------------------------------------------- views


def view_as_real(t: Context, a: Args) -> Operand:
    return t.op("stack", a.self.re, a.self.im, axis=-1)


def view_as_complex(t: Context, a: Args) -> Complex:
    last = t.rank(a.self) - 1
    re, im = (t.op("squeeze", t.op("slice", a.self, axis=last, start=i, stop=i + 1), axis=last) for i in (0, 1))
    return Complex(re, im)


def made_of_parts(t: Context, a: Args) -> Complex:
    return whole(t, Complex(t.to(a.real, t.dtype), t.to(a.imag, t.dtype)))


def polar(t: Context, a: Args) -> Complex:
    return whole(t, cm.polar_of(t, t.to(a.abs, t.dtype), t.to(a.angle, t.dtype)))


# --------------------------------------------------------------------------------------------------- transforms


def normalised(t: Context, x: Any, sizes: Sequence[Dim], mode: int) -> Any:
    """Divided by the root of the number of elements transformed (1), by the number (2), or not (0)."""
    if mode == 0:
        return x
    count = Dim.product(tuple(sizes))
    if count.is_const:
        by: Any = 1 / (math.sqrt(count.value) if mode == 1 else count.value)
    else:
        number = t.to(count, DType.f64)
        by = t.to(t.op("rsqrt" if mode == 1 else "reciprocal", number), t.dtype)
    return cm.scaled(t, x, by) if isinstance(x, Complex) else t.op("mul", x, by)


def lengths(t: Context, x: Operand, axes: Sequence[int]) -> list[Dim]:
    """The sizes of axes to be transformed: torch refuses to transform nothing."""
    found = [t.type(x).dims[axis] for axis in axes]
    for size in found:
        t.need(Compare("<=", 1, size), f"`{t.target}` of no elements has no value")
    return found


def transformed(t: Context, x: Complex, axes: Sequence[int], inverse: bool) -> Complex:
    for axis in axes:
        x = Complex(*t.b.fft(x.re, x.im, axis=axis, inverse=inverse))
    return x


def fft_c2c(t: Context, a: Args) -> Any:
    axes = [t.axis(d, a.self.re) for d in a.dim]
    sizes = lengths(t, a.self.re, axes)
    return normalised(t, transformed(t, a.self, axes, not a.forward), sizes, a.normalization)


def fft_r2c(t: Context, a: Args) -> Any:
    """Along the last axis of those named first: it is the one that is halved."""
    *others, last = [t.axis(d, a.self) for d in a.dim]
    sizes = lengths(t, a.self, (*others, last))
    x = t.to(a.self, t.dtype)
    first = Complex(*(t.b.rfft(x, axis=last) if a.onesided else t.b.fft(x, axis=last)))
    return normalised(t, transformed(t, first, others, False), sizes, a.normalization)


def fft_c2r(t: Context, a: Args) -> Operand:
    *others, last = [t.axis(d, a.self.re) for d in a.dim]
    size = Dim.of(a.last_dim_size)
    sizes = [*lengths(t, a.self.re, others), size]
    t.need(Compare("<=", 1, size), f"`{t.target}` of no elements has no value")
    x = transformed(t, a.self, others, True)
    made = t.op("irfft", x.re, x.im, n=size, axis=last)
    return normalised(t, made, sizes, a.normalization)  # type: ignore[no-any-return]


_FROM_REALS: Mapping[str, ComplexRow] = {
    "aten.view_as_real.default": view_as_real,
    "aten.view_as_complex.default": view_as_complex,
    "aten.complex.default": made_of_parts,
    "aten.polar.default": polar,
    "aten._fft_c2c.default": fft_c2c,
    "aten._fft_r2c.default": fft_r2c,
    "aten._fft_c2r.default": fft_c2r,
}
MADE_COMPLEX = frozenset(_FROM_REALS)
"""Operators of complex numbers whatever they are given: torch's own decompositions of them do not trace."""

_OF_SELF = (
    "view.default _unsafe_view.default reshape.default flatten.using_ints unflatten.int expand.default permute.default "
    "t.default transpose.int squeeze.default squeeze.dim squeeze.dims unsqueeze.default slice.Tensor select.int "
    "split.Tensor split_with_sizes.default unbind.int flip.default roll.default repeat.default diagonal.default "
    "tril.default triu.default reflection_pad1d.default reflection_pad2d.default reflection_pad3d.default "
    "replication_pad1d.default replication_pad2d.default replication_pad3d.default clone.default alias.default "
    "detach.default detach_.default lift_fresh_copy.default lift_fresh.default lift.default contiguous.default "
    "sum.default sum.dim_IntList mean.default mean.dim cumsum.default index_select.default gather.default "
    "index.Tensor _unsafe_index.Tensor as_strided.default chunk.default repeat_interleave.self_int"
)
_WITH_SOURCE: Mapping[str, tuple[str, ...]] = {
    "aten.cat.default": ("tensors",),
    "aten.stack.default": ("tensors",),
    "aten.constant_pad_nd.default": ("self", "value"),
    "aten.full.default": ("fill_value",),
    "aten.full_like.default": ("self", "fill_value"),
    "aten.new_full.default": ("self", "fill_value"),
    "aten.fill.Scalar": ("self", "value"),
    "aten.fill.Tensor": ("self", "value"),
    "aten.scalar_tensor.default": ("s",),
    "aten.copy.default": ("self", "src"),
    "aten.where.self": ("self", "other"),
    **{f"aten.where.Scalar{which}": ("self", "other") for which in ("", "Other", "Self")},
    "aten.masked_fill.Scalar": ("self", "value"),
    "aten.masked_fill.Tensor": ("self", "value"),
    "aten.embedding.default": ("weight",),
    "aten.index_put.default": ("self", "values"),
    "aten._unsafe_index_put.default": ("self", "values"),
    "aten.scatter.src": ("self", "src"),
    "aten.scatter.value": ("self", "value"),
    "aten.scatter_add.default": ("self", "src"),
    "aten.slice_scatter.default": ("self", "src"),
    "aten.select_scatter.default": ("self", "src"),
    "aten.masked_scatter.default": ("self", "source"),
}
_FUNCTIONS: Mapping[str, Callable[[Context, Complex], Any]] = {
    "abs": cm.magnitude,
    "angle": cm.phase,
    "acos": cm.acos,
    "acosh": cm.acosh,
    "asin": cm.turned(cm.asinh),
    "asinh": cm.asinh,
    "atan": cm.turned(cm.atanh),
    "atanh": cm.atanh,
    "cos": cm.cos,
    "cosh": cm.cosh,
    "exp": cm.exp,
    "exp2": cm.exp2,
    "expm1": cm.expm1,
    "log": cm.log,
    "log1p": cm.log1p,
    "log10": lambda t, x: cm.scaled(t, cm.log(t, x), 1 / math.log(10)),
    "log2": lambda t, x: cm.scaled(t, cm.log(t, x), 1 / math.log(2)),
    "neg": cm.neg,
    "reciprocal": cm.reciprocal,
    "rsqrt": lambda t, x: cm.reciprocal(t, cm.sqrt(t, x)),
    "sgn": cm.sgn,
    "sigmoid": cm.sigmoid,
    "sin": cm.turned(cm.sinh),
    "sinh": cm.sinh,
    "sqrt": cm.sqrt,
    "square": lambda t, x: cm.mul(t, x, x),
    "tan": cm.turned(cm.tanh),
    "tanh": cm.tanh,
    "_conj": cm.conj,
    "conj_physical": cm.conj,
    "_conj_physical": cm.conj,
    "_neg_view": cm.neg,
    "real": lambda t, x: x.re,
    "imag": lambda t, x: x.im,
}

COMPLEX: Mapping[str, ComplexRow] = {
    **{f"aten.{n}": by_parts(f"aten.{n}", "self") for n in _OF_SELF.split()},
    **{n: by_parts(n, *values) for n, values in _WITH_SOURCE.items()},
    **{f"aten.{n}.default": unary(f) for n, f in _FUNCTIONS.items()},
    **{f"aten.{n}.default": constant(0.0) for n in ("zeros", "zeros_like", "new_zeros")},
    **{f"aten.{n}.default": constant(1.0) for n in ("ones", "ones_like", "new_ones")},
    **{f"aten.{n}": constant(0.0) for n in ("empty.memory_format", "empty_strided.default", "empty_permuted.default")},
    **{f"aten.{n}.default": lambda t, a: a.self for n in ("resolve_conj", "resolve_neg")},
    **{f"aten.to.{kind}": converted for kind in ("device", "dtype", "dtype_layout", "other")},
    "aten._to_copy.default": converted,
    "aten.type_as.default": converted,
    "prims.convert_element_type.default": converted,
    **{f"aten.add.{kind}": sum_of(cm.add) for kind in ("Tensor", "Scalar")},
    **{f"aten.sub.{kind}": sum_of(cm.sub) for kind in ("Tensor", "Scalar")},
    **{f"aten.rsub.{kind}": sum_of(cm.sub, swapped=True) for kind in ("Tensor", "Scalar")},
    **{f"aten.mul.{kind}": binary(cm.mul) for kind in ("Tensor", "Scalar")},
    **{f"aten.div.{kind}": binary(cm.div) for kind in ("Tensor", "Scalar")},
    **{f"aten.pow.{kind}": powers for kind in ("Tensor_Tensor", "Tensor_Scalar", "Scalar")},
    **{f"aten.eq.{kind}": equality("eq", "logical_and") for kind in ("Tensor", "Scalar")},
    **{f"aten.ne.{kind}": equality("ne", "logical_or") for kind in ("Tensor", "Scalar")},
    "aten.addcmul.default": addcmul(cm.mul),
    "aten.addcdiv.default": addcmul(cm.div),
    "aten.isnan.default": predicate("isnan", "logical_or"),
    "aten.isinf.default": predicate("isinf", "logical_or"),
    "aten.isfinite.default": predicate("isfinite", "logical_and"),
    "aten.logical_not.default": is_zero,
    "aten.matmul.default": product("self", "other", "aten.matmul.default"),
    "aten.mm.default": product("self", "mat2", "aten.mm.default"),
    "aten.bmm.default": product("self", "mat2", "aten.bmm.default"),
    "aten.mv.default": product("self", "vec", "aten.mv.default"),
    "aten.dot.default": product("self", "tensor", "aten.dot.default"),
    "aten.linear.default": affine("aten.linear.default", "input", "weight"),
    "aten.convolution.default": affine("aten.convolution.default", "input", "weight"),
    "aten.addmm.default": added_product("mat1", "mat2", "aten.mm.default"),
    "aten.baddbmm.default": added_product("batch1", "batch2", "aten.bmm.default"),
    "aten.addmv.default": added_product("mat", "vec", "aten.mv.default"),
    **{f"aten.var.{kind}": variance(f"aten.var.{kind}", False) for kind in ("correction", "dim", "default")},
    **{f"aten.std.{kind}": variance(f"aten.var.{kind}", True) for kind in ("correction", "dim", "default")},
    **{f"aten.{n}_mean.correction": with_mean(f"aten.{n}.correction") for n in ("var", "std")},
    **{f"aten.logical_{n}.default": truth(f"logical_{n}") for n in ("and", "or", "xor")},
    **{n: any_or_all(n) for n in (f"aten.{a}.{k}" for a in ("any", "all") for k in ("default", "dim", "dims"))},
    "aten.eye.default": eye,
    "aten.eye.m": eye,
    "aten.linalg_vector_norm.default": norm,
    **_FROM_REALS,
}
