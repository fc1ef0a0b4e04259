"""What scalar operations cost, roughly, in multiply-adds: enough to choose between keeping and computing again."""

from __future__ import annotations

from ...ir.loops import Apply, Expr

HEAVY = 8
"""A value of at least this cost is kept rather than computed again."""

_COST = {"div": 4, "floordiv": 6, "mod": 6, "sqrt": 4, "pow": 20, "fmod": 8}
_EXPONENTIAL = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sigmoid", "softplus")
_CIRCULAR = ("sin", "cos", "tan", "asin", "acos", "atan", "atan2")
_HYPERBOLIC = ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "gelu", "gelu_tanh")
_TRANSCENDENTAL = frozenset((*_EXPONENTIAL, *_CIRCULAR, *_HYPERBOLIC))


def cost_of(node: Expr) -> int:
    """The cost of one operation, without its operands."""
    if not isinstance(node, Apply):
        return 0
    return 10 if node.fn in _TRANSCENDENTAL else _COST.get(node.fn, 1)
