"""Operators that torch would decompose, kept where that spares decomposing the whole program.

torch's decomposition traces a program twice again, which takes longer than all else in an import; most programs of
linear layers, norms and attention are in operators with rows but for these few.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.graph import Operand
from .context import Args, Context, Row
from .table_nn import convolution
from .table_pointwise import binary, convert, same
from .table_reduce import softmax
from .table_shape import constant, full


def plain_convolution(t: Context, a: Args) -> Operand:
    own = {n: a.get(n) for n in ("input", "weight", "bias", "stride", "padding", "dilation", "groups")}
    return convolution(t, Args(own | {"transposed": False, "output_padding": 0}))


DIRECT: Mapping[str, Row] = {
    **{f"aten.to.{kind}": convert for kind in ("device", "dtype", "dtype_layout", "other")},
    **{f"aten.conv{n}d.default": plain_convolution for n in (1, 2, 3)},
    "aten.__and__.Tensor": binary("bitwise_and"),
    "aten.__or__.Tensor": binary("bitwise_or"),
    "aten.detach_.default": same,
    "aten.log_softmax.int": softmax("log_softmax"),
    "aten.new_full.default": full,
    "aten.new_ones.default": constant(1),
    "aten.new_zeros.default": constant(0),
    "aten.softmax.int": softmax("softmax"),
}
