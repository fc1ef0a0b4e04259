"""Einstein summation, lowered to diagonals, sums, permutations and matrix products; and the diagonal itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..build import Builder
from ..dims import Dim
from ..graph import Operand
from ..loops import Expr
from ..op import Array, CompositeOp, ElementContext, ElementOp, InferContext, Input, Refused, Sample
from ..scalar import add, index
from ..types import DType, TensorType, tensor
from ._common import FLOATS, SIZES, arrays, exact, integers, lowered, operand, raised, rounded, rtol, want_number

Labels = tuple[str, ...]
"""An axis each: a letter, or `.0`, `.1`, ... for the axes of an ellipsis, counted from the last."""


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the result; ValueError with what is wrong."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"has {len(terms)} terms for {len(ranks)} operands")
    inputs = [_labels(term, rank) for term, rank in zip(terms, ranks, strict=True)]
    every = [label for labels in inputs for label in labels]
    dots = sorted({label for label in every if label[0] == "."}, key=_from_last)
    if not arrow:
        once = sorted(label for label in set(every) if every.count(label) == 1 and label[0] != ".")
        return inputs, (*dots, *once)
    if "..." in right:
        before, _, after = right.partition("...")
        output: Labels = (*_letters(before), *dots, *_letters(after))
    else:
        output = _letters(right)
        if dots:
            raise ValueError("has an ellipsis among the operands, but not in the result")
    for label in output:
        if label not in every:
            raise ValueError(f"has `{label}` in the result, but in no operand")
        if output.count(label) > 1:
            raise ValueError(f"has `{label}` twice in the result")
    return inputs, output


def _labels(term: str, rank: int) -> Labels:
    if "..." not in term:
        if len(_letters(term)) != rank:
            raise ValueError(f"has `{term}` for an operand of rank {rank}")
        return _letters(term)
    before, _, after = term.partition("...")
    hidden = rank - len(_letters(before)) - len(_letters(after))
    if hidden < 0:
        raise ValueError(f"has `{term}` for an operand of rank {rank}")
    return (*_letters(before), *(f".{i}" for i in reversed(range(hidden))), *_letters(after))


def _from_last(dot: str) -> int:
    return -int(dot[1:])


def _letters(text: str) -> Labels:
    for c in text:
        if not (c.isascii() and c.isalpha()):
            raise ValueError(f"has `{c}`, which is no letter")
    return tuple(text)


@dataclass(frozen=True)
class Einsum(CompositeOp):
    """The sum over repeated axes of a product, by an equation such as `"bij,bjk->bik"`.

    Letters name axes; `...` stands for axes that broadcast; without `->` the result has the letters that occur once, in
    alphabetical order.  A letter that occurs twice in one operand takes its diagonal.  Operands are multiplied from
    left to right, each pair as a matrix product where something is summed: what is summed are the products of the pair,
    so that of nothing it is 0, whatever the other operand holds.
    """

    name: ClassVar[str] = "einsum"
    family: ClassVar[str] = "matmul"
    signature: ClassVar[tuple[str, ...]] = ("x", "operands*")

    equation: str

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        given = [operand(operands, i) for i in range(len(operands))]
        for i, t in enumerate(given):
            want_number(ctx, i, t)
        dtype = ctx.same_dtype(*given)
        try:
            inputs, output = parse_equation(self.equation, [t.rank for t in given])
        except ValueError as problem:
            raise ctx.fail(f'the equation "{self.equation}" of `einsum` {problem}') from None
        sizes: dict[str, Dim] = {}
        for labels, t in zip(inputs, given, strict=True):
            for label, size in zip(labels, t.dims, strict=True):
                known = sizes.setdefault(label, size)
                if label[0] == "." and known == Dim.of(1):
                    sizes[label] = size
                elif not (label[0] == "." and size == Dim.of(1)):
                    what = "an ellipsis" if label[0] == "." else f"`{label}`"
                    ctx.require_equal(known, size, f"the sizes of {what} in `einsum`")
        return TensorType(dtype, tuple(sizes[label] for label in output))

    def decompose(self, b: Builder, *operands: Operand) -> Operand:
        inputs, output = parse_equation(self.equation, [b.type(o).rank for o in operands])
        dtype = b.type(operands[0]).dtype
        if len(operands) > 1 and dtype is not dtype.compute and _rounds_between(inputs, output):
            operands = tuple(raised(b, o)[0] for o in operands)
        terms = [_Term(o, labels) for o, labels in zip(operands, inputs, strict=True)]
        terms = [t.diagonal(b).without_ones(b, terms) for t in terms]
        # The sum of one operand times the sum of another is the sum of their products only where nothing is infinite
        # or rounded.
        factored = len(terms) == 1 or not dtype.is_float
        total = terms[0]
        for i, term in enumerate(terms):
            later = {label for t in terms[i + 1 :] for label in t.labels} | set(output)
            if i == 0:
                total = total.summed(b, later) if factored else total
            else:
                part = term.summed(b, later | set(total.labels)) if factored else term
                total = _multiplied(b, total, part, later).summed(b, later)
        return lowered(b, total.permuted(b, output).value, dtype)

    def reference(self, *operands: Array | None) -> Array:
        given = [operand(operands, i) for i in range(len(operands))]
        inputs, output = parse_equation(self.equation, [x.ndim for x in given])
        terms = [_labelled(exact(x), labels) for x, labels in zip(given, inputs, strict=True)]
        (total, labels), *others = terms
        with np.errstate(all="ignore"):
            for i, (value, own) in enumerate(others, 2):
                later = {x for _, other in terms[i:] for x in other} | set(output)
                every = tuple(dict.fromkeys((*labels, *own)))
                # Products first: numpy's own einsum takes factors out of sums.
                total = _spread(total, labels, every) * _spread(value, own, every)
                total, labels = _summed(total, every, later)
            total, labels = _summed(total, labels, set(output))
        return rounded(_spread(total, labels, output), DType.of(given[0].dtype))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        cases: list[tuple[str, list[tuple[str | int, ...]]]] = [
            ("ij,jk->ik", [("n", "m"), ("m", 5)]),
            ("ij,kj", [("n", "m"), (6, "m")]),
            ("ji,jk->ki", [("m", "n"), ("m", 4)]),
            ("bhqd,bhkd->bhqk", [(2, 3, "n", 8), (2, 3, "m", 8)]),
            ("bqhd,bkhd->bhqk", [(2, "n", 3, 4), (2, "m", 3, 4)]),
            ("...ij,...jk->...ik", [(2, 1, "n", 3), (4, 3, "m")]),
            ("i,j->ij", [("n",), ("m",)]),
            ("i,i", [("n",), ("n",)]),
            ("ijk->kj", [("n", 3, "m")]),
            ("ij->", [("n", "m")]),
            ("ii->i", [("n", "n")]),
            ("ii", [("n", "n")]),
            ("bii,bi->b", [("m", "n", "n"), ("m", "n")]),
            ("ab,bc,cd->ad", [("n", 3), (3, "m"), ("m", 4)]),
            ("ij,ik,il->ijk", [("n", 2), ("n", "m"), ("n", 3)]),
            ("...a,a->...", [("n", "m", 5), (5,)]),
            ("abc,cbd->da", [("n", 3, "m"), ("m", 3, 4)]),
            ("a...b,b...->...a", [(2, 3, "n"), ("n", 3)]),
        ]
        for equation, shapes in cases:
            yield Sample(cls(equation), tuple(tensor("f32", *s) for s in shapes), SIZES, atol=1e-4)
        for dtype in (*FLOATS, DType.i32):
            for equation, shapes in (cases[0], cases[13]):
                types = tuple(tensor(dtype, *s) for s in shapes)
                make = arrays(*(integers(-3, 4),) * len(types), types=types)
                yield Sample(cls(equation), types, SIZES, make=make, rtol=rtol(dtype), atol=1e-4)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        x, y = tensor("f32", 2, 3), tensor("f32", 3, 4)
        yield Refused(cls("ij,jk"), (x,), 'the equation "ij,jk" of `einsum` has 2 terms for 1 operands')
        yield Refused(cls("ijk,jk"), (x, y), 'the equation "ijk,jk" of `einsum` has `ijk` for an operand of rank 2')
        yield Refused(cls("i1,1j"), (x, y), 'the equation "i1,1j" of `einsum` has `1`, which is no letter')
        yield Refused(cls("ij,jk->iz"), (x, y), 'the equation "ij,jk->iz" of `einsum` has `z` in the result, but in no')
        yield Refused(cls("ij,jk->ii"), (x, y), 'the equation "ij,jk->ii" of `einsum` has `i` twice in the result')
        yield Refused(
            cls("...j,jk->k"), (x, y), 'the equation "...j,jk->k" of `einsum` has an ellipsis among the operands'
        )
        yield Refused(cls("ij,ij"), (x, y), "the sizes of `i` in `einsum` do not match: 2 against 3")
        yield Refused(cls("ij,jk"), (x, tensor("f64", 3, 4)), "the dtypes of `einsum` do not match: f32 against f64")


def _rounds_between(inputs: Sequence[Labels], output: Labels) -> bool:
    """Is there an intermediate result, which f16 would round, besides the product of two operands?"""
    every = [label for labels in inputs for label in set(labels)]
    return len(inputs) > 2 or any(every.count(label) == 1 and label not in output for label in every)


def _labelled(x: Array, labels: Labels) -> tuple[Array, Labels]:
    """The array without labels that occur twice: their diagonal."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            x = np.diagonal(x, 0, first, second)
            labels = (*(x for i, x in enumerate(labels) if i not in (first, second)), label)
    return x, labels


def _spread(x: Array, labels: Labels, every: Labels) -> Array:
    """The array with an axis for each of `every`, of size 1 where it has none."""
    x = np.transpose(x, sorted(range(x.ndim), key=lambda i: every.index(labels[i])))
    return np.expand_dims(x, tuple(i for i, label in enumerate(every) if label not in labels))


def _summed(x: Array, labels: Labels, keep: set[str]) -> tuple[Array, Labels]:
    axes = tuple(i for i, label in enumerate(labels) if label not in keep)
    return np.sum(x, axis=axes), tuple(label for label in labels if label in keep)


@dataclass(frozen=True)
class _Term:
    """A value and the labels of its axes."""

    value: Operand
    labels: Labels

    def sizes(self, b: Builder, labels: Sequence[str]) -> tuple[Dim, ...]:
        dims = dict(zip(self.labels, b.type(self.value).dims, strict=True))
        return tuple(dims[label] for label in labels)

    def diagonal(self, b: Builder) -> _Term:
        """Labels that occur twice taken along their diagonal."""
        term = self
        for label in dict.fromkeys(self.labels):
            while term.labels.count(label) > 1:
                first = term.labels.index(label)
                second = term.labels.index(label, first + 1)
                rest = tuple(x for i, x in enumerate(term.labels) if i not in (first, second))
                term = _Term(b.diagonal(term.value, axis=(first, second)), (*rest, label))
        return term

    def without_ones(self, b: Builder, terms: Sequence[_Term]) -> _Term:
        """Axes of size 1 dropped where another operand has the label too: they broadcast."""
        dims = b.type(self.value).dims
        elsewhere = [label for t in terms for label in set(t.labels)]
        kept = [
            (label, d)
            for label, d in zip(self.labels, dims, strict=True)
            if not (label[0] == "." and d == Dim.of(1) and _has_larger(b, terms, label)) or elsewhere.count(label) == 1
        ]
        if len(kept) == len(dims):
            return self
        return _Term(b.reshape(self.value, shape=tuple(d for _, d in kept)), tuple(label for label, _ in kept))

    def summed(self, b: Builder, keep: set[str]) -> _Term:
        """Labels that nobody else has summed away."""
        axes = tuple(i for i, label in enumerate(self.labels) if label not in keep)
        if not axes:
            return self
        return _Term(b.sum(self.value, axis=axes), tuple(label for label in self.labels if label in keep))

    def permuted(self, b: Builder, labels: Labels) -> _Term:
        if labels == self.labels:
            return self
        return _Term(b.permute(self.value, axes=tuple(map(self.labels.index, labels))), labels)

    def shaped(self, b: Builder, shape: tuple[Dim, ...]) -> Operand:
        return self.value if b.type(self.value).dims == shape else b.reshape(self.value, shape=shape)


def _has_larger(b: Builder, terms: Sequence[_Term], label: str) -> bool:
    return any(
        d != Dim.of(1) for t in terms for name, d in zip(t.labels, b.type(t.value).dims, strict=True) if name == label
    )


def _multiplied(b: Builder, left: _Term, right: _Term, keep: set[str]) -> _Term:
    """The product of two terms, summed over the labels they share and nobody else wants."""
    shared = [x for x in left.labels if x in right.labels]
    batch = tuple(x for x in shared if x in keep)
    inner = tuple(x for x in shared if x not in keep)
    rows = tuple(x for x in left.labels if x not in shared)
    cols = tuple(x for x in right.labels if x not in shared)
    batches, sizes = left.sizes(b, batch), (*left.sizes(b, rows), *right.sizes(b, cols))
    if not inner:
        ones = tuple(Dim.of(1) for _ in rows)
        wide = left.permuted(b, (*batch, *rows)).shaped(b, (*batches, *left.sizes(b, rows), *(Dim.of(1) for _ in cols)))
        across = right.permuted(b, (*batch, *cols)).shaped(b, (*batches, *ones, *right.sizes(b, cols)))
        return _Term(b.mul(wide, across), (*batch, *rows, *cols))
    transpose_a = bool(rows) and left.labels == (*batch, *inner, *rows)
    transpose_b = right.labels == (*batch, *cols, *inner)
    k = Dim.product(left.sizes(b, inner))
    m, n = Dim.product(left.sizes(b, rows)), Dim.product(right.sizes(b, cols))
    x = left.permuted(b, (*batch, *inner, *rows) if transpose_a else (*batch, *rows, *inner))
    y = right.permuted(b, (*batch, *cols, *inner) if transpose_b else (*batch, *inner, *cols))
    product = b.matmul(
        x.shaped(b, (*batches, *((k, m) if transpose_a else (m, k)))),
        y.shaped(b, (*batches, *((n, k) if transpose_b else (k, n)))),
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )
    labels = (*batch, *rows, *cols)
    return _Term(_Term(product, ()).shaped(b, (*batches, *sizes)), labels)


@dataclass(frozen=True)
class Diagonal(ElementOp):
    """The elements x[.., i, .., i + offset, ..] of two axes, which become the last axis of the result."""

    name: ClassVar[str] = "diagonal"
    family: ClassVar[str] = "matmul"
    index_map: ClassVar[bool] = True

    axis: tuple[int, int] = (-2, -1)
    offset: int = 0

    def _axes(self, rank: int) -> tuple[int, int]:
        return self.axis[0] % rank, self.axis[1] % rank

    def infer(self, ctx: InferContext, *operands: TensorType | None) -> TensorType:
        x = operand(operands, 0)
        first, second = (ctx.axis(a, x.rank) for a in self.axis)
        ctx.require(first != second, "the two axes of `diagonal` are the same")
        rows, cols = x.dims[first] + min(self.offset, 0), x.dims[second] - max(self.offset, 0)
        size = Dim.min(rows, cols) if self.offset == 0 else Dim.max(Dim.min(rows, cols), 0)
        rest = tuple(d for i, d in enumerate(x.dims) if i not in (first, second))
        return TensorType(x.dtype, (*rest, size))

    def element(self, ctx: ElementContext, out: TensorType, at: tuple[Expr, ...], *inputs: Input | None) -> Expr:
        x = operand(inputs, 0)
        first, second = self._axes(x.type.rank)
        rest = iter(at[:-1])
        row, col = add(at[-1], index(-min(self.offset, 0))), add(at[-1], index(max(self.offset, 0)))
        return x(*(row if i == first else col if i == second else next(rest) for i in range(x.type.rank)))

    def reference(self, *operands: Array | None) -> Array:
        x = operand(operands, 0)
        first, second = self._axes(x.ndim)
        return np.array(np.diagonal(x, self.offset, first, second))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in (*FLOATS, DType.i64, DType.bool):
            yield Sample(cls(), (tensor(dtype, "n", "m"),), SIZES)
        yield Sample(cls(offset=1), (tensor("f32", "n", "m"),), SIZES)
        yield Sample(cls(axis=(2, 0), offset=-2), (tensor("f32", "m", 3, "n"),), SIZES)

    @classmethod
    def refused(cls) -> Iterable[Refused]:
        yield Refused(cls(), (tensor("f32", "n"),), "axis -2 of `diagonal` is out of range for rank 1")
        yield Refused(cls(axis=(0, -2)), (tensor("f32", 2, 3),), "the two axes of `diagonal` are the same")
