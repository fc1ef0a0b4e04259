"""Passes over one kernel's loops; each is a frozen dataclass with `run(kernel) -> Kernel`."""
