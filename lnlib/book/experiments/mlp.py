"""The network of the paper's section 6.6 on the book's digits: 784-1000-1000-10, with any norm.

"Permutation-invariant": the pixels are a plain vector, so their order does not matter. The paper
does not say which non-linearity it takes, nor how weights begin; these are ReLU, and what He et
al. 2015 advise for it: matrices whose rows have a mean square of 2, and biases of 0.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lnlib

__all__ = ["NORMS", "BatchNorm", "Network", "build", "trained", "until"]

NORMS = ("none", "batch", "batch-hidden", "layer", "rms")
PIXELS, CLASSES = 784, 10


class BatchNorm(nn.BatchNorm1d):
    """Batch norm whose variance divides by B − 1 in training too.

    The paper does so at its small batch (section 6.6); PyTorch does for the running variance alone.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the columns of ``input`` (B, H)."""
        if not self.training:
            return super().forward(input)
        share = 1 - 1 / len(input)  # of the unbiased variance is the biased one
        running, momentum = (self.running_mean, self.running_var), self.momentum or 0.0
        x_hat = F.batch_norm(input, *running, None, None, True, momentum, self.eps * share)
        y: Tensor = share**0.5 * x_hat * self.weight + self.bias
        return y


class Network(nn.Module):
    """Two hidden layers and ten logits; the bias of a normed layer is that of its norm (eq. 5).

    Args:
        norm: one of `NORMS`; "batch" takes the logits too, as the paper's does.
        batch: how many digits it will be trained on at a time.
        hidden: neurons in each hidden layer.
    """

    def __init__(self, norm: str, batch: int, hidden: int) -> None:
        super().__init__()
        sizes = (PIXELS, hidden, hidden, CLASSES)
        self.linear, self.norm = nn.ModuleList(), nn.ModuleList()
        for inputs, outputs in itertools.pairwise(sizes):
            # Logits are left as they are, for their scale is the confidence; only the paper's
            # batch norm takes them too.
            after = _norm(norm, outputs, batch) if outputs != CLASSES or norm == "batch" else None
            linear = nn.Linear(inputs, outputs)
            if after:  # drawn all the same, so that a seed gives all networks the same matrices
                linear.register_parameter("bias", None)
            self.linear.append(linear)
            self.norm.append(after or nn.Identity())
        for name, parameter in self.linear.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.kaiming_normal_(parameter, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (B, 10) of images (B, 784), or (B, 28, 28)."""
        x = x.flatten(1)
        for linear, norm in zip(self.linear[:-1], self.norm[:-1], strict=True):
            x = torch.relu(norm(linear(x)))
        logits: Tensor = self.norm[-1](self.linear[-1](x))
        return logits


def _norm(name: str, features: int, batch: int) -> nn.Module | None:
    batch_norm = BatchNorm if batch < 32 else nn.BatchNorm1d
    kinds: dict[str, Callable[[int], nn.Module]] = {
        "batch": batch_norm,
        "batch-hidden": batch_norm,
        "layer": lnlib.LayerNorm,
        "rms": functools.partial(nn.RMSNorm, eps=1e-5),
    }
    return kinds[name](features) if name in kinds else None


def build(norm: str, batch: int, hidden: int, seed: int) -> Network:
    """Return the network as it is before training; see `Network`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Network(norm, batch, hidden)


def trained(norm: str, rows: tuple[Tensor, Tensor], batch: int = 4, steps: int = 375) -> Network:
    """Return a network with hidden layers of 100 after some steps of Adam on random ``rows``."""
    model = build(norm, batch, 100, seed=0)
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
    model = build(norm, 128, 100, seed)
    steps = optimizer(model.parameters(), lr=lr)
    for _ in range(3000):
        now = F.cross_entropy(model(rows[0]), rows[1])
        steps.zero_grad()
        now.backward()  # type: ignore[no-untyped-call]
        if now < loss:
            return model
        steps.step()
    raise RuntimeError(f"the loss does not come down to {loss}")
