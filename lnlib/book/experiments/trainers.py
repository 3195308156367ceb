"""The networks that the chapters compare, trained on a fold of the digits or of the novel.

`benchmarks/sweep_digits.py` and `sweep_novel.py` run them by the protocol of
`lnlib.book.records.verdicts`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lnlib
from lnlib.book.data import mnist
from lnlib.book.experiments import characters, mlp

__all__ = [
    "FOLDS",
    "RECURRENT",
    "TRANSFORMERS",
    "Fold",
    "Perceptron",
    "Reader",
    "Tenths",
    "adapted",
    "classify",
    "descend",
    "fold",
    "in_bits",
    "measured",
    "read",
    "scaled",
    "sequences",
    "tenths",
    "trained",
    "write",
]

FOLDS, VALID_EVERY = 5, 8


class Fold(NamedTuple):
    """Images (N, 28, 28) of ink from 0 to 1 with labels (N,): to train on, choose by and test on.

    These are 7,000, 1,000 and 2,000 digits, and each class has the same share of all three.
    """

    train: tuple[Tensor, Tensor]
    valid: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


@functools.cache
def fold(number: int) -> Fold:
    """Return one of five folds of the book's digits; each digit is tested on in one of them.

    Raises:
        FileNotFoundError, ValueError: as `lnlib.book.data.mnist` does.
    """
    digits = mnist()
    images = torch.cat([digits.train_images, digits.test_images])
    labels = torch.cat([digits.train_labels, digits.test_labels])
    order = labels.argsort(stable=True)
    tested = torch.arange(len(order)) % FOLDS == number % FOLDS
    rest = order[~tested]
    chosen = torch.arange(len(rest)) % VALID_EVERY == 0
    parts = rest[~chosen], rest[chosen], order[tested]
    return Fold(*((images[part], labels[part]) for part in parts))


class Perceptron(nn.Sequential):
    """784-128-128-10, with a layer norm before each ReLU; its first γ are ``gamma``."""

    def __init__(self, gamma: float = 1.0) -> None:
        norms = [nn.LayerNorm(128), nn.LayerNorm(128)]
        for norm in norms:
            nn.init.constant_(norm.weight, gamma)
        first, second, last = nn.Linear(784, 128), nn.Linear(128, 128), nn.Linear(128, 10)
        super().__init__(
            nn.Flatten(), first, norms[0], nn.ReLU(), second, norms[1], nn.ReLU(), last
        )

    @property
    def norms(self) -> list[nn.LayerNorm]:
        """The two layer norms."""
        return [layer for layer in self if isinstance(layer, nn.LayerNorm)]

    def learning(self, what: str) -> Perceptron:
        """Freeze all but a part, and return the network.

        Args:
            what: "all", "norms" (γ and β), "others" (all but these), or "last" (the last layer).
        """
        last, norms = set(self[-1].parameters()), {p for n in self.norms for p in n.parameters()}
        kept = {"all": {*self.parameters()}, "norms": norms, "last": last}
        kept["others"] = kept["all"] - norms
        for parameter in self.parameters():
            parameter.requires_grad_(parameter in kept[what])
        return self


def batches(rows: tuple[Tensor, Tensor], size: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches without end, each pass over the rows in another order."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(rows[1]), generator=generator)
        for chosen in torch.split(order, size):
            yield rows[0][chosen], rows[1][chosen]


def descend(
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    rows: Iterator[tuple[Tensor, Tensor]],
    steps: int,
    after: Callable[[int], object] = lambda step: None,
    clip: float = math.inf,
    warmup: int = 0,
) -> None:
    """Train for some steps, while the learning rate falls linearly to 0.

    Args:
        net: of which ``optimizer`` has the parameters that learn.
        optimizer: its groups' rates are the first ones.
        rows: the batches.
        steps: one for each batch.
        after: is called after each step with its number, from 1 on.
        clip: the largest norm of the gradient; a longer one is shortened to it.
        warmup: steps before that, in which the rate grows linearly from near 0.
    """
    first = [group["lr"] for group in optimizer.param_groups]
    for step, (x, labels) in zip(range(1, steps + 1), rows, strict=False):
        for group, rate in zip(optimizer.param_groups, first, strict=True):
            falling = 1 - (step - 1 - warmup) / (steps - warmup)
            group["lr"] = rate * min(step / max(1, warmup), falling)
        optimizer.zero_grad()
        logits = net(x).flatten(0, -2)
        F.cross_entropy(logits, labels.flatten()).backward()  # type: ignore[no-untyped-call]
        if math.isfinite(clip):
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        after(step)


def sgd(net: Perceptron, rate: float, decay: float = 0.0, spared: bool = True) -> torch.optim.SGD:
    """Return SGD with decay on matrices, on γ and β unless ``spared``, and never on biases."""
    norms = {p for norm in net.norms for p in norm.parameters()}
    groups: Sequence[tuple[list[nn.Parameter], float]] = (
        ([p for p in net.parameters() if p.ndim == 2], decay),
        ([p for p in net.parameters() if p in norms], 0.0 if spared else decay),
        ([p for p in net.parameters() if p.ndim == 1 and p not in norms], 0.0),
    )
    return torch.optim.SGD([{"params": p, "weight_decay": d} for p, d in groups], lr=rate)


def trained(
    rate: float,
    seed: int,
    gamma: float = 1.0,
    learns: str = "all",
    decay: float = 0.0,
    spared: bool = True,
    steps: int = 1200,
    after: Callable[[Perceptron, int], object] = lambda net, step: None,
) -> Perceptron:
    """Return a perceptron after some steps of SGD on batches of 100, on the fold of its seed.

    Args:
        rate: the first learning rate; it falls linearly to 0.
        seed: of the first weights and the order of the digits; it chooses the fold, too.
        gamma: first γ of both norms.
        learns: as in `Perceptron.learning`.
        decay: weight decay.
        spared: whether γ and β are spared by it.
        steps: of training.
        after: is called after each step with the network and the number of the step.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Perceptron(gamma).learning(learns)
    optimizer = sgd(net, rate, decay, spared)
    rows = batches(fold(seed).train, 100, seed)
    descend(net, optimizer, rows, steps, lambda step: after(net, step))
    return net


@functools.cache
def _before(seed: int) -> Perceptron:
    return trained(0.1, seed, steps=800)


def adapted(
    change: Callable[[Tensor], Tensor], learns: str, rate: float, seed: int
) -> tuple[Perceptron, Fold]:
    """Return a trained perceptron, a part of which then learned changed digits, and these digits.

    The training before is 800 steps at a rate of 0.1; the part takes 400.

    Args:
        change: of the images.
        learns: as in `Perceptron.learning`.
        rate: the first learning rate of that part.
        seed: as in `trained`.
    """
    net = Perceptron()
    net.load_state_dict(_before(seed).state_dict())
    digits = Fold(*((change(images), labels) for images, labels in fold(seed)))
    rows = batches(digits.train, 100, seed + 1000)  # in another order than before
    descend(net.learning(learns), sgd(net, rate), rows, 400)
    return net, digits


def _strong(features: int, hidden: int) -> nn.LSTM:
    """Return an LSTM with the first values that are recommended for one without a norm.

    Glorot's for what reads the input, orthogonal ones for each gate's part of what reads the state,
    and biases of 0 but for the forget gate's, which is 1 (Jozefowicz et al. 2015).
    """
    lstm = nn.LSTM(features, hidden)
    ih, hh, bias_ih, bias_hh = lstm.parameters()
    with torch.no_grad():
        for part in ih.chunk(4):
            nn.init.xavier_uniform_(part)
        for part in hh.chunk(4):
            nn.init.orthogonal_(part)
        for bias in (bias_ih, bias_hh):
            bias.zero_()
        bias_ih.chunk(4)[1].fill_(1.0)
    return lstm


def _smaller(features: int, hidden: int) -> lnlib.LayerNormLSTM:
    """Return a layer-normalized LSTM whose first γ are 0.1, as Cooijmans et al. 2016 begin."""
    lstm = lnlib.LayerNormLSTM(features, hidden, forget_bias=1.0)
    for name, parameter in lstm.named_parameters():
        if name.startswith("norm") and "weight" in name:
            nn.init.constant_(parameter, 0.1)
    return lstm


_remembering = functools.partial(lnlib.LayerNormLSTM, forget_bias=1.0)
RECURRENT: dict[str, Callable[[int, int], nn.Module]] = {
    "LSTM": nn.LSTM,
    "strong LSTM": _strong,
    "layer norm": lnlib.LayerNormLSTM,
    "layer norm, forget bias": _remembering,
    "normalized carry": functools.partial(_remembering, carry="normalized"),
    "γ = 0.1": _smaller,
}


UNITS = ("standardized", "raw", "bytes")
LAYOUTS = ("rows", "coarse")
MEAN, STD = 0.1307, 0.3081  # of MNIST's 60,000 training images, in units of full ink


def scaled(images: Tensor, units: str) -> Tensor:
    """Return images of ink from 0 to 1 in the units that a network is to see.

    "standardized": mean 0 and standard deviation 1 over all of MNIST, paper is -0.42; "raw": as
    they are, paper is 0; "bytes": from 0 to 255.

    Raises:
        ValueError: if there are no such units.
    """
    _check("units", units, UNITS)
    if units == "standardized":
        return (images - MEAN) / STD
    return images if units == "raw" else 255 * images


def sequences(images: Tensor, layout: str) -> Tensor:
    """Return images (N, 28, 28) as sequences (N, T, F), read from the top.

    "rows": 28 steps of 28; "coarse": 196 steps of 1, each the mean of four pixels.

    Raises:
        ValueError: if there is no such layout.
    """
    _check("layout", layout, LAYOUTS)
    if layout == "rows":
        return images
    return F.avg_pool2d(images.unsqueeze(1), 2).flatten(1).unsqueeze(2)


def _check(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ValueError(f"{what} is {given!r}, expected one of {', '.join(known)}")


class Reader(nn.Module):
    """A digit from the last output of a recurrent layer that reads it from the top.

    Args:
        kind: one of `RECURRENT`.
        units: of the pixels, as in `scaled`.
        layout: "rows" for its 28 rows, or "coarse" for 196 pixels, one by one.
        hidden: size of the hidden state.
    """

    def __init__(
        self, kind: str, units: str = "standardized", layout: str = "rows", hidden: int = 128
    ) -> None:
        super().__init__()
        self.units, self.layout = units, layout
        self.recurrent = RECURRENT[kind](28 if layout == "rows" else 1, hidden)
        self.label = nn.Linear(hidden, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits (N, 10) of images (N, 28, 28) of ink."""
        x = sequences(scaled(images, self.units), self.layout)
        outputs, _ = self.recurrent(x.transpose(0, 1))
        logits: Tensor = self.label(outputs[-1])
        return logits


def read(
    kind: str, rate: float, seed: int, epochs: int, batch: int = 64, **how: str | int
) -> Reader:
    """Return a reader after some epochs of Adam, gradients clipped to a norm of 1.

    Args:
        kind: one of `RECURRENT`.
        rate: the first learning rate; it falls linearly to 0.
        seed: of the first weights and the order of the digits; it chooses the fold, too.
        epochs: of training.
        batch: digits in a batch.
        how: what else `Reader` takes.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Reader(kind, **how)  # type: ignore[arg-type]
    by_adam(net, fold(seed).train, rate, seed, epochs, batch, clip=1.0)
    return net


def by_adam(
    net: nn.Module,
    rows: tuple[Tensor, Tensor],
    rate: float,
    seed: int,
    epochs: int,
    batch: int,
    clip: float = math.inf,
) -> None:
    """Train a network for some epochs of Adam, as `descend` does."""
    steps = epochs * math.ceil(len(rows[1]) / batch)
    adam = torch.optim.Adam(net.parameters(), lr=rate, fused=True)
    descend(net, adam, batches(rows, batch, seed), steps, clip=clip)


def classify(
    norm: str, rate: float, seed: int, epochs: int, batch: int, hidden: int
) -> mlp.Network:
    """Return the network of the paper's section 6.6, trained with Adam, ready for inference.

    Batch norm's stored statistics are those of all training digits.

    Args:
        norm: one of `lnlib.book.experiments.mlp.NORMS`.
        rate: the first learning rate; it falls linearly to 0.
        seed: of the first weights and the order of the digits; it chooses the fold, too.
        epochs: of training.
        batch: digits in a batch.
        hidden: neurons in each of the two hidden layers.
    """
    net = mlp.build(norm, batch, hidden, seed)
    train = fold(seed).train
    by_adam(net, train, rate, seed, epochs, batch)
    for layer in net.norm:
        if isinstance(layer, nn.BatchNorm1d):
            layer.momentum = 1.0
    with torch.no_grad():
        net(train[0])
    return net.eval()


@torch.no_grad()
def measured(
    net: nn.Module, digits: Fold, parts: Sequence[str] = ("valid", "test")
) -> dict[str, float]:
    """Return loss (nats) and error (0 to 1) on the digits to choose by and on those to test on."""
    found = {}
    for part in parts:
        images, labels = getattr(digits, part)
        logits = net(images)
        found[f"{part}_loss"] = F.cross_entropy(logits, labels).item()
        found[f"{part}_error"] = (logits.argmax(1) != labels).double().mean().item()
    return found


class Tenths(NamedTuple):
    """A novel as numbers, of which two neighboring tenths are held out."""

    letters: int
    train: tuple[Tensor, Tensor]  # what comes before these two tenths, and what after
    valid: Tensor
    test: Tensor


@functools.cache
def tenths(number: int) -> Tenths:
    """Return one of five folds of *Persuasion*.

    Raises:
        FileNotFoundError, ValueError: as `lnlib.book.data.novel` does.
    """
    alphabet, whole = characters.persuasion()
    first = 2 * (number % FOLDS)
    start, middle, end = (len(whole) * tenth // 10 for tenth in range(first, first + 3))
    train = whole[:start], whole[end:]
    return Tenths(len(alphabet), train, whole[start:middle], whole[middle:end])


TRANSFORMERS = {
    "no norm": ("none", "layer"),
    "no norm, zeros": ("none", "layer"),
    "layer norm": ("pre", "layer"),
    "layer norm, zeros": ("pre", "layer"),
    "RMS norm": ("pre", "rms"),
    "post-norm": ("post", "layer"),
    "detached": ("pre", "detached"),
    "noisy": ("pre", "noisy"),
    "jitter": ("pre", "jitter"),
}


LAST = ("parts.0.out.weight", "parts.1.2.weight")  # matrices of a block's two sublayers


def write(
    kind: str, rate: float, seed: int, steps: int, warmup: int = 100
) -> characters.Transformer:
    """Return a Transformer that has read the novel, trained with Adam, gradients clipped to 1.

    Args:
        kind: one of `TRANSFORMERS`; with "zeros" the last matrix of each sublayer begins at 0, so
            that each block begins as the identity.
        rate: the learning rate after the warm-up; it then falls linearly to 0.
        seed: of the first weights and of what is read; it chooses the fold, too.
        steps: of training, each on 16 stretches of 64 characters.
        warmup: the first steps, in which the rate grows.
    """
    placement, norm = TRANSFORMERS[kind]
    novel = tenths(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = characters.Transformer(novel.letters, placement, norm)
        if kind.endswith("zeros"):
            for name, parameter in net.blocks.named_parameters():
                if name.endswith(LAST):
                    nn.init.zeros_(parameter)
        adam = torch.optim.Adam(net.parameters(), lr=rate, fused=True)
        descend(net, adam, stretches(novel.train, seed), steps, clip=1.0, warmup=warmup)
    return net.eval()


def stretches(
    parts: Sequence[Tensor], seed: int, count: int = 16, context: int = 64
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of stretches of a text, and with each character the one that follows."""
    bytes_of = (part.to(torch.uint8) for part in parts if len(part) > context)
    every = torch.cat([part.unfold(0, context + 1, 1) for part in bytes_of])
    generator = torch.Generator().manual_seed(seed)
    while True:
        read = every[torch.randint(len(every), (count,), generator=generator)].long()
        yield read[:, :-1], read[:, 1:]


@torch.no_grad()
def in_bits(net: characters.Transformer, novel: Tenths, context: int = 64) -> dict[str, float]:
    """Return the loss in bits a character on both tenths, on every second stretch of them."""
    parts = {"valid_bits": novel.valid, "test_bits": novel.test}
    return {
        name: characters.bits(net, part.unfold(0, context + 1, 2 * context)).item()
        for name, part in parts.items()
    }
