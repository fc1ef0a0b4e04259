"""Operators that torch would decompose, kept where that spares decomposing the whole program.

torch's decomposition traces a program twice again, which takes longer than all else in an import; most programs of
linear layers, norms and attention are in operators with rows but for these few.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.dims import Dim
from ...ir.facts import Compare
from ...ir.graph import Operand
from ...ir.types import DType
from .context import Args, Context, Row
from .table_nn import batch_norm, convolution
from .table_pointwise import binary, convert, extremum, same, unary, where
from .table_reduce import softmax
from .table_shape import chunk, constant, full, narrow, tensor_split


def plain_convolution(t: Context, a: Args) -> Operand:
    own = {n: a.get(n) for n in ("input", "weight", "bias", "stride", "padding", "dilation", "groups")}
    return convolution(t, Args(own | {"transposed": False, "output_padding": 0}))


def in_inference(node: Any) -> bool:
    """Whether a `batch_norm` uses the statistics it was given: else it changes them, and torch's rule has that."""
    training = node.args[5] if len(node.args) > 5 else node.kwargs["training"]
    return not training


def repeat_interleave(t: Context, a: Args) -> Operand:
    """Every element along `dim`, of all elements in a row without one, as often as `repeats` says."""
    x = a.self if a.dim is not None else t.op("reshape", a.self, shape=(t.type(a.self).size,))
    axis = 0 if a.dim is None else t.axis(a.dim, x)
    dims = list(t.type(x).dims)
    wide = t.broadcast(t.op("unsqueeze", x, axis=axis + 1), (*dims[: axis + 1], Dim.of(a.repeats), *dims[axis + 1 :]))
    return t.op("reshape", wide, shape=(*dims[:axis], dims[axis] * a.repeats, *dims[axis + 1 :]))


def frequencies(half: bool) -> Row:
    """0, 1, ... and, unless `half`, those below 0 after them, over n d."""

    def row(t: Context, a: Args) -> Operand:
        n = Dim.of(a.n)
        t.need(Compare("<=", 1, n), f"`{t.target}` divides by the number of elements")
        i = t.op("iota", shape=(n // 2 + 1 if half else n,), dtype=DType.i64)
        if not half:
            i = t.op("where", t.op("lt", i, t.to((n + 1) // 2, DType.i64)), i, t.op("sub", i, t.to(n, DType.i64)))
        by = t.op("reciprocal", t.op("mul", t.tensor(n, DType.f64), t.to(a.d, DType.f64)))
        return t.to(t.op("mul", t.to(i, DType.f64), by), t.dtype)  # type: ignore[no-any-return]

    return row


def orthogonal(kind: str) -> Row:
    def row(t: Context, a: Args) -> Operand:
        x, n = (t.tensor(v, t.dtype) for v in (a.x, a.n))
        shape = t.common(t.type(x).dims, t.type(n).dims)
        x, n = (t.broadcast(v, shape) for v in (x, n))
        return t.op("orthogonal_polynomial", x, n, kind=kind)

    return row


DIRECT: Mapping[str, Row] = {
    **{
        f"aten.special_{which.replace('_', '_polynomial_')}.{form}": orthogonal(which)
        for which in ("hermite_h", "hermite_he", "laguerre_l", "legendre_p")
        for form in ("default", "x_scalar", "n_scalar")
    },
    **{f"aten.to.{kind}": convert for kind in ("device", "dtype", "dtype_layout", "other")},
    **{f"aten.conv{n}d.default": plain_convolution for n in (1, 2, 3)},
    "aten.__and__.Tensor": binary("bitwise_and"),
    "aten.__or__.Tensor": binary("bitwise_or"),
    "aten._neg_view.default": unary("neg"),
    "aten.batch_norm.default": batch_norm,
    "aten.chunk.default": chunk,
    "aten.detach_.default": same,
    "aten.fft_fftfreq.default": frequencies(half=False),
    "aten.fft_rfftfreq.default": frequencies(half=True),
    "aten.log_softmax.int": softmax("log_softmax"),
    "aten.max.other": extremum("maximum", "logical_or"),
    "aten.min.other": extremum("minimum", "logical_and"),
    "aten.narrow.default": narrow,
    "aten.new_full.default": full,
    "aten.new_ones.default": constant(1),
    "aten.new_zeros.default": constant(0),
    "aten.repeat_interleave.self_int": repeat_interleave,
    "aten.softmax.int": softmax("softmax"),
    "aten.tensor_split.sections": tensor_split,
    "aten.type_as.default": convert,
    **{f"aten.where.Scalar{which}": where for which in ("", "Other", "Self")},
}
