"""Names of the program as LLVM's text and object files take them: both have limits, a program's names have none."""

from __future__ import annotations

from hashlib import blake2b

LONGEST = 128


def symbol(name: str) -> str:
    """The name; a long one cut, with a digest of it that keeps it apart from others."""
    if len(name) <= LONGEST:
        return name
    return f"{name[:LONGEST]}.{blake2b(name.encode(), digest_size=12).hexdigest()}"


def kernel_symbol(kernel: str) -> str:
    """The function that a kernel becomes."""
    return symbol(f"k.{kernel}")
