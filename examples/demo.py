"""Compiles every example once, runs the one artifact at five sizes, compares with numpy; shows a plan and a refusal."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from textwrap import indent

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from references import EXAMPLES, Example

import pliant
from pliant.compiler.codegen.llvm import resolve
from pliant.compiler.driver import Compilation, read_source
from pliant.compiler.target import Target

HERE = Path(__file__).parent


def run(example: Example, folder: Path) -> float:
    """Compiles, saves, loads and runs one example; returns the largest error relative to the largest result."""
    rng = np.random.default_rng(0)
    weights = example.weights(rng)
    start = time.perf_counter()
    compiled = pliant.compile(HERE / example.file, weights=weights or None)
    compile_s = time.perf_counter() - start
    path = folder / example.file.replace(".ir", ".pliant")
    compiled.save(path)
    start = time.perf_counter()
    exe = pliant.load(path)
    load_ms = 1e3 * (time.perf_counter() - start)
    kib = path.stat().st_size // 1024
    print(f"\n{example.file}: compiled in {compile_s:.2f} s, {kib} KiB, loaded in {load_ms:.1f} ms")
    worst = 0.0
    for sizes in example.sizes:
        inputs = example.inputs(rng, sizes)
        wanted = example.reference(inputs, weights)
        result = exe(**inputs)
        # An inout argument is compared with what it must hold after the call.
        after = [inputs[name] for name in ("keys", "values") if name in inputs]
        error = 0.0
        for got, want in zip([result, *after], wanted, strict=True):
            assert got.shape == want.shape, (got.shape, want.shape)
            if got.size:
                error = max(error, float(np.abs(got - want).max() / max(1e-30, np.abs(want).max())))
        shown = ", ".join(f"{name}={value}" for name, value in sizes.items())
        print(f"  {shown:24} -> {result.shape!s:18} largest error {error:.1e}")
        worst = max(worst, error)
    return worst


def show_plan() -> None:
    """Where the values of one example live in the arena, and what that is worth."""
    target = resolve(Target.parse("cpu"))
    plan = Compilation(read_source(HERE / "transformer_block.ir"), target).lowered.plans["main"]
    print(f"\nThe memory of transformer_block.ir, planned before it runs:\n{indent(plan.report(), '  ')}")


def refuse() -> None:
    """One call that must be refused, and what is said."""
    exe = pliant.compile(HERE / "reshape_facts.ir")
    try:
        exe(np.zeros((12, 4), np.float32), np.zeros(1, np.float32))
    except pliant.PliantError as refusal:
        print(f"\nreshape_facts.ir called with 12 rows, which are no multiple of 8:\n  {refusal}")
    else:
        raise SystemExit("a call with 12 rows was not refused")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        worst = max(run(example, Path(folder)) for example in EXAMPLES)
    show_plan()
    refuse()
    print(f"\nAll examples agree with numpy; the largest relative error is {worst:.1e}.")
    if worst > 1e-4:
        raise SystemExit("that is more than 1e-4")


if __name__ == "__main__":
    main()
