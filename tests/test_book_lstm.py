"""What the chapter on the LSTM uses: recorded runs as means, the gates' inputs."""

from __future__ import annotations

import csv
import math
import re
import statistics
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
import torch
from matplotlib.patches import Polygon
from torch import nn

import lnlib
from lnlib.book import lstm_chapter, recorded, style
from lnlib.book.build import ROOT
from lnlib.book.seeds import over_seeds

RUNS = {  # model, learning rate -> accuracies of three seeds after two epochs
    ("lstm", "0.001"): [(0.50, 0.80), (0.52, 0.81), (0.54, 0.85)],
    ("lstm", "0.01"): [(0.70, 0.75), (0.70, 0.76), (0.70, 0.77)],
    ("ln-lstm", "0.001"): [(0.60, 0.90), (0.61, 0.91), (0.62, 0.95)],
}


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of recorded results that the chapter reads."""
    monkeypatch.setattr(recorded, "RESULTS", tmp_path)
    rows = [
        {
            **{"experiment": "rates", "model": model, "lr": lr, "seed": seed, "epoch": epoch},
            **{"test_accuracy": accuracy, "train_loss": 1 - accuracy, "cpu_seconds": 2 * epoch},
        }
        for (model, lr), seeds in RUNS.items()
        for seed, epochs in enumerate(seeds)
        for epoch, accuracy in enumerate(epochs, 1)
    ]
    write(tmp_path, "lstm_training", rows[::-1])
    probes = [
        {
            **{"experiment": "curves", "probe": probe, "model": "lstm", "at": at, "seed": seed},
            "value": value + 0.1 * seed,
        }
        for probe in ("accuracy after row", "gradient at row, after training")
        for at, value in ((1, 0.1), (2, 0.5))
        for seed in range(3)
    ]
    write(tmp_path, "lstm_memory", probes)
    return tmp_path


# Means with intervals


def test_means_are_over_seeds_in_percent_with_students_interval(results: Path) -> None:
    found = lstm_chapter.means("rates", model="lstm", lr=0.001)
    second = [80.0, 81.0, 85.0]
    assert found.at.tolist() == [1, 2]
    assert found.mean[1] == pytest.approx(statistics.mean(second))
    # 4.303 is Student's t for two degrees of freedom, from a table with three decimals
    half = 4.303 * statistics.stdev(second) / math.sqrt(3)
    assert found.half[1] == pytest.approx(half)


def test_losses_and_seconds_keep_their_units(results: Path) -> None:
    seconds = lstm_chapter.means("rates", "seconds", model="lstm", lr=0.01)
    assert seconds.mean.tolist() == [2, 4]
    loss = lstm_chapter.means("rates", "loss", model="ln-lstm", lr=0.001)
    assert loss.mean[1] == pytest.approx(1 - (0.90 + 0.91 + 0.95) / 3)


def test_runs_of_two_kinds_are_not_averaged(results: Path) -> None:
    with pytest.raises(ValueError, match="several kinds of run"):
        lstm_chapter.means("rates", model="lstm")


def test_a_run_that_lacks_an_epoch_is_not_averaged() -> None:
    at, seed = np.array([1.0, 2, 1]), np.array([0, 0, 1])
    with pytest.raises(ValueError, match="several kinds of run"):
        over_seeds(at, np.ones(3), seed)


def test_the_best_rate_is_the_one_that_ends_highest(results: Path) -> None:
    best = lstm_chapter.best("rates", model="lstm")
    assert best.mean.tolist() == pytest.approx([52, 82])


def test_shares_are_in_percent_and_gradients_as_they_are(results: Path) -> None:
    share = lstm_chapter.remembered("accuracy after row", model="lstm")
    assert share.mean.tolist() == pytest.approx([20, 60])
    gradient = lstm_chapter.remembered("gradient at row, after training", model="lstm")
    assert gradient.mean.tolist() == pytest.approx([0.2, 0.6])
    assert gradient.at.tolist() == [1, 2]


def test_costs_are_those_of_training_on_a_cpu(results: Path) -> None:
    row = {"device": "cpu", "pass": "forward and backward", "steps": 28, "hidden_size": 128}
    row |= {"provider": "lnlib", "over_lstm": "1.5", "quartiles": "1.4 to 1.7"}
    other = {"over_lstm": "9", "quartiles": "8 to 10"}
    kinds = {"device": "a GPU"}, {"pass": "forward"}, {"steps": 784}, {"hidden_size": 512}
    write(results, "lstm", [*(row | other | kind for kind in kinds), row])
    assert lstm_chapter.costs(28, 128) == {"lnlib": (1.5, 1.4, 1.7)}


# Drawing


def test_bands_and_bars_are_the_intervals(results: Path) -> None:
    _, ax = plt.subplots()
    found = lstm_chapter.means("rates", model="lstm", lr=0.001)
    lstm_chapter.draw(ax, found.at, found, "LSTM", style.RIVAL)
    (band,) = ax.collections
    vertices = band.get_paths()[0].vertices
    assert vertices[:, 1].max() == pytest.approx((found.mean + found.half).max())
    assert vertices[:, 1].min() == pytest.approx((found.mean - found.half).min())
    _, ax = plt.subplots()
    lstm_chapter.dots(ax, [7.0], [found], "LSTM", style.RIVAL)
    ((_, _, (bar,)),) = ax.containers
    ends = bar.get_segments()[0]
    half = found.half[-1]
    assert ends[:, 1].tolist() == pytest.approx([found.mean[-1] - half, found.mean[-1] + half])
    plt.close("all")


# What enters the gates


@pytest.mark.parametrize("kind", [lnlib.LayerNormLSTM, nn.LSTM])
def test_gate_inputs_are_those_of_which_the_outputs_are_made(kind: type) -> None:
    """The outputs are computed again from the sums that enter the gates, and nothing else."""
    torch.manual_seed(0)
    layer = kind(7, 13, dtype=torch.float64)
    for parameter in layer.parameters():  # gains that are not all 1
        nn.init.normal_(parameter)
    x = 3 + torch.randn(5, 3, 7, dtype=torch.float64)
    sums = lstm_chapter.gate_inputs(layer, x)
    assert not sums.requires_grad
    c = torch.zeros(3, 13, dtype=torch.float64)
    for v, output in zip(sums, layer(x)[0], strict=True):
        i, f, g, o = v.chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        n = c
        if kind is lnlib.LayerNormLSTM:
            std = (c.var(1, correction=0, keepdim=True) + layer.eps).sqrt()
            n = layer.norm_c_weight_l0 * (c - c.mean(1, keepdim=True)) / std + layer.norm_c_bias_l0
        # float64, five steps of some hundred operations on numbers near 1
        torch.testing.assert_close(o.sigmoid() * n.tanh(), output, rtol=0, atol=1e-12)


def test_weights_are_found_in_a_network_and_in_a_cell() -> None:
    cell, network = lnlib.LayerNormLSTMCell(7, 13), lnlib.LayerNormLSTM(7, 13)
    ends = "weight_ih weight_hh bias norm_ih_weight norm_hh_weight norm_c_weight norm_c_bias"
    for layer, suffix in ((cell, ""), (network, "_l0")):
        wanted = [layer.get_parameter(name + suffix) for name in ends.split()]
        found = lstm_chapter.weights_of(layer)
        assert all(a is b for a, b in zip(found, wanted, strict=True))


def test_a_histogram_shows_numbers_before_as_a_line_and_after_filled() -> None:
    _, ax = plt.subplots()
    lstm_chapter.histograms(ax, torch.full((3, 5), 0.05), torch.full((7, 2), 2.05), style.BLUE)
    heights = {round(bar.get_x(), 1): bar.get_height() for bar in ax.containers[0]}
    assert max(heights, key=lambda x: heights[x]) == 2.0
    (line,) = (patch for patch in ax.patches if isinstance(patch, Polygon))
    vertices = line.get_path().vertices
    assert vertices[vertices[:, 1].argmax(), 0] == pytest.approx(0.0, abs=1e-9)
    plt.close("all")


# The chapter


def test_every_equation_of_the_chapter_is_named_by_a_check_after_it() -> None:
    content = nbformat.read(ROOT / "notebooks" / "08_ln_lstm.ipynb", as_version=4)
    waiting: set[str] = set()
    printed = []
    for cell in content.cells:
        if cell.cell_type == "markdown":
            labels = re.findall(r"^:label: (eq-\S+)", cell.source, re.MULTILINE)
            printed += labels
            waiting |= set(labels)
        else:
            waiting -= set(re.findall(r'\beq="(eq-[a-z-]+)"', cell.source))
    assert len(printed) >= 12
    assert not waiting
