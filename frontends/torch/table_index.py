"""Operators that read or write at indices which are data: one row an overload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.dims import Dim
from ...ir.facts import Compare
from ...ir.graph import Operand
from ...ir.types import DType
from .context import Args, Context, Row, is_tensor
from .table_shape import bound, permuted, position


def embedding(t: Context, a: Args) -> Operand:
    return t.op("embedding", a.weight, a.indices)


def index_select(t: Context, a: Args) -> Operand:
    if t.rank(a.self) == 0:
        row = t.op("take", t.op("reshape", a.self, shape=(1,)), a.index, axis=0)
        return t.reshaped(row, ())
    index = a.index if t.rank(a.index) else t.op("reshape", a.index, shape=(1,))
    return t.op("take", a.self, index, axis=t.axis(a.dim, a.self))


def gather(t: Context, a: Args) -> Operand:
    if t.rank(a.index) > 1 and t.rank(a.self) < t.rank(a.index):  # torch lets it, of no elements
        return t.op("zeros", shape=t.type(a.index).dims, dtype=t.dtype)
    if t.rank(a.self) == 0 or t.rank(a.index) == 0:
        x, i = (t.op("reshape", v, shape=(-1,)) for v in (a.self, a.index))
        return t.reshaped(t.op("gather", x, i, axis=0), t.type(a.index).dims)
    return t.op("gather", a.self, a.index, axis=t.axis(a.dim, a.self))


def advanced(t: Context, indices: Sequence[Operand | None]) -> tuple[tuple[int, ...], list[Operand]]:
    """The axes that have an index, and the indices; masks are refused."""
    axes = tuple(i for i, x in enumerate(indices) if x is not None)
    given = [x for x in indices if x is not None]
    if any(t.type(x).dtype.is_bool for x in given):
        raise t.fail(
            "an index that is a mask gives a size that depends on data, which is not supported yet",
            "use torch.where(mask, x, y), which keeps the shape",
        )
    return axes, given


def index(t: Context, a: Args) -> Operand:
    """x[i, j, ...]: the indexed axes brought to the front, and their place in the result as numpy has it."""
    axes, given = advanced(t, a.indices)
    x, rank = a.self, t.rank(a.self)
    if not axes:
        return x  # type: ignore[no-any-return]
    if len(axes) == 1:
        return t.op("take", x, given[0], axis=axes[0])
    rest = [i for i in range(rank) if i not in axes]
    out = t.op("gather_nd", permuted(t, x, [*axes, *rest]), *given)
    count = t.rank(out) - len(rest)  # axes of the indices
    first = axes[0] if axes == tuple(range(axes[0], axes[-1] + 1)) else 0
    order = [*range(count, count + first), *range(count), *range(count + first, count + len(rest))]
    return permuted(t, out, order)


def index_put(t: Context, a: Args) -> Operand:
    given = [x for x in a.indices if x is not None]
    if len(given) == 1 and t.type(given[0]).dtype.is_bool:
        return masked_put(t, a, given[0])
    axes, given = advanced(t, a.indices)
    x, rank = a.self, t.rank(a.self)
    values = t.to(a.values, t.dtype)
    if not axes:
        spread = t.broadcast(values, t.type(x).dims)
        return t.op("add", x, spread) if a.accumulate else spread
    rest = [i for i in range(rank) if i not in axes]
    order = [*axes, *rest]
    first = axes[0] if axes == tuple(range(axes[0], axes[-1] + 1)) else 0
    count = max(map(t.rank, given))
    if t.rank(values) > count and first:
        # The values have the indices' axes where the indexed ones were: they come to the front, like those.
        lead = count + len(rest) - t.rank(values)  # axes that the values lack
        values = t.op("unsqueeze", values, axis=tuple(range(lead))) if lead else values
        places = [*range(first, first + count), *range(first), *range(first + count, t.rank(values))]
        values = permuted(t, values, places)
    moved = permuted(t, x, order)
    _fits(t, values, given, t.type(moved).dims[len(axes) :])
    out = t.op("index_put", moved, values, *given, accumulate=bool(a.accumulate))
    return permuted(t, out, [order.index(i) for i in range(rank)])


def _fits(t: Context, values: Operand, indices: Sequence[Operand], rest: Sequence[Dim]) -> None:
    """Sizes of the values that torch compares with those of the indices and of x only when it runs."""
    shapes = [t.type(i).dims for i in indices]
    one = Dim.of(1)
    lead: list[Dim] = []
    for back in range(1, max(map(len, shapes)) + 1):
        sizes = [s[-back] for s in shapes if len(s) >= back and s[-back] != one]
        lead.insert(0, sizes[0] if sizes else one)
        for other in sizes[1:]:
            t.need(Compare("==", other, sizes[0]), f"`{t.target}` takes indices of one shape")
    wanted = [*lead, *rest]
    have = t.type(values).dims
    for h, w in zip(reversed(have), reversed(wanted), strict=False):
        if h != one:
            t.need(Compare("==", h, w), f"`{t.target}` takes values of the shape of what they replace")


def masked_put(t: Context, a: Args, mask: Operand) -> Operand:
    """x[mask] = one value, or as many rows of values as the mask is true, in their order."""
    if a.indices[0] is None:
        raise t.fail("a mask of other than the first axes is not supported", "use torch.where(mask, values, x)")
    x, rest = a.self, t.rank(a.self) - t.rank(mask)
    for have, need in zip(t.type(mask).dims, t.type(x).dims, strict=False):
        t.need(Compare("==", have, need), f"`{t.target}` takes a mask of the sizes of what it indexes")
    values = t.to(a.values, t.dtype)
    spread = t.reshaped(mask, (*t.type(mask).dims, *(1 for _ in range(rest))))
    if t.rank(values) > rest and t.type(values).dims[0] != Dim.of(1):
        values = _dealt(t, mask, values)
    elif t.rank(values) > rest:
        values = t.op("squeeze", values, axis=0)
    if a.accumulate:
        values = t.op("add", x, values)
    return t.op("where", spread, values, x)


def _dealt(t: Context, mask: Operand, values: Operand) -> Operand:
    """values[k] where the mask is true for the k-th time, values[0] where it is false."""
    t.need(Compare("<=", 1, t.type(values).dims[0]), f"`{t.target}` takes rows of its values")
    flat = t.op("reshape", mask, shape=(-1,))
    before = t.op("sub", t.op("cumsum", t.op("cast", flat, dtype=DType.i64), axis=0), 1)
    rows = t.op("take", values, t.op("where", flat, before, 0), axis=0)
    return t.reshaped(rows, (*t.type(mask).dims, *t.type(values).dims[1:]))


def scattered(t: Context, x: Operand, dim: int, at: Operand, updates: Operand, reduce: str) -> Operand:
    if t.rank(x) == 0 or t.rank(at) == 0:
        flat = [t.op("reshape", v, shape=(-1,)) for v in (x, at, updates)]
        return t.reshaped(t.op("scatter", *flat, axis=0, reduce=reduce), t.type(x).dims)
    return t.op("scatter", x, at, updates, axis=t.axis(dim, x), reduce=reduce)


def scatter(reduce: str) -> Row:
    def row(t: Context, a: Args) -> Operand:
        source = a.get("src", a.get("value"))
        kind = reduce
        if t.dtype.is_bool and reduce == "add":
            raise t.fail("adding bools at indices is not supported", "convert them to integers")
        updates = t.to(source, t.dtype) if is_tensor(source) else t.tensor(source, t.dtype)
        return scattered(t, a.self, a.dim, a.index, updates, kind)

    return row


_REDUCES = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "mean"}


def scatter_reduce(t: Context, a: Args) -> Operand:
    """Without `include_self` the places that are written start from what changes nothing."""
    reduce, x = _REDUCES[a.reduce], a.self
    if a.include_self:
        return scattered(t, x, a.dim, a.index, a.src, reduce)
    if reduce == "mean":
        return _mean_of_written(t, a)
    neutral = {"add": 0, "mul": 1, "max": _extreme(t.dtype, -1), "min": _extreme(t.dtype, 1)}[reduce]
    start = scattered(t, x, a.dim, a.index, t.tensor(neutral, t.dtype), "set")
    return scattered(t, start, a.dim, a.index, a.src, reduce)


def _mean_of_written(t: Context, a: Args) -> Operand:
    """Sums and counts apart; a place that nothing is written to keeps its own value."""
    zeros = t.op("zeros", shape=t.type(a.self).dims, dtype=t.dtype)
    none = t.op("zeros", shape=t.type(a.self).dims, dtype=DType.i64)
    total = scattered(t, zeros, a.dim, a.index, a.src, "add")
    count = scattered(t, none, a.dim, a.index, t.tensor(1, DType.i64), "add")
    least = t.op("cast", t.op("maximum", count, 1), dtype=t.dtype)
    mean = t.op("div" if t.dtype.is_float else "floordiv", total, least)
    return t.op("where", t.op("gt", count, 0), mean, a.self)


def _extreme(dtype: DType, sign: int) -> float | int:
    if dtype.is_float:
        return sign * float("inf")
    top = 2 ** (dtype.bits - (1 if dtype.is_signed else 0)) - 1
    return top if sign > 0 else (-top - 1 if dtype.is_signed else 0)


def slice_scatter(t: Context, a: Args) -> Operand:
    axis = t.axis(a.dim, a.self)
    size = t.type(a.self).dims[axis]
    start = bound(a.start)
    begin = Dim.of(0 if start is None else start)
    if begin.is_const and begin.value < 0:
        begin = Dim.max(begin + size, 0)
    if not t.b.facts.prove_le(begin, size):
        begin = Dim.min(begin, size)
    return t.op("slice_scatter", a.self, t.to(a.src, t.dtype), axis=axis, start=begin, step=int(a.step))


def select_scatter(t: Context, a: Args) -> Operand:
    axis = t.axis(a.dim, a.self)
    row = t.op("unsqueeze", t.to(a.src, t.dtype), axis=axis)
    return t.op("slice_scatter", a.self, row, axis=axis, start=position(t, a.self, axis, a.index))


def masked_scatter(t: Context, a: Args) -> Operand:
    """The k-th place where the mask is true takes the k-th element of the source."""
    shape = t.common(t.type(a.self).dims, t.type(a.mask).dims)
    mask = t.broadcast(a.mask, shape)
    flat = t.op("reshape", t.op("cast", mask, dtype=DType.i64), shape=(-1,))
    source = t.op("reshape", t.to(a.source, t.dtype), shape=(-1,))
    t.need(Compare("<=", 1, t.type(source).dims[0]), "`masked_scatter` takes elements of its source")
    # Where the mask is false nothing is taken: any index in range will do.
    at = t.op("where", t.op("reshape", mask, shape=(-1,)), t.op("sub", t.op("cumsum", flat, axis=0), 1), 0)
    taken = t.reshaped(t.op("take", source, at, axis=0), shape)
    return t.op("where", mask, taken, t.broadcast(a.self, shape))


def as_strided(t: Context, a: Args) -> Operand:
    """Elements by their places in the row-major order of a contiguous tensor."""
    shape = tuple(map(Dim.of, a.size))
    at: Operand = t.op("full", shape=shape, value=Dim.of(a.storage_offset or 0), dtype=DType.i64)
    for axis, stride in enumerate(a.stride):
        ramp = t.op("iota", shape=shape, axis=axis, dtype=DType.i64)
        at = t.op("add", at, t.op("mul", ramp, t.to(stride, DType.i64)))
    return t.op("take", t.op("reshape", a.self, shape=(-1,)), at, axis=0)


INDEX: Mapping[str, Row] = {
    "aten.embedding.default": embedding,
    "aten.index_select.default": index_select,
    "aten.gather.default": gather,
    "aten.index.Tensor": index,
    "aten._unsafe_index.Tensor": index,
    "aten.index_put.default": index_put,
    "aten._unsafe_index_put.default": index_put,
    "aten.scatter.src": scatter("set"),
    "aten.scatter.value": scatter("set"),
    "aten.scatter_add.default": scatter("add"),
    "aten.scatter_reduce.two": scatter_reduce,
    "aten.slice_scatter.default": slice_scatter,
    "aten.select_scatter.default": select_scatter,
    "aten.masked_scatter.default": masked_scatter,
    "aten.as_strided.default": as_strided,
}
