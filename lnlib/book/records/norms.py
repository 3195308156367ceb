"""What `benchmarks/sweep_norms.py` recorded, for chapters 09 and 10 to draw."""

from __future__ import annotations

import numpy as np

from lnlib.book.records.seeds import Means, over_seeds
from lnlib.book.records.tables import recorded

__all__ = ["best_rate", "digits", "novel", "written"]

PERCENT = ("valid_error", "test_error", "test_error_batch")


def best_rate(norm: str, experiment: str) -> float:
    """Return the learning rate whose runs on digits end with the lowest validation loss.

    Raises:
        FileNotFoundError, ValueError: as `recorded` does.
    """
    rates: list[float] = np.unique(
        recorded("mlp_training", experiment=experiment, norm=norm)["lr"]
    ).tolist()
    last = {rate: digits(norm, experiment, "valid_loss", rate).mean[-1] for rate in rates}
    return min(last, key=lambda rate: last[rate])


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
