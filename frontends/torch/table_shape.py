"""Operators on shapes, slices, and tensors made of nothing: one row an overload."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.dims import Dim
from ...ir.facts import Compare
from ...ir.graph import Operand
from ...ir.types import DType
from .context import Args, Context, Row, Value, is_tensor

_END = 1 << 62
"""Bounds of slices from here on stand for the end."""


def view(t: Context, a: Args) -> Operand:
    return t.reshaped(a.self, a.get("size", a.get("shape")))


def flatten(t: Context, a: Args) -> Operand:
    dims = t.type(a.self).dims
    if not dims:
        return t.op("reshape", a.self, shape=(1,))
    first, last = t.axis(a.start_dim, a.self), t.axis(a.end_dim, a.self)
    return t.reshaped(a.self, (*dims[:first], Dim.product(dims[first : last + 1]), *dims[last + 1 :]))


def unflatten(t: Context, a: Args) -> Operand:
    dims, axis = t.type(a.self).dims, t.axis(a.dim, a.self)
    sizes = tuple(map(Dim.of, a.sizes))
    if -1 in sizes:
        rest = Dim.product(s for s in sizes if s != -1)
        t.need(Compare("==", dims[axis] % rest, 0), f"`{t.target}` takes a size that the others divide")
        sizes = tuple(dims[axis] // rest if s == -1 else s for s in sizes)
    return t.reshaped(a.self, (*dims[:axis], *sizes, *dims[axis + 1 :]))


def expand(t: Context, a: Args) -> Operand:
    """-1 is the size that an axis has."""
    dims = t.type(a.self).dims
    lead = len(a.size) - len(dims)
    shape = [Dim.of(s) if s != -1 else dims[i - lead] for i, s in enumerate(a.size)]
    for have, wanted in zip(dims, shape[lead:], strict=True):
        if have != 1 and not t.b.facts.prove_eq(have, wanted):
            t.need(Compare("==", have, wanted), f"`{t.target}` keeps a size that is not 1", narrows=True)
    return t.broadcast(a.self, shape)


def transposed(x: Operand, t: Context, first: int, second: int) -> Operand:
    rank = t.rank(x)
    if rank < 2:
        return x
    order = list(range(rank))
    order[first % rank], order[second % rank] = order[second % rank], order[first % rank]
    return permuted(t, x, order)


def permuted(t: Context, x: Operand, order: Sequence[int]) -> Operand:
    if list(order) == list(range(len(order))):
        return x
    return t.op("permute", x, axes=tuple(order))


def permute(t: Context, a: Args) -> Operand:
    return permuted(t, a.self, [t.axis(d, a.self) for d in a.dims]) if t.rank(a.self) else a.self


def squeeze(t: Context, a: Args) -> Operand:
    """Axes of size 1; whether sizes that may be 1 are, the rank of the result says."""
    axes = t.axes(a.get("dim"), a.self, empty_is_all=a.get("dim") is None)
    dims, known = t.type(a.self).dims, t.b.facts
    one = [d for d in axes if known.prove_eq(dims[d], 1)]
    open_ = [d for d in axes if d not in one and not known.prove_ne(dims[d], 1)]
    dropped = t.rank(a.self) - t.ranks[0] - len(one)
    if dropped not in (0, len(open_)):
        raise t.fail("which of its axes have size 1 is not known", "name one axis, `x.squeeze(dim)`")
    for d in open_:
        if dropped:
            t.need(Compare("==", dims[d], 1), f"`{t.target}` keeps an axis of another size than 1", narrows=True)
        else:
            t.need(Compare("!=", dims[d], 1), f"`{t.target}` would drop an axis of size 1", narrows=True)
    one += open_ if dropped else []
    return t.op("squeeze", a.self, axis=tuple(one)) if one else a.self


def unsqueeze(t: Context, a: Args) -> Operand:
    return t.op("unsqueeze", a.self, axis=a.dim % (t.rank(a.self) + 1))


def bound(value: Value) -> Dim | int | None:
    """The end of a slice as our operator takes it; None is the one that the step starts from or goes to."""
    if isinstance(value, Dim) and value.is_const:
        value = value.value
    if value is None or (isinstance(value, int) and abs(value) >= _END):
        return None
    assert isinstance(value, (int, Dim))
    return value


def slice_(t: Context, a: Args) -> Operand:
    axis = t.axis(a.dim, a.self)
    size = t.type(a.self).dims[axis]
    start, end = (_signed(t, bound(x), size) for x in (a.start, a.end))
    if start in (None, 0) and a.step == 1 and (end is None or size == end):
        return a.self  # type: ignore[no-any-return]
    return t.op("slice", a.self, axis=axis, start=start, stop=end, step=_step(t, a.step))


def _signed(t: Context, at: Dim | int | None, size: Dim) -> Dim | int | None:
    """A bound of which it is known whether it counts from the end.

    A difference of two sizes (`x[n - m:]`) counts from the start: that it is not negative is a fact.  Of others both
    cases are computed.
    """
    if at is None or isinstance(at, int) or t.b.facts.prove_le(0, at) or t.b.facts.prove_le(at, -1):
        return at
    signs = {c > 0 for m, c in at.terms if m}
    if len(signs) == 2 and len(at.symbols) > 1:
        t.need(Compare("<=", 0, at), f"`{t.target}` counts from the end where {at} is negative", narrows=True)
        return at
    return Dim.max(at + size * Dim.max(0, Dim.min(1, -at)), 0)


def _step(t: Context, step: Value) -> int:
    if isinstance(step, Dim) and not step.is_const:
        raise t.fail(f"the step {step} is not a literal")
    return step.value if isinstance(step, Dim) else int(step)  # type: ignore[arg-type]


def position(t: Context, x: Operand, axis: int, at: Value) -> Dim:
    """A position along an axis, counted from the start and known to be inside."""
    size, where = t.type(x).dims[axis], Dim.of(at)  # type: ignore[arg-type]
    if where.is_const and where.value < 0:
        where = where + size
    elif not t.b.facts.prove_le(0, where):
        where = where if t.b.facts.prove_le(0, where) else where + size * Dim.max(0, Dim.min(1, -where))
    t.need(Compare("<=", 0, where), f"`{t.target}` takes position {at} of axis {axis}")
    t.need(Compare("<=", where + 1, size), f"`{t.target}` takes position {at} of axis {axis}")
    return where


def select(t: Context, a: Args) -> Operand:
    axis = t.axis(a.dim, a.self)
    where = position(t, a.self, axis, a.index)
    return t.op("squeeze", t.op("slice", a.self, axis=axis, start=where, stop=where + 1), axis=axis)


def parts(t: Context, x: Operand, sizes: Sequence[Any], dim: int) -> list[Operand]:
    if len(sizes) == 1:
        return [x]
    axis, total = t.axis(dim, x), Dim.of(0)
    made: list[Operand] = []
    for size in sizes:
        made.append(t.op("slice", x, axis=axis, start=total, stop=total + size))
        total = total + size
    return made


def split_with_sizes(t: Context, a: Args) -> list[Operand]:
    return parts(t, a.self, a.split_sizes, a.dim)


def split(t: Context, a: Args) -> list[Operand]:
    """Parts of one size, the last of what is left; there is one of nothing where there is nothing."""
    axis = t.axis(a.dim, a.self)
    size, part = t.type(a.self).dims[axis], Dim.of(a.split_size)
    number = Dim.max(1, Dim.ceildiv(size, part)) if part != 0 else Dim.of(1)
    return _counted(t, a, number, size, part)


def chunk(t: Context, a: Args) -> list[Operand]:
    """At most as many parts as asked for, of one size but for the last.

    Of nothing torch gives as many as asked for, each of nothing; that size is left out where there are fewer otherwise.
    """
    axis = t.axis(a.dim, a.self)
    size = t.type(a.self).dims[axis]
    part = Dim.ceildiv(size, a.chunks)
    number = Dim.ceildiv(size, Dim.max(1, part))
    return _counted(t, a, number, size, part)


def _counted(t: Context, a: Args, number: Dim, size: Dim, part: Dim) -> list[Operand]:
    """As many parts as torch has found, which is a fact."""
    count = len(t.dtypes)
    t.need(Compare("==", number, count), f"`{t.target}` gives {count} parts", narrows=True)
    last = size - part * (count - 1)
    return parts(t, a.self, [*([part] * (count - 1)), t.b.facts.simplify(last)], a.dim)


def tensor_split(t: Context, a: Args) -> list[Operand]:
    """Parts that differ by one in size at most, the larger ones first."""
    size = t.type(a.self).dims[t.axis(a.dim, a.self)]
    count = Dim.of(a.sections)
    if not count.is_const:
        raise t.fail(f"the number of parts is {count}, which moves")
    return parts(t, a.self, [(size + count - 1 - i) // count for i in range(count.value)], a.dim)


def unbind(t: Context, a: Args) -> list[Operand]:
    axis = t.axis(a.dim, a.self)
    count = len(t.dtypes)
    size = Compare("==", t.type(a.self).dims[axis], count)
    t.need(size, f"`{t.target}` gives {count} results", narrows=True)
    cut = (t.op("slice", a.self, axis=axis, start=i, stop=i + 1) for i in range(count))
    return [t.op("squeeze", c, axis=axis) for c in cut]


def narrow(t: Context, a: Args) -> Operand:
    axis = t.axis(a.dim, a.self)
    size, start, length = t.type(a.self).dims[axis], Dim.of(a.start), Dim.of(a.length)
    if start.is_const and start.value < 0:
        start = start + size
    t.need(Compare("<=", 0, length), f"`{t.target}` takes a length that is not negative")
    t.need(Compare("<=", 0, start), f"`{t.target}` counts from the end where {start} is negative", narrows=True)
    t.need(Compare("<=", start + length, size), f"`{t.target}` takes a part of what there is")
    return t.op("slice", a.self, axis=axis, start=start, stop=start + length)


def cat(t: Context, a: Args) -> Operand:
    """torch leaves out tensors of shape [0] whatever the rank of the others."""
    rank = t.ranks[0]
    given = [x for x in a.tensors if t.rank(x) == rank and (rank > 1 or t.type(x).dims != (Dim.of(0),))]
    tensors = [t.to(x, t.dtype) for x in given]
    if not tensors:
        return t.op("zeros", shape=(0,), dtype=t.dtype)
    return tensors[0] if len(tensors) == 1 else t.op("concat", *tensors, axis=a.dim % rank)


def stack(t: Context, a: Args) -> Operand:
    tensors = [t.to(x, t.dtype) for x in a.tensors]
    if len(tensors) == 1:
        return t.op("unsqueeze", tensors[0], axis=a.dim % t.ranks[0])
    return t.op("stack", *tensors, axis=a.dim % t.ranks[0])


def flip(t: Context, a: Args) -> Operand:
    axes = t.axes(a.dims, a.self, empty_is_all=False)
    return t.op("flip", a.self, axis=axes) if axes else a.self


def roll(t: Context, a: Args) -> Operand:
    x = a.self
    shifts = [s if isinstance(s, Dim) else int(s) for s in a.shifts]
    if t.rank(x) == 0:
        return x  # type: ignore[no-any-return]
    if not a.dims:
        flat = t.op("roll", t.op("reshape", x, shape=(-1,)), shift=tuple(shifts), axis=(0,))
        return t.reshaped(flat, t.type(x).dims)
    for shift, dim in zip(shifts, a.dims, strict=True):
        x = t.op("roll", x, shift=shift, axis=t.axis(dim, a.self))
    return x  # type: ignore[no-any-return]


def repeat(t: Context, a: Args) -> Operand:
    return t.op("repeat", a.self, repeats=tuple(a.repeats)) if a.repeats else a.self


def diagonal(t: Context, a: Args) -> Operand:
    return t.op("diagonal", a.self, axis=(t.axis(a.dim1, a.self), t.axis(a.dim2, a.self)), offset=a.offset)


def triangle(name: str) -> Row:
    return lambda t, a: t.op(name, a.self, diagonal=a.diagonal)


def padded(t: Context, x: Operand, pad: Sequence[Any], mode: str, value: Any = 0) -> Operand:
    """torch lists pairs from the last axis on."""
    rank = t.rank(x)
    pairs = [(0, 0)] * (rank - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    if mode != "constant":
        for size, pair in zip(t.type(x).dims, pairs, strict=True):
            least = max(p if isinstance(p, int) else 0 for p in pair)
            if least > 0:
                enough = Compare("<=", least + 1 if mode == "reflect" else 1, size)
                t.need(enough, f"`{t.target}` needs that many elements")
    return t.op("pad", x, pads=tuple(pairs), mode=mode, value=value)


def constant_pad(t: Context, a: Args) -> Operand:
    dtype = t.dtype
    return padded(t, a.self, a.pad, "constant", t.to(a.value, dtype) if not isinstance(a.value, Dim) else 0)


def other_pad(mode: str) -> Row:
    return lambda t, a: padded(t, a.self, a.padding, mode)


# ------------------------------------------------------------------------------------------------ of nothing


def made_shape(t: Context, a: Args) -> tuple[Dim, ...]:
    """The shape that a tensor is made in: the one given, else that of another tensor, else none."""
    size = a.get("size")
    if size is not None:
        return tuple(map(Dim.of, size))
    like = a.get("self")
    return t.type(like).dims if is_tensor(like) else ()


def full(t: Context, a: Args) -> Operand:
    value = a.get("fill_value", a.get("s", a.get("value", 0)))
    if is_tensor(value):
        return t.broadcast(t.to(value, t.dtype), made_shape(t, a))
    return filled(t, value, made_shape(t, a))


def filled(t: Context, value: Value, shape: tuple[Dim, ...]) -> Operand:
    made = value if isinstance(value, Dim) and not t.dtype.is_bool else t.to(value, t.dtype)
    if is_tensor(made):
        return t.broadcast(made, shape)  # type: ignore[arg-type]
    return t.op("full", shape=shape, value=made, dtype=t.dtype)


def constant(value: int) -> Row:
    return lambda t, a: filled(t, value, made_shape(t, a))


def arange(t: Context, a: Args) -> Operand:
    """Whole steps are counted in whole numbers, others computed in f64, as torch does."""
    start, step, end = a.get("start", 0), a.get("step", 1), a.end
    if t.dtype.is_int and all(isinstance(v, (int, Dim)) for v in (start, step, end)):
        return t.op("arange", stop=end, start=start, step=step, dtype=t.dtype)
    ramp = t.op("iota", shape=(_steps(t, start, end, step),), dtype=DType.i64)
    wide = DType.i64 if t.dtype.is_int and not isinstance(step, float) and not isinstance(start, float) else DType.f64
    x = t.to(ramp, wide)
    if step != 1:
        x = t.op("mul", x, t.to(step, wide))
    if start != 0:
        x = t.op("add", x, t.to(start, wide))
    return t.to(x, t.dtype)  # type: ignore[no-any-return]


def _steps(t: Context, start: Any, end: Any, step: Any) -> Dim:
    """How many steps there are: the ceiling of a quotient, in f64 unless all is whole."""
    if all(isinstance(v, (int, Dim)) for v in (start, step, end)):
        span, step = Dim.of(end) - start, Dim.of(step)
        if not step.is_const:
            raise t.fail(f"the step {step} is not a literal")
        span, step = (span, step) if step.value > 0 else (-span, -step)
        return Dim.max(Dim.ceildiv(span, step), 0)
    n = t.arithmetic
    quotient = n.call(operator.truediv, (n.call(operator.sub, (end, start)), step))
    found = n.call(math.ceil, (quotient,))
    return Dim.max(found, 0)  # type: ignore[arg-type]


def iota(t: Context, a: Args) -> Operand:
    ramp = t.op("iota", shape=(a.length,), dtype=t.dtype)
    scaled = ramp if a.step == 1 else t.op("mul", ramp, t.to(a.step, t.dtype))
    return scaled if a.start == 0 else t.op("add", scaled, t.to(a.start, t.dtype))


def eye(t: Context, a: Args) -> Operand:
    return t.op("eye", n=a.n, m=a.get("m", a.n), dtype=t.dtype)


SHAPE: Mapping[str, Row] = {
    "aten.view.default": view,
    "aten._unsafe_view.default": view,
    "aten.reshape.default": view,
    "aten.flatten.using_ints": flatten,
    "aten.unflatten.int": unflatten,
    "aten.expand.default": expand,
    "aten.permute.default": permute,
    "aten.t.default": lambda t, a: transposed(a.self, t, 0, 1),
    "aten.transpose.int": lambda t, a: transposed(a.self, t, a.dim0, a.dim1),
    "aten.squeeze.default": squeeze,
    "aten.squeeze.dim": squeeze,
    "aten.squeeze.dims": squeeze,
    "aten.unsqueeze.default": unsqueeze,
    "aten.slice.Tensor": slice_,
    "aten.select.int": select,
    "aten.split.Tensor": split,
    "aten.split_with_sizes.default": split_with_sizes,
    "aten.unbind.int": unbind,
    "aten.cat.default": cat,
    "aten.stack.default": stack,
    "aten.flip.default": flip,
    "aten.roll.default": roll,
    "aten.repeat.default": repeat,
    "aten.diagonal.default": diagonal,
    "aten.tril.default": triangle("tril"),
    "aten.triu.default": triangle("triu"),
    "aten.constant_pad_nd.default": constant_pad,
    **{f"aten.reflection_pad{n}d.default": other_pad("reflect") for n in (1, 2, 3)},
    **{f"aten.replication_pad{n}d.default": other_pad("replicate") for n in (1, 2, 3)},
    "aten.full.default": full,
    "aten.full_like.default": full,
    "aten.fill.Scalar": full,
    "aten.fill.Tensor": full,
    "aten.scalar_tensor.default": full,
    "aten.zeros.default": constant(0),
    "aten.ones.default": constant(1),
    "aten.zeros_like.default": constant(0),
    "aten.ones_like.default": constant(1),
    "aten.empty.memory_format": constant(0),
    "aten.empty_strided.default": constant(0),
    "aten.empty_permuted.default": constant(0),
    "aten.arange.start_step": arange,
    "aten.arange.start": arange,
    "aten.arange.default": arange,
    "prims.iota.default": iota,
    "aten.eye.default": eye,
    "aten.eye.m": eye,
}
