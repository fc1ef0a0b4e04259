"""Language models: encoders, decoders, decoding with a cache, experts."""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf

from .case import BATCH_LENGTH, Case, Sizes, randomised

VOCABULARY = 500
_SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 128,
    "attn_implementation": "sdpa",
}
_GROUPED = {**_SMALL, "num_key_value_heads": 2}
_UNFUSED = {**_GROUPED, "attn_implementation": "eager"}  # its scores are capped: torch has no such fused attention
_BOUNDS = {"batch": (1, 8), "length": (1, 64)}
_AXES = {0: "batch", 1: "length"}


def tokens(sizes: Sizes, seed: int = 0) -> tuple[Any, Any]:
    """Token numbers and a mask of sequences of several lengths, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    batch, length = sizes["batch"], sizes["length"]
    ids = torch.randint(2, VOCABULARY, (batch, length), generator=generator)
    ends = torch.randint(1, length + 1, (batch, 1), generator=generator)
    ends[0] = length
    return ids, (torch.arange(length) < ends).long()


def _masked(sizes: Sizes) -> tuple[tuple[Any, ...], dict[str, Any]]:
    ids, mask = tokens(sizes)
    return (), {"input_ids": ids, "attention_mask": mask}


def _prefill(sizes: Sizes) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, named = _masked(sizes)
    return args, named | {"use_cache": False}


def encoder(name: str, model: Any, config: Any) -> Case:
    return Case(
        name,
        lambda: randomised(model(config)),
        _masked,
        _BOUNDS,
        {"input_ids": _AXES, "attention_mask": _AXES},
        BATCH_LENGTH,
        {"batch": 2, "length": 7},
    )


def decoder(name: str, model: Any, config: Any) -> Case:
    """A decoder over a whole prompt, all logits."""
    return Case(
        name,
        lambda: randomised(model(config)),
        _prefill,
        _BOUNDS,
        {"input_ids": _AXES, "attention_mask": _AXES, "use_cache": None},
        BATCH_LENGTH,
        {"batch": 2, "length": 7},
    )


class Decode(torch.nn.Module):
    """One step of decoding: the keys and values so far are arguments, those with the new token results."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any, keys: list[Any], values: list[Any]) -> Any:
        cache = hf.DynamicCache(config=self.model.config)
        for i, (key, value) in enumerate(zip(keys, values, strict=True)):
            cache.update(key, value, i)
        out = self.model(input_ids, attention_mask=attention_mask, cache=cache, use_cache=True)
        layers = out.past_key_values.layers
        return out.logits, [x.keys for x in layers], [x.values for x in layers]


def decode(name: str, model: Any, config: Any, heads: int, size: int, layers: int = 2, steps: int = 1) -> Case:
    def inputs(sizes: Sizes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        generator = torch.Generator().manual_seed(1)
        batch, cached = sizes["batch"], sizes["cached"]
        ids = torch.randint(2, VOCABULARY, (batch, steps), generator=generator)
        made = [torch.randn(batch, heads, cached, size, generator=generator) for _ in range(2 * layers)]
        return (ids, torch.ones(batch, cached + steps, dtype=torch.int64), made[:layers], made[layers:]), {}

    cache = [{0: "batch", 2: "cached"}] * layers
    return Case(
        name,
        lambda: Decode(randomised(model(config))).eval(),
        inputs,
        {"batch": (1, 8), "cached": (1, 63)},
        ({0: "batch"}, {0: "batch", 1: f"cached + {steps}"}, cache, cache),
        tuple({"batch": b, "cached": n} for b, n in ((1, 1), (1, 63), (3, 17), (8, 33), (8, 63))),
        {"batch": 2, "cached": 7},
    )


_GPT2 = {
    "vocab_size": VOCABULARY,
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 128,
    "attn_implementation": "sdpa",
}

TEXT: tuple[Case, ...] = (
    encoder("BERT", hf.BertModel, hf.BertConfig(**_SMALL)),
    encoder("RoBERTa", hf.RobertaModel, hf.RobertaConfig(**_SMALL, pad_token_id=1)),
    encoder(
        "DistilBERT",
        hf.DistilBertModel,
        hf.DistilBertConfig(
            vocab_size=VOCABULARY, dim=64, n_layers=2, n_heads=4, hidden_dim=128, attn_implementation="sdpa"
        ),
    ),
    decoder("GPT-2, prefill", hf.GPT2LMHeadModel, hf.GPT2Config(**_GPT2)),
    decode("GPT-2, decode", hf.GPT2LMHeadModel, hf.GPT2Config(**_GPT2), 4, 16),
    decoder("Llama, prefill", hf.LlamaForCausalLM, hf.LlamaConfig(**_GROUPED)),
    decode("Llama, decode", hf.LlamaForCausalLM, hf.LlamaConfig(**_GROUPED), 2, 16),
    decoder("Qwen2", hf.Qwen2ForCausalLM, hf.Qwen2Config(**_GROUPED)),
    decoder("Qwen3", hf.Qwen3ForCausalLM, hf.Qwen3Config(**_GROUPED, head_dim=16)),
    decoder("Mistral", hf.MistralForCausalLM, hf.MistralConfig(**_GROUPED, sliding_window=16)),
    decoder("Gemma", hf.GemmaForCausalLM, hf.GemmaConfig(**_GROUPED, head_dim=16)),
    decoder("Gemma 2", hf.Gemma2ForCausalLM, hf.Gemma2Config(**_UNFUSED, head_dim=16, sliding_window=16)),
    decoder("Phi", hf.PhiForCausalLM, hf.PhiConfig(**_SMALL)),
    decoder("Phi-3", hf.Phi3ForCausalLM, hf.Phi3Config(**_GROUPED, pad_token_id=0)),
    encoder(
        "T5, encoder",
        hf.T5EncoderModel,
        hf.T5Config(vocab_size=VOCABULARY, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4),
    ),
    decoder(
        "Mixtral",
        hf.MixtralForCausalLM,
        hf.MixtralConfig(**_GROUPED, num_local_experts=4, num_experts_per_tok=2, experts_implementation="batched_mm"),
    ),
)
