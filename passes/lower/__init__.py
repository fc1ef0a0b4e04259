"""From graphs to loops: fusion into kernels, their loops, and the host program around them.

nodes      the dataflow of a function
reads      what reads what, at which index
fuse       the groups that become kernels
rows, contract, irregular   the loops of a group
place      where values live: outputs, parameters, the planned arena
host       binding, checking, launching
share      kernels equal but for names are compiled once
"""

from __future__ import annotations

from .lower import Lowered, lower

__all__ = ["Lowered", "lower"]
