"""Train one small network from different γ and β, on the book's digits, and record the curves.

A perceptron 784-128-128-10 has a layer norm before each ReLU. All settings share data, seeds,
weights and the order of the batches; only the first values of γ and β differ, what weight decay
acts on (biases of linear layers are spared throughout), or what is frozen: γ and β, or everything
but them, which then learn at a rate of 0.1 or 1. Plain SGD, since Adam would hide the scale of a
gradient. At each recorded step the table has, over ten seeds, the mean and its 95 %
interval (Student's t) of the loss on the 2,000 test digits, of the accuracy on them, and of the
root mean square of γ in both layer norms.

    python benchmarks/bench_gamma_beta.py   # about three minutes on 2 cores
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from results_table import noted, provenance, write
from torch import Tensor, nn

from lnlib.book.data import Digits, mnist

SEEDS, BATCH, RATE = 10, 100, 0.1
T_95 = 2.262  # Student's t for 9 degrees of freedom: half of a two-sided 95 % interval
STEPS = (0, 5, 10, 20, 40, 80, 160, 240, 320, 480, 640, 800, 1000, 1200)
MEASURED = ("test_loss", "accuracy", "gamma_1", "gamma_2")


class Setting(NamedTuple):
    """What differs: first γ of the two norms, first β, weight decay and whether it acts on both.

    ``learns`` says what is not frozen: "all", "W" (and biases) or "γ, β".
    """

    gammas: tuple[float, float] = (1.0, 1.0)
    beta: float = 0.0
    decay: float = 0.0
    everywhere: bool = False
    relu: bool = True
    learns: str = "all"
    rate: float = RATE


SETTINGS = {
    "γ = 1, β = 0": Setting(),
    "γ = 0.1": Setting(gammas=(0.1, 0.1)),
    "γ = 10": Setting(gammas=(10.0, 10.0)),
    "γ = 10 in layer 1": Setting(gammas=(10.0, 1.0)),
    "γ = 10 in layer 2": Setting(gammas=(1.0, 10.0)),
    "γ = 0": Setting(gammas=(0.0, 0.0)),
    "γ = 0, β = 0.1": Setting(gammas=(0.0, 0.0), beta=0.1),
    "β = 3": Setting(beta=3.0),
    "β = 3, no ReLU": Setting(beta=3.0, relu=False),
    "β = -3": Setting(beta=-3.0),
    "decay on W": Setting(decay=0.01),
    "decay on W, γ, β": Setting(decay=0.01, everywhere=True),
    "γ, β frozen": Setting(learns="W"),
    "γ, β alone": Setting(learns="γ, β"),
    "γ, β alone, rate 1": Setting(learns="γ, β", rate=1.0),
}


def network(setting: Setting) -> nn.Sequential:
    """Return the perceptron with the first γ and β of its two layer norms set."""
    norms = [nn.LayerNorm(128), nn.LayerNorm(128)]
    for norm, gamma in zip(norms, setting.gammas, strict=True):
        nn.init.constant_(norm.weight, gamma)
        nn.init.constant_(norm.bias, setting.beta)
    activation = nn.ReLU if setting.relu else nn.Identity
    hidden = [
        layer
        for width, norm in zip((784, 128), norms, strict=True)
        for layer in (nn.Linear(width, 128), norm, activation())
    ]
    return nn.Sequential(*hidden, nn.Linear(128, 10))


def of_norms(net: nn.Sequential) -> set[nn.Parameter]:
    return {p for layer in net if isinstance(layer, nn.LayerNorm) for p in layer.parameters()}


def freeze(net: nn.Sequential, learns: str) -> None:
    norms = of_norms(net)
    for p in net.parameters():
        p.requires_grad_(learns == "all" or (p in norms) == (learns == "γ, β"))


def optimizer(net: nn.Sequential, setting: Setting) -> torch.optim.SGD:
    norms = of_norms(net)
    matrices = [p for p in net.parameters() if p.ndim == 2]
    biases = [p for p in net.parameters() if p.ndim == 1 and p not in norms]
    groups = [
        {"params": matrices, "weight_decay": setting.decay},
        {"params": list(norms), "weight_decay": setting.decay * setting.everywhere},
        {"params": biases},
    ]
    return torch.optim.SGD(groups, lr=setting.rate)


def batches(x: Tensor, labels: Tensor, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    while True:
        for rows in torch.randperm(len(x), generator=generator).split(BATCH):
            yield x[rows], labels[rows]


@torch.no_grad()
def measure(net: nn.Sequential, x: Tensor, labels: Tensor) -> tuple[float, ...]:
    logits = net(x)
    gammas = [layer.weight for layer in net if isinstance(layer, nn.LayerNorm)]
    return (
        F.cross_entropy(logits, labels).item(),
        (logits.argmax(1) == labels).double().mean().item(),
        *(gamma.square().mean().sqrt().item() for gamma in gammas),
    )


def train(setting: Setting, seed: int, digits: Digits) -> list[Any]:
    """Return what was measured at each of STEPS."""
    torch.manual_seed(seed)
    net = network(setting)
    freeze(net, setting.learns)
    descend = optimizer(net, setting)
    x, test = digits.train_images.flatten(1), digits.test_images.flatten(1)
    curve = [measure(net, test, digits.test_labels)]
    for step, (rows, labels) in enumerate(batches(x, digits.train_labels, seed), start=1):
        descend.zero_grad()
        F.cross_entropy(net(rows), labels).backward()
        descend.step()
        if step in STEPS:
            curve.append(measure(net, test, digits.test_labels))
        if step == STEPS[-1]:
            return curve
    raise AssertionError("batches never end")


def table() -> Iterator[dict[str, Any]]:
    """Yield a row for each recorded step of each setting."""
    digits = mnist()
    for name, setting in SETTINGS.items():
        curves = torch.tensor([train(setting, seed, digits) for seed in range(SEEDS)])
        mean = curves.mean(0)
        half = T_95 * curves.std(0) / math.sqrt(SEEDS)
        for step, values, widths in zip(STEPS, mean.tolist(), half.tolist(), strict=True):
            row: dict[str, Any] = {"setting": name, "step": step, "seeds": SEEDS}
            for key, value, width in zip(MEASURED, values, widths, strict=True):
                row |= {key: f"{value:.5g}", f"{key}_pm": f"{width:.3g}"}
            yield row


def main() -> None:
    where = provenance() | {"torch": torch.__version__}
    write("gamma_beta", noted(table(), lambda: where))


if __name__ == "__main__":
    main()
