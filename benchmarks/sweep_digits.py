"""Train what the chapters compare on the digits, each way at its own rate and with fresh seeds.

    python benchmarks/sweep_digits.py   # two hours on two free cores

The protocol stands in `lnlib/book/records/verdicts.py`. Ctrl-C stops; the same command goes on.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import trainings
from torch import Tensor
from trainings import Way

from lnlib.book.experiments.trainers import (
    Fold,
    Perceptron,
    adapted,
    classify,
    fold,
    measured,
    read,
    trained,
)


def from_scratch(rate: float, seed: int, **how: Any) -> dict[str, float]:
    """Train a perceptron."""
    return with_gammas(trained(rate, seed, **how), fold(seed))


def adapt(rate: float, seed: int, change: str, learns: str) -> dict[str, float]:
    """Let a part of a trained perceptron learn changed digits."""
    return with_gammas(*adapted(CHANGES[change], learns, rate, seed))


def with_gammas(net: Perceptron, digits: Fold) -> dict[str, float]:
    """Return what is measured of every network, and the root mean square of γ in both layers."""
    sizes = (norm.weight.square().mean().sqrt().item() for norm in net.norms)
    return measured(net, digits) | dict(zip(("gamma_1", "gamma_2"), sizes, strict=True))


def dimmed(images: Tensor) -> Tensor:
    return 0.5 + 0.3 * images


def turned(images: Tensor) -> Tensor:
    return images.rot90(1, (1, 2))


CHANGES = {"dimmed": dimmed, "turned": turned}


def gamma_beta() -> Iterator[tuple[str, Way]]:
    """Yield the ways of chapters 03 and 11."""

    def scratch(low: float, high: float, **how: Any) -> Way:
        return Way(low, high, functools.partial(from_scratch, **how))

    yield "γ = 1", scratch(0.01, 3.0)
    yield "γ = 0.1", scratch(0.01, 3.0, gamma=0.1)
    yield "γ = 10", scratch(0.001, 0.3, gamma=10.0)
    yield "γ, β frozen", scratch(0.03, 1.0, learns="others")
    yield "γ, β alone", scratch(1.0, 100.0, learns="norms")
    for decay in (0.001, 0.01):
        yield f"decay {decay:g}, γ spared", scratch(0.03, 1.0, decay=decay)
        yield f"decay {decay:g} on γ too", scratch(0.03, 1.0, decay=decay, spared=False)
    for change in CHANGES:
        for learns, name in (("norms", "γ, β"), ("last", "last layer")):
            run = functools.partial(adapt, change=change, learns=learns)
            yield f"{change}: {name}", Way(0.03, 10.0, run)


def reading(rate: float, seed: int, **how: Any) -> dict[str, float]:
    """Train an LSTM that reads digits row by row."""
    return measured(read(rate=rate, seed=seed, **how), fold(seed))


STRONG, NORMED = "strong LSTM", "layer norm, forget bias"


def lstm() -> Iterator[tuple[str, Way]]:
    """Yield the ways of chapter 11."""

    def way(low: float, high: float, **how: Any) -> Way:
        return Way(low, high, functools.partial(reading, **how), ("error",))

    for epochs, low, high in ((3, 0.001, 0.3), (1, 0.003, 0.1), (10, 0.003, 0.03)):
        for kind in ("LSTM", STRONG, "layer norm", NORMED):
            yield f"{kind}, {epochs}", way(low, high, kind=kind, epochs=epochs)
    for kind, epochs in (("normalized carry", 3), ("γ = 0.1", 1), ("γ = 0.1", 3)):
        yield f"{kind}, {epochs}", way(0.003, 0.1, kind=kind, epochs=epochs)
    for units, name in (("raw", "ink"), ("bytes", "bytes")):
        for kind in ("LSTM", STRONG, NORMED):
            yield f"{kind}, 3, {name}", way(0.001, 0.1, kind=kind, epochs=3, units=units)
    pixels = {"layout": "coarse", "hidden": 64, "batch": 128}
    for kind in (STRONG, NORMED):
        yield f"{kind}, 196 steps", way(0.003, 0.03, kind=kind, epochs=5, **pixels)


def classifying(rate: float, seed: int, **how: Any) -> dict[str, float]:
    """Train the network of the paper's section 6.6."""
    found = measured(classify(rate=rate, seed=seed, **how), fold(seed), ("train", "valid", "test"))
    del found["train_error"]
    return found


def norms() -> Iterator[tuple[str, Way]]:
    """Yield the ways of chapter 09: norms for long, and briefly at two sizes of batch."""
    long = {"epochs": 15, "batch": 128, "hidden": 1000}
    for norm in ("none", "batch", "batch-hidden", "layer", "rms"):
        yield f"{norm}, long", Way(3e-4, 0.01, functools.partial(classifying, norm=norm, **long))
    for batch, low, high in ((128, 3e-4, 0.03), (4, 1e-4, 0.01)):
        for norm in ("none", "batch", "batch-hidden", "layer"):
            run = functools.partial(classifying, norm=norm, epochs=3, batch=batch, hidden=300)
            yield f"{norm}, {batch}", Way(low, high, run)


TABLES: dict[str, Mapping[str, Way]] = {
    "runs_gamma_beta": dict(gamma_beta()),
    "runs_lstm": dict(lstm()),
    "runs_norms": dict(norms()),
}


if __name__ == "__main__":
    raise SystemExit(trainings.command(__doc__, TABLES))
