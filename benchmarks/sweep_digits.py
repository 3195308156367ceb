"""Train what the chapters compare on the digits, each way at its own rate and with fresh seeds.

    python benchmarks/sweep_digits.py   # half an hour on two free cores

The protocol stands in `lnlib/book/records/verdicts.py`. Ctrl-C stops; the same command goes on.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sweeping
import trainings
from torch import Tensor
from trainings import Way

from lnlib.book.experiments.trainers import (
    RECURRENT,
    Fold,
    Perceptron,
    adapted,
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
    """Yield the ways of chapter 11."""

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


def lstm() -> Iterator[tuple[str, Way]]:
    """Yield the ways of chapter 13: four networks, for one, three and ten epochs."""
    for epochs, low, high in ((3, 0.001, 0.3), (1, 0.003, 0.1), (10, 0.003, 0.03)):
        for kind in RECURRENT:
            run = functools.partial(reading, kind=kind, epochs=epochs)
            yield f"{kind}, {epochs}", Way(low, high, run, ("error",))


TABLES: dict[str, Mapping[str, Way]] = {
    "runs_gamma_beta": dict(gamma_beta()),
    "runs_lstm": dict(lstm()),
}


def run(table: str, job: tuple[str, float, int]) -> dict[str, Any]:
    return trainings.row(job, TABLES[table])


def runs_of(table: str) -> Iterator[dict[str, Any]]:
    """Yield what the rows of each run in ``table`` say of it."""
    return trainings.runs_of(table, TABLES[table])


def main(arguments: Sequence[str] | None = None) -> int:
    options = sweeping.parser(__doc__, list(TABLES), work=None).parse_args(arguments)

    def work() -> None:
        for name in options.only or TABLES:
            trainings.sweep(name, TABLES[name], functools.partial(run, name), options.jobs)

    return sweeping.until_stopped(work)


if __name__ == "__main__":
    raise SystemExit(main())
