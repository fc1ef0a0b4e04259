"""The text tower of CLIP, models of sound, and models in plain torch.nn: recommendation and recurrent networks."""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf

from .case import BATCH_LENGTH, Case, Sizes, randomised
from .text import VOCABULARY, tokens


def _clip_text() -> Case:
    config = hf.CLIPTextConfig(
        vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=64, projection_dim=32, eos_token_id=1, bos_token_id=0, pad_token_id=1,
        attn_implementation="sdpa",
    )  # fmt: skip

    def inputs(sizes: Sizes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        ids, mask = tokens(sizes)
        ids[:, -1] = 1
        return (), {"input_ids": ids, "attention_mask": mask}

    axes = {0: "batch", 1: "length"}
    return Case(
        "CLIP, text",
        lambda: randomised(hf.CLIPTextModelWithProjection(config)),
        inputs,
        {"batch": (1, 8), "length": (1, 64)},
        {"input_ids": axes, "attention_mask": axes},
        BATCH_LENGTH,
        {"batch": 2, "length": 7},
    )


def _whisper() -> Case:
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = hf.WhisperConfig(
        d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128, num_mel_bins=16,
        max_source_positions=50, attn_implementation="sdpa",
    )  # fmt: skip

    def inputs(sizes: Sizes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (torch.randn(sizes["batch"], 16, 100, generator=torch.Generator().manual_seed(3)),), {}

    sizes = tuple({"batch": b} for b in (1, 2, 3, 7, 8))
    return Case(
        "Whisper, encoder",
        lambda: randomised(WhisperEncoder(config)),
        inputs,
        {"batch": (1, 8)},
        {"input_features": {0: "batch"}},
        sizes,
        {"batch": 2},
    )


def _wav2vec2() -> Case:
    config = hf.Wav2Vec2Config(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=32,
        conv_dim=(32, 32, 32), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 2), num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4, attn_implementation="sdpa",
    )  # fmt: skip

    def inputs(sizes: Sizes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (torch.randn(sizes["batch"], sizes["samples"], generator=torch.Generator().manual_seed(4)),), {}

    pairs = ((1, 50), (1, 1000), (3, 417), (4, 800), (4, 1000))
    return Case(
        "Wav2Vec2",
        lambda: randomised(hf.Wav2Vec2ForCTC(config)),
        inputs,
        {"batch": (1, 4), "samples": (50, 1000)},
        {"input_values": {0: "batch", 1: "samples"}},
        tuple({"batch": b, "samples": n} for b, n in pairs),
        {"batch": 2, "samples": 400},
    )


class Recommender(torch.nn.Module):
    """Dense features and one category a table, their pairwise products, and a perceptron (DLRM, arXiv:1906.00091)."""

    def __init__(self, tables: int = 6, rows: int = 100, size: int = 16) -> None:
        super().__init__()
        self.tables = torch.nn.ModuleList(torch.nn.Embedding(rows, size) for _ in range(tables))
        self.bottom = torch.nn.Sequential(
            torch.nn.Linear(13, 64), torch.nn.ReLU(), torch.nn.Linear(64, size), torch.nn.ReLU()
        )
        self.pairs = tables * (tables + 1) // 2
        self.top = torch.nn.Sequential(
            torch.nn.Linear(size + self.pairs, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1), torch.nn.Sigmoid()
        )

    def forward(self, dense: Any, categories: Any) -> Any:
        x = self.bottom(dense)
        features = torch.stack([x, *(table(categories[:, i]) for i, table in enumerate(self.tables))], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        i, j = torch.tril_indices(features.shape[1], features.shape[1], offset=-1)
        return self.top(torch.cat([x, products[:, i, j]], dim=1))


def _recommender() -> Case:
    def inputs(sizes: Sizes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        generator = torch.Generator().manual_seed(5)
        dense = torch.randn(sizes["batch"], 13, generator=generator)
        return (dense, torch.randint(0, 100, (sizes["batch"], 6), generator=generator)), {}

    sizes = tuple({"batch": b} for b in (1, 2, 17, 100, 256))
    axes = {"dense": {0: "batch"}, "categories": {0: "batch"}}
    build = lambda: randomised(Recommender())  # noqa: E731
    return Case("DLRM-like", build, inputs, {"batch": (1, 256)}, axes, sizes, {"batch": 4})


class Recurrent(torch.nn.Module):
    """A recurrent network over a sequence of a fixed length, as torch unrolls it."""

    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.net = kind(16, 32, num_layers=2, batch_first=True, **options)
        self.head = torch.nn.Linear(32 * (2 if options.get("bidirectional") else 1), 8)

    def forward(self, x: Any) -> Any:
        out, state = self.net(x)
        return self.head(out), state


def _recurrent(name: str, kind: Any, **options: Any) -> Case:
    def inputs(sizes: Sizes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (torch.randn(sizes["batch"], 12, 16, generator=torch.Generator().manual_seed(6)),), {}

    sizes = tuple({"batch": b} for b in (1, 2, 7, 31, 32))
    build = lambda: randomised(Recurrent(kind, **options))  # noqa: E731
    return Case(name, build, inputs, {"batch": (1, 32)}, {"x": {0: "batch"}}, sizes, {"batch": 4})


TOWERS: tuple[Case, ...] = (
    _clip_text(),
    _whisper(),
    _wav2vec2(),
    _recommender(),
    _recurrent("LSTM", torch.nn.LSTM),
    _recurrent("GRU, both ways", torch.nn.GRU, bidirectional=True),
)
