"""Drawing operators with windows, channels and heads, and those that write at places or put in order."""

from __future__ import annotations

from hypothesis import strategies as st

from pliant.ir.dims import Dim
from pliant.ir.types import DType
from tests.random_drawing import Value
from tests.random_moving import Moving

CHANNELS = Dim.of(4)
_BOOL = st.booleans()


class Windows(Moving):
    """Convolutions, pooling, attention, group and batch norms, scatters."""

    def image(self) -> Value:
        """A value [.., 4 channels, length] of f32."""
        return self.value(lambda v: v.type.dtype is DType.f32 and v.rank in (3, 4) and v.type.dims[1] == CHANNELS)

    def made(self, *shape: int) -> Value:
        """A tensor of numbers between -1/2 and 1/2."""
        size = 1
        for s in shape:
            size *= s
        flat = self.f.mul(self.f.sin(self.f.iota(shape=[size], axis=0, dtype=DType.f32)), 0.5)
        whole = self.f.reshape(flat, shape=shape)
        return Value(whole, self.f.type(whole), False)

    def conv(self) -> None:
        v = self.image()
        groups = self.one((1, 1, 2, 4))
        window = [self.one((1, 3)) for _ in range(v.rank - 2)]
        operands = [v, self.made(8, 4 // groups, *window)]
        if self.draw(_BOOL):
            operands.append(self.made(8))
        more = {
            "stride": self.one((1, 2)),
            "padding": self.one((1, 2)),
            "dilation": self.one((1, 1, 2)),
            "groups": groups,
        }
        self.emit("conv", *operands, **more, exact=False)

    def conv_transpose(self) -> None:
        v = self.image()
        window = [self.one((2, 3)) for _ in range(v.rank - 2)]
        self.emit("conv_transpose", v, self.made(4, 3, *window), stride=self.one((1, 2)), exact=False)

    def pool_(self) -> None:
        v = self.value(lambda v: v.is_float and v.rank in (3, 4))
        op = self.one(("max_pool", "avg_pool"))
        more = {
            "kernel_size": self.one((2, 3)),
            "stride": self.one((1, 2)),
            "padding": 1,
            "ceil_mode": self.draw(_BOOL),
        }
        self.emit(op, v, **more, exact=v.exact and op == "max_pool")

    def adaptive(self) -> None:
        v = self.value(lambda v: v.is_float and v.rank in (3, 4))
        op = self.one(("adaptive_max_pool", "adaptive_avg_pool"))
        self.emit(op, v, output_size=self.one((1, 2, 3)), exact=v.exact and "max" in op)

    def attention(self) -> None:
        v = self.value(lambda v: v.type.dtype is DType.f32 and v.rank in (3, 4))
        k = self.value(lambda o: o.type.dtype is v.type.dtype and o.rank == v.rank and o.type.dims == v.type.dims)
        self.emit("attention", v, k, self.one((v, k)), causal=self.draw(_BOOL), exact=False)

    def group_norm(self) -> None:
        v = self.value(lambda v: v.is_float and v.rank >= 2 and v.type.dims[1] == CHANNELS)
        self.emit("group_norm", v, groups=self.one((1, 2, 4)), eps=0.1, exact=False)

    def batch_norm(self) -> None:
        v = self.image()
        variance = self.f.add(self.f.abs(self.made(4).operand), 0.5)
        self.emit(
            "batch_norm", v, self.made(4), variance, *(self.made(4) for _ in range(self.integer(0, 2))), exact=False
        )

    def topk(self) -> None:
        v = self.value(lambda v: v.rank >= 1 and v.exact and not v.type.dtype.is_bool)
        more = {"k": self.one((0, 1, 2)), "axis": self.integer(0, v.rank - 1), "largest": self.draw(_BOOL)}
        self.emit("topk", v, **more, exact=True)

    def scatter(self) -> None:
        v = self.value(lambda v: v.rank >= 1 and not v.type.dtype.is_bool)
        o = self.value(lambda o: o.type == v.type)
        axis = self.integer(0, v.rank - 1)
        places = self.f.iota(shape=v.type.dims, axis=axis)
        if self.draw(_BOOL):
            places = self.f.floordiv(places, 2)  # two at one place: the last one stays
        reduce = self.one(("set", "add", "max", "min", "mean"))
        exact = v.exact and o.exact and (reduce in ("set", "max", "min") or not v.is_float)
        self.emit("scatter", v, places, o, axis=axis, reduce=reduce, exact=exact)

    def slice_scatter(self) -> None:
        v = self.value(lambda v: v.rank >= 1)
        o = self.value(lambda o: o.type.dtype is v.type.dtype and o.rank == v.rank)
        self.emit(
            "slice_scatter", v, o, axis=self.integer(0, v.rank - 1), step=self.one((1, 2)), exact=v.exact and o.exact
        )

    def diagonal(self) -> None:
        v = self.value(lambda v: v.rank >= 2)
        self.emit("diagonal", v, axis=[0, v.rank - 1], offset=self.integer(-1, 1), exact=v.exact)

    def one_hot(self) -> None:
        size = self.size()
        self.emit("one_hot", self.indices(size), num_classes=size, dtype=self.one((DType.f32, DType.i64)), exact=True)

    def products(self) -> None:
        v = self.real(rank=1)
        near = self.f.add(self.f.mul(self.f.hardtanh(v.operand), 0.05), 1.0)
        op = self.one(("cumprod", "prod"))
        axis = self.integer(0, v.rank - 1)
        self.emit(op, Value(near, v.type, False), axis=axis, exact=False)

    def shifts(self) -> None:
        v = self.value(lambda v: v.type.dtype.is_int)
        self.emit(self.one(("left_shift", "right_shift")), v, self.integer(0, 5), exact=True)
