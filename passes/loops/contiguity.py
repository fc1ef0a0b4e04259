"""Whether expressions read memory in order along a loop."""

from __future__ import annotations

from ...ir.dims import linear
from ...ir.loops import Expr, Index, Load, Name, walk_expr


def stride_is_unit_or_zero(index: Expr, var: str) -> bool:
    """Whether an index moves by 1 or 0 with `var`."""
    if isinstance(index, Index):
        split = linear(index.dim, var)
        return split is not None and (split[0] == 0 or split[0] == 1)
    return not depends_on(index, var)


def depends_on(e: Expr, var: str) -> bool:
    """Whether the loop variable occurs in the expression, in loaded indices too."""
    for node in walk_expr(e):
        if isinstance(node, Index) and var in node.dim.symbols:
            return True
        if isinstance(node, Name) and node.name == var:
            return True
    return False


def contiguous(e: Expr, var: str) -> bool:
    """Whether every load in `e` is contiguous in `var` or does not depend on it."""
    return all(stride_is_unit_or_zero(node.index, var) for node in walk_expr(e) if isinstance(node, Load))
