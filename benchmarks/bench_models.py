"""How long is a training step with lnlib's norms? Writes ``benchmarks/results/models.csv``.

    python benchmarks/bench_models.py           # about four minutes
    python benchmarks/bench_models.py --quick   # tiny models; only prints

Two Transformers of `torch.nn`, with random weights: the encoder of BERT-base (Devlin et al. 2019:
12 layers of 768, the norm behind each block) on a sentence of 128 tokens, and ViT-Ti (Touvron et
al. 2021: 12 layers of 192, the norm before each block) on 8 images of 224 × 224. Their norms are
PyTorch's, or lnlib's as `lnlib.swap` puts them there, or with the plain reference; all else is the
same model in the same memory. First the gradients are compared. Then a step, forward and backward,
is timed with each in turn; a row has the median and the quartiles of the ratios to PyTorch's norms,
round by round.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import timing
import torch
from bench_speed import OURS, PYTORCH, REFERENCE, ratio, where
from results_table import noted, write
from torch import Tensor, nn

import lnlib

Row = dict[str, Any]
BACKENDS = {OURS: "auto", REFERENCE: "reference"}
# Of the size of all gradients: what other roundings make, twelve layers later.
MOST_APART = {torch.float32: 1e-3, torch.bfloat16: 1e-1}


class Bert(nn.Module):
    """Tokens, their places, a norm, and layers with the norm behind each block."""

    def __init__(self, layers: int = 12, features: int = 768, tokens: int = 128) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(1000, features), nn.Embedding(tokens, features)
        self.norm = nn.LayerNorm(features, eps=1e-12)
        self.layers = encoder(layers, features, norm_first=False, eps=1e-12)

    def forward(self, words: Tensor) -> Tensor:
        """Return ``(sentences, tokens, features)``."""
        x: Tensor = self.layers(self.norm(self.words(words) + self.places.weight))
        return x


class ViT(nn.Module):
    """Patches, their places, and layers with the norm before each block, and one at the end."""

    def __init__(self, layers: int = 12, features: int = 192, patches: int = 14) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, features, 16, stride=16)
        self.places = nn.Parameter(torch.randn(patches**2, features) / 50)
        self.layers = encoder(layers, features, norm_first=True, eps=1e-6)
        self.norm = nn.LayerNorm(features, eps=1e-6)

    def forward(self, images: Tensor) -> Tensor:
        """Return ``(images, patches, features)``."""
        x = self.cut(images).flatten(2).transpose(1, 2) + self.places
        y: Tensor = self.norm(self.layers(x))
        return y


def encoder(layers: int, features: int, *, norm_first: bool, eps: float) -> nn.Module:
    """Return Transformer layers of `torch.nn`, without dropout."""
    sizes = {"nhead": features // 64, "dim_feedforward": 4 * features, "batch_first": True}
    layer = nn.TransformerEncoderLayer(
        features, dropout=0.0, activation="gelu", norm_first=norm_first, layer_norm_eps=eps, **sizes
    )
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def bert(dtype: torch.dtype, is_quick: bool) -> tuple[nn.Module, Tensor]:
    """Return the model and what it reads."""
    model = Bert(1, 64) if is_quick else Bert()
    return model.to(dtype), torch.randint(1000, (1, 128))


def vit(dtype: torch.dtype, is_quick: bool) -> tuple[nn.Module, Tensor]:
    """Return the model and what it sees."""
    model = ViT(1, 64) if is_quick else ViT()
    return model.to(dtype), torch.randn(1 if is_quick else 8, 3, 224, 224).to(dtype)


MODELS: dict[str, Callable[[torch.dtype, bool], tuple[nn.Module, Tensor]]] = {
    "BERT-base, 1 × 128 tokens": bert,
    "ViT-Ti, 8 images": vit,
}


def choose(norms: str, model: nn.Module) -> None:
    """Let the norms of a model be those."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.__class__ = nn.LayerNorm
    if norms != PYTORCH:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about evaluation
            lnlib.swap(model, backend=BACKENDS[norms])


def step(norms: str, model: nn.Module, given: Tensor) -> None:
    """Run forward and backward."""
    choose(norms, model)
    model.zero_grad()
    y = model(given).float()
    # No multiple of ones or of y: its gradient would vanish in the last norm.
    (y - torch.linspace(-1, 1, y.shape[-1])).square().mean().backward()


def gradient(model: nn.Module) -> Tensor:
    """Return all gradients of a model, one behind the other."""
    return torch.cat([p.grad.double().flatten() for p in model.parameters() if p.grad is not None])


def check(others: Sequence[str], model: nn.Module, given: Tensor, dtype: torch.dtype) -> None:
    """Raise RuntimeError if the gradients of a step are not those with PyTorch's norms."""
    step(PYTORCH, model, given)
    right = gradient(model)
    for norms in others:
        step(norms, model, given)
        apart = ((gradient(model) - right).norm() / right.norm()).item()
        if not apart <= MOST_APART[dtype]:
            raise RuntimeError(f"{norms}, {dtype}: the gradients are off by {apart:.2g}")


def table(is_quick: bool) -> Iterator[Row]:
    """Yield the rows of the table, or of tiny models."""
    seconds, at_least = (0.0, 3) if is_quick else (50.0, 11)
    for name, build in MODELS.items():
        for dtype in (torch.float32, torch.bfloat16):
            torch.manual_seed(0)
            model, given = build(dtype, is_quick)
            check([*BACKENDS], model, given, dtype)
            runs = {who: partial(step, who, model, given) for who in (PYTORCH, *BACKENDS)}
            times = timing.in_turn(runs, seconds, at_least, 60)
            for who in runs:
                over, quartiles = ratio(times[who], times[PYTORCH])
                yield {
                    "model": name,
                    "dtype": str(dtype).removeprefix("torch."),
                    "norms": who,
                    "ms": f"{1e3 * statistics.median(times[who]):.3g}",
                    "over_torch": over,
                    "quartiles": quartiles,
                    "rounds": len(times[who]),
                }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny models")
    options = parser.parse_args(arguments)
    rows = noted(table(options.quick), where)
    if not options.quick:
        write("models", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
