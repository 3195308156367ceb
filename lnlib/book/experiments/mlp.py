"""The network of the paper's section 6.6 on the book's digits: 784-1000-1000-10, with any norm.

"Permutation-invariant": the pixels are a plain vector, so their order does not matter. The paper
does not say which non-linearity it takes, nor how weights begin; these are ReLU and PyTorch's.
"""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

import lnlib
from lnlib.book.data import mnist
from lnlib.book.experiments.sequential_mnist import stratified

__all__ = [
    "NORMS",
    "BatchNorm",
    "Config",
    "DetachedLayerNorm",
    "Network",
    "NoisyLayerNorm",
    "Record",
    "Rows",
    "build",
    "losses",
    "permutation_invariant_mnist",
    "run",
    "trained",
    "until",
]

NORMS = (
    "none",
    "batch",
    "batch-hidden",
    "layer",
    "rms",
    "weight",
    "layer-detached",
    "layer-noisy",
)
PIXELS, HIDDEN, CLASSES = 784, 1000, 10
VALID_EVERY = 8  # of the 8,000 that the book trains on: 1,000 to choose the learning rate by


class Rows(NamedTuple):
    """Images (N, 784) of ink from 0 to 1, and labels (N,): to train on, to choose by, to test on.

    The 1,000 and the 2,000 hold each digit as often as the 7,000 do.
    """

    train: tuple[Tensor, Tensor]
    valid: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


def permutation_invariant_mnist() -> Rows:
    """Read the book's 10,000 digits as plain vectors.

    Raises:
        FileNotFoundError, ValueError: as `lnlib.book.data.mnist` does.
    """
    digits = stratified(mnist())
    images, labels = digits.train_images.flatten(1), digits.train_labels
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    chosen[labels.argsort(stable=True)[::VALID_EVERY]] = True
    return Rows(
        (images[~chosen], labels[~chosen]),
        (images[chosen], labels[chosen]),
        (digits.test_images.flatten(1), digits.test_labels),
    )


@dataclass(frozen=True)
class Config:
    """One run: all that its result depends on, besides the digits.

    Raises:
        ValueError: if there is no such norm, or a number is not positive.
    """

    norm: str = "layer"  # one of NORMS
    batch: int = 128
    lr: float = 1e-3  # of Adam
    epochs: int = 20
    rows: int = 7000  # how many of the digits to train on, the first ones
    hidden: int = HIDDEN
    seed: int = 0  # of the first weights, and of the order of the digits

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise ValueError(f"norm is {self.norm!r}, expected one of {', '.join(NORMS)}")
        for name in ("batch", "lr", "epochs", "rows", "hidden"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a positive number")


class Record(NamedTuple):
    """What is known after an epoch. Seconds are those of training alone, since its beginning."""

    epoch: int
    seconds: float
    cpu_seconds: float  # they depend less on what else the machine does
    train_loss: float  # nats a digit, mean over the epoch
    valid_loss: float
    valid_error: float  # from 0 to 1
    test_loss: float
    test_error: float
    test_loss_batch: float  # with the statistics of the test batch; the same without batch norm
    test_error_batch: float


class BatchNorm(nn.BatchNorm1d):
    """Batch norm whose variance divides by B − 1 in training too.

    The paper does so at its small batch (section 6.6); PyTorch does for the running variance alone.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the columns of ``input`` (B, H)."""
        if not self.training:
            return super().forward(input)
        share = 1 - 1 / len(input)  # of the unbiased variance is the biased one
        x_hat = F.batch_norm(
            input,
            self.running_mean,
            self.running_var,
            None,
            None,
            True,
            self.momentum or 0.1,
            self.eps * share,
        )
        y: Tensor = share**0.5 * x_hat * self.weight + self.bias
        return y


class DetachedLayerNorm(nn.LayerNorm):
    """Layer norm whose mean and deviation are constants on the way back.

    Xu et al. 2019 call it DetachNorm: forward it is layer norm to the last term.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the rows of ``input`` (B, H)."""
        var, mean = torch.var_mean(input.detach(), dim=-1, keepdim=True, correction=0)
        return (input - mean) * (var + self.eps).rsqrt() * self.weight + self.bias


class NoisyLayerNorm(nn.LayerNorm):
    """Layer norm followed by a scale and a shift that are new at every step of training.

    Santurkar et al. 2018 put this behind batch norm: the distributions that the next layer sees
    move about on purpose, each feature's by its own amount, and each number's a little more.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the rows of ``input`` (B, H), then disturb them if in training."""
        y = super().forward(input)
        if not self.training:
            return y
        shift = self.drawn(y, -0.5, 0.5) + torch.empty_like(y).uniform_(-0.1, 0.1)
        scale = self.drawn(y, 1, 1.25) + 0.1 * torch.randn_like(y)
        return scale * y + shift

    def drawn(self, y: Tensor, low: float, high: float) -> Tensor:
        """Return numbers of a uniform law, one for each feature of ``y``."""
        return torch.empty(y.shape[-1]).uniform_(low, high)


class Network(nn.Module):
    """Two hidden layers and ten logits; the bias of a normed layer is that of its norm (eq. 5)."""

    def __init__(self, norm: str, batch: int, hidden: int = HIDDEN) -> None:
        super().__init__()
        sizes = (PIXELS, hidden, hidden, CLASSES)
        self.linear, self.norm = nn.ModuleList(), nn.ModuleList()
        for inputs, outputs in itertools.pairwise(sizes):
            # Logits are left as they are, for their scale is the confidence; only the paper's
            # batch norm takes them too.
            after = _norm(norm, outputs, batch) if outputs != CLASSES or norm == "batch" else None
            layer = nn.Linear(inputs, outputs, bias=after is None)
            self.linear.append(weight_norm(layer) if norm == "weight" else layer)
            self.norm.append(after or nn.Identity())

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (B, 10) of images (B, 784), or (B, 28, 28)."""
        x = x.flatten(1)
        for linear, norm in zip(self.linear[:-1], self.norm[:-1], strict=True):
            x = torch.relu(norm(linear(x)))
        logits: Tensor = self.norm[-1](self.linear[-1](x))
        return logits


def _norm(name: str, features: int, batch: int) -> nn.Module | None:
    if name in ("batch", "batch-hidden"):
        return BatchNorm(features) if batch < 32 else nn.BatchNorm1d(features)
    kinds: dict[str, Callable[[int], nn.Module]] = {
        "layer": lnlib.LayerNorm,
        "rms": lambda size: nn.RMSNorm(size, eps=1e-5),
        "layer-detached": DetachedLayerNorm,
        "layer-noisy": NoisyLayerNorm,
    }
    return kinds[name](features) if name in kinds else None


def build(config: Config) -> Network:
    """Return the network as it is before training; the seed of ``config`` decides its weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return Network(config.norm, config.batch, config.hidden)


def losses(model: nn.Module, rows: tuple[Tensor, Tensor], batch: int = 500) -> tuple[float, float]:
    """Return the mean loss (nats) and the share of wrong answers (0 to 1), ``batch`` at a time."""
    loss, wrong = 0.0, 0
    with torch.no_grad():
        for x, labels in zip(*(torch.split(part, batch) for part in rows), strict=True):
            logits = model(x)
            loss += F.cross_entropy(logits, labels, reduction="sum").item()
            wrong += int((logits.argmax(1) != labels).sum())
    return loss / len(rows[1]), wrong / len(rows[1])


def run(config: Config, data: Rows | None = None) -> Iterator[Record]:
    """Train, and yield one record an epoch.

    Args:
        config: what to do.
        data: by default `permutation_invariant_mnist`, which may raise.
    """
    data = data or permutation_invariant_mnist()
    model = build(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr, fused=True)
    x, labels = (part[: config.rows] for part in data.train)
    seconds = cpu_seconds = 0.0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        for epoch in range(1, config.epochs + 1):
            start, cpu_start = time.perf_counter(), time.process_time()
            total = 0.0
            for rows in torch.split(torch.randperm(len(x)), config.batch):
                loss = F.cross_entropy(model.train()(x[rows]), labels[rows])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                total += len(rows) * loss.item()
            seconds += time.perf_counter() - start
            cpu_seconds += time.process_time() - cpu_start
            valid, test = (losses(model.eval(), part) for part in (data.valid, data.test))
            yield Record(
                epoch,
                seconds,
                cpu_seconds,
                total / len(x),
                *valid,
                *test,
                *_by_batch(config, model, data, test),
            )


def _by_batch(
    config: Config, model: Network, data: Rows, test: tuple[float, float]
) -> tuple[float, float]:
    """Return loss and error as a batch norm has them that goes on with each batch's statistics."""
    if "batch" not in config.norm:
        return test
    return losses(copy.deepcopy(model).train(), data.test, config.batch)


def trained(norm: str, rows: tuple[Tensor, Tensor], batch: int = 4, steps: int = 375) -> Network:
    """Return a network with hidden layers of 100 after some steps of Adam on random ``rows``."""
    model = build(Config(norm=norm, batch=batch, hidden=100)).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for _ in range(steps):
            chosen = torch.randint(len(rows[1]), (batch,))
            x, labels = (part[chosen] for part in rows)
            optimizer.zero_grad()
            F.cross_entropy(model(x), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return model


def until(
    loss: float,
    norm: str,
    rows: tuple[Tensor, Tensor],
    optimizer: Callable[..., torch.optim.Optimizer],
    lr: float,
    seed: int,
) -> Network:
    """Return a network with hidden layers of 100, trained on all ``rows`` at once down to a loss.

    Raises:
        RuntimeError: it does not come down to ``loss`` in 3,000 steps.
    """
    model = build(Config(norm=norm, hidden=100, seed=seed)).train()
    steps = optimizer(model.parameters(), lr=lr)
    for _ in range(3000):
        now = F.cross_entropy(model(rows[0]), rows[1])
        steps.zero_grad()
        now.backward()  # type: ignore[no-untyped-call]
        if now < loss:
            return model
        steps.step()
    raise RuntimeError(f"the loss does not come down to {loss}")
