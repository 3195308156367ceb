"""The drawings that chapters share show what they are given."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from lnlib.book import pictures, style


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_a_band_is_the_mean_with_its_interval_on_both_sides(ax):
    curve = {
        "step": np.array([0.0, 5, 9]),
        "loss": np.array([3.0, 2, 1]),
        "loss_pm": np.full(3, 0.5),
    }
    pictures.band(ax, curve, "loss", "a name", style.RIVAL)
    (line,), (band,) = ax.lines, ax.collections
    np.testing.assert_array_equal(line.get_xydata(), [[0, 3], [5, 2], [9, 1]])
    assert (line.get_label(), line.get_color()) == ("a name", style.VERMILLION)
    edges = band.get_paths()[0].vertices
    assert {(0, 2.5), (0, 3.5), (9, 0.5), (9, 1.5)} <= {tuple(point) for point in edges}


@pytest.mark.parametrize(
    ("chosen", "filled"),
    [
        ({"rows": [1]}, [[0] * 6, [1] * 6, [0] * 6, [0] * 6]),
        ({"columns": [2]}, [[0, 0, 1, 0, 0, 0]] * 4),
    ],
)
def test_shared_cells_are_filled(ax, chosen, filled):
    pictures.shared_cells(ax, "a norm", color=style.BLUE, **chosen)
    (mesh,) = ax.collections
    np.testing.assert_array_equal(mesh.get_array(), filled)
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first sample is on top
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("features", "samples")
