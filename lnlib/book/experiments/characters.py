"""A small Transformer that learns a novel letter by letter, with its norms where you want them.

The text is Jane Austen's *Persuasion*, which lies beside the digits; see its README there.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lnlib
from lnlib.book.data import novel
from lnlib.book.experiments.mlp import DetachedLayerNorm, NoisyLayerNorm

__all__ = [
    "NORMS",
    "PLACEMENTS",
    "Block",
    "Config",
    "Record",
    "Text",
    "Transformer",
    "bits",
    "build",
    "persuasion",
    "run",
    "sample",
]

PLACEMENTS = ("post", "pre", "none")
NORMS = ("layer", "rms", "detached", "noisy", "jitter")
VALID = 0.1  # the end of the text, which nothing is trained on
RECORDS = 20  # of a run


class Text(NamedTuple):
    """A text as numbers: one for each character, which stands for a place in ``alphabet``."""

    alphabet: str
    train: Tensor  # int64 (N,)
    valid: Tensor


def persuasion(root: str | PathLike[str] | None = None) -> Text:
    """Read the novel: nine tenths to train on, the last tenth to test on.

    Raises:
        FileNotFoundError, ValueError: as `lnlib.book.data.novel` does.
    """
    text = novel(root)
    alphabet = "".join(sorted(set(text)))
    numbers = torch.tensor([alphabet.index(character) for character in text])
    start = round((1 - VALID) * len(numbers))
    return Text(alphabet, numbers[:start], numbers[start:])


@dataclass(frozen=True)
class Config:
    """One run: all that its result depends on, besides the text.

    Raises:
        ValueError: if there is no such placement or norm, or a number is not positive.
    """

    placement: str = "pre"  # one of PLACEMENTS
    norm: str = "layer"  # one of NORMS
    layers: int = 6
    width: int = 64
    heads: int = 4
    context: int = 64
    batch: int = 16
    lr: float = 1e-3  # of Adam, after the warm-up
    warmup: int = 0  # steps in which the rate grows to lr from near 0
    steps: int = 600
    seed: int = 0  # of the first weights, and of what is read

    def __post_init__(self) -> None:
        for name, known in (("placement", PLACEMENTS), ("norm", NORMS)):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}, expected one of {', '.join(known)}"
                )
        for name in ("layers", "width", "heads", "context", "batch", "lr", "steps"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a positive number")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} does not divide into {self.heads} heads")


class Record(NamedTuple):
    """What is known after some steps. Seconds are those of training alone, since its beginning."""

    step: int
    seconds: float
    cpu_seconds: float  # they depend less on what else the machine does
    train_bits: float  # a character, mean since the record before
    valid_bits: float


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


class Jitter(NoisyLayerNorm):
    """As much noise as `NoisyLayerNorm` adds, but drawn anew for each number.

    No distribution moves by it. It is a rough control, for noise that rows share averages out less.
    """

    def drawn(self, y: Tensor, low: float, high: float) -> Tensor:
        """Return numbers of a uniform law, one for each of ``y``."""
        return torch.empty_like(y).uniform_(low, high)


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
    if placement == "none":
        return nn.Identity()
    kinds: dict[str, Callable[[int], nn.Module]] = {
        "layer": lnlib.LayerNorm,
        "rms": functools.partial(nn.RMSNorm, eps=1e-5),
        "detached": DetachedLayerNorm,
        "noisy": NoisyLayerNorm,
        "jitter": Jitter,
    }
    return kinds[norm](width)


class Transformer(nn.Module):
    """Say for each character of (B, T) how likely each is to come next: logits (B, T, letters).

    Matrices begin as Glorot and Bengio 2010 have them, as in the first Transformers, biases at 0.
    Behind a stack of pre-norm blocks stands one more norm; without it the logits grow with depth.
    """

    def __init__(self, letters: int, config: Config) -> None:
        super().__init__()
        width, kind = config.width, (config.placement, config.norm)
        self.letter = nn.Embedding(letters, width)
        self.place = nn.Embedding(config.context, width)
        blocks = (Block(width, config.heads, *kind) for _ in range(config.layers))
        self.blocks = nn.Sequential(*blocks)
        self.last = normed(width, *kind) if config.placement == "pre" else nn.Identity()
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


def build(config: Config, letters: int) -> Transformer:
    """Return the network as it is before training; the seed of ``config`` decides its weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return Transformer(letters, config)


def windows(text: Tensor, starts: Tensor, context: int) -> Tensor:
    """Return the stretches of ``context`` + 1 characters that begin at ``starts``."""
    return text[starts.unsqueeze(1) + torch.arange(context + 1)]


def bits(model: nn.Module, read: Tensor) -> Tensor:
    """Return the mean loss in bits a character of (B, T + 1), each said from those before it."""
    logits = model(read[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), read[:, 1:].flatten()) / math.log(2)


def run(
    config: Config, text: Text | None = None, model: Transformer | None = None
) -> Iterator[Record]:
    """Train, and yield a record twenty times a run, and after the last step.

    Args:
        config: what to do.
        text: by default `persuasion`, which may raise.
        model: what is trained; by default what `build` gives.
    """
    text = text or persuasion()
    model = model or build(config, len(text.alphabet))
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr, fused=True)
    last = len(text.valid) - config.context - 1
    unseen = windows(text.valid, torch.linspace(0, last, 200).long(), config.context)
    generator = torch.Generator().manual_seed(config.seed)
    seconds = cpu_seconds = total = 0.0
    every = max(1, config.steps // RECORDS)
    since = 0
    for step in range(1, config.steps + 1):
        start, cpu_start = time.perf_counter(), time.process_time()
        optimizer.param_groups[0]["lr"] = config.lr * min(1, step / max(1, config.warmup))
        starts = torch.randint(
            len(text.train) - config.context, (config.batch,), generator=generator
        )
        loss = bits(model, windows(text.train, starts, config.context))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total, since = total + loss.item(), since + 1
        seconds += time.perf_counter() - start
        cpu_seconds += time.process_time() - cpu_start
        if step % every == 0 or step == config.steps:
            with torch.no_grad():
                valid = bits(model, unseen).item()
            yield Record(step, seconds, cpu_seconds, total / since, valid)
            total, since = 0.0, 0


def sample(model: Transformer, text: Text, start: str, length: int, seed: int = 0) -> str:
    """Return ``start`` and what the model writes after it, one character at a time."""
    generator = torch.Generator().manual_seed(seed)
    written = [text.alphabet.index(character) for character in start]
    context = model.place.num_embeddings
    with torch.no_grad():
        for _ in range(length):
            logits = model(torch.tensor([written[-context:]]))[0, -1]
            written.append(int(torch.multinomial(logits.softmax(0), 1, generator=generator)))
    return "".join(text.alphabet[number] for number in written)
