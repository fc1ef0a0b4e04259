"""Compile, load and size of each example and of a 12-layer transformer encoder, by stage.

    python benchmarks/compile_times.py [--layers N]

Seconds are medians of three compilations in one process; `load` is `pliant.load` of the saved file, milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pliant
from pliant.compiler.codegen.llvm import resolve
from pliant.compiler.driver import Compilation, read_source
from pliant.compiler.target import Target

EXAMPLES = Path(__file__).parent.parent / "examples"
STAGES = ("parse", "graph", "lower", "loops", "llvm", "code")
_ENCODER_LAYER = """
    l{i}_q0 = matmul(x{i}, @l{i}.q)
    l{i}_q1 = reshape(l{i}_q0, shape=[b, s, 12, 64])
    l{i}_q = permute(l{i}_q1, axes=[0, 2, 1, 3])
    l{i}_k0 = matmul(x{i}, @l{i}.k)
    l{i}_k1 = reshape(l{i}_k0, shape=[b, s, 12, 64])
    l{i}_k = permute(l{i}_k1, axes=[0, 2, 1, 3])
    l{i}_v0 = matmul(x{i}, @l{i}.v)
    l{i}_v1 = reshape(l{i}_v0, shape=[b, s, 12, 64])
    l{i}_v = permute(l{i}_v1, axes=[0, 2, 1, 3])
    l{i}_a0 = attention(l{i}_q, l{i}_k, l{i}_v)
    l{i}_a1 = permute(l{i}_a0, axes=[0, 2, 1, 3])
    l{i}_a2 = reshape(l{i}_a1, shape=[b, s, 768])
    l{i}_o = matmul(l{i}_a2, @l{i}.o)
    l{i}_r = add(l{i}_o, x{i})
    l{i}_n = layer_norm(l{i}_r, @l{i}.g1, @l{i}.b1)
    l{i}_u = matmul(l{i}_n, @l{i}.up)
    l{i}_u1 = add(l{i}_u, @l{i}.ub)
    l{i}_u2 = gelu(l{i}_u1)
    l{i}_d = matmul(l{i}_u2, @l{i}.down)
    l{i}_e = add(l{i}_d, l{i}_n)
    x{j} = layer_norm(l{i}_e, @l{i}.g2, @l{i}.b2)"""


def encoder(layers: int) -> str:
    """The text of a BERT-base-like encoder."""
    weights, body = [], []
    for i in range(layers):
        shapes = dict.fromkeys("qkvo", "768, 768") | {"up": "768, 3072", "down": "3072, 768", "ub": "3072"}
        shapes |= dict.fromkeys(("g1", "b1", "g2", "b2"), "768")
        weights += [f"weight @l{i}.{name} : f32[{shape}]" for name, shape in shapes.items()]
        body.append(_ENCODER_LAYER.format(i=i, j=i + 1))
    head = "func @main(x0: f32[b, s, 768]) -> f32[b, s, 768] where b in 0..8, s in 0..512 {"
    return "\n".join([*weights, head, *body, f"return x{layers}", "}"])


def stages(text: str) -> dict[str, float]:
    """Seconds of each stage of one compilation."""
    found: dict[str, float] = {}

    def timed(name: str, action: Callable[[], object]) -> object:
        start = time.perf_counter()
        result = action()
        found[name] = time.perf_counter() - start
        return result

    module = timed("parse", lambda: read_source(text))
    c = Compilation(module, resolve(Target.parse("cpu")))  # type: ignore[arg-type]
    timed("graph", lambda: c.graph)
    timed("lower", lambda: c.lowered)
    timed("loops", lambda: c.program)
    timed("llvm", lambda: c.llvm_modules)
    timed("code", lambda: c.artifact())
    return found


def load_ms(text: str) -> tuple[float, int]:
    """Milliseconds to load a saved artifact that needs no weights, and its size in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.pliant"
        pliant.compile(text).save(path)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            pliant.load(path)
            times.append(time.perf_counter() - start)
        return 1e3 * statistics.median(times), path.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    layers = parser.parse_args().layers
    programs = {path.name: path.read_text() for path in sorted(EXAMPLES.glob("*.ir"))}
    programs[f"encoder, {layers} layers"] = encoder(layers)
    stages("func @main(x: f32[n]) -> f32[n] { y = exp(x) return y }")  # imports, LLVM's own start
    print(f"{'':24}{''.join(f'{s:>8}' for s in STAGES)}{'total':>8}{'load ms':>9}{'KiB':>7}")
    for name, text in programs.items():
        runs = [stages(text) for _ in range(3)]
        medians = [statistics.median(r[s] for r in runs) for s in STAGES]
        row = f"{name:24}{''.join(f'{m:8.3f}' for m in medians)}{sum(medians):8.2f}"
        if "weight @" not in text:
            ms, size = load_ms(text)
            row += f"{ms:9.1f}{size // 1024:7}"
        print(row, flush=True)


if __name__ == "__main__":
    sys.exit(main())
