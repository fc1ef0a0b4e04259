"""How many kernels a program becomes, where that matters: dynamic sizes must fuse exactly as static ones do."""

from __future__ import annotations

import pytest

from pliant.compiler.codegen.llvm import resolve
from pliant.compiler.driver import Compilation
from pliant.compiler.target import Target
from pliant.ir.loops import Copy, Launch
from pliant.ir.parser import parse_module
from pliant.passes.graph.specialize import Specialize

TARGET = resolve(Target.parse("cpu:x86-64-v3"))


def launches(text: str, sizes: dict[str, int] | None = None) -> list[str]:
    """What each kernel of @main is made of, in the order they run; `copy` for a copy at the end."""
    module = parse_module(text)
    if sizes:
        module = Specialize.of(sizes).run(module)
    program = Compilation(module, TARGET).lowered.program
    main = next(f for f in program.functions if f.name == "main")
    origins = {k.name: k.origin for k in program.kernels}
    return [
        origins[s.kernel] if isinstance(s, Launch) else "copy" for s in main.launches if isinstance(s, (Launch, Copy))
    ]


def count(body: str, head: str = "(x: f32[n, m]) -> f32[n, m]", before: str = "") -> int:
    return len(launches(f"{before}func @main{head} {{ {body} }}"))


ROWS = {
    "softmax": "y = softmax(x, axis=-1) return y",
    "softmax over columns": "y = softmax(x, axis=0) return y",
    "log_softmax": "y = log_softmax(x, axis=-1) return y",
    "layer_norm": "y = layer_norm(x) return y",
    "rms_norm": "y = rms_norm(x) return y",
    "softmax of scaled and masked scores": """
        a = mul(x, 0.125) b = exp(a) c = tril(b) d = softmax(c, axis=-1) e = mul(d, 2) return e""",
    "norm, scaled and added": "a = exp(x) b = layer_norm(a) c = mul(b, 3) d = add(c, x) return d",
    "norm after norm": "a = rms_norm(x) b = softmax(a, axis=-1) c = layer_norm(b) return c",
    "written out": """
        t = max(x, axis=-1, keepdims=true, initial=0) d = sub(x, t) e = exp(d) s = sum(e, axis=-1, keepdims=true)
        r = div(e, s) return r""",
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_become_one_kernel(name: str) -> None:
    assert count(ROWS[name]) == 1


MAPS = {
    "a chain": "a = exp(x) b = mul(a, x) c = tanh(b) d = add(c, a) return d",
    "views before": "a = flip(x, axis=0) b = permute(a, axes=[1, 0]) c = permute(b, axes=[1, 0]) d = exp(c) return d",
    "parts": "a = slice(x, axis=0, start=0) b = pad(a, pads=[[0, 0], [0, 0]]) c = add(b, x) return c",
    "broadcast": "b = exp(x) c = max(b, axis=1, keepdims=true, initial=0) d = add(b, c) return d",
    "sizes as values": "a = div(x, n) b = sub(a, m) return b",
    "creation": "a = full(shape=[n, m], value=2.0) b = iota(shape=[n, m], axis=1, dtype=f32) c = fma(x, a, b) return c",
}


@pytest.mark.parametrize("name", MAPS)
def test_maps_become_one_kernel(name: str) -> None:
    assert count(MAPS[name]) == 1


VIEWS = {
    "permute": ("y = permute(x, axes=[1, 0]) z = exp(y) return z", "f32[m, n]"),
    "reshape": ("y = reshape(x, shape=[n*m]) z = exp(y) return z", "f32[n*m]"),
    "reshape of what was computed": ("a = exp(x) y = reshape(a, shape=[n*m]) return y", "f32[n*m]"),
    "expand": ("y = broadcast_to(x, shape=[4, n, m]) z = exp(y) return z", "f32[4, n, m]"),
    "slice": ("y = slice(x, axis=1, step=2) z = exp(y) return z", "f32[n, (m+1)//2]"),
    "unsqueeze": ("y = unsqueeze(x, axis=1) z = exp(y) return z", "f32[n, 1, m]"),
    "flip": ("y = flip(x, axis=[0, 1]) z = exp(y) return z", "f32[n, m]"),
    "concat": ("y = concat(x, x, axis=0) z = exp(y) return z", "f32[2*n, m]"),
    "repeat": ("y = repeat(x, repeats=[2, 1]) return y", "f32[2*n, m]"),
    "pad": ("y = pad(x, pads=[[1, 0], [0, 0]]) z = exp(y) return z", "f32[n+1, m]"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_cost_no_kernel(name: str) -> None:
    body, result = VIEWS[name]
    assert count(body, f"(x: f32[n, m]) -> {result}") == 1


WEIGHTS = "weight @w: f32[64, 96] weight @b: f32[96] weight @v: f32[96, 64] weight @g: f32[64] "
EPILOGUES = {
    "bias": ("a = matmul(x, @w) b = add(a, @b) return b", "f32[n, 96]", 1),
    "bias, gelu": ("a = matmul(x, @w) b = add(a, @b) c = gelu(b) return c", "f32[n, 96]", 1),
    "bias, gelu, residual": ("a = matmul(x, @w) b = add(a, @b) c = gelu(b) d = add(c, r) return d", "f32[n, 96]", 1),
    "cast": ("a = matmul(x, @w) b = cast(a, dtype=bf16) return b", "bf16[n, 96]", 1),
    "both results": ("a = matmul(x, @w) b = relu(a) return a, b", "f32[n, 96], f32[n, 96]", 1),
    "mlp": ("a = matmul(x, @w) b = gelu(a) c = matmul(b, @v) d = add(c, x) return d", "f32[n, 64]", 2),
    "block": (
        "h = rms_norm(x, @g) a = matmul(h, @w) b = silu(a) c = matmul(b, @v) d = add(c, x) return d",
        "f32[n, 64]",
        3,
    ),
    "transposed weight": ("a = matmul(x, @v, transpose_b=true) b = relu(a) return b", "f32[n, 96]", 1),
}


@pytest.mark.parametrize("name", EPILOGUES)
def test_what_follows_a_matrix_product_goes_into_its_kernel(name: str) -> None:
    body, result, kernels = EPILOGUES[name]
    assert count(body, f"(x: f32[n, 64], r: f32[n, 96]) -> {result}", WEIGHTS) == kernels


ATTENTION = """
func @main(q: f32[b, s, 4, 32], k: f32[b, t, 4, 32], v: f32[b, t, 4, 32]) -> f32[b, s, 128] where s <= t {
    q1 = permute(q, axes=[0, 2, 1, 3]) k1 = permute(k, axes=[0, 2, 1, 3]) v1 = permute(v, axes=[0, 2, 1, 3])
    a = attention(q1, k1, v1, causal=true, offset=t - s)
    a1 = permute(a, axes=[0, 2, 1, 3])
    y = reshape(a1, shape=[b, s, 128])
    return y
}
"""
PROGRAMS: dict[str, tuple[str, dict[str, int]]] = {
    **{
        name: (f"func @main(x: f32[n, m]) -> f32[n, m] {{ {b} }}", {"n": 24, "m": 56})
        for name, b in (ROWS | MAPS).items()
    },
    **{
        f"view: {name}": (f"func @main(x: f32[n, m]) -> {r} {{ {b} }}", {"n": 24, "m": 56})
        for name, (b, r) in VIEWS.items()
    },
    **{
        f"epilogue: {name}": (f"{WEIGHTS} func @main(x: f32[n, 64], r: f32[n, 96]) -> {r} {{ {b} }}", {"n": 24})
        for name, (b, r, _) in EPILOGUES.items()
    },
    "attention": (ATTENTION, {"b": 2, "s": 8, "t": 24}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_dynamic_sizes_fuse_as_static_ones(name: str) -> None:
    text, sizes = PROGRAMS[name]
    assert launches(text) == launches(text, sizes)


def test_nothing_is_copied_but_what_lives_elsewhere() -> None:
    update = "func @main(inout c: f32[n], x: f32[n]) -> f32[n] { a = add(c, x) update c = a b = exp(a) return b }"
    assert launches(update).count("copy") <= 1
    assert launches("func @main(x: f32[n]) -> f32[n] { return x }") == ["copy"]
    assert launches("func @main(x: f32[n, 4]) -> f32[4*n] { y = reshape(x, shape=[4*n]) return y }") == ["copy"]
