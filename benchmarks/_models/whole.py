"""Full-size configurations: BERT-base, GPT-2 small, and a Llama of a billion parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import transformers as hf

from .case import Case
from .text import decoder, encoder

_SIZES = tuple({"batch": b, "length": n} for b, n in ((1, 1), (1, 128), (2, 77), (2, 256)))
_BOUNDS = {"batch": (1, 2), "length": (1, 256)}


def _large(case: Case, build: Any) -> Case:
    return replace(case, build=build, sizes=_SIZES, bounds=_BOUNDS)


def _plain(model: Any, config: Any) -> Any:
    """Parameters drawn quickly: initialising a billion of them as the library does takes longer than all the rest."""

    def build() -> Any:
        with torch.device("meta"):
            made = model(config)
        made = made.to_empty(device="cpu").eval()
        generator = torch.Generator().manual_seed(0)
        for name, value in made.named_parameters():
            norm = value.ndim == 1 and name.endswith("weight")
            value.data.normal_(1.0 if norm else 0.0, 0.02, generator=generator)
        made.tie_weights()
        fresh = model.base_model_prefix and getattr(made, model.base_model_prefix, None)
        for part in (made, fresh):
            rotary = getattr(part, "rotary_emb", None)
            if rotary is not None:
                part.rotary_emb = type(rotary)(config=config)
        return made

    return build


_BERT = hf.BertConfig(attn_implementation="sdpa")
_GPT2 = hf.GPT2Config(attn_implementation="sdpa")
_LLAMA = hf.LlamaConfig(
    vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
    num_key_value_heads=4, max_position_embeddings=2048, attn_implementation="sdpa",
)  # fmt: skip

WHOLE: tuple[Case, ...] = (
    _large(encoder("BERT-base", hf.BertModel, _BERT), lambda: hf.BertModel(_BERT).eval()),
    _large(decoder("GPT-2 small", hf.GPT2LMHeadModel, _GPT2), lambda: hf.GPT2LMHeadModel(_GPT2).eval()),
    _large(decoder("Llama, 1.1 B", hf.LlamaForCausalLM, _LLAMA), _plain(hf.LlamaForCausalLM, _LLAMA)),
)
