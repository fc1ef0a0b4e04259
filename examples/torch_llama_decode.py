"""A Llama-like model with random weights decodes token after token: one artifact for prefill and every step.

The cache has room for the longest text and is changed in place (`inout`); how much of it is in use is a size, t, so
that nothing is padded and nothing is compiled again while it fills.  Needs torch: pip install 'pliant[torch]'.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

import pliant


@dataclass(frozen=True)
class Config:
    vocabulary: int = 512
    size: int = 256
    layers: int = 4
    heads: int = 8
    kv_heads: int = 2
    inner: int = 688
    room: int = 256  # positions in the cache

    @property
    def head_size(self) -> int:
        return self.size // self.heads


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding; x: [batch, heads, s, d]."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Layer(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.before, self.between = nn.RMSNorm(c.size), nn.RMSNorm(c.size)
        self.q = nn.Linear(c.size, c.heads * c.head_size, bias=False)
        self.k = nn.Linear(c.size, c.kv_heads * c.head_size, bias=False)
        self.v = nn.Linear(c.size, c.kv_heads * c.head_size, bias=False)
        self.o = nn.Linear(c.heads * c.head_size, c.size, bias=False)
        self.gate, self.up = nn.Linear(c.size, c.inner, bias=False), nn.Linear(c.size, c.inner, bias=False)
        self.down = nn.Linear(c.inner, c.size, bias=False)

    def forward(self, x: Tensor, new: Tensor, seen: Tensor, turn: tuple[Tensor, Tensor], keys: Tensor, values: Tensor):
        """x: [b, s, size]; new: [s] positions of x; seen: [s, t]; keys, values: [b, kv_heads, room, d], changed."""
        b, s, _ = x.shape
        y = self.before(x)
        q, k, v = (p(y).view(b, s, -1, self.c.head_size).transpose(1, 2) for p in (self.q, self.k, self.v))
        keys[:, :, new] = rotate(k, *turn)
        values[:, :, new] = v
        t = seen.shape[1]
        a = F.scaled_dot_product_attention(
            rotate(q, *turn), keys[:, :, :t], values[:, :, :t], attn_mask=seen, enable_gqa=True
        )
        x = x + self.o(a.transpose(1, 2).reshape(b, s, -1))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.embed = nn.Embedding(c.vocabulary, c.size)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.layers))
        self.norm = nn.RMSNorm(c.size)
        self.head = nn.Linear(c.size, c.vocabulary, bias=False)
        self.register_buffer("speed", 10000.0 ** (-torch.arange(0, c.head_size, 2) / c.head_size), persistent=False)

    def forward(self, tokens: Tensor, positions: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
        """Scores of the next token; tokens: [b, s], positions: 0 .. t-1, of which the last s are those of tokens."""
        s, t = tokens.shape[1], positions.shape[0]
        torch._check(s <= t)
        new = positions[t - s :]
        angle = torch.outer(new.float(), self.speed)
        turn = torch.cat((angle, angle), -1).cos(), torch.cat((angle, angle), -1).sin()
        seen = positions[None, :] <= new[:, None]
        x = self.embed(tokens)
        for layer, k, v in zip(self.layers, keys, values, strict=True):
            x = layer(x, new, seen, turn, k, v)
        return self.head(self.norm(x[:, -1]))


def caches(c: Config, batch: int) -> tuple[list[Tensor], list[Tensor]]:
    made = [torch.zeros(batch, c.kv_heads, c.room, c.head_size) for _ in range(2 * c.layers)]
    return made[: c.layers], made[c.layers :]


def generate(step, tokens: Tensor, c: Config, count: int) -> tuple[Tensor, float]:
    """Greedy decoding; the tokens, and the seconds of all steps after the first."""
    keys, values = caches(c, tokens.shape[0])
    given, start = tokens, 0.0
    for _ in range(count):
        scores = step(given, torch.arange(tokens.shape[1]), keys, values)
        given = scores.argmax(-1, keepdim=True)
        tokens = torch.cat((tokens, given), 1)
        start = start or time.perf_counter()
    return tokens, time.perf_counter() - start


@torch.no_grad()
def main() -> None:
    torch.manual_seed(0)
    c = Config()
    model = Llama(c).eval()
    b, s, t = Dim("b", min=1, max=4), Dim("s", min=1, max=c.room), Dim("t", min=1, max=c.room)
    keys, values = caches(c, 2)
    shapes = ({0: b, 1: s}, {0: t}, [{0: b}] * c.layers, [{0: b}] * c.layers)
    start = time.perf_counter()
    step = pliant.from_torch(model, (torch.zeros(2, 7, dtype=torch.long), torch.arange(9), keys, values), None, shapes)
    print(f"exported and compiled in {time.perf_counter() - start:.1f} s")
    for note in step.notes:
        print(f"note: {note}")
    for batch, length in ((1, 5), (2, 30), (4, 1)):
        prompt = torch.randint(0, c.vocabulary, (batch, length))
        count = 100
        ours, seconds = generate(step, prompt, c, count)
        theirs, eager = generate(model, prompt, c, count)
        same = (ours == theirs).float().mean().item()
        rate, other = (batch * (count - 1) / x for x in (seconds, eager))
        print(f"batch {batch}, prompt of {length}: {rate:6.0f} tokens/s (torch eager {other:.0f}), {same:.0%} the same")


if __name__ == "__main__":
    main()
