"""Models that others wrote, as their packages build them from a config, with random weights.

For `tests/models/real_models.py`. timm and transformers are pinned in `.ci/models.txt`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

try:
    import torchvision  # noqa: F401
except RuntimeError:  # Its operators are compiled for CUDA, and PyTorch is not. timm calls none.
    OPERATORS = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        OPERATORS.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
import timm
import transformers as hf


class Size(NamedTuple):
    features: int
    inner: int
    layers: int
    batch: int
    tokens: int
    image: int


SMALL = Size(48, 80, 2, 3, 11, 32)
VOCABULARY = 97
Inputs = dict[str, Any]


def ids(size: Size, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, (size.batch, size.tokens), generator=generator)


def normal(*shape: int, seed: int = 2) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def pictures(size: Size) -> Tensor:
    return normal(size.batch, 3, size.image, size.image)


def layers(size: Size) -> dict[str, Any]:
    sizes = {"hidden_size": size.features, "intermediate_size": size.inner}
    return {**sizes, "num_hidden_layers": size.layers, "num_attention_heads": 4}


def text(size: Size) -> dict[str, Any]:
    tokens = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    positions = {"max_position_embeddings": size.tokens, "vocab_size": VOCABULARY}
    return {**layers(size), **tokens, **positions}


def vision(size: Size) -> dict[str, Any]:
    return {**layers(size), "image_size": size.image, "patch_size": 8}


def bert(size: Size) -> tuple[nn.Module, Inputs]:
    return hf.BertModel(hf.BertConfig(**text(size))), {"input_ids": ids(size)}


def gpt2(size: Size) -> tuple[nn.Module, Inputs]:
    config = hf.GPT2Config(**text(size), n_inner=size.inner, use_cache=False)
    return hf.GPT2Model(config), {"input_ids": ids(size)}


def of_pictures(name: str) -> Callable[[Size], tuple[nn.Module, Inputs]]:
    def build(size: Size) -> tuple[nn.Module, Inputs]:
        config = getattr(hf, f"{name}Config")(**vision(size))
        return getattr(hf, f"{name}Model")(config), {"pixel_values": pictures(size)}

    return build


def whisper(size: Size) -> tuple[nn.Module, Inputs]:
    part = {"layers": size.layers, "attention_heads": 4, "ffn_dim": size.inner}
    sides = {f"{side}_{name}": part[name] for side in ("encoder", "decoder") for name in part}
    positions = {"max_source_positions": size.tokens, "max_target_positions": size.tokens}
    config = hf.WhisperConfig(
        **{**text(size), **sides, **positions, "d_model": size.features},
        **{"num_mel_bins": 8, "decoder_start_token_id": 1, "use_cache": False},
    )
    sound = normal(size.batch, 8, 2 * size.tokens)
    return hf.WhisperModel(config), {"input_features": sound, "decoder_input_ids": ids(size)}


def swin(size: Size) -> tuple[nn.Module, Inputs]:
    stages = {"depths": [2, 2], "num_heads": [2, 4], "embed_dim": size.features // 4}
    config = hf.SwinConfig(image_size=size.image, patch_size=2, window_size=4, **stages)
    return hf.SwinModel(config), {"pixel_values": pictures(size)}


def convnext(size: Size) -> tuple[nn.Module, Inputs]:
    widths = [size.features // part for part in (3, 2, 2, 1)]
    config = hf.ConvNextConfig(hidden_sizes=widths, depths=[1, 1, 2, 1], layer_scale_init_value=0.5)
    return hf.ConvNextModel(config), {"pixel_values": pictures(size)}


def clip(size: Size) -> tuple[nn.Module, Inputs]:
    config = hf.CLIPConfig(text_config=text(size), vision_config=vision(size), projection_dim=24)
    return hf.CLIPModel(config), {"input_ids": ids(size), "pixel_values": pictures(size)}


def t5(size: Size) -> tuple[nn.Module, Inputs]:
    sizes = {"d_model": size.features, "d_kv": 12, "d_ff": size.inner, "num_heads": 4}
    sizes |= {"vocab_size": VOCABULARY, "num_layers": size.layers, "use_cache": False}
    inputs = {"input_ids": ids(size), "decoder_input_ids": ids(size, seed=3)}
    return hf.T5Model(hf.T5Config(**sizes)), inputs


def of_timm(name: str, **options: Any) -> Callable[[Size], tuple[nn.Module, Inputs]]:
    def build(size: Size) -> tuple[nn.Module, Inputs]:
        patches = {"depth": size.layers, "img_size": size.image, "patch_size": 8}
        windows = {"img_size": size.image, "embed_dim": size.features // 4, "patch_size": 2}
        sizes: dict[str, dict[str, Any]] = {
            "vit": patches,
            "deit": patches,
            "swin": {**windows, "window_size": 4, "depths": (2, 2), "num_heads": (2, 4)},
            "convnext": {"dims": [size.features // part for part in (3, 2, 2, 1)]},
            "maxvit": {"img_size": 64, "embed_dim": (32, 64), "stem_width": 8},
        }
        given = {**sizes[name.split("_")[0]], **options, "num_classes": 7}
        side = given.get("img_size", size.image)
        return timm.create_model(name, **given), {"x": normal(size.batch, 3, side, side)}

    return build


CONVNEXT = of_timm("convnext_tiny", depths=(1, 1, 2, 1), ls_init_value=0.5)
MAXVIT = of_timm("maxvit_tiny_tf_224", depths=(1, 1), block_type=("M", "M"), head_hidden_size=40)


class Case(NamedTuple):
    build: Callable[[Size], tuple[nn.Module, Inputs]]
    norms: int  # that derive from torch.nn.LayerNorm
    swapped: int


MODELS = {
    "BERT": Case(bert, 5, 5),
    "GPT-2": Case(gpt2, 5, 5),
    "ViT": Case(of_pictures("ViT"), 5, 5),
    "DeiT": Case(of_pictures("DeiT"), 5, 5),
    "Whisper": Case(whisper, 12, 12),
    "Swin": Case(swin, 11, 11),
    "ConvNeXt": Case(convnext, 10, 6),  # of four, the channels come first
    "CLIP": Case(clip, 11, 11),
    "T5": Case(t5, 0, 0),  # has RMS norms
    "timm's ViT": Case(of_timm("vit_tiny_patch16_224"), 5, 5),
    "timm's DeiT": Case(of_timm("deit_tiny_distilled_patch16_224"), 5, 5),
    "timm's Swin": Case(of_timm("swin_tiny_patch4_window7_224"), 11, 11),
    "timm's ConvNeXt": Case(CONVNEXT, 10, 5),  # the others are LayerNorm2d
    "timm's MaxViT": Case(MAXVIT, 9, 8),
}


def build(name: str, seed: int = 0) -> tuple[nn.Module, Inputs]:
    """Build a model in evaluation; the norms too get parameters that could not be lost unseen."""
    torch.manual_seed(seed)
    model, inputs = MODELS[name].build(SMALL)
    with torch.no_grad():
        for norm in norms_of(model):
            norm.weight.normal_(1, 0.25)
            norm.bias.normal_(0, 0.25)
    return model.eval(), inputs


def norms_of(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
