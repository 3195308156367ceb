"""A small Transformer that learns a novel letter by letter, with its norms where you want them.

The text is Jane Austen's *Persuasion*, which lies beside the digits; see its README there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lnlib
from lnlib.book.data import novel

__all__ = [
    "DetachedLayerNorm",
    "Jitter",
    "NoisyLayerNorm",
    "Text",
    "Transformer",
    "bits",
    "persuasion",
]


class Text(NamedTuple):
    """A text as numbers: one for each character, which stands for a place in ``alphabet``."""

    alphabet: str
    numbers: Tensor  # int64 (N,)


def persuasion() -> Text:
    """Read the novel.

    Raises:
        FileNotFoundError, ValueError: as `lnlib.book.data.novel` does.
    """
    text = novel()
    alphabet = "".join(sorted(set(text)))
    return Text(alphabet, torch.tensor([alphabet.index(character) for character in text]))


class DetachedLayerNorm(nn.LayerNorm):
    """Layer norm whose mean and deviation are constants on the way back.

    Xu et al. 2019 call it DetachNorm: forward it is layer norm to the last term.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalize over the last axis of ``input``."""
        var, mean = torch.var_mean(input.detach(), dim=-1, keepdim=True, correction=0)
        return (input - mean) * (var + self.eps).rsqrt() * self.weight + self.bias


class NoisyLayerNorm(nn.LayerNorm):
    """Layer norm followed by a scale and a shift that are new at every step of training.

    Santurkar et al. 2018 put this after batch norm: the distributions that the next layer sees
    move about on purpose, each feature's by its own amount, and each number's a little more.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalize over the last axis of ``input``, then disturb the result if in training."""
        y = super().forward(input)
        if not self.training:
            return y
        shift = self.drawn(y, -0.5, 0.5) + torch.empty_like(y).uniform_(-0.1, 0.1)
        scale = self.drawn(y, 1, 1.25) + 0.1 * torch.randn_like(y)
        return scale * y + shift

    def drawn(self, y: Tensor, low: float, high: float) -> Tensor:
        """Return numbers of a uniform law, one for each feature of ``y``."""
        return torch.empty(y.shape[-1]).uniform_(low, high)


class Jitter(NoisyLayerNorm):
    """As much noise as `NoisyLayerNorm` adds, but drawn anew for each number.

    No distribution moves by it. It is a rough control, for noise that rows share averages out less.
    """

    def drawn(self, y: Tensor, low: float, high: float) -> Tensor:
        """Return numbers of a uniform law, one for each of ``y``."""
        return torch.empty_like(y).uniform_(low, high)


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "layer": lnlib.LayerNorm,
    "rms": functools.partial(nn.RMSNorm, eps=1e-5),
    "detached": DetachedLayerNorm,
    "noisy": NoisyLayerNorm,
    "jitter": Jitter,
}


class Attention(nn.Module):
    """Each position takes from those before it what it asks for; (B, T, C) to (B, T, C)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ask = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return what each position gathers."""
        q, k, v = self.ask(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        taken = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.out(taken.transpose(1, 2).flatten(2))
        return out


class Block(nn.Module):
    """Attention and a feed-forward part, each beside a residual connection: (B, T, C) to itself.

    "post" is x ← N(x + f(x)), of Vaswani et al. 2017; "pre" x ← x + f(N(x)); "none" x ← x + f(x).
    """

    def __init__(self, width: int, heads: int, placement: str, norm: str) -> None:
        super().__init__()
        self.placement = placement
        wide = nn.Linear(width, 4 * width)
        self.parts = nn.ModuleList(
            [
                Attention(width, heads),
                nn.Sequential(wide, nn.ReLU(), nn.Linear(4 * width, width)),
            ]
        )
        self.norms = nn.ModuleList(normed(width, placement, norm) for _ in self.parts)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the next block sees."""
        for part, norm in zip(self.parts, self.norms, strict=True):
            x = norm(x + part(x)) if self.placement == "post" else x + part(norm(x))
        return x


def normed(width: int, placement: str, norm: str) -> nn.Module:
    """Return a norm over ``width`` features, or what does nothing where there shall be none."""
    return nn.Identity() if placement == "none" else NORMS[norm](width)


class Transformer(nn.Module):
    """Say for each character of (B, T) how likely each is to come next: logits (B, T, letters).

    Matrices begin as Glorot and Bengio 2010 have them, as in the first Transformers, biases at 0.
    After a stack of pre-norm blocks stands one more norm; without it the logits grow with depth.

    Args:
        letters: of the alphabet.
        placement: "post", "pre" or "none".
        norm: one of `NORMS`.
        layers: blocks.
        width: features of a position.
        heads: of the attention, which divide ``width``.
        context: positions at most.
    """

    def __init__(
        self,
        letters: int,
        placement: str = "pre",
        norm: str = "layer",
        layers: int = 6,
        width: int = 64,
        heads: int = 4,
        context: int = 64,
    ) -> None:
        super().__init__()
        self.letter = nn.Embedding(letters, width)
        self.place = nn.Embedding(context, width)
        blocks = (Block(width, heads, placement, norm) for _ in range(layers))
        self.blocks = nn.Sequential(*blocks)
        self.last = normed(width, placement, norm) if placement == "pre" else nn.Identity()
        self.logits = nn.Linear(width, letters)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits; position t knows the characters up to t."""
        seen = self.letter(x) + self.place.weight[: x.shape[1]]
        logits: Tensor = self.logits(self.last(self.blocks(seen)))
        return logits


def bits(model: nn.Module, read: Tensor) -> Tensor:
    """Return the mean loss in bits a character of (B, T + 1), each said from those before it."""
    logits = model(read[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), read[:, 1:].flatten()) / math.log(2)
