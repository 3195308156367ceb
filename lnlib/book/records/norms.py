"""What `benchmarks/sweep_norms.py` recorded, for the chapters on norms to draw."""

from __future__ import annotations

import numpy as np

from lnlib.book.records.seeds import Means, over_seeds
from lnlib.book.records.tables import recorded

__all__ = ["after", "best_rate", "digits", "novel", "written"]

PERCENT = ("valid_error", "test_error", "test_error_batch")


def best_rate(norm: str, experiment: str, epoch: int = 0) -> float:
    """Return the learning rate whose runs on digits end with the lowest validation loss.

    Args:
        norm: one of `lnlib.book.experiments.mlp.NORMS`.
        experiment: as in `digits`.
        epoch: after which the losses are compared, from 1 on; 0 means the last.

    Raises:
        FileNotFoundError, ValueError: as `recorded` does.
    """
    rates: list[float] = np.unique(
        recorded("mlp_training", experiment=experiment, norm=norm)["lr"]
    ).tolist()
    by_rate = {rate: digits(norm, experiment, "valid_loss", rate).mean for rate in rates}
    return min(rates, key=lambda rate: float(by_rate[rate][epoch - 1]))


def digits(norm: str, experiment: str, column: str, lr: float | None = None) -> Means:
    """Return means over seeds after each epoch on digits; errors in percent.

    Args:
        norm: one of `lnlib.book.experiments.mlp.NORMS`.
        experiment: "batch" (128), "small-batch" (4) or "variants" (128).
        column: of the table.
        lr: by default `best_rate`.

    Raises:
        FileNotFoundError, ValueError: as `recorded` does.
    """
    lr = best_rate(norm, experiment) if lr is None else lr
    rows = recorded("mlp_training", experiment=experiment, norm=norm, lr=str(lr))
    scale = 100 if column in PERCENT else 1
    return over_seeds(rows["epoch"], scale * rows[column], rows["seed"])


def after(epoch: int, norm: str, column: str = "test_error", lr: float | None = None) -> Means:
    """Return means over seeds after one epoch on digits, at batches of 128; errors in percent.

    Args:
        epoch: from 1 on.
        norm: one of `lnlib.book.experiments.mlp.NORMS`.
        column: of the table.
        lr: by default the one that the validation loss after that epoch picks, by `best_rate`.

    Raises:
        FileNotFoundError, ValueError: as `recorded` does.
    """
    experiment = "batch" if norm in ("none", "batch", "batch-hidden", "layer") else "variants"
    lr = best_rate(norm, experiment, epoch) if lr is None else lr
    return Means(*(part[[epoch - 1]] for part in digits(norm, experiment, column, lr)))


def novel(experiment: str, column: str = "valid_bits", **where: object) -> Means:
    """Return means over seeds, of each twentieth of a run on the novel.

    Args:
        experiment: "placements" or "two-minutes".
        column: of the table.
        where: what else the rows have to say, such as ``placement="pre"`` and ``warmup=100``.

    Raises:
        FileNotFoundError, ValueError: as `recorded` does.
    """
    words = {name: str(value) for name, value in where.items()}
    rows = recorded("characters", experiment=experiment, **words)
    return over_seeds(rows["step"], rows[column], rows["seed"])


def written(seed: int = 0, **where: object) -> str:
    """Return what a network of the two minutes wrote.

    Raises:
        FileNotFoundError, ValueError: as `recorded` does.
    """
    words = {name: str(value) for name, value in where.items()}
    (text,) = recorded("characters_written", seed=str(seed), **words)["written"]
    return str(text)
