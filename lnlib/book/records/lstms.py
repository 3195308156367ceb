"""What the chapter on the LSTM uses: recorded runs with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from lnlib.book import style
from lnlib.book.records.seeds import Means, dots, draw, over_seeds
from lnlib.book.records.tables import recorded

__all__ = [
    "Means",
    "best",
    "costs",
    "distributions",
    "dots",
    "draw",
    "means",
    "remembered",
]

Array = npt.NDArray[Any]
COLUMNS = {"accuracy": "test_accuracy", "loss": "train_loss", "seconds": "cpu_seconds"}


def means(experiment: str, column: str = "accuracy", **where: object) -> Means:
    """Return what `benchmarks/sweep_lstm.py` recorded after each epoch; accuracies in percent.

    Args:
        experiment: of the sweep.
        column: "accuracy", "loss", or "seconds" of a processor.
        where: what else the rows have to say, such as ``model="lstm"`` and ``lr=0.001``.

    Raises:
        FileNotFoundError, ValueError: as `recorded` does.
    """
    rows = recorded("lstm_training", experiment=experiment, **_words(where))
    scale = 100 if column == "accuracy" else 1
    return over_seeds(rows["epoch"], scale * rows[COLUMNS[column]], rows["seed"])


def remembered(probe: str, experiment: str = "curves", **where: object) -> Means:
    """Return what trained networks showed when they were probed; shares in percent.

    Raises:
        FileNotFoundError, ValueError: as `recorded` does.
    """
    rows = recorded("lstm_memory", experiment=experiment, probe=probe, **_words(where))
    scale = 1 if probe.startswith("gradient") else 100
    return over_seeds(rows["at"], scale * rows["value"], rows["seed"])


def best(experiment: str, **where: object) -> Means:
    """Return the accuracies of the learning rate that ends highest, of those that were recorded.

    Raises:
        FileNotFoundError, ValueError: as `recorded` does.
    """
    rates = np.unique(recorded("lstm_training", experiment=experiment, **_words(where))["lr"])
    found = [means(experiment, "accuracy", lr=float(rate), **where) for rate in rates]
    return max(found, key=lambda each: float(each.mean[-1]))


def _words(where: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in where.items()}


def distributions(ax: Axes, model: str, gate: str, color: str) -> None:
    """Draw what enters a gate in recorded runs: before training as a line, after it filled.

    Raises:
        FileNotFoundError, ValueError: as `recorded` does.
    """
    before, after = (
        remembered(f"{gate} gate, {when} training", "first look", model=model)
        for when in ("before", "after")
    )
    half = (before.at[1] - before.at[0]) / 2
    edges = np.append(before.at - half, before.at[-1] + half)
    ax.axvspan(-1, 1, color=style.GRID)
    ax.stairs(after.mean, edges, color=color, fill=True)
    ax.stairs(before.mean, edges, color=style.TEXT)
    ax.set(yticks=[], xlim=(edges[0], edges[-1]))


def costs(steps: int, hidden: int) -> dict[str, tuple[float, float, float]]:
    """Return what training costs on a CPU, as `benchmarks/bench_lstm.py` timed it.

    Args:
        steps: T of the sequences.
        hidden: H.

    Returns:
        For each network the median and the two quartiles of its time over that of `torch.nn.LSTM`.

    Raises:
        FileNotFoundError, ValueError: as `recorded` does.
    """
    where = {"steps": str(steps), "hidden_size": str(hidden), "device": "cpu"}
    where |= {"kind": "sequences", "batch": "64"}
    rows = recorded("lstm", **where, **{"pass": "forward and backward"})
    quartiles = [text.split(" to ") for text in rows["quartiles"]]
    return {
        str(name): (float(middle), float(low), float(high))
        for name, middle, (low, high) in zip(
            rows["provider"], rows["over_lstm"], quartiles, strict=True
        )
    }
