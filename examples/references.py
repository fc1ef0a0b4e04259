"""What each example computes, written independently in numpy, with input for it at given sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Arrays = dict[str, np.ndarray]
Sizes = dict[str, int]


@dataclass(frozen=True)
class Example:
    """`inputs(rng, sizes)` are the arguments by name, `reference(inputs, weights)` the results; `sizes` to run at."""

    file: str
    sizes: tuple[Sizes, ...]
    weights: Callable[[np.random.Generator], Arrays]
    inputs: Callable[[np.random.Generator, Sizes], Arrays]
    reference: Callable[[Arrays, Arrays], tuple[np.ndarray, ...]]


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True, initial=-1e30))
    return e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, past: int) -> np.ndarray:
    """[b, heads, s, d] against [b, kv_heads, t, d]; query i sees keys up to i + past."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    seen = np.arange(k.shape[2]) <= np.arange(q.shape[2])[:, None] + past
    return softmax(np.where(seen, scores, -np.inf)) @ v if k.shape[2] else np.zeros_like(q)


def no_weights(_rng: np.random.Generator) -> Arrays:
    return {}


def _gelu(x: np.ndarray) -> np.ndarray:
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def _mlp(x: Arrays, w: Arrays) -> tuple[np.ndarray, ...]:
    return (_gelu(x["x"].astype(np.float64) @ w["up"]) @ w["down"],)


def _attention(x: Arrays, _w: Arrays) -> tuple[np.ndarray, ...]:
    q, k, v = (x[n].astype(np.float64).transpose(0, 2, 1, 3) for n in "qkv")
    out = attend(q, k, v, 0).transpose(0, 2, 1, 3)
    return (out.reshape(*out.shape[:2], 256),)


def _rms(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * w


def _block(x: Arrays, w: Arrays) -> tuple[np.ndarray, ...]:
    """The logits and the two caches after the call."""
    w = {n: a.astype(np.float64) for n, a in w.items()}
    b, s = x["ids"].shape
    t = x["keys"].shape[0]
    past = t - s
    h = w["tokens"][x["ids"]] + w["positions"][past:t]
    heads = (_rms(h, w["norm1"]) @ w["qkv"]).reshape(b, s, 3, 4, 16)
    keys, values = x["keys"].astype(np.float64), x["values"].astype(np.float64)
    keys[past:], values[past:] = heads[:, :, 1].transpose(1, 0, 2, 3), heads[:, :, 2].transpose(1, 0, 2, 3)
    q = heads[:, :, 0].transpose(0, 2, 1, 3)
    a = attend(q, keys.transpose(1, 2, 0, 3), values.transpose(1, 2, 0, 3), past)
    h = h + a.transpose(0, 2, 1, 3).reshape(b, s, 64) @ w["out"]
    m = _rms(h, w["norm2"]) @ w["up"]
    h = h + (m / (1 + np.exp(-m))) @ w["down"]
    return (_rms(h, w["norm3"]) @ w["tokens"].T, keys, values)


def _conv2d(x: np.ndarray, w: np.ndarray, bias: np.ndarray, stride: int) -> np.ndarray:
    """Padding 1, kernel 3, as a sum over the nine taps."""
    p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    oh, ow = (x.shape[2] - 1) // stride + 1, (x.shape[3] - 1) // stride + 1
    out = np.zeros((x.shape[0], w.shape[0], oh, ow))
    for i in range(3):
        for j in range(3):
            tap = p[:, :, i : i + stride * (oh - 1) + 1 : stride, j : j + stride * (ow - 1) + 1 : stride]
            out += np.einsum("nchw,oc->nohw", tap, w[:, :, i, j])
    return out + bias[:, None, None]


def _conv(x: Arrays, w: Arrays) -> tuple[np.ndarray, ...]:
    h = np.maximum(_conv2d(x["x"].astype(np.float64), w["w1"], w["b1"], 2), 0)
    h = np.maximum(_conv2d(h, w["w2"], w["b2"], 1), 0)
    return (h.mean(axis=(2, 3)) @ w["head"],)


def _regroup(x: Arrays, _w: Arrays) -> tuple[np.ndarray, ...]:
    n, d = x["x"].shape
    groups = x["x"].astype(np.float64).reshape(n // 8, 8, d)
    centred = groups - groups.mean(axis=(1, 2), keepdims=True) if n else groups
    return ((centred * x["scale"].reshape(-1, 1, 1)).reshape(n, d),)


def _pairs(x: Arrays, _w: Arrays) -> tuple[np.ndarray, ...]:
    a = x["x"].astype(np.float64)
    return (a[:, ::2] + a[:, 1::2] + x["y"],)


def _block_weights(rng: np.random.Generator) -> Arrays:
    shapes = {"tokens": (100, 64), "positions": (256, 64), "norm1": (64,), "qkv": (64, 192), "out": (64, 64)}
    shapes |= {"norm2": (64,), "up": (64, 256), "down": (256, 64), "norm3": (64,)}
    return {n: normal(rng, *shape, scale=0.2) for n, shape in shapes.items()}


def _block_inputs(rng: np.random.Generator, z: Sizes) -> Arrays:
    caches = {n: normal(rng, z["t"], z["b"], 4, 16) for n in ("keys", "values")}
    return {"ids": rng.integers(0, 100, (z["b"], z["s"])), **caches}


EXAMPLES = (
    Example(
        "mlp.ir",
        tuple({"n": n} for n in (0, 1, 17, 128, 1024)),
        lambda rng: {"up": normal(rng, 64, 256, scale=0.1), "down": normal(rng, 256, 64, scale=0.1)},
        lambda rng, z: {"x": normal(rng, z["n"], 64)},
        _mlp,
    ),
    Example(
        "attention.ir",
        ({"b": 0, "s": 5}, {"b": 2, "s": 0}, {"b": 1, "s": 1}, {"b": 3, "s": 37}, {"b": 8, "s": 256}),
        no_weights,
        lambda rng, z: {n: normal(rng, z["b"], z["s"], heads, 32) for n, heads in (("q", 8), ("k", 2), ("v", 2))},
        _attention,
    ),
    Example(
        "transformer_block.ir",
        (
            {"b": 1, "s": 0, "t": 0},
            {"b": 1, "s": 1, "t": 1},
            {"b": 2, "s": 7, "t": 7},
            {"b": 2, "s": 1, "t": 33},
            {"b": 4, "s": 32, "t": 256},
        ),
        _block_weights,
        _block_inputs,
        _block,
    ),
    Example(
        "conv.ir",
        tuple({"n": n, "h": h, "w": w} for n, h, w in ((0, 8, 8), (1, 1, 1), (2, 7, 9), (1, 33, 16), (4, 64, 64))),
        lambda rng: {
            "w1": normal(rng, 16, 3, 3, 3, scale=0.3),
            "b1": normal(rng, 16),
            "w2": normal(rng, 32, 16, 3, 3, scale=0.1),
            "b2": normal(rng, 32),
            "head": normal(rng, 32, 10),
        },
        lambda rng, z: {"x": normal(rng, z["n"], 3, z["h"], z["w"])},
        _conv,
    ),
    Example(
        "reshape_facts.ir",
        tuple({"n": n, "d": d} for n, d in ((0, 4), (8, 1), (16, 33), (256, 64), (1024, 64))),
        no_weights,
        lambda rng, z: {"x": normal(rng, z["n"], z["d"]), "scale": normal(rng, z["n"] // 8)},
        _regroup,
    ),
    Example(
        "match_cast.ir",
        tuple({"n": n, "k": k} for n, k in ((0, 3), (1, 0), (1, 1), (100, 7), (512, 32))),
        no_weights,
        lambda rng, z: {"x": normal(rng, z["n"], 2 * z["k"]), "y": normal(rng, z["n"], z["k"])},
        _pairs,
    ),
)
