"""What the chapter on the LSTM uses: recorded runs with their intervals, and a look inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from torch import Tensor

import lnlib
from lnlib.book import style
from lnlib.book.recorded import recorded
from lnlib.book.seeds import Means, dots, draw, over_seeds
from lnlib.lstm import formula
from lnlib.lstm import weights as learned
from lnlib.lstm.weights import Weights

__all__ = [
    "Means",
    "best",
    "costs",
    "dots",
    "draw",
    "gate_inputs",
    "histograms",
    "means",
    "remembered",
    "weights_of",
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


def histograms(ax: Axes, first: Tensor, last: Tensor, color: str) -> None:
    """Draw how numbers are distributed before training, as a line, and after it, filled."""
    bins = np.linspace(-5, 5, 61).tolist()
    ax.axvspan(-1, 1, color=style.GRID)
    ax.hist(last.flatten().numpy(), bins, color=color, density=True)
    ax.hist(first.flatten().numpy(), bins, histtype="step", color=style.TEXT, density=True)
    ax.set(yticks=[], xlim=(-5, 5))


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
    rows = recorded("lstm", **where, **{"pass": "forward and backward"})
    quartiles = [text.split(" to ") for text in rows["quartiles"]]
    return {
        str(name): (float(middle), float(low), float(high))
        for name, middle, (low, high) in zip(
            rows["provider"], rows["over_lstm"], quartiles, strict=True
        )
    }


def weights_of(layer: torch.nn.Module) -> Weights:
    """Return what the first layer of a `lnlib.LayerNormLSTM`, or its cell, has learned."""
    suffix = "_l0" if isinstance(layer, lnlib.LayerNormLSTM) else ""
    return learned.of(layer, suffix)


@torch.no_grad()
def gate_inputs(layer: lnlib.LayerNormLSTM | torch.nn.LSTM, x: Tensor) -> Tensor:
    """Return what the sigmoids and tanh of the gates see, (T, B, 4H).

    Args:
        layer: of one layer and direction, with biases; a `lnlib.LayerNormLSTM` carries the raw
            cell.
        x: (T, B, I).
    """
    if isinstance(layer, torch.nn.LSTM):
        ih, hh, bias_ih, bias_hh = layer.parameters()
        weights = Weights(ih, hh, bias_ih + bias_hh, *(torch.ones(()),) * 3, None)
        normalize: formula.Normalize = formula.not_normalizing
    else:
        weights, normalize = weights_of(layer), formula.normalizing(layer.eps)
    h = c = x.new_zeros(x.shape[1], layer.hidden_size)
    sums = []
    for inputs in formula.gate_inputs(x, weights, normalize):
        sums.append(inputs + normalize(h @ weights.hh.mT, weights.norm_hh, None))
        h, c = formula.step(inputs, h, c, weights, normalize, "raw")
    return torch.stack(sums)
