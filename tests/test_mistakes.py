"""What people write who come from numpy, torch, ONNX, MLIR or einops: the help says how it is written here."""

from __future__ import annotations

import re

import pytest

from pliant.ir.diagnostics import CompileError, Diagnostic
from pliant.ir.infer_module import infer_module
from pliant.ir.parser import parse_module
from pliant.ir.parser_foreign import ATTRIBUTES, NOTHING, POSITIONAL, RANDOM, RENAMED, SPREAD, USAGE, WRITTEN
from pliant.ir.registry import registry
from tests.help_harness import programs

HEAD = "func @main(x: f32[n, m], y: f32[n, m], w: f32[m, h], k: i64[], i: i32[n, m], v: f32[n], c: bool[n, m])\n{\n"

CALLS = """
z = concat([x, y])                         | z = concat(x, y, axis=0)
z = concat([x, y], axis=1)                 | z = concat(x, y, axis=1)
z = cat(x, y, axis=0)                      | z = concat(x, y, axis=0)
z = cat([x, y], dim=0)                     | z = concat(x, y, axis=0)
z = torch.cat((x, y), dim=1)               | z = concat(x, y, axis=1)
z = np.concatenate([x, y], axis=1)         | z = concat(x, y, axis=1)
z = stack([x, y])                          | z = stack(x, y, axis=0)
z = hstack([x, y])                         | z = concat(x, y, axis=1)
z = sum(x, 1)                              | z = sum(x, axis=1)
z = sum(x, dim=1)                          | z = sum(x, axis=1)
z = sum(x, dim=(0, 1))                     | z = sum(x, axis=[0, 1])
z = sum(x, axis=1, keepdim=true)           | z = sum(x, axis=1, keepdims=true)
z = sum(x, axis=None)                      | z = sum(x)
z = mean(x, -1, true)                      | z = mean(x, axis=-1, keepdims=true)
z = mean(x, -1, keepdim=True)              | z = mean(x, axis=-1, keepdims=true)
z = ReduceSum(x, axes=[1], keepdims=1)     | z = sum(x, axis=[1], keepdims=true)
z = amax(x, dim=1)                         | z = max(x, axis=1)
z = max(x, y)                              | z = maximum(x, y)
z = min(x, 0)                              | z = min(x, axis=0)
z = softmax(x, -1)                         | z = softmax(x, axis=-1)
z = F.softmax(x, dim=-1)                   | z = softmax(x, axis=-1)
z = argmax(x, dim=-1)                      | z = argmax(x, axis=-1)
z = cumsum(x, dim=0)                       | z = cumsum(x, axis=0)
z = cumsum(x, 0)                           | z = cumsum(x, axis=0)
z = logsumexp(x, dim=1)                    | z = logsumexp(x, axis=1)
z = std(x, ddof=1)                         | z = std(x, correction=1)
z = var(x, unbiased=false)                 | z = var(x, correction=0)
z = var(x, dim=1, unbiased=True)           | z = var(x, axis=1, correction=1)
z = norm(x, p=2, dim=1)                    | z = norm(x, ord=2, axis=1)
z = x.sum(axis=1)                          | z = sum(x, axis=1)
z = x.relu()                               | z = relu(x)
z = x.reshape(m, n)                        | z = reshape(x, shape=[m, n])
z = x.view(m, n)                           | z = reshape(x, shape=[m, n])
z = x.T                                    | z = transpose(x)
z = x.t()                                  | z = transpose(x)
z = x.transpose(0, 1)                      | z = transpose(x, axis=[0, 1])
z = x.permute(1, 0)                        | z = permute(x, axes=[1, 0])
z = x.float()                              | z = cast(x, dtype=f32)
z = x.to(float16)                          | z = cast(x, dtype=f16)
z = reshape(x, [m, n])                     | z = reshape(x, shape=[m, n])
z = reshape(x, (m, n))                     | z = reshape(x, shape=[m, n])
z = reshape(x, m, n)                       | z = reshape(x, shape=[m, n])
z = transpose(x, 0, 1)                     | z = transpose(x, axis=[0, 1])
z = transpose(x, dim0=0, dim1=1)           | z = transpose(x, axis=[0, 1])
z = swapaxes(x, 0, 1)                      | z = transpose(x, axis=[0, 1])
z = Transpose(x, perm=[1, 0])              | z = permute(x, axes=[1, 0])
z = permute(x, dims=[1, 0])                | z = permute(x, axes=[1, 0])
z = permute(x, 1, 0)                       | z = permute(x, axes=[1, 0])
z = unsqueeze(x, 0)                        | z = unsqueeze(x, axis=0)
z = unsqueeze(x, dim=-1)                   | z = unsqueeze(x, axis=-1)
z = expand_dims(x, axis=0)                 | z = unsqueeze(x, axis=0)
z = expand(x, -1, m)                       | z = expand(x, shape=[-1, m])
z = broadcast_to(x, [n, m])                | z = broadcast_to(x, shape=[n, m])
z = ravel(x)                               | z = flatten(x)
z = astype(x, f16)                         | z = cast(x, dtype=f16)
z = cast(x, f16)                           | z = cast(x, dtype=f16)
z = cast(x, dtype="f16")                   | z = cast(x, dtype=f16)
z = cast(x, dtype=float16)                 | z = cast(x, dtype=f16)
z = cast(x, dtype=torch.float16)           | z = cast(x, dtype=f16)
z = cast(x, to=f16)                        | z = cast(x, dtype=f16)
z = cast(x, dtype=int)                     | z = cast(x, dtype=i64)
z = zeros([n, m])                          | z = zeros(shape=[n, m])
z = torch.zeros(n, m)                      | z = zeros(shape=[n, m])
z = full([n, m], 0)                        | z = full(shape=[n, m], value=0)
z = arange(n)                              | z = arange(stop=n)
z = arange(1, n)                           | z = arange(start=1, stop=n)
z = eye(3)                                 | z = eye(n=3)
z = mm(x, w)                               | z = matmul(x, w)
z = torch.bmm(x, w)                        | z = matmul(x, w)
z = MatMul(x, w)                           | z = matmul(x, w)
z = linalg.matmul(x, w)                    | z = matmul(x, w)
z = x @ w                                  | z = matmul(x, w)
z = einsum("ij,jk->ik", x, w)              | z = einsum(x, w, equation="ij,jk->ik")
z = clip(x, 0, 1)                          | z = clamp(x, 0, 1)
z = clamp(x, min=0)                        | z = clamp(x, 0)
z = clamp(x, max=1)                        | z = clamp(x, none, 1)
z = torch.clamp(x, min=0, max=1)           | z = clamp(x, 0, 1)
z = relu6(x)                               | z = clamp(x, 0, 6)
z = power(x, 2)                            | z = pow(x, 2)
z = negative(x)                            | z = neg(x)
z = np.absolute(x)                         | z = abs(x)
z = multiply(x, y)                         | z = mul(x, y)
z = np.subtract(x, y)                      | z = sub(x, y)
z = true_divide(x, y)                      | z = div(x, y)
z = floor_divide(x, y)                     | z = floordiv(x, y)
z = remainder(x, y)                        | z = mod(x, y)
z = greater(x, y)                          | z = gt(x, y)
z = not_equal(x, y)                        | z = ne(x, y)
z = arith.addf(x, y)                       | z = add(x, y)
z = swish(x)                               | z = silu(x)
z = sigmoid_(x)                            | z = sigmoid(x)
z = Relu(x)                                | z = relu(x)
z = relu(input=x)                          | z = relu(x)
z = relu(x, inplace=true)                  | z = relu(x)
z = layernorm(x)                           | z = layer_norm(x)
z = nn.LayerNorm(x)                        | z = layer_norm(x)
z = masked_fill(x, c, 0)                   | z = where(c, 0, x)
z = x.masked_fill(c, 0)                    | z = where(c, 0, x)
z = narrow(y, 0, 0, 0)                     | z = slice(y, axis=0, start=0, stop=0)
z = slice(x, 0, 0, 0)                      | z = slice(x, axis=0, start=0, stop=0)
z = slice(x, axis=0, start=0, end=0)       | z = slice(x, axis=0, start=0, stop=0)
z = slice(x, axes=[0], starts=[0], ends=[0]) | z = slice(x, axis=[0], start=[0], stop=[0])
z = flip(x, dims=[0])                      | z = flip(x, axis=[0])
z = roll(x, shifts=1, dims=0)              | z = roll(x, shift=1, axis=0)
z = gather(x, i, dim=1)                    | z = gather(x, i, axis=1)
z = gather(x, 1, i)                        | z = gather(x, i, axis=1)
z = take_along_axis(x, i, axis=1)          | z = gather(x, i, axis=1)
z = tile(x, [2, 1])                        | z = tile(x, repeats=[2, 1])
z = sort(x, descending=True)               | z = sort(x, descending=true)
z = matmul(x, w, transA=False)             | z = matmul(x, w)
z = dim(x, 0)                              | z = dim(x, axis=0)
z = x.size(0)                              | z = dim(x, axis=0)
z = max(x, axis=1, keepdims=1, initial=0)  | z = max(x, axis=1, keepdims=true, initial=0)
z = x + y                                  | z = add(x, y)
z = x * 2                                  | z = mul(x, 2)
z = -x                                     | z = neg(x)
z = x - 1.5                                | z = sub(x, 1.5)
z = x / 2                                  | z = div(x, 2)
z = x ** 2                                 | z = pow(x, 2)
z = x > 0                                  | z = gt(x, 0)
z = x != y                                 | z = ne(x, y)
z = x if c else y                          | z = where(c, x, y)
z = x[:, 0:0]                              | z = slice(x, axis=1, start=0, stop=0)
z = x[0:0]                                 | z = slice(x, axis=0, start=0, stop=0)
z = x[..., None]                           | z = unsqueeze(x, axis=-1)
z = x[:, None]                             | z = unsqueeze(x, axis=1)
z = scatter_add(x, 0, i, y)                | z = scatter(x, i, y, axis=0, reduce="add")
z = logistic(x)                            | z = sigmoid(x)
z = rsqrt_(x)                              | z = rsqrt(x)
z = x.pow(2)                               | z = pow(x, 2)
z = x.mul(y)                               | z = mul(x, y)
z = jnp.where(c, x, y)                     | z = where(c, x, y)
z = stablehlo.tanh(x)                      | z = tanh(x)
z = tf.reduce_mean(x, axis=1)              | z = mean(x, axis=1)
z = np.transpose(x, (1, 0))                | z = transpose(x, axis=[1, 0])
"""  # fmt: skip
PAIRS = [tuple(part.strip() for part in line.split("|")) for line in CALLS.strip().splitlines()]


def program(statement: str) -> str:
    return HEAD + statement + "\n}\n"


def said_of(text: str) -> tuple[Diagnostic, ...]:
    try:
        infer_module(parse_module(text))
    except CompileError as refusal:
        return refusal.diagnostics
    return ()


@pytest.mark.parametrize(("wrong", "right"), PAIRS, ids=[p[0] for p in PAIRS])
def test_the_help_is_the_call_that_was_meant(wrong: str, right: str) -> None:
    (said,) = said_of(program(wrong))
    if wrong == "z = x.T":
        assert said.helps == ("write `transpose(x)`",)
    (changed, *_) = programs(program(wrong), said)
    assert parse_module(changed) == parse_module(program(right)), said.helps


SYNTAX = """
func @f(x: f32[n]) -> f32[n] where n in [1, 128] { return x } | `1..128` for a range, both ends included, or `{1, 128}`
func @f(x: f32[n]) -> f32[n] where n in (1, 128) { return x }      | `1..128`
func @f(x: f32[n]) -> f32[n] where n in range(1, 128) { return x } | `1..128`
func @f(x: f32[n]) -> f32[n] where n in 1-128 { return x }         | `1..128`
func @f(x: f32[n]) -> f32[n] where n in 1:128 { return x }         | `1..128`
func @f(x: f32[n]) -> f32[n] where n in 1...128 { return x }       | two points
func @f(x: f32[n]) -> f32[n] where 1 <= n <= 128 { return x }      | `1 <= n, n <= 128`, or a range: `n in 1..128`
func @f(x: f32[n]) -> f32[n] where n = 5 { return x }              | `==`
func @f(x: f32[n]) -> f32[n] where n > 1 and n < 5 { return x }    | separated by `,`
func @f(x: f32[n]) -> f32[n] where n > 1 && n < 5 { return x }     | separated by `,`
func @f(x: f32[n]) -> f32[n] where n == 1 or n == 2 { return x }   | `n in {8, 16}`
func @f(x: f32[n]) -> f32[n] where n is even { return x }          | `n % 2 == 0`
func @f(x: f32[n]) -> f32[n] where n >= 1; n <= 5 { return x }     | separated by `,`
func @f(x: f32[n]) -> f32[n] where (n <= 5) { return x }           | without brackets
func @f(x: f32[n]) where n in 1..5 -> f32[n] { return x }          | the results stand before the facts
func @f(x: f32[n]) -> f32[n] likely n = 1 where n <= 5 { return x } | `where` stands before `likely`
func @f(x: f32[n]) -> f32[n] likely n in {1, 2} { return x }       | `likely n = 1, 128`
func @f(x: f32[n]) -> f32[n] likely n = [1, 2] { return x }        | `likely n = 1, 2`
func @f(x: f32[n]) -> f32[n/2] { return x }                        | `n // 2`
func @f(x: f32[2n]) -> f32[n] { return x }                         | `2*n`
func @f(x: f32[n**2]) -> f32[n] { return x }                       | `n*n`
func @f(x: f32[n^2]) -> f32[n] { return x }                        | `n*n`
func @f(x: f32[?]) -> f32[n] { return x }                          | every size has a name: `f32[n]`
func @f(x: f32[:, 4]) -> f32[n] { return x }                       | every size has a name: `f32[n]`
func @f(x: f32[...]) -> f32[n] { return x }                        | every size has a name: `f32[n]`
func @f(x: f32[None]) -> f32[4] { return x }                       | every size has a name: `f32[n]`
func @f(x: f32[-1]) -> f32[4] { return x }                         | every size has a name: `f32[n]`
func @f(x: f32[n m]) -> f32[n] { return x }                        | `n, m`
func @f(x: f32[n=4]) -> f32[n] { return x }                        | `where n <= 8`
func @f(x: f32[n: 1..4]) -> f32[n] { return x }                    | `where n in 1..8`
func @f(x: f32[n, ]) -> f32[n] { return x }                        | leave out the last `,`
func @f(x: f32[n],) -> f32[n] { return x }                         | leave out the last `,`
func @f(x: f32[n, m) -> f32[n] { return x }                        | a `[` is not closed
func @f(x: f32) -> f32[] { return x }                              | `f32[]` is one number
func @f(x: f32(n)) -> f32[n] { return x }                          | `f32[n]`
func @f(x: f32<n>) -> f32[n] { return x }                          | `f32[n]`
func @f(x: float32[n]) -> f32[n] { return x }                      | `f32`
func @f(x: tensor<?x4xf32>) -> f32[n] { return x }                 | `f32[n, 4]`
func @f(x: Tensor) -> f32[n] { return x }                          | `f32[n, 4]`
func @f(x: c64[n]) -> f32[n] { return x }                          | the element types are
func @f(x f32[n]) -> f32[n] { return x }                           | `x: f32[n]`
func @f(f32[n] x) -> f32[n] { return x }                           | `x: f32[n]`
func @f(x) -> f32[n] { return x }                                  | `x: f32[n]`
func @f(%x: f32[n]) -> f32[n] { return x }                         | no `%`
func @f(x: inout f32[n]) -> f32[n] { return x }                    | `inout x: f32[n]`
func @f(x: f32[n] = 0) -> f32[n] { return x }                      | no defaults
func @f(x: f32[n]) : f32[n] { return x }                           | `->`
func @f(x: f32[n]) => f32[n] { return x }                          | `->`
func f(x: f32[n]) -> f32[n] { return x }                           | `func @f(...)`
def f(x: f32[n]) -> f32[n] { return x }                            | `func @main(
func.func @f(x: f32[n]) -> f32[n] { return x }                     | `func @main(
func @f(x: f32[n]) -> f32[n] { y = relu(x); return y }             | leave out the `;`
func @f(x: f32[n]) -> f32[n] { let y = relu(x) return y }          | `y = ...`
func @f(x: f32[n]) -> f32[n] { y := relu(x) return y }             | `y = ...`
func @f(x: f32[n]) -> f32[n] { x }                                 | `return x`
func @f(x: f32[n]) -> f32[n] { y = relu(x) }                       | `return y`
func @f(x: f32[n]) { return x }                                    | `-> f32[n]`
func @f(x: f32[n]) -> f32[n] { y = mul(x, .5) return y }           | `0.5`
func @f(x: f32[n]) -> f32[n] { y = mul(x, 1.) return y }           | `1.0`
func @f(x: f32[n]) -> f32[n] { y = relu(x)) return y }             | a `)` too many
func @f(x: f32[n]) -> f32[n] { y = match_cast(x, f32[k]) return x } | `y: f32[k] = match_cast(x)`
func @f(x: f32[n]) -> f32[n] { for i in n { } return x }           | a loop comes in a later version
func @f(x: f32[n]) -> f32[n] { assert n == 4 return x }            | `where n == 4
func @f(x: f32[n], c: bool[n]) -> f32[n] { y = where(x > 0, x, x) return y } | `t = gt(x, 0)`
func @f(x: f32[n]) -> (f32[n], f32[n]) { return x, x }             | `return (x, x)`
func @f(x: f32[N]) -> f32[n] { return x }                          | did you mean `N`?
func @f(x: f32[n]) -> f32[k] { y = relu(x) return y }              | `bind k = count`
func @f(x: f32[n]) -> f32[k] { y = relu(x) return y }              | `y: f32[k] = match_cast(x)`
func @f(x: f32[n]) -> f32[n] { y = conv(x, x, padding="same") return y } | `padding=1` for a kernel of 3
func @f(x: f32[n]) -> f32[n] { y = softmax(x, axis=5) return y }   | its axes are -1..0
func @f(x: f32[n]) -> f32[n] { y = split(x, 2) return y }          | `split(x, sections=2)`
func @f(x: f32[n]) -> f32[n] { y = randn(n) return y }             | give them as a parameter
func @f(x: f32[n]) -> f32[n] { y = dropout(x, p=0.5) return y }    | use `x` itself
func @f(x: f32[n]) -> f32[n] { y = @relu(x) return y }             | `relu(x)`
weight w: f32[n]                                                   | `weight @w : f32[n]`
param @w: f32[n]                                                   | `weight @w : f32[n]`
const @c: f32[2] = (1, 2)                                          | `[ ]`
import torch                                                       | all operators are known
// text                                                            | a comment starts with `#`
/* text */                                                         | a comment starts with `#`
y = relu(x)                                                        | statements stand in a function
"""  # fmt: skip
LINES = [tuple(part.strip() for part in line.rsplit("|", 1)) for line in SYNTAX.strip().splitlines()]


@pytest.mark.parametrize(("wrong", "hint"), LINES, ids=[line[0] for line in LINES])
def test_the_help_says_how_it_is_written(wrong: str, hint: str) -> None:
    helps = [h for d in said_of(wrong) for h in d.helps]
    assert any(hint in h for h in helps), helps


def test_a_comment_after_a_statement() -> None:
    (said,) = said_of(program("z = x  // copy"))
    assert said.helps == ("a comment starts with `#`",)


def test_a_parameter_becomes_a_size_under_another_name() -> None:
    """The parameter keeps its own name, so that the help can be followed as it stands."""
    text = "func @f(x: f32[n], k: i64[]) -> f32[k] where k <= n {\ny = slice(x, axis=0, start=0, stop=k)\nreturn y\n}"
    said = said_of(text)
    assert said
    assert all("`bind k_size = k`" in d.helps[0] for d in said)
    bound = text.replace("f32[k] where k <= n {", "f32[k_size] {\nbind k_size = k where k_size <= n")
    assert said_of(bound.replace("stop=k)", "stop=k_size)")) == ()


def test_bare_words_are_values_of_attributes() -> None:
    bare, quoted = (f"z = pad(x, pads=[[1, 1], [0, 0]], mode={m})" for m in ("replicate", '"replicate"'))
    facts = HEAD.replace("\n{", " where n in 2..\n{")
    assert parse_module(f"{facts}{bare}\n}}") == parse_module(f"{facts}{quoted}\n}}")


# ------------------------------------------------------------------------------------------------ the tables


def test_every_name_leads_to_an_operator_that_there_is() -> None:
    ops = registry()
    assert {own for own in RENAMED.values() if own not in ops} == set()
    assert {name for name in RENAMED if name in ops} == set(), "an operator is called so itself"
    assert (set(POSITIONAL) | SPREAD | set(USAGE)) - set(ops) == set()
    assert not (NOTHING | RANDOM | set(WRITTEN)) & set(ops)
    known = {name for cls in ops.values() for name in cls.__dataclass_fields__}
    assert {own for names in ATTRIBUTES.values() for own in names} <= known


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_what_is_written_with_other_operators_names_those(name: str) -> None:
    text, *words = WRITTEN[name]
    called = re.findall(r"(?:^|[`=(]\s*)([a-z_]+)\(", text.format(*words))
    assert set(called) <= set(registry())
