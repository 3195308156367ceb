"""What the chapter on the LSTM uses: recorded runs as means, and its figures."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import StepPatch
from results_table import save

from lnlib.book import style
from lnlib.book.records import lstms, tables
from lnlib.book.records.seeds import over_seeds

RUNS = {  # model, learning rate -> accuracies of three seeds after two epochs
    ("lstm", "0.001"): [(0.50, 0.80), (0.52, 0.81), (0.54, 0.85)],
    ("lstm", "0.01"): [(0.70, 0.75), (0.70, 0.76), (0.70, 0.77)],
    ("ln-lstm", "0.001"): [(0.60, 0.90), (0.61, 0.91), (0.62, 0.95)],
}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of recorded results that the chapter reads."""
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    rows = [
        {
            **{"experiment": "rates", "model": model, "lr": lr, "seed": seed, "epoch": epoch},
            **{"test_accuracy": accuracy, "train_loss": 1 - accuracy, "cpu_seconds": 2 * epoch},
        }
        for (model, lr), seeds in RUNS.items()
        for seed, epochs in enumerate(seeds)
        for epoch, accuracy in enumerate(epochs, 1)
    ]
    save(tmp_path / "lstm_training.csv", rows[::-1])
    probes = [
        {
            **{"experiment": "curves", "probe": probe, "model": "lstm", "at": at, "seed": seed},
            "value": value + 0.1 * seed,
        }
        for probe in ("accuracy after row", "gradient at row, after training")
        for at, value in ((1, 0.1), (2, 0.5))
        for seed in range(3)
    ]
    save(tmp_path / "lstm_memory.csv", probes)
    return tmp_path


# Means with intervals


def test_means_are_over_seeds_in_percent_with_students_interval(results: Path) -> None:
    found = lstms.means("rates", model="lstm", lr=0.001)
    second = [80.0, 81.0, 85.0]
    assert found.at.tolist() == [1, 2]
    assert found.mean[1] == pytest.approx(statistics.mean(second))
    # 4.303 is Student's t for two degrees of freedom, from a table with three decimals
    half = 4.303 * statistics.stdev(second) / math.sqrt(3)
    assert found.half[1] == pytest.approx(half)


def test_losses_and_seconds_keep_their_units(results: Path) -> None:
    seconds = lstms.means("rates", "seconds", model="lstm", lr=0.01)
    assert seconds.mean.tolist() == [2, 4]
    loss = lstms.means("rates", "loss", model="ln-lstm", lr=0.001)
    assert loss.mean[1] == pytest.approx(1 - (0.90 + 0.91 + 0.95) / 3)


def test_runs_of_two_kinds_are_not_averaged(results: Path) -> None:
    with pytest.raises(ValueError, match="several kinds of run"):
        lstms.means("rates", model="lstm")


def test_a_run_that_lacks_an_epoch_is_not_averaged() -> None:
    at, seed = np.array([1.0, 2, 1]), np.array([0, 0, 1])
    with pytest.raises(ValueError, match="several kinds of run"):
        over_seeds(at, np.ones(3), seed)


def test_the_best_rate_is_the_one_that_ends_highest(results: Path) -> None:
    best = lstms.best("rates", model="lstm")
    assert best.mean.tolist() == pytest.approx([52, 82])


def test_shares_are_in_percent_and_gradients_as_they_are(results: Path) -> None:
    share = lstms.remembered("accuracy after row", model="lstm")
    assert share.mean.tolist() == pytest.approx([20, 60])
    gradient = lstms.remembered("gradient at row, after training", model="lstm")
    assert gradient.mean.tolist() == pytest.approx([0.2, 0.6])
    assert gradient.at.tolist() == [1, 2]


def test_costs_are_those_of_training_on_a_cpu(results: Path) -> None:
    row = {"device": "cpu", "pass": "forward and backward", "steps": 28, "hidden_size": 128}
    row |= {"kind": "sequences", "batch": 64}
    row |= {"provider": "lnlib", "over_lstm": "1.5", "quartiles": "1.4 to 1.7"}
    other = {"over_lstm": "9", "quartiles": "8 to 10"}
    kinds = {"device": "a GPU"}, {"pass": "forward"}, {"steps": 784}, {"hidden_size": 512}
    kinds += {"kind": "a cell"}, {"batch": 1}
    save(results / "lstm.csv", [*(row | other | kind for kind in kinds), row])
    assert lstms.costs(28, 128) == {"lnlib": (1.5, 1.4, 1.7)}


# Drawing


def test_bands_and_bars_are_the_intervals(results: Path) -> None:
    _, ax = plt.subplots()
    found = lstms.means("rates", model="lstm", lr=0.001)
    lstms.draw(ax, found.at, found, "LSTM", style.RIVAL)
    (band,) = ax.collections
    vertices = band.get_paths()[0].vertices
    assert vertices[:, 1].max() == pytest.approx((found.mean + found.half).max())
    assert vertices[:, 1].min() == pytest.approx((found.mean - found.half).min())
    _, ax = plt.subplots()
    lstms.dots(ax, [7.0], [found], "LSTM", style.RIVAL)
    ((_, _, (bar,)),) = ax.containers
    ends = bar.get_segments()[0]
    half = found.half[-1]
    assert ends[:, 1].tolist() == pytest.approx([found.mean[-1] - half, found.mean[-1] + half])
    plt.close("all")


def test_a_distribution_is_a_line_before_training_and_filled_after_it(results: Path) -> None:
    shares = {"before": (0.7, 0.3), "after": (0.2, 0.6)}
    rows = [
        {
            **{"experiment": "first look", "probe": f"input gate, {when} training"},
            **{"model": "lstm", "at": at, "seed": seed, "value": value},
        }
        for when, values in shares.items()
        for at, value in zip((-0.5, 0.5), values, strict=True)
        for seed in range(2)
    ]
    save(results / "lstm_memory.csv", rows)
    _, ax = plt.subplots()
    lstms.distributions(ax, "lstm", "input", style.BLUE)
    filled, line = (patch for patch in ax.patches if isinstance(patch, StepPatch))
    assert filled.get_fill()
    assert not line.get_fill()
    assert filled.get_data().values.tolist() == pytest.approx([20, 60])  # percent
    assert line.get_data().values.tolist() == pytest.approx([70, 30])
    assert line.get_data().edges.tolist() == [-1, 0, 1]
    plt.close("all")
