"""A matmul 768 x 3072 (plain, and with bias and gelu), softmax and layer norm over 768, against numpy and torch.

One process, interleaved, medians; a ratio above 1 means that pliant is faster.  torch is left out where it is missing.

    python benchmarks/kernels.py [--threads N]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from _timing import interleaved, without_slow_blas

without_slow_blas()

import numpy as np  # noqa: E402

import pliant  # noqa: E402

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

MATMUL = """
weight @w : f32[768, 3072]
func @main(x: f32[n, 768]) -> f32[n, 3072] where n in 0..4096 {
    y = matmul(x, @w)
    return y
}
"""
LINEAR_GELU = """
weight @w : f32[768, 3072]
weight @b : f32[3072]
func @main(x: f32[n, 768]) -> f32[n, 3072] where n in 0..4096 {
    y = matmul(x, @w)
    z = add(y, @b)
    g = gelu(z)
    return g
}
"""
SOFTMAX = """
func @main(x: f32[n, 768]) -> f32[n, 768] where n in 0..4096 {
    y = softmax(x)
    return y
}
"""
LAYER_NORM = """
weight @g : f32[768]
weight @b : f32[768]
func @main(x: f32[n, 768]) -> f32[n, 768] where n in 0..4096 {
    y = layer_norm(x, @g, @b)
    return y
}
"""
ROWS = (1, 16, 128, 1024)
NAMES = {"matmul": "matmul", "linear": "linear+gelu", "softmax": "softmax", "norm": "layer_norm"}


def np_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def np_layer_norm(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    d = x - x.mean(axis=1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5) * g + b


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=None, help="threads of all contestants (default: all cores)")
    threads = parser.parse_args().threads
    if threads is not None:
        pliant.set_num_threads(threads)
        if torch is not None:
            torch.set_num_threads(threads)
    rng = np.random.default_rng(0)
    w = rng.standard_normal((768, 3072), dtype=np.float32)
    bias = rng.standard_normal(3072, dtype=np.float32)
    g, b = rng.standard_normal((2, 768), dtype=np.float32)
    matmul = pliant.compile(MATMUL, weights={"w": w})
    linear = pliant.compile(LINEAR_GELU, weights={"w": w, "b": bias})
    softmax = pliant.compile(SOFTMAX)
    norm = pliant.compile(LAYER_NORM, weights={"g": g, "b": b})
    print(f"{'':14}{'n':>6}{'pliant':>12}{'numpy':>10}{'torch':>10}   (microseconds; then ratios to pliant)")
    for n in ROWS:
        x = rng.standard_normal((n, 768), dtype=np.float32)
        ours = {"matmul": matmul, "linear": linear, "softmax": softmax, "norm": norm}
        theirs: dict[str, Callable[[np.ndarray], np.ndarray]] = {
            "matmul": lambda a: a @ w,
            "softmax": np_softmax,
            "norm": lambda a: np_layer_norm(a, g, b),
        }
        for kind, name in NAMES.items():
            contestants = {"pliant": partial(ours[kind], x)}
            if kind in theirs:
                contestants["numpy"] = partial(theirs[kind], x)
            _row(name, n, contestants, _torch(kind, x, w, bias, g, b))


def _torch(kind: str, x: np.ndarray, w: np.ndarray, bias: np.ndarray, g: np.ndarray, b: np.ndarray):  # type: ignore[no-untyped-def]
    if torch is None:
        return None
    functional = torch.nn.functional
    tx, tw, tb, tg, tn = (torch.from_numpy(a) for a in (x, np.ascontiguousarray(w.T), bias, g, b))
    calls = {
        "matmul": lambda: functional.linear(tx, tw),
        "linear": lambda: functional.gelu(functional.linear(tx, tw, tb)),
        "softmax": lambda: torch.softmax(tx, 1),
        "norm": lambda: functional.layer_norm(tx, (768,), tg, tn),
    }
    call = calls[kind]

    def quiet() -> object:
        with torch.inference_mode():
            return call()

    return quiet


def _row(name: str, n: int, contestants, rival) -> None:  # type: ignore[no-untyped-def]
    if rival is not None:
        contestants["torch"] = rival
    times = interleaved(contestants)
    cells = "".join(
        f"{1e6 * times[c]:>{12 if c == 'pliant' else 10}.1f}" if c in times else f"{'':>10}"
        for c in ("pliant", "numpy", "torch")
    )
    ratios = "  ".join(f"{c} {times[c] / times['pliant']:.2f}" for c in times if c != "pliant")
    print(f"{name:14}{n:>6}{cells}   {ratios}", flush=True)


if __name__ == "__main__":
    main()
