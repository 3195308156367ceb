"""How long is a training step with lnlib's norms? Writes ``benchmarks/results/models.csv``.

    python benchmarks/bench_models.py           # about four minutes
    python benchmarks/bench_models.py --quick   # tiny models; only prints

Two Transformers of `torch.nn`, with random weights: the encoder of BERT-base (Devlin et al. 2019:
12 layers of 768, the norm after each block) on sentences of 128 tokens, and ViT-Ti (Touvron et
al. 2021: 12 layers of 192, the norm before each block) on images of 224 × 224. Their norms are
PyTorch's, or lnlib's as `lnlib.swap` puts them there, or these with the plain reference; all else
is the same model with the same weights. First the gradients are compared. Then a step, forward and
backward, is timed with each in turn; a row has the median and the quartiles of the ratios to
PyTorch's norms, round by round.

On a GPU the table is ``models_gpu.csv``. There the batches are so large that the GPU decides how
long a step takes, or so small that Python does. Each model is also compiled, and the small ones
with ``mode="reduce-overhead"`` too, which captures them in CUDA graphs; all are compared with one
that is compiled likewise and has PyTorch's norms.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import timing
import torch
from bench_speed import OURS, PYTORCH, REFERENCE, ratio, where
from results_table import Row, noted, write
from torch import Tensor, nn

import lnlib

BACKENDS = {OURS: "auto", REFERENCE: "reference"}
MODES = {"compiled, ": "default", "CUDA graph, ": "reduce-overhead"}  # of torch.compile
# Of the size of all gradients: what other roundings make, twelve layers later.
MOST_APART = {torch.float32: 1e-3, torch.bfloat16: 1e-1}

Step: TypeAlias = Callable[[], None]
Build: TypeAlias = "Callable[[Size], tuple[str, nn.Module, Tensor]]"


class Bert(nn.Module):
    """Tokens, their places, a norm, and layers with the norm after each block."""

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


class Size(NamedTuple):
    """How much a model reads, and how large it is."""

    sentences: int
    images: int
    layers: int = 12
    is_narrow: bool = False


QUICK, ON_CPU = Size(1, 1, 1, True), Size(1, 8)
# Of the small ones a GPU waits for Python, of the large ones Python for the GPU.
SMALL, LARGE = Size(64, 256), Size(512, 2048)


def bert(size: Size) -> tuple[str, nn.Module, Tensor]:
    """Return a name, the model, and what it reads."""
    name = f"BERT-base, {size.sentences} × 128 tokens"
    model = Bert(size.layers, 64 if size.is_narrow else 768)
    return name, model, torch.randint(1000, (size.sentences, 128))


def vit(size: Size) -> tuple[str, nn.Module, Tensor]:
    """Return a name, the model, and what it sees."""
    model = ViT(size.layers, 64 if size.is_narrow else 192)
    return f"ViT-Ti, {size.images} images", model, torch.randn(size.images, 3, 224, 224)


def with_norms(model: nn.Module, norms: str) -> nn.Module:
    """Return a model with the same weights, whose norms are those."""
    twin = copy.deepcopy(model, {id(p): p for p in model.parameters()})
    if norms != PYTORCH:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about evaluation
            lnlib.swap(twin, backend=BACKENDS[norms])
    return twin


def step(model: nn.Module, given: Tensor) -> None:
    """Run forward and backward, and wait until a GPU has done so."""
    model.zero_grad()
    y = model(given).float()
    # No multiple of ones or of y: its gradient would vanish in the last norm.
    ramp = torch.linspace(-1, 1, y.shape[-1], device=y.device)
    (y - ramp).square().mean().backward()
    if given.is_cuda:
        torch.cuda.synchronize()


def gradient(model: nn.Module) -> Tensor:
    """Return all gradients of a model, one after the other."""
    return torch.cat([p.grad.double().flatten() for p in model.parameters() if p.grad is not None])


def check(steps: dict[str, Step], model: nn.Module, most_apart: float) -> None:
    """Raise RuntimeError if the gradients of a step are not those with PyTorch's norms."""
    steps[PYTORCH]()
    right = gradient(model)
    for norms, run in steps.items():
        run()
        apart = ((gradient(model) - right).norm() / right.norm()).item()
        if not apart <= most_apart:
            raise RuntimeError(f"{norms}: the gradients are off by {apart:.2g}")


def steps_of(model: nn.Module, given: Tensor, modes: Sequence[str]) -> dict[str, Step]:
    """Return the steps that are timed, by the norms that they have and how they are compiled."""
    names = (PYTORCH, OURS) if given.is_cuda else (PYTORCH, *BACKENDS)
    plain = {norms: with_norms(model, norms) for norms in names}
    twins = plain | {
        how + norms: torch.compile(twin, mode=MODES[how], dynamic=False)
        for how in modes
        for norms, twin in plain.items()
    }
    return {norms: partial(step, twin, given) for norms, twin in twins.items()}


def cases(
    device: torch.device, is_quick: bool
) -> Iterator[tuple[Build, Size, torch.dtype, Sequence[str]]]:
    """Yield each model, its size, its dtype, and those of `MODES` in which it is compiled."""
    for build in (bert, vit):
        if device.type == "cuda":
            yield build, SMALL, torch.bfloat16, [*MODES]
            yield build, LARGE, torch.bfloat16, [*MODES][:1]
        else:
            for dtype in (torch.float32, torch.bfloat16):
                yield build, QUICK if is_quick else ON_CPU, dtype, []


def table(device: torch.device, is_quick: bool) -> Iterator[list[Row]]:
    """Yield the rows of each model, or of tiny ones."""
    seconds, at_least = (0.0, 3) if is_quick else (8.0 if device.type == "cuda" else 50.0, 11)
    for build, size, dtype, modes in cases(device, is_quick):
        torch.manual_seed(0)
        name, model, given = build(size)
        model = model.to(device, dtype)
        given = given.to(device, dtype if given.is_floating_point() else None)
        steps = steps_of(model, given, modes)
        check(steps, model, MOST_APART[dtype])
        times = timing.in_turn(steps, seconds, at_least, 60, timing.one_call)
        of = {"model": name, "dtype": str(dtype).removeprefix("torch.")}
        yield [of | row_of(norms, times) for norms in steps]


def row_of(norms: str, times: dict[str, list[float]]) -> Row:
    """Return what the times of a step come to, beside one with PyTorch's norms."""
    how = next((how for how in MODES if norms.startswith(how)), "")
    over, quartiles = ratio(times[norms], times[how + PYTORCH])
    return {
        "norms": norms,
        "ms": f"{1e3 * statistics.median(times[norms]):.3g}",
        "over_torch": over,
        "quartiles": quartiles,
        "rounds": len(times[norms]),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny models")
    options = parser.parse_args(arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = {"cpu": "models", "cuda": "models_gpu"}[device.type]
    on = {"device": "cpu" if device.type == "cpu" else torch.cuda.get_device_name()}
    rows: list[Row] = []
    for found in table(device, options.quick):
        rows += noted(found, lambda: on | where())
        if not options.quick:  # a run that is stopped keeps what it had
            write(name, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
