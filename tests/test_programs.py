"""Programs that were wrong once, or might easily be: compiled against interpreted at many sizes, 0 and 1 among them."""

from __future__ import annotations

import threading
from itertools import product

import numpy as np
import pytest

from pliant.compiler.driver import compile as compile_program
from pliant.ir.infer_module import infer_module
from pliant.ir.parser import parse_module
from tests.program_harness import agree, allowed

SIZES = tuple({"n": n, "m": m} for n, m in ((0, 3), (4, 0), (1, 1), (1, 7), (9, 1), (6, 4), (8, 8), (33, 70)))

UPDATES = {
    "exchanged": "(inout a: f32[n], inout b: f32[n]) { update a = b update b = a return }",
    "turned": """(inout a: f32[n], inout b: f32[n], inout c: f32[n]) -> f32[n], f32[n] {
        update a = b update b = c update c = a z = add(a, b) return z, c }""",
    "the old value returned": "(inout a: f32[n], x: f32[n]) -> f32[n], f32[n] { y = exp(x) update a = y return a, y }",
    "old and new in a tuple": """(inout a: f32[n], x: f32[n]) -> (f32[n], f32[n]) {
        y = exp(x) update a = y p = (a, y) return p }""",
    "twice the same": """(inout a: f32[n], inout b: f32[n], x: f32[n]) -> f32[n] {
        y = exp(x) update a = y update b = y return y }""",
    "itself": "(inout a: f32[n]) -> f32[n] { update a = a return a }",
    "another parameter": "(inout a: f32[n], x: f32[n]) -> f32[n] { update a = x return x }",
    "a number": "(inout a: f32[], inout b: i64[], x: f32[n]) -> i64[] { update a = 2.5 update b = n return b }",
    "of another shape": """(inout a: f32[n, 4], x: f32[n*4]) -> f32[n*4] {
        b = reshape(a, shape=[n*4]) y = exp(x) z = reshape(y, shape=[n, 4]) update a = z return b }""",
    "read elsewhere afterwards": """(inout a: f32[n], inout b: f32[n]) -> f32[n] {
        y = exp(b) z = exp(a) update a = y update b = z q = flip(a, axis=0) return q }""",
    "read reversed meanwhile": """(inout a: f32[n], inout b: f32[n]) -> f32[n] {
        y = flip(a, axis=0) z = add(y, b) update a = z w = add(a, b) return w }""",
    "a matrix product of itself": "(inout a: f32[n, n]) -> f32[n, n] { y = matmul(a, a) update a = y return y }",
    "a matrix product, old read after": """(inout a: f32[n, n], x: f32[n, n]) -> f32[n, n] {
        y = matmul(x, x) update a = y z = matmul(a, a) return z }""",
    "rows replaced": """(inout a: f32[n, 4], x: f32[n, 4]) -> f32[n, 4], f32[] {
        i = arange(stop=n) j = flip(i, axis=0) z = index_put(a, x, j) update a = z s = sum(a) return z, s }""",
}

CALLS = {
    "updates through calls": """
        func @g(inout c: f32[n], x: f32[n]) -> f32[n] { y = add(c, x) update c = y return c }
        func @f(inout a: f32[n], inout b: f32[n], x: f32[n]) -> f32[n], f32[n], f32[n] {
            u = @g(a, x) v = @g(b, u) w = add(a, b) return u, v, w }""",
    "tuples through calls": """
        func @g(p: (f32[n], f32[m])) -> (f32[m], (f32[n], i64[])) {
            a = p.0 b = p.1 c = exp(a) q = (b, (c, n)) return q }
        func @f(x: f32[n], y: f32[m]) -> f32[n], f32[m], i64[] {
            r = @g((x, y)) s = r.1 t = s.0 u = r.0 k = s.1 return t, u, k }""",
    "one function at several sizes": """
        func @g(x: f32[a, b]) -> f32[b, a] { y = softmax(x, axis=0) z = permute(y, axes=[1, 0]) return z }
        func @f(x: f32[n, m]) -> f32[n, m], f32[m, n] { y = @g(x) z = @g(y) w = @g(z) return z, w }""",
    "symbols solved in the callee": """
        func @g(x: f32[2*k]) -> f32[k] { y = slice(x, axis=0, step=2) return y }
        func @f(x: f32[4*n]) -> f32[n] { y = @g(x) z = @g(y) return z }""",
}

FUSION = {
    "a merged group leaves a gap in the numbers": """(x: f32[n, m], y: f32[m, n]) -> f32[n, n] {
        i = arange(stop=m) t = take(x, i, axis=1) r = rms_norm(x, eps=0.1) p = mul(t, r)
        q = matmul(y, p, transpose_a=true, transpose_b=true) return q }""",
    "a kernel over nothing": """(x: f32[n, m]) -> f32[n, 0], f32[0] {
        y = slice(x, axis=1, start=-1, stop=0, step=2) z = sum(y, axis=0) return y, z }""",
    "rows read by another row kernel": """(x: f32[n, m]) -> f32[n, m] {
        a = softmax(x, axis=-1) b = softmax(a, axis=0) c = layer_norm(b, eps=0.1) d = add(c, x) return d }""",
    "a reduced value used as a whole and by row": """(x: f32[n, m]) -> f32[n, m], f32[n, 1], f32[] {
        s = sum(x, axis=1, keepdims=true) d = sub(x, s) t = sum(s) return d, s, t }""",
    "two reductions over different axes": """(x: f32[n, m]) -> f32[n], f32[m], f32[], f32[n, m] {
        e = exp(x) a = sum(e, axis=1) b = max(e, axis=0, initial=0) c = mean(e) return a, b, c, e }""",
    "a permutation of rows and columns in one kernel": """(x: f32[n, m]) -> f32[m, n], f32[n, m] {
        a = permute(x, axes=[1, 0]) b = exp(a) c = permute(b, axes=[1, 0]) d = add(c, x) return b, d }""",
    "the diagonal": """(x: f32[n, n]) -> f32[n], f32[n] {
        d = diagonal(x) e = exp(d) s = softmax(x, axis=-1) t = diagonal(s) u = mul(e, t) return e, u }""",
    "values of a row through a reshape": """(x: f32[n, 4*m]) -> f32[n, m, 4], f32[n, 4*m] {
        a = softmax(x, axis=-1) b = reshape(a, shape=[n, m, 4]) c = softmax(b, axis=-1)
        d = reshape(c, shape=[n, 4*m]) e = add(d, a) return c, e }""",
    "an epilogue that reads its own operand": """(x: f32[n, n], b: f32[n]) -> f32[n, n], f32[n, n] {
        y = matmul(x, x) z = add(y, b) g = gelu(z) r = add(g, x) return r, y }""",
    "an epilogue that reads a transposed operand": """(x: f32[n, n]) -> f32[n, n] {
        y = matmul(x, x) t = permute(x, axes=[1, 0]) z = add(y, t) return z }""",
    "the product itself transposed": """(x: f32[n, m]) -> f32[m, n], f32[n, n] {
        y = matmul(x, x, transpose_b=true) z = permute(y, axes=[1, 0]) w = add(y, z) v = matmul(x, w, transpose_a=true)
        return v, w }""",
    "broadcasts against columns and rows": """(x: f32[n, 1], y: f32[1, m], z: f32[m]) -> f32[n, m], f32[n] {
        a = add(x, y) b = mul(a, z) c = maximum(b, x) d = sum(c, axis=-1) return c, d }""",
    "sizes as values": """(x: f32[n, m]) -> f32[n, m], f32[], i64[], f32[] {
        a = div(x, m) b = sum(a) c = dim(x, axis=1) d = add(b, n) return a, b, c, d }""",
    "overlapping parts of one value": """(x: f32[n, m]) -> f32[2*n, m] where n >= 1 {
        y = exp(x) a = slice(y, axis=0, start=1) b = slice(y, axis=0, stop=n-1) c = add(a, b)
        d = concat(c, y, axis=0) e = pad(d, pads=[[1, 0], [0, 0]]) return e }""",
    "the same value many times": """(x: f32[n, m]) -> f32[n, m], f32[n, m], (f32[n, m], f32[n, m]), f32[n, m] {
        y = exp(x) return y, x, (y, x), y }""",
    "bools": """(x: f32[n, m], p: bool[n, m]) -> bool[n], bool[], f32[n, m], i64[n, m] {
        a = gt(x, 0) b = logical_xor(a, p) c = any(b, axis=1) d = all(b) e = where(b, x, 1)
        f = cast(b, dtype=i64) return c, d, e, f }""",
}


def check(text: str) -> None:
    module = infer_module(parse_module(text))
    executable = compile_program(module, opt=1)
    ran = 0
    for seed, binding in enumerate(SIZES):
        if allowed(module.function("f"), binding):
            ran += agree(module, executable, "f", binding, seed=seed)
    assert ran


@pytest.mark.parametrize("name", UPDATES)
def test_updates(name: str) -> None:
    check(f"func @f{UPDATES[name]}")


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    check(CALLS[name])


@pytest.mark.parametrize("name", FUSION)
def test_fusion_keeps_the_meaning(name: str) -> None:
    check(f"func @f{FUSION[name]}")


MATMULS = (
    ("f32[n, m]", "f32[m, 5]", ""),
    ("f32[m, n]", "f32[m, 5]", ", transpose_a=true"),
    ("f32[n, m]", "f32[n, m]", ", transpose_b=true"),
    ("f32[m, n]", "f32[70, m]", ", transpose_a=true, transpose_b=true"),
    ("f32[m]", "f32[m, n]", ""),
    ("f32[n, m]", "f32[m]", ""),
    ("f32[m]", "f32[m]", ""),
    ("f32[2, n, m]", "f32[m, 3]", ""),
    ("f32[n, m]", "f32[3, m, n]", ""),
    ("f32[2, 1, n, m]", "f32[3, m, n]", ""),
    ("f32[n, 2, m]", "f32[n, m, 33]", ""),
    ("f16[n, m]", "f16[m, 40]", ""),
    ("bf16[n, m]", "bf16[m, 40]", ""),
    ("f64[n, m]", "f64[m, 40]", ""),
    ("f32[n, 1]", "f32[1, m]", ""),
    ("f32[n, 0]", "f32[0, m]", ""),
    ("f32[0, n]", "f32[n, m]", ""),
    ("f32[n, m]", "f32[m, 0]", ""),
    ("f32[3, n, m]", "f32[3, m, 0]", ""),
    ("f32[1, n*m]", "f32[n*m, 1]", ""),
)


@pytest.mark.parametrize(("a", "b", "flags"), MATMULS)
def test_matmul(a: str, b: str, flags: str) -> None:
    from pliant.ir.build import ModuleBuilder

    builder = ModuleBuilder()
    sized = {"s": "f32[n, m]"}
    f = builder.function("f", {"a": a, "b": b, **sized})
    given = {"transpose_a": "transpose_a" in flags, "transpose_b": "transpose_b" in flags}
    y = f.matmul(f.a, f.b, **given)
    f.returns(y, f.relu(f.add(y, 1)), f.sum(y))
    module = builder.build()
    executable = compile_program(module, opt=1)
    for seed, binding in enumerate((*SIZES, {"n": 100, "m": 400})):
        agree(module, executable, "f", binding, seed=seed)


BLOCK = """
weight @w1 : f32[64, 96]
weight @b1 : f32[96]
weight @w2 : f32[96, 64]
func @main(x: f32[n, 64], inout seen: f32[n]) -> f32[n, 64], f32[n] {
    h = rms_norm(x)
    a = matmul(h, @w1)
    b = add(a, @b1)
    c = gelu(b)
    d = matmul(c, @w2)
    e = add(d, x)
    s = sum(e, axis=-1)
    t = add(seen, s)
    update seen = t
    k = cumsum(s, axis=0)
    return e, k
}
"""


def test_eight_threads_call_one_program_at_different_sizes() -> None:
    from pliant.ir.interpret import interpret

    rng = np.random.default_rng(0)
    shapes = {"w1": (64, 96), "b1": (96,), "w2": (96, 64)}
    weights = {k: (0.1 * rng.standard_normal(s)).astype(np.float32) for k, s in shapes.items()}
    module = parse_module(BLOCK)
    executable = compile_program(module, weights=weights, opt=1)
    sizes = (0, 1, 5, 16, 33, 100, 257, 400)
    inputs = {n: rng.standard_normal((n, 64)).astype(np.float32) for n in sizes}
    expected = {}
    for n, x in inputs.items():
        seen = np.ones(n, np.float32)
        expected[n] = (*interpret(module, "main", [x, seen], weights), seen)
    wrong: list[str] = []
    start = threading.Barrier(8)

    def caller(first: int) -> None:
        start.wait()
        for step, _ in product(range(len(sizes)), range(4)):
            n = sizes[(first + step) % len(sizes)]
            seen = np.ones(n, np.float32)
            got = (*executable(inputs[n], seen), seen)
            for which, (g, w) in enumerate(zip(got, expected[n], strict=True)):
                if not np.allclose(g, w, rtol=1e-4, atol=1e-3):
                    wrong.append(f"thread {first}, n = {n}, value {which}")

    threads = [threading.Thread(target=caller, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
