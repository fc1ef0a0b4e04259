"""Contractions: a block computes a tile of the result from tiles of both operands in shared memory.

Operands are any expressions of their indices, evaluated where an element of a tile is filled in; what lies outside
counts as 0.  A thread keeps 4 x 4 accumulators, 16 rows and columns apart, so that neighbouring threads store
neighbouring columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.dims import Dim
from ....ir.loops import Cast, Contract, Expr
from ....passes.loops.contiguity import contiguous
from .context import FunctionContext
from .expr import emit
from .grid import named
from .index import ATOM, Int, emit_dim
from .scope import Scope
from .thread import ThreadEmitter
from .values import Value, literal, register_type
from .writer import Writer

TILE = 64
"""Rows and columns of a block's tile."""

DEPTH = 16
"""Inner extent of the operands' tiles."""

THREADS = 256
_SIDE = 16  # threads along each side of the tile
_EACH = TILE // _SIDE


def tiles(size: Dim) -> Dim:
    """How many tiles cover the extent."""
    return Dim.ceildiv(size, TILE)


@dataclass(frozen=True)
class _Operand:
    """One operand's tile: [DEPTH][TILE], `outer` being m or n."""

    name: str
    value: Expr
    outer: str
    first: str
    size: str


@dataclass(frozen=True)
class ContractEmitter:
    context: FunctionContext
    contract: Contract

    def emit(self, w: Writer, scope: Scope, tile_m: str, tile_n: str) -> None:
        """The tile whose position among the tiles is given, in a loop over tasks that all threads of a block run."""
        c = self.contract
        type_ = register_type(c.dtype)
        rows, cols, inner = (
            named(w, scope, what, emit_dim(size, scope.ints)).text
            for what, size in (("rows", c.rows), ("cols", c.cols), ("inner", c.inner))
        )
        first = {}
        for outer, tile in ((c.m, tile_m), (c.n, tile_n)):
            first[outer] = scope.name(f"{outer}_first")
            w.line(f"const long long {first[outer]} = {tile} * {TILE};")
        acc = scope.name(f"{c.acc}_tile")
        w.line(f"{type_} {acc}[{_EACH}][{_EACH}];")
        self._each(w, f"{acc}[pl_i][pl_j] = 0;")
        k_first = scope.name(f"{c.k}_first")
        with w.block(f"for (long long {k_first} = 0; {k_first} < {inner}; {k_first} += {DEPTH})"):
            w.line("__syncthreads();  // the tiles before have been used")
            for operand in (
                _Operand("pl_lhs", c.lhs, c.m, first[c.m], rows),
                _Operand("pl_rhs", c.rhs, c.n, first[c.n], cols),
            ):
                self._fill(w, scope, operand, k_first, inner)
            w.line("__syncthreads();")
            self._multiply(w, acc)
        self._epilogue(w, scope, acc, first, rows, cols)

    def declare(self, w: Writer) -> None:
        """The operands' tiles.  A column more, since they are filled along either side."""
        type_ = register_type(self.contract.dtype)
        for name in ("pl_lhs", "pl_rhs"):
            w.line(f"__shared__ {type_} {name}[{DEPTH}][{TILE + 1}];")

    def _fill(self, w: Writer, scope: Scope, operand: _Operand, k_first: str, inner: str) -> None:
        c = self.contract
        scope = scope.inner()
        along_k = contiguous(operand.value, c.k) and not contiguous(operand.value, operand.outer)
        at_k, at_outer = (f"pl_e % {DEPTH}", f"pl_e / {DEPTH}") if along_k else (f"pl_e / {TILE}", f"pl_e % {TILE}")
        k, outer = scope.name(c.k), scope.name(operand.outer)
        scope.let_int(c.k, Int(k, ATOM, True))
        scope.let_int(operand.outer, Int(outer, ATOM, True))
        value = operand.value if operand.value.dtype is c.dtype else Cast(operand.value, c.dtype)
        zero = literal(0, c.dtype).text
        with w.block(f"for (int pl_e = threadIdx.x; pl_e < {TILE * DEPTH}; pl_e += {THREADS})"):
            w.line(f"const int pl_k = {at_k}, pl_o = {at_outer};")
            w.line(f"const long long {k} = {k_first} + pl_k, {outer} = {operand.first} + pl_o;")
            inside = f"{k} < {inner} && {outer} < {operand.size}"
            w.line(f"{operand.name}[pl_k][pl_o] = {inside} ? {emit(value, scope).text} : {zero};")

    def _multiply(self, w: Writer, acc: str) -> None:
        type_ = register_type(self.contract.dtype)
        w.line("#pragma unroll")
        with w.block(f"for (int pl_k = 0; pl_k < {DEPTH}; ++pl_k)"):
            w.line(f"{type_} pl_a[{_EACH}], pl_b[{_EACH}];")
            w.line("#pragma unroll")
            with w.block(f"for (int pl_i = 0; pl_i < {_EACH}; ++pl_i)"):
                w.line(f"pl_a[pl_i] = pl_lhs[pl_k][threadIdx.x / {_SIDE} + {_SIDE} * pl_i];")
                w.line(f"pl_b[pl_i] = pl_rhs[pl_k][threadIdx.x % {_SIDE} + {_SIDE} * pl_i];")
            if self.contract.dtype.is_float:
                step = f"pl_fma(pl_a[pl_i], pl_b[pl_j], {acc}[pl_i][pl_j])"
            else:
                step = f"pl_iadd<{type_}>({acc}[pl_i][pl_j], pl_imul<{type_}>(pl_a[pl_i], pl_b[pl_j]))"
            self._each(w, f"{acc}[pl_i][pl_j] = {step};")

    def _each(self, w: Writer, line: str) -> None:
        w.line("#pragma unroll")
        w.line(f"for (int pl_i = 0; pl_i < {_EACH}; ++pl_i)")
        w.line("  #pragma unroll")
        w.line(f"  for (int pl_j = 0; pl_j < {_EACH}; ++pl_j) {line}")

    def _epilogue(self, w: Writer, scope: Scope, acc: str, first: dict[str, str], rows: str, cols: str) -> None:
        c = self.contract
        scope = scope.inner()
        m, n, total = scope.name(c.m), scope.name(c.n), scope.name(c.acc)
        scope.let_int(c.m, Int(m, ATOM, True))
        scope.let_int(c.n, Int(n, ATOM, True))
        scope.let_value(c.acc, Value(total, c.dtype))
        # Unrolled, with no way out of the loops: the accumulators are registers, and those have no addresses.
        w.line("#pragma unroll")
        with w.block(f"for (int pl_i = 0; pl_i < {_EACH}; ++pl_i)"):
            w.line(f"const long long {m} = {first[c.m]} + threadIdx.x / {_SIDE} + {_SIDE} * pl_i;")
            w.line("#pragma unroll")
            with w.block(f"for (int pl_j = 0; pl_j < {_EACH}; ++pl_j)"):
                w.line(f"const long long {n} = {first[c.n]} + threadIdx.x % {_SIDE} + {_SIDE} * pl_j;")
                with w.block(f"if ({m} < {rows} && {n} < {cols})"):
                    w.line(f"const {register_type(c.dtype)} {total} = {acc}[pl_i][pl_j];")
                    ThreadEmitter(self.context).body(w, c.epilogue, scope)
