"""Models of images: transformers over patches, and convolutional networks at any height and width."""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf

from .case import Case, Sizes, randomised

_SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "image_size": 32,
    "patch_size": 8,
    "attn_implementation": "sdpa",
}
_BATCHES = tuple({"batch": b} for b in (1, 2, 3, 7, 8))
_IMAGES = tuple(
    {"batch": b, "height": h, "width": w}
    for b, h, w in ((1, 32, 32), (1, 64, 48), (3, 33, 95), (4, 71, 50), (4, 96, 96))
)


def _image(sizes: Sizes) -> Any:
    generator = torch.Generator().manual_seed(2)
    shape = (sizes["batch"], 3, sizes.get("height", 32), sizes.get("width", 32))
    return torch.randn(shape, generator=generator)


def _named(sizes: Sizes) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (), {"pixel_values": _image(sizes)}


def patches(name: str, model: Any, config: Any) -> Case:
    """Positions are learnt for one size of image: the batch moves."""
    axes = {"pixel_values": {0: "batch"}}
    return Case(name, lambda: randomised(model(config)), _named, {"batch": (1, 8)}, axes, _BATCHES, {"batch": 2})


def convolutional(name: str, model: Any, config: Any) -> Case:
    return Case(
        name,
        lambda: randomised(model(config)),
        _named,
        {"batch": (1, 4), "height": (32, 96), "width": (32, 96)},
        {"pixel_values": {0: "batch", 2: "height", 3: "width"}},
        _IMAGES,
        {"batch": 2, "height": 64, "width": 40},
    )


VISION: tuple[Case, ...] = (
    patches("ViT", hf.ViTForImageClassification, hf.ViTConfig(**_SMALL)),
    patches("CLIP, vision", hf.CLIPVisionModelWithProjection, hf.CLIPVisionConfig(**_SMALL, projection_dim=32)),
    convolutional(
        "ConvNeXt",
        hf.ConvNextForImageClassification,
        hf.ConvNextConfig(hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 2, 1]),
    ),
    convolutional(
        "ResNet",
        hf.ResNetForImageClassification,
        hf.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 2, 1, 1]),
    ),
    convolutional(
        "MobileNetV2",
        hf.MobileNetV2ForImageClassification,
        hf.MobileNetV2Config(depth_multiplier=0.35, tf_padding=False),
    ),
    convolutional(
        "MobileNetV1",
        hf.MobileNetV1ForImageClassification,
        hf.MobileNetV1Config(depth_multiplier=0.25, tf_padding=False),
    ),
)
