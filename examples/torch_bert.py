"""BERT with random weights: exported once, one artifact for every batch and length, compared with torch.

Needs torch and transformers: pip install 'pliant[torch]' transformers
"""

from __future__ import annotations

import time

import torch
from torch.export import Dim
from transformers import BertConfig, BertModel

import pliant


class Encoder(torch.nn.Module):
    """The last hidden state of ids and their mask."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.bert = BertModel(config)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=ids, attention_mask=mask)[0]


def inputs(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids, and a mask that hides the second half of the last row."""
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[-1, (length + 1) // 2 :] = 0
    return torch.randint(0, 1000, (batch, length)), mask


@torch.no_grad()
def main() -> None:
    torch.manual_seed(0)
    small = BertConfig(
        vocab_size=1000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512
    )
    model = Encoder(small).eval()
    b, s = Dim("b", min=1, max=8), Dim("s", min=1, max=128)
    start = time.perf_counter()
    exe = pliant.from_torch(model, inputs(2, 10), dynamic_shapes=({0: b, 1: s}, {0: b, 1: s}))
    print(f"exported and compiled in {time.perf_counter() - start:.1f} s")
    for note in exe.notes:
        print(f"note: {note}")
    for sizes in ((2, 10), (1, 1), (8, 128), (3, 37), (1, 128)):
        given = inputs(*sizes)
        error = (exe(*given) - model(*given)).abs().max().item()
        print(f"batch {sizes[0]}, length {sizes[1]:3}: largest difference from torch {error:.1e}")


if __name__ == "__main__":
    main()
